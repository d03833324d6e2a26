package sqs

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Portable makes of a text one that every queue takes. SQS refuses most control
// characters and U+FFFE and U+FFFF, and a session's text may have them. In JSON
// whatever is not ASCII is inside a string, so it can be escaped and means the
// same; other text is let through as it is, or refused.
func Portable(text string) (string, error) {
	if !utf8.ValidString(text) {
		return "", fmt.Errorf("%w: it is no UTF-8", ErrMessage)
	}
	if !json.Valid([]byte(text)) {
		for at, r := range text {
			if !taken(r) {
				return "", fmt.Errorf("%w: it is no JSON, and has character U+%04X at %d, which a queue does not take", ErrMessage, r, at)
			}
		}
		return text, nil
	}
	first := strings.IndexFunc(text, escaped)
	if first < 0 {
		return text, nil
	}
	var out strings.Builder
	out.Grow(len(text) + len(text)/4)
	out.WriteString(text[:first])
	for _, r := range text[first:] {
		switch {
		case !escaped(r):
			out.WriteByte(byte(r))
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String(), nil
}

func escaped(r rune) bool { return r >= 0x7F }

// taken says whether a queue takes a character.
func taken(r rune) bool {
	return r == '\t' || r == '\n' || r == '\r' || r >= 0x20 && r != 0xFFFE && r != 0xFFFF
}
