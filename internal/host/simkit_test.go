package host_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
	"github.com/perdure/perdure/internal/adapter/memory"
	"github.com/perdure/perdure/internal/adapter/simsched"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool"
	"github.com/perdure/perdure/internal/tool/control"
)

// traceTail is how much of a failed story is told; more with -trace-tail.
var traceTail = 4000

// generate is a model as a function.
type generate func(ctx context.Context, req host.ModelRequest, sink func(host.Delta)) (host.ModelResult, error)

// lab is what a test in simulated time is made of. Zero fields are a quiet
// world: a model that says ok, no faults.
type lab struct {
	seed    uint64
	options host.Options
	model   func(sim *simsched.Sim) generate
	info    host.ModelInfo
	specs   func(sim *simsched.Sim) []tool.Spec
	inject  func(sim *simsched.Sim) memory.Injector
	deps    func(sim *simsched.Sim, d *host.Deps) // last changes
	reports bool                                  // reports are expected; else one fails the test
}

// labWorld is a lab at work. Its methods are for the story alone.
type labWorld struct {
	t       *testing.T
	sim     *simsched.Sim
	store   *memory.Store
	deps    host.Deps
	options host.Options
	engine  *host.Engine
	reports []string
	calls   int // of the model
	process int
}

type labModel struct {
	w    *labWorld
	run  generate
	info host.ModelInfo
}

func (m labModel) Model(_ context.Context, _ ident.TenantID, c session.Model) (host.ModelPort, error) {
	if c.Provider != "test" {
		return nil, host.ErrNotFound
	}
	return m, nil
}

func (m labModel) Info(session.Model) host.ModelInfo { return m.info }

func (m labModel) Generate(ctx context.Context, req host.ModelRequest, sink func(host.Delta)) (host.ModelResult, error) {
	if err := strict(req); err != nil {
		return host.ModelResult{}, &host.Fault{Class: host.ClassInvalid, Message: err.Error(), Sent: true}
	}
	m.w.calls++
	return m.run(ctx, req, sink)
}

// said is a plain answer.
func said(text string, calls ...host.ModelCall) (host.ModelResult, error) {
	finish := host.FinishStop
	if len(calls) > 0 {
		finish = host.FinishTools
	}
	return host.ModelResult{Text: text, Calls: calls, Finish: finish, Model: "test-1", Usage: session.Usage{Input: 10, Output: 5}}, nil
}

// asks answers with calls where the newest message is a person's with that
// text, else plainly.
func asks(sim *simsched.Sim, ms int64, text string, calls ...host.ModelCall) generate {
	return func(ctx context.Context, req host.ModelRequest, _ func(host.Delta)) (host.ModelResult, error) {
		if err := sim.Sleep(ctx, ms); err != nil {
			return host.ModelResult{}, err
		}
		if last := req.Messages[len(req.Messages)-1]; last.Role == host.RoleUser && last.Parts[0].Text == text {
			return said("", calls...)
		}
		return said("ok")
	}
}

// play runs a story in simulated time.
func (l lab) play(t *testing.T, story func(ctx context.Context, w *labWorld)) {
	t.Helper()
	sim := simsched.New(l.seed, simsched.Options{MaxSteps: 5_000_000})
	w := &labWorld{t: t, sim: sim, options: l.options}
	var inject memory.Injector
	if l.inject != nil {
		inject = l.inject(sim)
	}
	w.store = memory.New(memory.Options{Now: sim.Now, Inject: func(ctx context.Context, op memory.Op, when memory.When) error {
		if when == memory.Before {
			sim.Yield(op.Name)
		}
		if inject != nil {
			return inject(ctx, op, when)
		}
		return nil
	}})
	var specs []tool.Spec
	if l.specs != nil {
		specs = l.specs(sim)
	}
	tools, err := tool.New(nil, specs, control.Tools())
	require.NoError(t, err)
	run := asks(sim, 20, "")
	if l.model != nil {
		run = l.model(sim)
	}
	w.deps = host.Deps{
		Log: w.store, Blobs: w.store, Checkpoints: w.store, Stash: w.store, Tools: tools, Sched: sim,
		Models: labModel{w, run, l.info}, Keys: host.Keyring{{ID: "k1", Key: []byte(strings.Repeat("k", 32))}},
		Report: func(key host.Key, what string, err error) {
			w.reports = append(w.reports, key.String()+" "+what+": "+err.Error())
		},
	}
	if l.deps != nil {
		l.deps(sim, &w.deps)
	}
	defer func() {
		if t.Failed() {
			trace := sim.Trace()
			t.Logf("reports: %s\nand last:\n%s", strings.Join(w.reports, "\n"), trace[max(0, len(trace)-traceTail):])
		}
	}()
	require.NoError(t, sim.Run(t.Context(), func(ctx context.Context) {
		w.start(w.group(ctx))
		story(ctx, w)
		require.NoError(t, w.engine.Stop(ctx))
	}), "seed %d", l.seed)
	if !l.reports {
		require.Empty(t, w.reports)
	}
}

// group makes the context of a new process.
func (w *labWorld) group(ctx context.Context) context.Context {
	w.process++
	return simsched.WithGroup(ctx, fmt.Sprint("process", w.process))
}

// crash is the end of the process: nothing of it runs on.
func (w *labWorld) crash(context.Context) { w.sim.Kill(fmt.Sprint("process", w.process)) }

// start begins a process over the store.
func (w *labWorld) start(ctx context.Context) {
	w.engine = host.New(w.deps, w.options)
	require.NoError(w.t, w.engine.Start(ctx))
}

