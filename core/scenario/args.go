package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
)

// args are the words of a verb: flags, key=value with the value in parentheses
// where it has spaces, and the lines below. A word that no handler asked for
// fails the script.
type args struct {
	t     *testing.T
	at    string
	words []datadriven.CmdArg
	taken []bool
	lines []string
	below bool // the lines were asked for
}

func newArgs(t *testing.T, td *datadriven.TestData) *args {
	t.Helper()
	a := &args{t: t, at: td.Pos, words: td.CmdArgs, taken: make([]bool, len(td.CmdArgs))}
	for line := range strings.SplitSeq(td.Input, "\n") {
		if strings.TrimSpace(line) != "" {
			a.lines = append(a.lines, line)
		}
	}
	return a
}

// line is a verb's line among the lines below another.
func (a *args) line(text string) (string, *args) {
	a.t.Helper()
	cmd, words, err := datadriven.ParseLine(text)
	require.NoError(a.t, err, a.at)
	return cmd, &args{t: a.t, at: a.at + " " + text, words: words, taken: make([]bool, len(words))}
}

func (a *args) input() []string {
	a.below = true
	return a.lines
}

// rest fails when a word was not asked for.
func (a *args) rest() {
	a.t.Helper()
	for i, w := range a.words {
		require.True(a.t, a.taken[i], "%s: what is %q here?", a.at, w.Key)
	}
	require.True(a.t, a.below || len(a.lines) == 0, "%s: nobody reads the lines", a.at)
}

func (a *args) find(key string) (string, bool) {
	for i, w := range a.words {
		if w.Key == key {
			a.taken[i] = true
			return strings.Join(w.Vals, ", "), true
		}
	}
	return "", false
}

func (a *args) flag(key string) bool {
	_, ok := a.find(key)
	return ok
}

func (a *args) str(key string) string {
	s, _ := a.find(key)
	return s
}

func (a *args) or(key, otherwise string) string {
	if s, ok := a.find(key); ok {
		return s
	}
	return otherwise
}

func (a *args) list(key string) []string {
	s, ok := a.find(key)
	if !ok || s == "" {
		return nil
	}
	return strings.Split(s, ", ")
}

func (a *args) num(key string, otherwise int64) int64 {
	a.t.Helper()
	s, ok := a.find(key)
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseInt(s, 10, 64)
	require.NoError(a.t, err, a.at)
	return n
}

// bare returns the words without a value that look like numbers: "2" or "1.2".
func (a *args) bare() []string {
	var out []string
	for i, w := range a.words {
		if len(w.Vals) == 0 && w.Key != "" && w.Key[0] >= '0' && w.Key[0] <= '9' {
			a.taken[i] = true
			out = append(out, w.Key)
		}
	}
	return out
}

// number is the one bare number.
func (a *args) number() uint64 {
	a.t.Helper()
	b := a.bare()
	require.Len(a.t, b, 1, "%s: want one number", a.at)
	n, err := strconv.ParseUint(b[0], 10, 64)
	require.NoError(a.t, err, a.at)
	return n
}

// dur is a duration in milliseconds: 250ms, 5s, 10m, 1h, 7d.
func (a *args) dur(key string, otherwise int64) int64 {
	a.t.Helper()
	s, ok := a.find(key)
	if !ok {
		return otherwise
	}
	return a.millis(s)
}

func (a *args) millis(s string) int64 {
	a.t.Helper()
	for _, u := range []struct {
		unit string
		ms   int64
	}{{"ms", 1}, {"s", ident.Second}, {"m", ident.Minute}, {"h", ident.Hour}, {"d", ident.Day}} {
		if digits, ok := strings.CutSuffix(s, u.unit); ok {
			if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
				return n * u.ms
			}
		}
	}
	require.Fail(a.t, "no duration", "%s: %q", a.at, s)
	return 0
}

// text is a payload: @5000 stands for 5,000 bytes that are stored elsewhere.
func (a *args) text(key string) blob.Payload { return payload(a.str(key)) }

func payload(s string) blob.Payload {
	if digits, ok := strings.CutPrefix(s, "@"); ok {
		if n, err := strconv.Atoi(digits); err == nil && n > 0 {
			return blob.ByRef(blob.Sum([]byte(strings.Repeat("x", n))), int64(n))
		}
	}
	return blob.Inline(s)
}

// asked says who gives a command: as=, roles=, via=, and its id=.
func (a *args) asked() session.Asked {
	return session.Asked{
		Actor:      session.Actor{ID: a.or("as", "ada"), Roles: a.list("roles")},
		Via:        a.or("via", "key"),
		Submission: session.Submission{ID: ident.SubmissionID(a.str("id"))},
	}
}

// call is a call's name as in 1.2: the second call of the first turn. Without
// one it is that which is pending; any of them where the script says so.
func (a *args) call(w *world, kind string) ident.CallID {
	a.t.Helper()
	b := a.bare()
	if len(b) == 0 {
		p := slices.DeleteFunc(slices.Clone(w.pending), func(p effect) bool { return p.claim.Kind != kind })
		if a.flag("any") {
			p = p[:min(1, len(p))]
		}
		require.Len(a.t, p, 1, "%s: which call?", a.at)
		return ident.CallID{Turn: p[0].claim.Turn, Index: p[0].claim.Call}
	}
	var id ident.CallID
	_, err := fmt.Sscanf(b[0], "%d.%d", &id.Turn, &id.Index)
	require.NoError(a.t, err, a.at)
	return id
}
