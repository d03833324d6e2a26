package tool_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/internal/tool"
)

func TestArgumentsThatTwoReadersCouldReadDifferentlyAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, says string }{
		{``, "empty"},
		{" \n", "empty"},
		{`[]`, "no JSON object"},
		{`"secret"`, "no JSON object"},
		{`null`, "no JSON object"},
		{`{"a":1,"a":2}`, "byte 7: the object has this name twice"},
		{`{"a":1,"\u0061":2}`, "this name twice"},
		{`{"b":{"a":1,"a":2}}`, "this name twice"},
		{"{\"a\":\"\xff\"}", "invalid UTF-8 at byte 6"},
		{`{"a":"\ud83d"}`, "byte 6: half of a surrogate pair"},
		{`{"a":"\udc69\ud83d"}`, "half of a surrogate pair"},
		{`{"a":"\ud83dx"}`, "half of a surrogate pair"},
		{`{"a":"\ud83d\u0041"}`, "half of a surrogate pair"},
		{`{"\ud83d":1}`, "half of a surrogate pair"},
		{`{"a":1} {"b":2}`, "byte 8: data after the end"},
		{`{"a":1}x`, "data after the end"},
		{`{"a":1`, "too early"},
		{`{"a"`, "colon"},
		{`{"a":`, "too early"},
		{`{"a":1,}`, "double quotes"},
		{`{"a":[1,]}`, "no JSON value begins"},
		{`{a:1}`, "double quotes"},
		{`{'a':1}`, "double quotes"},
		{`{"a":01}`, "comma"},
		{`{"a":+1}`, "no JSON value begins"},
		{`{"a":1.}`, "digit"},
		{`{"a":.5}`, "no JSON value begins"},
		{`{"a":1e}`, "digit"},
		{`{"a":-}`, "digit"},
		{`{"a":NaN}`, "no JSON value begins"},
		{`{"a":"x`, "no end"},
		{`{"a":"\x41"}`, "no such escape"},
		{`{"a":"\u00g1"}`, "no such escape"},
		{`{"a":"` + "\n" + `"}`, "control character"},
		{`{"a":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`, "nested deeper than 64"},
		{strings.Repeat(`{"a":`, 1<<15), "nested deeper than 64"},
		{`{"a":"` + strings.Repeat("x", 256<<10) + `"}`, "allowed are 262144"},
	} {
		_, err := tool.ParseArguments(c.text)
		require.ErrorContains(t, err, c.says, "%.80q", c.text)
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestArgumentsAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	got, err := tool.ParseArguments(` {"n":1e400,"big":12345678901234567890,"s":"\ud83d\udc69\u0000\/","l":[true,false,null,{}],"é":""} `)
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"n": json.Number("1e400"), "big": json.Number("12345678901234567890"), "s": "👩\x00/",
		"l": []any{true, false, nil, map[string]any{}}, "é": "",
	}, got)
	deepest := `{"a":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`
	_, err = tool.ParseArguments(deepest)
	require.NoError(t, err)
}

// FuzzArguments holds the parser to encoding/json: what it accepts, that
// accepts too, with the same meaning; what it refuses beyond that has a reason.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{
		`{"path":"a","offset":1}`, `{"a":1,"a":2}`, `{"a":"\ud83d\udc69"}`, `{"a":"\ud83d"}`, `{} x`, "{\"a\":\"\xff\"}", `{"a":[1.5e-7,-0]}`, `[`, `{"\u0000":null}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := tool.ParseArguments(text)
		if err != nil {
			require.True(t, utf8.ValidString(err.Error()))
			require.Less(t, len(err.Error()), 300)
			if json.Valid([]byte(text)) && utf8.ValidString(text) && strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") {
				reasons := []string{"twice", "surrogate", "nested", "allowed are"}
				require.True(t, containsAny(err.Error(), reasons), "%q: %v", text, err)
			}
			return
		}
		require.True(t, json.Valid([]byte(text)))
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		var want map[string]any
		require.NoError(t, dec.Decode(&want))
		require.Equal(t, want, got)
		again, err := tool.ParseArguments(tool.Canonical(got))
		require.NoError(t, err)
		require.Equal(t, got, again)
	})
}

func containsAny(text string, words []string) bool {
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// TestACutNeverPartsACharacter is what every cut in this tree goes through:
// whatever the byte, what is left is valid UTF-8 and a prefix.
func TestACutNeverPartsACharacter(t *testing.T) {
	t.Parallel()
	const family = "👩‍👩‍👧‍👦é漢"
	for n := range len(family) + 2 {
		cut := blob.Cut(family, n)
		require.True(t, utf8.ValidString(cut), n)
		require.True(t, strings.HasPrefix(family, cut), n)
		require.LessOrEqual(t, len(cut), n)
		require.Greater(t, len(cut)+utf8.UTFMax, min(n, len(family)), "no more is cut than one character")
		quoted, err := json.Marshal(cut)
		require.NoError(t, err)
		var back string
		require.NoError(t, json.Unmarshal(quoted, &back))
		require.Equal(t, cut, back)
	}
}
