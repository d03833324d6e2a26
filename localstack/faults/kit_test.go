package faults

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/replay"
	"github.com/perdure/perdure/internal/adapter/dynamo"
	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/client"
	"github.com/perdure/perdure/internal/cloud"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/localstack/target"
)

// hang is a ceiling for what must come; nothing is held to it. tick is between
// two looks at what nobody tells.
const (
	hang = 4 * time.Minute
	tick = 200 * time.Millisecond
)

func TestMain(m *testing.M) {
	// Most of a test's time is waiting for a lease to run out.
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err) // it is there
	}
	os.Exit(m.Run())
}

// object is JSON in the making.
type object = map[string]any

// world is one test's view of the stack: a session of its own, whose model is
// played by a server of its own.
type world struct {
	*testing.T

	stack *target.Stack
	api   *client.Client
	table *dynamo.Store
	key   host.Key
	model *provider
	tools []*tool
	runs  map[string]string // that were acknowledged: their ids and inputs
}

// visit is a world whose session is not open yet.
func visit(t *testing.T) *world {
	t.Helper()
	stack := target.Deployed(t)
	stack.Need(t, target.Reach)
	return &world{
		T: t, stack: stack, api: client.New(stack.API, stack.Key), runs: map[string]string{}, model: newProvider(t),
		table: dynamo.New(dynamo.NewClient(stack.Config.Copy()), stack.Outputs["Table"], dynamo.Options{}),
		key:   host.Key{Tenant: cloud.Tenant, Session: ident.SessionID("fault-" + strings.ToLower(rand.Text()))},
	}
}

// open makes the session. Actions ask a person first where it says so.
func (w *world) open(tools ...string) {
	w.Helper()
	approvals := "never"
	if slices.Contains(tools, asking) {
		tools, approvals = slices.DeleteFunc(slices.Clone(tools), func(t string) bool { return t == asking }), "action"
	}
	_, err := w.api.CreateSession(w.Context(), object{"id": w.key.Session, "config": object{
		"model": object{"provider": "openai-compatible", "model": "m", "baseUrl": w.model.url},
		"tools": append([]string{}, tools...), "approvals": object{"default": approvals},
	}})
	require.NoError(w, err)
	w.Cleanup(func() {
		if w.Failed() {
			for _, e := range w.events(context.WithoutCancel(w.Context())) {
				w.Logf("%d %s %s", e.Seq, e.Kind, clip(string(e.Data)))
			}
		}
	})
}

// asking stands among tools for the policy that actions are asked for.
const asking = "(asking)"

func clip(s string) string { return s[:min(len(s), 300)] }

func say(text string) api.RequestRun {
	return api.RequestRun{Input: api.Input{{Type: "text", Text: api.Text{Text: text}}}, SubmissionID: rand.Text()}
}

// run asks for a run.
func (w *world) run(input string) string {
	w.Helper()
	return w.runBy(w.api, input)
}

// runBy asks for a run by another door.
func (w *world) runBy(door *client.Client, input string) string {
	w.Helper()
	r, err := door.StartRun(w.Context(), string(w.key.Session), say(input), 0)
	require.NoError(w, err)
	w.runs[r.ID] = input
	return r.ID
}

// until waits for a run to be so.
func (w *world) until(run, status string) (r api.Run) {
	w.Helper()
	w.eventually(func() bool {
		var err error
		r, err = w.api.Run(w.Context(), string(w.key.Session), run, 20)
		require.NoError(w, err)
		return r.Status == status || slices.Contains([]string{"completed", "failed", "cancelled"}, r.Status)
	}, run+" does not come to be "+status)
	require.Equal(w, status, r.Status, "%s: %+v", run, r.Failure)
	return r
}

// decide approves what a run waits for.
func (w *world) decide(door *client.Client, run string) {
	w.Helper()
	r := w.until(run, "waiting")
	for _, a := range r.Approvals {
		if a.Status == "pending" {
			_, err := door.Decide(w.Context(), string(w.key.Session), a.ID, api.DecideApproval{Verdict: api.Verdict{Decision: "approve"}})
			require.NoError(w, err)
		}
	}
}

// calls are how a run's calls stand.
func (w *world) calls(run string) []string {
	w.Helper()
	page, err := w.api.Calls(w.Context(), string(w.key.Session), run)
	require.NoError(w, err)
	var out []string
	for _, c := range page.Items {
		out = append(out, fmt.Sprintf("%s %d", c.Status, max(c.Attempts, 1)))
	}
	return out
}

func (w *world) events(ctx context.Context) (all []api.Event) {
	w.Helper()
	for after := uint64(0); ; {
		page, err := w.api.Events(ctx, string(w.key.Session), after, 512, 0)
		if err != nil {
			w.Errorf("the feed cannot be read: %v", err)
			return all
		}
		all = append(all, page.Events...)
		if after = page.Next; page.Complete {
			return all
		}
	}
}

// count is how many events of a kind there are, with a text in them.
func (w *world) count(kind, with string) (n int) {
	w.Helper()
	for _, e := range w.events(w.Context()) {
		if e.Kind == kind && strings.Contains(string(e.Data), with) {
			n++
		}
	}
	return n
}

func (w *world) head() host.Head {
	w.Helper()
	h, err := w.table.Head(w.Context(), w.key)
	require.NoError(w, err)
	return h
}

