package replay_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/replay"
	"github.com/perdure/perdure/core/session"
)

func TestExplainFindsTheFirstDifference(t *testing.T) {
	t.Parallel()
	log := diary(t)
	_, differ := replay.Explain(log, log)
	require.False(t, differ)

	lines := strings.SplitAfter(string(log), "\n")
	edit := func(old, with string) string {
		require.Contains(t, string(log), old)
		return strings.Replace(string(log), old, with, 1)
	}
	for name, test := range map[string]struct{ other, want string }{
		"Fields": {
			edit(`"input":[{"text":"Write down that it rained."}]`, `"front":true,"input":[{"text":"Write down that it `+strings.Repeat("pö", 120)+`"},{"blob":"x"}]`),
			"first difference at 2: run.accepted, run.accepted\n" +
				"  data.input[0].text: \"Write down that it rained.\", \"Write down that it " + strings.Repeat("pö", 60) + "…\n" +
				"  data.input[1]: (none), {\"blob\":\"x\"}\n" +
				"  data.front: (none), true",
		},
		"Time": {
			edit(`"at":1790000000500`, `"at":1790000000499`),
			"first difference at 2: run.accepted, run.accepted\n  at: 1790000000500, 1790000000499",
		},
		"Other kind": {
			lines[0] + lines[2],
			"first difference at 2: run.accepted, run.started\n  seq: 2, 3\n  kind: \"run.accepted\", \"run.started\"\n" +
				"  data.input: [{\"text\":\"Write down that it rained.\"}], (none)\n" +
				"  data.actor: {\"id\":\"ada\",\"roles\":[\"editor\"]}, (none)\n  data.via: \"key\", (none)",
		},
		"End":      {lines[0], "first difference at 2: run.accepted, (end)"},
		"Rubbish":  {lines[0] + "rubbish", "first difference at 2: run.accepted, ?\n  line: {"},
		"No start": {"", "first difference at 1: session.opened, (end)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, differ := replay.Explain(log, []byte(test.other))
			require.True(t, differ)
			if name == "Rubbish" {
				require.True(t, strings.HasPrefix(d.String(), test.want), d.String())
				return
			}
			require.Equal(t, test.want, d.String())
		})
	}
	d, differ := replay.Explain([]byte(lines[0]), log)
	require.True(t, differ)
	require.Equal(t, "first difference at 2: (end), run.accepted", d.String())
}

func TestExplainStatesNamesPaths(t *testing.T) {
	t.Parallel()
	a, err := replay.Fold(diary(t), 20)
	require.NoError(t, err)
	b, err := replay.Fold(diary(t), 20)
	require.NoError(t, err)
	require.Empty(t, replay.ExplainStates(a, b))

	b.Own()
	b.Answered = !b.Answered
	b.Context.Entries = cloned(b.Context.Entries)
	b.Context.Entries[0].Role = "nobody"
	b.Totals.Usage.Output++
	var paths []string
	for _, f := range replay.ExplainStates(a, b) {
		paths = append(paths, f.Path)
	}
	require.Equal(t, []string{"answered", "context.entries[0].role", "totals.usage.output"}, paths)

	c := session.State{Inc: "a\xff", Active: &session.Run{Output: blob.Inline("x")}}
	require.Len(t, replay.ExplainStates(a, c), 1)
}

func cloned(entries []session.ContextEntry) []session.ContextEntry {
	return append([]session.ContextEntry(nil), entries...)
}

func TestStateJSONShowsAState(t *testing.T) {
	t.Parallel()
	s, err := replay.Fold(diary(t), 0)
	require.NoError(t, err)
	text, err := replay.StateJSON(s)
	require.NoError(t, err)
	require.Contains(t, text, "\n  \"status\": \"closed\",\n")
	_, err = replay.StateJSON(session.State{Inc: "a\xff"})
	require.Error(t, err)
}

func TestLinesShowsALog(t *testing.T) {
	t.Parallel()
	out := replay.Lines([]byte(`{"seq":1,"at":0,"kind":"run.started","v":1,"data":{"run":3}}` + "\nrubbish\n"))
	require.Equal(t, []string{"1 run.started run=3", `? "malformed envelope: byte 0: want {\"seq\":"`}, out)
	require.Empty(t, replay.Lines(nil))
}
