package host_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/memory"
	"github.com/perdure/perdure/internal/adapter/simsched"
	"github.com/perdure/perdure/internal/host"
)

// farm is the AWS shape in simulated time: an engine that admits, a machine
// that asks functions for slices, and a sweep. Its labWorld's engine is the
// admitting one.
type farm struct {
	*labWorld
	ctx       context.Context
	waker     *memory.Waker
	slices    host.Options           // of the drive function
	woken     map[string]host.Signal // by token
	executing []*execution
	running   map[string]host.Signal                // groups of functions at work, and what tells their machine of their end
	faults    []func(fn string, e *execution) error // asked before a function runs
	answers   func(next host.Next) error            // makes an answer of a drive get lost
	invoked   map[string]int
	// warm has functions' processes kept, frozen, for the next invocation; birth
	// changes what a new one works with, and twice says that an invocation is made
	// twice.
	warm  map[string][]*process
	birth func(p *process)
	twice func(fn string) bool
	// wakerInject makes the faults of the machine's engine.
	wakerInject memory.Injector
}

// execution is one activation as its machine knows it.
type execution struct {
	memory.Activation
	step   uint64
	began  ident.Instant
	states []string
	status string
	killed host.Signal // of the function that runs for it
	group  string
}

// invocationMs is how long a function may run, and machineMs what its machine
// allows it.
const (
	invocationMs = 900 * ident.Second
	machineMs    = 930 * ident.Second
)

// farmed plays a story before a farm.
func (l lab) farmed(t *testing.T, sl host.Options, story func(ctx context.Context, f *farm)) {
	t.Helper()
	f := &farm{slices: sl, woken: map[string]host.Signal{}, invoked: map[string]int{}, running: map[string]host.Signal{}}
	deps := l.deps
	l.options.AdmitOnly = true
	l.deps = func(sim *simsched.Sim, d *host.Deps) {
		f.waker = memory.NewWaker(memory.WakerOptions{
			Now: sim.Now,
			Started: func(a memory.Activation) {
				e := &execution{Activation: a, step: 1, began: sim.Now(), status: "RUNNING"}
				f.executing = append(f.executing, e)
				sim.Go(simsched.WithGroup(f.ctx, "machines"), fmt.Sprintf("machine %s-%d", a.Key, a.Epoch), func(ctx context.Context) { f.execute(ctx, e) })
			},
			Woken: func(_ memory.Activation, token string) { f.woken[token].Fire() },
			Ended: func(a memory.Activation) { f.stop(a) },
			Inject: func(ctx context.Context, op memory.Op, when memory.When) error {
				if f.wakerInject != nil {
					return f.wakerInject(ctx, op, when)
				}
				return nil
			},
		})
		d.Waker = f.waker
		if deps != nil {
			deps(sim, d)
		}
	}
	l.play(t, func(ctx context.Context, w *labWorld) {
		f.labWorld, f.ctx = w, ctx
		story(ctx, f)
	})
}

// engineFor is a function's process, a cold one.
func (f *farm) engineFor(ctx context.Context, o host.Options) *host.Engine {
	e := host.New(f.deps, o)
	require.NoError(f.t, e.Start(ctx))
	return e
}

var (
	errKilled = errors.New("the function was killed")
	// errUnheard: the function may run, or have run, and its machine asks again.
	errUnheard = errors.New("the answer was not heard")
)

// invoke runs a function in a process of its own, as its machine would.
func (f *farm) invoke(ctx context.Context, e *execution, fn string, o host.Options, run func(ctx context.Context, p *process) error) error {
	f.invoked[fn]++
	for _, fault := range f.faults {
		if err := fault(fn, e); err != nil {
			return err
		}
	}
	if f.twice != nil && f.twice(fn) {
		z := f.newProcess(f.ctx, o)
		f.sim.Go(simsched.WithGroup(f.ctx, z.group), fn, func(ctx context.Context) { _ = run(ctx, z) })
	}
	p := f.processFor(ctx, fn, o)
	e.group, e.killed = p.group, f.sim.NewSignal()
	f.running[p.group] = e.killed
	done := f.sim.NewSignal()
	var err error
	f.sim.Go(simsched.WithGroup(f.ctx, p.group), fn, func(ctx context.Context) {
		err = run(ctx, p)
		delete(f.running, p.group)
		if f.warm != nil {
			p.freeze()
			f.warm[fn] = append(f.warm[fn], p)
		}
		done.Fire()
	})
	switch at, werr := f.sim.WaitAny(ctx, machineMs, done, e.killed); {
	case werr != nil:
		return werr
	case at != 0:
		return errKilled
	}
	return err
}

