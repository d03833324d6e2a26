package wire_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
)

func TestWhatIsEncodedDecodesToTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := session.Entry{
			Seq:   ident.Seq(rapid.Uint64Range(1, 1<<63-1).Draw(t, "seq")),
			At:    ident.Instant(rapid.Int64Range(0, 1<<62).Draw(t, "at")),
			Event: drawEvent(t),
		}
		line, err := wire.Encode(in)
		require.NoError(t, err)
		out, err := wire.Decode(line)
		require.NoError(t, err, string(line))
		require.Equal(t, in, out)

		again, err := wire.Encode(out)
		require.NoError(t, err)
		require.Equal(t, string(line), string(again))
	})
}

// The walks are ours; the tags say what they must come to. Whatever library
// reads a log reads what encoding/json would have written.
func TestDataIsWhatTheTagsSay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := drawEvent(t)
		line, err := wire.Encode(session.Entry{Seq: 7, Event: in})
		require.NoError(t, err)
		h, err := wire.DecodeHeader(line)
		require.NoError(t, err)
		data := line[h.Data : len(line)-1]
		require.True(t, json.Valid(line))

		out := reflect.New(reflect.TypeOf(in).Elem())
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.DisallowUnknownFields()
		require.NoError(t, dec.Decode(out.Interface()))
		unpoint(out.Elem())
		require.Equal(t, in, out.Interface())

		if lossless(in) {
			var want bytes.Buffer
			enc := json.NewEncoder(&want)
			enc.SetEscapeHTML(false)
			point(reflect.ValueOf(in).Elem())
			require.NoError(t, enc.Encode(in))
			require.Equal(t, want.String(), string(data)+"\n")
		}
	})
}

// point makes nil lists empty ones, which encoding/json tells apart and the
// stored form does not; unpoint takes it back.
func point(v reflect.Value) {
	lists(v, func(v reflect.Value) { v.Set(reflect.MakeSlice(v.Type(), 0, 0)) })
}

func unpoint(v reflect.Value) { lists(v, func(v reflect.Value) { v.SetZero() }) }

func lists(v reflect.Value, empty func(reflect.Value)) {
	switch v.Kind() {
	case reflect.Slice:
		if v.Len() == 0 {
			empty(v)
		}
		for i := range v.Len() {
			lists(v.Index(i), empty)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			lists(v.Elem(), empty)
		}
	case reflect.Struct:
		for f, field := range v.Fields() {
			if f.IsExported() {
				lists(field, empty)
			}
		}
	default:
	}
}

// lossless reports that no value in e calls itself zero and is not. The stored
// form keeps such a value, encoding/json drops it.
func lossless(e session.Event) bool {
	ok := true
	var look func(v reflect.Value)
	look = func(v reflect.Value) {
		if z, is := reflect.TypeAssert[interface{ IsZero() bool }](v); is && v.Kind() == reflect.Struct && z.IsZero() && !v.IsZero() {
			ok = false
		}
		switch v.Kind() {
		case reflect.Slice:
			for i := range v.Len() {
				look(v.Index(i))
			}
		case reflect.Pointer:
			if !v.IsNil() {
				look(v.Elem())
			}
		case reflect.Struct:
			for f, field := range v.Fields() {
				if f.IsExported() {
					look(field)
				}
			}
		default:
		}
	}
	look(reflect.ValueOf(e).Elem())
	return ok
}

const started = `{"seq":12,"at":1790000000000,"kind":"run.started","v":1,"data":{"run":3}}`

func TestHeaderIsReadByItself(t *testing.T) {
	t.Parallel()
	h, err := wire.DecodeHeader([]byte(started))
	require.NoError(t, err)
	require.Equal(t, wire.Header{Seq: 12, At: 1790000000000, Kind: session.KindRunStarted, Version: 1, Data: strings.Index(started, `{"run"`)}, h)

	// A page may hold what this build cannot fold.
	h, err = wire.DecodeHeader([]byte(strings.Replace(started, `run.started","v":1`, `run.sung","v":7`, 1)))
	require.NoError(t, err)
	require.Equal(t, session.Kind("run.sung"), h.Kind)
	require.Equal(t, 7, h.Version)
}

