package host_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/memory"
	"github.com/perdure/perdure/internal/adapter/simsched"
	"github.com/perdure/perdure/internal/host"
)

// counts counts operations of the store, by name.
type counts map[string]int

func (c counts) inject(*simsched.Sim) memory.Injector {
	return func(_ context.Context, op memory.Op, when memory.When) error {
		if when == memory.Before {
			c[op.Name]++
		}
		return nil
	}
}

// absent are tools of which one can be taken away.
type absent struct {
	host.Tools
	gone string
}

func (a *absent) Offer(ctx context.Context, k host.Key, c session.Config) ([]host.Tool, error) {
	all, err := a.Tools.Offer(ctx, k, c)
	var out []host.Tool
	for _, o := range all {
		if o.Def.Name != a.gone {
			out = append(out, o)
		}
	}
	return out, err
}

// T16: an approved call whose tool nobody serves waits for it, without limit,
// and runs when the tool is back; also after a restart.
func TestAToolThatComesBack(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		a, ran := &absent{}, map[string]int{}
		lab{
			specs: slowTools(10, ran), model: gated,
			deps: func(_ *simsched.Sim, d *host.Deps) { a.Tools, d.Tools = d.Tools, a },
		}.play(t, func(ctx context.Context, w *labWorld) {
			k := key("s")
			w.open(ctx, k, config("t.*"))
			id := w.submit(ctx, k, "go")
			w.untilWaiting(ctx, k)
			a.gone = "t.write"
			w.sleep(ctx, 2000)
			w.must(ctx, k, decide(true, "", 1))
			w.sleep(ctx, ident.Hour)
			v := w.run(ctx, k, id)
			require.Equal(t, session.RunWaits, v.Status)
			require.Equal(t, "tool", v.WaitingOn[0].Kind)
			require.Empty(t, ran)
			if restart {
				w.crash(ctx)
				w.start(w.group(ctx))
				w.sleep(ctx, ident.Minute)
			}
			a.gone = ""
			back := w.sim.Now()
			w.untilIdle(ctx, k)
			v = w.run(ctx, k, id)
			require.Equal(t, session.RunDone, v.Status)
			require.Len(t, ran, 1)
			require.Less(t, int64(v.CompletedAt-back), 7*ident.Second)
		})
	}
}

// A call that needs no approval gives up after ten minutes.
func TestAToolThatDoesNotComeBack(t *testing.T) {
	t.Parallel()
	a := &absent{}
	lab{specs: plain, deps: func(_ *simsched.Sim, d *host.Deps) { a.Tools, d.Tools = d.Tools, a }, model: func(sim *simsched.Sim) generate {
		return func(ctx context.Context, req host.ModelRequest, sink func(host.Delta)) (host.ModelResult, error) {
			a.gone = "t.read" // while the model answers
			return asks(sim, 2000, "go", call("a", "t.read", `{}`))(ctx, req, sink)
		}
	}}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config("t.*"))
		id := w.submit(ctx, k, "go")
		w.untilIdle(ctx, k)
		v := w.run(ctx, k, id)
		require.Equal(t, session.RunDone, v.Status)
		require.InDelta(t, session.ToolAbsentMax, int64(v.CompletedAt-v.AcceptedAt), 10_000)
		calls, err := w.engine.Calls(ctx, k, id)
		require.NoError(t, err)
		require.Equal(t, session.CallUnavailable, calls[0].Status)
	})
}