// kill ends the function that runs for the newest execution.
func (f *farm) kill() {
	e := f.executing[len(f.executing)-1]
	f.sim.Kill(e.group)
	e.killed.Fire()
}

func (f *farm) drive(ctx context.Context, e *execution, lost bool) (next host.Next, err error) {
	o := f.slices
	o.Sliced = true
	err = f.invoke(ctx, e, "drive", o, func(ctx context.Context, p *process) error {
		n, err := p.engine.Drive(ctx, host.Step{
			Key: e.Key, Inc: e.Inc, Epoch: e.Epoch, Number: e.step, Recover: lost, Began: e.began, Until: p.engine.Now().Add(invocationMs),
		})
		if p.group == e.group { // a twin's answer nobody hears
			next = n
		}
		if err == nil && f.answers != nil && !lost {
			err = f.answers(n)
		}
		return err
	})
	return next, err
}

// execute is infra/asl/session.asl.json by hand.
func (f *farm) execute(ctx context.Context, e *execution) {
	status := "FAILED"
	defer func() { f.end(ctx, e, status) }()
	for {
		e.states = append(e.states, "Model")
		next, err := f.drive(ctx, e, false)
		if errors.Is(err, errUnheard) {
			continue // the machine's own retry, beside one that may still be at work
		}
		if err == nil && next.Do == host.NextWait {
			e.states = append(e.states, "Wait")
			err = f.wait(ctx, e, next.Wait)
		}
		if err != nil && e.status == "RUNNING" {
			e.states = append(e.states, "Recover")
			if next, err = f.drive(ctx, e, true); err != nil {
				return
			}
		}
		e.step = max(e.step, next.Number)
		switch next.Do {
		case host.NextDone:
			status = "SUCCEEDED"
			return
		case host.NextTools:
			e.states = append(e.states, "Tools")
			f.runCalls(ctx, e, next.Calls)
		}
		if e.status != "RUNNING" {
			return
		}
	}
}

func (f *farm) end(ctx context.Context, e *execution, status string) {
	if e.status == "RUNNING" && ctx.Err() == nil {
		e.status = status
		check(f.waker.End(ctx, e.Key, e.Inc, e.Epoch))
	}
}

func (f *farm) stop(a memory.Activation) {
	for _, e := range f.executing {
		if e.Activation == a && e.status == "RUNNING" {
			e.status = "ABORTED"
			f.sim.Kill(e.group)
			if e.killed != nil {
				e.killed.Fire()
			}
		}
	}
}

// wait is the state Wait: a token, a function that registers it, a time limit.
func (f *farm) wait(ctx context.Context, e *execution, w host.Wait) error {
	limit := 30 * ident.Day
	var deadline ident.Instant
	if w.Until != 0 {
		limit = min(max(int64(w.Until-f.sim.Now())+1000, 1000), limit)
		deadline = f.sim.Now().Add(limit)
	}
	token, err := f.waker.Park(ctx, e.Key, e.Inc, e.Epoch, deadline)
	if err != nil {
		return err
	}
	f.woken[token] = f.sim.NewSignal()
	err = f.invoke(ctx, e, "park", f.options, func(ctx context.Context, p *process) error {
		_, err := p.engine.Park(ctx, e.Key, e.Inc, e.Epoch, w, token)
		return err
	})
	if err != nil {
		return err
	}
	e.killed = f.sim.NewSignal()
	_, err = f.sim.WaitAny(ctx, limit, f.woken[token], e.killed)
	return err
}

