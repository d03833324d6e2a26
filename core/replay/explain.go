package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
)

// Field is a value in which two things differ. Path is like
// "context.entries[3].text"; A and B are written much as in JSON, cut to
// PartMax bytes, and empty where there is none.
type Field struct {
	Path string
	A, B string
}

// Difference is the first event in which two logs differ. A kind is empty where
// a log has ended.
type Difference struct {
	Seq          ident.Seq
	KindA, KindB session.Kind
	Fields       []Field // by path, in stored order; none where a log has ended
}

// String says it for people, a line a field.
func (d Difference) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "first difference at %d: %s, %s", d.Seq, orEnd(d.KindA), orEnd(d.KindB))
	for _, f := range d.Fields {
		fmt.Fprintf(&b, "\n  %s", f)
	}
	return b.String()
}

func orEnd(k session.Kind) string {
	if k == "" {
		return "(end)"
	}
	return string(k)
}

// String is path: A, B.
func (f Field) String() string { return f.Path + ": " + orNone(f.A) + ", " + orNone(f.B) }

func orNone(s string) string {
	if s == "" {
		return "(none)"
	}
	return s
}

// Explain finds the first event in which two logs differ; false when they are
// the same, byte for byte. It compares what is stored, of any build.
func Explain(a, b []byte) (Difference, bool) {
	linesA, linesB := lines(a), lines(b)
	for i := range max(len(linesA), len(linesB)) {
		var x, y []byte
		if i < len(linesA) {
			x = linesA[i]
		}
		if i < len(linesB) {
			y = linesB[i]
		}
		if !bytes.Equal(x, y) {
			return explainLine(ident.Seq(i+1), x, y), true
		}
	}
	return Difference{}, false
}

func explainLine(seq ident.Seq, a, b []byte) Difference {
	d := Difference{Seq: seq}
	for _, side := range [...]struct {
		line []byte
		kind *session.Kind
	}{{b, &d.KindB}, {a, &d.KindA}} {
		if side.line == nil {
			continue
		}
		*side.kind = "?"
		if h, err := wire.DecodeHeader(side.line); err == nil {
			*side.kind, d.Seq = h.Kind, h.Seq
		}
	}
	if a != nil && b != nil {
		d.Fields = diff(a, b)
	}
	return d
}

// ExplainStates lists the fields in which two states differ; none when they
// have the same StateSum, but for texts that are equal and stored differently.
func ExplainStates(a, b session.State) []Field {
	x, errA := body(a)
	y, errB := body(b)
	if errA != nil || errB != nil {
		return []Field{{Path: "state", A: fmt.Sprint(errA), B: fmt.Sprint(errB)}}
	}
	return diff(x, y)
}

// StateJSON shows a state as JSON on many lines, for people.
func StateJSON(s session.State) (string, error) {
	data, err := body(s)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, data, "", "  "); err != nil {
		return "", fmt.Errorf("state: %w", err)
	}
	return out.String(), nil
}

// body is a state as JSON.
func body(s session.State) ([]byte, error) {
	data, err := wire.EncodeCheckpoint(s)
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	_, body, _ := bytes.Cut(data, []byte("\n"))
	return body, nil
}

func diff(a, b []byte) []Field {
	x, errA := parse(a)
	y, errB := parse(b)
	if errA != nil || errB != nil {
		return []Field{{Path: "line", A: cut(string(a)), B: cut(string(b))}}
	}
	return compare(nil, "", x, y)
}

// compare appends the fields in which two values differ: the deepest ones.
func compare(out []Field, path string, a, b tree) []Field {
	if a.form != b.form || a.form != '{' && a.form != '[' {
		if a.form != b.form || a.scalar != b.scalar {
			out = append(out, Field{path, cut(a.json()), cut(b.json())})
		}
		return out
	}
	if a.form == '[' {
		for i := range max(len(a.values), len(b.values)) {
			at := path + "[" + strconv.Itoa(i) + "]"
			out = pair(out, at, a.at(i), b.at(i))
		}
		return out
	}
	for i, key := range a.keys {
		out = pair(out, join(path, key), &a.values[i], b.field(key))
	}
	for i, key := range b.keys {
		if a.field(key) == nil {
			out = pair(out, join(path, key), nil, &b.values[i])
		}
	}
	return out
}

func pair(out []Field, path string, a, b *tree) []Field {
	switch {
	case a == nil:
		return append(out, Field{path, "", cut(b.json())})
	case b == nil:
		return append(out, Field{path, cut(a.json()), ""})
	}
	return compare(out, path, *a, *b)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func (t *tree) at(i int) *tree {
	if i < len(t.values) {
		return &t.values[i]
	}
	return nil
}

func (t *tree) field(key string) *tree {
	for i := range t.keys {
		if t.keys[i] == key {
			return &t.values[i]
		}
	}
	return nil
}

// json shows a value as JSON, for people.
func (t *tree) json() string {
	var b strings.Builder
	t.write(&b)
	return b.String()
}

func (t *tree) write(b *strings.Builder) {
	switch {
	case b.Len() > PartMax: // it will be cut
	case t.form == '"':
		b.WriteString(strconv.Quote(t.scalar))
	case t.form == 0:
		b.WriteString(t.scalar)
	default:
		b.WriteByte(t.form)
		for i := range t.values {
			if i > 0 {
				b.WriteByte(',')
			}
			if t.form == '{' {
				b.WriteString(strconv.Quote(t.keys[i]) + ":")
			}
			t.values[i].write(b)
		}
		b.WriteByte(t.form + 2) // ']' and '}' stand two after '[' and '{'
	}
}

func cut(s string) string {
	if c := blob.Cut(s, PartMax); len(c) < len(s) {
		return c + "…"
	}
	return s
}
