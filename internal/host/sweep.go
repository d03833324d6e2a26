package host

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/perdure/perdure/core/session"
)

// recover picks up, at start, every session whose drive was not idle: whoever
// performed its effects is gone.
func (e *Engine) recover(ctx context.Context) error {
	const page = 200
	var after Key
	for {
		keys, err := e.d.Log.Unfinished(ctx, after, page)
		if err != nil {
			return err
		}
		for _, k := range keys {
			e.send(k, message{wake: true})
			after = k
		}
		if len(keys) < page {
			return nil
		}
	}
}

// sweep looks for sessions that are owed something and that nobody in this
// process drives: the safety net under every wake-up (I9).
func (e *Engine) sweep(ctx context.Context) {
	for !e.stopping.Load() {
		box, _ := e.wake.Load().(signalBox)
		if _, err := e.d.Sched.WaitAny(ctx, e.o.SweepMs, box.Signal); err != nil || e.stopping.Load() {
			return
		}
		if err := e.SweepOnce(ctx); err != nil && ctx.Err() == nil {
			e.d.Report(Key{}, "sweep", err)
		}
	}
}

// SweepOnce does one round.
func (e *Engine) SweepOnce(ctx context.Context) error {
	const most = 100
	keys, err := e.d.Log.Due(ctx, e.Now(), most)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if _, driven := e.drivers.Load(k); !driven {
			e.send(k, message{wake: true})
		}
	}
	_, err = e.d.Stash.SweepStash(ctx, e.Now(), most)
	return err
}

// takeOver resumes what a driver that is gone had in flight. A model result
// that it had stashed is taken instead of asking again.
func (d *driver) takeOver(ctx context.Context) {
	if d.broken != nil || d.head.Rev == 0 || d.head.Quarantine != nil || d.head.Status != StatusOpen || d.stopping || d.e.o.AdmitOnly {
		return
	}
	s := d.m.State()
	flying := s.InFlight()
	var w work
	for _, eff := range flying {
		if o := d.stashedOutcome(ctx, eff); o != nil {
			w.outcomes = append(w.outcomes, *o)
		}
	}
	w.resume = len(flying) > len(w.outcomes)
	w.wake = true
	d.stashed = len(w.outcomes) > 0
	d.step(ctx, w)
}

func (d *driver) stashedOutcome(ctx context.Context, eff session.Effect) *outcome {
	claim := eff.Claim()
	if claim.Kind != session.ClaimModel {
		return nil
	}
	data, err := d.e.d.Stash.GetStash(ctx, d.key, stashName(d.head.Inc, claim), d.e.Now())
	if err != nil {
		if !errors.Is(err, ErrNotFound) {
			d.e.d.Report(d.key, "stash", err)
		}
		return nil
	}
	var st stashed
	if err := json.Unmarshal(data, &st); err != nil || st.Outcome == nil {
		d.e.d.Report(d.key, "stash", err)
		return nil
	}
	return &outcome{claim: claim, Prepared: Prepared{Command: st.Outcome, Blobs: st.Blobs}}
}

// remove deletes the session: from the commit on it is not found, and the
// content goes after it. It may be repeated.
func (d *driver) remove(ctx context.Context) error {
	switch {
	case d.head.Rev == 0 || d.head.Status == StatusDeleting:
		return notFound()
	case d.head.Status != StatusClosed && d.head.Quarantine == nil:
		return &session.Rejection{Code: session.CodeSessionOpen, Message: "only a closed session can be deleted: close it first"}
	}
	head := d.head
	head.Rev++
	head.Write = d.writeID()
	head.Status, head.DueAt = StatusDeleting, d.e.Now()
	head.Drive.Status = DriveIdle
	if err := d.send(ctx, Commit{Key: d.key, Expect: d.head.Rev, Head: head}); err != nil {
		return errors.Join(ErrUnavailable, err)
	}
	d.head = head
	d.tellWatchers()
	return d.purge(ctx)
}

// purge removes what a deleted session has left. The sweeper comes back for
// what a crash cut short.
func (d *driver) purge(ctx context.Context) error {
	if err := d.e.d.Log.Delete(ctx, d.key, d.head.Inc); err != nil {
		d.e.d.Report(d.key, "delete", err)
	}
	if d.e.d.Purge != nil {
		if err := d.e.d.Purge(ctx, d.key); err != nil {
			d.e.d.Report(d.key, "delete", err)
		}
	}
	d.broken = notFound()
	return nil
}

// rewriteMeta changes the listing document alone. It moves the head, so that
// two writers cannot overwrite each other, and writes no event.
func (d *driver) rewriteMeta(ctx context.Context, change func(*Meta)) error {
	if err := d.exists(); err != nil {
		return err
	}
	m := d.meta
	change(&m)
	head := d.head
	head.Rev++
	head.Write = d.writeID()
	if err := d.send(ctx, Commit{Key: d.key, Expect: d.head.Rev, Head: head, Meta: &m}); err != nil {
		return errors.Join(ErrUnavailable, err)
	}
	d.head, d.meta = head, m
	return nil
}

// Delete deletes a closed session.
func (e *Engine) Delete(ctx context.Context, key Key) error {
	c := &call{done: e.d.Sched.NewSignal()}
	_, err := e.ask(ctx, key, message{call: c, remove: true}, c)
	return err
}

// Describe changes what lists show of a session.
func (e *Engine) Describe(ctx context.Context, key Key, change func(*Meta)) (Done, error) {
	c := &call{done: e.d.Sched.NewSignal()}
	return e.ask(ctx, key, message{call: c, meta: change}, c)
}
