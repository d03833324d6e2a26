package replay_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/replay"
)

// A log that somebody hands in is shown and explained, whatever is in it.
func FuzzLog(f *testing.F) {
	good := `{"seq":1,"at":0,"kind":"run.sung","v":2,"data":{"a":[{"ref":"sha256:ab","size":3},"x y",null],"b":{"c":-1.5e3}}}`
	f.Add([]byte(good), []byte("rubbish\n\n"))
	f.Add([]byte(good+"\n"+good), []byte(strings.Replace(good, "null", "true", 1)))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		for _, line := range replay.Lines(a) {
			require.True(t, utf8.ValidString(line))
			require.NotContains(t, line, "\n")
		}
		_, err := replay.Fold(a, 0)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
		}
		_, differ := replay.Explain(a, a)
		require.False(t, differ)
		if d, differ := replay.Explain(a, b); differ {
			require.NotEmpty(t, d.String())
		}
	})
}
