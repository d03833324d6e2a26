package wire

import (
	"fmt"
	"strconv"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
)

// LineMax bounds an envelope, in bytes: what the strictest store takes as one
// item (400 KB), less its keys. Encode refuses more; payloads beyond
// blob.InlineMax ride elsewhere, so no admissible event comes near.
const LineMax = 390 << 10

// KindMax bounds the name of a kind, in bytes.
const KindMax = 64

// Header is what an envelope says before its data. Data is the offset at which
// the data begins; it ends one byte before the line does.
type Header struct {
	Seq     ident.Seq
	At      ident.Instant
	Kind    session.Kind
	Version int
	Data    int
}

// Encode is the envelope of an entry, without a line feed. Equal entries have
// equal bytes.
func Encode(e session.Entry) ([]byte, error) { return Codec{}.Encode(e) }

// Decode reads an envelope. It accepts exactly what Encode writes, in this
// version of the kind or an older one; anything else is a *MalformedError, or
// wraps session.ErrNewer when a newer build wrote it.
func Decode(line []byte) (session.Entry, error) { return Codec{}.Decode(line) }

// DecodeHeader reads the header alone, for readers that only page. It accepts
// kinds and versions of any build and does not look at the data.
func DecodeHeader(line []byte) (Header, error) {
	r := reader{data: line}
	h := r.header()
	if r.err != nil {
		return Header{}, r.err
	}
	return h, nil
}

func (r *reader) header() Header {
	var h Header
	if len(r.data) > LineMax {
		r.fail("the line has " + strconv.Itoa(len(r.data)) + " bytes, allowed are " + strconv.Itoa(LineMax))
		return h
	}
	r.literal(`{"seq":`)
	h.Seq = ident.Seq(r.positive())
	r.literal(`,"at":`)
	h.At = ident.Instant(r.signless())
	r.literal(`,"kind":`)
	h.Kind = r.kind()
	r.literal(`,"v":`)
	h.Version = int(min(r.positive(), 1<<31-1))
	r.literal(`,"data":`)
	h.Data = r.pos
	if r.err == nil && (!r.at(r.pos, "{") || !r.at(len(r.data)-1, "}")) {
		r.fail("want an object as data, and the end of the line after it")
	}
	if r.err != nil {
		r.err.Seq = h.Seq
	}
	return h
}

// signless reads a number that an int64 holds.
func (r *reader) signless() uint64 {
	if r.err != nil {
		return 0
	}
	from := r.pos
	n := r.digits()
	if n >= 1<<63 {
		r.failAt(from, "the number is too large")
		return 0
	}
	return n
}

func (r *reader) positive() uint64 {
	from := r.pos
	n := r.signless()
	if n == 0 {
		r.failAt(from, "want a number above 0")
	}
	return n
}

// kind reads a name of lower-case letters with dots and underscores.
func (r *reader) kind() session.Kind {
	if !r.literal(`"`) {
		return ""
	}
	i := r.pos
	for i < len(r.data) && kindByte(r.data[i]) {
		i++
	}
	kind := r.data[r.pos:i]
	if len(kind) == 0 || len(kind) > KindMax {
		r.fail("want a kind of 1 to " + strconv.Itoa(KindMax) + " bytes of a-z . _")
		return ""
	}
	r.pos = i
	r.literal(`"`)
	// Most lines are of a kind that has a constant: no allocation then.
	return session.Kind(kind)
}

func kindByte(c byte) bool { return c >= 'a' && c <= 'z' || c == '.' || c == '_' }

// Encode is the envelope of an entry, as the function Encode.
func (c Codec) Encode(e session.Entry) ([]byte, error) {
	if e.Event == nil {
		return nil, fmt.Errorf("%w: entry %d has no event", ErrUnencodable, e.Seq)
	}
	if e.Seq == 0 || e.Seq >= 1<<63 || e.At < 0 {
		return nil, fmt.Errorf("%w: entry %d at %d is out of range", ErrUnencodable, e.Seq, e.At)
	}
	form, _, ok := c.current(e.Event.Kind())
	if !ok {
		return nil, fmt.Errorf("%w: kind %q is not of this build", ErrUnencodable, e.Event.Kind())
	}
	w := writer{buf: make([]byte, 0, 512)}
	w.buf = append(w.buf, `{"seq":`...)
	w.buf = strconv.AppendUint(w.buf, uint64(e.Seq), 10)
	w.buf = append(w.buf, `,"at":`...)
	w.buf = strconv.AppendInt(w.buf, int64(e.At), 10)
	w.buf = append(w.buf, `,"kind":"`...)
	w.buf = append(w.buf, form.kind...)
	w.buf = append(w.buf, `","v":`...)
	w.buf = strconv.AppendInt(w.buf, int64(form.version), 10)
	w.buf = append(w.buf, `,"data":{`...)
	if !form.walk(&w, e.Event) {
		return nil, fmt.Errorf("%w: %T is not the event of kind %q", ErrUnencodable, e.Event, form.kind)
	}
	w.buf = append(w.buf, "}}"...)
	switch {
	case w.err != nil:
		return nil, fmt.Errorf("entry %d, %s: %w", e.Seq, form.kind, w.err)
	case len(w.buf) > LineMax:
		return nil, fmt.Errorf("entry %d, %s: %w: %d bytes, allowed are %d", e.Seq, form.kind, ErrTooLarge, len(w.buf), LineMax)
	}
	return w.buf, nil
}

// Decode reads an envelope, as the function Decode.
func (c Codec) Decode(line []byte) (session.Entry, error) {
	r := reader{data: line}
	h := r.header()
	if r.err != nil {
		return session.Entry{}, r.err
	}
	form, event, ok := c.form(h.Kind, h.Version)
	if !ok {
		return session.Entry{}, fmt.Errorf("event %d is of kind %s, version %d: %w", h.Seq, h.Kind, h.Version, session.ErrNewer)
	}
	r.literal("{")
	form.walk(&r, event)
	r.literal("}}")
	if r.err == nil && r.pos != len(line) {
		r.fail("bytes after the end of the envelope")
	}
	if r.err != nil {
		r.err.Seq = h.Seq
		return session.Entry{}, r.err
	}
	latest, err := c.upcast(form, event)
	if err != nil {
		return session.Entry{}, fmt.Errorf("event %d: %w", h.Seq, err)
	}
	return session.Entry{Seq: h.Seq, At: h.At, Event: latest}, nil
}
