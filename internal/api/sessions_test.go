package api_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/scripted"
	"github.com/perdure/perdure/internal/api"
)

func TestASessionRunsFromItsFirstRequest(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.model.For("s1", scripted.Step{Text: "hello Ada"})
	var s api.Session
	w.call("POST", "/v1/sessions", m{"id": "s1", "config": config(), "input": "hello", "submissionId": "first", "metadata": m{"team": "a"}, "name": "greeting", "deleteAfterCloseDays": 7}).is(201, &s)
	require.Equal(t, "s1", s.ID)
	require.Equal(t, "greeting", s.Title)
	require.Equal(t, map[string]string{"team": "a"}, s.Metadata)
	require.Equal(t, int64(1), s.ConfigRevision)
	require.Equal(t, []api.Workspace{{Name: "~", Access: "write"}}, s.Workspaces)
	require.NotContains(t, w.call("GET", "/v1/sessions/s1", nil).Body.String(), "null")

	var run api.Run
	w.call("GET", "/v1/sessions/s1/runs/run_1?wait=20", nil).is(200, &run)
	require.Equal(t, "completed", run.Status)
	require.Equal(t, &api.Output{Text: "hello Ada"}, run.Output)
	require.Equal(t, "first", run.SubmissionID)
	require.Equal(t, "ann", run.RequestedBy)
	require.Equal(t, "key", run.Via)
	require.True(t, run.Usage.Complete)
	require.Equal(t, []api.Part{{Type: "text", Text: api.Text{Text: "hello"}}}, run.Input)
	require.NotZero(t, run.CompletedAt)

	var again api.Session
	w.call("POST", "/v1/sessions", m{"id": "s1", "config": config("t.read"), "input": "hello"}).is(200, &again)
	require.Empty(t, again.Config.Tools)
	require.Equal(t, int64(1), again.Usage.Runs)
	require.Empty(t, w.model.Violations())
}

func TestTheServerMakesAnIDAndADefaultConfig(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var s api.Session
	w.call("POST", "/v1/sessions", nil).is(201, &s)
	require.Regexp(t, `^ses_[a-z0-9]{26}$`, s.ID)
	require.Equal(t, "default", s.Config.Model.Model)
	w.call("POST", "/v1/sessions", m{"config": m{"tools": []string{"t.read"}}}).is(201, &s)
	require.Equal(t, "default", s.Config.Model.Model)
	require.Equal(t, []api.ToolGrant{{Name: "t.read"}}, s.Config.Tools)
}

func TestAConfigComesBackAsItWasWritten(t *testing.T) {
	t.Parallel()
	w := setup(t)
	doc := `{"model":{"provider":"test","model":"m","baseUrl":"http://127.0.0.1:1/v1","params":{"max_tokens":100,"temperature":0.10,"stop":["<b>"]}},
		"instructions":"be brief","tools":["files.*",{"name":"t.read","root":"/x", "n": 1.50}],"workspaces":[{"name":"~","access":"write"},{"name":"docs","access":"read"}],
		"limits":{"maxTurns":7,"maxToolRounds":3,"maxTokens":1000,"maxSeconds":60,"maxRepeats":0},
		"context":{"window":{"maxMessages":10,"keep":4},"compaction":{"mode":"manual","atTokens":500}},
		"approvals":{"default":"never","tools":{"t.*":{"require":true,"role":"lead","ttlSeconds":60,"remember":true},"b":{"require":false},"a":{}}},
		"intake":{"when":"session","items":[{"id":"q","prompt":"Which?","options":[{"value":"1","label":"one"}],"multiple":true,"freeText":true,"defaults":["1"]}],"ttlSeconds":5}}`
	var s api.Session
	w.call("POST", "/v1/sessions", `{"id":"s1","config":`+doc+`}`).is(201, &s)
	body, err := json.Marshal(s.Config)
	require.NoError(t, err)
	require.JSONEq(t, doc, string(body))
	require.Contains(t, string(body), `"params":{"max_tokens":100,"temperature":0.10,`)
	require.Contains(t, string(body), `{"name":"t.read","root":"/x","n":1.50}`)

	// What was read can be written back, and that changes nothing.
	got := w.call("GET", "/v1/sessions/s1", nil)
	var raw struct{ Config json.RawMessage }
	got.is(200, &raw)
	w.call("PUT", "/v1/sessions/s1/config", string(raw.Config)).is(200, &s)
	require.Equal(t, int64(1), s.ConfigRevision)
	var pretty strings.Builder
	enc := json.NewEncoder(&pretty)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "\t")
	require.NoError(t, enc.Encode(raw.Config))
	w.call("PUT", "/v1/sessions/s1/config", pretty.String(), header("If-Match", `"1"`)).is(200, &s)
	require.Equal(t, int64(1), s.ConfigRevision)

	w.call("PUT", "/v1/sessions/s1/config", config("t.read"), header("If-Match", `"1"`)).is(200, &s)
	require.Equal(t, int64(2), s.ConfigRevision)
	require.Equal(t, int64(3), *s.Config.Limits.MaxRepeats)
	p := w.call("PUT", "/v1/sessions/s1/config", config(), header("If-Match", `"1"`)).refused(409, "revision_conflict")
	require.Equal(t, "1", string(p.Expected))
	require.Equal(t, "2", string(p.Actual))
}

