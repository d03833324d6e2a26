package host_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/memory"
	"github.com/perdure/perdure/internal/adapter/simsched"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool"
)

var errIO = errors.New("input/output error")

// commits makes an injector that fails commits while it is on, and counts them.
type commits struct {
	err   error
	when  memory.When
	tries int
}

func (c *commits) inject(*simsched.Sim) memory.Injector {
	return func(_ context.Context, op memory.Op, when memory.When) error {
		if op.Name != "log.commit" || c.err == nil || when != c.when {
			return nil
		}
		c.tries++
		return c.err
	}
}

// slowTools are t.read and t.write that take a while, and count how often they
// ran.
func slowTools(ms int64, ran map[string]int) func(*simsched.Sim) []tool.Spec {
	return func(sim *simsched.Sim) []tool.Spec {
		specs := plain(sim)
		for i := range specs {
			specs[i].Run = func(ctx context.Context, c host.ToolCall) (host.ToolResult, error) {
				ran[c.Operation]++
				if err := sim.Sleep(ctx, ms); err != nil {
					return host.ToolResult{}, err
				}
				return host.ToolResult{Text: "done"}, nil
			}
		}
		return specs
	}
}

func never(grants ...string) session.Config {
	c := config(grants...)
	c.Approvals.Default = "never"
	return c
}

// A commit whose outcome is not known for half a minute gives nothing up: what
// runs goes on, an unsafe call keeps its answer, and a command is told that it
// is not decided.
func TestAStoreThatAnswersNothingForAWhile(t *testing.T) {
	t.Parallel()
	for _, when := range []memory.When{memory.Before, memory.After} {
		ran := map[string]int{}
		bad := &commits{when: when}
		lab{
			reports: true, inject: bad.inject, specs: slowTools(2000, ran),
			model: func(sim *simsched.Sim) generate { return asks(sim, 20, "go", call("a", "t.write", `{}`)) },
		}.play(t, func(ctx context.Context, w *labWorld) {
			k := key("s")
			w.open(ctx, k, never("t.*"))
			id := w.submit(ctx, k, "go")
			w.until(ctx, k, "a call running", func(s *session.State) bool { return s.Active.Batch != nil })
			bad.err = errIO
			_, err := w.do(ctx, k, &session.SteerRun{Run: id, Text: text("x"), Asked: asked("s1")})
			require.ErrorIs(t, err, host.ErrUnavailable)
			w.sleep(ctx, 30_000)
			_, err = w.engine.View(ctx, k)
			require.NoError(t, err, "reads go on")
			bad.err = nil
			w.untilIdle(ctx, k)
			v := w.run(ctx, k, id)
			require.Equal(t, session.RunDone, v.Status)
			require.Equal(t, 2, w.calls)
			require.Len(t, ran, 1)
			for _, n := range ran {
				require.Equal(t, 1, n)
			}
			calls, err := w.engine.Calls(ctx, k, id)
			require.NoError(t, err)
			require.Equal(t, session.CallCompleted, calls[0].Status)
			d, err := w.do(ctx, k, &session.SteerRun{Run: id, Text: text("x"), Asked: asked("s1")})
			if when == memory.After {
				require.NoError(t, err)
				require.True(t, d.Replies[0].Same, "the lost answer's command had landed")
			}
			require.Less(t, len(w.reports), 6, "told once: %v", w.reports)
		})
	}
}

// A disk that is full for minutes: the answer waits, tried ever more rarely and
// told once; the run goes on when there is room.
func TestADiskFullForMinutes(t *testing.T) {
	t.Parallel()
	bad := &commits{}
	lab{reports: true, inject: bad.inject}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config())
		id := w.submit(ctx, k, "go")
		bad.err = host.ErrFull
		w.sleep(ctx, 10*ident.Minute)
		require.Less(t, bad.tries, 40)
		require.Len(t, w.reports, 1)
		require.Contains(t, w.reports[0], host.ErrFull.Error())
		_, err := w.do(ctx, k, &session.CancelRun{Run: id, Asked: asked("")})
		require.ErrorIs(t, err, host.ErrUnavailable)
		require.ErrorIs(t, err, host.ErrFull)
		bad.err = nil
		w.untilIdle(ctx, k)
		require.Equal(t, session.RunDone, w.run(ctx, k, id).Status)
		require.Equal(t, 1, w.calls, "generated once")
	})
}

