package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/gosched"
	"github.com/perdure/perdure/internal/adapter/memory"
	"github.com/perdure/perdure/internal/adapter/scripted"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool"
	"github.com/perdure/perdure/internal/tool/control"
)

// patience is a hang guard: far beyond what any test needs.
const patience = 30 * time.Second

// at is where the test server believes to be.
const at = "127.0.0.1:7337"

// keys of the test's people.
const (
	ann     = "pk_ann_secret"     // everything, with the role lead
	bob     = "pk_bob_secret"     // another tenant
	reader  = "pk_reader_secret"  // sessions:read alone
	decider = "pk_decider_secret" // approvals:decide alone, no role
	broken  = "pk_broken_secret"  // the store of keys fails
)

type people struct{}

func (people) Authenticate(_ context.Context, token string) (api.Principal, error) {
	switch token {
	case ann:
		return api.Principal{Tenant: "t1", Actor: "ann", Roles: []string{"lead"}, Scopes: api.AllScopes(), Key: "ann"}, nil
	case bob:
		return api.Principal{Tenant: "t2", Actor: "bob", Roles: []string{"lead"}, Scopes: api.AllScopes(), Key: "bob"}, nil
	case reader:
		return api.Principal{Tenant: "t1", Actor: "rita", Scopes: []string{api.ScopeRead}, Key: "reader"}, nil
	case decider:
		return api.Principal{Tenant: "t1", Actor: "dan", Scopes: []string{api.ScopeDecide}, Key: "decider"}, nil
	case broken:
		return api.Principal{}, io.ErrUnexpectedEOF
	}
	return api.Principal{}, api.ErrUnauthenticated
}

// providers has the scripted model under one name.
type providers struct{ *scripted.Script }

func (p providers) Model(ctx context.Context, tenant ident.TenantID, m session.Model) (host.ModelPort, error) {
	if m.Provider != "test" {
		return nil, host.ErrNotFound
	}
	return p.Script.Model(ctx, tenant, m)
}

// world is a server over a real engine.
type world struct {
	t      *testing.T
	store  *memory.Store
	engine *host.Engine
	model  *scripted.Script
	tools  *tools
	hub    *memory.Hub
	tokens chan string // of promises, as the outside tool got them
	log    *bytes.Buffer
	deps   api.Deps
	stop   func()
	later  atomic.Int64 // milliseconds by which the engine's clock is ahead
	saying sync.Mutex
	over   bool // the test, so nothing may be logged any more
	http.Handler
}

type change func(*api.Deps, *memory.Options)

func setup(t *testing.T, changes ...change) *world {
	t.Helper()
	w := &world{t: t, model: scripted.NewScript(), tools: &tools{all: map[string]api.Tool{}}, hub: memory.NewHub(), tokens: make(chan string, 100), log: new(bytes.Buffer)}
	for range 50 {
		w.model.Add(scripted.Step{Text: "done"})
	}
	d := api.Deps{
		Auth: people{}, Keys: host.Keyring{{ID: "k1", Key: []byte(strings.Repeat("k", 32))}}, Secret: []byte(strings.Repeat("s", 32)), Tools: w.tools,
		Guard: api.Guard{Port: 7337}, Version: "test", KeyHint: "the key lies in a file", Log: slog.New(slog.NewTextHandler(&locked{w: w.log}, nil)),
		DefaultConfig: func(context.Context, ident.TenantID) api.Config {
			return api.Config{Model: api.ModelConfig{Provider: "test", Model: "default"}}
		},
	}
	o := memory.Options{Now: shifted{gosched.New(), &w.later}.Now}
	for _, c := range changes {
		c(&d, &o)
	}
	w.store, w.deps = memory.New(o), d
	w.start()
	return w
}

