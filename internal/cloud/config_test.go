package cloud_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/host"
)

// awsError is an error as AWS's clients return it.
type awsError struct{ service, code string }

func (e *awsError) Error() string     { return "operation error " + e.service + ": api error " + e.code }
func (e *awsError) ErrorCode() string { return e.code }
func (e *awsError) Service() string   { return e.service }
func (e *awsError) Operation() string { return "Op" }

// request asks a function for a path, and returns the answer.
func (w *world) request(role, path string) (status int, body string) {
	w.t.Helper()
	rec := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(w.t.Context(), http.MethodGet, path, nil)
	r.Header.Set("Authorization", "Bearer "+adminKey)
	w.gateway(role).ServeHTTP(rec, r)
	got, err := io.ReadAll(rec.Result().Body)
	require.NoError(w.t, err)
	return rec.Code, string(got)
}

// problemOf is the code of a problem.
func problemOf(t *testing.T, body string) string {
	t.Helper()
	var p struct{ Type, Code, Detail string }
	require.NoError(t, json.Unmarshal([]byte(body), &p), body)
	require.Equal(t, "urn:perdure:problem:"+p.Code, p.Type)
	return p.Code
}

func TestWrongSettingsAnswerAndSayWhatToDo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(w *world)
		says  []string
	}{
		"no table":          {func(w *world) { delete(w.variables, env.Table) }, []string{"PERDURE_TABLE is not set", "deploy it again"}},
		"no bucket":         {func(w *world) { w.variables[env.Bucket] = "" }, []string{"PERDURE_BUCKET is not set"}},
		"no machine":        {func(w *world) { delete(w.variables, env.Machine) }, []string{"PERDURE_MACHINE is not set"}},
		"no key":            {func(w *world) { delete(w.variables, env.KeySecret) }, []string{"PERDURE_KEY_SECRET is not set"}},
		"bad number":        {func(w *world) { w.variables[env.SliceTurns] = "some" }, []string{"PERDURE_SLICE_TURNS", "write a whole number"}},
		"secret not there":  {func(w *world) { delete(w.secrets, "key") }, []string{"PERDURE_KEY_SECRET", "is not there: deploy the stack again"}},
		"secret denied":     {func(w *world) { w.denied = &awsError{"Secrets Manager", "AccessDeniedException"} }, []string{"PERDURE_SIGNING_SECRET", "cannot be read", "role may not do this"}},
		"secret is none":    {func(w *world) { w.secrets["key"] = "changeme" }, []string{"PERDURE_KEY_SECRET", "holds no secret of this program"}},
		"secret is short":   {func(w *world) { w.secrets["signing"] = `{"id":"1","secret":"short-one"}` }, []string{"PERDURE_SIGNING_SECRET", "32 characters or more"}},
		"secret id is none": {func(w *world) { w.secrets["signing"] = `{"id":"a.b","secret":"` + secretRoot + `"}` }, []string{"PERDURE_SIGNING_SECRET"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			good, secrets := maps.Clone(w.variables), maps.Clone(w.secrets)
			c.spoil(w)
			w.function(env.FunctionAPI).Warm(t.Context())
			status, body := w.request(env.FunctionAPI, "/v1/me")
			require.Equal(t, http.StatusServiceUnavailable, status)
			require.Equal(t, "unavailable", problemOf(t, body))
			for _, says := range c.says {
				require.Contains(t, w.log.String(), says)
				require.NotContains(t, body, says, "clients are not told")
			}
			for _, secret := range []string{"changeme", "short-one", "aaaaaaaa", "bbbbbbbb"} {
				require.NotContains(t, w.log.String(), secret)
			}

			// Put right, it works without a restart.
			w.variables = good
			w.mu.Lock()
			w.secrets, w.denied = secrets, nil
			w.mu.Unlock()
			status, _ = w.request(env.FunctionAPI, "/v1/me")
			require.Equal(t, http.StatusOK, status)
		})
	}
}

func TestAFunctionNeedsOnlyWhatItUses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.denied = errors.New("no right to read secrets")
	ctx, cancel := w.invocation()
	defer cancel()
	require.NoError(t, w.function(env.FunctionSweep).Sweep(ctx, "r", sample(t, "sweep/scheduled.json")))
	w.variables = map[string]string{env.Work: workURL}
	_, err := w.function(env.FunctionDeliver).Deliver(ctx, "r", nil)
	require.NoError(t, err)
	require.ErrorContains(t, w.cold("no such role").Sweep(ctx, "r", nil), "unavailable")
	require.Contains(t, w.log.String(), "there is no function of this name")
}

// fails is a log whose reads fail.
type fails struct {
	host.Log

	err error
}

func (f fails) Head(context.Context, host.Key) (host.Head, error) { return host.Head{}, f.err }

func (f fails) Open(context.Context, host.Key) (host.Head, host.Meta, error) {
	return host.Head{}, host.Meta{}, f.err
}

func TestReadinessSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	for code, says := range map[string]string{
		"ResourceNotFoundException": "there is no such table",
		"AccessDeniedException":     "role may not do this",
		"ExpiredTokenException":     "role may not do this",
	} {
		w := newWorld(t)
		w.log2 = fails{w.store, fmt.Errorf("head: %w", &awsError{"DynamoDB", code})}
		status, body := w.request(env.FunctionAPI, "/readyz")
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Equal(t, "unavailable", problemOf(t, body))
		require.Contains(t, w.log.String(), says)
		status, _ = w.request(env.FunctionAPI, "/v1/sessions/s")
		require.Equal(t, http.StatusServiceUnavailable, status)
	}
	w := newWorld(t)
	status, _ := w.request(env.FunctionRead, "/readyz")
	require.Equal(t, http.StatusOK, status)
}