// stands waits until the head says so.
func (w *world) stands(status string) (h host.Head) {
	w.Helper()
	w.eventually(func() bool {
		h = w.head()
		return h.Drive.Status == status
	}, "the drive does not come to be "+status)
	return h
}

// eventually looks until it is so, in the test's own goroutine.
func (w *world) eventually(so func() bool, what string) {
	w.Helper()
	late, look := time.After(hang), time.NewTicker(tick)
	defer look.Stop()
	for !so() {
		select {
		case <-look.C:
		case <-late:
			require.FailNow(w, what)
		}
	}
}

// sound holds what must be true after every fault: each run that was
// acknowledged is in the log and has ended, the log folds, the session is at
// rest, nothing runs for it, and no tool did a thing twice that must be done
// once.
func (w *world) sound() host.Head {
	w.Helper()
	for _, run := range slices.Sorted(maps.Keys(w.runs)) {
		w.until(run, "completed")
	}
	h := w.stands(host.DriveIdle)
	require.Zero(w, h.DueAt)
	require.Nil(w, h.Quarantine)
	w.eventually(func() bool { return len(w.running()) == 0 }, "an execution goes on with nothing to do")
	log, err := w.api.Log(w.Context(), string(w.key.Session), 0)
	require.NoError(w, err)
	text, err := io.ReadAll(log)
	require.NoError(w, err)
	require.NoError(w, log.Close())
	state, err := replay.Fold(text, 0)
	require.NoError(w, err)
	require.Equal(w, h.Seq, state.Seq)
	require.Empty(w, state.InFlight())
	for _, input := range w.runs {
		require.Equal(w, 1, w.count("run.accepted", input), "of %q", input)
	}
	for _, tool := range w.tools {
		for operation, n := range tool.done() {
			require.Equal(w, 1, n, "%s was done %d times for %s", tool.name, n, operation)
		}
	}
	return h
}

// provider is a model's server, which knows from where it is asked.
type provider struct {
	*openaitest.Handler

	url string

	mu   sync.Mutex
	from []link
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{Handler: openaitest.NewHandler()}
	p.Rules.Keyless = true
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.from = append(p.from, linkOf(r))
		p.mu.Unlock()
		p.ServeHTTP(rw, r)
	}))
	t.Cleanup(func() {
		p.Release()
		server.Close()
		for _, r := range p.Requests() {
			if r.Refused != "" {
				t.Errorf("the model was asked what it refuses: %s\n%s", r.Refused, r.Body)
			}
		}
	})
	p.url = server.URL + "/v1"
	return p
}

// asked waits for the nth request (from 1), and says from where it came.
func (p *provider) asked(t *testing.T, n int) link {
	t.Helper()
	soon(t, p.Seen(n))
	p.mu.Lock()
	defer p.mu.Unlock()
	require.GreaterOrEqual(t, len(p.from), n, "the test is over")
	return p.from[n-1]
}

// last is from where it was asked last.
func (p *provider) last() link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.from[len(p.from)-1]
}

// soon is what comes out of a channel.
func soon[T any](t *testing.T, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(hang):
		require.FailNow(t, "it does not come")
	}
	return v
}

// call is a call of a tool by the model.
func call(id string, t *tool) openaitest.Call {
	return openaitest.Call{ID: id, Name: t.name, Arguments: "{}"}
}

// tool is an outside tool at a server of this test. It counts what it does.
type tool struct {
	name string
	came chan arrival

	mu    sync.Mutex
	did   map[string]int // by operation
	reply func(arrival) (status int, answer object)
}

// arrival is a call as it came.
type arrival struct {
	OperationID string
	Attempt     int
	Promise     struct{ Token string }

	from link
	gone <-chan struct{}
}

// outside sets a tool up: an action that is not safe to be done twice, unless
// changes say otherwise. It is done when it is asked for, and then answered.
func (w *world) outside(changes object) *tool {
	w.Helper()
	o := &tool{name: "t" + strings.ToLower(rand.Text()[:12]), came: make(chan arrival, 100), did: map[string]int{}}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		a := arrival{from: linkOf(r), gone: r.Context().Done()}
		if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
			w.Errorf("the call cannot be read: %v", err)
		}
		o.mu.Lock()
		o.did[a.OperationID]++
		reply := o.reply
		o.mu.Unlock()
		o.came <- a
		status, answer := http.StatusOK, object{"result": "done"}
		if reply != nil {
			status, answer = reply(a)
		}
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(status)
		_ = json.NewEncoder(rw).Encode(answer) // who asked may be gone
	}))
	w.Cleanup(server.Close)
	definition := object{
		"target": "http", "url": server.URL, "description": "Does a thing.", "parameters": object{"type": "object"},
		"kind": "action", "retrySafe": false, "parallel": true, "completion": "joined",
	}
	maps.Copy(definition, changes)
	require.NoError(w, w.api.PutTool(w.Context(), o.name, definition))
	if definition["retrySafe"] == false {
		w.tools = append(w.tools, o)
	}
	return o
}

// done is how often each operation was done.
func (o *tool) done() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.did)
}

// answers sets how calls are answered from now on.
func (o *tool) answers(reply func(arrival) (int, object)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reply = reply
}
