package host_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/memory"
	"github.com/perdure/perdure/internal/adapter/simsched"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool"
)

// far are tools that run in a function of their own: t.far is retry-safe,
// t.once is not; each takes a second. t.read answers at once.
func far(ran map[string]int) func(*simsched.Sim) []tool.Spec {
	return func(sim *simsched.Sim) []tool.Spec {
		run := func(ctx context.Context, c host.ToolCall) (host.ToolResult, error) {
			ran[c.Tool]++
			if err := sim.Sleep(ctx, 1000); err != nil {
				return host.ToolResult{}, err
			}
			return host.ToolResult{Text: c.Tool + " ran"}, nil
		}
		return append(plain(sim),
			tool.Spec{Name: "t.far", Kind: tool.KindRead, Parallel: true, RetrySafe: true, DeadlineMs: 600_000, Description: "far", Parameters: anything, Run: run},
			tool.Spec{Name: "t.once", Kind: tool.KindRead, Parallel: true, DeadlineMs: 600_000, Description: "once", Parameters: anything, Run: run},
		)
	}
}

func isFar(def session.ToolDef) bool { return def.DeadlineMs > 10_000 }

func batch(sim *simsched.Sim) generate {
	return asks(sim, 20, "go", call("a", "t.far", `{}`), call("b", "t.once", `{}`), call("c", "t.read", `{}`))
}

func TestCallsRunElsewhere(t *testing.T) {
	t.Parallel()
	ran := map[string]int{}
	lab{specs: far(ran), model: batch}.farmed(t, host.Options{Elsewhere: isFar}, func(ctx context.Context, f *farm) {
		k := key("s")
		f.open(ctx, k, config("t.*"))
		id := f.submit(ctx, k, "go")
		f.rests(ctx, k, host.DriveIdle)
		require.Equal(t, session.RunDone, f.run(ctx, k, id).Status)
		require.Equal(t, []string{"Model", "Tools", "Model"}, f.last().states)
		require.Equal(t, map[string]int{"t.far": 1, "t.once": 1}, ran)
		require.Equal(t, 2, f.invoked["tool"])
	})
}

// A function of a call that is killed: what may be done again is, what may not
// is unknown (I6).
func TestACallElsewhereIsKilled(t *testing.T) {
	t.Parallel()
	ran := map[string]int{}
	lab{specs: far(ran), model: batch}.farmed(t, host.Options{Elsewhere: isFar}, func(ctx context.Context, f *farm) {
		k := key("s")
		f.open(ctx, k, config("t.*"))
		id := f.submit(ctx, k, "go")
		f.until(ctx, k, "both calls", func(*session.State) bool { return ran["t.far"]+ran["t.once"] == 2 })
		for g := f.process; g > f.process-2; g-- {
			f.killGroup(g)
		}
		f.sleep(ctx, 17*ident.Minute)
		f.rests(ctx, k, host.DriveIdle)
		require.Equal(t, session.RunDone, f.run(ctx, k, id).Status)
		require.Equal(t, map[string]int{"t.far": 2, "t.once": 1}, ran)
		calls, err := f.engine.Calls(ctx, k, id)
		require.NoError(t, err)
		byTool := map[string]string{}
		for _, c := range calls {
			byTool[c.Called.Tool] = c.Status
		}
		require.Equal(t, map[string]string{"t.far": session.CallCompleted, "t.once": session.CallUnknown, "t.read": session.CallCompleted}, byTool)
	})
}

// A machine that asks twice for one call: an unsafe one runs once.
func TestACallElsewhereIsAskedForTwice(t *testing.T) {
	t.Parallel()
	ran := map[string]int{}
	lab{specs: far(ran), model: batch}.farmed(t, host.Options{Elsewhere: isFar}, func(ctx context.Context, f *farm) {
		k := key("s")
		f.open(ctx, k, config("t.*"))
		id := f.submit(ctx, k, "go")
		f.until(ctx, k, "the calls", func(*session.State) bool { return ran["t.once"] == 1 })
		e := f.last()
		st := host.Step{Key: k, Inc: e.Inc, Epoch: 1, Number: 2, Until: f.sim.Now().Add(invocationMs)}
		eng := f.engineFor(ctx, f.options)
		require.NoError(t, eng.RunCall(ctx, st, host.CallRef{Run: id, Call: ident.CallID{Turn: 1, Index: 2}, Attempt: 1}))
		require.Equal(t, 1, ran["t.once"])
		f.rests(ctx, k, host.DriveIdle)
		// Long over: nothing to do.
		require.NoError(t, eng.RunCall(ctx, st, host.CallRef{Run: id, Call: ident.CallID{Turn: 1, Index: 1}, Attempt: 1}))
		require.Equal(t, map[string]int{"t.far": 1, "t.once": 1}, ran)
		require.NoError(t, eng.Stop(ctx))
	})
}

