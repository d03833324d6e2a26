package scenario

import (
	"slices"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
)

// handler plays one verb and returns what the script shows of it.
type handler func(w *world, a *args) string

// verbs names every verb of a script; each has a file of its own, verb_*.go.
func verbs() map[string]handler {
	return map[string]handler{
		"open":     verbOpen,
		"config":   verbConfig,
		"offer":    verbOffer,
		"unpriced": verbUnpriced,
		"submit":   verbSubmit,
		"steer":    verbSteer,
		"cancel":   verbCancel,
		"approve":  verbApprove,
		"reject":   verbReject,
		"decide":   verbDecide,
		"answer":   verbAnswer,
		"settle":   verbSettle,
		"edit":     verbEdit,
		"compact":  verbCompact,
		"close":    verbClose,
		"forget":   verbForget,
		"release":  verbRelease,
		"dead":     verbDead,
		"model":    verbModel,
		"tool":     verbTool,
		"turns":    verbTurns,
		"many":     verbMany,
		"size":     verbSize,
		"foreign":  verbForeign,
		"rounds":   verbRounds,
		"summary":  verbSummary,
		"advance":  verbAdvance,
		"drive":    verbDrive,
		"crash":    verbCrash,
		"resume":   verbResume,
		"request":  verbRequest,
		"status":   verbStatus,
	}
}

// Run plays a script, warm and cold at once. With -rewrite it writes what it
// came to into the script: commit only a diff that you can explain. A verb with
// times=30 is played 30 times, and the last one is shown.
func Run(t *testing.T, path string) {
	t.Helper()
	table := verbs()
	warm, cold := newWorld(true), newWorld(false)
	datadriven.RunTest(t, path, func(t *testing.T, td *datadriven.TestData) string {
		t.Helper()
		play, ok := table[td.Cmd]
		require.True(t, ok, "%s: there is no verb %s", td.Pos, td.Cmd)
		out := ""
		for _, w := range []*world{warm, cold} {
			w.t = t
			got := ""
			for n := newArgs(t, td).num("times", 1); n > 0; n-- {
				a := newArgs(t, td)
				a.find("times")
				got = play(w, a)
				a.rest()
			}
			if w == warm {
				out = got
				continue
			}
			require.Equal(t, out, got, "%s: folded from the log it comes to something else", td.Pos)
		}
		require.True(t, slices.EqualFunc(warm.log, cold.log, slices.Equal[[]byte]), "%s: the logs differ", td.Pos)
		return out
	})
	warm.oldCopies()
}
