package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/adapter/memory"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/host"
)

// TestBadInput is the suite of what must be refused, on a session that is busy:
// whatever comes, its head does not move.
func TestBadInput(t *testing.T) { //nolint:tparallel // its cases share a session
	t.Parallel()
	w := setup(t)
	w.asking("s1", 2, m{})
	w.create("s2")
	w.call("POST", "/v1/sessions", m{"id": "theirs", "config": config()}, as(bob)).is(201, nil)
	w.call("POST", "/v1/sessions/s1/approvals/approval_1", m{"decision": "reject"}).is(200, nil)
	head, head2 := w.session("s1").Head, w.session("s2").Head

	big := `{"input":"` + strings.Repeat("x", 3<<20) + `"}`
	runs := "/v1/sessions/s1/runs"
	//nolint:paralleltest // the heads are looked at when all cases are through
	for name, c := range map[string]struct {
		method, path string
		body         any
		status       int
		code         string
	}{
		"no body":                    {"POST", runs, nil, 400, "invalid_request"},
		"empty body":                 {"POST", runs, "", 400, "invalid_request"},
		"half a body":                {"POST", runs, `{"input":"x`, 400, "invalid_request"},
		"two bodies":                 {"POST", runs, `{"input":"x"}{}`, 400, "invalid_request"},
		"an array":                   {"POST", runs, `[]`, 422, "validation_failed"},
		"null":                       {"POST", runs, `null`, 422, "validation_failed"},
		"a name twice":               {"POST", runs, `{"input":"x","input":"y"}`, 400, "invalid_request"},
		"a name twice by escape":     {"POST", runs, `{"input":"x","\u0069nput":"y"}`, 400, "invalid_request"},
		"a name in capitals":         {"POST", runs, `{"Input":"x"}`, 400, "invalid_request"},
		"a name in other letters":    {"POST", runs, "{\"input\":\"x\",\"\u017fubmissionId\":\"y\"}", 400, "invalid_request"},
		"a deep name in capitals":    {"POST", runs, `{"input":"x","config":{"limits":{"maxturns":1}}}`, 400, "invalid_request"},
		"a part's name in capitals":  {"POST", runs, `{"input":[{"type":"text","Text":"x"}]}`, 400, "invalid_request"},
		"an unknown field":           {"POST", runs, `{"input":"x","when":"now"}`, 422, "validation_failed"},
		"an unknown deep field":      {"POST", runs, `{"input":[{"type":"text","text":"x","size":1}]}`, 422, "validation_failed"},
		"a field that comes later":   {"POST", runs, `{"input":"x","notify":[]}`, 422, "validation_failed"},
		"a number for a text":        {"POST", runs, `{"input":"x","mode":7}`, 422, "validation_failed"},
		"null for a text":            {"POST", runs, `{"input":"x","mode":null}`, 422, "validation_failed"},
		"no such mode":               {"POST", runs, `{"input":"x","mode":"shout"}`, 422, "validation_failed"},
		"a fraction for a number":    {"POST", runs, `{"input":"x","config":{"limits":{"maxTurns":1.5}}}`, 422, "validation_failed"},
		"a number written otherwise": {"POST", runs, `{"input":"x","config":{"limits":{"maxTurns":1e2}}}`, 422, "validation_failed"},
		"a number too large":         {"POST", runs, `{"input":"x","config":{"limits":{"maxTurns":1e30}}}`, 422, "validation_failed"},
		"a number beyond numbers":    {"POST", runs, `{"input":"x","config":{"params":{"a":1e999}}}`, 400, "invalid_request"},
		"half a pair":                {"POST", runs, `{"input":"\ud83d"}`, 400, "invalid_request"},
		"the other half":             {"POST", runs, `{"input":"\ude00"}`, 400, "invalid_request"},
		"no UTF-8":                   {"POST", runs, "{\"input\":\"\xff\"}", 400, "invalid_request"},
		"a bare NUL":                 {"POST", runs, "{\"input\":\"\x00\"}", 400, "invalid_request"},
		"too deep":                   {"POST", runs, `{"input":"x","config":{"params":` + strings.Repeat(`{"a":`, 64) + `1` + strings.Repeat(`}`, 64) + `}}`, 400, "invalid_request"},
		"too large":                  {"POST", runs, big, 413, "too_large"},
		"too large and malformed":    {"POST", runs, big[:len(big)-2], 413, "too_large"},
		"an unknown parameter":       {"POST", runs + "?follow=1", `{"input":"x"}`, 400, "invalid_request"},
		"a parameter twice":          {"POST", runs + "?wait=1&wait=1", `{"input":"x"}`, 400, "invalid_request"},
		"a parameter in capitals":    {"POST", runs + "?Wait=1", `{"input":"x"}`, 400, "invalid_request"},
		"a query that is none":       {"GET", runs + "?limit=%zz", nil, 400, "invalid_request"},
		"a query with semicolons":    {"GET", runs + "?limit=1;status=failed", nil, 400, "invalid_request"},
		"a query that is no UTF-8":   {"GET", runs + "?status=%ff", nil, 400, "invalid_request"},
		"a negative wait":            {"POST", runs + "?wait=-1", `{"input":"x"}`, 400, "invalid_request"},
		"a session id of spaces":     {"GET", "/v1/sessions/%20", nil, 400, "invalid_request"},
		"a session id with a slash":  {"GET", "/v1/sessions/a%2Fb", nil, 400, "invalid_request"},
		"a session id with a NUL":    {"GET", "/v1/sessions/a%00", nil, 400, "invalid_request"},
		"a session id of dots":       {"GET", "/v1/sessions/%2e%2e", nil, 404, "not_found"},
		"a session id too long":      {"GET", "/v1/sessions/" + strings.Repeat("x", 129), nil, 400, "invalid_request"},
		"a body's id with a NUL":     {"POST", "/v1/sessions", `{"id":"a\u0000"}`, 422, "validation_failed"},
		"a body's id of letters":     {"POST", "/v1/sessions", `{"id":"ä"}`, 422, "validation_failed"},
		"a run id of words":          {"GET", runs + "/first", nil, 400, "invalid_request"},
		"a run id with a zero":       {"GET", runs + "/run_01", nil, 400, "invalid_request"},
		"a run id of nothing":        {"GET", runs + "/run_0", nil, 400, "invalid_request"},
		"an unknown run":             {"GET", runs + "/run_7", nil, 404, "not_found"},
		"an unknown session":         {"POST", "/v1/sessions/none/runs", `{"input":"x"}`, 404, "not_found"},
		"another tenant's session":   {"POST", "/v1/sessions/theirs/runs", `{"input":"x"}`, 404, "not_found"},
		"an empty text":              {"POST", runs, `{"input":""}`, 422, "validation_failed"},
		"a cursor of nowhere":        {"GET", runs + "?cursor=abc", nil, 400, "invalid_request"},
		"a cursor that is no base64": {"GET", runs + "?cursor=%21", nil, 400, "invalid_request"},
		"a stale revision":           {"PUT", "/v1/sessions/s2/config", config(), 409, "revision_conflict"},
		"a provider of nobody":       {"PUT", "/v1/sessions/s2/config", m{"model": m{"provider": "x", "model": "y"}}, 422, "validation_failed"},
		"no model":                   {"PUT", "/v1/sessions/s2/config", m{"tools": []string{}}, 422, "validation_failed"},
		"a model without a name":     {"PUT", "/v1/sessions/s2/config", m{"model": m{"provider": "test"}}, 422, "validation_failed"},
		"a url with a password":      {"PUT", "/v1/sessions/s2/config", m{"model": m{"provider": "test", "model": "m", "baseUrl": "http://a:b@c"}}, 422, "validation_failed"},
		"a tool of no name":          {"PUT", "/v1/sessions/s2/config", m{"model": m{"provider": "test", "model": "m"}, "tools": []any{m{"root": "x"}}}, 422, "validation_failed"},
		"a tool twice":               {"PUT", "/v1/sessions/s2/config", config("t.read", "t.read"), 422, "validation_failed"},
		"all tools":                  {"PUT", "/v1/sessions/s2/config", config("*"), 422, "validation_failed"},
		"a rule for no tool":         {"PUT", "/v1/sessions/s2/config", m{"model": m{"provider": "test", "model": "m"}, "approvals": m{"tools": m{"a b": m{}}}}, 422, "validation_failed"},
		"a second decision":          {"POST", "/v1/sessions/s1/approvals/approval_1", `{"decision":"approve"}`, 409, "already_decided"},
		"nothing there":              {"GET", "/v1/nothing", nil, 404, "not_found"},
		"nothing there by dots":      {"GET", "/v1/./sessions", nil, 404, "not_found"},
		"nothing there by slashes":   {"GET", "//v1/sessions", nil, 404, "not_found"},
		"an end too much":            {"GET", "/v1/sessions/", nil, 404, "not_found"},
		"a route of later":           {"GET", "/v1/sessions/s1/children", nil, 404, "not_found"},
		"a method of none":           {"PUT", runs, `{}`, 405, "invalid_request"},
		"OPTIONS":                    {"OPTIONS", runs, nil, 405, "invalid_request"},
	} {
		t.Run(name, func(t *testing.T) {
			opts := []option{}
			if strings.Contains(name, "stale") {
				opts = append(opts, header("If-Match", `"7"`))
			}
			rec := httptest.NewRecorder()
			w.ServeHTTP(rec, request(c.method, c.path, c.body, opts...))
			res := &response{t, rec}
			if c.status == http.StatusMethodNotAllowed {
				require.Equal(t, c.status, rec.Code)
				require.Equal(t, "GET, HEAD, POST", rec.Header().Get("Allow"))
				require.Equal(t, "application/problem+json", rec.Header().Get("Content-Type"))
				return
			}
			res.refused(c.status, c.code)
		})
	}
	require.Equal(t, head, w.session("s1").Head)
	require.Equal(t, head2, w.session("s2").Head)
}

