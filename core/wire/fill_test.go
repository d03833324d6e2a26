package wire_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/session"
)

// source decides what a filled value holds.
type source interface {
	text(name string) string
	number(name string, bits int, signed bool) uint64
	flag(name string) bool
	length(name string) int // of a list, or 0 and 1 for a pointer
	byRef(name string) bool
}

// fill sets every stored field of v, down to the last one.
func fill(src source, name string, v reflect.Value) {
	if p, ok := reflect.TypeAssert[*blob.Payload](v.Addr()); ok {
		text := src.text(name)
		*p = blob.Inline(text)
		if src.byRef(name) {
			*p = blob.ByRef(blob.Sum([]byte(text)), int64(len(text))+1)
		}
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(src.text(name))
	case reflect.Bool:
		v.SetBool(src.flag(name))
	case reflect.Uint64:
		v.SetUint(src.number(name, 64, false))
	case reflect.Int64:
		v.SetInt(int64(src.number(name, 64, true)))
	case reflect.Int:
		v.SetInt(int64(src.number(name, v.Type().Bits(), true)))
	case reflect.Struct:
		for f, field := range v.Fields() {
			if f.IsExported() {
				fill(src, strings.ToLower(f.Name[:1])+f.Name[1:], field)
			}
		}
	case reflect.Pointer:
		if src.length(name) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(src, name, v.Elem())
		}
	case reflect.Slice:
		if n := src.length(name); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				fill(src, fmt.Sprintf("%s%d", name, i), v.Index(i))
				if v.Index(i).Kind() == reflect.Pointer && v.Index(i).IsNil() {
					v.Index(i).Set(reflect.New(v.Type().Elem().Elem()))
				}
			}
		}
	default:
		panic("no value for " + v.Type().String())
	}
}

// drawn fills from rapid: mostly small values, and now and then the hardest.
type drawn struct{ t *rapid.T }

var hard = []string{
	"", "a", "ok", "naïve 💾", "\x00\x01\x1f\x7f", "\"\\/\b\f\n\r\t", "<script>&amp;</script>", "\u2028\u2029\ufeff\ufffd",
	`\ufffd\u0000`, "sha256:", "\U0010ffff", strings.Repeat("long ", 1000),
}

func (d drawn) text(name string) string {
	if rapid.Bool().Draw(d.t, name+" is hard") {
		return rapid.SampledFrom(hard).Draw(d.t, name)
	}
	return rapid.StringN(0, 12, -1).Draw(d.t, name)
}

func (d drawn) number(name string, bits int, signed bool) uint64 {
	edge := []uint64{0, 1, 2, 9, 10, 1<<53 + 1, 1<<63 - 1}
	switch {
	case bits == 32:
		edge = []uint64{0, 1, 2, 1<<31 - 1}
	case signed:
		edge = append(edge, 1<<63, ^uint64(0))
	default:
		edge = append(edge, ^uint64(0))
	}
	return rapid.SampledFrom(edge).Draw(d.t, name)
}

func (d drawn) flag(name string) bool  { return rapid.Bool().Draw(d.t, name) }
func (d drawn) length(name string) int { return rapid.IntRange(0, 3).Draw(d.t, name+" count") }
func (d drawn) byRef(name string) bool { return rapid.Bool().Draw(d.t, name+" by reference") }

// drawEvent is any event of any kind.
func drawEvent(t *rapid.T) session.Event {
	e := rapid.SampledFrom(session.Kinds()).Draw(t, "kind")
	v := reflect.New(reflect.TypeOf(e).Elem())
	fill(drawn{t}, "", v.Elem())
	return v.Interface().(session.Event)
}

func forEachKind(t *testing.T, f func(t *testing.T, zero session.Event)) {
	t.Helper()
	for _, zero := range session.Kinds() {
		t.Run(string(zero.Kind()), func(t *testing.T) {
			t.Parallel()
			f(t, zero)
		})
	}
}