// runCalls is the state Tools: it never fails.
func (f *farm) runCalls(ctx context.Context, e *execution, calls []host.CallRef) {
	var done []host.Signal
	for _, c := range calls {
		sig := f.sim.NewSignal()
		done = append(done, sig)
		f.sim.Go(simsched.WithGroup(f.ctx, "machines"), "tool", func(ctx context.Context) {
			defer sig.Fire()
			x := *e
			_ = f.invoke(ctx, &x, "tool", f.options, func(ctx context.Context, p *process) error {
				st := host.Step{Key: e.Key, Inc: e.Inc, Epoch: e.Epoch, Number: e.step, Until: p.engine.Now().Add(invocationMs)}
				return p.engine.RunCall(ctx, st, c)
			})
		})
	}
	for _, s := range done {
		_, err := f.sim.WaitAny(ctx, machineMs+ident.Minute, s)
		check(err)
	}
}

func (f *farm) sweep(ctx context.Context) host.Swept {
	sw, err := f.engine.SweepOwed(ctx)
	require.NoError(f.t, err)
	return sw
}

// rests waits until nothing is owed: the head is idle, or its driver is parked.
func (f *farm) rests(ctx context.Context, k host.Key, status string) host.Head {
	end := f.sim.Now().Add(ident.Hour)
	for {
		h := f.head(ctx, k)
		if h.Drive.Status == status {
			return h
		}
		require.Less(f.t, f.sim.Now(), end, "it stays %s\n%s\n%v", h.Drive.Status, f.dump(ctx, k), f.reports)
		f.sleep(ctx, 50)
	}
}

func (f *farm) last() *execution { return f.executing[len(f.executing)-1] }

func TestASliceRunsARunAndRests(t *testing.T) {
	t.Parallel()
	lab{specs: plain, model: func(sim *simsched.Sim) generate { return asks(sim, 20, "go", call("a", "t.read", `{}`)) }}.farmed(t, host.Options{}, func(ctx context.Context, f *farm) {
		k := key("s")
		f.open(ctx, k, config("t.*"))
		require.Empty(t, f.executing, "nothing is started for an open session")
		id := f.submit(ctx, k, "go")
		h := f.rests(ctx, k, host.DriveIdle)
		require.Zero(t, h.DueAt)
		require.Equal(t, session.RunDone, f.run(ctx, k, id).Status)
		require.Equal(t, []string{"Model"}, f.last().states, "two turns in one slice")
		f.sleep(ctx, 100)
		require.Equal(t, "SUCCEEDED", f.last().status)

		f.submit(ctx, k, "again")
		f.rests(ctx, k, host.DriveIdle)
		require.Len(t, f.executing, 2)
		require.EqualValues(t, 2, f.last().Epoch)
	})
}

func TestASliceParksAndIsWoken(t *testing.T) {
	t.Parallel()
	lab{specs: plain, model: gated}.farmed(t, host.Options{}, func(ctx context.Context, f *farm) {
		k := key("s")
		f.open(ctx, k, config("t.*"))
		id := f.submit(ctx, k, "go")
		h := f.rests(ctx, k, host.DriveParked)
		require.Zero(t, h.DueAt, "without a deadline nobody owes it anything")
		require.Equal(t, []string{"Model", "Wait"}, f.last().states)
		f.sleep(ctx, 10*ident.Day) // it costs nothing meanwhile
		require.Equal(t, 1, f.invoked["drive"])
		f.must(ctx, k, decide(true, "", 1))
		require.Equal(t, host.DriveIdle, f.rests(ctx, k, host.DriveIdle).Drive.Status)
		require.Equal(t, session.RunDone, f.run(ctx, k, id).Status)
		require.Equal(t, []string{"Model", "Wait", "Model"}, f.last().states)
	})
}

