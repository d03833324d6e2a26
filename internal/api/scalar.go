package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/perdure/perdure/core/ident"
)

// timeForm is RFC 3339 with milliseconds, in UTC.
const timeForm = "2006-01-02T15:04:05.000Z"

// Time is an instant as clients see it: RFC 3339 with milliseconds, in UTC. The
// zero value is none.
type Time ident.Instant

// String prints the instant.
func (t Time) String() string { return time.UnixMilli(int64(t)).UTC().Format(timeForm) }

// MarshalJSON writes the string form.
func (t Time) MarshalJSON() ([]byte, error) { return strconv.AppendQuote(nil, t.String()), nil }

// UnmarshalJSON reads any RFC 3339 form.
func (t *Time) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return errors.New("a time is a string in the form of RFC 3339")
	}
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return errors.New("a time is not in the form of RFC 3339")
	}
	*t = Time(at.UnixMilli())
	return nil
}

// Schema implements huma.SchemaProvider.
func (Time) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time", Description: "RFC 3339 with milliseconds, UTC."}
}

// USD is an amount in millionths of a US dollar; its JSON is a decimal number
// of dollars. It never passes through a binary fraction.
type USD int64

// usdMax bounds an amount, in dollars.
const usdMax = 1_000_000_000

var errUSD = errors.New("an amount of dollars is a number from 0 to 1000000000 with at most six decimals")

// MarshalJSON writes dollars, without trailing zeros.
func (u USD) MarshalJSON() ([]byte, error) {
	const micros = 1_000_000
	out := strconv.FormatInt(int64(u)/micros, 10)
	if rest := int64(u) % micros; rest != 0 {
		digits := strconv.FormatInt(micros+rest, 10)[1:]
		out += "." + strings.TrimRight(digits, "0")
	}
	return []byte(out), nil
}

// UnmarshalJSON reads the digits of a JSON number as they stand.
func (u *USD) UnmarshalJSON(data []byte) error {
	text := string(data)
	exp := 0
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		n, err := strconv.Atoi(text[i+1:])
		if err != nil || n > 9 || n < -40 {
			return errUSD
		}
		text, exp = text[:i], n
	}
	whole, part, _ := strings.Cut(text, ".")
	// The amount in micros is all digits, with the point six places further
	// to the right; what is then left of it must be zeros.
	digits, point := whole+part, len(whole)+6+exp
	if point < 0 {
		digits, point = strings.Repeat("0", -point)+digits, 0
	}
	if point > len(digits) {
		digits += strings.Repeat("0", point-len(digits))
	}
	if strings.Trim(digits[point:], "0") != "" {
		return errUSD
	}
	n, err := strconv.ParseUint("0"+digits[:point], 10, 63)
	if err != nil || n > usdMax*1_000_000 {
		return errUSD
	}
	*u = USD(n)
	return nil
}

// Schema implements huma.SchemaProvider.
func (USD) Schema(huma.Registry) *huma.Schema {
	zero, most := 0.0, float64(usdMax)
	return &huma.Schema{Type: huma.TypeNumber, Minimum: &zero, Maximum: &most, Description: "US dollars, at most six decimals."}
}

// Text is a text as clients see it: the string, or where it is too long for an
// answer its reference, its size in bytes, and its beginning.
type Text struct {
	Text    string
	Ref     string
	Size    int64
	Preview string
}

type longText struct {
	Ref     string `json:"ref"`
	Size    int64  `json:"size"`
	Preview string `json:"preview"`
}

// IsZero reports the empty text.
func (t Text) IsZero() bool { return t == Text{} }

// MarshalJSON writes the string, or the reference.
func (t Text) MarshalJSON() ([]byte, error) {
	if t.Ref != "" {
		return encode(longText{t.Ref, t.Size, t.Preview})
	}
	return encode(t.Text)
}

// UnmarshalJSON reads either form.
func (t *Text) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		var l longText
		if err := json.Unmarshal(data, &l); err != nil {
			return err
		}
		*t = Text{Ref: l.Ref, Size: l.Size, Preview: l.Preview}
		return nil
	}
	*t = Text{}
	return json.Unmarshal(data, &t.Text)
}

// Schema implements huma.SchemaProvider.
func (Text) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Description: "A string; above 64 KiB a reference with the size in bytes and the beginning.",
		OneOf:       []*huma.Schema{{Type: huma.TypeString}, longSchema()},
	}
}

func longSchema() *huma.Schema {
	return object(map[string]*huma.Schema{
		"ref": {Type: huma.TypeString}, "size": {Type: huma.TypeInteger, Format: "int64"}, "preview": {Type: huma.TypeString},
	}, "ref", "size", "preview")
}

// object is the schema of an object with these fields and no others.
func object(fields map[string]*huma.Schema, required ...string) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, Properties: fields, Required: required, AdditionalProperties: false}
}

// Object is a JSON object that this API does not look into: it keeps its own
// bytes.
type Object json.RawMessage

// MarshalJSON writes the bytes.
func (o Object) MarshalJSON() ([]byte, error) {
	if len(o) == 0 {
		return []byte("{}"), nil
	}
	return o, nil
}

// UnmarshalJSON keeps the bytes, without the space between them.
func (o *Object) UnmarshalJSON(data []byte) error {
	var b bytes.Buffer
	if err := json.Compact(&b, data); err != nil {
		return err
	}
	if b.Len() == 0 || b.Bytes()[0] != '{' {
		return errors.New("expected an object")
	}
	*o = b.Bytes()
	return nil
}

// Schema implements huma.SchemaProvider.
func (Object) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}
}

// Value is any JSON value, in its own bytes.
type Value json.RawMessage

// MarshalJSON writes the bytes.
func (v Value) MarshalJSON() ([]byte, error) {
	if len(v) == 0 {
		return []byte("null"), nil
	}
	return v, nil
}

// UnmarshalJSON keeps the bytes, without the space between them.
func (v *Value) UnmarshalJSON(data []byte) error {
	var b bytes.Buffer
	if err := json.Compact(&b, data); err != nil {
		return err
	}
	*v = b.Bytes()
	return nil
}

// Schema implements huma.SchemaProvider.
func (Value) Schema(huma.Registry) *huma.Schema { return &huma.Schema{} }

// Maybe is a field that may be left out, null, or a value: to leave alone, to
// clear, or to set.
type Maybe[T any] struct {
	Set   bool // it is there
	Null  bool // and null
	Value T
}

// IsZero reports that the field is left out.
func (m Maybe[T]) IsZero() bool { return !m.Set }

// MarshalJSON writes null or the value.
func (m Maybe[T]) MarshalJSON() ([]byte, error) {
	if !m.Set || m.Null {
		return []byte("null"), nil
	}
	return encode(m.Value)
}

// UnmarshalJSON reads null or the value.
func (m *Maybe[T]) UnmarshalJSON(data []byte) error {
	*m = Maybe[T]{Set: true}
	if string(data) == "null" {
		m.Null = true
		return nil
	}
	return json.Unmarshal(data, &m.Value)
}

// Schema implements huma.SchemaProvider.
func (m Maybe[T]) Schema(huma.Registry) *huma.Schema {
	switch any(m.Value).(type) {
	case int64:
		return &huma.Schema{Type: huma.TypeInteger, Format: "int64", Nullable: true}
	default:
		return &huma.Schema{Type: huma.TypeString, Nullable: true}
	}
}

// encode is JSON without the escaping that HTML would need.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