// I9: sessions that are due are found behind any number that are in hand, or
// in trouble, and due before them.
func TestTheSweepLooksPastWhatItCannotWake(t *testing.T) {
	t.Parallel()
	lab{
		reports: true, options: host.Options{IdleMs: 100, ToolMs: ident.Hour},
		specs: slowTools(20*ident.Minute, map[string]int{}),
		model: func(sim *simsched.Sim) generate {
			return func(ctx context.Context, req host.ModelRequest, _ func(host.Delta)) (host.ModelResult, error) {
				check(sim.Sleep(ctx, 1))
				last := req.Messages[len(req.Messages)-1]
				switch {
				case last.Role != host.RoleUser:
					return said("ok")
				case last.Parts[0].Text == "nap":
					return said("", call("n", "sleep", `{"seconds":300}`))
				}
				return said("", call("a", "t.read", `{}`))
			}
		},
	}.play(t, func(ctx context.Context, w *labWorld) {
		nap := key("nap")
		w.open(ctx, nap, config("sleep"))
		w.submit(ctx, nap, "nap")
		for i := range 150 {
			k := key(fmt.Sprint("busy", i))
			w.open(ctx, k, config("t.*"))
			w.submit(ctx, k, "work")
		}
		for i := range 150 {
			k := key(fmt.Sprint("sick", i))
			w.open(ctx, k, config("sleep"))
			w.submit(ctx, k, "nap")
			w.sleep(ctx, 1)
		}
		w.sleep(ctx, 1000)
		for i := range 150 {
			k := key(fmt.Sprint("sick", i))
			w.spoil(ctx, k, `"kind":"run.teleported","v":1,"data":{}`)
		}
		w.sleep(ctx, 310*ident.Second)
		require.Nil(t, stateOfLab(ctx, w, nap).Active, "its nap is over")
		n := 0
		for _, r := range w.reports {
			require.Contains(t, r, "newer")
			n++
		}
		require.Equal(t, 150, n, "each told once")
	})
}

func stateOfLab(ctx context.Context, w *labWorld, k host.Key) session.State {
	d, err := w.engine.View(ctx, k)
	require.NoError(w.t, err)
	return d.State
}

// spoil writes an event past the engine, as another build would.
func (w *labWorld) spoil(ctx context.Context, k host.Key, body string) {
	h := w.head(ctx, k)
	h.Rev++
	h.Seq++
	h.Write = "raw" + string(k.Session)
	line := fmt.Sprintf(`{"seq":%d,"at":%d,%s}`, h.Seq, h.At, body)
	require.NoError(w.t, w.store.Commit(ctx, host.Commit{Key: k, Expect: h.Rev - 1, Head: h, Entries: []host.StoredEntry{{Seq: h.Seq, Data: []byte(line)}}}))
}

// row-14: a newer build's session that is due is looked at ever more rarely,
// and goes on by itself where it can be read.
func TestASessionThatCannotBeLoaded(t *testing.T) {
	t.Parallel()
	ops := counts{}
	lab{reports: true, inject: ops.inject, options: host.Options{IdleMs: 100}, model: func(sim *simsched.Sim) generate {
		return asks(sim, 1, "nap", call("n", "sleep", `{"seconds":60}`))
	}}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config("sleep"))
		w.submit(ctx, k, "nap")
		w.sleep(ctx, 1000)
		w.spoil(ctx, k, `"kind":"run.teleported","v":1,"data":{}`)
		heads := ops["log.open"]
		w.sleep(ctx, ident.Hour)
		require.Less(t, ops["log.open"]-heads, 140)
		require.Len(t, w.reports, 1)
		_, err := w.engine.View(ctx, k)
		require.ErrorIs(t, err, session.ErrNewer)
		require.ErrorIs(t, err, host.ErrUnavailable)
	})
}

// engine 10.79: a gap inside the log is never skipped. The session is
// unavailable, and nothing is written.
func TestAGapIsNeverSkipped(t *testing.T) {
	t.Parallel()
	lab{reports: true, options: host.Options{IdleMs: 100}}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config())
		w.submit(ctx, k, "hi")
		w.untilIdle(ctx, k)
		w.sleep(ctx, 1000)
		rev := w.head(ctx, k).Rev
		w.store.DropEvent(k, 4)
		for range 2 {
			_, err := w.do(ctx, k, &session.RequestRun{Input: text("x"), Asked: asked("")})
			require.ErrorIs(t, err, host.ErrGap)
			require.ErrorIs(t, err, host.ErrUnavailable)
			_, err = w.engine.View(ctx, k)
			require.ErrorIs(t, err, host.ErrGap)
		}
		_, err := w.engine.Feed(ctx, k, 0, 8, 100, 1<<20)
		require.ErrorIs(t, err, host.ErrGap)
		require.Equal(t, rev, w.head(ctx, k).Rev)
		require.Len(t, w.reports, 1)
	})
}

