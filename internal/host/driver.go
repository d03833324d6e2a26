package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/machine"
	"github.com/perdure/perdure/core/session"
)

// message is what reaches a session's task. An empty one makes it look round.
type message struct {
	call    *call
	outcome *outcome
	watch   *watcher
	wake    bool
	slice   *slice
	remove  bool // with call: delete the session
	meta    func(*Meta)
}

// outcome is the end of an effect, of the incarnation that it was begun for.
type outcome struct {
	claim session.Claim
	inc   string
	kept  bool // it is in the stash
	Prepared
	rendered *rendering // of a model call: for the next one
}

// driver is the task that owns a session in this process. Its fields are its
// own; the outside reaches it by the mailbox alone.
type driver struct {
	e     *Engine
	key   Key
	inbox *mailbox[message]
	rest  []message // taken from the mailbox and not handled yet

	m        *machine.Machine
	head     Head
	meta     Meta
	loaded   bool
	broken   error       // why this task no longer knows what is true
	stale    atomic.Bool // it was because another process has taken over
	taken    Head        // then: as that one left it
	claimed  bool        // this task has claimed the session's work
	duty     bool        // a driver elsewhere is to be started or woken
	slice    *slice      // what it does for a machine elsewhere
	tail     int64       // bytes of log since the newest checkpoint
	offer    offerCache
	rendered *rendering
	flights  []*flight // what state says is in flight and is done here, in order of start
	watchers watchers
	lookAt   ident.Instant // when to look at the head again, where others write it

	// What is to be done, and when.
	wakeAt   ident.Instant // the session's own deadline
	woken    bool          // a Wake is due
	owes     bool          // what another driver had in flight is to be resumed
	pending  []outcome     // not committed yet, oldest first
	unsure   *attempt      // a commit whose outcome is not known
	retryAt  ident.Instant // when to try again what did not go through
	pause    int64         // that led there
	puts     int           // how often something was put off
	said     string        // what was told of it
	stopping bool
	stopBy   ident.Instant // when it ends, whatever is under way

	// metaEdits are what the commands at hand make of the listing document.
	metaEdits []func(*Meta)
}

func newDriver(e *Engine, key Key) *driver {
	return &driver{e: e, key: key, inbox: newMailbox[message](e.d.Sched)}
}

// run is the task: take what has come, step, wait.
func (d *driver) run(ctx context.Context) {
	defer d.e.live.Add(-1)
	defer d.release()
	defer func() {
		// A bug here, or in a store, is this session's trouble alone.
		if err := caught(recover()); err != nil {
			d.e.ails(d.key, "panic", err)
			d.handOver(errBroke)
		}
	}()
	idleSince := d.e.Now()
	for {
		if d.e.stopping.Load() && !d.stopping {
			d.beginStop()
		}
		d.rest = append(d.rest, d.inbox.take()...)
		if len(d.rest) > 0 {
			idleSince = d.e.Now()
			d.handle(ctx)
		}
		d.tick(ctx)
		if d.broken != nil {
			d.handOver(nil)
			return
		}
		d.conclude()
		if d.mayEnd(idleSince) && d.inbox.close() {
			d.leave(ctx)
			return
		}
		if err := d.inbox.wait(ctx, d.patience(idleSince)); err != nil {
			d.abandon(err)
			return
		}
	}
}

// release lets the next task be found, and tells whoever watches to look again.
func (d *driver) release() {
	d.e.drivers.CompareAndDelete(d.key, d)
	d.watchers.fire()
	for _, f := range d.flights {
		f.cancel()
	}
}

// handOver ends a task that no longer knows what is true. Ends of effects are
// kept for the next one, which loads the session anew, so that nothing is done
// twice for want of them; what else is still to be handled goes to it at once,
// or is refused where that would only break it too.
func (d *driver) handOver(refusal error) {
	d.stale.Store(errors.Is(d.broken, errStale))
	d.displaced(d.broken)
	left := d.rest
	for !d.inbox.close() {
		left = append(left, d.inbox.take()...)
	}
	for _, m := range left {
		if m.outcome != nil {
			d.pending = append(d.pending, *m.outcome)
		}
	}
	if !d.stale.Load() {
		d.e.keep(d.key, d.pending...)
	}
	d.e.drivers.CompareAndDelete(d.key, d)
	for _, m := range left {
		switch {
		case m.outcome != nil:
		case refusal != nil:
			m.refuse(refusal)
		case d.e.stopping.Load():
			m.refuse(ErrStopping)
		case m.call != nil || m.watch != nil || m.slice != nil || m.wake && !d.e.paused(d.key, d.e.Now()):
			d.e.send(d.key, m)
		}
	}
}

