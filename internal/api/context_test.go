package api_test

import (
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/scripted"
	"github.com/perdure/perdure/internal/api"
)

func TestReadingAndEditingTheContext(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1", "t.*")
	w.model.For("s1", scripted.Step{Calls: []scripted.Call{call("t.read", `{"x":"1"}`)}}, scripted.Step{Text: "answer"}, scripted.Step{Text: "again"})
	w.run("s1", "question")
	var c api.Context
	w.call("GET", "/v1/sessions/s1/context", nil).is(200, &c)
	roles := []string{}
	for _, e := range c.Entries {
		roles = append(roles, e.Role)
	}
	require.Equal(t, []string{"user", "assistant", "results", "assistant"}, roles)
	require.Equal(t, "call_1_1", c.Entries[1].Calls[0].ID)
	require.Equal(t, "call_1_1", c.Entries[2].Results[0].ID)
	require.Equal(t, "idle", c.Compaction)
	require.Equal(t, len(c.Entries), w.session("s1").Context.Entries)

	var out api.ContextPatched
	edit := m{
		"put":     []m{{"key": "instructions.style", "role": "instructions", "input": "be brief"}, {"key": "fact", "role": "user", "input": strings.Repeat("f", 10<<10)}, {"key": "run.x", "role": "user", "input": "x"}},
		"remove":  []string{"nothing"},
		"replace": []m{{"entry": c.Entries[0].ID, "text": "another question"}, {"entry": c.Entries[3].ID, "text": nil}, {"entry": "entry_99", "text": "x"}},
	}
	w.call("PATCH", "/v1/sessions/s1/context", edit, header("If-Match", `"99"`)).refused(409, "revision_conflict")
	w.call("PATCH", "/v1/sessions/s1/context", edit, header("If-Match", `one`)).refused(400, "invalid_request")
	w.call("PATCH", "/v1/sessions/s1/context", edit, header("If-Match", `"`+strconv.FormatInt(c.Revision, 10)+`"`)).is(200, &out)
	got := []string{}
	for _, r := range out.Results {
		got = append(got, r.Key+r.Entry+" "+r.Status+" "+r.Code)
	}
	require.Equal(t, []string{
		"instructions.style applied ", "fact applied ", "run.x failed forbidden", "nothing absent ",
		c.Entries[0].ID + " applied ", c.Entries[3].ID + " applied ", "entry_99 absent ",
	}, got)
	require.Equal(t, c.Revision+1, out.Revision)
	w.call("GET", "/v1/sessions/s1/context", nil).is(200, &c)
	require.Equal(t, "instructions", c.Entries[0].Role)
	require.Equal(t, "another question", c.Entries[1].Parts[0].Text.Text)
	require.True(t, c.Entries[4].Redacted)

	w.call("PATCH", "/v1/sessions/s1/context", m{"replace": []m{{"entry": "one", "text": "x"}}}).refused(422, "validation_failed")
	w.call("PATCH", "/v1/sessions/s1/context", m{"replace": []m{{"entry": "entry_1"}}}).refused(422, "validation_failed")
	w.call("PATCH", "/v1/sessions/s1/context", m{"put": []m{{"key": "k", "role": "system", "input": "x"}}}).refused(422, "validation_failed")
	w.call("PATCH", "/v1/sessions/s1/context", m{}).is(200, &out)
	require.Empty(t, out.Results)
}

func TestAskingForASummary(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1")
	var c api.ContextSummary
	w.call("POST", "/v1/sessions/s1/compact", nil).is(202, &c)
	require.Equal(t, "idle", c.Compaction) // there is nothing to sum up
	w.busy("s1")
	w.call("POST", "/v1/sessions/s1/compact", m{}).is(202, &c)
	require.Equal(t, "pending", c.Compaction)
	w.call("PATCH", "/v1/sessions/s1/context", m{"put": []m{{"key": "k", "role": "user", "input": "x"}}}).refused(409, "session_busy")
	w.call("POST", "/v1/sessions/s1/compact", m{"now": true}).refused(422, "validation_failed")
	head := w.session("s1").Head
	w.call("POST", "/v1/sessions/s1/release", nil).is(200, nil)
	require.Equal(t, head, w.session("s1").Head)
}

func TestOutsideTools(t *testing.T) {
	t.Parallel()
	w := setup(t)
	def := m{
		"target": "http", "url": "https://example.com/t", "description": "does", "parameters": m{"type": "object"}, "kind": "action",
		"retrySafe": true, "parallel": false, "completion": "joined", "timeoutSeconds": 60, "requiresRole": "lead", "secret": "TOOL_SECRET",
	}
	var tool api.Tool
	w.call("PUT", "/v1/tools/a.one", def).is(201, &tool)
	require.Equal(t, "a.one", tool.Name)
	w.call("PUT", "/v1/tools/a.one", def).is(200, &tool)
	w.call("PUT", "/v1/tools/b.two", def).is(201, &tool)
	w.call("GET", "/v1/tools/a.one", nil).is(200, &tool)
	require.Equal(t, "TOOL_SECRET", tool.Secret)
	require.JSONEq(t, `{"type":"object"}`, string(tool.Parameters))
	w.call("GET", "/v1/tools/a.one", nil, as(bob)).refused(404, "not_found")
	w.call("GET", "/v1/tools/a.one", nil, as(reader)).refused(403, "forbidden")
	var page api.Page[api.Tool]
	w.call("GET", "/v1/tools?limit=1", nil).is(200, &page)
	require.Equal(t, "a.one", page.Items[0].Name)
	w.call("GET", "/v1/tools?limit=1&cursor="+page.Next, nil).is(200, &page)
	require.Equal(t, "b.two", page.Items[0].Name)
	require.Empty(t, page.Next)
	def["url"] = "ftp://x"
	w.call("PUT", "/v1/tools/c.three", def).refused(422, "validation_failed")
	def["target"] = "grpc"
	w.call("PUT", "/v1/tools/c.three", def).refused(422, "validation_failed")
	for i, by := range []m{{"target": "lambda", "function": "crm:live"}, {"target": "queue"}, {"target": "queue", "queue": "https://sqs.example/123456789012/q"}} {
		other := maps.Clone(def)
		delete(other, "url")
		maps.Copy(other, by)
		w.call("PUT", "/v1/tools/c.three", other).is([]int{201, 200, 200}[i], &tool)
		require.Equal(t, by["target"], tool.Target)
		require.Empty(t, tool.URL)
	}
	require.Equal(t, "https://sqs.example/123456789012/q", tool.Queue)
	w.call("DELETE", "/v1/tools/c.three", nil).is(204, nil)
	def["target"] = "http"
	w.call("PUT", "/v1/tools/c%2Fthree", def).refused(400, "invalid_request")
	w.call("DELETE", "/v1/tools/a.one", nil, as(bob)).refused(404, "not_found")
	w.call("DELETE", "/v1/tools/a.one", nil).is(204, nil)
	w.call("DELETE", "/v1/tools/a.one", nil).refused(404, "not_found")
}