// deafSlow answers "precious" after five seconds, wanted or not.
func deafSlow(sim *simsched.Sim) generate {
	return func(ctx context.Context, _ host.ModelRequest, _ func(host.Delta)) (host.ModelResult, error) {
		check(sim.Sleep(context.WithoutCancel(ctx), 5000))
		return said("precious")
	}
}

// row-14, I11: the answer that came to a frozen session is taken when it is
// released, and not asked for again.
func TestAReleaseTakesTheAnswerThatCame(t *testing.T) {
	t.Parallel()
	lab{options: host.Options{WatchMs: 500}, model: deafSlow}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config())
		id := w.submit(ctx, k, "hi")
		w.sleep(ctx, 1000)
		h := w.head(ctx, k)
		h.Rev++
		h.Write, h.Drive.Status, h.DueAt = "frozen", host.DriveIdle, 0
		h.Quarantine = &host.Quarantine{Seq: 3, Code: "plan", Detail: "a bug"}
		require.NoError(t, w.store.Commit(ctx, host.Commit{Key: k, Expect: h.Rev - 1, Head: h}))
		w.sleep(ctx, 10_000)
		require.Equal(t, h.Seq, w.head(ctx, k).Seq)
		w.must(ctx, k, &session.ReleaseSession{Asked: asked("")})
		w.untilIdle(ctx, k)
		require.Equal(t, "precious", w.run(ctx, k, id).Output.Text)
		require.Equal(t, 1, w.calls)
	})
}

// What becomes of effects whose session froze under them: nothing is written,
// and nothing is asked again.
func TestAnAnswerToAFrozenSession(t *testing.T) {
	t.Parallel()
	lab{reports: true, options: host.Options{WatchMs: 500}, model: deafSlow}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config())
		id := w.submit(ctx, k, "hi")
		w.sleep(ctx, 1000)
		w.spoil(ctx, k, `"kind":"run.started","v":1,"data":{"run":99}`)
		_, err := w.do(ctx, k, &session.CancelRun{Run: id, Asked: asked("")})
		requireCode(t, err, session.CodeQuarantined)
		seq := w.head(ctx, k).Seq
		w.sleep(ctx, 10_000)
		require.Equal(t, seq, w.head(ctx, k).Seq)
		require.Equal(t, host.DriveIdle, w.head(ctx, k).Drive.Status)
		w.sleep(ctx, 10*ident.Minute)
		require.Equal(t, 1, w.calls)
	})
}

// A forced close of a session that cannot be read takes what it asked of people
// off their list.
func TestAForcedCloseOfAFrozenSession(t *testing.T) {
	t.Parallel()
	lab{reports: true, specs: plain, model: gated, options: host.Options{IdleMs: 100}}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config("t.*"))
		id := w.submit(ctx, k, "go")
		w.untilWaiting(ctx, k)
		w.submit(ctx, k, "queued")
		todo, err := w.engine.TodoList(ctx, "t1", "apr", nil, 10)
		require.NoError(t, err)
		require.Len(t, todo, 1)
		w.sleep(ctx, 1000)
		w.spoil(ctx, k, `"kind":"run.started","v":1,"data":{"run":99}`)
		_, err = w.do(ctx, k, decide(true, "", 1))
		requireCode(t, err, session.CodeQuarantined)
		w.must(ctx, k, &session.CloseSession{Force: true, Asked: asked("")})
		todo, err = w.engine.TodoList(ctx, "t1", "apr", nil, 10)
		require.NoError(t, err)
		require.Empty(t, todo)
		for _, r := range []ident.RunID{id, id + 1} {
			rec, err := w.engine.RunRow(ctx, k, r)
			require.NoError(t, err)
			require.Equal(t, session.RunStopped, rec.Status)
		}
		require.NoError(t, w.engine.Delete(ctx, k))
	})
}

