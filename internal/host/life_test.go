package host_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/memory"
	"github.com/perdure/perdure/internal/adapter/simsched"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool"
)

// T17: ten parked sessions, every process destroyed, all approved: all finish,
// and each call ran once.
func TestTenParkedSessionsOutliveTheirProcess(t *testing.T) {
	t.Parallel()
	ran := map[string]int{}
	ops := counts{}
	lab{specs: slowTools(10, ran), model: gated, inject: ops.inject}.play(t, func(ctx context.Context, w *labWorld) {
		const n = 10
		for i := range n {
			k := key(fmt.Sprint("s", i))
			w.open(ctx, k, config("t.*"))
			w.submit(ctx, k, "go")
			w.untilWaiting(ctx, k)
		}
		w.crash(ctx)
		reads := ops["log.read"]
		w.start(w.group(ctx))
		w.sleep(ctx, ident.Hour)
		require.Equal(t, reads, ops["log.read"], "what only waits is not even read")
		todo, err := w.engine.TodoList(ctx, "t1", "apr", nil, 100)
		require.NoError(t, err)
		require.Len(t, todo, n)
		for _, x := range todo {
			w.must(ctx, key(string(x.Session)), decide(true, "", x.Approval.ID))
		}
		for i := range n {
			k := key(fmt.Sprint("s", i))
			w.untilIdle(ctx, k)
			require.Equal(t, session.RunDone, w.run(ctx, k, 1).Status)
		}
		require.Len(t, ran, n)
		for op, times := range ran {
			require.Equal(t, 1, times, op)
		}
	})
}

// T32, I12: two processes that take the same work at once: one claim wins, the
// other sees it and lets go; what must not run twice does not.
func TestTwoDriversOfOneSession(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		ran := map[string]int{}
		lab{
			seed: seed, reports: true, specs: slowTools(30, ran), options: host.Options{SweepMs: 50, IdleMs: 200},
			model: func(sim *simsched.Sim) generate { return asks(sim, 20, "go", call("a", "t.write", `{}`)) },
		}.play(t, func(ctx context.Context, w *labWorld) {
			f, k := w.front(ctx), key("s")
			other := host.New(w.deps, w.options)
			check(other.Start(simsched.WithGroup(ctx, "other")))
			f.open(ctx, k, never("t.*"))
			id := f.submit(ctx, k, "go")
			f.untilIdle(ctx, k)
			require.Equal(t, session.RunDone, f.run(ctx, k, id).Status, "seed %d", seed)
			require.LessOrEqual(t, len(ran), 1)
			for _, n := range ran {
				require.Equal(t, 1, n, "seed %d", seed)
			}
			check(other.Stop(ctx))
			check(f.engine.Stop(ctx))
		})
	}
}

// I12: a process that takes the work over with a mere command takes over what
// is in flight, too; the one that had it lets go.
func TestACommandThatTakesTheWorkOver(t *testing.T) {
	t.Parallel()
	lab{reports: true, options: host.Options{WatchMs: 500}, model: func(sim *simsched.Sim) generate { return asks(sim, 5000, "") }}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config())
		o := *w
		o.engine = host.New(w.deps, w.options)
		check(o.engine.Start(simsched.WithGroup(ctx, "other")))
		_, err := o.engine.View(ctx, k) // it has the session in hand, idle
		require.NoError(t, err)
		id := w.submit(ctx, k, "hi")
		w.sleep(ctx, 100)
		o.must(ctx, k, &session.SteerRun{Run: id, Text: text("louder"), Asked: asked("")})
		o.untilIdle(ctx, k)
		require.Equal(t, session.RunDone, o.run(ctx, k, id).Status)
		require.NoError(t, o.engine.Stop(ctx))
	})
}

