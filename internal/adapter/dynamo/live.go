package dynamo

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

const (
	liveEvery = 500 * time.Millisecond // between looks for frames
	// leaseFor is how long a lease lasts, and leaseEvery how often it is
	// renewed: one that fails may be made up for.
	leaseFor   = 15 * ident.Second
	leaseEvery = 5 * time.Second
	// liveHeld is how much is held that was not taken. Beyond it the items are
	// read again from the first.
	liveHeld = 1 << 20
	// liveFirst is how long a stream waits at its beginning for what there is.
	liveFirst = time.Second
)

// LiveOptions of a Live; the zero value is good.
type LiveOptions struct {
	Every time.Duration // between looks for frames: 0.5 s, unless set
}

// Live implements host.LiveFrames over the table of a Store: it says that
// somebody watches, and looks for what was written.
type Live struct {
	s *Store
	o LiveOptions
}

var _ host.LiveFrames = (*Live)(nil)

// NewLive reads frames beside what a store keeps.
func NewLive(s *Store, o LiveOptions) *Live {
	if o.Every <= 0 {
		o.Every = liveEvery
	}
	return &Live{s: s, o: o}
}

// liveWatch implements host.FrameWatch.
type liveWatch struct {
	l     *Live
	pk    string
	wake  func()
	close context.CancelFunc

	mu     sync.Mutex
	frames []host.Frame
	bytes  int
	cursor string // sort key of the newest item read
	again  bool   // the items are to be read from the first
	whole  bool
}

// WatchFrames implements host.LiveFrames.
func (l *Live) WatchFrames(ctx context.Context, key host.Key, wake func()) host.FrameWatch {
	ctx, cancel := context.WithCancel(ctx)
	w := &liveWatch{l: l, wake: wake, close: cancel, again: true}
	pk, err := partition(key)
	if err != nil {
		return w // nothing is ever said there
	}
	w.pk = pk
	w.begin(ctx)
	go w.run(ctx)
	return w
}

// begin takes the lease and looks once, so that a stream can begin with what
// was said.
func (w *liveWatch) begin(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, liveFirst)
	defer cancel()
	w.lease(ctx)
	w.look(ctx)
}

func (w *liveWatch) run(ctx context.Context) {
	ticker := time.NewTicker(w.l.o.Every)
	defer ticker.Stop()
	renewed := time.Now()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if time.Since(renewed) >= leaseEvery {
			renewed = time.Now()
			w.lease(ctx)
		}
		if w.look(ctx) {
			w.wake()
		}
	}
}

// lease says that somebody watches. All who watch a session share the item, and
// nobody takes it back: it ends by itself.
func (w *liveWatch) lease(ctx context.Context) {
	s := w.l.s
	until := s.o.Now().Add(leaseFor)
	it := itemKey(w.pk, skView)
	it[attrUntil], it[attrTTL] = number(until), number(int64(until)/ident.Second+1)
	_ = s.once(ctx, func(ctx context.Context) error { // or the next one
		_, err := s.api.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(s.table), Item: it})
		return err //nolint:wrapcheck // nobody reads it
	})
}

// look reads what was written since the last look. The read is eventually
// consistent: what it misses the next one finds.
func (w *liveWatch) look(ctx context.Context) (found bool) {
	w.mu.Lock()
	again, cursor := w.again, w.cursor
	w.mu.Unlock()
	if again {
		cursor = spaceLive
	}
	frames, newest, err := w.read(ctx, cursor)
	if err != nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if again {
		// Earlier attempts are over, whoever has left their items.
		w.frames, w.bytes, w.again, w.whole = joinFrames(lastAttempt(frames)), 0, false, true
	} else {
		w.add(frames)
	}
	w.cursor = max(w.cursor, newest)
	return len(frames) > 0
}

func (w *liveWatch) add(frames []host.Frame) {
	for _, f := range frames {
		w.bytes += len(f.Text)
		w.frames = append(w.frames, f)
	}
	if w.bytes > liveHeld {
		w.frames, w.bytes, w.again = nil, 0, true
	}
}

// lastAttempt are the frames of the newest attempt among them.
func lastAttempt(frames []host.Frame) []host.Frame {
	i := len(frames)
	for i > 0 && !frames[i-1].Before(frames[len(frames)-1]) {
		i--
	}
	return frames[i:]
}

// read reads the items after a sort key.
func (w *liveWatch) read(ctx context.Context, cursor string) (frames []host.Frame, newest string, err error) {
	s := w.l.s
	newest = cursor
	in := &dynamodb.QueryInput{
		TableName: aws.String(s.table), KeyConditionExpression: aws.String("pk = :pk AND sk BETWEEN :low AND :high"),
		ExpressionAttributeValues: item{":pk": text(w.pk), ":low": text(cursor + first), ":high": text(spaceLive + last)},
	}
	for {
		var out *dynamodb.QueryOutput
		err := s.once(ctx, func(ctx context.Context) (err error) {
			out, err = s.api.Query(ctx, in)
			return err //nolint:wrapcheck // the next look makes up for it
		})
		if err != nil {
			return nil, "", err
		}
		for _, it := range out.Items {
			r := reader{it: it}
			newest = r.text(attrSK)
			frames = s.framesOf(frames, it)
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; len(in.ExclusiveStartKey) == 0 {
			return frames, newest, nil
		}
	}
}

// framesOf adds the frames of an item. One that cannot be read says nothing.
func (s *Store) framesOf(frames []host.Frame, it item) []host.Frame {
	r := reader{it: it}
	data, err := s.data(&r)
	var form liveForm
	if err != nil || json.Unmarshal(data, &form) != nil {
		return frames
	}
	for _, p := range form.Pieces {
		frames = append(frames, host.Frame{
			Run: form.Run, Turn: form.Turn, Attempt: form.Attempt,
			Delta: host.Delta{Part: p.Part, Call: p.Call, Text: p.Text}, Offset: p.Offset,
		})
	}
	return frames
}

// Take implements host.FrameWatch.
func (w *liveWatch) Take() (frames []host.Frame, whole bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	frames, whole = w.frames, w.whole
	if whole {
		// What came after the whole was read goes on from it.
		frames = joinFrames(frames)
	}
	w.frames, w.bytes, w.whole = nil, 0, false
	return frames, whole
}

// Close implements host.FrameWatch.
func (w *liveWatch) Close() { w.close() }
