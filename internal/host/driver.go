package host

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/machine"
	"github.com/perdure/perdure/core/session"
)

// message is what reaches a session's task.
type message struct {
	call    *call
	outcome *outcome
	watch   *watcher
	wake    bool
	stop    bool
	remove  bool // with call: delete the session
	release bool // with call: fold a quarantined session again
	meta    func(*Meta)
}

// outcome is the end of an effect.
type outcome struct {
	claim session.Claim
	Prepared
	rendered *rendering // of a model call: for the next one
}

type watcher struct {
	after  ident.Seq
	signal Signal
}

// flight is an effect under way.
type flight struct {
	claim  session.Claim
	cancel context.CancelFunc
	by     ident.Instant // its deadline, 0 for none
	late   *atomic.Bool  // set when the deadline cut it
}

// driver is the task that owns a session in this process. Its fields are its
// own; the outside reaches it by the mailbox alone.
type driver struct {
	e     *Engine
	key   Key
	inbox *mailbox[message]

	m        *machine.Machine
	head     Head
	meta     Meta
	loaded   bool
	broken   error     // what loading came to, when it did not
	claimed  bool      // this task has claimed the session's work
	flights  []*flight // in order of start
	watchers []*watcher
	wakeAt   ident.Instant
	tail     int64 // bytes of log since the newest checkpoint
	ckpt     ident.Seq
	offer    offerCache
	rendered *rendering
	pending  []outcome // outcomes whose commit has not gone through
	retryAt  ident.Instant
	stashed  bool // a stash may hold what the next commit makes superfluous
	stopping bool
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
	idleSince := d.e.Now()
	for {
		msgs := d.inbox.take()
		if len(msgs) > 0 {
			idleSince = d.e.Now()
			d.handle(ctx, msgs)
		}
		d.tick(ctx)
		if d.broken != nil {
			d.handOver()
			return
		}
		if d.mayEnd(idleSince) && d.inbox.close() {
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
	for _, w := range d.watchers {
		w.signal.Fire()
	}
	for _, f := range d.flights {
		f.cancel()
	}
}

// handOver ends a task that no longer knows what is true. What is still in the
// mailbox goes to the next one, which loads the session anew.
func (d *driver) handOver() {
	var left []message
	for !d.inbox.close() {
		left = append(left, d.inbox.take()...)
	}
	d.e.drivers.CompareAndDelete(d.key, d)
	for _, m := range left {
		if m.outcome == nil {
			d.e.send(d.key, m)
		}
	}
}

// abandon answers what is still in the mailbox when the task is torn down.
func (d *driver) abandon(err error) {
	for !d.inbox.close() {
		for _, m := range d.inbox.take() {
			if m.call != nil {
				m.call.err = errors.Join(ErrUnavailable, err)
				m.call.done.Fire()
			}
			if m.watch != nil {
				m.watch.signal.Fire()
			}
		}
	}
}

// mayEnd says that the task has nothing to do and has had nothing for a while.
func (d *driver) mayEnd(idleSince ident.Instant) bool {
	if len(d.flights) > 0 || len(d.pending) > 0 {
		return false
	}
	if d.stopping {
		return true
	}
	return int64(d.e.Now()-idleSince) >= d.e.o.IdleMs
}

// patience is how long the task may wait for its mailbox.
func (d *driver) patience(idleSince ident.Instant) int64 {
	now := d.e.Now()
	at := idleSince.Add(d.e.o.IdleMs)
	earlier := func(t ident.Instant) {
		if t != 0 && t < at {
			at = t
		}
	}
	if len(d.flights) > 0 || len(d.pending) > 0 {
		at = now.Add(ident.Hour)
	}
	if d.drives() {
		earlier(d.wakeAt)
	}
	earlier(d.retryAt)
	for _, f := range d.flights {
		earlier(f.by)
	}
	return max(int64(at-now), 0)
}

// drives says that this task acts on its own, not on commands alone.
func (d *driver) drives() bool { return !d.stopping && !d.e.o.AdmitOnly }

// handle takes a mailbox's worth of messages: commands and outcomes share a
// commit where they can.
func (d *driver) handle(ctx context.Context, msgs []message) {
	if err := d.ensure(ctx); err != nil {
		d.refuseAll(msgs, err)
		return
	}
	var batch work
	flush := func() {
		if !batch.empty() {
			d.step(ctx, batch)
			batch = work{}
		}
	}
	for _, m := range msgs {
		switch {
		case m.stop:
			flush()
			d.beginStop()
		case m.watch != nil:
			d.watch(m.watch)
		case m.wake:
			batch.wake = true
		case m.outcome != nil:
			d.land(m.outcome.claim)
			if m.outcome.rendered != nil {
				d.rendered = m.outcome.rendered
			}
			batch.outcomes = append(batch.outcomes, *m.outcome)
		case m.call != nil:
			// A person's command is answered on its own: its refusal or its
			// conflict must not depend on a neighbour's.
			flush()
			d.serve(ctx, m)
		}
		if batch.full() {
			flush()
		}
	}
	flush()
}

// serve answers one call.
func (d *driver) serve(ctx context.Context, m message) {
	c := m.call
	defer c.done.Fire()
	switch {
	case d.stopping:
		c.err = ErrStopping
	case m.remove:
		c.err = d.remove(ctx)
	case m.meta != nil:
		c.err = d.rewriteMeta(ctx, m.meta)
		c.out = d.done(nil)
	case len(c.cmds) == 0:
		if c.err = d.exists(); c.err == nil {
			c.out = d.done(nil)
		}
	default:
		c.out, c.err = d.command(ctx, c.cmds)
	}
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
	for _, f := range d.flights {
		if f.by != 0 && now >= f.by {
			f.late.Store(true)
			f.by = 0
			f.cancel()
		}
	}
	if !d.loaded || d.broken != nil {
		return
	}
	var w work
	if len(d.pending) > 0 && now >= d.retryAt {
		w.outcomes, d.pending, d.retryAt = d.pending, nil, 0
	}
	if d.drives() && d.wakeAt != 0 && now >= d.wakeAt {
		w.wake = true
	}
	if !w.empty() {
		d.step(ctx, w)
	}
}

func (d *driver) refuseAll(msgs []message, err error) {
	for _, m := range msgs {
		if m.stop {
			d.stopping = true
		}
		if m.call != nil {
			m.call.err = err
			m.call.done.Fire()
		}
		if m.watch != nil {
			m.watch.signal.Fire()
		}
	}
}

// watch remembers who wants to know of the next commit.
func (d *driver) watch(w *watcher) {
	if d.head.Seq > w.after {
		w.signal.Fire()
		return
	}
	// Whoever gave up has fired its own signal.
	d.watchers = slices.DeleteFunc(d.watchers, func(o *watcher) bool { return o.signal.Fired() })
	d.watchers = append(d.watchers, w)
}

func (d *driver) tellWatchers() {
	kept := d.watchers[:0]
	for _, w := range d.watchers {
		if d.head.Seq > w.after {
			w.signal.Fire()
		} else {
			kept = append(kept, w)
		}
	}
	clear(d.watchers[len(kept):])
	d.watchers = kept
}

// land forgets an effect that has ended.
func (d *driver) land(c session.Claim) {
	for i, f := range d.flights {
		if f.claim == c {
			f.cancel()
			d.flights = slices.Delete(d.flights, i, i+1)
			return
		}
	}
}

// beginStop aborts model calls, whose end is recorded as stopped, and gives
// tools a while: one that does not end in time is found in flight at the next
// start.
func (d *driver) beginStop() {
	d.stopping = true
	until := d.e.Now().Add(d.e.o.GraceMs)
	for _, f := range d.flights {
		if k := f.claim.Kind; k == session.ClaimModel || k == session.ClaimCompact {
			f.cancel()
		} else if f.by == 0 || f.by > until {
			f.by = until
		}
	}
}