// T32: a call that takes longer than a head is valid is not taken for one whose
// driver is gone: the driver says that it is at work.
func TestALongCallIsNotTakenOver(t *testing.T) {
	t.Parallel()
	ran := map[string]int{}
	lab{specs: slowTools(20*ident.Minute, ran), options: host.Options{WatchMs: 1000, ToolMs: ident.Hour}, model: func(sim *simsched.Sim) generate {
		return asks(sim, 10, "go", call("a", "t.write", `{}`))
	}}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		other := host.New(w.deps, w.options)
		check(other.Start(simsched.WithGroup(ctx, "other")))
		w.open(ctx, k, never("t.*"))
		id := w.submit(ctx, k, "go")
		w.untilIdle(ctx, k)
		require.Equal(t, session.RunDone, w.run(ctx, k, id).Status)
		for op, n := range ran {
			require.Equal(t, 1, n, op)
		}
		calls, err := w.engine.Calls(ctx, k, id)
		require.NoError(t, err)
		require.Equal(t, session.CallCompleted, calls[0].Status)
		require.EqualValues(t, 1, w.head(ctx, k).Drive.Epoch)
		require.NoError(t, other.Stop(ctx))
	})
}

// T38: a command whose process dies between its commit and its answer, or
// before, is sent again: nothing is left half reserved, and it is the same run.
func TestACommandSentAgainAfterACrash(t *testing.T) {
	t.Parallel()
	for _, when := range []memory.When{memory.Before, memory.After} {
		var kill func()
		lab{inject: func(*simsched.Sim) memory.Injector {
			return func(_ context.Context, op memory.Op, at memory.When) error {
				if kill != nil && op.Name == "log.commit" && at == when {
					k := kill
					kill = nil
					k()
				}
				return nil
			}
		}}.play(t, func(ctx context.Context, w *labWorld) {
			k := key("s")
			w.open(ctx, k, config())
			kill = func() { w.crash(ctx) }
			c := &session.RequestRun{Input: text("hi"), Asked: asked("once")}
			short, e := w.sim.NewSignal(), w.engine
			w.sim.Go(simsched.WithGroup(ctx, "person"), "person", func(ctx context.Context) {
				_, err := e.Do(ctx, k, host.Prepared{Command: c})
				if ctx.Err() == nil {
					panic(fmt.Sprint("it was answered: ", err))
				}
			})
			at, err := w.sim.WaitAny(ctx, 1000, short)
			require.NoError(t, err)
			require.Equal(t, -1, at)
			w.start(w.group(ctx))
			again := &session.RequestRun{Input: text("hi"), Asked: asked("once")}
			d := w.must(ctx, k, again)
			require.EqualValues(t, 1, d.Replies[0].Run)
			require.Equal(t, when == memory.After, d.Replies[0].Same)
			w.untilIdle(ctx, k)
			require.Equal(t, 1, w.count(ctx, k, session.KindRunAccepted))
			require.Equal(t, session.RunDone, w.run(ctx, k, 1).Status)
		})
	}
}

// T42: a run that waits for a person waits for a week, through stops and
// crashes, with a time limit of a minute for its work; only its own deadline
// could end it.
func TestAWeekOfWaiting(t *testing.T) {
	t.Parallel()
	ran := map[string]int{}
	lab{specs: slowTools(10, ran), model: gated, options: host.Options{SweepMs: ident.Minute}}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		c := config("t.*")
		c.Limits.MaxSeconds = 60
		w.open(ctx, k, c)
		id := w.submit(ctx, k, "go")
		w.untilWaiting(ctx, k)
		seq := w.head(ctx, k).Seq
		for i := range 7 {
			w.sleep(ctx, ident.Day)
			if i%2 == 0 {
				w.crash(ctx)
			} else {
				require.NoError(t, w.engine.Stop(ctx))
			}
			w.start(w.group(ctx))
		}
		require.Equal(t, seq, w.head(ctx, k).Seq, "nothing has happened")
		require.Zero(t, w.head(ctx, k).Failures)
		w.must(ctx, k, decide(true, "", 1))
		w.untilIdle(ctx, k)
		require.Equal(t, session.RunDone, w.run(ctx, k, id).Status)
		require.Len(t, ran, 1)
	})
}