// start begins a process over the store.
func (w *world) start() {
	w.t.Helper()
	registry, err := tool.New(nil, w.specs(), control.Tools())
	require.NoError(w.t, err)
	w.engine = host.New(host.Deps{
		Log: w.store, Blobs: w.store, Checkpoints: w.store, Stash: w.store, Models: providers{w.model}, Tools: registry, Sched: shifted{gosched.New(), &w.later}, Keys: w.deps.Keys,
		Frames: w.hub, Report: w.report,
	}, host.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	w.t.Cleanup(func() {
		cancel()
		w.saying.Lock()
		defer w.saying.Unlock()
		w.over = true
	})
	require.NoError(w.t, w.engine.Start(ctx))
	d := w.deps
	d.Engine, d.Stash, d.Streams.Live = w.engine, w.store, w.hub
	w.Handler = api.New(d)
}

// report is what the engine has to say, as long as the test is there to hear it:
// tasks that a cancelled context ends may be slower.
func (w *world) report(key host.Key, what string, err error) {
	w.saying.Lock()
	defer w.saying.Unlock()
	if !w.over {
		w.t.Logf("report %s: %s: %v", key, what, err)
	}
}

// shifted is a scheduler whose clock a test moves.
type shifted struct {
	*gosched.Sched
	by *atomic.Int64
}

// Now implements host.Sched.
func (s shifted) Now() ident.Instant { return s.Sched.Now().Add(s.by.Load()) }

// restart begins another process over the store, once the one before is gone.
func (w *world) restart() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(w.t, w.engine.Stop(ctx))
	w.stop()
	w.start()
}

// locked lets tasks share a buffer.
type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// tools is the port of definitions, in memory.
type tools struct {
	mu  sync.Mutex
	all map[string]api.Tool
}

func (s *tools) Tools(_ context.Context, tenant ident.TenantID, after string, limit int) ([]api.Tool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []api.Tool
	for _, name := range []string{"a.one", "b.two", "c.three"} {
		if t, ok := s.all[string(tenant)+"/"+name]; ok && name > after && len(out) < limit {
			out = append(out, t)
		}
	}
	return out, nil
}

func (s *tools) Tool(_ context.Context, tenant ident.TenantID, name string) (api.Tool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.all[string(tenant)+"/"+name]
	if !ok {
		return t, host.ErrNotFound
	}
	return t, nil
}

func (s *tools) PutTool(_ context.Context, tenant ident.TenantID, t api.Tool) (bool, error) {
	if t.URL == "ftp://x" {
		return false, &host.Rejection{Code: host.CodeValidation, Message: "url is neither http nor https"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, there := s.all[string(tenant)+"/"+t.Name]
	s.all[string(tenant)+"/"+t.Name] = t
	return !there, nil
}

func (s *tools) DeleteTool(_ context.Context, tenant ident.TenantID, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.all[string(tenant)+"/"+name]; !ok {
		return host.ErrNotFound
	}
	delete(s.all, string(tenant)+"/"+name)
	return nil
}

const anything = `{"type":"object","properties":{"x":{"type":"string"}},"additionalProperties":false}`

func (w *world) specs() []tool.Spec {
	run := func(_ context.Context, c host.ToolCall) (host.ToolResult, error) {
		return host.ToolResult{Text: c.Tool + " ran with " + c.Arguments, Effects: []session.ToolEffect{{Kind: "http.sent", Subject: "x"}}}, nil
	}
	later := func(_ context.Context, c host.ToolCall) (host.ToolResult, error) {
		w.tokens <- c.Token
		return host.ToolResult{Accepted: true}, nil
	}
	return []tool.Spec{
		{Name: "t.read", Kind: tool.KindRead, Parallel: true, RetrySafe: true, Description: "reads", Parameters: anything, Run: run},
		{Name: "t.write", Kind: tool.KindAction, Description: "writes", Parameters: anything, Run: run},
		{Name: "t.later", Kind: tool.KindRead, Class: session.ClassJoined, Description: "answers later", Parameters: anything, Run: later},
		{Name: "t.promise", Kind: tool.KindRead, Class: session.ClassPromise, Description: "promises", Parameters: anything, Run: later},
	}
}

// response is what came back.
type response struct {
	t *testing.T
	*httptest.ResponseRecorder
}

type option func(*http.Request)

func as(key string) option {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+key) }
}

func header(name, value string) option { return func(r *http.Request) { r.Header.Set(name, value) } }