// A store that never says what became of a commit: the task gives way to one
// that loads anew, and the answer that it had read is not generated again.
func TestAnOutcomeNeverKnown(t *testing.T) {
	t.Parallel()
	bad := &commits{}
	lab{reports: true, inject: bad.inject}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config())
		id := w.submit(ctx, k, "go")
		bad.err = errIO
		w.sleep(ctx, 20*ident.Minute)
		bad.err = nil
		w.untilIdle(ctx, k)
		require.Equal(t, session.RunDone, w.run(ctx, k, id).Status)
		require.Equal(t, 1, w.calls, "generated once")
	})
}

// offers are tools whose offer fails, or panics, on demand.
type offers struct {
	host.Tools
	err    error
	value  any
	asked  int
	screen any
}

func (o *offers) Offer(ctx context.Context, k host.Key, c session.Config) ([]host.Tool, error) {
	o.asked++
	if o.value != nil {
		panic(o.value)
	}
	if o.err != nil {
		return nil, o.err
	}
	return o.Tools.Offer(ctx, k, c)
}

func (o *offers) Screen(ctx context.Context, k host.Key, a session.Actor, offered []session.ToolDef, name, arguments string) host.Screened {
	if o.screen != nil {
		panic(o.screen)
	}
	return o.Tools.Screen(ctx, k, a, offered, name, arguments)
}

// Tools that cannot be listed: nothing is claimed, commands are taken, and the
// work goes on by itself when they can be listed again; also when that was at a
// start, with something in flight.
func TestToolsThatCannotBeListed(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*offers){
		"error": func(o *offers) { o.err = errIO },
		"panic": func(o *offers) { o.value = "a bug" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &offers{}
			lab{reports: true, deps: func(_ *simsched.Sim, d *host.Deps) { o.Tools, d.Tools = d.Tools, o }}.play(t, func(ctx context.Context, w *labWorld) {
				k := key("s")
				w.open(ctx, k, config())
				spoil(o)
				w.sleep(ctx, 2000)
				id := w.submit(ctx, k, "go")
				w.sleep(ctx, 5*ident.Minute)
				require.Zero(t, w.calls)
				require.Less(t, o.asked, 40)
				require.Len(t, w.reports, 1)
				o.err, o.value = nil, nil
				w.untilIdle(ctx, k)
				require.Equal(t, session.RunDone, w.run(ctx, k, id).Status)

				// At a start.
				id = w.submit(ctx, k, "again")
				w.until(ctx, k, "a model call", func(s *session.State) bool { return s.Active.Turn.Status == session.TurnInFlight })
				w.crash(ctx)
				spoil(o)
				w.start(w.group(ctx))
				w.sleep(ctx, 5*ident.Minute)
				require.Nil(t, w.head(ctx, k).Quarantine)
				o.err, o.value = nil, nil
				w.untilIdle(ctx, k)
				require.Equal(t, session.RunDone, w.run(ctx, k, id).Status)
			})
		})
	}
}

// A resumption whose commit does not go through is tried again.
func TestAResumptionThatCannotBeCommitted(t *testing.T) {
	t.Parallel()
	bad := &commits{}
	lab{reports: true, inject: bad.inject}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config())
		id := w.submit(ctx, k, "go")
		w.until(ctx, k, "a model call", func(s *session.State) bool { return s.Active.Turn.Status == session.TurnInFlight })
		w.crash(ctx)
		bad.err = host.ErrFull
		w.start(w.group(ctx))
		w.sleep(ctx, ident.Minute)
		require.Equal(t, 1, w.calls)
		bad.err = nil
		w.untilIdle(ctx, k)
		require.Equal(t, session.RunDone, w.run(ctx, k, id).Status)
		require.Equal(t, 2, w.calls)
	})
}

