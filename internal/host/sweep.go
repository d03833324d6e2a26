package host

import (
	"context"
	"errors"

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
		fresh := 0
		for _, k := range keys {
			if seen[k] {
				continue
			}
			seen[k] = true
			fresh++
			if err := e.tend(ctx, k, &sw); err != nil {
				sw.Failed++
				e.d.Report(k, "sweep", err)
			}
			if ctx.Err() != nil {
				return sw, ctx.Err()
			}
		}
		if fresh == 0 {
			return sw, nil
		}
	}
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
		sw.Deleted++
		return e.purgeOn(ctx, d, now)
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

// purgeOn goes on with a deletion. A process that knew nothing of it may write
// content for as long as it lives, so content is looked for once more when none
// of those is left; only then the head goes, and with it the id is free.
func (e *Engine) purgeOn(ctx context.Context, d *driver, now ident.Instant) error {
	if e.d.Purge != nil {
		if err := e.d.Purge(ctx, d.key, d.head.Inc); err != nil {
			return err
		}
	}
	last := d.head.At.Add(e.o.PurgeAgainMs)
	if now >= last {
		return e.d.Log.Delete(ctx, d.key, d.head.Inc)
	}
	head := d.head
	head.DueAt = last
	return d.writeHead(ctx, head, nil)
}