// A deadline wakes by the machine's own clock.
func TestASliceSleepsByTheMachine(t *testing.T) {
	t.Parallel()
	lab{model: func(sim *simsched.Sim) generate { return asks(sim, 20, "nap", call("n", "sleep", `{"seconds":1800}`)) }}.farmed(t, host.Options{}, func(ctx context.Context, f *farm) {
		k := key("s")
		f.open(ctx, k, config("sleep"))
		id := f.submit(ctx, k, "nap")
		h := f.rests(ctx, k, host.DriveParked)
		require.NotZero(t, h.DueAt)
		began := f.sim.Now()
		f.rests(ctx, k, host.DriveIdle)
		require.GreaterOrEqual(t, int64(f.sim.Now()-began), 1790*ident.Second)
		require.Equal(t, session.RunDone, f.run(ctx, k, id).Status)
		require.LessOrEqual(t, f.invoked["drive"], 3)
	})
}

// DESIGN §4, Slice and claim: who finds another claim of its own epoch asks for
// the next step, who finds a newer epoch or rest is done.
func TestAStepIsFenced(t *testing.T) {
	t.Parallel()
	lab{specs: plain, model: gated}.farmed(t, host.Options{}, func(ctx context.Context, f *farm) {
		k := key("s")
		f.open(ctx, k, config("t.*"))
		f.submit(ctx, k, "go")
		f.rests(ctx, k, host.DriveParked)
		e := f.last()
		ask := func(epoch, number uint64, inc string) host.Next {
			eng := f.engineFor(ctx, host.Options{Sliced: true})
			next, err := eng.Drive(ctx, host.Step{Key: k, Inc: inc, Epoch: epoch, Number: number, Until: f.sim.Now().Add(invocationMs)})
			require.NoError(t, err)
			require.NoError(t, eng.Stop(ctx))
			return next
		}
		before := f.head(ctx, k)
		// An invocation that starts after its twin has parked.
		require.Equal(t, host.Next{Do: host.NextAgain, Number: 2}, ask(1, 1, e.Inc))
		require.Equal(t, host.NextDone, ask(2, 1, e.Inc).Do, "an epoch that never was")
		require.Equal(t, host.NextDone, ask(1, 2, "another").Do, "another incarnation")
		require.Equal(t, before, f.head(ctx, k), "nothing is written")
		f.must(ctx, k, decide(true, "", 1))
		f.rests(ctx, k, host.DriveIdle)
		require.Equal(t, host.NextDone, ask(1, 3, e.Inc).Do)
	})
}

// A drive killed in mid-slice: the machine recovers, the next activation goes
// on, the turn's attempts are in the log.
func TestADriveKilledInMidSlice(t *testing.T) {
	t.Parallel()
	lab{model: func(sim *simsched.Sim) generate { return asks(sim, 5000, "") }}.farmed(t, host.Options{}, func(ctx context.Context, f *farm) {
		k := key("s")
		f.open(ctx, k, config())
		id := f.submit(ctx, k, "hi")
		f.sleep(ctx, 2000)
		require.Equal(t, host.DriveRunning, f.head(ctx, k).Drive.Status)
		f.kill()
		h := f.rests(ctx, k, host.DriveIdle)
		require.EqualValues(t, 2, h.Drive.Epoch)
		require.Zero(t, h.Failures, "a result has come since")
		require.Equal(t, session.RunDone, f.run(ctx, k, id).Status)
		require.Equal(t, 2, f.count(ctx, k, session.KindTurnRequested))
		require.Equal(t, []string{"Model", "Recover"}, f.executing[0].states)
	})
}

// A driver that no step survives freezes the session, and stops trying.
func TestLostDriversFreezeASession(t *testing.T) {
	t.Parallel()
	lab{reports: true}.farmed(t, host.Options{}, func(ctx context.Context, f *farm) {
		f.faults = append(f.faults, func(fn string, e *execution) error {
			if fn == "drive" && !slices.Contains(e.states, "Recover") {
				return errKilled // before it claims anything
			}
			return nil
		})
		k := key("s")
		f.open(ctx, k, config())
		f.submit(ctx, k, "hi")
		for f.head(ctx, k).Quarantine == nil {
			require.Less(t, len(f.executing), 20)
			f.sleep(ctx, ident.Minute)
			f.sweep(ctx)
		}
		require.Equal(t, "failures", f.head(ctx, k).Quarantine.Code)
		n := len(f.executing)
		f.sleep(ctx, ident.Hour)
		require.Zero(t, f.sweep(ctx).Found)
		require.Len(t, f.executing, n)
	})
}