// DESIGN §4, failures: a session over which drivers are lost again and again,
// with no result between, is frozen before it is looked at once more.
func TestASessionThatTakesItsDriversDown(t *testing.T) {
	t.Parallel()
	lab{reports: true, model: func(sim *simsched.Sim) generate { return asks(sim, 1000, "") }}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config())
		w.submit(ctx, k, "hi")
		w.sleep(ctx, 100)
		h := w.head(ctx, k)
		require.Equal(t, host.DriveRunning, h.Drive.Status)
		crashes := 0
		for ; w.head(ctx, k).Quarantine == nil; crashes++ {
			require.Less(t, crashes, 20)
			// The process does not survive its look at the log.
			w.crash(ctx)
			w.deps.Log = diesAtRead{w.store, w}
			w.start(w.group(ctx))
			w.sleep(ctx, 100)
		}
		require.Equal(t, session.InterruptsMax+2, crashes)
		require.Equal(t, "failures", w.head(ctx, k).Quarantine.Code)
		w.deps.Log = w.store
		w.crash(ctx)
		w.start(w.group(ctx))
		w.must(ctx, k, &session.ReleaseSession{Asked: asked("")})
		require.Zero(t, w.head(ctx, k).Failures)
		w.untilIdle(ctx, k)
		require.Equal(t, session.RunDone, w.run(ctx, k, 1).Status)
	})
}

// diesAtRead is a store whose reader takes its process down.
type diesAtRead struct {
	*memory.Store
	w *labWorld
}

func (d diesAtRead) Read(context.Context, host.Key, ident.Seq, ident.Seq, int, int64) ([]host.StoredEntry, error) {
	d.w.crash(context.Background())
	return nil, nil
}

// A run whose process dies again and again fails, before its session freezes.
func TestARunThatTakesItsDriversDown(t *testing.T) {
	t.Parallel()
	lab{reports: true, model: func(sim *simsched.Sim) generate { return asks(sim, 10*ident.Minute, "") }}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config())
		id := w.submit(ctx, k, "hi")
		for range session.InterruptsMax + 1 {
			w.sleep(ctx, 100)
			w.crash(ctx)
			w.start(w.group(ctx))
		}
		w.untilIdle(ctx, k)
		v := w.run(ctx, k, id)
		require.Equal(t, session.RunFails, v.Status)
		require.Contains(t, v.Failure.Message, "interrupted")
		require.Nil(t, w.head(ctx, k).Quarantine)
		require.Zero(t, w.head(ctx, k).Failures)
	})
}

// A person's command that cannot be written is refused, and harms nobody.
func TestACommandThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	lab{}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config())
		_, err := w.do(ctx, k, &session.RequestRun{Input: []session.Part{{Text: blob.Inline("\xff")}}, Asked: asked("")})
		requireCode(t, err, session.CodeValidation)
		require.Nil(t, w.head(ctx, k).Quarantine)
		w.submit(ctx, k, "fine")
		w.untilIdle(ctx, k)
	})
}

// The first turn of a session that begins with its first run is offered the
// session's tools.
func TestTheFirstTurnHasItsTools(t *testing.T) {
	t.Parallel()
	var offered []int
	lab{specs: plain, model: func(*simsched.Sim) generate {
		return func(_ context.Context, req host.ModelRequest, _ func(host.Delta)) (host.ModelResult, error) {
			offered = append(offered, len(req.Tools))
			return said("ok")
		}
	}}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.must(ctx, k, &session.OpenSession{Inc: "i", Config: config("t.*"), Asked: asked("")}, &session.RequestRun{Input: text("hi"), Asked: asked("")})
		w.untilIdle(ctx, k)
		require.Equal(t, []int{2}, offered)
	})
}

// A storm of watchers on one session costs each of them little: those that gave
// up are forgotten, all others are told.
func TestAStormOfWatchers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := key("s1")
	w.open(k, config())
	const n = 20_000
	var kept []host.Signal
	for i := range n {
		sig := w.engine.Watch(k, 1)
		if i%100 == 0 {
			kept = append(kept, sig)
		} else {
			sig.Fire()
		}
	}
	_, err := w.engine.View(w.ctx(), k) // all are taken in
	require.NoError(t, err)
	w.submit(k, "a", "hi")
	for _, sig := range kept {
		at, err := w.engine.WaitAny(w.ctx(), -1, sig)
		require.NoError(t, err)
		require.Zero(t, at)
	}
	w.untilIdle(k)
}

