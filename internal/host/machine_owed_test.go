package host_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/memory"
	"github.com/perdure/perdure/internal/adapter/simsched"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool"
)

// deaf is a model that does not heed its context and answers after ms.
func deaf(ms int64) func(*simsched.Sim) generate {
	return func(sim *simsched.Sim) generate {
		return func(ctx context.Context, _ host.ModelRequest, _ func(host.Delta)) (host.ModelResult, error) {
			if err := sim.Sleep(context.WithoutCancel(ctx), ms); err != nil {
				return host.ModelResult{}, err
			}
			return said("ok")
		}
	}
}

// I18: an answer that comes after its session was deleted elsewhere does not
// bring it back.
func TestADeletedSessionStaysDeleted(t *testing.T) {
	t.Parallel()
	lab{model: deaf(5200)}.farmed(t, host.Options{WatchMs: 500}, func(ctx context.Context, f *farm) {
		k := key("s")
		f.open(ctx, k, config())
		f.submit(ctx, k, "go")
		f.sleep(ctx, 5100)
		require.Equal(t, host.DriveRunning, f.head(ctx, k).Drive.Status)
		f.must(ctx, k, &session.CloseSession{Force: true, Asked: asked("")})
		require.NoError(t, f.engine.Delete(ctx, k))
		f.sleep(ctx, 20_000)
		require.Equal(t, host.StatusDeleting, f.head(ctx, k).Status)
		require.NotZero(t, f.head(ctx, k).DueAt, "the sweep comes for what is left")
	})
}

// What an effect says whose slice is over is nobody's: a warm process writes
// nothing without a claim.
func TestAnEffectThatOutlivesItsSliceSaysNothing(t *testing.T) {
	t.Parallel()
	stopped := false
	lab{reports: true, specs: func(sim *simsched.Sim) []tool.Spec {
		return []tool.Spec{{
			Name: "t.long", Kind: tool.KindRead, RetrySafe: true, DeadlineMs: 600_000, Description: "long", Parameters: anything,
			Run: func(ctx context.Context, _ host.ToolCall) (host.ToolResult, error) {
				defer func() { stopped = true }()
				return host.ToolResult{}, sim.Sleep(ctx, ident.Hour)
			},
		}}
	}, model: func(sim *simsched.Sim) generate { return asks(sim, 20, "go", call("a", "t.long", `{}`)) }}.farmed(t, host.Options{}, func(ctx context.Context, f *farm) {
		k := key("s")
		f.faults = append(f.faults, func(string, *execution) error { return errKilled })
		f.open(ctx, k, config("t.*"))
		f.submit(ctx, k, "go")
		f.sleep(ctx, 100)
		h := f.head(ctx, k)
		eng := f.engineFor(ctx, host.Options{Sliced: true})
		_, err := eng.Drive(ctx, host.Step{Key: k, Inc: h.Inc, Epoch: h.Drive.Epoch, Number: 1, Until: f.sim.Now().Add(400_000)})
		require.ErrorIs(t, err, host.ErrUnavailable)
		before := f.head(ctx, k)
		f.sleep(ctx, 1000)
		require.True(t, stopped)
		require.Equal(t, before, f.head(ctx, k), "%s", f.dump(ctx, k))
		require.NoError(t, eng.Stop(ctx))
	})
}