func TestAnActivationRollsOver(t *testing.T) {
	t.Parallel()
	replies := []reply{}
	for i := range 6 {
		replies = append(replies, calling(call(fmt.Sprint("c", i), "t.read", `{}`)))
	}
	lab{specs: plain, model: script(10, nil, replies...)}.farmed(t, host.Options{SliceTurns: 1, RolloverSteps: 2}, func(ctx context.Context, f *farm) {
		k := key("s")
		f.open(ctx, k, config("t.*"))
		id := f.submit(ctx, k, "go")
		h := f.rests(ctx, k, host.DriveIdle)
		require.GreaterOrEqual(t, h.Drive.Epoch, uint64(3))
		v := f.run(ctx, k, id)
		require.Equal(t, session.RunDone, v.Status, "the same run, all the way")
		require.Equal(t, 7, f.calls)
		for _, e := range f.executing {
			require.LessOrEqual(t, len(e.states), 3)
			require.Equal(t, "SUCCEEDED", e.status)
		}
	})
}

// A process that dies between its commit and the start, or the wake: the sweep
// does what it owed.
func TestTheSweepDoesWhatWasOwed(t *testing.T) {
	t.Parallel()
	lab{specs: plain, model: gated, deps: func(_ *simsched.Sim, d *host.Deps) {}}.farmed(t, host.Options{}, func(ctx context.Context, f *farm) {
		k := key("s")
		mute := host.New(withoutWaker(f.deps), host.Options{AdmitOnly: true})
		require.NoError(t, mute.Start(ctx))
		whole := f.engine
		f.open(ctx, k, config("t.*"))
		f.engine = mute
		id := f.submit(ctx, k, "go")
		require.Empty(t, f.executing)
		require.Zero(t, whole.Now()-f.sim.Now())
		f.engine = whole
		require.Zero(t, f.sweep(ctx).Found, "not overdue yet")
		f.sleep(ctx, 21_000)
		require.Equal(t, 1, f.sweep(ctx).Found)
		f.rests(ctx, k, host.DriveParked)

		f.engine = mute
		f.must(ctx, k, decide(true, "", 1))
		f.engine = whole
		require.Equal(t, host.DriveWaking, f.head(ctx, k).Drive.Status)
		f.sleep(ctx, 21_000)
		f.sweep(ctx)
		f.rests(ctx, k, host.DriveIdle)
		require.Equal(t, session.RunDone, f.run(ctx, k, id).Status)
		check(mute.Stop(ctx))
	})
}

func withoutWaker(d host.Deps) host.Deps {
	d.Waker = nil
	return d
}

// A cancel reaches a model call under way within a second, over the head alone.
func TestACancelReachesASlice(t *testing.T) {
	t.Parallel()
	aborted := ident.Instant(0)
	lab{model: func(sim *simsched.Sim) generate {
		return func(ctx context.Context, _ host.ModelRequest, _ func(host.Delta)) (host.ModelResult, error) {
			if err := sim.Sleep(ctx, 10_000); err != nil {
				aborted = sim.Now()
				return host.ModelResult{}, err
			}
			return said("ok")
		}
	}}.farmed(t, host.Options{WatchMs: 500}, func(ctx context.Context, f *farm) {
		k := key("s")
		f.open(ctx, k, config())
		id, next := f.submit(ctx, k, "hi"), f.submit(ctx, k, "and then")
		f.sleep(ctx, 2000)
		at := f.sim.Now()
		f.must(ctx, k, &session.CancelRun{Run: id, Asked: asked("")})
		f.sleep(ctx, 1000)
		require.NotZero(t, aborted)
		require.LessOrEqual(t, int64(aborted-at), ident.Second)
		f.rests(ctx, k, host.DriveIdle)
		require.Equal(t, session.RunStopped, f.run(ctx, k, id).Status)
		require.Equal(t, session.RunDone, f.run(ctx, k, next).Status)
	})
}

func (f *farm) killGroup(n int) { f.sim.Kill(fmt.Sprint("function", n)) }