// keep holds ends of effects for a session's next task.
func (e *Engine) keep(key Key, outs ...outcome) {
	if len(outs) == 0 {
		return
	}
	v, _ := e.kept.Load(key)
	old, _ := v.([]outcome)
	e.kept.Store(key, append(slices.Clip(old), outs...))
}

// deliver brings an effect's end to the task that began it; to the next one,
// if that is gone. Where another process has taken over it is of no use.
func (d *driver) deliver(o *outcome) {
	if d.inbox.put(message{outcome: o}) || d.e.stopping.Load() || d.stale.Load() {
		return
	}
	if _, driven := d.e.drivers.Load(d.key); !driven && d.e.paused(d.key, d.e.Now()) {
		d.e.keep(d.key, *o)
		return
	}
	d.e.send(d.key, message{outcome: o})
}

// abandon answers what is still in the mailbox when the task is torn down.
func (d *driver) abandon(err error) {
	d.endSlice(Next{}, unavailable(err))
	for !d.inbox.close() {
		for _, m := range d.inbox.take() {
			m.refuse(errors.Join(ErrUnavailable, err))
		}
	}
}

// refuse answers a message that nothing is done about.
func (m *message) refuse(err error) {
	if m.call != nil {
		m.call.err = err
		m.call.done.Fire()
	}
	if m.watch != nil {
		m.watch.signal.Fire()
	}
	if m.slice != nil {
		m.slice.finish(Next{}, errors.Join(ErrUnavailable, err))
	}
}

// leave ends a task that has come to its end. An effect that did not let itself
// be stopped stays in flight; the head says that a driver is owed, so that the
// next start does not take it for a crash.
func (d *driver) leave(ctx context.Context) {
	if n := len(d.pending); n > 0 || d.unsure != nil {
		d.e.d.Report(d.key, "stop", fmt.Errorf("%d results could not be committed; a commit whose outcome is not known: %v", n, d.unsure != nil))
	}
	if !d.troubled() {
		d.e.heals(d.key)
	}
	if !d.claimed || d.unsure != nil || d.head.Drive.Status != DriveRunning {
		return
	}
	head := d.head
	head.Drive.Status, head.DueAt = DriveStarting, d.e.Now()
	if err := d.writeHead(ctx, head, nil); err != nil {
		d.e.d.Report(d.key, "stop", err)
	}
}

// troubled says that something is to be tried again.
func (d *driver) troubled() bool {
	return len(d.pending) > 0 || d.unsure != nil || d.owes || d.retryAt != 0
}

// strangerMs is how long the task of a session stays that is not there.
const strangerMs = ident.Second

// idleMs is how long the task stays with nothing to do. It keeps the state at
// hand, which costs memory: not for long where there are many.
func (d *driver) idleMs() int64 {
	switch {
	case d.head.Status == StatusDeleting:
		return 0 // it stands in the sweep's way
	case d.head.Rev == 0:
		return min(strangerMs, d.e.o.IdleMs)
	case d.e.live.Load() > crowd:
		return d.e.o.IdleMs / 16
	}
	return d.e.o.IdleMs
}

// mayEnd says that the task has nothing to do and has had nothing for a while.
func (d *driver) mayEnd(idleSince ident.Instant) bool {
	now := d.e.Now()
	if d.stopping && now >= d.stopBy {
		return true
	}
	if len(d.flights) > 0 || d.troubled() && !d.stopping || len(d.pending) > 0 || d.unsure != nil {
		return false
	}
	return d.stopping || int64(now-idleSince) >= d.idleMs()
}

// patience is how long the task may wait for its mailbox.
func (d *driver) patience(idleSince ident.Instant) int64 {
	now := d.e.Now()
	at := idleSince.Add(d.idleMs())
	if len(d.flights) > 0 || d.troubled() {
		at = now.Add(ident.Hour)
	}
	earlier := func(t ident.Instant) {
		if t != 0 && t < at {
			at = t
		}
	}
	if d.drives() {
		earlier(d.wakeAt)
	}
	earlier(d.retryAt)
	earlier(d.stopBy)
	earlier(d.lookAt)
	if sl := d.slice; sl != nil {
		earlier(sl.step.Until.Add(-sliceEnd))
	}
	for _, f := range d.flights {
		earlier(f.by)
		earlier(f.end)
	}
	return max(int64(at-now), 0)
}

