package host

import (
	"context"
	"errors"

	"github.com/perdure/perdure/core/session"
)

// remove deletes the session: from the commit on it is not found, and the
// content goes after it. It may be repeated.
func (d *driver) remove(ctx context.Context) error {
	err := d.rewrite(ctx, func() (Head, *Meta, error) {
		switch {
		case d.head.Rev == 0 || d.head.Status == StatusDeleting:
			return Head{}, nil, notFound()
		case d.head.Status != StatusClosed && d.head.Quarantine == nil:
			return Head{}, nil, &session.Rejection{Code: session.CodeSessionOpen, Message: "only a closed session can be deleted: close it first"}
		}
		head := d.head
		head.Status, head.DueAt = StatusDeleting, max(d.e.Now(), 1)
		head.At = max(d.e.Now(), head.At) // when it was deleted
		head.Drive.Status = DriveIdle
		return head, nil, nil
	})
	if err != nil {
		return err
	}
	d.watchers.fire()
	if d.e.d.Waker != nil {
		// Nobody is to wait for what is gone. One that waits all the same ends
		// with its deadline.
		if err := d.e.complete(ctx, d.key); err != nil && !lostToken(err) {
			d.e.d.Report(d.key, "delete", err)
		}
	}
	return d.purge(ctx)
}

// purge removes what a deleted session has left, the head last: until it is
// gone the sweeper comes back for what a crash or a fault cut short.
func (d *driver) purge(ctx context.Context) error {
	if d.e.o.AdmitOnly {
		return nil
	}
	var err error
	if d.e.d.Purge != nil {
		err = d.e.d.Purge(ctx, d.key, d.head.Inc)
	}
	if err == nil {
		d.e.purges.Store(d.key, d.head.Inc)
		d.purgeLog(ctx)
	} else {
		d.e.ails(d.key, "delete", err)
	}
	// Whatever has come of it, this task has nothing more to do with it.
	d.broken = notFound()
	return nil
}

// purgeLog deletes what is left of an incarnation, if there is one to be
// deleted. The head may be gone already when that fails, and would then not
// bring anybody back: so it is remembered here, and by the store at its start.
func (d *driver) purgeLog(ctx context.Context) {
	v, ok := d.e.purges.Load(d.key)
	if !ok {
		return
	}
	inc, _ := v.(string)
	if err := d.e.d.Log.Delete(ctx, d.key, inc); err != nil {
		d.e.ails(d.key, "delete", err)
		return
	}
	d.e.purges.Delete(d.key)
	d.e.heals(d.key)
}

// rewriteMeta changes the listing document alone. It moves the head, so that
// two writers cannot overwrite each other, and writes no event.
func (d *driver) rewriteMeta(ctx context.Context, change func(*Meta)) error {
	return d.rewrite(ctx, func() (Head, *Meta, error) {
		if err := d.exists(); err != nil {
			return Head{}, nil, err
		}
		m := d.meta
		change(&m)
		return d.head, &m, nil
	})
}

// rewrite writes the head without an event, again when another writer came
// first.
func (d *driver) rewrite(ctx context.Context, next func() (Head, *Meta, error)) error {
	if d.unsure != nil && !d.settle(ctx) {
		return ErrUnavailable
	}
	began := d.e.Now()
	for try := 0; ; try++ {
		head, meta, err := next()
		if err != nil {
			return err
		}
		err = d.writeHead(ctx, head, meta)
		var conflict *Conflict
		if err == nil || !errors.As(err, &conflict) || int64(d.e.Now()-began) > d.e.o.CommitMs {
			if err != nil {
				return unavailable(err)
			}
			return nil
		}
		if err := d.e.d.Sched.Sleep(ctx, d.jitter(try)); err != nil {
			return unavailable(err)
		}
		if err := d.reload(ctx); err != nil {
			return err
		}
	}
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