// I9: a session that is released with nothing but a deadline before it is driven
// to it.
func TestAReleasedSleeperWakes(t *testing.T) {
	t.Parallel()
	lab{reports: true, model: func(sim *simsched.Sim) generate { return asks(sim, 20, "nap", call("n", "sleep", `{"seconds":1800}`)) }}.farmed(t, host.Options{}, func(ctx context.Context, f *farm) {
		k := key("s")
		f.open(ctx, k, config("sleep"))
		id := f.submit(ctx, k, "nap")
		f.rests(ctx, k, host.DriveParked)
		h := f.head(ctx, k)
		h.Rev++
		h.Write, h.Quarantine = "w-frozen", &host.Quarantine{Seq: h.Seq, Code: "failures"}
		h.Drive.Status, h.DueAt = host.DriveIdle, 0
		require.NoError(t, f.store.Commit(ctx, host.Commit{Key: k, Expect: h.Rev - 1, Head: h}))
		f.sleep(ctx, 1000)
		f.must(ctx, k, &session.ReleaseSession{Asked: asked("")})
		f.sleep(ctx, 2*ident.Hour)
		f.sweep(ctx)
		f.sleep(ctx, 1000)
		require.Equal(t, session.RunDone, f.run(ctx, k, id).Status)
	})
}

// What a call elsewhere came to is worth more than one try: a table that is not
// there for half a minute costs nothing.
func TestAResultElsewhereOutlivesAnOutage(t *testing.T) {
	t.Parallel()
	ran := map[string]int{}
	out := false
	once := func(sim *simsched.Sim) generate { return asks(sim, 20, "go", call("b", "t.once", `{}`)) }
	outage := func(*simsched.Sim) memory.Injector {
		return func(_ context.Context, op memory.Op, when memory.When) error {
			if out && op.Name == "log.commit" && when == memory.Before {
				return errIO
			}
			return nil
		}
	}
	lab{reports: true, specs: far(ran), model: once, inject: outage}.farmed(t, host.Options{Elsewhere: isFar}, func(ctx context.Context, f *farm) {
		k := key("s")
		f.open(ctx, k, config("t.*"))
		id := f.submit(ctx, k, "go")
		f.until(ctx, k, "the call", func(*session.State) bool { return ran["t.once"] == 1 })
		out = true
		f.sleep(ctx, 30_000)
		out = false
		f.rests(ctx, k, host.DriveIdle)
		require.Equal(t, session.RunDone, f.run(ctx, k, id).Status)
		calls, err := f.engine.Calls(ctx, k, id)
		require.NoError(t, err)
		require.Equal(t, session.CallCompleted, calls[0].Status)
	})
}

// A call elsewhere of a session that is closed and deleted within one look is
// stopped.
func TestADeletionReachesACallElsewhere(t *testing.T) {
	t.Parallel()
	stopped := ident.Instant(0)
	lab{specs: func(sim *simsched.Sim) []tool.Spec {
		return []tool.Spec{{
			Name: "t.far", Kind: tool.KindRead, RetrySafe: true, DeadlineMs: 600_000, Description: "far", Parameters: anything,
			Run: func(ctx context.Context, _ host.ToolCall) (host.ToolResult, error) {
				err := sim.Sleep(ctx, 500_000)
				stopped = sim.Now()
				return host.ToolResult{}, err
			},
		}}
	}, model: func(sim *simsched.Sim) generate { return asks(sim, 20, "go", call("a", "t.far", `{}`)) }}.farmed(t, host.Options{Elsewhere: isFar}, func(ctx context.Context, f *farm) {
		k := key("s")
		f.open(ctx, k, config("t.*"))
		f.submit(ctx, k, "go")
		f.sleep(ctx, 5050)
		f.must(ctx, k, &session.CloseSession{Force: true, Asked: asked("")})
		require.NoError(t, f.engine.Delete(ctx, k))
		at := f.sim.Now()
		f.sleep(ctx, 2000)
		require.NotZero(t, stopped)
		require.Less(t, int64(stopped-at), int64(1000))
	})
}

