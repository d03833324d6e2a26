package host_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
	"github.com/perdure/perdure/internal/adapter/gosched"
	"github.com/perdure/perdure/internal/adapter/memory"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool"
	"github.com/perdure/perdure/internal/tool/control"
)

// patience is a hang guard: far beyond what any test needs.
const patience = 30 * time.Second

// answer is one scripted reply of the test model. Gate, if set, is awaited
// before it (or the abort).
type answer struct {
	text   string
	first  string // streamed before the gate
	calls  []host.ModelCall
	fault  *host.Fault
	finish string
	gate   <-chan struct{}
	usage  session.Usage
}

// model is a scripted provider: answers in order, requests recorded, and as
// strict as the real ones about calls and results.
type model struct {
	mu       sync.Mutex
	answers  []answer
	requests []host.ModelRequest
	aborts   chan struct{} // one for each call that was aborted
	started  chan host.ModelRequest
	problem  error
	info     host.ModelInfo
}

func (m *model) Info(session.Model) host.ModelInfo { return m.info }

func (m *model) Model(_ context.Context, _ ident.TenantID, c session.Model) (host.ModelPort, error) {
	if c.Provider != "test" {
		return nil, host.ErrNotFound
	}
	return m, nil
}

func (m *model) script(as ...answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answers = append(m.answers, as...)
}

func (m *model) seen() []host.ModelRequest {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]host.ModelRequest(nil), m.requests...)
}

func (m *model) Generate(ctx context.Context, req host.ModelRequest, sink func(host.Delta)) (host.ModelResult, error) {
	m.mu.Lock()
	if err := strict(req); err != nil {
		m.problem = err
	}
	m.requests = append(m.requests, req)
	a := answer{text: "done"}
	if len(m.answers) > 0 {
		a, m.answers = m.answers[0], m.answers[1:]
	}
	m.mu.Unlock()
	select {
	case m.started <- req:
	default:
	}
	if a.first != "" {
		sink(host.Delta{Part: "text", Text: a.first})
	}
	if a.gate != nil {
		select {
		case <-a.gate:
		case <-ctx.Done():
			m.aborts <- struct{}{}
			return host.ModelResult{}, ctx.Err()
		}
	}
	if a.fault != nil {
		return host.ModelResult{}, a.fault
	}
	if a.text != "" {
		sink(host.Delta{Part: "text", Text: a.text})
	}
	finish := a.finish
	if finish == "" {
		finish = host.FinishStop
	}
	usage := a.usage
	if usage.IsZero() {
		usage = session.Usage{Input: 10, Output: 5}
	}
	return host.ModelResult{Text: a.first + a.text, Calls: a.calls, Finish: finish, Model: "test-1", Usage: usage}, nil
}

// strict refuses what real providers refuse: a call without its result right
// after it, in order.
func strict(req host.ModelRequest) error {
	for i, m := range req.Messages {
		switch m.Role {
		case host.RoleAssistant:
			if len(m.Calls) == 0 {
				continue
			}
			if i+1 >= len(req.Messages) || req.Messages[i+1].Role != host.RoleTool {
				return fmt.Errorf("message %d has calls and no results after it", i)
			}
			rs := req.Messages[i+1].Results
			if len(rs) != len(m.Calls) {
				return fmt.Errorf("message %d has %d calls and %d results", i, len(m.Calls), len(rs))
			}
			for j := range rs {
				if rs[j].ID != m.Calls[j].ID {
					return fmt.Errorf("result %d of message %d answers %q, not %q", j, i, rs[j].ID, m.Calls[j].ID)
				}
			}
		case host.RoleTool:
			if i == 0 || req.Messages[i-1].Role != host.RoleAssistant {
				return fmt.Errorf("message %d has results without calls", i)
			}
		}
	}
	return nil
}

// world is an engine over a store that outlives it.
type world struct {
	t      *testing.T
	store  *memory.Store
	ckpt   host.Checkpoints // nil: the store
	sched  *gosched.Sched
	model  *model
	tools  *tool.Registry
	engine *host.Engine
	opts   host.Options
	cancel context.CancelFunc
	ran    sync.Map // operation → times
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, store: memory.New(memory.Options{}), model: &model{started: make(chan host.ModelRequest, 100), aborts: make(chan struct{}, 100)}}
	w.start()
	t.Cleanup(func() { w.kill(); require.NoError(t, w.model.problem) })
	return w
}

// start begins a new process over the same store.
func (w *world) start() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	w.sched = gosched.New()
	var err error
	w.tools, err = tool.New(nil, w.specs(), control.Tools())
	require.NoError(w.t, err)
	w.engine = host.New(host.Deps{
		Log: w.store, Blobs: w.store, Checkpoints: w.checkpoints(), Stash: w.store, Models: w.model, Tools: w.tools, Sched: w.sched,
		Keys:   host.Keyring{{ID: "k1", Key: []byte(strings.Repeat("k", 32))}},
		Report: func(key host.Key, what string, err error) { w.t.Logf("report %s: %s: %v", key, what, err) },
	}, w.opts)
	require.NoError(w.t, w.engine.Start(ctx))
}

func (w *world) checkpoints() host.Checkpoints {
	if w.ckpt != nil {
		return w.ckpt
	}
	return w.store
}

// kill is a crash: the tasks are gone without a word.
func (w *world) kill() { w.cancel() }

func key(s string) host.Key { return host.Key{Tenant: "t1", Session: ident.SessionID(s)} }

func asked(sub string) session.Asked {
	return session.Asked{Actor: session.Actor{ID: "ann"}, Via: "key", Submission: session.Submission{ID: ident.SubmissionID(sub)}}
}

func text(s string) []session.Part { return []session.Part{{Text: blob.Inline(s)}} }

