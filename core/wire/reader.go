package wire

import (
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/perdure/perdure/core/blob"
)

// reader is the visitor that reads back what writer wrote, byte for byte:
// fields in order, no spaces, no field that is not in the type, no empty field
// that the writer would have left out. So whatever it accepts, the writer
// writes again as the same bytes, and nothing that was stored is dropped
// unseen. The first error stays; after it the reader stands still.
type reader struct {
	data []byte
	pos  int
	err  *MalformedError

	scratch []byte // for texts with escapes; kept, because a checkpoint has many
}

func (r *reader) fail(detail string) { r.failAt(r.pos, detail) }

func (r *reader) failAt(offset int, detail string) {
	if r.err == nil {
		r.err = &MalformedError{Offset: offset, Detail: detail}
	}
}

// literal reads exactly these bytes.
func (r *reader) literal(s string) bool {
	if r.err != nil {
		return false
	}
	if !r.at(r.pos, s) {
		r.fail("want " + s)
		return false
	}
	r.pos += len(s)
	return true
}

func (r *reader) at(pos int, s string) bool {
	return len(r.data)-pos >= len(s) && string(r.data[pos:pos+len(s)]) == s
}

// key reads what comes before a value and reports whether a value follows. As
// in writer, the byte before tells whether it is the first.
func (r *reader) key(key string, optional bool) bool {
	if r.err != nil {
		return false
	}
	pos := r.pos
	if c := r.data[pos-1]; c != '{' && c != '[' {
		if pos >= len(r.data) || r.data[pos] != ',' {
			if !optional {
				r.fail("want ," + key)
			}
			return false
		}
		pos++
	}
	if !r.at(pos, key) {
		if !optional {
			r.failAt(pos, "want "+key)
		}
		return false
	}
	r.pos = pos + len(key)
	return true
}

func (r *reader) hollow(key string) { r.fail(key + " is empty and so would not be there") }

func (r *reader) str(key string, p *string, optional bool) {
	if r.key(key, optional) {
		*p = r.text()
		if optional && *p == "" {
			r.hollow(key)
		}
	}
}

// text reads a string.
func (r *reader) text() string {
	if !r.literal(`"`) {
		return ""
	}
	from, ascii := r.pos, true
	for i := from; i < len(r.data); i++ {
		switch c := r.data[i]; {
		case plain(c):
		case c >= utf8.RuneSelf:
			ascii = false
		case c == '"':
			r.pos = i + 1
			if !ascii && !r.utf8(from, i) {
				return ""
			}
			return string(r.data[from:i])
		case c == '\\':
			return r.escaped(from, i)
		default:
			r.failAt(i, "control character in a string")
			return ""
		}
	}
	r.failAt(len(r.data), "the string does not end")
	return ""
}

// utf8 checks a piece of a string that has no escape in it.
func (r *reader) utf8(from, to int) bool {
	for i := from; i < to; {
		c, size := utf8.DecodeRune(r.data[i:to])
		switch {
		case c == utf8.RuneError && size == 1:
			r.failAt(i, "the text is not valid UTF-8")
			return false
		case c == '\u2028' || c == '\u2029':
			r.failAt(i, "a line separator that is not escaped")
			return false
		}
		i += size
	}
	return true
}

// escaped reads on in a string that began at from and has its first escape at i.
func (r *reader) escaped(from, i int) string {
	out := r.scratch[:0]
	for piece := from; ; {
		for i < len(r.data) && (plain(r.data[i]) || r.data[i] >= utf8.RuneSelf) {
			i++
		}
		if !r.utf8(piece, i) {
			return ""
		}
		out = append(out, r.data[piece:i]...)
		switch {
		case i == len(r.data):
			r.failAt(i, "the string does not end")
			return ""
		case r.data[i] == '"':
			r.pos = i + 1
			r.scratch = out
			return string(out)
		case r.data[i] != '\\':
			r.failAt(i, "control character in a string")
			return ""
		}
		var n int
		if out, n = unescape(out, r.data[i:]); n == 0 {
			r.failAt(i, "an escape that is not how this text is written")
			return ""
		}
		i += n
		piece = i
	}
}