func TestWhatANewerBuildWroteIsNotDamage(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"Kind":    strings.Replace(started, "run.started", "run.sung", 1),
		"Version": strings.Replace(started, `"v":1`, `"v":2`, 1),
		"Data":    strings.Replace(started, `"v":1,"data":{"run":3}`, `"v":2,"data":{"walk":[3]}`, 1),
		"Far":     strings.Replace(started, `"v":1`, `"v":9000000000000000000`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := wire.Decode([]byte(line))
			require.ErrorIs(t, err, session.ErrNewer)
			require.NotErrorIs(t, err, wire.ErrMalformed)
			var d *session.Divergence
			require.NotErrorAs(t, err, &d)
		})
	}
}

func TestReservedKindsAreNewerToo(t *testing.T) {
	t.Parallel()
	for _, kind := range session.Reserved() {
		_, err := wire.Decode([]byte(strings.Replace(started, "run.started", string(kind), 1)))
		require.ErrorIs(t, err, session.ErrNewer)
	}
}

func TestAnythingElseIsMalformed(t *testing.T) {
	t.Parallel()
	edit := func(old, with string) string {
		out := strings.Replace(started, old, with, 1)
		require.NotEqual(t, started, out, old)
		return out
	}
	steered := func(text string) string {
		return `{"seq":1,"at":0,"kind":"run.steered","v":1,"data":{"run":1,"steering":1,"text":[{"text":` + text + `}]}}`
	}
	_, err := wire.Decode([]byte(steered(`"ok\u2028\u0000\n\\n"`)))
	require.NoError(t, err)
	cases := []struct {
		name, line string
		at         string // what stands at the offset that the error names
	}{
		{"Empty", ``, ``},
		{"Null", `null`, `null`},
		{"Other order", `{"at":1790000000000,"seq":12,"kind":"run.started","v":1,"data":{"run":3}}`, `{"at"`},
		{"Space", edit(`{"seq"`, `{ "seq"`), `{ "seq"`},
		{"Space before a value", edit(`:12`, `: 12`), ` 12`},
		{"Line feed at the end", started + "\n", `{"run"`},
		{"Bytes after the end", started + "}", `}`},
		{"Cut off", started[:len(started)-1], `}`},
		{"Seq zero", edit(`:12`, `:0`), `0,"at"`},
		{"Seq with a leading zero", edit(`:12`, `:012`), `012`},
		{"Seq too large", edit(`:12`, `:9223372036854775808`), `9223`},
		{"Seq beyond 64 bits", edit(`:12`, `:99999999999999999999`), `9999`},
		{"Seq as a string", edit(`:12`, `:"12"`), `"12"`},
		{"Time below zero", edit(`1790000000000`, `-1`), `-1`},
		{"Fraction", edit(`1790000000000`, `1.5`), `.5`},
		{"Exponent", edit(`1790000000000`, `1e3`), `e3`},
		{"Kind in capitals", edit(`run.started`, `Run.started`), `Run.`},
		{"Kind empty", edit(`run.started`, ``), `"`},
		{"Kind too long", edit(`run.started`, strings.Repeat("x", wire.KindMax+1)), `xxx`},
		{"Version zero", edit(`"v":1`, `"v":0`), `0,"data"`},
		{"Data is a list", edit(`{"run":3}`, `[3]`), `[3]`},
		{"Unknown field", edit(`"run":3`, `"run":3,"more":1`), `,"more"`},
		{"Unknown field before", edit(`"run":3`, `"more":1,"run":3`), `"more"`},
		{"Missing field", edit(`"run":3`, ``), `}}`},
		{"Field twice", edit(`"run":3`, `"run":3,"run":3`), `,"run":3}`},
		{"Wrong case", edit(`"run"`, `"Run"`), `"Run"`},
		{"Sign", edit(`"run":3`, `"run":+3`), `+3`},
		{"Below zero", edit(`"run":3`, `"run":-3`), `-3`},
		{"Null field", edit(`"run":3`, `"run":null`), `null`},
		{"Needless escape", steered(`"\u0041"`), `\u0041`},
		{"Long escape", steered(`"\u000a"`), `\u000a`},
		{"Upper-case escape", steered(`"\u001F"`), `\u001F`},
		{"Escaped slash", steered(`"\/"`), `\/`},
		{"Surrogates", steered(`"\ud83d\ude00"`), `\ud83d`},
		{"Bare line separator", steered("\"\u2028\""), "\u2028"},
		{"Bare separator after an escape", steered("\"\\n\u2028\""), "\u2028"},
		{"Control character", steered("\"\n\""), "\n"},
		{"Control after an escape", steered("\"\\n\n\""), "\n\""},
		{"Not UTF-8", steered("\"a\xff\""), "\xff"},
		{"Surrogate in UTF-8", steered("\"\xed\xa0\x80\""), "\xed"},
		{"Empty text of a part", steered(`""`), `}]}}`},
		{"Reference in capitals", steered(`{"ref":"sha256:` + strings.Repeat("A", 64) + `","size":5000}`), `{"ref"`},
		{"Reference without a size", steered(`{"ref":"sha256:` + strings.Repeat("a", 64) + `","size":0}`), `{"ref"`},
		{"Comma in a list", steered(`"a"},`), `}]}}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := wire.Decode([]byte(c.line))
			require.ErrorIs(t, err, wire.ErrMalformed)
			require.NotErrorIs(t, err, session.ErrNewer)
			var m *wire.MalformedError
			require.ErrorAs(t, err, &m)
			require.LessOrEqual(t, m.Offset, len(c.line))
			require.True(t, strings.HasPrefix(c.line[m.Offset:], c.at), "%v in %s", err, c.line)
			require.True(t, c.at != "" || m.Offset == len(c.line), "%v", err)
			var d *session.Divergence
			require.ErrorAs(t, err, &d)
			require.Equal(t, wire.CodeMalformed, d.Code)
			require.Equal(t, m.Seq, d.Seq)
		})
	}
}

func TestDamageNamesItsEvent(t *testing.T) {
	t.Parallel()
	_, err := wire.Decode([]byte(strings.Replace(started, `"run":3`, `"run":-3`, 1)))
	var d *session.Divergence
	require.ErrorAs(t, err, &d)
	require.Equal(t, ident.Seq(12), d.Seq)
	require.Equal(t, `malformed envelope: byte 70: want a whole number`, err.Error())
}

func TestEncodeRefusesWhatHasNoStoredForm(t *testing.T) {
	t.Parallel()
	ok := session.Entry{Seq: 1, Event: &session.RunStarted{Run: 1}}
	text := func(p blob.Payload) session.Entry {
		return session.Entry{Seq: 1, Event: &session.RunCompleted{Run: 1, Output: p}}
	}
	for name, in := range map[string]session.Entry{
		"No event":         {Seq: 1},
		"Seq zero":         {Event: ok.Event},
		"Seq too large":    {Seq: 1 << 63, Event: ok.Event},
		"Time below zero":  {Seq: 1, At: -1, Event: ok.Event},
		"Bad UTF-8":        text(blob.Inline("a\xff")),
		"Bad reference":    text(blob.ByRef("sha256:1", 1)),
		"Size zero":        text(blob.ByRef(blob.Sum(nil), 0)),
		"Size without ref": text(blob.Payload{Size: 1}),
		"Text beside ref":  text(blob.Payload{Text: "a", Ref: blob.Sum(nil), Size: 1}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := wire.Encode(in)
			require.ErrorIs(t, err, wire.ErrUnencodable)
		})
	}
	_, err := wire.Encode(ok)
	require.NoError(t, err)
}

func TestLinesHaveABound(t *testing.T) {
	t.Parallel()
	_, err := wire.Encode(session.Entry{Seq: 1, Event: &session.RunCompleted{Run: 1, Output: blob.Inline(strings.Repeat("x", wire.LineMax))}})
	require.ErrorIs(t, err, wire.ErrTooLarge)
	_, err = wire.Decode([]byte(started[:len(started)-1] + strings.Repeat(" ", wire.LineMax) + "}"))
	require.ErrorIs(t, err, wire.ErrMalformed)
}