func (w *world) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	w.t.Cleanup(cancel)
	return ctx
}

func (w *world) do(k host.Key, cmds ...session.Command) (host.Done, error) {
	w.t.Helper()
	ps := make([]host.Prepared, len(cmds))
	for i, c := range cmds {
		ps[i] = host.Prepared{Command: c}
	}
	return w.engine.Do(w.ctx(), k, ps...)
}

func (w *world) must(k host.Key, cmds ...session.Command) host.Done {
	w.t.Helper()
	d, err := w.do(k, cmds...)
	require.NoError(w.t, err)
	return d
}

func config(grants ...string) session.Config {
	c := session.Config{Model: session.Model{Provider: "test", Model: "m"}, Approvals: session.ApprovalPolicy{Default: "action"}}
	for _, g := range grants {
		c.Tools = append(c.Tools, session.ToolGrant{Name: g})
	}
	return c
}

func (w *world) open(k host.Key, c session.Config) {
	w.t.Helper()
	w.must(k, &session.OpenSession{Inc: "inc-" + string(k.Session), Config: c, Asked: asked("")})
}

func (w *world) submit(k host.Key, id, input string) ident.RunID {
	w.t.Helper()
	return w.must(k, &session.RequestRun{Input: text(input), Asked: asked(id)}).Replies[0].Run
}

// until waits for a condition on the session's state, woken by commits.
func (w *world) until(k host.Key, what string, ok func(s *session.State) bool) session.State {
	w.t.Helper()
	ctx := w.ctx()
	for {
		d, err := w.engine.View(ctx, k)
		require.NoError(w.t, err)
		if ok(&d.State) {
			return d.State
		}
		if _, err := w.engine.WaitAny(ctx, -1, w.engine.Watch(k, d.State.Seq)); err != nil {
			require.NoError(w.t, err, "waiting for %s; state: %s", what, w.dump(k))
		}
	}
}

func (w *world) untilIdle(k host.Key) session.State {
	w.t.Helper()
	return w.until(k, "idle", func(s *session.State) bool { return s.Active == nil && len(s.Queue) == 0 })
}

func (w *world) run(k host.Key, id ident.RunID) host.RunView {
	w.t.Helper()
	v, err := w.engine.Run(w.ctx(), k, id)
	require.NoError(w.t, err)
	return v
}

func (w *world) entries(k host.Key) []session.Entry {
	w.t.Helper()
	h, err := w.store.Head(w.ctx(), k)
	require.NoError(w.t, err)
	var out []session.Entry
	for seq := ident.Seq(0); seq < h.Seq; {
		page, err := w.store.Read(w.ctx(), k, seq, h.Seq, 512, 1<<20)
		require.NoError(w.t, err)
		for _, st := range page {
			en, err := wire.Decode(st.Data)
			require.NoError(w.t, err)
			out = append(out, en)
			seq = st.Seq
		}
	}
	return out
}

func (w *world) kinds(k host.Key) []string {
	var out []string
	for _, en := range w.entries(k) {
		out = append(out, string(en.Event.Kind()))
	}
	return out
}

func (w *world) dump(k host.Key) string { return strings.Join(w.kinds(k), "\n") }

func (w *world) count(k host.Key, kind session.Kind) int {
	n := 0
	for _, s := range w.kinds(k) {
		if s == string(kind) {
			n++
		}
	}
	return n
}

// times says how often an operation ran.
func (w *world) times(op string) int {
	v, _ := w.ran.LoadOrStore(op, new(int))
	n, _ := v.(*int)
	return *n
}

var errBroken = errors.New("connection lost")

const anything = `{"type":"object","properties":{"x":{"type":"string"}},"additionalProperties":false}`

// specs are the test's tools: read (parallel, retry-safe), write (an action,
// exclusive, not retry-safe), slow (gated by a channel).
func (w *world) specs() []tool.Spec {
	var mu sync.Mutex
	count := func(c host.ToolCall) {
		mu.Lock()
		defer mu.Unlock()
		v, _ := w.ran.LoadOrStore(c.Tool+" "+c.Arguments, new(int))
		n, _ := v.(*int)
		*n++
	}
	run := func(_ context.Context, c host.ToolCall) (host.ToolResult, error) {
		count(c)
		return host.ToolResult{Text: c.Tool + " ran with " + c.Arguments}, nil
	}
	return []tool.Spec{
		{Name: "t.read", Kind: tool.KindRead, Parallel: true, RetrySafe: true, Description: "reads", Parameters: anything, Run: run},
		{Name: "t.write", Kind: tool.KindAction, Description: "writes", Parameters: anything, Run: run},
		{Name: "t.fail", Kind: tool.KindRead, Parallel: true, RetrySafe: true, Description: "fails", Parameters: anything, Run: func(_ context.Context, c host.ToolCall) (host.ToolResult, error) {
			count(c)
			return host.ToolResult{Text: "it failed", Error: true}, nil
		}},
		{Name: "t.slow", Kind: tool.KindRead, Parallel: true, RetrySafe: true, Description: "waits", Parameters: anything, Run: func(ctx context.Context, c host.ToolCall) (host.ToolResult, error) {
			count(c)
			<-ctx.Done()
			return host.ToolResult{}, ctx.Err()
		}},
		{Name: "t.lost", Kind: tool.KindRead, Description: "commits and loses the connection", Parameters: anything, Run: func(_ context.Context, c host.ToolCall) (host.ToolResult, error) {
			count(c)
			return host.ToolResult{}, &host.Fault{Class: host.ClassNetwork, Message: "connection lost", Sent: true, Err: errBroken}
		}},
	}
}

func call(id, tool, args string) host.ModelCall {
	return host.ModelCall{ID: id, Name: strings.ReplaceAll(tool, ".", "_"), Arguments: args}
}