func TestTheKeyIsTheAdminsAndNobodyElses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	status, body := w.request(env.FunctionAPI, "/v1/me")
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `{"tenant":"default","actor":"admin","roles":[],"key":"admin","scopes":["sessions:read","sessions:write","approvals:decide","files","admin","act-as"]}`, body)
	for _, token := range []string{
		"", "pk_admin_", adminKey + "a", adminKey[:len(adminKey)-1], strings.ToUpper(adminKey), "pk_local_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", secretRoot, "Bearer " + adminKey,
	} {
		rec := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/me", nil)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w.gateway(env.FunctionAPI).ServeHTTP(rec, r)
		require.Equal(t, http.StatusUnauthorized, rec.Code, token)
	}
	require.NotContains(t, w.log.String(), "aaaaaaaa")
}

func TestAnUnknownModelIsRefusedWhereItIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.serve()
	_, err := c.CreateSession(t.Context(), map[string]any{"id": "s", "config": map[string]any{"model": map[string]any{"provider": "oracle", "model": "m"}}})
	require.ErrorContains(t, err, "none of this tenant's providers")
	_, err = c.CreateSession(t.Context(), map[string]any{"id": "s", "config": map[string]any{"model": map[string]any{"provider": "openai-compatible", "model": "m"}}})
	require.ErrorContains(t, err, "config.model.baseUrl is wanted, or OPENAI_BASE_URL")
}

// provider is a model's server that answers 404 to whatever it is asked.
func provider(t *testing.T) (url string, keys func() []string) {
	t.Helper()
	seen := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("Authorization")
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(rw, `{"error":{"message":"The model does not exist","type":"invalid_request_error","code":"model_not_found"}}`)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []string {
		var all []string
		for len(seen) > 0 {
			all = append(all, <-seen)
		}
		return all
	}
}

func TestAModelThatItsProviderDoesNotKnowFailsTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	url, keys := provider(t)
	w.variables[env.OpenAISecret], w.secrets["openai"] = "openai", "sk-very-secret\n"
	w.variables[env.OpenAIBaseURL], w.variables[env.OpenAIModel] = url, "gpt-none"
	w.variables[env.AWSEndpointURL] = "http://127.0.0.1:4566" // an emulator's
	c := w.serve()
	s, err := c.CreateSession(t.Context(), map[string]any{"id": "s"})
	require.NoError(t, err)
	require.Equal(t, "openai", s.Config.Model.Provider)
	_, err = c.StartRun(t.Context(), "s", say("go on"), 0)
	require.NoError(t, err)
	run := ended(t, c, "s", "run_1")
	require.Equal(t, "failed", run.Status)
	require.Contains(t, run.Failure.Message, "model does not exist")
	require.Equal(t, []string{"Bearer sk-very-secret"}, keys())
	require.NotContains(t, w.log.String(), "very-secret")
}

// TestNoSettingOpensWhatAFunctionsMachineKeeps asks for a model at a loopback
// address. On AWS that is the runtime's own.
func TestNoSettingOpensWhatAFunctionsMachineKeeps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	url, keys := provider(t)
	w.variables[env.AllowPrivate] = "1"
	c := w.serve()
	_, err := c.CreateSession(t.Context(), map[string]any{"id": "s", "config": map[string]any{
		"model": map[string]any{"provider": "openai-compatible", "model": "m", "baseUrl": url},
	}})
	require.NoError(t, err)
	_, err = c.StartRun(t.Context(), "s", say("go on"), 0)
	require.NoError(t, err)
	run := ended(t, c, "s", "run_1")
	require.Equal(t, "failed", run.Status)
	require.Contains(t, run.Failure.Message, "may not be reached")
	require.Empty(t, keys())
}

func TestAKeyThatCannotBeReadFailsTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.variables[env.OpenAISecret] = "openai"
	c := w.serve()
	_, err := c.CreateSession(t.Context(), map[string]any{"id": "s"})
	require.NoError(t, err)
	_, err = c.StartRun(t.Context(), "s", say("go on"), 0)
	require.NoError(t, err)
	run := ended(t, c, "s", "run_1")
	require.Equal(t, "failed", run.Status)
	require.Contains(t, run.Failure.Message, "cannot be read")
	require.Contains(t, w.log.String(), "the Secrets Manager entry that PERDURE_OPENAI_SECRET names is not there")
}

// TestAToolsSecretIsItsTenants: names lead nowhere but below the tenant.
func TestAToolsSecretIsItsTenants(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.variables[env.AWSEndpointURL] = "http://localhost:4566"
	w.secrets["perdure/p/default/hook"] = "right"
	w.secrets["hook"], w.secrets["perdure/p/hook"], w.secrets["perdure/p/other/hook"] = "wrong", "wrong", "wrong"
	signed := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		signed <- r.Header.Get("X-Perdure-Signature")
		_, _ = io.WriteString(rw, `{"result":"ok"}`)
	}))
	t.Cleanup(server.Close)
	c := w.serve()
	require.NoError(t, c.PutTool(t.Context(), "hook", map[string]any{
		"target": "http", "url": server.URL, "secret": "hook", "description": "H.", "kind": "read", "completion": "joined", "parameters": map[string]any{"type": "object"},
	}))
	require.Equal(t, "completed", once(t, w, c, `[{"calls":[{"tool":"hook","arguments":{}}]},{"text":"done"}]`, "hook"))
	require.Contains(t, <-signed, "v1=")
	require.NotContains(t, w.log.String(), "right")
}
