package host

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/perdure/perdure/core/ident"
)

// Times of the sweep over drivers that run elsewhere.
const (
	aliveMs = ident.Minute      // between two looks at one that is at work
	stuckMs = 20 * ident.Minute // after which one is given up that has recorded nothing
)

// Swept is what a sweep found.
type Swept struct {
	// Found are sessions whose driver was overdue, Deleted those whose deletion
	// went on, Lost those whose activation was given up, Failed those about
	// which nothing could be done now.
	Found, Deleted, Lost, Failed int
}

// SweepOwed looks after every session whose driver, elsewhere, is overdue: it
// starts and wakes again what was lost, and goes on with deletions. It ends when
// there is no more, or with ctx.
func (e *Engine) SweepOwed(ctx context.Context) (Swept, error) {
	var sw Swept
	seen := map[Key]bool{}
	for {
		keys, err := e.d.Log.Due(ctx, e.Now(), sweepMost+len(seen))
		if err != nil {
			return sw, err
		}
		keys = slices.DeleteFunc(keys, func(k Key) bool { return seen[k] })
		for _, k := range keys {
			seen[k] = true
		}
		if len(keys) == 0 {
			return sw, nil
		}
		if err := e.tendAll(ctx, keys, &sw); err != nil {
			return sw, err
		}
	}
}

// sweepLanes is how many sessions are looked after side by side: what an outage
// took down is made good within the minutes that I9 allows, and a deletion that
// takes long is in nobody's way.
const sweepLanes = 16

// tendAll looks after sessions, and adds up what came of it.
func (e *Engine) tendAll(ctx context.Context, keys []Key, sw *Swept) error {
	var next atomic.Int64
	lanes := make([]Swept, min(sweepLanes, len(keys)))
	ended := make([]Signal, len(lanes))
	for i := range lanes {
		ended[i] = e.d.Sched.NewSignal()
		e.d.Sched.Go(ctx, "sweep", func(ctx context.Context) {
			defer ended[i].Fire()
			for n := next.Add(1); int(n) <= len(keys) && ctx.Err() == nil; n = next.Add(1) {
				k := keys[n-1]
				if err := e.tend(ctx, k, &lanes[i]); err != nil {
					lanes[i].Failed++
					e.d.Report(k, "sweep", err)
				}
			}
		})
	}
	for i := range lanes {
		// A lane ends with ctx by itself; until then what it counts is its own.
		if _, err := e.d.Sched.WaitAny(context.WithoutCancel(ctx), -1, ended[i]); err != nil {
			return err
		}
		sw.add(lanes[i])
	}
	return ctx.Err()
}

func (sw *Swept) add(o Swept) {
	sw.Found, sw.Deleted, sw.Lost, sw.Failed = sw.Found+o.Found, sw.Deleted+o.Deleted, sw.Lost+o.Lost, sw.Failed+o.Failed
}

// tend looks after one session. The index is a hint: the head is read anew, and
// everything depends on it.
func (e *Engine) tend(ctx context.Context, key Key, sw *Swept) (err error) {
	defer func() {
		if p := caught(recover()); p != nil {
			err = p
		}
	}()
	d, err := e.bare(ctx, key)
	if err != nil {
		return err
	}
	now := e.Now()
	if d.head.Rev == 0 || d.head.DueAt == 0 || d.head.DueAt > now {
		return nil
	}
	if d.head.Status == StatusDeleting {
		return e.purgeOn(ctx, d, now, sw)
	}
	sw.Found++
	switch d.head.Drive.Status {
	case DriveStarting:
		return e.startAgain(ctx, d, sw)
	case DriveWaking, DriveParked:
		if err := e.complete(ctx, key); !lostToken(err) {
			return err
		}
	case DriveIdle:
		head := d.head
		head.DueAt = 0
		return d.writeHead(ctx, head, nil)
	}
	return e.lookAfter(ctx, d, now, sw)
}

// startAgain starts what may have been started: the same name, the same words.
// One that is over, and never claimed the session, is a driver lost.
func (e *Engine) startAgain(ctx context.Context, d *driver, sw *Swept) error {
	err := e.d.Waker.Start(ctx, d.key, d.head.Inc, d.head.Drive.Epoch)
	if errors.Is(err, ErrEnded) {
		return e.giveUp(ctx, d, sw)
	}
	return err
}

// lookAfter asks for a driver that should have been heard of.
func (e *Engine) lookAfter(ctx context.Context, d *driver, now ident.Instant, sw *Swept) error {
	alive, err := e.d.Waker.Alive(ctx, d.key, d.head.Inc, d.head.Drive.Epoch)
	switch {
	case errors.Is(err, ErrNotFound):
		return e.startAgain(ctx, d, sw)
	case err != nil:
		return err
	case !alive:
		return e.giveUp(ctx, d, sw)
	case d.head.Drive.Status != DriveParked && int64(now-d.head.At) > stuckMs:
		if err := e.d.Waker.End(ctx, d.key, d.head.Inc, d.head.Drive.Epoch); err != nil {
			return err
		}
		return e.giveUp(ctx, d, sw)
	}
	head := d.head
	head.DueAt = now.Add(aliveMs)
	err = d.writeHead(ctx, head, nil)
	if _, conflict := errors.AsType[*Conflict](err); conflict {
		return nil // it has been heard of
	}
	return err
}

func (e *Engine) giveUp(ctx context.Context, d *driver, sw *Swept) error {
	sw.Lost++
	_, err := e.supersede(ctx, Step{Key: d.key, Inc: d.head.Inc, Epoch: d.head.Drive.Epoch}, true)
	return err
}

// purgeMs is how long a sweep has a deletion for itself: longer than it lives.
const purgeMs = 6 * ident.Minute

// purgeOn goes on with a deletion. A process that knew nothing of it may write
// content for as long as it lives, so content is looked for once more when none
// of those is left; only then the head goes, and with it the id is free. One
// sweep does it: a second, at work on what it had found before the head went,
// would take what a successor of the same id has written since.
func (e *Engine) purgeOn(ctx context.Context, d *driver, now ident.Instant, sw *Swept) error {
	mine := func(due ident.Instant) error {
		head := d.head
		head.DueAt = due
		return d.writeHead(ctx, head, nil)
	}
	if err := mine(now.Add(purgeMs)); err != nil {
		if _, conflict := errors.AsType[*Conflict](err); conflict {
			return nil // another sweep has it
		}
		return err
	}
	sw.Deleted++
	if e.d.Purge != nil {
		if err := e.d.Purge(ctx, d.key, d.head.Inc); err != nil {
			return err
		}
	}
	last := d.head.At.Add(e.o.PurgeAgainMs)
	if now >= last {
		return e.d.Log.Delete(ctx, d.key, d.head.Inc)
	}
	return mine(last)
}
