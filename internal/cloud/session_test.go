package cloud_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/client"
	"github.com/perdure/perdure/internal/cloud"
	"github.com/perdure/perdure/internal/env"
)

func TestASessionRunsThroughTheFunctions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.serve()
	_, err := c.CreateSession(t.Context(), map[string]any{"id": "s", "config": script(`[
		{"calls":[{"tool":"files.write","arguments":{"path":"a.md","content":"hello"}}]},
		{"calls":[{"tool":"files.read","arguments":{"path":"a.md"}}]},
		{"text":"read it"}]`, "files.*")})
	require.NoError(t, err)
	_, err = c.StartRun(t.Context(), "s", say("go on"), 0)
	require.NoError(t, err)

	// files.write is an action: a person is asked, and until then nothing runs.
	run := ended(t, c, "s", "run_1")
	require.Equal(t, "waiting", run.Status, w.log)
	require.Len(t, run.Approvals, 1)
	_, err = c.Decide(t.Context(), "s", run.Approvals[0].ID, api.DecideApproval{Verdict: api.Verdict{Decision: "approve"}})
	require.NoError(t, err)
	run = over(t, c, "s", "run_1")
	require.Equal(t, "completed", run.Status, w.log)
	require.Equal(t, "read it", run.Output.Text)
	require.Eventually(t, func() bool { s := w.done(); return len(s) > 0 && s[len(s)-1] == "done" }, hang, tick)
	require.Equal(t, []string{"wait", "done"}, w.done(), "turns whose tools run in the slice are one step")
	require.NotContains(t, w.log.String(), "hello", "a log has no session's text")
}

func TestACustomersFunctionRunsInAFunctionOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.serve()
	w.invoked = func(function string, payload []byte) ([]byte, bool) {
		if function != "arn:aws:lambda:eu-west-1:111122223333:function:quote" || !json.Valid(payload) {
			t.Error(function, string(payload))
		}
		return []byte(`{"result":{"price":7}}`), false
	}
	require.NoError(t, c.PutTool(t.Context(), "quote", map[string]any{
		"target": "lambda", "function": "arn:aws:lambda:eu-west-1:111122223333:function:quote", "description": "A price.", "kind": "read",
		"completion": "joined", "timeoutSeconds": 5, "parameters": map[string]any{"type": "object"},
	}))
	run := once(t, w, c, `[{"calls":[{"tool":"quote","arguments":{}}]},{"text":"seven"}]`, "quote")
	require.Equal(t, "completed", run, w.log)
	require.Contains(t, w.done(), "tools", "the function drive may not invoke it")
	calls, err := c.Calls(t.Context(), "s", "run_1")
	require.NoError(t, err)
	require.Equal(t, "completed", calls.Items[0].Status)
}

// once runs a session to its end, and says how.
func once(t *testing.T, w *world, c *client.Client, steps string, tools ...string) string {
	t.Helper()
	_, err := c.CreateSession(t.Context(), map[string]any{"id": "s", "config": script(steps, tools...)})
	require.NoError(t, err)
	_, err = c.StartRun(t.Context(), "s", say("go on"), 0)
	require.NoError(t, err)
	return ended(t, c, "s", "run_1").Status
}

func TestWorkLeavesThroughTheOutbox(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.serve()
	require.NoError(t, c.PutTool(t.Context(), "resize", map[string]any{
		"target": "queue", "description": "Resizes.", "kind": "read", "completion": "promise", "parameters": map[string]any{"type": "object"},
	}))
	require.Equal(t, "waiting", once(t, w, c, `[
		{"calls":[{"tool":"resize","arguments":{"to":"é<b>\uffff"}}]},
		{"calls":[{"tool":"await","arguments":{"promises":["promise_1"]}}]},
		{"text":"done"}]`, "resize", "await"))
	items := w.take(outboxURL)
	require.Len(t, items, 1)
	ctx, cancel := w.invocation()
	defer cancel()
	failed, err := w.function(env.FunctionDeliver).Deliver(ctx, "req", []cloud.Message{{ID: "m1", Body: items[0], Receives: 1}})
	require.NoError(t, err)
	require.Empty(t, failed)
	work := w.take(workURL)
	require.Len(t, work, 1)
	for _, b := range []byte(work[0]) {
		require.True(t, b >= ' ' && b < 0x7f, "%q", work[0])
	}
	var call struct {
		Arguments json.RawMessage `json:"arguments"`
		Promise   struct {
			Token     string `json:"token"`
			SettleURL string `json:"settleUrl"`
		} `json:"promise"`
	}
	require.NoError(t, json.Unmarshal([]byte(work[0]), &call))
	require.JSONEq(t, `{"to":"é<b>\uffff"}`, string(call.Arguments))
	require.Equal(t, publicURL+"/v1/promises/"+call.Promise.Token, call.Promise.SettleURL)
	require.NotContains(t, w.log.String(), call.Promise.Token)

	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.Base()+"/v1/promises/"+call.Promise.Token, strings.NewReader(`{"status":"resolved","value":"small"}`))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Equal(t, "completed", over(t, c, "s", "run_1").Status)
}
