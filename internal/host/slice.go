package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
)

// sliceTail is what must be left of a slice's time after the longest model call
// that it could still begin, and sliceEnd what must be left to say that it could
// not come to its end.
const (
	sliceTail = 30 * ident.Second
	sliceEnd  = 5 * ident.Second
)

// shortWaitMs is how long a slice waits by itself; anything longer is a park.
const shortWaitMs = 5 * ident.Second

// slice is a session's task at work for a machine elsewhere: one numbered step
// of one activation.
type slice struct {
	step    Step
	claim   Drive // taken with the first write
	turns   int   // model calls that it has begun
	closing bool  // it begins nothing more
	claimed bool  // the claim is written
	calls   []CallRef

	done Signal
	out  Next
	err  error
}

// Drive does one slice of an activation's work and says what follows. An error
// means that the step is lost: whoever asked for it recovers.
func (e *Engine) Drive(ctx context.Context, st Step) (Next, error) {
	switch {
	case st.Recover:
		return e.supersede(ctx, st, true)
	case st.Number > e.o.RolloverSteps, st.Began != 0 && int64(e.Now()-st.Began) > e.o.RolloverMs:
		return e.supersede(ctx, st, false)
	case e.stopping.Load():
		return Next{}, ErrStopping
	}
	sl := &slice{step: st, done: e.d.Sched.NewSignal()}
	e.send(st.Key, message{slice: sl})
	if _, err := e.d.Sched.WaitAny(ctx, -1, sl.done); err != nil {
		return Next{}, err
	}
	if errors.Is(sl.err, session.ErrNewer) {
		return e.leaveToNewer(ctx, sl)
	}
	return sl.out, sl.err
}

// newerPauseMs is how long a build that meets what a newer one has written waits
// before it asks for the step again: for some minutes of an update both run, and
// the machine asks whichever is there.
const newerPauseMs = 20 * ident.Second

// leaveToNewer hands a step back that only a newer build can do: nothing is
// written, and no driver counts as lost.
func (e *Engine) leaveToNewer(ctx context.Context, sl *slice) (Next, error) {
	e.d.Report(sl.step.Key, "newer", sl.err)
	if err := e.d.Sched.Sleep(ctx, max(min(newerPauseMs, int64(sl.step.Until-e.Now())-sliceEnd), 0)); err != nil {
		return Next{}, err
	}
	next := Next{Do: NextAgain, Number: sl.step.Number}
	if sl.claimed {
		next.Number++
	}
	return next, nil
}

// finish answers whoever asked for the slice.
func (sl *slice) finish(next Next, err error) {
	next.Number = sl.step.Number + 1
	sl.out, sl.err = next, err
	sl.done.Fire()
}

// fence says whether a step may claim the session as its head stands, and if not
// what the machine does instead. Who finds a newer epoch or a session at rest
// ends; who finds another step of its own epoch asks for the next one, because
// only it can tell its machine to go on.
func (st *Step) fence(head *Head) (claim Drive, instead string) {
	dr := head.Drive
	switch {
	case st.foreign(head):
		return Drive{}, NextDone
	case dr.Step+1 == st.Number:
		return Drive{Epoch: st.Epoch, Step: st.Number, Attempt: 1, Status: DriveRunning}, ""
	case dr.Step == st.Number && dr.Status == DriveRunning:
		return Drive{Epoch: st.Epoch, Step: st.Number, Attempt: dr.Attempt + 1, Status: DriveRunning}, ""
	}
	return Drive{}, NextAgain
}

// foreign says that the session has no work for this activation.
func (st *Step) foreign(head *Head) bool {
	return head.Rev == 0 || head.Inc != st.Inc || head.Status == StatusDeleting || head.Quarantine != nil ||
		head.Drive.Epoch != st.Epoch || head.Drive.Status == DriveIdle
}