// T49: the head says running and whoever said so is gone. The next command is
// admitted and the run recovered; without one, a process that was up all the
// time finds it by its sweep.
func TestADriverThatIsGone(t *testing.T) {
	t.Parallel()
	for _, knock := range []bool{true, false} {
		lab{reports: true, model: func(sim *simsched.Sim) generate { return asks(sim, 500, "") }}.play(t, func(ctx context.Context, w *labWorld) {
			k := key("s")
			w.open(ctx, k, config())
			id := w.submit(ctx, k, "hi")
			w.sleep(ctx, 100)
			require.Equal(t, host.DriveRunning, w.head(ctx, k).Drive.Status)
			other := host.New(w.deps, host.Options{})
			w.crash(ctx)
			w.engine = other
			if knock {
				check(other.Start(simsched.WithGroup(ctx, "other")))
				w.submit(ctx, k, "next")
			} else {
				// It starts to sweep before the other has even begun to die.
				w.sim.Go(simsched.WithGroup(ctx, "other"), "sweeps", func(ctx context.Context) {
					for w.sim.Sleep(ctx, 1000) == nil {
						check(other.SweepOnce(ctx))
					}
				})
			}
			w.sleep(ctx, 125*ident.Second)
			v := w.run(ctx, k, id)
			require.Equal(t, session.RunDone, v.Status)
		})
	}
}

// T50: what is closed by force is not tried again: no attempt, no timer, no
// token that still counts.
func TestAForcedCloseEndsIt(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"model", "retry", "sleep", "promise", "approval"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			given, times := map[string]host.ToolCall{}, map[string]int{}
			lab{
				options: host.Options{SweepMs: ident.Minute},
				specs:   func(sim *simsched.Sim) []tool.Spec { return append(plain(sim), laterTools(given, times)(sim)...) },
				model: func(sim *simsched.Sim) generate {
					switch what {
					case "model":
						return asks(sim, ident.Hour, "")
					case "retry":
						return script(10, nil, failing(host.Fault{Class: host.ClassRateLimit, RetryAfterMs: 30_000}))(sim)
					case "sleep":
						return asks(sim, 10, "go", call("a", "sleep", `{"seconds":100}`))
					case "promise":
						return asks(sim, 10, "go", call("a", "t.joined", `{}`))
					}
					return gated(sim)
				},
			}.play(t, func(ctx context.Context, w *labWorld) {
				k := key("s")
				w.open(ctx, k, config("t.*", "sleep"))
				id := w.submit(ctx, k, "go")
				w.submit(ctx, k, "queued")
				w.sleep(ctx, 1000)
				w.must(ctx, k, &session.CloseSession{Force: true, Asked: asked("")})
				calls, entries := w.calls, len(w.entries(ctx, k))
				h := w.head(ctx, k)
				require.Zero(t, h.DueAt)
				require.Equal(t, host.DriveIdle, h.Drive.Status)
				require.Equal(t, session.RunStopped, w.run(ctx, k, id).Status)
				w.crash(ctx)
				w.start(w.group(ctx))
				w.sleep(ctx, 2*ident.Day)
				require.Equal(t, calls, w.calls)
				require.InDelta(t, entries, len(w.entries(ctx, k)), 1) // an aborted call's usage
				for _, c := range given {
					claim, ok := w.deps.Keys.Open(c.Token)
					require.True(t, ok)
					_, err := w.do(ctx, k, settle(claim.Promise, "late"))
					requireCode(t, err, session.CodeAlreadyDecided)
				}
			})
		})
	}
}