// unescape appends what the escape at the start of b stands for and returns its
// length, 0 for any that appendQuoted does not write.
func unescape(out, b []byte) ([]byte, int) {
	if len(b) < 2 {
		return out, 0
	}
	switch b[1] {
	case '"', '\\':
		return append(out, b[1]), 2
	case 'b':
		return append(out, '\b'), 2
	case 'f':
		return append(out, '\f'), 2
	case 'n':
		return append(out, '\n'), 2
	case 'r':
		return append(out, '\r'), 2
	case 't':
		return append(out, '\t'), 2
	case 'u':
		if len(b) < 6 {
			return out, 0
		}
	default:
		return out, 0
	}
	switch digits := string(b[2:6]); {
	case digits == "2028":
		return append(out, "\u2028"...), 6
	case digits == "2029":
		return append(out, "\u2029"...), 6
	case digits[:2] == "00" && (digits[2] == '0' || digits[2] == '1'):
		for low := range byte(16) {
			c := (digits[2]-'0')<<4 | low
			if hexDigits[low] == digits[3] && shortEscape(c) == 0 {
				return append(out, c), 6
			}
		}
	}
	return out, 0
}

func (r *reader) boolean(key string, p *bool, optional bool) {
	if !r.key(key, optional) {
		return
	}
	switch {
	case r.at(r.pos, "true"):
		*p = true
		r.pos += len("true")
	case r.at(r.pos, "false"):
		if optional {
			r.hollow(key)
		}
		r.pos += len("false")
	default:
		r.fail("want true or false")
	}
}

func (r *reader) uint64(key string, p *uint64, optional bool) {
	if r.key(key, optional) {
		*p = r.digits()
		if optional && *p == 0 {
			r.hollow(key)
		}
	}
}

// digits reads a number without sign, leading zero, point or exponent.
func (r *reader) digits() uint64 {
	i, n := r.pos, uint64(0)
	for ; i < len(r.data) && r.data[i]-'0' < 10; i++ {
		d := uint64(r.data[i] - '0')
		if n > (math.MaxUint64-d)/10 {
			r.fail("the number is too large")
			return 0
		}
		n = n*10 + d
	}
	if i == r.pos || r.data[r.pos] == '0' && i-r.pos > 1 {
		r.fail("want a whole number")
		return 0
	}
	r.pos = i
	return n
}

func (r *reader) int64(key string, p *int64, optional bool) {
	if !r.key(key, optional) {
		return
	}
	from := r.pos
	negative := from < len(r.data) && r.data[from] == '-'
	if negative {
		r.pos++
	}
	switch n := r.digits(); {
	case r.err != nil:
	case negative && n == 0:
		r.failAt(from, "minus zero")
	case negative && n <= 1<<63:
		*p = -int64(n)
	case !negative && n < 1<<63:
		*p = int64(n)
	default:
		r.failAt(from, "the number is too large")
	}
	if optional && *p == 0 {
		r.hollow(key)
	}
}

func (r *reader) int(key string, p *int, optional bool) {
	var n int64
	r.int64(key, &n, optional)
	if int64(int(n)) != n {
		r.fail(strconv.FormatInt(n, 10) + " is too large here")
		return
	}
	*p = int(n)
}

func (r *reader) payload(key string, p *blob.Payload, optional bool) {
	if !r.key(key, optional) {
		return
	}
	if !r.at(r.pos, "{") {
		p.Text = r.text()
		if optional && p.Text == "" {
			r.hollow(key)
		}
		return
	}
	from := r.pos
	r.literal(`{"ref":`)
	ref := r.text()
	r.literal(`,"size":`)
	size := r.digits()
	r.literal(`}`)
	if r.err != nil {
		return
	}
	if _, err := blob.ParseRef(ref); err != nil {
		r.failAt(from, "no content reference")
		return
	}
	if size == 0 || size > math.MaxInt64 {
		r.failAt(from, "no size of a reference")
		return
	}
	*p = blob.ByRef(blob.Ref(ref), int64(size))
}

func (r *reader) open(key string, optional, _ bool) bool {
	return r.key(key, optional) && r.literal("{")
}

func (r *reader) end(optional, empty bool) {
	if r.err == nil && !r.at(r.pos, "}") {
		r.fail("want } or a field that belongs here")
		return
	}
	if r.literal("}") && optional && empty {
		r.hollow("the object")
	}
}

func (r *reader) present(key string, _ bool) bool { return r.open(key, opt, false) }

func (r *reader) openList(key string, _ int, optional bool) bool {
	return r.key(key, optional) && r.literal("[")
}

func (r *reader) more(_, _ int) bool { return r.err == nil && !r.at(r.pos, "]") }

func (r *reader) endList(n int, optional bool) {
	if r.literal("]") && optional && n == 0 {
		r.hollow("the list")
	}
}