// I9: what loses many drivers at once is made good in one sweep, not one
// session after the other.
func TestManyLostDriversAreGivenUpInOneSweep(t *testing.T) {
	t.Parallel()
	lab{reports: true, model: func(sim *simsched.Sim) generate { return asks(sim, 60_000, "") }}.farmed(t, host.Options{}, func(ctx context.Context, f *farm) {
		const many = 150
		for i := range many {
			k := key(fmt.Sprint("s", i))
			f.open(ctx, k, config())
			f.submit(ctx, k, "go")
		}
		f.sleep(ctx, 1000)
		for _, e := range f.executing {
			f.stop(e.Activation)
			check(f.waker.End(ctx, e.Key, e.Inc, e.Epoch))
		}
		f.sleep(ctx, 130_000)
		at := f.sim.Now()
		require.Equal(t, many, f.sweep(ctx).Lost)
		require.Less(t, int64(f.sim.Now()-at), int64(20_000))
	})
}

// I18: two sweeps never delete one session at once: the slower one would take
// what a successor of the same id has written.
func TestADeletionIsOneSweeps(t *testing.T) {
	t.Parallel()
	at, most, times := 0, 0, 0
	lab{deps: func(sim *simsched.Sim, d *host.Deps) {
		d.Purge = func(ctx context.Context, _ host.Key, _ string) error {
			at++
			times++
			most = max(most, at)
			defer func() { at-- }()
			return sim.Sleep(ctx, 90_000)
		}
	}}.farmed(t, host.Options{}, func(ctx context.Context, f *farm) {
		k := key("s")
		f.open(ctx, k, config())
		f.must(ctx, k, &session.CloseSession{Asked: asked("")})
		require.NoError(t, f.engine.Delete(ctx, k))
		for range 60 {
			f.sim.Go(f.ctx, "sweep", func(ctx context.Context) { f.sweep(ctx) })
			f.sleep(ctx, 60_000)
		}
		_, err := f.store.Head(ctx, k)
		require.ErrorIs(t, err, host.ErrNotFound)
		require.Equal(t, 1, most)
		require.Equal(t, 2, times)
	})
}

// A process that is asked next may have looked at the session last when it was not
// there, or not closed, or not frozen: it answers by how it stands now.
func TestAnotherProcessesWordHolds(t *testing.T) {
	t.Parallel()
	lab{}.farmed(t, host.Options{}, func(ctx context.Context, f *farm) {
		k, one := key("s"), f.engine
		two := f.engineFor(ctx, f.options)
		at := func(e *host.Engine) *farm {
			f.engine = e
			return f
		}
		_, err := one.View(ctx, k)
		requireCode(t, err, session.CodeNotFound)
		at(two).open(ctx, k, config())
		at(one).submit(ctx, k, "go")
		f.rests(ctx, k, host.DriveIdle)
		_, err = two.View(ctx, k)
		require.NoError(t, err)
		at(one).must(ctx, k, &session.CloseSession{Asked: asked("")})
		require.NoError(t, two.Delete(ctx, k))

		l := key("l")
		_, err = one.View(ctx, l)
		requireCode(t, err, session.CodeNotFound)
		at(two).open(ctx, l, config())
		_, err = one.Describe(ctx, l, func(m *host.Meta) { m.Name = "x" })
		require.NoError(t, err)
		f.engine = one
		require.NoError(t, two.Stop(ctx))
	})
}

// A driver that is long at one call says that it is at work: the sweep leaves it
// alone.
func TestADriverAtWorkIsLeftAlone(t *testing.T) {
	t.Parallel()
	lab{model: func(sim *simsched.Sim) generate { return asks(sim, 250_000, "") }}.farmed(t, host.Options{WatchMs: 500}, func(ctx context.Context, f *farm) {
		k := key("s")
		f.open(ctx, k, config())
		f.submit(ctx, k, "go")
		for range 8 {
			f.sleep(ctx, 30_000)
			require.Zero(t, f.sweep(ctx).Found)
		}
		f.rests(ctx, k, host.DriveIdle)
		require.Len(t, f.executing, 1)
	})
}