func TestTheConfigOfABusySession(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1", "t.read")
	_, open := w.busy("s1")
	w.call("PUT", "/v1/sessions/s1/config", config("t.read")).is(200, nil)
	w.call("PUT", "/v1/sessions/s1/config", config()).refused(409, "session_busy")
	w.call("POST", "/v1/sessions/s1/close", nil).refused(409, "session_busy")
	require.Equal(t, "running", w.session("s1").Activity)
	open()
}

func TestPatchingWhatListsShow(t *testing.T) {
	t.Parallel()
	w := setup(t)
	before := w.create("s1")
	var s api.Session
	w.call("PATCH", "/v1/sessions/s1", m{"name": "one", "metadata": m{"a": "1", "b": "2"}, "deleteAfterCloseDays": 3}).is(200, &s)
	require.Equal(t, "one", s.Title)
	w.call("PATCH", "/v1/sessions/s1", m{"metadata": m{"a": nil, "c": "3"}}).is(200, &s)
	require.Equal(t, map[string]string{"b": "2", "c": "3"}, s.Metadata)
	require.Equal(t, "one", s.Name)
	require.Equal(t, int64(3), *s.DeleteAfterCloseDays)
	w.call("PATCH", "/v1/sessions/s1", m{"name": nil, "deleteAfterCloseDays": nil}).is(200, &s)
	require.Empty(t, s.Name)
	require.Nil(t, s.DeleteAfterCloseDays)
	require.Equal(t, before.UpdatedAt, s.UpdatedAt)
	require.Equal(t, before.Head, s.Head)

	many := m{}
	for i := range 33 {
		many["k"+strconv.Itoa(i)] = "v"
	}
	p := w.call("PATCH", "/v1/sessions/s1", m{"metadata": many}).refused(409, "limit_reached")
	require.Equal(t, "32", string(p.Max))
	for _, bad := range []m{
		{"metadata": m{"": "v"}},
		{"metadata": m{strings.Repeat("k", 65): "v"}},
		{"metadata": m{"k": strings.Repeat("v", 257)}},
		{"metadata": m{"k": "a\nb"}},
		{"metadata": m{"k\x00": "v"}},
		{"metadata": m{"k": 1}},
		{"metadata": nil},
		{"name": strings.Repeat("n", 201)},
		{"name": "a\tb"},
		{"deleteAfterCloseDays": -1},
		{"deleteAfterCloseDays": 36501},
		{"deleteAfterCloseDays": 1.5},
		{"status": "closed"},
	} {
		w.call("PATCH", "/v1/sessions/s1", bad).refused(422, "validation_failed")
	}
	require.Equal(t, map[string]string{"b": "2", "c": "3"}, w.session("s1").Metadata)
}

func TestTheTitleIsCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	w := setup(t)
	family := "👨‍👩‍👧‍👦" // seven code points, one character
	w.create("s1")
	w.run("s1", "  tell\nme "+strings.Repeat("x", 48)+family+family)
	require.Equal(t, "tell me "+strings.Repeat("x", 48), w.session("s1").Title)
	w.create("s2")
	w.run("s2", "short")
	require.Equal(t, "short", w.session("s2").Title)
	w.create("s3")
	require.Empty(t, w.session("s3").Title)
	w.run("s3", "Long "+strings.Repeat("ä", 5000))
	require.Equal(t, "Long "+strings.Repeat("ä", 55), w.session("s3").Title)
	var list api.Page[api.SessionSummary]
	w.call("GET", "/v1/sessions?q=s3", nil).is(200, &list)
	require.Equal(t, "Long "+strings.Repeat("ä", 55), list.Items[0].Title)
}

