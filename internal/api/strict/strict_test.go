package strict_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/api/strict"
)

func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func TestWhatCanBeReadInOneWayPasses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{}`, `[]`, `null`, `true`, `false`, `""`, `0`, `-0`, `1.5e+10`, `-12.25E-3`, ` { "a" : [ 1 , 2 ] } `,
		`{"a":1,"A":2}`, `{"a":{"a":{}}}`, `"\u0000"`, `"\ud83d\ude00"`, `"\"\\\/\b\f\n\r\t\u00e9é😀"`, "\t\r\n1\n", nested(strict.DepthMax),
		`{"":1}`, `1e308`,
	} {
		require.NoError(t, strict.Check([]byte(text)), text)
	}
}

func TestWhatCannotIsRefusedWithItsPlace(t *testing.T) {
	t.Parallel()
	for text, reason := range map[string]string{
		``:                       "ends early at byte 0",
		` `:                      "ends early at byte 1",
		`{`:                      "name in quotes is missing at byte 1",
		`{"a":1,}`:               "name in quotes is missing at byte 7",
		`{"a" 1}`:                "colon is missing at byte 5",
		`{"a":1 "b":2}`:          "comma or the end is missing at byte 7",
		`{a:1}`:                  "name in quotes is missing at byte 1",
		`[1,]`:                   "no value begins here at byte 3",
		`[1`:                     "comma or the end is missing at byte 2",
		`1 2`:                    "more after the value at byte 2",
		`{}x`:                    "more after the value at byte 2",
		`{"a":1,"a":2}`:          "twice at byte 7",
		`{"a":1,"\u0061":2}`:     "twice at byte 7",
		`{"é":1,"\u00e9":2}`:     "twice at byte 8",
		`{"x":[{"b":1,"b":1}]}`:  "twice at byte 13",
		`"\ud83d"`:               "surrogate pair stands alone at byte 1",
		`"\ud83dx"`:              "surrogate pair stands alone at byte 1",
		`"\ud83d\u0041"`:         "surrogate pair stands alone at byte 1",
		`"a\ude00"`:              "surrogate pair stands alone at byte 2",
		`{"\udc00":1}`:           "surrogate pair stands alone at byte 2",
		"\"\xff\"":               "not UTF-8 at byte 1",
		"\"\xed\xa0\x80\"":       "not UTF-8 at byte 1",
		"\"a\x00\"":              "control character stands in a string at byte 2",
		"\"a\nb\"":               "control character stands in a string at byte 2",
		`"\x41"`:                 "no such escape at byte 1",
		`"\u12"`:                 "no such escape at byte 1",
		`"\u+123"`:               "no such escape at byte 1",
		`"abc`:                   "does not end at byte 4",
		`"abc\`:                  "does not end at byte 4",
		`01`:                     "more after the value at byte 1",
		`-`:                      "digit is missing at byte 1",
		`1.`:                     "digit is missing at byte 2",
		`1e`:                     "digit is missing at byte 2",
		`.5`:                     "no value begins here at byte 0",
		`+1`:                     "no value begins here at byte 0",
		`1e309`:                  "too large at byte 0",
		`NaN`:                    "no value begins here at byte 0",
		`nul`:                    "no value begins here at byte 0",
		`'a'`:                    "no value begins here at byte 0",
		"\ufeff{}":               "no value begins here at byte 0",
		`// x`:                   "no value begins here at byte 0",
		nested(65):               "nests deeper than 64 at byte 64",
		strings.Repeat("[", 1e6): "nests deeper than 64 at byte 64",
	} {
		err := strict.Check([]byte(text))
		require.ErrorContains(t, err, reason, "%.40q", text)
	}
}

// FuzzStrict holds the reader to two laws: what it passes encoding/json reads,
// to the same value again when that is written; and what it refuses is refused
// by encoding/json as well, or is one of the things that only this one refuses.
func FuzzStrict(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e3,null,true,"x\u00e9\ud83d\ude00"]}`, `{"a":1,"a":2}`, `"\ud83d"`, "\"\xff\"", `[1e999]`, nested(70), `{"a":1} x`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		err := strict.Check(data)
		if err == nil {
			require.True(t, utf8.Valid(data))
			var v any
			require.NoError(t, json.Unmarshal(data, &v))
			again, err := json.Marshal(v)
			require.NoError(t, err)
			require.NoError(t, strict.Check(again))
			return
		}
		var e *strict.Error
		require.ErrorAs(t, err, &e)
		require.GreaterOrEqual(t, e.Offset, 0)
		require.LessOrEqual(t, e.Offset, len(data))
		if !json.Valid(data) {
			return
		}
		for _, only := range []string{"twice", "surrogate", "UTF-8", "deeper", "too large"} {
			if strings.Contains(e.Reason, only) {
				return
			}
		}
		t.Fatalf("encoding/json reads what is refused with %q", e.Reason)
	})
}