// What is owed has a time by which it is: after an admission, and after a driver
// that was lost.
func TestAStartIsDue(t *testing.T) {
	t.Parallel()
	lab{reports: true}.farmed(t, host.Options{}, func(ctx context.Context, f *farm) {
		f.wakerInject = func(context.Context, memory.Op, memory.When) error { return errIO }
		k := key("s")
		f.open(ctx, k, config())
		f.submit(ctx, k, "go")
		h := f.head(ctx, k)
		require.Equal(t, host.DriveStarting, h.Drive.Status)
		require.Equal(t, h.At.Add(20*ident.Second), h.DueAt)
		began := f.sim.Now()
		_, err := f.engine.Drive(ctx, host.Step{Key: k, Inc: h.Inc, Epoch: 1, Number: 1, Recover: true})
		require.NoError(t, err)
		h = f.head(ctx, k)
		require.Equal(t, host.Drive{Epoch: 2, Status: host.DriveStarting}, h.Drive)
		require.GreaterOrEqual(t, h.DueAt, began.Add(20*ident.Second))
		require.Equal(t, 1, h.Failures)
		f.wakerInject = nil
		f.sleep(ctx, 21_000)
		require.Equal(t, 1, f.sweep(ctx).Found)
		f.rests(ctx, k, host.DriveIdle)
	})
}

// A call that has answered is not run again, while others of its batch still run.
func TestACallThatHasAnsweredIsNotRunAgain(t *testing.T) {
	t.Parallel()
	ran := map[string]int{}
	specs := func(sim *simsched.Sim) []tool.Spec {
		out := far(ran)(sim)
		slow := out[len(out)-1].Run
		out[len(out)-1].Run = func(ctx context.Context, c host.ToolCall) (host.ToolResult, error) {
			check(sim.Sleep(ctx, 5000))
			return slow(ctx, c)
		}
		return out
	}
	lab{specs: specs, model: batch}.farmed(t, host.Options{Elsewhere: isFar}, func(ctx context.Context, f *farm) {
		k := key("s")
		f.open(ctx, k, config("t.*"))
		id := f.submit(ctx, k, "go")
		f.sleep(ctx, 3000)
		e := f.last()
		st := host.Step{Key: k, Inc: e.Inc, Epoch: 1, Number: 2, Until: f.sim.Now().Add(invocationMs)}
		require.NoError(t, f.engine.RunCall(ctx, st, host.CallRef{Run: id, Call: ident.CallID{Turn: 1, Index: 1}, Attempt: 1}))
		require.Equal(t, 1, ran["t.far"])
		f.rests(ctx, k, host.DriveIdle)
		require.Equal(t, map[string]int{"t.far": 1, "t.once": 1}, ran)
	})
}

// What a twin began between this one's look and its claim is taken over with the
// claim: nobody else sees to it.
func TestAClaimTakesOverWhatATwinHasJustBegun(t *testing.T) {
	t.Parallel()
	var before func()
	lab{reports: true, inject: beforeClaim(&before), model: func(sim *simsched.Sim) generate { return asks(sim, 5000, "") }}.farmed(t, host.Options{}, func(ctx context.Context, f *farm) {
		k := key("s")
		f.open(ctx, k, config())
		before = func() {
			h, err := f.store.Head(ctx, k)
			check(err)
			twin := f.newProcess(f.ctx, host.Options{Sliced: true})
			f.sim.Go(simsched.WithGroup(f.ctx, twin.group), "twin", func(ctx context.Context) {
				_, _ = twin.engine.Drive(ctx, host.Step{Key: k, Inc: h.Inc, Epoch: 1, Number: 1, Until: f.sim.Now().Add(invocationMs)})
			})
			f.sleep(ctx, 100)
			f.sim.Kill(twin.group)
		}
		id := f.submit(ctx, k, "hi")
		h := f.rests(ctx, k, host.DriveIdle)
		require.EqualValues(t, 1, h.Drive.Epoch, "nobody had to come for it")
		require.Equal(t, session.RunDone, f.run(ctx, k, id).Status)
	})
}