// request makes a request of ann's. A body that is a string is sent as it is.
func request(method, path string, body any, opts ...option) *http.Request {
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(b)
	default:
		data, err := json.Marshal(b)
		if err != nil {
			panic(err)
		}
		reader = bytes.NewReader(data)
	}
	r := httptest.NewRequest(method, "http://"+at+path, reader)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	as(ann)(r)
	for _, o := range opts {
		o(r)
	}
	return r
}

func (w *world) call(method, path string, body any, opts ...option) *response {
	w.t.Helper()
	rec := httptest.NewRecorder()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	w.ServeHTTP(rec, request(method, path, body, opts...).WithContext(ctx))
	require.NoError(w.t, ctx.Err(), "%s %s hangs", method, path)
	return &response{w.t, rec}
}

// is checks the status of a success and decodes its body.
func (r *response) is(status int, into any) *response {
	r.t.Helper()
	require.Equal(r.t, status, r.Code, r.Body.String())
	if into != nil {
		require.Equal(r.t, "application/json", r.Header().Get("Content-Type"))
		reflect.ValueOf(into).Elem().SetZero()
		require.NoError(r.t, json.Unmarshal(r.Body.Bytes(), into), r.Body.String())
	}
	return r
}

// refused checks that the answer is a problem of a code, whole and well-formed.
func (r *response) refused(status int, code string) api.Problem {
	r.t.Helper()
	require.Equal(r.t, status, r.Code, r.Body.String())
	require.Equal(r.t, "application/problem+json", r.Header().Get("Content-Type"), r.Body.String())
	var p api.Problem
	require.NoError(r.t, json.Unmarshal(r.Body.Bytes(), &p))
	require.Equal(r.t, code, p.Code, r.Body.String())
	require.Equal(r.t, status, p.Status)
	require.Equal(r.t, "urn:perdure:problem:"+code, p.Type)
	require.NotEmpty(r.t, p.Title)
	return p
}

// m is a JSON object.
type m = map[string]any

func config(tools ...string) m {
	return m{"model": m{"provider": "test", "model": "m"}, "tools": append([]string{}, tools...)}
}

func (w *world) create(id string, tools ...string) api.Session {
	w.t.Helper()
	var out api.Session
	w.call("POST", "/v1/sessions", m{"id": id, "config": config(tools...)}).is(201, &out)
	return out
}

func (w *world) run(id, text string) api.Run {
	w.t.Helper()
	var out api.Run
	w.call("POST", "/v1/sessions/"+id+"/runs?wait=20", m{"input": text}).is(202, &out)
	return out
}

func (w *world) session(id string) api.Session {
	w.t.Helper()
	var out api.Session
	w.call("GET", "/v1/sessions/"+id, nil).is(200, &out)
	return out
}

// gated makes the next answer of a session wait; the returned func lets it go.
func (w *world) gated(id string, step scripted.Step) (begun <-chan struct{}, open func()) {
	gate, begins := make(chan struct{}), make(chan struct{})
	step.Gate, step.Begun = gate, func() { close(begins) }
	w.model.For(ident.SessionID(id), step)
	open = sync.OnceFunc(func() { close(gate) })
	w.t.Cleanup(open)
	return begins, open
}

func call(tool, args string) scripted.Call {
	return scripted.Call{Tool: tool, Arguments: args}
}

// busy starts a run that is in flight until the returned func is called.
func (w *world) busy(id string) (api.Run, func()) {
	w.t.Helper()
	begun, open := w.gated(id, scripted.Step{Text: "done at last"})
	var out api.Run
	w.call("POST", "/v1/sessions/"+id+"/runs", m{"input": "take your time"}).is(202, &out)
	select {
	case <-begun:
	case <-time.After(patience):
		w.t.Fatal("the model is not called")
	}
	return out, open
}

// failing makes an operation of the store fail for sessions called full.
func failing(name string) change {
	return func(_ *api.Deps, o *memory.Options) {
		o.Inject = func(_ context.Context, op memory.Op, when memory.When) error {
			if op.Name == name && when == memory.Before && op.Key.Session == "full" {
				return host.ErrFull
			}
			return nil
		}
	}
}
