package dynamo

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// Live frames are items of the session, by turn, attempt and number. They are
// written only while somebody watches, which a lease beside them says, and
// removed when the log has the turn. What is lost of them is lost: one try for
// each, and their expiry takes what a crash leaves.

const (
	// skView is the lease of those who watch.
	skView = "h#view"

	frameEvery = 500 * time.Millisecond // between writes of one attempt
	frameBytes = 1 << 10                // or as soon as there is so much
	frameLook  = 5 * time.Second        // between looks at the lease
	// frameHeld is how much is held while nobody watches, so that who comes
	// later has it. Beyond it the beginning is lost.
	frameHeld  = 128 << 10
	framesHeld = 64 << 10 // in numbers
	// framesOver is of how many sessions it is remembered that an attempt ended.
	framesOver = 4096
	// frameKept is when an item expires that nobody removed: above what one
	// call may take.
	frameKept = 15 * ident.Minute
)

// FramesOptions of a Frames; the zero value is good.
type FramesOptions struct {
	Every time.Duration // between writes of one attempt: 0.5 s, unless set
	Look  time.Duration // between looks at the lease: 5 s, unless set
}

// Frames implements host.Frames over the table of a Store. What it has to wait
// for it does beside the calls; who ends the process, or lets it be frozen,
// calls Drain before.
type Frames struct {
	s *Store
	o FramesOptions

	mu      sync.Mutex
	writers map[host.Key]*frameWriter // of the newest attempt of each session
	tasks   sync.WaitGroup
}

var _ host.Frames = (*Frames)(nil)

// NewFrames writes frames beside what a store keeps.
func NewFrames(s *Store, o FramesOptions) *Frames {
	if o.Every <= 0 {
		o.Every = frameEvery
	}
	if o.Look <= 0 {
		o.Look = frameLook
	}
	return &Frames{s: s, o: o, writers: map[host.Key]*frameWriter{}}
}

// frameWriter writes the frames of one attempt, from a task of its own.
type frameWriter struct {
	f  *Frames
	pk string
	of host.Frame
	// Under the lock of Frames:
	held    []host.Frame
	bytes   int
	watched bool
	over    bool // and stays, so that what comes late says nothing

	news chan struct{} // that there is enough to write, or that it is over
}

// PublishFrame implements host.Frames.
func (f *Frames) PublishFrame(key host.Key, frame host.Frame) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.writers[key]
	if w != nil && (frame.Before(w.of) || w.over && !w.of.Before(frame)) {
		return
	}
	if w == nil || w.of.Before(frame) {
		pk, err := partition(key)
		if err != nil {
			return
		}
		w.end()
		f.forgetOver()
		w = &frameWriter{f: f, pk: pk, of: frame, news: make(chan struct{}, 1)}
		f.writers[key] = w
		f.tasks.Go(w.run)
	}
	w.add(frame)
}

func (w *frameWriter) add(frame host.Frame) {
	first := len(w.held) == 0
	w.bytes += len(frame.Text)
	if w.bytes > frameHeld || len(w.held) == framesHeld {
		w.held, w.bytes = nil, len(frame.Text)
	}
	w.held = append(w.held, frame)
	if w.watched && (first || w.bytes >= frameBytes) {
		w.ring()
	}
}

// forgetOver keeps what is remembered of ended attempts within bounds.
func (f *Frames) forgetOver() {
	if len(f.writers) < framesOver {
		return
	}
	for key, w := range f.writers {
		if w.over {
			delete(f.writers, key)
		}
	}
}

// joinFrames makes one frame of all that go on where one of their attempt and
// part ends.
func joinFrames(frames []host.Frame) []host.Frame {
	var out []host.Frame
	var texts [][]byte
	for _, f := range frames {
		i := len(out) - 1
		for ; i >= 0; i-- {
			if g := &out[i]; g.Turn == f.Turn && g.Attempt == f.Attempt && g.Part == f.Part && g.Call == f.Call {
				break
			}
		}
		if i < 0 || out[i].Offset+int64(len(texts[i])) != f.Offset {
			out, texts = append(out, f), append(texts, []byte(f.Text))
			continue
		}
		texts[i] = append(texts[i], f.Text...)
	}
	for i := range out {
		out[i].Text = string(texts[i])
	}
	return out
}

func (w *frameWriter) ring() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// end says that the attempt is over. It may be said of none.
func (w *frameWriter) end() {
	if w != nil {
		w.over, w.held = true, nil
		w.ring()
	}
}