// T52: fifty commands at one head, from fifty callers and two processes: all
// are admitted, each once, and the log is dense.
func TestFiftyCommandsAtOneHead(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		conflicts := 0
		lab{seed: seed, options: host.Options{WatchMs: 500}, model: func(sim *simsched.Sim) generate { return asks(sim, 3000, "") }}.play(t, func(ctx context.Context, w *labWorld) {
			f, k := w.front(ctx), key("s")
			w.open(ctx, k, config())
			w.submit(ctx, k, "hi")
			const n = 50
			runs := 0
			done := make([]host.Signal, n)
			for i := range n {
				if i%4 >= 2 {
					runs++
				}
				done[i] = w.sim.NewSignal()
				w.sim.Go(ctx, "person", func(ctx context.Context) {
					e := []*labWorld{w, f}[i%2]
					var c session.Command = &session.RequestRun{Input: text(strconv.Itoa(i)), Asked: asked(fmt.Sprint("r", i))}
					if i%4 < 2 {
						c = &session.CancelRun{Run: 1, Asked: asked(fmt.Sprint("c", i))}
					}
					_, err := e.do(ctx, k, c)
					check(err)
					done[i].Fire()
				})
			}
			for _, d := range done {
				at, err := w.sim.WaitAny(ctx, ident.Minute, d)
				require.NoError(t, err)
				require.Zero(t, at)
			}
			w.untilIdle(ctx, k)
			seqs := w.entries(ctx, k)
			for i, en := range seqs {
				require.EqualValues(t, i+1, en.Seq)
			}
			require.Equal(t, 1+runs, w.count(ctx, k, session.KindRunAccepted))
			conflicts += w.store.Stats().Conflicts
			require.NoError(t, f.engine.Stop(ctx))
		})
		require.Less(t, conflicts, 50*50)
	}
}

// I9: a wake-up that got lost: the task that had the session in hand is gone
// without a word, and the sweep finds what it owed within a second.
func TestALostWakeUpIsFound(t *testing.T) {
	t.Parallel()
	lost := true
	lab{reports: true, options: host.Options{IdleMs: 100}, inject: func(*simsched.Sim) memory.Injector {
		return func(_ context.Context, op memory.Op, when memory.When) error {
			// The first look of the woken task takes it down.
			if lost && op.Name == "log.open" && when == memory.Before {
				lost = false
				return errors.New("lost")
			}
			return nil
		}
	}, model: func(sim *simsched.Sim) generate { return asks(sim, 10, "nap", call("n", "sleep", `{"seconds":100}`)) }}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		lost = false
		w.open(ctx, k, config("sleep"))
		id := w.submit(ctx, k, "nap")
		w.sleep(ctx, 10_000) // its task has ended
		lost = true
		w.sleep(ctx, 95_000)
		require.False(t, lost)
		rec, err := w.engine.RunRow(ctx, k, id)
		require.NoError(t, err)
		require.Equal(t, session.RunDone, rec.Status)
		require.LessOrEqual(t, int64(rec.CompletedAt-rec.StartedAt), int64(100_000+3_000))
	})
}

// engine 10.83: lists are in the order of their newest run, ties by id; paging
// meets each once, and renaming moves nothing.
func TestListsAreStable(t *testing.T) {
	t.Parallel()
	lab{}.play(t, func(ctx context.Context, w *labWorld) {
		const n = 25
		for i := range n {
			w.open(ctx, key(fmt.Sprintf("s%02d", i)), config())
			if i%3 == 0 {
				w.sleep(ctx, 1)
			}
		}
		list := func() []ident.SessionID {
			var out []ident.SessionID
			q := host.ListQuery{Tenant: "t1", Limit: 4}
			for {
				page, err := w.engine.Sessions(ctx, q)
				require.NoError(t, err)
				for _, l := range page {
					out = append(out, l.Session)
					q.BeforeUpdated, q.BeforeSession = l.Meta.UpdatedAt, l.Session
				}
				if len(page) < q.Limit {
					return out
				}
			}
		}
		first := list()
		require.Len(t, first, n)
		w.sleep(ctx, 1000)
		for _, s := range []string{"s03", "s17"} {
			_, err := w.engine.Describe(ctx, key(s), func(m *host.Meta) { m.Name = "renamed"; m.Metadata = map[string]string{"a": "b"} })
			require.NoError(t, err)
		}
		require.Equal(t, first, list())
		w.submit(ctx, key("s07"), "hi")
		w.untilIdle(ctx, key("s07"))
		require.Equal(t, ident.SessionID("s07"), list()[0])
	})
}