func TestProblemsRepeatNothingOfTheBody(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1")
	for _, body := range []string{
		`{"hunter2":1}`, `{"input":"x","mode":"hunter2"}`, `{"input":"x","config":{"limits":{"maxTurns":"hunter2"}}}`, `{"input":"hunter2`, `{"input":"x","config":{"params":"hunter2"}}`,
		`{"input":"x","submissionId":"hunter2 "}`, `{"input":"x","config":{"limits":{"maxTurns":2121212e1}}}`, `{"input":"x","config":{"model":{"hunter2":1}}}`,
		`{"input":[{"type":"hunter2"}]}`,
	} {
		res := w.call("POST", "/v1/sessions/s1/runs", body)
		require.GreaterOrEqual(t, res.Code, 400)
		require.NotContains(t, res.Body.String(), "hunter2", body)
		require.NotContains(t, res.Body.String(), "2121212", body)
	}
	for _, body := range []string{`{"metadata":{"hunter2":1}}`, `{"metadata":{"a.hunter2":{}}}`} {
		res := w.call("PATCH", "/v1/sessions/s1", body)
		p := res.refused(422, "validation_failed")
		require.NotContains(t, res.Body.String(), "hunter2", body)
		require.Equal(t, "body.metadata.*", p.Errors[0].Location)
	}
	c := config()
	c["approvals"] = m{"tools": m{"hunter2": m{"role": 7}}}
	res := w.call("PUT", "/v1/sessions/s1/config", c)
	require.Equal(t, "body.approvals.tools.*", res.refused(422, "validation_failed").Errors[0].Location)
	require.NotContains(t, res.Body.String(), "hunter2")
}

