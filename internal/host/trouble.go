package host

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/perdure/perdure/core/ident"
)

// troubleFirst and troubleMost bound the pause after which what went wrong is
// tried again: it doubles from the first to the most.
const (
	troubleFirst = ident.Second
	troubleMost  = 30 * ident.Second
)

// trouble is why a session is not driven: loading it failed, or its task broke
// down. It is never changed; another takes its place.
type trouble struct {
	pause int64
	until ident.Instant
	owed  bool // the sweep comes back for it, whatever its head says
	said  string
}

// ails puts off a session that could not be driven. The same trouble is told
// once, and tried again at ever longer intervals.
func (e *Engine) ails(key Key, what string, err error) {
	now := e.Now()
	t := &trouble{pause: troubleFirst, owed: true, said: gist(what, err)}
	v, _ := e.troubles.Load(key)
	old, _ := v.(*trouble)
	if old != nil {
		t.pause = old.pause
		if now >= old.until {
			t.pause = min(2*old.pause, troubleMost)
		}
	}
	t.until = now.Add(t.pause)
	e.troubles.Store(key, t)
	if old == nil || old.said != t.said {
		e.d.Report(key, what, err)
	}
}

// heals forgets a session's trouble: something of it has been committed, or
// nothing is left to do.
func (e *Engine) heals(key Key) { e.troubles.Delete(key) }

// paused says that a session is not to be looked at yet.
func (e *Engine) paused(key Key, now ident.Instant) bool {
	v, _ := e.troubles.Load(key)
	t, _ := v.(*trouble)
	return t != nil && now < t.until
}

// owed lists the sessions whose pause is over, in order, and how many are in
// trouble at all.
func (e *Engine) owed(now ident.Instant) (keys []Key, ailing int) {
	e.troubles.Range(func(k, v any) bool {
		key, _ := k.(Key)
		t, _ := v.(*trouble)
		ailing++
		if _, driven := e.drivers.Load(key); !driven && t.owed && now >= t.until {
			// Asked for once a pause: how it goes is told by another trouble.
			if e.troubles.CompareAndSwap(k, v, &trouble{pause: t.pause, until: t.until, said: t.said}) {
				keys = append(keys, key)
			}
		}
		return true
	})
	e.purges.Range(func(k, _ any) bool {
		if key, _ := k.(Key); !e.paused(key, now) {
			keys = append(keys, key)
		}
		return true
	})
	slices.SortFunc(keys, compareKeys)
	return slices.Compact(keys), ailing
}

func compareKeys(a, b Key) int {
	if c := strings.Compare(string(a.Tenant), string(b.Tenant)); c != 0 {
		return c
	}
	return strings.Compare(string(a.Session), string(b.Session))
}

// panicError is a panic that was caught: the process and every other session
// in it go on.
type panicError struct {
	value any
	stack string
}

func (p *panicError) Error() string { return "panic: " + PanicText(p.value) + "\n" + p.stack }

// PanicText says what a panic was without what it held, which may be a session's
// text: the runtime's own words, or a type.
func PanicText(value any) string {
	if err, ok := value.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("%T", value)
}

// gist is what makes two troubles the same: of a panic not the stack, which has
// addresses.
func gist(what string, err error) string {
	if p, ok := errors.AsType[*panicError](err); ok {
		return fmt.Sprintf("%s: %v", what, p.value)
	}
	return what + ": " + err.Error()
}

// caught makes an error of what recover returned, which is nil when nothing
// panicked.
func caught(value any) error {
	if value == nil {
		return nil
	}
	const most = 16 << 10
	stack := string(debug.Stack())
	return &panicError{value, stack[:min(len(stack), most)]}
}

// resumeAll picks up, at start, every session whose effects somebody performed
// who is gone. A parked one has none: its deadline, if it has one, is due by
// itself, so starting costs nothing for what only waits.
func (e *Engine) resumeAll(ctx context.Context) error {
	const page = 200
	var after Key
	for {
		keys, err := e.d.Log.Unfinished(ctx, after, page)
		if err != nil {
			return err
		}
		for _, k := range keys {
			after = k
			if head, err := e.d.Log.Head(ctx, k); err == nil && head.Drive.Status == DriveParked {
				continue
			}
			e.send(k, message{wake: true})
		}
		if len(keys) < page {
			return nil
		}
	}
}

// sweep looks for sessions that are owed something and that nobody in this
// process drives: the safety net under every wake-up (I9).
func (e *Engine) sweep(ctx context.Context) {
	pause, said := e.o.SweepMs, ""
	for !e.stopping.Load() {
		err := e.sweepOnce(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			pause, said = e.o.SweepMs, ""
		default:
			pause = min(2*pause, max(troubleMost, e.o.SweepMs))
			if said != err.Error() {
				said = err.Error()
				e.d.Report(Key{}, "sweep", err)
			}
		}
		box, _ := e.wake.Load().(signalBox)
		if _, err := e.d.Sched.WaitAny(ctx, pause, box.Signal); err != nil {
			return
		}
	}
}

func (e *Engine) sweepOnce(ctx context.Context) (err error) {
	defer func() {
		if p := caught(recover()); p != nil {
			err = p
		}
	}()
	return e.SweepOnce(ctx)
}

// sweepMost is how many sessions are woken before another look at the clock,
// and crowd is how many may be in hand while more are woken, or while one that
// has nothing to do is kept for long.
const (
	sweepMost = 100
	crowd     = 1000
)

// SweepOnce wakes every session that is due now.
func (e *Engine) SweepOnce(ctx context.Context) error {
	for !e.stopping.Load() {
		now := e.Now()
		owed, ailing := e.owed(now)
		for _, k := range owed {
			e.rouse(k)
		}
		// Those in hand and those in trouble are due too, perhaps before all
		// others: they must not fill the page.
		most := sweepMost + int(e.live.Load()) + ailing
		keys, err := e.d.Log.Due(ctx, now, most)
		if err != nil {
			return err
		}
		woken := 0
		for _, k := range keys {
			if woken == sweepMost {
				break
			}
			if !e.paused(k, now) && e.rouse(k) {
				woken++
			}
		}
		if woken < sweepMost || e.live.Load() > crowd {
			break
		}
	}
	_, err := e.d.Stash.SweepStash(ctx, e.Now(), sweepMost)
	return err
}

// rouse wakes a session that nobody in this process has in hand.
func (e *Engine) rouse(k Key) bool {
	if _, driven := e.drivers.Load(k); driven {
		return false
	}
	e.send(k, message{wake: true})
	return true
}
