package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
)

// CheckpointFormat moves by one when the same log folds to another state than
// before, though the state's fields are the same. Where the fields change, the
// shape says so by itself.
const CheckpointFormat = 1

// checkpointHeaderMax bounds the first line of a checkpoint, in bytes.
const checkpointHeaderMax = 1 << 10

// ErrCheckpoint is wrapped by every failure of DecodeCheckpoint. A checkpoint
// is a cache: whoever meets this folds the whole log instead, and no session is
// quarantined for it.
var ErrCheckpoint = errors.New("checkpoint cannot be used")

// EncodeCheckpoint is a state in a frame: a line with format, lineage, position,
// shape, length and hash, then the state as JSON.
func EncodeCheckpoint(s session.State) ([]byte, error) {
	w := writer{buf: []byte{'{'}}
	walkState(&w, &s)
	w.buf = append(w.buf, '}')
	if w.err != nil {
		return nil, fmt.Errorf("checkpoint at %d: %w", s.Seq, w.err)
	}
	body := w.buf
	head := writer{buf: append(make([]byte, 0, len(body)+256), `{"format":`...)}
	head.buf = strconv.AppendInt(head.buf, CheckpointFormat, 10)
	head.buf = append(head.buf, `,"inc":`...)
	head.text("inc", s.Inc)
	head.buf = append(head.buf, `,"seq":`...)
	head.buf = strconv.AppendUint(head.buf, uint64(s.Seq), 10)
	head.buf = append(head.buf, `,"shape":"`+stateShape+`","bytes":`...)
	head.buf = strconv.AppendInt(head.buf, int64(len(body)), 10)
	head.buf = append(head.buf, `,"sha256":"`...)
	head.buf = append(head.buf, blob.Sum(body).Hex()...)
	head.buf = append(head.buf, "\"}\n"...)
	if len(head.buf) > checkpointHeaderMax {
		return nil, fmt.Errorf("checkpoint at %d: %w: the incarnation has %d bytes", s.Seq, ErrUnencodable, len(s.Inc))
	}
	return append(head.buf, body...), nil
}

// DecodeCheckpoint reads the state of the incarnation inc at seq. It refuses,
// with ErrCheckpoint, what another build's fold made, what belongs to another
// session or position, and what is not whole.
func DecodeCheckpoint(data []byte, inc string, seq ident.Seq) (session.State, error) {
	end := bytes.IndexByte(data[:min(len(data), checkpointHeaderMax)], '\n')
	if end < 0 {
		return session.State{}, fmt.Errorf("%w: no header", ErrCheckpoint)
	}
	body := data[end+1:]
	if err := checkFrame(data[:end], body, inc, seq); err != nil {
		return session.State{}, err
	}
	var s session.State
	r := reader{data: body}
	r.literal("{")
	walkState(&r, &s)
	r.literal("}")
	switch {
	case r.err != nil:
		// Told, not wrapped: this is no damage to the log.
		return session.State{}, fmt.Errorf("%w: body: %s", ErrCheckpoint, r.err.Error())
	case r.pos != len(body):
		return session.State{}, fmt.Errorf("%w: bytes after the body", ErrCheckpoint)
	case s.Inc != inc || s.Seq != seq:
		return session.State{}, fmt.Errorf("%w: the body is of %q at %d", ErrCheckpoint, s.Inc, s.Seq)
	}
	return s, nil
}

func checkFrame(head, body []byte, inc string, seq ident.Seq) error {
	r := reader{data: head}
	r.literal(`{"format":`)
	if format := r.positive(); r.err == nil && format != CheckpointFormat {
		return fmt.Errorf("%w: format %d, this build has %d", ErrCheckpoint, format, CheckpointFormat)
	}
	r.literal(`,"inc":`)
	madeFor := r.text()
	r.literal(`,"seq":`)
	at := r.signless()
	r.literal(`,"shape":`)
	shape := r.text()
	r.literal(`,"bytes":`)
	size := r.positive()
	r.literal(`,"sha256":`)
	sum := r.text()
	r.literal("}")
	switch {
	case r.err != nil:
		return fmt.Errorf("%w: header: %s", ErrCheckpoint, r.err.Error())
	case r.pos != len(head):
		return fmt.Errorf("%w: bytes after the header", ErrCheckpoint)
	case madeFor != inc || ident.Seq(at) != seq:
		return fmt.Errorf("%w: it is of %q at %d, wanted is %q at %d", ErrCheckpoint, madeFor, at, inc, seq)
	case shape != stateShape:
		return fmt.Errorf("%w: shape %s, this build has %s", ErrCheckpoint, shape, stateShape)
	case size != uint64(len(body)):
		return fmt.Errorf("%w: %d bytes, should be %d", ErrCheckpoint, len(body), size)
	case sum != blob.Sum(body).Hex():
		return fmt.Errorf("%w: the hash does not fit", ErrCheckpoint)
	}
	return nil
}