func TestWhatAFieldErrorSays(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1")
	p := w.call("POST", "/v1/sessions/s1/runs", `{"input":"x","config":{"limits":{"maxTurns":"many"}}}`).refused(422, "validation_failed")
	require.Equal(t, []api.FieldError{{Location: "body.config.limits.maxTurns", Message: "expected integer"}}, p.Errors)
	p = w.call("POST", "/v1/sessions/s1/runs", `{"input":"x","wait":1}`).refused(422, "validation_failed")
	require.Equal(t, "body", p.Errors[0].Location)
	require.Contains(t, p.Errors[0].Message, "config, input, mode, submissionId")
	p = w.call("POST", "/v1/sessions/s1/runs", `{"INPUT":"x"}`).refused(400, "invalid_request")
	require.Contains(t, p.Errors[0].Message, "input")
}

func TestTextsMayHoldNUL(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1")
	var run api.Run
	w.call("POST", "/v1/sessions/s1/runs", `{"input":"a\u0000b"}`).is(202, &run)
	require.Equal(t, "a\x00b", run.Input[0].Text.Text)
}

func TestTheMediaOfABody(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1")
	send := func(opts ...option) *response {
		return w.call("POST", "/v1/sessions/s1/runs", `{"input":"x"}`, opts...)
	}
	for _, media := range []string{"text/plain", "application/x-www-form-urlencoded", "", "application/json; charset=latin1", "application/json, text/plain", "application/problem+json"} {
		send(header("Content-Type", media)).refused(400, "invalid_request")
	}
	send(header("Content-Encoding", "gzip")).refused(400, "invalid_request")
	send(header("Content-Type", "Application/JSON; charset=UTF-8")).is(202, nil)
	send(header("Accept", "text/html")).is(202, nil)
}

