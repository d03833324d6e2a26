package cloud_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/events"
	"github.com/perdure/perdure/internal/adapter/dir"
	"github.com/perdure/perdure/internal/adapter/gosched"
	"github.com/perdure/perdure/internal/adapter/memory"
	"github.com/perdure/perdure/internal/adapter/sfn"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/client"
	"github.com/perdure/perdure/internal/cloud"
	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/host"
)

// hang is a ceiling for what must come; nothing is held to it. tick is between
// two looks.
const (
	hang = time.Minute
	tick = 5 * time.Millisecond
)

const (
	adminKey   = "pk_admin_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	workURL    = "https://sqs.example/1/work"
	outboxURL  = "https://sqs.example/1/outbox"
	publicURL  = "https://p.example"
	secretRoot = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// output keeps a log.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// lines are those of a log, parsed.
func (o *output) lines(t *testing.T) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range bytes.Lines([]byte(o.String())) {
		var m map[string]any
		require.NoError(t, json.Unmarshal(line, &m), "%s", line)
		all = append(all, m)
	}
	return all
}

// metric is the last value of a metric in a log, and its dimensions.
func (o *output) metric(t *testing.T, name string) (value float64, dimensions any, there bool) {
	t.Helper()
	for _, m := range o.lines(t) {
		if v, ok := m[name].(float64); ok && m["_aws"] != nil {
			directive := m["_aws"].(map[string]any)["CloudWatchMetrics"].([]any)[0].(map[string]any)
			require.Equal(t, "Perdure", directive["Namespace"])
			require.Equal(t, "perdure-test", m["function"])
			value, dimensions, there = v, directive["Dimensions"], true
		}
	}
	return value, dimensions, there
}

// world is a stack in this process: the functions are the real ones, round them
// are stores in memory and the state machine by hand.
type world struct {
	t          *testing.T
	store      *memory.Store
	waker      *memory.Waker
	workspaces *dir.Workspaces
	log        *output
	variables  map[string]string

	mu      sync.Mutex
	secrets map[string]string
	denied  error // what reading a secret comes back with, if not nil
	sent    map[string][]string
	invoked func(function string, payload []byte) (answer []byte, failed bool)
	woken   map[string]chan struct{}
	made    map[string]*cloud.Function
	steps   []string // what the machine has done
	log2    host.Log // in the place of the store, if set

	loses func(a memory.Activation) bool // whether an activation is lost as it starts
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, log: &output{}, store: memory.New(memory.Options{Now: gosched.New().Now}), sent: map[string][]string{},
		woken: map[string]chan struct{}{}, made: map[string]*cloud.Function{},
		secrets: map[string]string{
			"key": `{"id":"admin","secret":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}`, "signing": `{"id":"1","secret":"` + secretRoot + `"}`,
		},
		variables: map[string]string{
			env.AWSFunction: "perdure-test", env.Table: "t", env.Bucket: "b", env.Machine: "m", env.KeySecret: "key", env.SigningSecret: "signing",
			env.Inbox: "i", env.Outbox: outboxURL, env.Work: workURL, env.PublicURL: publicURL, env.Secrets: "perdure/p/",
		},
	}
	var err error
	w.workspaces, err = dir.Open(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.workspaces.Close()) })
	w.waker = memory.NewWaker(memory.WakerOptions{
		Now: gosched.New().Now,
		Started: func(a memory.Activation) {
			if w.loses == nil || !w.loses(a) {
				go w.machine(a)
			}
		},
		Woken: func(_ memory.Activation, token string) { close(w.wake(token)) },
	})
	return w
}

// function is the function of a role: one process of it.
func (w *world) function(role string) *cloud.Function {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.made[role] == nil {
		w.made[role] = w.cold(role)
	}
	return w.made[role]
}

// cold is a fresh process.
func (w *world) cold(role string) *cloud.Function {
	return cloud.New(context.WithoutCancel(w.t.Context()), cloud.Config{
		Role: role, Out: w.log, Version: "v0",
		Lookup: func(name string) (string, bool) {
			v, there := w.variables[name]
			return v, there
		},
		Connect: func(_ context.Context, set env.Function) (cloud.Ports, error) {
			log := host.Log(w.store)
			if w.log2 != nil {
				log = w.log2
			}
			return cloud.Ports{
				Log: log, Blobs: w.store, Checkpoints: w.store, Stash: w.store, Waker: w.waker, Workspaces: w.workspaces,
				Secrets: w, Queues: w, Functions: w,
			}, nil
		},
	})
}

// Secret implements cloud.Secrets.
func (w *world) Secret(_ context.Context, name string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.denied != nil {
		return "", w.denied
	}
	text, there := w.secrets[name]
	if !there {
		return "", host.ErrNotFound
	}
	return text, nil
}

// Send implements cloud.Queues.
func (w *world) Send(_ context.Context, url, body string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent[url] = append(w.sent[url], body)
	return nil
}

