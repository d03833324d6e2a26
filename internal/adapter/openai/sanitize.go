package openai

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

const (
	idBytesMax   = 40  // of a call's id, as OpenAI takes it
	nameBytesMax = 64  // of a tool's name, as OpenAI takes it
	keptBytesMax = 256 // of an id, name or model that a server made up
)

// cleanJSON makes JSON text acceptable to strict parsers without changing what
// it says: valid UTF-8, and no escape of half a surrogate pair.
func cleanJSON(s string) string { return wholeSurrogates(strings.ToValidUTF8(s, "\uFFFD")) }

// wholeSurrogates replaces, in JSON text, each escape of a surrogate that has
// no partner by the escape of the replacement character. Text that is no JSON
// passes through by the same rule.
func wholeSurrogates(s string) string {
	if !strings.Contains(s, `\u`) {
		return s
	}

	var b strings.Builder

	for i := 0; i < len(s); {
		switch r, ok := escaped(s[i:]); {
		case !ok && s[i] == '\\' && i+1 < len(s):
			b.WriteString(s[i : i+2]) // any other escape, a quoted backslash among them
			i += 2
		case !ok:
			b.WriteByte(s[i])
			i++
		case isHigh(r):
			if low, ok := escaped(s[i+6:]); ok && isLow(low) {
				b.WriteString(s[i : i+12])
				i += 12

				continue
			}

			b.WriteString(`\ufffd`)
			i += 6
		case isLow(r):
			b.WriteString(`\ufffd`)
			i += 6
		default:
			b.WriteString(s[i : i+6])
			i += 6
		}
	}

	return b.String()
}

// escaped reads a \uXXXX at the beginning of s.
func escaped(s string) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}

	var r rune

	for _, c := range []byte(s[2:6]) {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}

	return r, true
}

func isHigh(r rune) bool { return r >= 0xD800 && r < 0xDC00 }
func isLow(r rune) bool  { return r >= 0xDC00 && r < 0xE000 }

// wireID is a call's id as every server takes it. Ids of another provider may
// be longer than this one allows.
func wireID(id string) string {
	id = strings.ToValidUTF8(id, "\uFFFD")
	if id != "" && len(id) <= idBytesMax {
		return id
	}

	sum := sha256.Sum256([]byte(id))

	return "call_" + hex.EncodeToString(sum[:16])
}

// wireName is a tool's name as every server takes it. A model may have made a
// name up; sent back as it is it would be refused for ever.
func wireName(name string) string {
	var b strings.Builder

	for _, c := range []byte(name) {
		if b.Len() == nameBytesMax {
			break
		}

		if c|0x20 < 'a' || c|0x20 > 'z' {
			if (c < '0' || c > '9') && c != '_' && c != '-' {
				c = '_'
			}
		}

		b.WriteByte(c)
	}

	if b.Len() == 0 {
		return "_"
	}

	return b.String()
}

// wireArguments is the arguments of a past call as every server takes them: a
// JSON object. Some servers parse what they are sent and would refuse the whole
// conversation for one call that the model got wrong; what it wrote then stands
// in an object of its own.
func wireArguments(arguments string) string {
	text := cleanJSON(arguments)
	if trimmed := strings.TrimSpace(text); trimmed == "" {
		return "{}"
	} else if trimmed[0] == '{' && json.Valid([]byte(trimmed)) {
		return text
	}

	return `{"unparsedArguments":` + string(quote(text)) + `}`
}

// encode is json.Marshal without the escapes that are for HTML.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer

	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)

	if err := e.Encode(v); err != nil {
		return nil, err //nolint:wrapcheck // the callers say what they encoded
	}

	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// quote is the JSON string of s, in valid UTF-8.
func quote(s string) json.RawMessage {
	out, err := encode(s)
	if err != nil {
		return json.RawMessage(`""`) // a string cannot fail to encode
	}

	return out
}

// short cuts what a server made up to what may stand in an event.
func short(s string) string {
	if len(s) <= keptBytesMax {
		return s
	}

	cut := keptBytesMax
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}

	return s[:cut]
}