// A cancel reaches a call that runs elsewhere.
func TestACancelReachesACallElsewhere(t *testing.T) {
	t.Parallel()
	lab{specs: func(sim *simsched.Sim) []tool.Spec {
		return []tool.Spec{{
			Name: "t.far", Kind: tool.KindRead, RetrySafe: true, DeadlineMs: 600_000, Description: "far", Parameters: anything,
			Run: func(ctx context.Context, _ host.ToolCall) (host.ToolResult, error) {
				return host.ToolResult{}, sim.Sleep(ctx, ident.Hour)
			},
		}}
	}, model: func(sim *simsched.Sim) generate { return asks(sim, 20, "go", call("a", "t.far", `{}`)) }}.farmed(t, host.Options{Elsewhere: isFar}, func(ctx context.Context, f *farm) {
		k := key("s")
		f.open(ctx, k, config("t.*"))
		id := f.submit(ctx, k, "go")
		f.sleep(ctx, 5000)
		at := f.sim.Now()
		f.must(ctx, k, &session.CancelRun{Run: id, Asked: asked("")})
		f.rests(ctx, k, host.DriveIdle)
		require.Less(t, int64(f.sim.Now()-at), 3*ident.Second)
		require.Equal(t, session.RunStopped, f.run(ctx, k, id).Status)
	})
}

// Two invocations of one step at once: one result counts, and the one that lost
// its claim tells its machine to go on.
func TestTwoInvocationsOfOneStep(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		lab{seed: seed, specs: plain, model: func(sim *simsched.Sim) generate { return asks(sim, 3000, "go", call("a", "t.write", `{}`)) }}.farmed(t, host.Options{WatchMs: 500}, func(ctx context.Context, f *farm) {
			k := key("s")
			c := config("t.*")
			c.Approvals.Default = "never"
			f.open(ctx, k, c)
			id := f.submit(ctx, k, "go")
			f.sleep(ctx, int64(seed)*97)
			e := f.last()
			twin := f.engineFor(ctx, host.Options{Sliced: true, WatchMs: 500})
			next, err := twin.Drive(ctx, host.Step{Key: k, Inc: e.Inc, Epoch: 1, Number: 1, Until: f.sim.Now().Add(invocationMs)})
			require.NoError(t, err)
			require.Contains(t, []string{host.NextDone, host.NextAgain}, next.Do)
			f.rests(ctx, k, host.DriveIdle)
			require.Equal(t, session.RunDone, f.run(ctx, k, id).Status)
			f.sleep(ctx, ident.Minute)
			require.Equal(t, "SUCCEEDED", e.status, "it has not waited for anything in vain")
			require.NoError(t, twin.Stop(ctx))
		})
	}
}

// The machine's own invocation is displaced by a twin that nobody hears: it is
// the machine's that must say how to go on, without any sweep.
func TestADisplacedInvocationGoesOn(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		lab{seed: seed, specs: plain, model: func(sim *simsched.Sim) generate {
			return asks(sim, 3000, "go", call("a", "t.write", `{}`))
		}}.farmed(t, host.Options{WatchMs: 500}, func(ctx context.Context, f *farm) {
			k := key("s")
			f.open(ctx, k, config("t.*"))
			f.submit(ctx, k, "go")
			f.sleep(ctx, int64(seed)*75)
			e := f.last()
			twin := f.engineFor(ctx, host.Options{Sliced: true, WatchMs: 500})
			_, err := twin.Drive(ctx, host.Step{Key: k, Inc: e.Inc, Epoch: 1, Number: 1, Until: f.sim.Now().Add(invocationMs)})
			require.NoError(t, err)
			f.sleep(ctx, 10_000)
			require.Equal(t, host.DriveParked, f.head(ctx, k).Drive.Status)
			require.Equal(t, "RUNNING", e.status)
			require.NoError(t, twin.Stop(ctx))
		})
	}
}

