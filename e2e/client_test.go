package e2e

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/client"
)

// The project's own client sees a session from its beginning to its end.
func TestTheClient(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c, ctx := client.New(w.url, w.key), t.Context()
	require.NoError(t, c.Ready(ctx))
	made, err := c.CreateSession(ctx, object{"id": w.session, "config": w.played([]string{"files.*"})})
	require.NoError(t, err)
	require.Equal(t, w.session, made.ID)

	w.model.Enqueue(openaitest.Calls(call("a", "files.write", object{"path": "a", "content": "A"})), openaitest.Text("Written.", 1))
	text := api.Input{{Type: "text", Text: api.Text{Text: "Write."}}}
	run, err := c.StartRun(ctx, w.session, api.RequestRun{Input: text, SubmissionID: "write"}, 20)
	require.NoError(t, err)
	w.poll(func() bool {
		run, err = c.Run(ctx, w.session, run.ID, 20)
		require.NoError(t, err)
		return run.Status == "waiting"
	})
	_, err = c.Decide(ctx, w.session, run.Approvals[0].ID, api.DecideApproval{Verdict: api.Verdict{Decision: "approve"}})
	require.NoError(t, err)
	kinds := map[string]int{}
	for e, err := range c.Follow(ctx, w.session, 0, true) {
		require.NoError(t, err)
		if kinds[e.Kind]++; e.Kind == "run.completed" {
			break
		}
	}
	require.Equal(t, 2, kinds["turn.completed"])
	run, err = c.Run(ctx, w.session, run.ID, 0)
	require.NoError(t, err)
	require.Equal(t, "Written.", run.Output.Text)
	require.Equal(t, "cli", run.Via)

	log, err := c.Log(ctx, w.session, 0)
	require.NoError(t, err)
	data, err := io.ReadAll(log)
	require.NoError(t, err)
	require.NoError(t, log.Close())
	require.NotEmpty(t, data)
	_, err = c.CloseSession(ctx, w.session, false)
	require.NoError(t, err)
	_, err = c.StartRun(ctx, w.session, api.RequestRun{Input: text}, 0)
	require.Equal(t, "session_closed", client.Code(err))
	require.NoError(t, c.DeleteSession(ctx, w.session))
	_, err = c.Session(ctx, w.session)
	require.Equal(t, "not_found", client.Code(err))
}
