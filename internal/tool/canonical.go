package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
)

// appendCanonical writes a parsed value with sorted names and no space, so
// that two texts of one schema are one schema. Numbers keep their spelling.
func appendCanonical(b []byte, v any) []byte {
	switch v := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		b = append(b, '{')
		for i, name := range names {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, name), ':')
			b = appendCanonical(b, v[name])
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendCanonical(b, item)
		}
		return append(b, ']')
	case string:
		return appendString(b, v)
	case json.Number:
		return append(b, v...)
	case bool:
		return strconv.AppendBool(b, v)
	}
	return append(b, "null"...)
}

func appendString(b []byte, s string) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return append(b, `""`...) // a string cannot fail to encode
	}
	return append(b, bytes.TrimSuffix(out.Bytes(), []byte("\n"))...)
}

// Canonical is the canonical text of a parsed value.
func Canonical(v any) string { return string(appendCanonical(nil, v)) }

// plain turns numbers into what the schema library takes for numbers: int64
// where that is exact, else float64.
func plain(v any) (any, error) {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, item := range v {
			p, err := plain(item)
			if err != nil {
				return nil, err
			}
			out[name] = p
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			p, err := plain(item)
			if err != nil {
				return nil, err
			}
			out[i] = p
		}
		return out, nil
	case json.Number:
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return n, nil
		}
		f, err := strconv.ParseFloat(string(v), 64)
		if err != nil || math.IsInf(f, 0) {
			return nil, errors.New("a number is out of range")
		}
		return f, nil
	}
	return v, nil
}
