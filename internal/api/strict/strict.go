// Package strict reads JSON the way the contract asks for: one value, nothing
// twice, nothing that two readers could take for two different things.
//
// It only looks: what passes is decoded by encoding/json, which forgives what
// is refused here (names that are there twice, halves of surrogate pairs, bytes
// that are no UTF-8). It knows no schema. It may import the standard library.
package strict

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// DepthMax is how deep objects and arrays may nest.
const DepthMax = 64

// Error is what is wrong, and where: a byte offset from 0. It repeats nothing
// of what it read.
type Error struct {
	Offset int
	Reason string
}

func (e *Error) Error() string { return fmt.Sprintf("%s at byte %d", e.Reason, e.Offset) }

// Check says whether data is exactly one JSON value that can be read in one
// way only.
func Check(data []byte) error {
	if !utf8.Valid(data) {
		return &Error{badByte(data), "the text is not UTF-8"}
	}
	r := &reader{data: data}
	r.space()
	if err := r.value(0); err != nil {
		return err
	}
	r.space()
	if r.at < len(data) {
		return r.fail("there is more after the value")
	}
	return nil
}

func badByte(data []byte) int {
	for i := 0; i < len(data); {
		c, size := utf8.DecodeRune(data[i:])
		if c == utf8.RuneError && size <= 1 {
			return i
		}
		i += size
	}
	return len(data)
}

type reader struct {
	data []byte
	at   int
}

func (r *reader) fail(reason string) error { return &Error{r.at, reason} }

func (r *reader) space() {
	for r.at < len(r.data) {
		switch r.data[r.at] {
		case ' ', '\t', '\n', '\r':
			r.at++
		default:
			return
		}
	}
}

// peek is the next byte; 0 at the end, which no JSON has outside a string.
func (r *reader) peek() byte {
	if r.at < len(r.data) {
		return r.data[r.at]
	}
	return 0
}

func (r *reader) value(depth int) error {
	switch c := r.peek(); {
	case c == '{' || c == '[':
		if depth == DepthMax {
			return r.fail("it nests deeper than " + strconv.Itoa(DepthMax))
		}
		if c == '{' {
			return r.object(depth + 1)
		}
		return r.array(depth + 1)
	case c == '"':
		_, err := r.text(false)
		return err
	case c == '-' || c >= '0' && c <= '9':
		return r.number()
	case c == 't':
		return r.word("true")
	case c == 'f':
		return r.word("false")
	case c == 'n':
		return r.word("null")
	case r.at >= len(r.data):
		return r.fail("it ends early")
	}
	return r.fail("no value begins here")
}

func (r *reader) word(w string) error {
	if len(r.data)-r.at < len(w) || string(r.data[r.at:r.at+len(w)]) != w {
		return r.fail("no value begins here")
	}
	r.at += len(w)
	return nil
}

func (r *reader) object(depth int) error {
	r.at++
	r.space()
	if r.peek() == '}' {
		r.at++
		return nil
	}
	seen := map[string]bool{}
	for {
		begin := r.at
		if r.peek() != '"' {
			return r.fail("a name in quotes is missing")
		}
		name, err := r.text(true)
		if err != nil {
			return err
		}
		if seen[name] {
			return &Error{begin, "a name is there twice"}
		}
		seen[name] = true
		r.space()
		if r.peek() != ':' {
			return r.fail("a colon is missing")
		}
		r.at++
		r.space()
		if err := r.value(depth); err != nil {
			return err
		}
		more, err := r.next('}')
		if !more || err != nil {
			return err
		}
	}
}

func (r *reader) array(depth int) error {
	r.at++
	r.space()
	if r.peek() == ']' {
		r.at++
		return nil
	}
	for {
		if err := r.value(depth); err != nil {
			return err
		}
		more, err := r.next(']')
		if !more || err != nil {
			return err
		}
	}
}