func TestClosingAndDeleting(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1")
	w.run("s1", "hello")
	w.call("DELETE", "/v1/sessions/s1", nil).refused(409, "session_open")
	var s api.Session
	w.call("POST", "/v1/sessions/s1/close", nil).is(200, &s)
	require.Equal(t, "closed", s.Status)
	require.NotZero(t, s.ClosedAt)
	w.call("POST", "/v1/sessions/s1/close", m{}).refused(409, "session_closed")
	w.call("POST", "/v1/sessions/s1/close", m{"force": true}).is(200, nil)
	w.call("POST", "/v1/sessions/s1/runs", m{"input": "more"}).refused(409, "session_closed")
	w.call("GET", "/v1/sessions/s1/events", nil).is(200, nil)
	w.call("DELETE", "/v1/sessions/s1?cascade=true", nil).is(204, nil)
	for _, path := range []string{"", "/events", "/runs", "/runs/run_1", "/context", "/promises", "/log"} {
		w.call("GET", "/v1/sessions/s1"+path, nil).refused(404, "not_found")
	}
	w.call("DELETE", "/v1/sessions/s1", nil).refused(404, "not_found")
	w.create("s1")
	require.Equal(t, int64(0), w.session("s1").Usage.Runs)
}

func TestListsOfSessions(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i := range 5 {
		id := "s" + strconv.Itoa(i)
		w.create(id)
		w.call("PATCH", "/v1/sessions/"+id, m{"name": "Nummer " + id, "metadata": m{"even": strconv.FormatBool(i%2 == 0)}}).is(200, nil)
	}
	w.call("POST", "/v1/sessions/s4/close", nil).is(200, nil)
	w.call("POST", "/v1/sessions", m{"id": "other", "config": config()}, as(bob)).is(201, nil)

	ids := func(query string) []string {
		var out []string
		for next := ""; ; {
			var page api.Page[api.SessionSummary]
			path := "/v1/sessions?" + query
			if next != "" {
				path += "&cursor=" + next
			}
			w.call("GET", path, nil).is(200, &page)
			for _, s := range page.Items {
				out = append(out, s.ID)
			}
			if next = page.Next; next == "" {
				return out
			}
		}
	}
	require.ElementsMatch(t, []string{"s0", "s1", "s2", "s3"}, ids("limit=2"))
	require.ElementsMatch(t, []string{"s0", "s1", "s2", "s3"}, ids("limit=1"))
	require.ElementsMatch(t, []string{"s4"}, ids("status=closed"))
	require.Len(t, ids("status=all&limit=3"), 5)
	require.ElementsMatch(t, []string{"s0", "s2"}, ids("metadata.even=true&limit=1"))
	require.Len(t, ids("metadata.even="), 4)
	require.Empty(t, ids("metadata.odd="))
	require.ElementsMatch(t, []string{"s3"}, ids("q=nummer%20S3"))
	require.Len(t, ids("activity=idle"), 4)
	require.Empty(t, ids("activity=running"))
	require.Empty(t, ids("parent=s1"))
	require.Equal(t, []string{"s1"}, ids("root=s1"))
	w.call("GET", "/v1/sessions?limit=201", nil).refused(400, "invalid_request")
	w.call("GET", "/v1/sessions?limit=0", nil).refused(400, "invalid_request")
	w.call("GET", "/v1/sessions?status=odd", nil).refused(400, "invalid_request")
}

func TestFaultsOfTheStoreAreSaidAsSuch(t *testing.T) {
	t.Parallel()
	w := setup(t, failing("log.commit"))
	full := w.call("POST", "/v1/sessions", m{"id": "full", "config": config()})
	p := full.refused(503, "unavailable")
	require.Contains(t, p.Detail, "disk is full")
	require.Equal(t, "1", full.Header().Get("Retry-After"))
	require.Equal(t, 1, p.RetryAfterSeconds)
	require.Equal(t, http.StatusServiceUnavailable, p.Status)
	w.call("GET", "/v1/sessions/full", nil).refused(404, "not_found")
}
