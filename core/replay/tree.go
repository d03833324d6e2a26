package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// tree is a JSON value with its fields in the order in which they are stored.
type tree struct {
	form   byte   // { [ " or, for numbers, true, false and null, 0
	scalar string // the text of a string, else as it stands
	keys   []string
	values []tree
}

// parse reads one JSON value. It takes any JSON: what it shows may have been
// written by a newer build.
func parse(data []byte) (tree, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	t, err := value(dec)
	if err != nil {
		return tree{}, fmt.Errorf("parse: %w", err)
	}
	if len(bytes.TrimSpace(data[dec.InputOffset():])) > 0 {
		return tree{}, errTrailing
	}
	return t, nil
}

var errTrailing = errors.New("parse: bytes after the value")

func value(dec *json.Decoder) (tree, error) {
	token, err := dec.Token()
	if err != nil {
		return tree{}, err
	}
	switch v := token.(type) {
	case json.Delim:
		t := tree{form: byte(v)}
		for dec.More() {
			if t.form == '{' {
				key, err := dec.Token()
				if err != nil {
					return tree{}, err
				}
				t.keys = append(t.keys, fmt.Sprint(key))
			}
			inner, err := value(dec)
			if err != nil {
				return tree{}, err
			}
			t.values = append(t.values, inner)
		}
		_, err := dec.Token()
		return t, err
	case string:
		return tree{form: '"', scalar: v}, nil
	case nil:
		return tree{scalar: "null"}, nil
	}
	return tree{scalar: fmt.Sprint(token)}, nil
}

// empty reports a value that says nothing: it is not shown.
func (t *tree) empty() bool {
	switch t.form {
	case '"':
		return t.scalar == ""
	case 0:
		return t.scalar == "0" || t.scalar == "false" || t.scalar == "null"
	}
	for i := range t.values {
		if t.form == '[' || !t.values[i].empty() {
			return false
		}
	}
	return true
}

// reference is the ref and size of a payload that is stored elsewhere.
func (t *tree) reference() (digits, size string, ok bool) {
	if t.form != '{' || len(t.keys) != 2 || t.keys[0] != "ref" || t.keys[1] != "size" {
		return "", "", false
	}
	digits, ok = strings.CutPrefix(t.values[0].scalar, "sha256:")
	return digits, t.values[1].scalar, ok
}