// A panic of a model port fails the run; the process, its other sessions and
// the next run go on.
func TestAModelPortThatPanics(t *testing.T) {
	t.Parallel()
	lab{reports: true, model: func(sim *simsched.Sim) generate {
		ok := asks(sim, 20, "")
		return func(ctx context.Context, req host.ModelRequest, sink func(host.Delta)) (host.ModelResult, error) {
			if req.Messages[len(req.Messages)-1].Parts[0].Text == "boom" {
				panic("a bug of the adapter")
			}
			return ok(ctx, req, sink)
		}
	}}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config())
		id := w.submit(ctx, k, "boom")
		w.untilIdle(ctx, k)
		v := w.run(ctx, k, id)
		require.Equal(t, session.RunFails, v.Status)
		require.NotContains(t, v.Failure.Message, "a bug of the adapter", "what it holds is for the operator")
		require.NotContains(t, strings.Join(w.reports, "\n"), "a bug of the adapter", "what panics may hold a session's text")
		require.Contains(t, strings.Join(w.reports, "\n"), "fault_test.go")
		id = w.submit(ctx, k, "next")
		w.untilIdle(ctx, k)
		require.Equal(t, session.RunDone, w.run(ctx, k, id).Status)
	})
}

// rough are tools whose port panics itself.
type rough struct{ host.Tools }

func (r rough) Run(context.Context, host.ToolCall) (host.ToolResult, error) {
	panic("a bug of the port")
}

// A panic of the tools' port: a retry-safe call has failed, of another nobody
// knows.
func TestAToolPortThatPanics(t *testing.T) {
	t.Parallel()
	lab{
		reports: true, specs: plain, deps: func(_ *simsched.Sim, d *host.Deps) { d.Tools = rough{d.Tools} },
		model: func(sim *simsched.Sim) generate {
			return asks(sim, 20, "go", call("a", "t.read", `{}`), call("b", "t.write", `{}`))
		},
	}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, never("t.*"))
		id := w.submit(ctx, k, "go")
		w.untilIdle(ctx, k)
		require.Equal(t, session.RunDone, w.run(ctx, k, id).Status)
		calls, err := w.engine.Calls(ctx, k, id)
		require.NoError(t, err)
		require.Equal(t, session.CallFailed, calls[0].Status)
		require.Equal(t, session.CallUnknown, calls[1].Status)
	})
}

// What the model has answered is not lost to a bug in judging its calls.
func TestScreeningThatPanics(t *testing.T) {
	t.Parallel()
	o := &offers{screen: "a bug"}
	lab{
		reports: true, specs: plain, deps: func(_ *simsched.Sim, d *host.Deps) { o.Tools, d.Tools = d.Tools, o },
		model: func(sim *simsched.Sim) generate { return asks(sim, 20, "go", call("a", "t.read", `{}`)) },
	}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config("t.*"))
		id := w.submit(ctx, k, "go")
		w.untilIdle(ctx, k)
		require.Equal(t, session.RunDone, w.run(ctx, k, id).Status)
		calls, err := w.engine.Calls(ctx, k, id)
		require.NoError(t, err)
		require.Equal(t, session.CallUnavailable, calls[0].Status)
		require.Equal(t, 2, w.calls)
	})
}

// A panic in a session's own task is that session's trouble: who asked is told,
// others go on, and it is looked at again ever more rarely.
func TestASessionsTaskThatPanics(t *testing.T) {
	t.Parallel()
	bad := false
	tries := 0
	lab{reports: true, inject: func(*simsched.Sim) memory.Injector {
		return func(_ context.Context, op memory.Op, when memory.When) error {
			if bad && op.Name == "log.commit" && op.Key == key("s") && when == memory.Before {
				tries++
				panic("a bug of the store")
			}
			return nil
		}
	}}.play(t, func(ctx context.Context, w *labWorld) {
		k, other := key("s"), key("other")
		w.open(ctx, k, config())
		w.open(ctx, other, config())
		id := w.submit(ctx, k, "go")
		bad = true
		w.sleep(ctx, 10*ident.Minute)
		_, err := w.do(ctx, k, &session.RequestRun{Input: text("x"), Asked: asked("")})
		require.ErrorIs(t, err, host.ErrUnavailable)
		require.Less(t, tries, 40)
		require.Less(t, len(w.reports), 5)
		w.submit(ctx, other, "go")
		w.untilIdle(ctx, other)
		bad = false
		w.untilIdle(ctx, k)
		require.Equal(t, session.RunDone, w.run(ctx, k, id).Status)
		require.Equal(t, 2, w.calls, "the answer that was read was kept")
	})
}
