package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/perdure/perdure/core/ident"
)

const (
	// writeWithin is how long a client may take for a frame before it is given
	// up: it comes again and misses nothing.
	writeWithin = 30 * time.Second
	// byeWithin is that at a stop.
	byeWithin = time.Second
)

// sse writes Server-Sent Events. A client that takes nothing holds one frame
// here, and no longer than the deadline of its write.
type sse struct {
	ctx  context.Context //nolint:containedctx // it lives for one request
	w    http.ResponseWriter
	rc   *http.ResponseController
	buf  bytes.Buffer
	stop func() bool
}

// writeError says that the client is gone.
type writeError struct{ err error }

func (e *writeError) Error() string { return "the client is gone: " + e.err.Error() }

// Unwrap returns the cause.
func (e *writeError) Unwrap() error { return e.err }

func newSSE(ctx context.Context, w http.ResponseWriter) *sse {
	out := &sse{ctx: ctx, w: w, rc: http.NewResponseController(w)}
	// A write that waits for its client must not wait out a stop.
	out.stop = context.AfterFunc(ctx, func() { _ = out.rc.SetWriteDeadline(time.Now().Add(byeWithin)) })
	return out
}

// close takes the deadline away, which the connection would keep.
func (o *sse) close() {
	if o.stop() {
		_ = o.rc.SetWriteDeadline(time.Time{})
	}
}

// comment tells the client how soon to come again. It is no event, and there at
// once.
func (o *sse) comment() error {
	o.buf.Reset()
	o.buf.WriteString("retry: 1000\n\n")
	return o.write()
}

// send writes one frame. Only a frame with a seq has an id: it is what the
// client sends as Last-Event-ID.
func (o *sse) send(name string, seq ident.Seq, data any) error {
	body, err := encode(data)
	if err != nil {
		return fmt.Errorf("frame %s: %w", name, err)
	}
	o.buf.Reset()
	o.buf.WriteString("event: " + name + "\n")
	if seq != 0 {
		o.buf.WriteString("id: " + strconv.FormatUint(uint64(seq), 10) + "\n")
	}
	o.buf.WriteString("data: ")
	o.buf.Write(body)
	o.buf.WriteString("\n\n")
	return o.write()
}

func (o *sse) write() error {
	o.patience()
	if _, err := o.w.Write(o.buf.Bytes()); err != nil {
		return &writeError{err}
	}
	return nil
}

// patience sets the deadline of the next write, where the server has them.
func (o *sse) patience() {
	_ = o.rc.SetWriteDeadline(time.Now().Add(writeWithin))
	if o.ctx.Err() != nil {
		_ = o.rc.SetWriteDeadline(time.Now().Add(byeWithin))
	}
}

// flush sends what a buffer on the way may hold. Writers without one say that
// they cannot.
func (o *sse) flush() error {
	o.patience()
	err := o.rc.Flush()
	if err == nil || errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return &writeError{err}
}
