package cloud_test

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/host"
)

// send sends a command to a function.
func (w *world) send(role, method, path, body string) (status int, answer string) {
	w.t.Helper()
	rec := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(w.t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+adminKey)
	r.Header.Set("Content-Type", "application/json")
	w.gateway(role).ServeHTTP(rec, r)
	return rec.Code, rec.Body.String()
}

// An admin of a tenant is not an operator: what Perdure's functions and queues
// are sent they believe.
func TestPerdureItselfIsNoTool(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const work = "https://sqs.eu-west-1.amazonaws.com/123456789012/work"
	w.variables[env.AWSFunction], w.variables[env.Work] = "p-api", work
	put := func(target string) (int, string) {
		return w.send(env.FunctionAPI, http.MethodPut, "/v1/tools/t", `{"description":"d","parameters":{"type":"object"},"kind":"action",`+target+`}`)
	}
	for _, name := range env.FunctionNames() {
		for _, form := range []string{"p-%", "p-%:live", "123456789012:function:p-%", "arn:aws:lambda:eu-west-1:123456789012:function:p-%", "arn:aws:lambda:eu-west-1:123456789012:function:p-%:$LATEST"} {
			status, body := put(`"target":"lambda","completion":"joined","function":"` + strings.Replace(form, "%", name, 1) + `"`)
			require.Equal(t, http.StatusUnprocessableEntity, status, form)
			require.Contains(t, body, "one of Perdure's own")
		}
	}
	for _, queue := range []string{"https://sqs.eu-west-1.amazonaws.com/123456789012/outbox", work + "2"} {
		status, body := put(`"target":"queue","completion":"promise","queue":"` + queue + `"`)
		require.Equal(t, http.StatusUnprocessableEntity, status)
		require.Contains(t, body, "not the stack's work queue")
	}
	for _, others := range []string{
		`"target":"lambda","completion":"joined","function":"orders"`,
		`"target":"lambda","completion":"joined","function":"arn:aws:lambda:eu-west-1:123456789012:function:p-drives:1"`,
		`"target":"queue","completion":"promise","queue":"` + work + `"`,
		`"target":"queue","completion":"promise"`,
	} {
		status, body := put(others)
		require.Less(t, status, http.StatusMultipleChoices, body)
	}
}

// A command that is sent where streams are is not half taken.
func TestFunctionsThatReadTakeNoCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, role := range []string{env.FunctionRead, env.FunctionStream} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			status, body := w.send(role, method, "/v1/sessions", `{"id":"s"}`)
			require.Equal(t, http.StatusMethodNotAllowed, status)
			require.Equal(t, "invalid_request", problemOf(t, body))
		}
		status, _ := w.request(role, "/v1/sessions/s")
		require.Equal(t, http.StatusNotFound, status)
	}
}

// Who is sent away is told where to, if the function knows.
func TestFunctionsThatReadSayWhereCommandsGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, body := w.send(env.FunctionRead, http.MethodPost, "/v1/sessions", `{"id":"s"}`)
	require.Contains(t, body, `"detail":"this address is for reading: send commands to `+publicURL+`"`)
	w = newWorld(t)
	delete(w.variables, env.PublicURL)
	_, body = w.send(env.FunctionStream, http.MethodPost, "/v1/sessions", `{"id":"s"}`)
	require.Contains(t, body, `"detail":"this address is for reading: send commands to the API's own"`)
}

// counts counts the reads of heads.
type counts struct {
	host.Log

	heads atomic.Int64
}

func (c *counts) Head(ctx context.Context, key host.Key) (host.Head, error) {
	c.heads.Add(1)
	return c.Log.Head(ctx, key)
}

// Anybody may ask whether the service is ready, and each question of AWS costs.
func TestReadinessIsNotAskedOfAWSEachTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := &counts{Log: w.store}
	w.log2 = log
	for range 100 {
		status, _ := w.request(env.FunctionRead, "/readyz")
		require.Equal(t, http.StatusOK, status)
	}
	require.Less(t, log.heads.Load(), int64(50))
}

// What a loopback address opens is for a machine on which all of AWS is played.
func TestLoopbackIsOpenToToolsOnAnEmulatorOnly(t *testing.T) {
	t.Parallel()
	const emulator = "http://127.0.0.1:4566"
	for name, c := range map[string]struct {
		set  map[string]string
		open bool
	}{
		"an emulator":                            {map[string]string{env.AWSEndpointURL: emulator}, true},
		"AWS":                                    {nil, false},
		"AWS, with private addresses":            {map[string]string{env.AllowPrivate: "1"}, false},
		"AWS, with a service at another address": {map[string]string{env.AWSEndpointURL: emulator, env.AWSEndpointURL + "_S3": "https://s3.example"}, false},
		"AWS, with the address ignored":          {map[string]string{env.AWSEndpointURL: emulator, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			maps.Copy(w.variables, c.set)
			var calls atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
				calls.Add(1)
				_, _ = io.WriteString(rw, `{"result":"ok"}`)
			}))
			t.Cleanup(server.Close)
			api := w.serve()
			require.NoError(t, api.PutTool(t.Context(), "hook", map[string]any{
				"target": "http", "url": server.URL, "description": "H.", "kind": "read", "completion": "joined", "parameters": map[string]any{"type": "object"},
			}))
			require.Equal(t, "completed", once(t, w, api, `[{"calls":[{"tool":"hook","arguments":{}}]},{"text":"done"}]`, "hook"))
			require.Equal(t, c.open, calls.Load() > 0)
		})
	}
}