func (w *labWorld) do(ctx context.Context, k host.Key, cmds ...session.Command) (host.Done, error) {
	ps := make([]host.Prepared, len(cmds))
	for i, c := range cmds {
		ps[i] = host.Prepared{Command: c}
	}
	return w.engine.Do(ctx, k, ps...)
}

func (w *labWorld) must(ctx context.Context, k host.Key, cmds ...session.Command) host.Done {
	d, err := w.do(ctx, k, cmds...)
	require.NoError(w.t, err)
	return d
}

func (w *labWorld) open(ctx context.Context, k host.Key, c session.Config) {
	w.must(ctx, k, &session.OpenSession{Inc: "i-" + string(k.Session), Config: c, Asked: asked("")})
}

func (w *labWorld) submit(ctx context.Context, k host.Key, input string) ident.RunID {
	return w.must(ctx, k, &session.RequestRun{Input: text(input), Asked: asked("")}).Replies[0].Run
}

// until waits, as clients do, for at most a simulated hour.
func (w *labWorld) until(ctx context.Context, k host.Key, what string, ok func(s *session.State) bool) session.State {
	end := w.sim.Now().Add(ident.Hour)
	for {
		d, err := w.engine.View(ctx, k)
		if err == nil && ok(&d.State) {
			return d.State
		}
		if w.sim.Now() > end {
			require.FailNow(w.t, "it does not come to "+what, "%s\n%s", w.dump(ctx, k), strings.Join(w.reports, "\n"))
		}
		if err != nil {
			check(w.sim.Sleep(ctx, 100))
			continue
		}
		_, err = w.engine.WaitAny(ctx, ident.Minute, w.engine.Watch(k, d.State.Seq))
		check(err)
	}
}

func (w *labWorld) untilIdle(ctx context.Context, k host.Key) session.State {
	return w.until(ctx, k, "idle", idle)
}

func (w *labWorld) untilWaiting(ctx context.Context, k host.Key) session.State {
	return w.until(ctx, k, "waiting", func(s *session.State) bool { return s.Active != nil && s.Active.RunStatus() == session.RunWaits })
}

func (w *labWorld) run(ctx context.Context, k host.Key, id ident.RunID) host.RunView {
	v, err := w.engine.Run(ctx, k, id)
	require.NoError(w.t, err)
	return v
}

func (w *labWorld) head(ctx context.Context, k host.Key) host.Head {
	h, err := w.store.Head(ctx, k)
	require.NoError(w.t, err)
	return h
}

func (w *labWorld) entries(ctx context.Context, k host.Key) []session.Entry {
	h := w.head(ctx, k)
	var out []session.Entry
	for seq := ident.Seq(0); seq < h.Seq; {
		page, err := w.store.Read(ctx, k, seq, h.Seq, 512, 1<<20)
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

func (w *labWorld) dump(ctx context.Context, k host.Key) string {
	var b strings.Builder
	for _, en := range w.entries(ctx, k) {
		fmt.Fprintf(&b, "%d %d %s\n", en.Seq, en.At, en.Event.Kind())
	}
	return b.String()
}

func (w *labWorld) count(ctx context.Context, k host.Key, kind session.Kind) int {
	n := 0
	for _, en := range w.entries(ctx, k) {
		if en.Event.Kind() == kind {
			n++
		}
	}
	return n
}

func (w *labWorld) sleep(ctx context.Context, ms int64) { check(w.sim.Sleep(ctx, ms)) }

// plain are tools that answer at once: t.read (parallel, retry-safe) and
// t.write (an action, not retry-safe).
func plain(*simsched.Sim) []tool.Spec {
	run := func(_ context.Context, c host.ToolCall) (host.ToolResult, error) {
		return host.ToolResult{Text: c.Tool + " ran"}, nil
	}
	return []tool.Spec{
		{Name: "t.read", Kind: tool.KindRead, Parallel: true, RetrySafe: true, Description: "reads", Parameters: anything, Run: run},
		{Name: "t.write", Kind: tool.KindAction, Description: "writes", Parameters: anything, Run: run},
	}
}

// reply is one scripted answer of a model.
type reply func(req host.ModelRequest) (host.ModelResult, error)

func saying(text string) reply {
	return func(host.ModelRequest) (host.ModelResult, error) { return said(text) }
}

func calling(calls ...host.ModelCall) reply {
	return func(host.ModelRequest) (host.ModelResult, error) { return said("", calls...) }
}

func failing(f host.Fault) reply {
	return func(host.ModelRequest) (host.ModelResult, error) { return host.ModelResult{}, &f }
}

// script plays replies in order, each after ms, and then says ok. What it was
// asked is kept in seen.
func script(ms int64, seen *[]host.ModelRequest, replies ...reply) func(*simsched.Sim) generate {
	return func(sim *simsched.Sim) generate {
		return func(ctx context.Context, req host.ModelRequest, _ func(host.Delta)) (host.ModelResult, error) {
			if seen != nil {
				*seen = append(*seen, req)
			}
			next := saying("ok")
			if len(replies) > 0 {
				next, replies = replies[0], replies[1:]
			}
			if err := sim.Sleep(ctx, ms); err != nil {
				return host.ModelResult{}, err
			}
			return next(req)
		}
	}
}

// resultsOf are the results that a request ends with.
func resultsOf(req host.ModelRequest) []host.ModelToolResult {
	return req.Messages[len(req.Messages)-1].Results
}