// beforeClaim does something once, just before a driver's next claim is committed.
func beforeClaim(what *func()) func(*simsched.Sim) memory.Injector {
	return func(*simsched.Sim) memory.Injector {
		return func(_ context.Context, op memory.Op, when memory.When) error {
			if f := *what; f != nil && op.Name == "log.commit" && when == memory.Before && op.Commit.Head.Drive.Status == host.DriveRunning {
				*what = nil
				f()
			}
			return nil
		}
	}
}

// A step that is claimed by a twin between its look and its first write takes
// the attempt after that one's, not the same.
func TestAClaimIsLookedAtAgainAfterAConflict(t *testing.T) {
	t.Parallel()
	var before func()
	lab{inject: beforeClaim(&before), model: func(sim *simsched.Sim) generate { return asks(sim, 5000, "") }}.farmed(t, host.Options{}, func(ctx context.Context, f *farm) {
		k := key("s")
		f.open(ctx, k, config())
		before = func() {
			// The twin has claimed first, with a commit of its own.
			h, err := f.store.Head(ctx, k)
			check(err)
			was := h.Rev
			h.Rev++
			h.Write, h.Drive.Step, h.Drive.Attempt, h.Drive.Status = "twin", 1, 1, host.DriveRunning
			check(f.store.Commit(ctx, host.Commit{Key: k, Expect: was, Head: h}))
		}
		f.submit(ctx, k, "hi")
		f.sleep(ctx, 1000)
		require.Equal(t, host.Drive{Epoch: 1, Step: 1, Attempt: 2, Status: host.DriveRunning}, f.head(ctx, k).Drive)
		f.rests(ctx, k, host.DriveIdle)
	})
}

// What is decided between a driver's plan to park and the parking wakes nobody:
// the parking finds it, and completes its own token.
func TestADecisionBeforeThePark(t *testing.T) {
	t.Parallel()
	lab{specs: plain, model: gated}.farmed(t, host.Options{}, func(ctx context.Context, f *farm) {
		k := key("s")
		f.open(ctx, k, config("t.*"))
		f.faults = append(f.faults, func(fn string, e *execution) error {
			if fn == "park" && e.step == 1 {
				f.must(ctx, k, decide(true, "", 1))
				require.Equal(t, host.DriveRunning, f.head(ctx, k).Drive.Status, "nobody is woken")
			}
			return nil
		})
		id := f.submit(ctx, k, "go")
		f.sleep(ctx, 2000)
		require.Equal(t, session.RunDone, f.run(ctx, k, id).Status)
		require.Equal(t, []string{"Model", "Wait", "Model"}, f.last().states)
	})
}

// A wake that is lost on its way, and an execution that is gone while the head
// says that it is parked: the sweep finds both.
func TestTheSweepFindsLostWakes(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(ctx context.Context, f *farm){
		"the wake": func(context.Context, *farm) {},
		"the execution": func(ctx context.Context, f *farm) {
			check(f.waker.End(ctx, f.last().Key, f.last().Inc, f.last().Epoch))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lab{reports: true, specs: plain, model: gated}.farmed(t, host.Options{}, func(ctx context.Context, f *farm) {
				k := key("s")
				f.open(ctx, k, config("t.*"))
				id := f.submit(ctx, k, "go")
				f.rests(ctx, k, host.DriveParked)
				lose(ctx, f)
				front := f.engine
				f.engine = host.New(withoutWaker(f.deps), host.Options{AdmitOnly: true})
				check(f.engine.Start(ctx))
				f.must(ctx, k, decide(true, "", 1))
				check(f.engine.Stop(ctx))
				f.engine = front
				f.sleep(ctx, 21_000)
				require.Equal(t, 1, f.sweep(ctx).Found)
				f.rests(ctx, k, host.DriveIdle)
				require.Equal(t, session.RunDone, f.run(ctx, k, id).Status)
			})
		})
	}
}

// An execution that is at work and records nothing is given up after twenty
// minutes, and not before.
func TestAStuckExecutionIsGivenUp(t *testing.T) {
	t.Parallel()
	stuck := true
	lab{reports: true, model: func(sim *simsched.Sim) generate {
		return func(ctx context.Context, _ host.ModelRequest, _ func(host.Delta)) (host.ModelResult, error) {
			if stuck {
				stuck = false
				check(sim.Sleep(context.WithoutCancel(ctx), ident.Day))
			}
			return said("ok")
		}
	}}.farmed(t, host.Options{ModelMs: 780 * ident.Second}, func(ctx context.Context, f *farm) {
		f.faults = append(f.faults, func(_ string, e *execution) error {
			e.began = 0
			return nil
		})
		k := key("s")
		f.open(ctx, k, config())
		id := f.submit(ctx, k, "hi")
		for range 22 {
			f.sleep(ctx, ident.Minute)
			f.sweep(ctx)
		}
		f.rests(ctx, k, host.DriveIdle)
		require.Equal(t, session.RunDone, f.run(ctx, k, id).Status)
		require.Contains(t, []string{"SUCCEEDED", "ABORTED"}, f.executing[0].status)
	})
}