// take returns what was sent to a queue, once.
func (w *world) take(url string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	sent := w.sent[url]
	w.sent[url] = nil
	return sent
}

// Invoke implements cloud.Functions.
func (w *world) Invoke(_ context.Context, function string, payload []byte) (answer []byte, failed bool, err error) {
	answer, failed = w.invoked(function, payload)
	return answer, failed, nil
}

func (w *world) wake(token string) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.woken[token] == nil {
		w.woken[token] = make(chan struct{})
	}
	return w.woken[token]
}

func (w *world) did(step string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps = append(w.steps, step)
}

func (w *world) done() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string{}, w.steps...)
}

// invocation is the context of one, as Lambda makes it.
func (w *world) invocation() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(w.t.Context()), 15*time.Minute)
}

// machine is infra/asl/session.asl.json by hand.
func (w *world) machine(a memory.Activation) {
	data, err := sfn.Input(a.Key, a.Inc, a.Epoch)
	for err == nil {
		var next struct {
			Next  string            `json:"next"`
			Calls []json.RawMessage `json:"calls"`
		}
		if data, err = w.drive(data); err != nil {
			break
		}
		if err = json.Unmarshal(data, &next); err != nil {
			break
		}
		w.did(next.Next)
		switch next.Next {
		case host.NextDone:
			if err := w.waker.End(context.WithoutCancel(w.t.Context()), a.Key, a.Inc, a.Epoch); err != nil {
				w.t.Error(err)
			}
			return
		case host.NextTools:
			for _, call := range next.Calls {
				err = errors.Join(err, w.tool(data, call))
			}
		case host.NextWait:
			err = w.park(a, data)
		}
	}
	w.t.Errorf("the machine of %v has failed: %s\n%s", a, err, w.log)
}

func (w *world) drive(data []byte) ([]byte, error) {
	ctx, cancel := w.invocation()
	defer cancel()
	event := fmt.Sprintf(`{"data":%s,"began":%q}`, data, time.Now().UTC().Format(time.RFC3339Nano))
	return w.function(env.FunctionDrive).Drive(ctx, "req-drive", []byte(event))
}

func (w *world) tool(data, call []byte) error {
	ctx, cancel := w.invocation()
	defer cancel()
	var event map[string]any
	if err := json.Unmarshal(data, &event); err != nil {
		return err
	}
	delete(event, "next")
	delete(event, "calls")
	event["call"] = json.RawMessage(call)
	raw, err := json.Marshal(event)
	if err != nil {
		return err
	}
	return w.function(env.FunctionTool).Tool(ctx, "req-tool", raw)
}

func (w *world) park(a memory.Activation, data []byte) error {
	ctx, cancel := w.invocation()
	defer cancel()
	token, err := w.waker.Park(ctx, a.Key, a.Inc, a.Epoch, 0)
	if err != nil {
		return err
	}
	if err := w.function(env.FunctionPark).Park(ctx, "req-park", fmt.Appendf(nil, `{"data":%s,"token":%q}`, data, token)); err != nil {
		return err
	}
	select {
	case <-w.wake(token):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serve puts a gateway before the function api.
func (w *world) serve() *client.Client {
	w.t.Helper()
	server := httptest.NewServer(w.gateway(env.FunctionAPI))
	w.t.Cleanup(server.Close)
	return client.New(server.URL, adminKey)
}

func (w *world) gateway(role string) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 30*time.Second)
		defer cancel()
		w.function(role).ServeRequest(rw, r.WithContext(ctx), "req-http")
	})
}

// ended waits for a run to end, or to wait for somebody.
func ended(t *testing.T, c *client.Client, session, run string) api.Run {
	t.Helper()
	for {
		got, err := c.Run(t.Context(), session, run, 20)
		require.NoError(t, err)
		if got.Status != "queued" && got.Status != "running" && got.Status != "cancelling" {
			return got
		}
	}
}

// over waits for a run to end: after a decision it waits until its driver has
// heard of it.
func over(t *testing.T, c *client.Client, session, run string) (got api.Run) {
	t.Helper()
	require.Eventually(t, func() bool {
		got = ended(t, c, session, run)
		return got.Status != "waiting"
	}, hang, tick)
	return got
}

// script is a session's config whose model makes these steps.
func script(steps string, tools ...string) map[string]any {
	return map[string]any{
		"model": map[string]any{"provider": "scripted", "model": "script", "params": json.RawMessage(`{"steps":` + steps + `}`)},
		"tools": append([]string{}, tools...),
	}
}

func say(text string) api.RequestRun {
	return api.RequestRun{Input: api.Input{{Type: "text", Text: api.Text{Text: text}}}}
}

func sample(t *testing.T, name string) []byte {
	t.Helper()
	data, err := fs.ReadFile(events.Files(), "invoke/"+name)
	require.NoError(t, err)
	return data
}