// drives says that this task acts on its own, not on commands alone.
func (d *driver) drives() bool { return !d.stopping && d.owns() }

// owns says that what this task commits is a driver's commit, under its claim.
func (d *driver) owns() bool { return !d.e.o.AdmitOnly && (!d.e.o.Sliced || d.slice != nil) }

// begins says that it may begin more than it has under way.
func (d *driver) begins() bool { return d.drives() && (d.slice == nil || !d.slice.closing) }

// handle takes what the mailbox held: commands and outcomes share a commit
// where they can.
func (d *driver) handle(ctx context.Context) {
	if err := d.ensure(ctx); err != nil {
		for len(d.rest) > 0 {
			m := d.rest[0]
			d.rest = d.rest[1:]
			if m.outcome != nil {
				d.pending = append(d.pending, *m.outcome)
			}
			m.refuse(err)
		}
		return
	}
	for len(d.rest) > 0 && d.broken == nil {
		m := d.rest[0]
		if m.call != nil {
			// A person's command is answered on its own: its refusal or its
			// conflict must not depend on a neighbour's.
			if d.step(ctx); d.broken != nil {
				return
			}
		}
		d.rest = d.rest[1:]
		switch {
		case m.watch != nil:
			d.watch(m.watch)
		case m.wake:
			d.woken = d.woken || d.drives()
		case m.slice != nil:
			d.begin(ctx, m.slice)
		case m.outcome != nil:
			d.take(m.outcome)
		case m.call != nil:
			d.serve(ctx, m)
		}
	}
	d.step(ctx)
}

// errBroke is what a command comes to whose task broke down under it.
var errBroke = fmt.Errorf("%w: the session's task broke down", ErrUnavailable)

// serve answers one call.
func (d *driver) serve(ctx context.Context, m message) {
	c := m.call
	defer c.done.Fire()
	c.err = errBroke // it stays when this panics
	var err error
	if !d.stopping && d.broken == nil && d.doubts(m) {
		err = d.refresh(ctx)
	}
	switch {
	case err != nil:
	case d.stopping:
		err = ErrStopping
	case d.broken != nil:
		err = d.broken
	case m.remove:
		err = d.remove(ctx)
	case m.meta != nil:
		if err = d.rewriteMeta(ctx, m.meta); err == nil {
			c.out = d.done(nil)
		}
	case len(c.cmds) == 0:
		if err = d.refresh(ctx); err == nil {
			err = d.exists()
		}
		if err == nil {
			c.out = d.done(nil)
		}
	default:
		c.out, err = d.command(ctx, c.cmds)
	}
	d.discharge(ctx)
	c.err = err
}

// doubts says that a call is answered by how the session stands before anything
// is written: others may have made, closed, frozen or deleted it since it was last
// looked at here.
func (d *driver) doubts(m message) bool {
	if m.remove {
		return true
	}
	absent := d.exists() != nil
	if len(m.call.cmds) == 0 {
		return m.meta != nil && absent
	}
	switch c := m.call.cmds[0].Command.(type) {
	case *session.OpenSession:
		return absent && d.head.Rev != 0
	case *session.ReleaseSession:
		return true
	case *session.CloseSession:
		return c.Force || absent
	}
	return absent
}

func (d *driver) exists() error {
	if d.head.Rev == 0 || d.head.Status == StatusDeleting {
		return notFound()
	}
	return nil
}

func notFound() error {
	return &session.Rejection{Code: session.CodeNotFound, Message: "there is no such session"}
}

func (d *driver) done(replies []session.Reply) Done {
	return Done{Replies: replies, State: d.m.State(), Head: d.head, Meta: d.meta}
}

// tick does what time asks for: the session's own deadline, those of effects,
// and another try at what could not be committed.
func (d *driver) tick(ctx context.Context) {
	now := d.e.Now()
	if !d.loaded || d.broken != nil {
		return
	}
	d.tickFlights(now)
	d.lookAround(ctx, now)
	if d.broken != nil {
		return
	}
	due := false
	if d.retryAt != 0 && now >= d.retryAt {
		d.retryAt, due = 0, true
		d.woken = d.woken || d.drives()
	}
	if d.drives() && d.wakeAt != 0 && now >= d.wakeAt {
		d.wakeAt = 0
		d.woken = true
	}
	if due || d.woken || len(d.pending) > 0 && d.retryAt == 0 {
		d.step(ctx)
	}
	d.discharge(ctx)
}