// Deleting: not found at once, content gone with the next sweep, looked for once
// more after every process that could know the session is gone, and only then
// the id is free.
func TestADeletionElsewhere(t *testing.T) {
	t.Parallel()
	purged := 0
	lab{specs: plain, model: gated, deps: func(_ *simsched.Sim, d *host.Deps) {
		d.Purge = func(context.Context, host.Key, string) error {
			purged++
			return nil
		}
	}}.farmed(t, host.Options{}, func(ctx context.Context, f *farm) {
		k := key("s")
		f.open(ctx, k, config("t.*"))
		f.submit(ctx, k, "go")
		f.rests(ctx, k, host.DriveParked)
		f.must(ctx, k, &session.CloseSession{Force: true, Asked: asked("")})
		f.rests(ctx, k, host.DriveIdle)
		f.sleep(ctx, 100)
		require.Equal(t, "SUCCEEDED", f.last().status, "nobody waits any more")
		require.NoError(t, f.engine.Delete(ctx, k))
		_, err := f.engine.View(ctx, k)
		requireCode(t, err, session.CodeNotFound)
		f.sleep(ctx, 10)
		require.Equal(t, 1, f.sweep(ctx).Deleted)
		require.Equal(t, 1, purged)
		require.Zero(t, f.sweep(ctx).Deleted, "not again before its time")
		f.sleep(ctx, 20*ident.Minute)
		require.Equal(t, 1, f.sweep(ctx).Deleted)
		require.Equal(t, 2, purged)
		_, err = f.store.Head(ctx, k)
		require.ErrorIs(t, err, host.ErrNotFound)
	})
}

// A name that has ended is a new epoch; a throttled start is tried again, then
// left to the sweep.
func TestAStartThatDoesNotGo(t *testing.T) {
	t.Parallel()
	throttled := 0
	lab{reports: true}.farmed(t, host.Options{}, func(ctx context.Context, f *farm) {
		inner := f.deps.Waker
		f.deps.Waker = &throttling{Waker: inner, left: &throttled}
		f.start(f.group(ctx))
		k := key("s")
		f.open(ctx, k, config())
		throttled = 2
		id := f.submit(ctx, k, "hi")
		f.rests(ctx, k, host.DriveIdle)
		require.Equal(t, session.RunDone, f.run(ctx, k, id).Status)

		throttled = 100
		id = f.submit(ctx, k, "again")
		require.Equal(t, host.DriveStarting, f.head(ctx, k).Drive.Status)
		throttled = 0
		f.sleep(ctx, 21_000)
		f.sweep(ctx)
		f.rests(ctx, k, host.DriveIdle)
		require.Equal(t, session.RunDone, f.run(ctx, k, id).Status)

		// The next epoch's name has been used, by whatever.
		inc := f.head(ctx, k).Inc
		a := memory.Activation{Key: k, Inc: inc, Epoch: 3}
		quiet := f.ctx
		f.ctx = simsched.WithGroup(ctx, "nobody")
		check(inner.Start(ctx, k, inc, 3))
		f.sim.Kill("nobody")
		f.ctx = quiet
		check(inner.End(ctx, k, inc, 3))
		_ = a
		id = f.submit(ctx, k, "once more")
		h := f.rests(ctx, k, host.DriveIdle)
		require.EqualValues(t, 4, h.Drive.Epoch)
		require.Equal(t, session.RunDone, f.run(ctx, k, id).Status)
	})
}

// throttling refuses as many starts as it is told.
type throttling struct {
	host.Waker
	left *int
}

func (w *throttling) Start(ctx context.Context, k host.Key, inc string, epoch uint64) error {
	if *w.left > 0 {
		*w.left--
		return errIO
	}
	return w.Waker.Start(ctx, k, inc, epoch)
}

