package wire

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/perdure/perdure/core/blob"
)

// writer is the visitor that writes JSON. The first error stays, and what is
// written after it is of no use.
type writer struct {
	buf []byte
	err error
}

func (w *writer) failf(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

// key writes what comes before a value. No value ends in an opening bracket,
// so the byte before tells whether this is the first.
func (w *writer) key(key string) {
	if c := w.buf[len(w.buf)-1]; c != '{' && c != '[' {
		w.buf = append(w.buf, ',')
	}
	w.buf = append(w.buf, key...)
}

func (w *writer) str(key string, p *string, optional bool) {
	if optional && *p == "" {
		return
	}
	w.key(key)
	w.text(key, *p)
}

// text writes a string. Text that is no UTF-8 is refused: to replace its bad
// bytes would store something other than what was said.
func (w *writer) text(key, s string) {
	if !utf8.ValidString(s) {
		w.failf("%w: the text of %s is not valid UTF-8", ErrUnencodable, key)
		return
	}
	w.buf = appendQuoted(w.buf, s)
}

func (w *writer) boolean(key string, p *bool, optional bool) {
	if optional && !*p {
		return
	}
	w.key(key)
	w.buf = strconv.AppendBool(w.buf, *p)
}

func (w *writer) uint64(key string, p *uint64, optional bool) {
	if optional && *p == 0 {
		return
	}
	w.key(key)
	w.buf = strconv.AppendUint(w.buf, *p, 10)
}

func (w *writer) int64(key string, p *int64, optional bool) {
	if optional && *p == 0 {
		return
	}
	w.key(key)
	w.buf = strconv.AppendInt(w.buf, *p, 10)
}

func (w *writer) int(key string, p *int, optional bool) {
	n := int64(*p)
	w.int64(key, &n, optional)
}

func (w *writer) payload(key string, p *blob.Payload, optional bool) {
	if optional && *p == (blob.Payload{}) {
		return
	}
	w.key(key)
	if p.Ref == "" {
		if p.Size != 0 {
			w.failf("%w: %s has a size and no reference", ErrUnencodable, key)
		}
		w.text(key, p.Text)
		return
	}
	if _, err := blob.ParseRef(string(p.Ref)); err != nil || p.Text != "" || p.Size <= 0 {
		w.failf("%w: %s is no reference with a size", ErrUnencodable, key)
	}
	w.buf = append(w.buf, `{"ref":"`...)
	w.buf = append(w.buf, p.Ref...)
	w.buf = append(w.buf, `","size":`...)
	w.buf = strconv.AppendInt(w.buf, p.Size, 10)
	w.buf = append(w.buf, '}')
}

func (w *writer) open(key string, optional, empty bool) bool {
	if optional && empty {
		return false
	}
	w.key(key)
	w.buf = append(w.buf, '{')
	return true
}

func (w *writer) end(_, _ bool) { w.buf = append(w.buf, '}') }

func (w *writer) present(key string, isSet bool) bool { return w.open(key, opt, !isSet) }

func (w *writer) openList(key string, n int, optional bool) bool {
	if optional && n == 0 {
		return false
	}
	w.key(key)
	w.buf = append(w.buf, '[')
	return true
}

func (w *writer) more(i, n int) bool { return i < n }

func (w *writer) endList(int, bool) { w.buf = append(w.buf, ']') }

const hexDigits = "0123456789abcdef"

// appendQuoted writes valid UTF-8 as a JSON string. There is one way to write
// each text: the short escapes where JSON has one, \u00xx for the other control
// characters, \u2028 and \u2029 for the two that end a line in JavaScript, and
// everything else as it is.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if plain(c) {
			continue
		}
		if c >= utf8.RuneSelf {
			if c == 0xe2 && lineEnd(s[i:]) {
				b = append(b, s[from:i]...)
				b = append(b, `\u202`...)
				b = append(b, '8'+s[i+2]-0xa8)
				i += 2
				from = i + 1
			}
			continue
		}
		b = append(b, s[from:i]...)
		from = i + 1
		if short := shortEscape(c); short != 0 {
			b = append(b, '\\', short)
		} else {
			b = append(b, `\u00`...)
			b = append(b, hexDigits[c>>4], hexDigits[c&15])
		}
	}
	b = append(b, s[from:]...)
	return append(b, '"')
}

// plain reports an ASCII byte that stands for itself in a string.
func plain(c byte) bool { return c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf }

// lineEnd reports U+2028 or U+2029 at the start of s.
func lineEnd[T string | []byte](s T) bool {
	return len(s) >= 3 && s[0] == 0xe2 && s[1] == 0x80 && (s[2] == 0xa8 || s[2] == 0xa9)
}

// shortEscape is the letter of a two-byte escape, 0 if there is none.
func shortEscape(c byte) byte {
	switch c {
	case '"', '\\':
		return c
	case '\b':
		return 'b'
	case '\f':
		return 'f'
	case '\n':
		return 'n'
	case '\r':
		return 'r'
	case '\t':
		return 't'
	}
	return 0
}
