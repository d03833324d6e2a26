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

// lookEveryMs is how often a head is looked at, for who watches, where others
// write it.
const lookEveryMs = ident.Second

// watch remembers who wants to know of the next commit.
func (d *driver) watch(w *watcher) {
	if d.head.Seq > w.after || d.broken != nil {
		w.signal.Fire()
		return
	}
	d.watchers.add(w)
	if d.e.o.AdmitOnly && d.lookAt == 0 {
		d.lookAt = d.e.Now().Add(lookEveryMs)
	}
}

// lookAround learns of what others have committed.
func (d *driver) lookAround(ctx context.Context, now ident.Instant) {
	d.lookAt = 0
	d.watchers.all = slices.DeleteFunc(d.watchers.all, func(o *watcher) bool { return o.signal.Fired() })
	if len(d.watchers.all) == 0 {
		return
	}
	if err := d.refresh(ctx); err != nil {
		// Who watches looks for itself, and is told.
		d.watchers.fire()
		return
	}
	d.watchers.tell(d.head.Seq)
	if len(d.watchers.all) > 0 {
		d.lookAt = now.Add(lookEveryMs)
	}
}

// refresh catches up with other writers' commits where there are any: what a
// driver has claimed only it and admissions move, and it hears of those.
func (d *driver) refresh(ctx context.Context) error {
	if !d.e.o.AdmitOnly || d.unsure != nil {
		return nil
	}
	_, err := d.behind(ctx)
	return err
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