// row-14, T30: what a newer build wrote is left to it: the machine asks again,
// nothing is written, and no driver counts as lost.
func TestAStepIsLeftToANewerBuild(t *testing.T) {
	t.Parallel()
	lab{reports: true, specs: plain, model: gated}.farmed(t, host.Options{}, func(ctx context.Context, f *farm) {
		k := key("s")
		f.open(ctx, k, config("t.*"))
		f.submit(ctx, k, "go")
		f.rests(ctx, k, host.DriveParked)
		e := f.last()
		f.must(ctx, k, decide(true, "", 1))
		f.spoil(ctx, k, `"kind":"run.teleported","v":1,"data":{}`)
		before := f.head(ctx, k)
		f.sleep(ctx, 10*ident.Minute)
		require.Equal(t, before, f.head(ctx, k))
		require.Equal(t, "RUNNING", e.status)
		require.EqualValues(t, 2, e.step, "it asks for the same step")
		require.Greater(t, f.invoked["drive"], 10)
		require.Less(t, f.invoked["drive"], 50, "and not all the time")
		_, err := f.engine.View(ctx, k)
		require.ErrorIs(t, err, host.ErrUnavailable)
		check(f.waker.End(ctx, e.Key, e.Inc, e.Epoch))
	})
}

// T54: ten thousand slices of one session, with an approval that stays open over
// rollovers: no execution grows long, and nobody notices.
func TestT54TenThousandSlices(t *testing.T) {
	t.Parallel()
	lab{specs: plain, model: func(sim *simsched.Sim) generate {
		return func(_ context.Context, req host.ModelRequest, _ func(host.Delta)) (host.ModelResult, error) {
			switch last := req.Messages[len(req.Messages)-1]; {
			case last.Role == host.RoleUser && last.Parts[0].Text == "write":
				return said("", call("w", "t.write", `{}`))
			case req.NoTools || last.Role == host.RoleTool && last.Results[0].Text == "t.write ran":
				return said("enough")
			}
			return said("", call("a", "t.read", `{}`))
		}
	}}.farmed(t, host.Options{SliceTurns: 1, IdleMs: 1}, func(ctx context.Context, f *farm) {
		k := key("s")
		c := config("t.*")
		c.Limits.MaxTurns = 1000
		c.Context.Window.MaxMessages = 40
		f.open(ctx, k, c)
		var pending ident.RunID
		for f.calls < slicesPlayed {
			f.submit(ctx, k, "go")
			f.rests(ctx, k, host.DriveIdle)
			if pending == 0 && f.calls > slicesPlayed/2 {
				pending = f.submit(ctx, k, "write")
				f.rests(ctx, k, host.DriveParked)
				before := f.head(ctx, k).Drive.Epoch
				f.sleep(ctx, 70*ident.Day) // the machine's wait ends twice, and its activation with it
				require.Greater(t, f.head(ctx, k).Drive.Epoch, before)
				f.must(ctx, k, decide(true, "", 1))
				f.rests(ctx, k, host.DriveIdle)
				require.Equal(t, session.RunDone, f.run(ctx, k, pending).Status)
			}
		}
		slices := 0
		for _, e := range f.executing {
			require.LessOrEqual(t, len(e.states), 310)
			require.Equal(t, "SUCCEEDED", e.status)
			slices += len(e.states)
		}
		require.Greater(t, slices, slicesPlayed)
		require.Zero(t, f.sweep(ctx).Lost)
	})
}

// A drive that is killed between the commit that starts a call elsewhere and its
// answer to the machine: nobody has begun the call, so it is no unknown.
func TestACallElsewhereThatNobodyBegan(t *testing.T) {
	t.Parallel()
	ran := map[string]int{}
	lab{specs: far(ran), model: func(sim *simsched.Sim) generate { return asks(sim, 20, "go", call("b", "t.once", `{}`)) }}.farmed(t, host.Options{Elsewhere: isFar}, func(ctx context.Context, f *farm) {
		k := key("s")
		f.open(ctx, k, config("t.*"))
		lost := 0
		f.answers = func(next host.Next) error {
			if next.Do == host.NextTools && lost == 0 {
				lost++
				return errKilled
			}
			return nil
		}
		id := f.submit(ctx, k, "go")
		f.rests(ctx, k, host.DriveIdle)
		require.Equal(t, 1, lost)
		require.Equal(t, 1, ran["t.once"])
		calls, err := f.engine.Calls(ctx, k, id)
		require.NoError(t, err)
		require.Equal(t, session.CallCompleted, calls[0].Status)
	})
}