// TurnOver implements host.Frames.
func (f *Frames) TurnOver(key host.Key, turn ident.TurnID, attempt int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w := f.writers[key]; w != nil && !(host.Frame{Turn: turn, Attempt: attempt}).Before(w.of) {
		w.end()
	}
}

// Drain ends whatever was begun, as if every turn were over, and returns when
// what was written is removed, or when ctx is done. Nothing may be published
// meanwhile by whoever calls it.
func (f *Frames) Drain(ctx context.Context) error {
	f.mu.Lock()
	for key, w := range f.writers {
		w.end()
		delete(f.writers, key)
	}
	f.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.tasks.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // the caller compares it with its own
	}
}

// run writes until the attempt is over, and removes what it wrote. It ends by
// that alone: a request of whoever published may be gone by now.
func (w *frameWriter) run() {
	ctx := context.Background() //nolint:forbidigo // see above
	var written int
	var look, next time.Time
	for {
		if now := time.Now(); !now.Before(look) {
			w.setWatched(w.f.watched(ctx, w.pk))
			look = now.Add(w.f.o.Look)
		}
		frames, waits, over := w.take(!time.Now().Before(next))
		switch {
		case over:
			w.remove(ctx, written)
			return
		case len(frames) > 0:
			w.write(ctx, written, frames)
			written++
			next = time.Now().Add(w.f.o.Every)
		case waits && next.Before(look):
			w.wait(time.Until(next))
		default:
			w.wait(time.Until(look))
		}
	}
}

func (w *frameWriter) setWatched(watched bool) {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	w.watched = watched
}

// take takes what is to be written now: all, if there is enough or it is time.
// waits says that there is something to write later.
func (w *frameWriter) take(due bool) (frames []host.Frame, waits, over bool) {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	if !w.watched || w.over || !due && w.bytes < frameBytes {
		return nil, w.watched && len(w.held) > 0, w.over
	}
	frames, w.held, w.bytes = w.held, nil, 0
	return frames, false, false
}

func (w *frameWriter) wait(d time.Duration) {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.news:
	}
}

// liveSK is the sort key of an item of frames.
func liveSK(of host.Frame, n int) string {
	return fmt.Sprintf("%s%012d#%06d#%06d", spaceLive, uint64(of.Turn), of.Attempt, n)
}

// liveForm is what an item of frames holds.
type liveForm struct {
	Run     ident.RunID  `json:"r"`
	Turn    ident.TurnID `json:"t"`
	Attempt int          `json:"a"`
	Pieces  []livePiece  `json:"p"`
}

type livePiece struct {
	Part   string `json:"p"`
	Call   int    `json:"c,omitempty"`
	Offset int64  `json:"o,omitempty"`
	Text   string `json:"t"`
}

// write writes frames once. If it fails they are lost.
func (w *frameWriter) write(ctx context.Context, n int, frames []host.Frame) {
	form := liveForm{Run: w.of.Run, Turn: w.of.Turn, Attempt: w.of.Attempt}
	for _, f := range joinFrames(frames) {
		form.Pieces = append(form.Pieces, livePiece{f.Part, f.Call, f.Offset, f.Text})
	}
	data, err := json.Marshal(form)
	if err != nil {
		return
	}
	s := w.f.s
	it := itemKey(w.pk, liveSK(w.of, n))
	it[attrData] = blob(s.packer.pack(data))
	it[attrTTL] = number(int64(s.o.Now().Add(frameKept)) / ident.Second)
	if ItemSize(it) > itemBytes {
		return
	}
	_ = s.once(ctx, func(ctx context.Context) error { // best effort
		_, err := s.api.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(s.table), Item: it})
		return err //nolint:wrapcheck // nobody reads it
	})
}

// remove removes so many items that were written.
func (w *frameWriter) remove(ctx context.Context, written int) {
	var page []types.WriteRequest
	for n := range written {
		page = append(page, types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: itemKey(w.pk, liveSK(w.of, n))}})
		if len(page) == batchWrites || n == written-1 {
			_ = w.f.s.writeAll(ctx, "remove frames", page) // or they expire
			page = nil
		}
	}
}

// watched says whether somebody watches a session.
func (f *Frames) watched(ctx context.Context, pk string) bool {
	var it item
	err := f.s.once(ctx, func(ctx context.Context) error {
		out, err := f.s.api.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String(f.s.table), Key: itemKey(pk, skView)})
		if err == nil {
			it = out.Item
		}
		return err //nolint:wrapcheck // not to know is no
	})
	r := reader{it: it}
	return err == nil && len(it) > 0 && ident.Instant(r.int(attrUntil)) > f.s.o.Now()
}