func TestTheSizeOfABodyIsKnownBeforeItIsRead(t *testing.T) {
	t.Parallel()
	w := setup(t, func(d *api.Deps, _ *memory.Options) { d.Guard = api.Guard{} })
	w.create("s1")
	srv := httptest.NewServer(w)
	t.Cleanup(srv.Close)
	client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: patience}}
	t.Cleanup(client.CloseIdleConnections)
	send := func(body io.Reader, length int64) *http.Response {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, srv.URL+"/v1/sessions/s1/runs", body)
		require.NoError(t, err)
		r.ContentLength = length
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+ann)
		r.Header.Set("Expect", "100-continue")
		res, err := client.Do(r)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, res.Body.Close()) })
		return res
	}
	chunked := io.MultiReader(strings.NewReader(`{"input":"`), strings.NewReader(strings.Repeat("x", 3<<20)), strings.NewReader(`"}`))
	require.Equal(t, 413, send(chunked, -1).StatusCode)
	// Nobody reads what is announced as too large.
	never := readerFunc(func([]byte) (int, error) { return 0, errors.New("it was read") })
	require.Equal(t, 413, send(never, 3<<20).StatusCode)
	fits := `{"input":"` + strings.Repeat("x", api.BodyMax-len(`{"input":""}`)) + `"}`
	require.Equal(t, 202, send(strings.NewReader(fits), int64(len(fits))).StatusCode)
	require.Equal(t, 413, send(strings.NewReader(fits+" "), int64(len(fits)+1)).StatusCode)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

func TestAPanicIsSaidToTheLogAlone(t *testing.T) {
	t.Parallel()
	w := setup(t, func(d *api.Deps, _ *memory.Options) {
		d.Ready = func(context.Context) error { panic("hunter2 is the password") }
	})
	res := w.call("GET", "/readyz", nil)
	p := res.refused(500, "internal")
	require.Empty(t, p.Detail)
	require.NotContains(t, res.Body.String(), "hunter2")
	require.NotContains(t, w.log.String(), "hunter2", "what panics may hold a session's text")
	require.Contains(t, w.log.String(), "string")
	require.Contains(t, w.log.String(), "front_test.go")
}

func TestWhatNobodyExpectedIsSaidToTheLogAlone(t *testing.T) {
	t.Parallel()
	w := setup(t, func(d *api.Deps, _ *memory.Options) { d.Tools = faulty{} })
	res := w.call("GET", "/v1/tools/a.one", nil)
	p := res.refused(500, "internal")
	require.Empty(t, p.Detail)
	require.Contains(t, w.log.String(), "hunter2")
	w.call("GET", "/v1/tools", nil).refused(503, "unavailable")
}

// faulty is a store that is out of order.
type faulty struct{ api.ToolStore }

func (faulty) Tool(context.Context, ident.TenantID, string) (api.Tool, error) {
	return api.Tool{}, errors.New("hunter2")
}

func (faulty) Tools(context.Context, ident.TenantID, string, int) ([]api.Tool, error) {
	return nil, host.ErrUnavailable
}

