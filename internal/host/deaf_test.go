package host_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/simsched"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool"
)

// deafModel never heeds its context: the first call hangs for an hour.
func deafModel(sim *simsched.Sim) generate {
	first := true
	return func(ctx context.Context, _ host.ModelRequest, _ func(host.Delta)) (host.ModelResult, error) {
		if first {
			first = false
			check(sim.Sleep(context.WithoutCancel(ctx), ident.Hour))
			return said("much too late")
		}
		check(sim.Sleep(ctx, 20))
		return said("ok")
	}
}

// deafTool answers only after a day, whatever it is told.
func deafTool(retrySafe bool) func(*simsched.Sim) []tool.Spec {
	return func(sim *simsched.Sim) []tool.Spec {
		return []tool.Spec{{
			Name: "t.deaf", Kind: tool.KindRead, RetrySafe: retrySafe, DeadlineMs: 10_000, Description: "does not stop", Parameters: anything,
			Run: func(ctx context.Context, _ host.ToolCall) (host.ToolResult, error) {
				check(sim.Sleep(context.WithoutCancel(ctx), ident.Day))
				return host.ToolResult{Text: "much too late"}, nil
			},
		}}
	}
}

func usesDeaf(sim *simsched.Sim) generate { return asks(sim, 20, "go", call("a", "t.deaf", `{}`)) }

// engine 10.35: the watchdog. A cancel that the model port does not heed ends
// by force a minute after it was asked for, counted from the event in the log,
// so over a restart too; the next run goes on, and what comes late changes
// nothing.
func TestTheWatchdogEndsARunThatDoesNotStop(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		lab{model: deafModel}.play(t, func(ctx context.Context, w *labWorld) {
			k := key("s")
			w.open(ctx, k, config())
			id := w.submit(ctx, k, "hi")
			w.until(ctx, k, "a model call", func(s *session.State) bool { return s.Active.Turn.Status == session.TurnInFlight })
			asked0 := w.sim.Now()
			w.must(ctx, k, &session.CancelRun{Run: id, Asked: asked("")})
			w.sleep(ctx, 30_000)
			w.must(ctx, k, &session.CancelRun{Run: id, Asked: asked("")}) // seen again, not armed again
			require.Equal(t, session.RunCancelling, w.run(ctx, k, id).Status)
			if restart {
				// Nobody performs the call any more: it need not be waited for.
				w.crash(ctx)
				w.start(w.group(ctx))
			}
			w.untilIdle(ctx, k)
			v := w.run(ctx, k, id)
			require.Equal(t, session.RunStopped, v.Status)
			if !restart {
				require.InDelta(t, int64(asked0)+session.CancelWatchdog, int64(v.CompletedAt), 100)
			}
			next := w.submit(ctx, k, "next")
			w.untilIdle(ctx, k)
			require.Equal(t, session.RunDone, w.run(ctx, k, next).Status)
			w.sleep(ctx, 2*ident.Hour)
			require.Equal(t, "ok", w.run(ctx, k, next).Output.Text)
			require.Equal(t, session.RunStopped, w.run(ctx, k, id).Status)
			late := w.count(ctx, k, session.KindToolLate)
			require.Equal(t, !restart, late == 1, "its usage is charged, late as it is")
		})
	}
}

// A model port that ignores its deadline does not hold the run: the attempt
// counts as a timeout, and the next is made.
func TestAModelThatIgnoresItsDeadline(t *testing.T) {
	t.Parallel()
	lab{model: deafModel}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config())
		id := w.submit(ctx, k, "hi")
		w.untilIdle(ctx, k)
		v := w.run(ctx, k, id)
		require.Equal(t, session.RunDone, v.Status)
		require.Equal(t, 2, w.calls)
		require.True(t, v.Usage.Estimated, "the lost answer is paid for")
		require.Less(t, int64(v.CompletedAt-v.AcceptedAt), 6*ident.Minute)
	})
}

// engine 10.54, and a tool that ignores its context: at its deadline a
// retry-safe call has failed after its attempts, of another nobody knows.
func TestAToolThatIgnoresItsDeadline(t *testing.T) {
	t.Parallel()
	for _, safe := range []bool{true, false} {
		lab{specs: deafTool(safe), model: usesDeaf}.play(t, func(ctx context.Context, w *labWorld) {
			k := key("s")
			w.open(ctx, k, config("t.*"))
			id := w.submit(ctx, k, "go")
			w.untilIdle(ctx, k)
			v := w.run(ctx, k, id)
			require.Equal(t, session.RunDone, v.Status)
			require.Less(t, int64(v.CompletedAt-v.AcceptedAt), 2*ident.Minute)
			calls, err := w.engine.Calls(ctx, k, id)
			require.NoError(t, err)
			want := session.CallUnknown
			if safe {
				want = session.CallFailed
			}
			require.Equal(t, want, calls[0].Status)
		})
	}
}

