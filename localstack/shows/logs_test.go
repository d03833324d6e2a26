package shows

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/localstack/target"
)

// logs asks CloudWatch Logs.
func (w *world) logs(action string, request, into any) {
	w.Helper()
	body, err := json.Marshal(request)
	require.NoError(w, err)
	r, err := http.NewRequestWithContext(w.Context(), http.MethodPost, w.Endpoint+"/", bytes.NewReader(body))
	require.NoError(w, err)
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	r.Header.Set("X-Amz-Target", "Logs_20140328."+action)
	who, err := w.Config.Credentials.Retrieve(w.Context())
	require.NoError(w, err)
	sum := sha256.Sum256(body)
	require.NoError(w, v4.NewSigner().SignHTTP(w.Context(), who, r, hex.EncodeToString(sum[:]), "logs", target.Region, time.Now()))
	resp, err := w.HTTP.Do(r)
	require.NoError(w, err)
	defer func() { require.NoError(w, resp.Body.Close()) }()
	require.Equal(w, http.StatusOK, resp.StatusCode)
	require.NoError(w, json.NewDecoder(resp.Body).Decode(into))
}

// lines are all that the stack has logged so far.
func (w *world) lines() []string {
	w.Helper()
	stack := strings.TrimSuffix(w.function(""), "-")
	var lines []string
	for _, prefix := range []string{"/" + stack + "/", "/aws/vendedlogs/" + stack + "/"} {
		var groups struct {
			LogGroups []struct{ LogGroupName string }
		}
		w.logs("DescribeLogGroups", object{"logGroupNamePrefix": prefix}, &groups)
		require.NotEmpty(w, groups.LogGroups)
		for _, g := range groups.LogGroups {
			for next := ""; ; {
				request := object{"logGroupName": g.LogGroupName}
				if next != "" {
					request["nextToken"] = next
				}
				var page struct {
					Events    []struct{ Message string }
					NextToken string
				}
				w.logs("FilterLogEvents", request, &page)
				for _, e := range page.Events {
					lines = append(lines, g.LogGroupName+": "+e.Message)
				}
				if next = page.NextToken; next == "" {
					break
				}
			}
		}
	}
	return lines
}

// Whatever goes wrong in a session, its texts, its tools' tokens and the keys of
// clients are in no log.
func TestLogsHaveNothingOfASession(t *testing.T) {
	t.Parallel()
	w := setup(t)
	secret := "secret-" + rand.Text()
	job := w.outside("job", nil)
	job.answers(says(http.StatusAccepted, object{}))
	broken := w.outside("broken", nil)
	broken.answers(says(http.StatusInternalServerError, object{"error": secret}))
	w.open([]string{job.name, broken.name, "files.*"}, object{"instructions": secret})
	w.model.Enqueue(
		openaitest.Refuse(http.StatusInternalServerError, "server_error", "", secret),
		openaitest.Calls(call("a", job.name, object{"x": secret}), call("b", broken.name, object{"x": secret}), call("c", "files.read", object{"path": secret})),
		openaitest.Refuse(http.StatusBadRequest, "invalid_request_error", "invalid_value", secret),
	)
	run := w.run(secret)
	token := soon(t, job.calls).Promise.Token
	w.waits(run.ID, "promise")
	w.ask(http.MethodPost, "/v1/promises/"+token, object{"status": secret}, "Authorization", "").is(http.StatusUnprocessableEntity)
	w.ask(http.MethodPost, "/v1/promises/"+token, object{"status": "failed", "error": secret}, "Authorization", "").is(http.StatusOK)
	require.Equal(t, "model_rejected", w.until(run.ID, "failed").Failure.Kind)
	w.post("/runs", object{"input": secret, secret: secret}).is(http.StatusUnprocessableEntity)
	w.ask(http.MethodGet, "/v1/sessions?"+secret+"=1", nil).is(http.StatusBadRequest)
	w.ask(http.MethodGet, w.path(""), nil, "Authorization", "Bearer "+w.Key+secret).is(http.StatusUnauthorized)
	w.driven(host.DriveIdle)

	// Lines come some time after what they are of: these are the last ones, of the
	// functions that had the session.
	marks := []string{w.mark(env.FunctionDrive), w.mark(env.FunctionPark), "/" + env.FunctionAPI + ": "}
	var all string
	eventually(t, "the functions have no log", func() bool {
		all = strings.Join(w.lines(), "\n")
		return !slices.ContainsFunc(marks, func(mark string) bool { return !strings.Contains(all, mark) })
	})
	for what, text := range map[string]string{"a text": secret, "a token": token, "the admin's key": w.Key} {
		for line := range strings.Lines(all) {
			require.NotContains(t, line, text, "%s is in a log", what)
		}
	}
}

// mark has a function log a line that is known again: the id of an invocation
// whose event it cannot read.
func (w *world) mark(role string) string {
	w.Helper()
	name := w.function(role)
	out, err := w.lambda.Invoke(w.Context(), &lambda.InvokeInput{FunctionName: &name, Payload: []byte(`{}`)})
	require.NoError(w, err)
	_, rest, found := strings.Cut(string(out.Payload), "the log of request ")
	require.True(w, found, "%s", out.Payload)
	id, _, _ := strings.Cut(rest, " ")
	require.NotEmpty(w, id)
	return id
}