// next passes what stands between two members, or the end of them.
func (r *reader) next(end byte) (more bool, err error) {
	r.space()
	switch r.peek() {
	case ',':
		r.at++
		r.space()
		return true, nil
	case end:
		r.at++
		return false, nil
	}
	return false, r.fail("a comma or the end is missing")
}

// text passes a string. Its value is built only where it is wanted.
func (r *reader) text(wanted bool) (string, error) {
	r.at++
	var out []byte
	from := r.at
	for r.at < len(r.data) {
		switch c := r.data[r.at]; {
		case c == '"':
			if wanted {
				out = append(out, r.data[from:r.at]...)
			}
			r.at++
			return string(out), nil
		case c < ' ':
			return "", r.fail("a control character stands in a string")
		case c == '\\':
			if wanted {
				out = append(out, r.data[from:r.at]...)
			}
			char, err := r.escape()
			if err != nil {
				return "", err
			}
			if wanted {
				out = utf8.AppendRune(out, char)
			}
			from = r.at
		default:
			r.at++
		}
	}
	return "", r.fail("a string does not end")
}

var errEscape = errors.New("no such escape")

// escape passes an escape, both halves where it takes two.
func (r *reader) escape() (rune, error) {
	begin := r.at
	if r.at+1 >= len(r.data) {
		return 0, r.fail("a string does not end")
	}
	c := r.data[r.at+1]
	if c != 'u' {
		r.at += 2
		switch c {
		case '"', '\\', '/':
			return rune(c), nil
		case 'b':
			return '\b', nil
		case 'f':
			return '\f', nil
		case 'n':
			return '\n', nil
		case 'r':
			return '\r', nil
		case 't':
			return '\t', nil
		}
		return 0, &Error{begin, errEscape.Error()}
	}
	high, ok := r.hex()
	if !ok {
		return 0, &Error{begin, errEscape.Error()}
	}
	switch {
	case high >= 0xDC00 && high <= 0xDFFF:
		return 0, &Error{begin, "half of a surrogate pair stands alone"}
	case high < 0xD800 || high > 0xDFFF:
		return high, nil
	}
	if r.at+1 < len(r.data) && r.data[r.at] == '\\' && r.data[r.at+1] == 'u' {
		if low, ok := r.hex(); ok && low >= 0xDC00 && low <= 0xDFFF {
			return (high-0xD800)<<10 + (low - 0xDC00) + 0x10000, nil
		}
	}
	return 0, &Error{begin, "half of a surrogate pair stands alone"}
}

// hex passes \uXXXX.
func (r *reader) hex() (rune, bool) {
	const size = len(`\uXXXX`)
	if len(r.data)-r.at < size {
		return 0, false
	}
	n, err := strconv.ParseUint(string(r.data[r.at+2:r.at+size]), 16, 16)
	if err != nil || r.data[r.at+2] == '+' {
		return 0, false
	}
	r.at += size
	return rune(n), true
}

func (r *reader) number() error {
	begin := r.at
	if r.peek() == '-' {
		r.at++
	}
	if r.peek() == '0' {
		r.at++
	} else if !r.digits() {
		return r.fail("a digit is missing")
	}
	if r.peek() == '.' {
		r.at++
		if !r.digits() {
			return r.fail("a digit is missing")
		}
	}
	if c := r.peek(); c == 'e' || c == 'E' {
		r.at++
		if c := r.peek(); c == '+' || c == '-' {
			r.at++
		}
		if !r.digits() {
			return r.fail("a digit is missing")
		}
	}
	if _, err := strconv.ParseFloat(string(r.data[begin:r.at]), 64); err != nil {
		return &Error{begin, "a number is too large"}
	}
	return nil
}

func (r *reader) digits() bool {
	from := r.at
	for r.at < len(r.data) && r.data[r.at] >= '0' && r.data[r.at] <= '9' {
		r.at++
	}
	return r.at > from
}
