package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/api"
)

// engine 10.21.
func TestARunIsAnswered(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.model.Enqueue(openaitest.Text("Good morning, Ann. It rains.", 7), openaitest.Text("So take an umbrella.", 1))
	s := read[api.Session](w.ask("POST", "/v1/sessions", object{
		"id": w.session, "config": w.played(nil, object{"instructions": "You are brief."}), "input": "How is the weather?",
	}).is(201))
	require.NotNil(t, s.ActiveRun)
	run := w.ends(s.ActiveRun.ID, "completed")
	require.Equal(t, "Good morning, Ann. It rains.", run.Output.Text)
	require.Equal(t, int64(1), run.Usage.ModelCalls)
	require.Equal(t, int64(100), run.Usage.InputTokens)
	require.Equal(t, int64(10), run.Usage.OutputTokens)
	require.True(t, run.Usage.Complete)

	first := w.asked(1)
	require.Equal(t, []string{"system", "user"}, first.roles())
	require.Equal(t, "You are brief.", first.Messages[0].text())
	require.Equal(t, "How is the weather?", first.last().text())

	second := w.run("What to do?")
	require.Equal(t, "So take an umbrella.", w.ends(second.ID, "completed").Output.Text)
	require.Equal(t, []string{"system", "user", "assistant", "user"}, w.asked(2).roles())
	require.Equal(t, "Good morning, Ann. It rains.", w.asked(2).Messages[2].text())

	s = read[api.Session](w.get("").is(200))
	require.Equal(t, "idle", s.Activity)
	require.Equal(t, "How is the weather?", s.Title)
	require.Equal(t, int64(2), s.Usage.Runs)
	require.Equal(t, int64(200), s.Usage.InputTokens)
}
