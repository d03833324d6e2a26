package memory

import (
	"slices"
	"sync"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// partialMax bounds what a Hub keeps of a turn in flight, in bytes of text.
// Beyond it the turn's frames still flow; who comes later sees only the rest.
const partialMax = 1 << 20

// Hub implements host.Frames: it hands frames to whoever watches, and keeps
// what a turn in flight has said so far for those who come later.
type Hub struct {
	mu       sync.Mutex
	watchers map[host.Key][]*Watcher
	partials map[host.Key]*partial
}

// partial is the text of one attempt so far.
type partial struct {
	first host.Frame // says which attempt
	parts []part
	bytes int
}

type part struct {
	frame host.Frame // the part's first
	text  []byte
}

// Watcher receives the frames of one session.
type Watcher struct {
	hub    *Hub
	key    host.Key
	frames chan host.Frame
	closed bool // under the hub's lock
	lost   bool // under the hub's lock
}

// NewHub makes a Hub that nobody watches.
func NewHub() *Hub {
	return &Hub{watchers: map[host.Key][]*Watcher{}, partials: map[host.Key]*partial{}}
}

// PublishFrame implements host.Frames. A watcher that has no room loses the
// frame, and every later one, until it asks with Lost.
func (h *Hub) PublishFrame(key host.Key, f host.Frame) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keep(key, f)
	for _, w := range h.watchers[key] {
		if w.lost {
			continue
		}
		select {
		case w.frames <- f:
		default:
			w.lost = true
		}
	}
}

func (h *Hub) keep(key host.Key, f host.Frame) {
	p := h.partials[key]
	// Another attempt starts again from nothing.
	if p == nil || !sameAttempt(p.first, f) {
		p = &partial{first: f}
		h.partials[key] = p
	}
	if p.bytes += len(f.Text); p.bytes > partialMax {
		p.parts = nil
		return
	}
	i := slices.IndexFunc(p.parts, func(have part) bool { return have.frame.Part == f.Part && have.frame.Call == f.Call })
	if i < 0 {
		i = len(p.parts)
		p.parts = append(p.parts, part{frame: f})
	}
	p.parts[i].text = append(p.parts[i].text, f.Text...)
}

func sameAttempt(a, b host.Frame) bool {
	return a.Run == b.Run && a.Turn == b.Turn && a.Attempt == b.Attempt
}

// TurnOver forgets what the turn said: it is in the log now, or nowhere.
func (h *Hub) TurnOver(key host.Key, turn ident.TurnID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.partials[key]; p != nil && p.first.Turn <= turn {
		delete(h.partials, key)
	}
}

// Watch begins to receive a session's frames, with room for so many that are
// not yet taken. It returns what the turn in flight has said so far, a frame a
// part; nothing lies between that and the first frame received.
func (h *Hub) Watch(key host.Key, room int) (so []host.Frame, w *Watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w = &Watcher{hub: h, key: key, frames: make(chan host.Frame, room)}
	h.watchers[key] = append(h.watchers[key], w)
	return h.partial(key), w
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

// Frames is where frames arrive. It is never closed.
func (w *Watcher) Frames() <-chan host.Frame { return w.frames }

// Lost says whether frames were lost since it was last asked. Then what has
// arrived is thrown away, and so is the reason to lose more: the answer is
// what the turn in flight has said so far, to go on from.
func (w *Watcher) Lost() (so []host.Frame, lost bool) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	if !w.lost {
		return nil, false
	}
	w.lost = false
	for len(w.frames) > 0 {
		<-w.frames
	}
	return w.hub.partial(w.key), true
}

// Close ends the watch. Closing again does nothing.
func (w *Watcher) Close() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	if w.closed {
		return
	}
	w.closed = true
	rest := slices.DeleteFunc(w.hub.watchers[w.key], func(x *Watcher) bool { return x == w })
	if len(rest) == 0 {
		delete(w.hub.watchers, w.key)
		return
	}
	w.hub.watchers[w.key] = rest
}