// A task is kept for a while where there is a session, and not for long where
// there is none.
func TestTasksEndWhenThereIsNothingToDo(t *testing.T) {
	t.Parallel()
	ops := counts{}
	lab{inject: ops.inject}.play(t, func(ctx context.Context, w *labWorld) {
		_, err := w.engine.View(ctx, key("nobody"))
		requireCode(t, err, session.CodeNotFound)
		k := key("s")
		w.open(ctx, k, config())
		heads := ops["log.open"]
		for range 5 {
			w.sleep(ctx, ident.Minute)
			_, err = w.engine.View(ctx, k)
			require.NoError(t, err)
		}
		require.Equal(t, heads, ops["log.open"], "its state is at hand")
		w.sleep(ctx, 3*ident.Minute)
		_, err = w.engine.View(ctx, k)
		require.NoError(t, err)
		require.Equal(t, heads+1, ops["log.open"], "loaded again")
		_, err = w.engine.View(ctx, key("nobody"))
		requireCode(t, err, session.CodeNotFound)
		require.Equal(t, heads+2, ops["log.open"])
	})
}

// Where there is a crowd a session that has nothing to do is not kept for long,
// and what wakes at once is woken in portions.
func TestACrowd(t *testing.T) {
	t.Parallel()
	lab{model: func(sim *simsched.Sim) generate { return asks(sim, 1, "nap", call("n", "sleep", `{"seconds":1000}`)) }}.play(t, func(ctx context.Context, w *labWorld) {
		const n = 1050
		for i := range n {
			k := key(fmt.Sprint("s", i))
			w.must(ctx, k, &session.OpenSession{Inc: "i", Config: config("sleep"), Asked: asked("")}, &session.RequestRun{Input: text("nap"), Asked: asked("")})
		}
		require.EqualValues(t, n, w.engine.Live())
		w.sleep(ctx, 10_000)
		require.LessOrEqual(t, w.engine.Live(), int64(1000))
		w.sleep(ctx, 500_000)
		require.Zero(t, w.engine.Live())
		most := int64(0)
		for range 60 {
			w.sleep(ctx, 10_000)
			most = max(most, w.engine.Live())
		}
		require.Less(t, most, int64(1150))
		for i := range n {
			rec, err := w.engine.RunRow(ctx, key(fmt.Sprint("s", i)), 1)
			require.NoError(t, err)
			require.Equal(t, session.RunDone, rec.Status)
		}
	})
}

// A clock that goes back: what is written does not.
func TestAClockThatGoesBack(t *testing.T) {
	t.Parallel()
	back := int64(0)
	lab{deps: func(sim *simsched.Sim, d *host.Deps) { d.Sched = shifted{sim, &back} }}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config())
		w.submit(ctx, k, "hi")
		w.untilIdle(ctx, k)
		back = ident.Hour
		id := w.submit(ctx, k, "again")
		w.untilIdle(ctx, k)
		require.Equal(t, session.RunDone, w.run(ctx, k, id).Status)
		var last ident.Instant
		for _, en := range w.entries(ctx, k) {
			require.GreaterOrEqual(t, en.At, last)
			last = en.At
		}
		require.Equal(t, last, w.head(ctx, k).At)
	})
}

// shifted is a clock that is wrong by some time.
type shifted struct {
	*simsched.Sim
	back *int64
}

func (s shifted) Now() ident.Instant { return s.Sim.Now().Add(-*s.back) }

// I16: a stash that fails and a checkpoint
// that cannot be read keep nobody from working.
func TestWhatIsNotNeededMayFail(t *testing.T) {
	t.Parallel()
	lab{reports: true, inject: func(*simsched.Sim) memory.Injector {
		return func(_ context.Context, op memory.Op, when memory.When) error {
			switch {
			case when != memory.Before:
			case strings.HasPrefix(op.Name, "stash.") && op.Name != "stash.sweep", strings.HasPrefix(op.Name, "checkpoints."):
				return errors.New("no luck")
			}
			return nil
		}
	}, options: host.Options{IdleMs: 100, CheckpointAt: 1}}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config())
		for range 3 {
			id := w.submit(ctx, k, "hi")
			w.untilIdle(ctx, k)
			require.Equal(t, session.RunDone, w.run(ctx, k, id).Status)
			w.sleep(ctx, 1000)
		}
	})
}
