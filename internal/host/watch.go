package host

import (
	"context"
	"errors"
	"slices"

	"github.com/perdure/perdure/core/ident"
)

// watcher wants to know when the head has passed a position.
type watcher struct {
	after  ident.Seq
	signal Signal
}

// watchers are those of one session.
type watchers struct {
	all    []*watcher
	pruned int // how many were left when those that gave up were last taken out
}

// add remembers a watcher. Whoever gave up has fired its own signal; those are
// taken out when the list has doubled, so that a storm of watchers costs each
// of them little.
func (ws *watchers) add(w *watcher) {
	if len(ws.all) >= 2*ws.pruned+8 {
		ws.all = slices.DeleteFunc(ws.all, func(o *watcher) bool { return o.signal.Fired() })
		ws.pruned = len(ws.all)
	}
	ws.all = append(ws.all, w)
}

// tell fires those whose position is passed.
func (ws *watchers) tell(seq ident.Seq) {
	ws.all = slices.DeleteFunc(ws.all, func(w *watcher) bool {
		if seq <= w.after {
			return false
		}
		w.signal.Fire()
		return true
	})
}

// fire fires all: whoever watches must look again.
func (ws *watchers) fire() {
	for _, w := range ws.all {
		w.signal.Fire()
	}
	ws.all = nil
}

// watch remembers who wants to know of the next commit.
func (d *driver) watch(w *watcher) {
	if d.head.Seq > w.after || d.broken != nil {
		w.signal.Fire()
		return
	}
	d.watchers.add(w)
}

// lookEveryMs is how often an admitting process looks at a head for who watches
// it.
const lookEveryMs = ident.Second

// lookAround learns of what others have committed, as often as is asked for.
func (d *driver) lookAround(ctx context.Context, now ident.Instant) {
	every := d.e.o.WatchMs
	switch {
	case d.e.o.AdmitOnly && len(d.watchers.all) > 0:
		every = lookEveryMs
	case !d.owns():
		every = 0
	}
	switch {
	case every == 0:
		d.lookAt = 0
		return
	case d.lookAt == 0 || now >= d.lookAt && d.unsure != nil:
		d.lookAt = now.Add(every)
		return
	case now < d.lookAt:
		return
	}
	d.lookAt = now.Add(every)
	d.watchers.all = slices.DeleteFunc(d.watchers.all, func(o *watcher) bool { return o.signal.Fired() })
	old, err := d.moved(ctx)
	if err != nil {
		// Who watches looks for itself, and is told.
		d.watchers.fire()
		return
	}
	d.watchers.tell(d.head.Seq)
	d.woken = d.woken || old && d.drives()
	if left := int64(d.head.DueAt - now); d.claimed && len(d.flights) > 0 && left < runningDueMs/2 {
		d.extend(ctx, now)
	}
}

// extend says that this driver is at work: others take the session over when
// its head is overdue.
func (d *driver) extend(ctx context.Context, now ident.Instant) {
	if d.head.Drive.Status != DriveRunning {
		return
	}
	head := d.head
	head.DueAt = now.Add(runningDueMs)
	if err := d.writeHead(ctx, head, nil); err != nil {
		// The next look finds out what has come between.
		d.tell("extend", err)
	}
}

// refresh catches up with other writers' commits where there are any: what a
// driver has claimed only it and admissions move, and it hears of those.
func (d *driver) refresh(ctx context.Context) error {
	if !d.e.o.AdmitOnly || d.unsure != nil {
		return nil
	}
	_, err := d.behind(ctx)
	if d.head.Quarantine != nil && d.broken == nil {
		return nil // it can be read
	}
	return err
}

// moved is behind by a look that costs half, and may see an older head: the next
// one sees more.
func (d *driver) moved(ctx context.Context) (bool, error) {
	head, err := d.e.d.Log.Peek(ctx, d.key)
	if err == nil && head.Rev <= d.head.Rev && head.Inc == d.head.Inc {
		return false, nil
	}
	return d.behind(ctx)
}

// behind says whether others had moved the session on; it is caught up then.
func (d *driver) behind(ctx context.Context) (bool, error) {
	head, err := d.e.d.Log.Head(ctx, d.key)
	if err == nil && head.Rev == d.head.Rev && head.Inc == d.head.Inc {
		return false, nil
	}
	if err != nil && d.head.Rev == 0 && errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return true, d.reload(ctx)
}
