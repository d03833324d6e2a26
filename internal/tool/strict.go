package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Bounds of a call's arguments.
const (
	ArgumentsMax = 256 << 10 // bytes
	NestingMax   = 64        // objects and arrays in one another
)

// ParseArguments reads the arguments of a call: one JSON object and nothing
// else. It is stricter than encoding/json where leniency would let two readers
// of the same bytes disagree: a duplicate name, half of a surrogate pair,
// invalid UTF-8 and trailing data are errors. Numbers stay as they are written
// (json.Number).
//
// An error says what is wrong and where, in bytes from 0, and never repeats
// what was written.
func ParseArguments(text string) (map[string]any, error) {
	if len(text) > ArgumentsMax {
		return nil, fmt.Errorf("the arguments have %d bytes, allowed are %d", len(text), ArgumentsMax)
	}
	v, err := ParseJSON(text)
	if err != nil {
		return nil, err
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("the arguments are no JSON object")
	}
	return object, nil
}

// ParseJSON reads one JSON value by the rules of ParseArguments, of any size.
func ParseJSON(text string) (any, error) {
	if i := invalidUTF8(text); i >= 0 {
		return nil, fmt.Errorf("invalid UTF-8 at byte %d", i)
	}
	p := parser{text: text}
	p.space()
	if p.at == len(text) {
		return nil, errors.New("there is no JSON: the text is empty")
	}
	v, err := p.value(0)
	if err != nil {
		return nil, err
	}
	p.space()
	if p.at != len(text) {
		return nil, p.fail("data after the end of the JSON value")
	}
	return v, nil
}

func invalidUTF8(s string) int {
	if utf8.ValidString(s) {
		return -1
	}
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// parser is a recursive descent over JSON whose depth is bounded.
type parser struct {
	text string
	at   int
}

func (p *parser) fail(what string) error {
	return fmt.Errorf("invalid JSON at byte %d: %s", p.at, what)
}

func (p *parser) space() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

func (p *parser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

func (p *parser) value(depth int) (any, error) {
	switch c := p.peek(); {
	case c == '{':
		return p.object(depth + 1)
	case c == '[':
		return p.array(depth + 1)
	case c == '"':
		return p.str()
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	case p.word("true"):
		return true, nil
	case p.word("false"):
		return false, nil
	case p.word("null"):
		return nil, nil //nolint:nilnil // null is a value, and nil stands for it
	case p.at == len(p.text):
		return nil, p.fail("it ends too early")
	}
	return nil, p.fail("no JSON value begins like this")
}

func (p *parser) word(w string) bool {
	if !strings.HasPrefix(p.text[p.at:], w) {
		return false
	}
	p.at += len(w)
	return true
}

func (p *parser) object(depth int) (any, error) {
	if depth > NestingMax {
		return nil, p.fail("nested deeper than " + strconv.Itoa(NestingMax))
	}
	p.at++
	out := map[string]any{}
	for first := true; ; first = false {
		p.space()
		if p.peek() == '}' && first {
			p.at++
			return out, nil
		}
		if p.peek() != '"' {
			return nil, p.fail("a name in double quotes is due")
		}
		start := p.at
		name, err := p.str()
		if err != nil {
			return nil, err
		}
		if _, twice := out[name]; twice {
			p.at = start
			return nil, p.fail("the object has this name twice")
		}
		if p.space(); p.peek() != ':' {
			return nil, p.fail("a colon is due")
		}
		p.at++
		p.space()
		if out[name], err = p.value(depth); err != nil {
			return nil, err
		}
		if done, err := p.next('}'); done || err != nil {
			return out, err
		}
	}
}

func (p *parser) array(depth int) (any, error) {
	if depth > NestingMax {
		return nil, p.fail("nested deeper than " + strconv.Itoa(NestingMax))
	}
	p.at++
	out := []any{}
	p.space()
	if p.peek() == ']' {
		p.at++
		return out, nil
	}
	for {
		p.space()
		v, err := p.value(depth)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
		if done, err := p.next(']'); done || err != nil {
			return out, err
		}
	}
}

// next passes a comma, or the end of an object or array.
func (p *parser) next(end byte) (done bool, err error) {
	p.space()
	switch p.peek() {
	case ',':
		p.at++
		return false, nil
	case end:
		p.at++
		return true, nil
	}
	if p.at == len(p.text) {
		return false, p.fail("it ends too early")
	}
	return false, p.fail("a comma or " + string(rune(end)) + " is due")
}

func (p *parser) number() (any, error) {
	start := p.at
	if p.peek() == '-' {
		p.at++
	}
	if p.peek() == '0' {
		p.at++
	} else if !p.digits() {
		return nil, p.fail("a digit is due")
	}
	if p.peek() == '.' {
		if p.at++; !p.digits() {
			return nil, p.fail("a digit is due")
		}
	}
	if c := p.peek(); c == 'e' || c == 'E' {
		if p.at++; p.peek() == '+' || p.peek() == '-' {
			p.at++
		}
		if !p.digits() {
			return nil, p.fail("a digit is due")
		}
	}
	return json.Number(p.text[start:p.at]), nil
}

func (p *parser) digits() bool {
	start := p.at
	for c := p.peek(); c >= '0' && c <= '9'; c = p.peek() {
		p.at++
	}
	return p.at > start
}

func (p *parser) str() (string, error) {
	p.at++
	start := p.at
	for p.at < len(p.text) && p.text[p.at] != '"' && p.text[p.at] != '\\' && p.text[p.at] >= ' ' {
		p.at++
	}
	if p.peek() == '"' {
		p.at++
		return p.text[start : p.at-1], nil
	}
	var b strings.Builder
	b.WriteString(p.text[start:p.at])
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == '"':
			p.at++
			return b.String(), nil
		case c < ' ':
			return "", p.fail("a control character in a string must be escaped")
		case c == '\\':
			r, err := p.escape()
			if err != nil {
				return "", err
			}
			b.WriteRune(r)
		default:
			b.WriteByte(c)
			p.at++
		}
	}
	return "", p.fail("the string has no end")
}

func (p *parser) escape() (rune, error) {
	if p.at+1 >= len(p.text) {
		return 0, p.fail("the string has no end")
	}
	const short, means = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if i := strings.IndexByte(short, p.text[p.at+1]); i >= 0 {
		p.at += 2
		return rune(means[i]), nil
	}
	r, ok := p.unit()
	if !ok {
		return 0, p.fail("no such escape")
	}
	if !utf16.IsSurrogate(r) {
		p.at += 6
		return r, nil
	}
	high := p.at
	p.at += 6
	low, ok := p.unit()
	if pair := utf16.DecodeRune(r, low); ok && pair != utf8.RuneError {
		p.at += 6
		return pair, nil
	}
	p.at = high
	return 0, p.fail(`half of a surrogate pair: write both halves as \uXXXX\uXXXX, or the character itself`)
}

// unit reads \uXXXX at the present place without passing it.
func (p *parser) unit() (rune, bool) {
	if p.at+6 > len(p.text) || p.text[p.at] != '\\' || p.text[p.at+1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(p.text[p.at+2:p.at+6], 16, 16)
	return rune(n), err == nil
}
