package memory

import (
	"context"
	"slices"
	"sync"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// Bounds of what a Hub keeps, in bytes of text and in numbers.
const (
	// partialMax is of one attempt in flight. Beyond it the attempt's frames
	// still flow; who comes later sees only the rest.
	partialMax = 1 << 20
	// partialsMost and partialsBytes are of all attempts. Beyond them the one
	// that was silent for longest is forgotten: it may be of a turn whose end
	// nobody told.
	partialsMost  = 4096
	partialsBytes = 64 << 20
	// watchBytes and watchMost are of what a watcher has not taken.
	watchBytes = 256 << 10
	watchMost  = 4096
)

// Hub implements host.Frames and host.LiveFrames in one process: it hands frames
// to whoever watches, and keeps what a turn in flight has said so far for those
// who come later.
type Hub struct {
	mu       sync.Mutex
	watchers map[host.Key][]*watcher
	partials map[host.Key]*partial
	bytes    int   // of all partials
	clock    int64 // moves with every frame
}

// partial is the text of one attempt so far.
type partial struct {
	first host.Frame // says which attempt
	parts []part
	bytes int   // that it was given
	kept  int   // that it keeps
	used  int64 // by the hub's clock
}

type part struct {
	frame host.Frame // the part's first
	text  []byte
}

// watcher implements host.FrameWatch. Its fields are under the hub's lock.
type watcher struct {
	hub    *Hub
	key    host.Key
	wake   func()
	frames []host.Frame
	bytes  int
	whole  bool // what is kept stands in the place of what was or would be here
	closed bool
}

var (
	_ host.Frames     = (*Hub)(nil)
	_ host.LiveFrames = (*Hub)(nil)
)

// NewHub makes a Hub that nobody watches.
func NewHub() *Hub {
	return &Hub{watchers: map[host.Key][]*watcher{}, partials: map[host.Key]*partial{}}
}

// PublishFrame implements host.Frames.
func (h *Hub) PublishFrame(key host.Key, f host.Frame) {
	for _, w := range h.publish(key, f) {
		w.wake()
	}
}

func (h *Hub) publish(key host.Key, f host.Frame) []*watcher {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.keep(key, f) {
		return nil
	}
	for _, w := range h.watchers[key] {
		w.add(f)
	}
	return slices.Clone(h.watchers[key])
}

// add gives a watcher a frame. One that has no room loses all it has not taken,
// and takes the whole instead.
func (w *watcher) add(f host.Frame) {
	if w.whole {
		return
	}
	w.bytes += len(f.Text)
	if w.bytes > watchBytes || len(w.frames) == watchMost {
		w.frames, w.bytes, w.whole = nil, 0, true
		return
	}
	w.frames = append(w.frames, f)
}

// keep adds a frame to what the turn in flight has said; false says that it is
// of an attempt that is over.
func (h *Hub) keep(key host.Key, f host.Frame) bool {
	p := h.partials[key]
	if p != nil && f.Before(p.first) {
		return false // somebody who has not heard that nobody listens any more
	}
	// Another attempt starts again from nothing.
	if p == nil || p.first.Before(f) {
		h.forget(key)
		p = &partial{first: f}
		h.partials[key] = p
	}
	h.clock++
	p.used = h.clock
	if p.bytes += len(f.Text); p.bytes > partialMax {
		h.bytes -= p.kept
		p.parts, p.kept = nil, 0
		return true
	}
	i := slices.IndexFunc(p.parts, func(have part) bool { return have.frame.Part == f.Part && have.frame.Call == f.Call })
	if i < 0 {
		i = len(p.parts)
		p.parts = append(p.parts, part{frame: f})
	}
	p.parts[i].text = append(p.parts[i].text, f.Text...)
	p.kept += len(f.Text)
	h.bytes += len(f.Text)
	h.makeRoom(key)
	return true
}

// makeRoom forgets what was silent for longest, until the rest is in bounds.
func (h *Hub) makeRoom(but host.Key) {
	for len(h.partials) > partialsMost || h.bytes > partialsBytes {
		oldest, found := host.Key{}, false
		for key, p := range h.partials {
			if key != but && (!found || p.used < h.partials[oldest].used) {
				oldest, found = key, true
			}
		}
		if !found {
			return
		}
		h.forget(oldest)
	}
}

func (h *Hub) forget(key host.Key) {
	if p := h.partials[key]; p != nil {
		h.bytes -= p.kept
		delete(h.partials, key)
	}
}

// TurnOver implements host.Frames.
func (h *Hub) TurnOver(key host.Key, turn ident.TurnID, attempt int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.partials[key]; p != nil && !(host.Frame{Turn: turn, Attempt: attempt}).Before(p.first) {
		h.forget(key)
	}
}

// WatchFrames implements host.LiveFrames.
func (h *Hub) WatchFrames(_ context.Context, key host.Key, wake func()) host.FrameWatch {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := &watcher{hub: h, key: key, wake: wake, whole: true}
	h.watchers[key] = append(h.watchers[key], w)
	return w
}

func (h *Hub) partial(key host.Key) []host.Frame {
	p := h.partials[key]
	if p == nil {
		return nil
	}
	so := make([]host.Frame, 0, len(p.parts))
	for _, x := range p.parts {
		x.frame.Text = string(x.text)
		so = append(so, x.frame)
	}
	return so
}

// Watched says whether anybody watches the session.
func (h *Hub) Watched(key host.Key) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.watchers[key]) > 0
}

// Take implements host.FrameWatch.
func (w *watcher) Take() (frames []host.Frame, whole bool) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	if w.whole {
		w.whole = false
		return w.hub.partial(w.key), true
	}
	frames, w.frames, w.bytes = w.frames, nil, 0
	return frames, false
}

// Close implements host.FrameWatch.
func (w *watcher) Close() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	if w.closed {
		return
	}
	w.closed, w.frames = true, nil
	rest := slices.DeleteFunc(w.hub.watchers[w.key], func(x *watcher) bool { return x == w })
	if len(rest) == 0 {
		delete(w.hub.watchers, w.key)
		return
	}
	w.hub.watchers[w.key] = rest
}
