package localstack_test

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/localstack/target"
)

// TestDeployedStackAnswers asks the stack for its life through its API: a session
// and a run on the built-in model, to its end. What else it can do the end-to-end
// suite asks it.
func TestDeployedStackAnswers(t *testing.T) {
	t.Parallel()
	stack := target.Deployed(t)

	var session struct{ ID string }
	ask(t, stack, http.MethodPost, "/v1/sessions", "", `{}`, http.StatusCreated, &session)
	var run struct{ ID, Status string }
	ask(t, stack, http.MethodPost, "/v1/sessions/"+session.ID+"/runs", "once", `{"input":"hello"}`, http.StatusAccepted, &run)
	require.True(t, eventually(t, func() bool {
		ask(t, stack, http.MethodGet, "/v1/sessions/"+session.ID+"/runs/"+run.ID, "", "", http.StatusOK, &run)
		return run.Status == "completed"
	}), "the run is %s", run.Status)
}

func ask(t *testing.T, stack *target.Stack, method, path, key, body string, status int, out any) {
	t.Helper()
	response, err := stack.Ask(t.Context(), method, path, key, []byte(body))
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, status, response.StatusCode, "%s", text)
	require.NoError(t, json.Unmarshal(text, out))
}