func TestARestingServerAnswersSo(t *testing.T) {
	t.Parallel()
	w := setup(t, func(d *api.Deps, _ *memory.Options) {
		d.Ready = func(context.Context) error { return errors.New("not yet") }
	})
	w.create("s1")
	w.call("GET", "/readyz", nil).refused(503, "unavailable")
	w.call("GET", "/healthz", nil).is(200, nil)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(t, w.engine.Stop(ctx))
	res := w.call("POST", "/v1/sessions/s1/runs", m{"input": "x"})
	res.refused(503, "unavailable")
	require.Equal(t, "1", res.Header().Get("Retry-After"))
}

func TestTheOpenAPIDocument(t *testing.T) {
	t.Parallel()
	w := setup(t)
	res := w.call("GET", "/v1/openapi.json", nil, func(r *http.Request) { r.Header.Del("Authorization") })
	require.Equal(t, 200, res.Code)
	require.Equal(t, "application/json", res.Header().Get("Content-Type"))
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			OperationID string
			Responses   map[string]any
			Security    []map[string][]string
			Parameters  []struct{ Schema m }
		}
		Components struct{ Schemas, Parameters map[string]m }
	}
	require.NoError(t, json.Unmarshal(res.Body.Bytes(), &doc))
	require.Regexp(t, `^3\.1\.\d+$`, doc.OpenAPI)
	var got []string
	ids := map[string]bool{}
	for path, ops := range doc.Paths {
		for method, op := range ops {
			got = append(got, strings.ToUpper(method)+" "+path)
			require.False(t, ids[op.OperationID], op.OperationID)
			ids[op.OperationID] = true
			require.NotEmpty(t, op.Responses)
		}
	}
	require.ElementsMatch(t, built, got)
	require.Contains(t, doc.Components.Schemas, "Problem")
	require.NotContains(t, doc.Components.Schemas["Run"], "additionalProperties")
	require.Contains(t, doc.Components.Schemas["RequestRun"], "additionalProperties")
	for _, name := range []string{"IdempotencyKey", "Actor", "Roles"} {
		require.Contains(t, doc.Components.Parameters, name)
	}
	require.Equal(t, `^run_[1-9][0-9]*$`, doc.Paths["/v1/sessions/{id}/runs/{run}"]["get"].Parameters[1].Schema["pattern"])
	// Every reference leads somewhere.
	for _, ref := range bytes.Split(res.Body.Bytes(), []byte(`"$ref":"#/components/schemas/`))[1:] {
		name, _, _ := bytes.Cut(ref, []byte(`"`))
		require.Contains(t, doc.Components.Schemas, string(name))
	}
}

// built is every route that this build has, and the document lists.
var built = []string{
	"GET /", "GET /healthz", "GET /readyz", "GET /v1/openapi.json", "GET /v1/me",
	"POST /v1/sessions", "GET /v1/sessions", "GET /v1/sessions/{id}", "PATCH /v1/sessions/{id}", "DELETE /v1/sessions/{id}",
	"PUT /v1/sessions/{id}/config", "POST /v1/sessions/{id}/close", "POST /v1/sessions/{id}/release", "POST /v1/sessions/{id}/compact",
	"GET /v1/sessions/{id}/context", "PATCH /v1/sessions/{id}/context", "GET /v1/sessions/{id}/log", "GET /v1/sessions/{id}/events",
	"GET /v1/sessions/{id}/stream", "POST /v1/sessions/{id}/stream-tickets",
	"POST /v1/sessions/{id}/runs", "GET /v1/sessions/{id}/runs", "GET /v1/sessions/{id}/runs/{run}", "GET /v1/sessions/{id}/runs/{run}/calls",
	"POST /v1/sessions/{id}/runs/{run}/cancel", "POST /v1/sessions/{id}/runs/{run}/steer", "POST /v1/sessions/{id}/runs/{run}/approvals",
	"POST /v1/sessions/{id}/runs/{run}/answers", "POST /v1/sessions/{id}/approvals/{approvalId}", "DELETE /v1/sessions/{id}/remembered/{tool}",
	"GET /v1/approvals", "GET /v1/questions", "POST /v1/promises/{token}", "GET /v1/promises/{token}/input",
	"GET /v1/sessions/{id}/promises", "POST /v1/sessions/{id}/promises/{promise}",
	"GET /v1/tools", "GET /v1/tools/{name}", "PUT /v1/tools/{name}", "DELETE /v1/tools/{name}",
}
