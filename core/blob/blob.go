// Package blob says what a payload is: text that rides in an event, or a
// content address of text that does not, and the size rules that decide.
//
// It stores nothing. It imports only the standard library (encoding/json for
// the stored form of a payload) and may import nothing else of this module.
package blob

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// InlineMax is the largest payload, in bytes, that rides in an event.
	InlineMax = 4 << 10
	// BatchInlineMax bounds the inline payload bytes of one commit; beyond it
	// the largest payloads are spilled first.
	BatchInlineMax = 64 << 10
	// PreviewBytes is how much of a spilled payload its reference shows.
	PreviewBytes = 256
)

// ErrRef is wrapped when text is no content reference.
var ErrRef = errors.New("bad blob reference")

// Ref is a content address: "sha256:" and 64 lower-case hex digits.
type Ref string

// Sum is the reference of data.
func Sum(data []byte) Ref {
	h := sha256.Sum256(data)
	return Ref("sha256:" + hex.EncodeToString(h[:]))
}

// ParseRef checks the form of a reference.
func ParseRef(s string) (Ref, error) {
	digits, ok := strings.CutPrefix(s, "sha256:")
	if !ok || len(digits) != 2*sha256.Size {
		return "", fmt.Errorf("%w: want sha256:<64 hex digits>", ErrRef)
	}
	for i := range len(digits) {
		c := digits[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return "", fmt.Errorf("%w: byte 0x%02x at %d is no lower-case hex digit", ErrRef, c, i)
		}
	}
	return Ref(s), nil
}

// Hex is the digits of a reference, for file and object names.
func (r Ref) Hex() string { return strings.TrimPrefix(string(r), "sha256:") }

// Payload is text: inline, or by reference with its size in bytes. The zero
// value is the empty text. Invariant: Ref set means Text empty and Size > 0.
//
// Stored form: a JSON string when inline, else {"ref":…,"size":…}, so that a
// reader of the log can resolve payloads without knowing the event's type.
type Payload struct {
	Text string
	Ref  Ref
	Size int64
}

// Inline is a payload that rides in the event. The caller keeps to InlineMax.
func Inline(text string) Payload { return Payload{Text: text} }

// ByRef is a payload stored elsewhere.
func ByRef(ref Ref, size int64) Payload { return Payload{Ref: ref, Size: size} }

// Bytes is the size of the text in bytes, wherever it is.
func (p Payload) Bytes() int64 {
	if p.Ref != "" {
		return p.Size
	}
	return int64(len(p.Text))
}

// IsZero reports the empty text; omitzero in JSON tags uses it.
func (p Payload) IsZero() bool { return p.Text == "" && p.Ref == "" }

// Content is the content address of the text, the same whether it is inline
// or not: two payloads are the same bytes exactly when their Content is equal.
func (p Payload) Content() Ref {
	if p.Ref != "" {
		return p.Ref
	}
	return Sum([]byte(p.Text))
}

type refForm struct {
	Ref  Ref   `json:"ref"`
	Size int64 `json:"size"`
}

// MarshalJSON writes the stored form.
func (p Payload) MarshalJSON() ([]byte, error) {
	if p.Ref != "" {
		return json.Marshal(refForm{p.Ref, p.Size})
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	// HTML escaping would store "<" as six bytes for a danger that a log does
	// not have.
	enc.SetEscapeHTML(false)
	if err := enc.Encode(p.Text); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// UnmarshalJSON reads the stored form and refuses any other.
func (p *Payload) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*p = Payload{}
		return json.Unmarshal(data, &p.Text)
	}
	var f refForm
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return fmt.Errorf("payload: %w", err)
	}
	if _, err := ParseRef(string(f.Ref)); err != nil {
		return err
	}
	if f.Size <= 0 {
		return fmt.Errorf("payload: size %d of a reference", f.Size)
	}
	*p = Payload{Ref: f.Ref, Size: f.Size}
	return nil
}

// Cut shortens text to at most limit bytes without parting a code point. Text
// that is not valid UTF-8 is made so first, each bad byte one U+FFFD.
func Cut(text string, limit int) string {
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:max(limit, 0)]
}