// A lookup that hangs is not knowing, after a tool's time and no more.
func TestALookupThatHangs(t *testing.T) {
	t.Parallel()
	lab{model: usesDeaf, options: host.Options{ToolMs: 20_000}, specs: func(sim *simsched.Sim) []tool.Spec {
		return []tool.Spec{{
			Name: "t.deaf", Kind: tool.KindRead, Description: "is looked up", Parameters: anything,
			Run: func(ctx context.Context, _ host.ToolCall) (host.ToolResult, error) {
				return host.ToolResult{}, sim.Sleep(ctx, ident.Hour)
			},
			Lookup: func(ctx context.Context, _ host.ToolCall) (host.ToolResult, bool, error) {
				check(sim.Sleep(context.WithoutCancel(ctx), ident.Hour))
				return host.ToolResult{Text: "much too late"}, true, nil
			},
		}}
	}}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config("t.*"))
		id := w.submit(ctx, k, "go")
		w.sleep(ctx, 1000)
		w.crash(ctx)
		w.start(w.group(ctx))
		w.untilIdle(ctx, k)
		v := w.run(ctx, k, id)
		require.Equal(t, session.RunDone, v.Status)
		require.InDelta(t, 1000+20_000+5000, int64(v.CompletedAt-v.AcceptedAt), 200)
		calls, err := w.engine.Calls(ctx, k, id)
		require.NoError(t, err)
		require.Equal(t, session.CallUnknown, calls[0].Status)
	})
}

// T41: a stop does not wait for what does not let itself be stopped, and the next
// start does not take it for a crash.
func TestAStopDoesNotWaitForTheDeaf(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]lab{
		"tool":  {specs: deafTool(true), model: usesDeaf},
		"model": {model: deafModel},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l.reports = true
			l.play(t, func(ctx context.Context, w *labWorld) {
				k := key("s")
				w.open(ctx, k, config("t.*"))
				id := w.submit(ctx, k, "go")
				w.sleep(ctx, 2000)
				for range 3 * session.InterruptsMax {
					began := w.sim.Now()
					require.NoError(t, w.engine.Stop(ctx))
					require.LessOrEqual(t, int64(w.sim.Now()-began), 7*ident.Second)
					w.start(w.group(ctx))
					w.sleep(ctx, 2000)
				}
				require.Zero(t, w.head(ctx, k).Failures)
				w.untilIdle(ctx, k)
				require.Equal(t, session.RunDone, w.run(ctx, k, id).Status)
				calls, err := w.engine.Calls(ctx, k, id)
				require.NoError(t, err)
				for _, c := range calls {
					require.Equal(t, session.CallFailed, c.Status, "not unknown: no stop was a crash")
				}
			})
		})
	}
}

// A stop that races with commands, sweeps and watches: it returns, commands are
// answered or refused, and no task is left.
func TestAStopAtAnyMoment(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		ran := map[string]int{}
		lab{seed: seed, options: host.Options{IdleMs: 50, SweepMs: 20}, specs: slowTools(40, ran), model: func(sim *simsched.Sim) generate {
			return asks(sim, 20, "go", call("a", "t.read", `{}`), call("b", "t.write", `{}`))
		}}.play(t, func(ctx context.Context, w *labWorld) {
			e := w.engine
			done := make([]host.Signal, 5)
			for i := range done {
				done[i] = w.sim.NewSignal()
				w.sim.Go(ctx, "person", func(ctx context.Context) {
					defer done[i].Fire()
					k := key(string(rune('a' + i)))
					for range 4 {
						_, err := e.Do(ctx, k, host.Prepared{Command: &session.OpenSession{Inc: "i", Config: never("t.*"), Asked: asked("")}})
						if err == nil {
							_, err = e.Do(ctx, k, host.Prepared{Command: &session.RequestRun{Input: text("go"), Asked: asked("")}})
						}
						if err != nil {
							requireStopping(err)
							continue
						}
						_, err = e.WaitAny(ctx, 60_000, e.Watch(k, 4))
						check(err)
						check(w.sim.Sleep(ctx, int64(seed%7)))
					}
				})
			}
			w.sleep(ctx, int64(seed%200))
			began := w.sim.Now()
			check(e.Stop(ctx))
			if took := int64(w.sim.Now() - began); took > 7000 {
				require.Fail(t, "it took too long", "seed %d: %d ms", seed, took)
			}
			for _, d := range done {
				at, err := w.sim.WaitAny(ctx, ident.Minute, d)
				require.NoError(t, err)
				require.GreaterOrEqual(t, at, 0, "seed %d: a caller is left without an answer", seed)
			}
		})
	}
}

func requireStopping(err error) {
	if err != host.ErrStopping { //nolint:errorlint // exactly this
		panic(err)
	}
}