// begin opens a slice: it catches up with the log, and sees whether the step may
// be claimed. The claim itself is the first thing written.
func (d *driver) begin(ctx context.Context, sl *slice) {
	if d.slice != nil {
		// A twin in this very process, while the first is at work: who is asked
		// later has the word, as in any other process.
		d.endSlice(Next{Do: NextAgain}, nil)
	}
	d.claimed = false
	if _, err := d.behind(ctx); err != nil && d.head.Quarantine == nil {
		sl.finish(Next{}, unavailable(err))
		return
	}
	claim, instead := sl.step.fence(&d.head)
	if instead != "" {
		sl.finish(Next{Do: instead}, nil)
		return
	}
	sl.claim = claim
	d.slice, d.woken, d.wakeAt = sl, true, 0
	d.resume(ctx)
}

// endSlice answers an open slice and lets go of the claim, and of what is still
// under way: the next step finds it in flight.
func (d *driver) endSlice(next Next, err error) {
	sl := d.slice
	if sl == nil {
		return
	}
	for _, f := range d.flights {
		f.over.Store(true)
		f.cancel()
	}
	sl.claimed = d.claimed
	d.stash(d.e.base)
	if d.unsure != nil {
		// Sent again it could land under a claim that is over, and begin effects
		// that nobody looks after. Who comes next reads what became of it.
		d.unsure = nil
		d.m.Drop()
	}
	d.slice, d.claimed, d.woken, d.owes, d.wakeAt = nil, false, false, false, 0
	d.flights, d.pending = nil, nil
	d.well()
	sl.finish(next, err)
}

// conclude ends a slice that has come to where its driver must wait, a call must
// run elsewhere, or its time or turns are spent.
func (d *driver) conclude() {
	sl := d.slice
	if sl == nil {
		return
	}
	now := d.e.Now()
	left := int64(sl.step.Until - now)
	if left < d.e.o.ModelMs+sliceTail || d.e.o.SliceTurns > 0 && sl.turns >= d.e.o.SliceTurns || len(sl.calls) > 0 {
		sl.closing = true
	}
	if left <= sliceEnd {
		d.endSlice(Next{}, fmt.Errorf("%w: the slice's time is over, and its work is not", ErrUnavailable))
		return
	}
	if len(d.flights) > 0 || len(d.pending) > 0 || d.unsure != nil || d.retryAt != 0 {
		return
	}
	switch {
	case !d.claimed:
		return
	case d.head.Drive.Status == DriveIdle, d.head.Quarantine != nil, d.head.Status == StatusDeleting:
		d.endSlice(Next{Do: NextDone}, nil)
	case len(sl.calls) > 0:
		d.endSlice(Next{Do: NextTools, Calls: sl.calls}, nil)
	case sl.closing:
		d.endSlice(Next{Do: NextAgain}, nil)
	case d.woken, d.owes, d.wakeAt != 0 && int64(d.wakeAt-now) <= shortWaitMs:
		// It goes on by itself.
	default:
		w := Wait{Rev: d.head.Rev, Number: d.head.Drive.Step, Attempt: d.head.Drive.Attempt, Until: d.wakeAt}
		d.endSlice(Next{Do: NextWait, Wait: w}, nil)
	}
}

// displaced answers a slice whose task gives way: another activation ends this
// one, another claim of the same lets its machine go on.
func (d *driver) displaced(err error) {
	sl := d.slice
	switch {
	case sl == nil:
		return
	case !d.stale.Load():
		d.endSlice(Next{}, errors.Join(ErrUnavailable, err))
	case sl.step.foreign(&d.taken):
		d.endSlice(Next{Do: NextDone}, nil)
	default:
		d.endSlice(Next{Do: NextAgain}, nil)
	}
}

// leaves says that an effect is left to a process of its own.
func (d *driver) leaves(eff session.Effect) bool {
	run, ok := eff.(*session.RunTool)
	if d.slice == nil || d.e.o.Elsewhere == nil || !ok {
		return false
	}
	p := performance{s: d.m.State()}
	_, def := p.call(run.Call)
	if def == nil || !d.e.o.Elsewhere(*def) {
		return false
	}
	d.slice.calls = append(d.slice.calls, CallRef{Run: run.Run, Call: run.Call, Attempt: run.Attempt})
	return true
}
