package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/api"
)

// shapes are what the contract says of each object: the fields that are always
// there, those that may be, and after the bar those that this build adds.
var shapes = map[string]string{
	"Session": `id title status activity createdAt updatedAt metadata config configRevision head queuedRuns remembered workspaces context streamUrl usage
		? name closedAt activeRun deleteAfterCloseDays deleteAt quarantine |`,
	"Session.context": `revision entries compaction ? tokens |`,
	"Session.usage":   `inputTokens outputTokens runs modelCalls toolCalls ? costUsd |`,
	"Run": `id sessionId status input acceptedAt waitingOn approvals questions steering requestedBy via usage
		? output failure submissionId startedAt completedAt cancelledBy | mode steeringId`,
	"Run.usage":   `inputTokens outputTokens cacheReadTokens cacheWriteTokens modelCalls toolCalls complete ? costUsd contextTokens durationMs |`,
	"Run.output":  `text ? ref |`,
	"Run.failure": `kind message ? limit value used |`,
	"Steering":    `id text status ? turn run |`,
	"WaitingOn":   `kind id since ? until |`,
	"ToolCall": `id runId turn tool kind arguments status effects
		? editedArguments result error approvalId promiseId childSession startedAt completedAt durationMs outputBytes truncated | attempts questionId`,
	"Approval": `id sessionId runId callId tool kind arguments status requestedAt
		? expiresAt role decidedAt decidedBy decidedVia via note editedArguments | remember`,
	"Question": `id sessionId runId source items status requestedAt ? callId expiresAt answers defaulted answeredBy via | answeredAt`,
	"Config":   `model tools limits context approvals ? instructions workspaces intake |`,
	"Event":    `seq at kind data ? run turn call |`,
	"Events":   `events next head complete |`,
	"Context":  `revision entries compaction ? tokens |`,
}

// shaped holds an object against its shape.
func shaped(t *testing.T, name string, v any) map[string]any {
	t.Helper()
	o, ok := v.(map[string]any)
	require.True(t, ok, "%s is no object: %v", name, v)
	said, added, _ := strings.Cut(shapes[name], "|")
	always, sometimes, _ := strings.Cut(said, "?")
	for field := range strings.FieldsSeq(always) {
		require.Contains(t, o, field, "%s", name)
	}
	all := slices.Concat(strings.Fields(always), strings.Fields(sometimes), strings.Fields(added))
	for field := range o {
		require.Contains(t, all, field, "%s", name)
	}
	return o
}

// each calls for every element of a list.
func each(t *testing.T, list any, f func(any)) {
	t.Helper()
	items, ok := list.([]any)
	require.True(t, ok, "no list: %v", list)
	for _, item := range items {
		f(item)
	}
}

func shapedRun(t *testing.T, v any) map[string]any {
	t.Helper()
	r := shaped(t, "Run", v)
	shaped(t, "Run.usage", r["usage"])
	if r["output"] != nil {
		shaped(t, "Run.output", r["output"])
	}
	if r["failure"] != nil {
		shaped(t, "Run.failure", r["failure"])
	}
	each(t, r["approvals"], func(v any) { shaped(t, "Approval", v) })
	each(t, r["questions"], func(v any) { shaped(t, "Question", v) })
	each(t, r["steering"], func(v any) { shaped(t, "Steering", v) })
	each(t, r["waitingOn"], func(v any) { shaped(t, "WaitingOn", v) })
	return r
}

// Every object has the fields that the contract names, and the ids that it
// says.
func TestShapes(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"files.*", "ask"}, object{
		"instructions": "Be brief.", "workspaces": []object{{"name": "~", "access": "write"}}, "limits": object{"maxSeconds": 600, "maxTokens": 100000},
		"approvals": object{"default": "action", "tools": object{"files.write": object{"ttlSeconds": 600, "remember": true}}},
		"intake":    object{"when": "session", "items": []object{{"id": "q", "prompt": "Q?", "defaults": []string{"x"}, "freeText": true}}},
		"context":   object{"window": object{"maxMessages": 100}, "compaction": object{"mode": "manual"}},
	}))
	value := func(path string) any { return read[any](w.get(path).is(200)) }
	s := shaped(t, "Session", value(""))
	shaped(t, "Config", s["config"])
	shaped(t, "Session.context", s["context"])
	shaped(t, "Session.usage", s["usage"])

	w.model.Enqueue(
		openaitest.Calls(call("a", "files.write", object{"path": "a", "content": "A"}), call("b", "files.list", object{})),
		openaitest.Text("Done.", 1),
	)
	run := w.run("Go.", object{"submissionId": "go"})
	_, on := w.waits(run.ID, "question")
	require.Regexp(t, `^question_\d+$`, on.ID)
	shapedRun(t, value("/runs/run_1"))
	w.post("/runs/run_1/answers", object{"questionId": on.ID, "answers": object{"q": []string{"y"}}}).is(200)
	_, on = w.waits(run.ID, "approval")
	require.Regexp(t, `^approval_\d+$`, on.ID)
	w.post("/runs/run_1/steer", object{"input": "Faster."}).is(202)
	shapedRun(t, shaped(t, "Session", value(""))["activeRun"])
	todo := read[map[string]any](w.ask("GET", "/v1/approvals", nil).is(200))
	each(t, todo["items"], func(v any) { shaped(t, "Approval", v) })
	w.post("/approvals/"+on.ID, object{"decision": "approve", "note": "fine", "arguments": object{"path": "b", "content": "B"}}).is(200)
	w.ends(run.ID, "completed")

	ended := shapedRun(t, value("/runs/run_1"))
	for _, field := range []string{"output", "submissionId", "startedAt", "completedAt"} {
		require.Contains(t, ended, field)
	}
	require.Equal(t, "run_1", ended["id"])
	decided := ended["approvals"].([]any)[0].(map[string]any)
	for _, field := range []string{"expiresAt", "decidedAt", "decidedBy", "decidedVia", "via", "note", "editedArguments"} {
		require.Contains(t, decided, field)
	}
	answered := ended["questions"].([]any)[0].(map[string]any)
	for _, field := range []string{"answers", "answeredBy", "via"} {
		require.Contains(t, answered, field)
	}
	each(t, value("/runs/run_1/calls").(map[string]any)["items"], func(v any) {
		c := shaped(t, "ToolCall", v)
		require.Regexp(t, `^call_\d+_\d+$`, c["id"])
		require.Regexp(t, `^turn_\d+$`, c["turn"])
		require.Contains(t, c, "startedAt")
	})
	page := shaped(t, "Events", value("/events"))
	each(t, page["events"], func(v any) { shaped(t, "Event", v) })
	shaped(t, "Context", value("/context"))
	require.NotContains(t, shaped(t, "Session", value("")), "activeRun")
}

// The file tools and the session's own take the arguments that the contract
// names, and no others.
func TestArgumentsOfTheBuiltInTools(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"files.*", "sleep", "await", "detach", "cancel", "ask"}))
	w.talk(1)
	want := map[string]string{
		"files_list": "path?", "files_read": "path offset? limit?", "files_write": "path content", "files_edit": "path old new all?",
		"files_grep": "pattern path?", "files_glob": "pattern", "sleep": "seconds", "await": "promises mode? timeoutSeconds?",
		"detach": "promises", "cancel": "promises", "ask": "questions",
	}
	got := map[string]string{}
	for _, raw := range w.asked(1).Tools {
		f := raw.(map[string]any)["function"].(map[string]any)
		schema := f["parameters"].(map[string]any)
		require.Equal(t, false, schema["additionalProperties"], f["name"])
		required, _ := schema["required"].([]any)
		for _, name := range slices.Sorted(maps.Keys(schema["properties"].(map[string]any))) {
			if !slices.Contains(required, any(name)) {
				name += "?"
			}
			got[f["name"].(string)] += name + " "
		}
	}
	require.Len(t, got, len(want))
	for tool, arguments := range want {
		require.ElementsMatch(t, strings.Fields(arguments), strings.Fields(got[tool]), tool)
	}
}

// Idempotency: a key is a name for one request, over all five kinds of command,
// in one session.
func TestOneNameForOneRequest(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"files.*", "ask"}))
	w.model.Enqueue(openaitest.Calls(call("a", "files.write", object{"path": "a", "content": "A"})), openaitest.Text("Done.", 1))
	run := w.run("Go.", object{"submissionId": "one"})
	_, on := w.waits(run.ID, "approval")
	steer, decide := "/runs/"+run.ID+"/steer", "/approvals/"+on.ID
	w.post(steer, object{"input": "x", "submissionId": "one"}).refused(409, "submission_conflict")
	w.post(decide, object{"decision": "approve", "submissionId": "one"}).refused(409, "submission_conflict")
	w.post("/runs/"+run.ID+"/cancel", object{"submissionId": "one"}).refused(409, "submission_conflict")
	w.post("/runs/"+run.ID+"/answers", object{"questionId": "question_1", "submissionId": "one"}).refused(409, "submission_conflict")

	first := read[api.Steered](w.post(steer, object{"input": "x"}, "Idempotency-Key", "two").is(202))
	again := read[api.Steered](w.post(steer, object{"input": "x", "submissionId": "two"}, "Idempotency-Key", "two").is(200))
	require.Equal(t, first.SteeringID, again.SteeringID)
	w.post(steer, object{"input": "y", "submissionId": "two"}).refused(409, "submission_conflict")
	w.post(steer, object{"input": "x", "submissionId": "three"}, "Idempotency-Key", "two").refused(400, "invalid_request")
	asRun := w.post("/runs", object{"input": "z", "mode": "steer", "submissionId": "four"}).is(202)
	repeated := w.post("/runs", object{"input": "z", "mode": "steer", "submissionId": "four"}).is(200)
	require.Equal(t, read[api.Run](asRun).SteeringID, read[api.Run](repeated).SteeringID)

	w.post(decide, object{"decision": "approve", "submissionId": "five"}).is(200)
	w.post(decide, object{"decision": "approve", "submissionId": "five"}).is(200)
	w.post(decide, object{"decision": "reject", "submissionId": "five"}).refused(409, "submission_conflict")
	w.ends(run.ID, "completed")
	require.Equal(t, run.ID, read[api.Run](w.post("/runs", object{"input": "Go.", "submissionId": "one"}).is(200)).ID)

	for _, bad := range []string{strings.Repeat("x", 129), "a b", "ä", ""} {
		if bad != "" {
			w.post("/runs", object{"input": "x"}, "Idempotency-Key", bad).refused(400, "invalid_request")
			w.post("/runs", object{"input": "x", "submissionId": bad}).refused(422, "validation_failed")
		}
	}

	// Elsewhere the first answer comes back.
	closed := w.post("/close", nil, "Idempotency-Key", "end").is(200)
	replayed := w.post("/close", nil, "Idempotency-Key", "end").is(200)
	require.Equal(t, closed.body, replayed.body)
	require.Equal(t, "true", replayed.header.Get("Idempotency-Replayed"))
	w.post("/close", object{"force": true}, "Idempotency-Key", "end").refused(409, "submission_conflict")
	w.post("/close", nil).refused(409, "session_closed")

	// engine 10.2: a closed session still knows what it was asked.
	require.Equal(t, run.ID, read[api.Run](w.post("/runs", object{"input": "Go.", "submissionId": "one"}).is(200)).ID)
	w.post("/runs", object{"input": "Go on.", "submissionId": "one"}).refused(409, "submission_conflict")
	w.post("/runs", object{"input": "Go."}).refused(409, "session_closed")

	// The same name in another session is another's.
	other := w.beside()
	other.open(other.played(nil))
	other.model.Enqueue(openaitest.Text("Done.", 1))
	other.ends(other.run("Go.", object{"submissionId": "one"}).ID, "completed")
}

// What a decision may be.
func TestWhatADecisionMayBe(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"files.*"}))
	w.model.Enqueue(openaitest.Calls(call("a", "files.write", object{"path": "a", "content": "A"})), openaitest.Text("Done.", 1))
	run := w.run("Go.")
	_, on := w.waits(run.ID, "approval")
	decide := "/approvals/" + on.ID
	edit := object{"path": "b", "content": "B"}
	w.post(decide, object{"decision": "reject", "arguments": edit}).refused(422, "validation_failed")
	w.post(decide, object{"decision": "reject", "remember": true}).refused(422, "validation_failed")
	w.post(decide, object{"decision": "approve", "arguments": edit, "remember": true}).refused(422, "validation_failed")
	w.post(decide, object{"decision": "approve", "remember": true}).refused(422, "validation_failed")
	w.post(decide, object{"decision": "maybe"}).refused(422, "validation_failed")
	w.post(decide, object{"decision": "approve", "arguments": []string{"b"}}).refused(422, "validation_failed")
	long := w.post(decide, object{"decision": "reject", "note": strings.Repeat("é", 1001)}).refused(409, "limit_reached")
	require.InDelta(t, 2000, long.Max, 0)
	require.InDelta(t, 2002, long.Actual, 0)
	require.NotEmpty(t, long.Limit)
	w.post("/approvals/approval_99", object{"decision": "approve"}).refused(404, "not_found")
	w.post("/approvals/99", object{"decision": "approve"}).refused(400, "invalid_request")
	w.post("/runs/run_9/approvals", object{"decisions": []object{{"approvalId": on.ID, "decision": "approve"}}}).refused(404, "not_found")
	w.post("/runs/"+run.ID+"/approvals", object{"decisions": []object{}}).refused(422, "validation_failed")
	w.ask("DELETE", w.path("/remembered/files.write"), nil).refused(404, "not_found")
	require.Equal(t, "pending", w.until(run.ID, "waiting").Approvals[0].Status)
	w.post(decide, object{"decision": "reject", "note": strings.Repeat("é", 1000)}).is(200)
	w.ends(run.ID, "completed")
}

// T20: a decision has its time, and then it is too late.
func TestAnApprovalExpires(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"files.*"}, object{"approvals": object{"tools": object{"files.*": object{"ttlSeconds": 1}}}}))
	w.model.Enqueue(openaitest.Calls(call("a", "files.write", object{"path": "a", "content": "A"})), openaitest.Text("Nobody said so.", 1))
	run := w.run("Go.")
	// Nobody has to see it pending: a second is short where a busy machine looks.
	ended := w.ends(run.ID, "completed")
	require.Equal(t, 1, w.count("approval.requested"))
	on := ended.Approvals[0]
	require.Equal(t, "expired", on.Status)
	require.GreaterOrEqual(t, on.DecidedAt, on.ExpiresAt)
	require.Equal(t, "deadline", ended.Approvals[0].DecidedVia)
	require.Equal(t, "system:deadline", ended.Approvals[0].DecidedBy)
	require.Equal(t, "expired", w.calls(run.ID)[0].Status)
	w.post("/approvals/"+on.ID, object{"decision": "approve"}).refused(409, "expired")
}

// Bounds answer with what was there and what may be.
func TestBounds(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played(nil))
	slow, release := gated(openaitest.Text("A.", 1))
	w.model.Enqueue(slow)
	run := w.run("A")
	soon(t, w.model.Seen(1))
	for range 16 {
		w.post("/runs/"+run.ID+"/steer", object{"input": "x"}).is(202)
	}
	p := w.post("/runs/"+run.ID+"/steer", object{"input": "x"}).refused(409, "limit_reached")
	require.InDelta(t, 16, p.Max, 0)
	for range 32 {
		w.run("B")
	}
	p = w.post("/runs", object{"input": "B"}).refused(409, "limit_reached")
	require.InDelta(t, 32, p.Max, 0)
	parts := make([]object, 17)
	for i := range parts {
		parts[i] = object{"type": "text", "text": "x"}
	}
	p = w.post("/runs", object{"input": parts}).refused(409, "limit_reached")
	require.InDelta(t, 17, p.Actual, 0)
	require.InDelta(t, 16, p.Max, 0)
	many := map[string]string{}
	for i := range 33 {
		many[strings.Repeat("k", i+1)] = "v"
	}
	w.ask("PATCH", w.path(""), object{"metadata": many}).refused(409, "limit_reached")
	w.ask("PATCH", w.path(""), object{"metadata": object{strings.Repeat("k", 65): "v"}}).refused(422, "validation_failed")
	w.ask("PATCH", w.path(""), object{"metadata": object{"k": strings.Repeat("v", 257)}}).refused(422, "validation_failed")
	w.ask("PATCH", w.path(""), object{"metadata": object{strings.Repeat("k", 64): strings.Repeat("v", 256)}}).is(200)
	w.post("/close", object{"force": true}).is(200)
	release()
}

// What is described of a session.
func TestDescribing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played(nil))
	patch := func(body object) api.Session {
		t.Helper()
		return read[api.Session](w.ask("PATCH", w.path(""), body).is(200))
	}
	before := read[api.Session](w.get("").is(200))
	s := patch(object{"name": "Ann's", "metadata": object{"a": "1", "b": "2"}, "deleteAfterCloseDays": 3})
	require.Equal(t, "Ann's", s.Name)
	require.Equal(t, "Ann's", s.Title)
	require.Equal(t, before.UpdatedAt, s.UpdatedAt)
	require.Equal(t, before.Head, s.Head, "a description is no event")
	s = patch(object{"metadata": object{"a": nil, "c": "3"}})
	require.Equal(t, map[string]string{"b": "2", "c": "3"}, s.Metadata)
	require.Equal(t, "Ann's", s.Name)
	require.Equal(t, s, patch(object{}))
	s = patch(object{"name": nil})
	require.Empty(t, s.Name)
	require.Empty(t, s.Title)
	require.Zero(t, s.DeleteAt)
	s = read[api.Session](w.post("/close", nil).is(200))
	require.Equal(t, int64(s.ClosedAt)+3*24*3600*1000, int64(s.DeleteAt))
	require.Equal(t, s.ClosedAt, s.UpdatedAt)
	s = patch(object{"deleteAfterCloseDays": nil, "name": "kept"})
	require.Zero(t, s.DeleteAt)
	w.ask("PATCH", w.path(""), object{"deleteAfterCloseDays": -1}).refused(422, "validation_failed")
	w.ask("PATCH", w.path(""), object{"name": strings.Repeat("x", 201)}).refused(422, "validation_failed")
	w.ask("PATCH", w.path(""), object{"status": "open"}).refused(422, "validation_failed")

	// engine 10.9: the same id again is the session as it is.
	again := w.ask("POST", "/v1/sessions", object{"id": w.session, "name": "other", "config": w.played([]string{"files.*"})}).is(200)
	require.Equal(t, "kept", read[api.Session](again).Name)
}

// A title is cut where a reader sees a character end.
func TestTitles(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played(nil))
	w.model.Enqueue(openaitest.Text("1", 1))
	w.ends(w.run("  One\n\ttwo "+strings.Repeat("x", 50)+"👩‍👩‍👧‍👦").ID, "completed")
	require.Equal(t, "One two "+strings.Repeat("x", 50), read[api.Session](w.get("").is(200)).Title)
}

// Who asks, and through what, is in the record.
func TestWhoAndVia(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"files.*"}, object{"approvals": object{"tools": object{"files.write": object{"role": "lead"}}}}))
	w.model.Enqueue(openaitest.Calls(call("a", "files.write", object{"path": "a", "content": "A"})), openaitest.Text("Done.", 1))
	me := read[api.Me](w.ask("GET", "/v1/me", nil).is(200))
	run := read[api.Run](w.post("/runs", object{"input": "Go."}, "Perdure-Actor", "u-17", "Perdure-Roles", "staff", "User-Agent", "perdure-cli/1").is(202))
	require.Equal(t, "u-17", run.RequestedBy)
	require.Equal(t, "cli", run.Via)
	waiting, on := w.waits(run.ID, "approval")
	require.Equal(t, "lead", waiting.Approvals[0].Role)
	decide := "/approvals/" + on.ID
	w.post(decide, object{"decision": "approve"}).refused(403, "forbidden")
	w.post(decide, object{"decision": "approve"}, "Perdure-Actor", "u-17", "Perdure-Roles", "staff").refused(403, "forbidden")
	require.False(t, w.listed("/v1/approvals", on.ID), "who may not decide it is not asked")
	require.Equal(t, "pending", w.until(run.ID, "waiting").Approvals[0].Status)
	decided := read[api.Approval](w.post(decide, object{"decision": "approve"}, "Perdure-Actor", "boss", "Perdure-Roles", "staff, lead").is(200))
	require.Equal(t, "boss", decided.DecidedBy)
	require.Equal(t, "key", decided.Via)
	w.ends(run.ID, "completed")
	require.NotEqual(t, "u-17", me.Actor)
	for name, headers := range map[string][]string{
		"a system": {"Perdure-Actor", "system:deadline"}, "spaces": {"Perdure-Actor", "a b"}, "roles alone": {"Perdure-Roles", "lead"}, "a bad role": {"Perdure-Actor", "a", "Perdure-Roles", "a b"},
	} {
		require.NotEmpty(t, name)
		w.ask("GET", "/v1/me", nil, headers...).refused(400, "invalid_request")
	}
}

// The front: who is let in, and what is there.
func TestTheFront(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.ask("GET", "/v1/me", nil, "Authorization", "").refused(401, "unauthenticated")
	wrong := w.ask("GET", "/v1/me", nil, "Authorization", "Bearer pk_local_wrong")
	wrong.refused(401, "unauthenticated")
	require.Contains(t, wrong.header.Get("WWW-Authenticate"), "Bearer")
	require.NotContains(t, string(wrong.body), "wrong")
	w.ask("GET", "/v1/me", nil, "Authorization", "Basic abc").refused(401, "unauthenticated")
	root := w.ask("GET", "/", nil, "Authorization", "").is(200)
	require.Contains(t, string(root.body), "Perdure")
	w.ask("GET", "/healthz", nil, "Authorization", "").is(200)
	w.ask("GET", "/readyz", nil, "Authorization", "").is(200)
	w.ask("GET", "/v1/openapi.json", nil, "Authorization", "").is(200)
	for _, header := range []string{"X-Content-Type-Options", "Cache-Control"} {
		require.NotEmpty(t, root.header.Get(header))
	}
	// What is of later is not there.
	for _, path := range []string{"/v1/policy", "/v1/prices", "/v1/budgets", "/v1/deliveries", "/v1/nothing", "/v2/sessions", "/v1/sessions/", "/V1/sessions"} {
		w.ask("GET", path, nil).refused(404, "not_found")
	}
	for _, path := range []string{"/fork", "/clone", "/apply-profile"} {
		w.post(path, object{}).refused(404, "not_found")
	}
	require.Equal(t, "GET, HEAD, POST", w.send(t, "DELETE", "/v1/sessions", nil).is(405).header.Get("Allow"))
	if *deployed {
		return
	}
	host := strings.TrimPrefix(w.url, "http://")
	port := host[strings.LastIndex(host, ":"):]
	for _, bad := range []string{"example.com", "example.com" + port, "127.0.0.1:1", "localhost.example.com" + port} {
		w.ask("GET", "/healthz", nil, "Host", bad).refused(403, "forbidden")
		w.ask("GET", "/v1/me", nil, "Host", bad).refused(403, "forbidden")
	}
	for _, bad := range []string{"http://example.com", "https://127.0.0.1" + port + ".example.com", "null", "http://127.0.0.1:1", "file://"} {
		w.ask("GET", "/v1/me", nil, "Origin", bad).refused(403, "forbidden")
	}
	w.ask("GET", "/v1/me", nil, "Origin", w.url, "Host", "localhost"+port).is(200)
}

// JSON that can be read in two ways is refused, on the wire as it is.
func TestStrictJSON(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.open(w.played(nil))
	cases := map[string]int{
		`{"input":"a","input":"b"}`:      400,
		"{\"input\":\"\xff\xfe\"}":       400,
		`{"input":"\ud800"}`:             400,
		`{"Input":"a"}`:                  400,
		`{"input":"a"}}`:                 400,
		`{"input":"a",}`:                 400,
		`{'input':'a'}`:                  400,
		`{"input":"a"/**/}`:              400,
		"\xef\xbb\xbf" + `{"input":"a"}`: 400,
		`{"input":"a","config":{"params":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}}`: 400,
		`{"input":"a","unknown":1}`:                                       422,
		`{"input":"a","config":{"unknown":1}}`:                            422,
		`{"input":null}`:                                                  422,
		`{"input":7}`:                                                     422,
		`{"input":[]}`:                                                    422,
		`{"input":[{"type":"text"}]}`:                                     422,
		`{"input":[{"type":"image","text":"x"}]}`:                         422,
		`{"input":"a","config":{"limits":{"maxTurns":0}}}`:                422,
		`{"input":"a","config":{"limits":{"maxTurns":-1}}}`:               422,
		`{"input":[{"type":"blob","ref":"sha256:00","mediaType":"a/b"}]}`: 422,
		`{"input":[{"type":"blob","ref":"sha256:` + strings.Repeat("0", 64) + `","mediaType":"a/b"}]}`: 422,
		`{}`: 422,
		``:   400,
	}
	if *deployed {
		// A gateway hands a body on as text: what is not UTF-8 was replaced by then.
		delete(cases, "{\"input\":\"\xff\xfe\"}")
	}
	for body, status := range cases {
		code := "validation_failed"
		if status == 400 {
			code = "invalid_request"
		}
		w.post("/runs", body).refused(status, code)
	}
	require.Equal(t, s.Head, read[api.Session](w.get("").is(200)).Head)
}

// A body has a bound that is known before it is read, however it comes.
func TestABodyTooLarge(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played(nil))
	large := `{"input":"` + strings.Repeat("x", 2<<20) + `"}`
	w.post("/runs", large).refused(413, "too_large")
	r, err := http.NewRequest(http.MethodPost, w.url+w.path("/runs"), io.MultiReader(strings.NewReader(large[:100]), strings.NewReader(large[100:])))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+w.key)
	r.Header.Set("Content-Type", "application/json")
	resp, err := direct.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, 413, resp.StatusCode)
	fits := `{"input":"` + strings.Repeat("x", 2<<20-len(`{"input":""}`)) + `"}`
	w.model.Enqueue(openaitest.Text("Much.", 1))
	w.ends(read[api.Run](w.post("/runs", fits).is(202)).ID, "completed")
}

// HEAD is GET without the body, and lists are read to their ends.
func TestListsOfRuns(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played(nil))
	w.talk(5)
	head := w.ask("HEAD", w.path(""), nil).is(200)
	require.Empty(t, head.body)
	var ids []string
	w.pages(w.path("/runs?limit=2"), func(item map[string]any) { ids = append(ids, item["id"].(string)) })
	require.Equal(t, []string{"run_5", "run_4", "run_3", "run_2", "run_1"}, ids)
	for _, query := range []string{"limit=0", "limit=201", "limit=x", "status=done", "cursor=x", "sort=id", "status=completed&status=failed"} {
		w.get("/runs?"+query).refused(400, "invalid_request")
	}
	require.Len(t, read[api.Page[api.Run]](w.get("/runs?status=completed&limit=200").is(200)).Items, 5)
	require.Empty(t, read[api.Page[api.Run]](w.get("/runs?status=failed").is(200)).Items)
	w.get("/runs/run_9").refused(404, "not_found")
	w.get("/runs/run_9/calls").refused(404, "not_found")
	w.post("/runs/run_9/cancel", nil).refused(404, "not_found")
	w.post("/runs/run_9/steer", object{"input": "x"}).refused(404, "not_found")
	w.get("/runs/9").refused(400, "invalid_request")
}

// The context is edited between turns, and no other time.
func TestTheContextOfABusySession(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"files.*"}))
	w.model.Enqueue(openaitest.Calls(call("a", "files.write", object{"path": "a", "content": "A"})), openaitest.Text("Done.", 1))
	run := w.run("Go.")
	_, on := w.waits(run.ID, "approval")
	entry := read[api.Context](w.get("/context").is(200)).Entries[0].ID
	w.ask("PATCH", w.path("/context"), object{"replace": []object{{"entry": entry, "text": "x"}}}).refused(409, "session_busy")
	w.ask("PATCH", w.path("/context"), object{"put": []object{{"key": "run.x", "role": "user", "input": "x"}}}, "If-Match", "x").refused(400, "invalid_request")
	w.post("/approvals/"+on.ID, object{"decision": "approve"}).is(200)
	w.ends(run.ID, "completed")
	reserved := read[api.ContextPatched](w.ask("PATCH", w.path("/context"), object{"put": []object{{"key": "run.x", "role": "user", "input": "x"}}}).is(200))
	require.Equal(t, "failed", reserved.Results[0].Status)
	require.NotEmpty(t, reserved.Results[0].Code)
	w.ask("PATCH", w.path("/context"), object{"put": []object{{"key": "a", "role": "assistant", "input": "x"}}}).refused(422, "validation_failed")
}

// Outside tools are the tenant's, and their secrets are names.
func TestSettingToolsUp(t *testing.T) {
	t.Parallel()
	w := setup(t)
	name := "tool-" + w.session
	tool := object{
		"target": "http", "url": "http://127.0.0.1:9/x", "secret": secretName, "description": "Nothing.", "parameters": object{"type": "object"},
		"kind": "read", "completion": "joined",
	}
	w.ask("PUT", "/v1/tools/"+name, tool).is(201)
	w.ask("PUT", "/v1/tools/"+name, tool).is(200)
	got := read[api.Tool](w.ask("GET", "/v1/tools/"+name, nil).is(200))
	require.Equal(t, secretName, got.Secret)
	require.True(t, func() (found bool) {
		w.pages("/v1/tools?limit=1", func(item map[string]any) { found = found || item["name"] == name })
		return found
	}())
	for field, bad := range map[string]any{
		"target": "lambda", "url": "http://u:p@x/", "kind": "agent", "completion": "never", "timeoutSeconds": -1, "description": "",
		"parameters": object{"type": "nonsense"}, "unknown": 1,
	} {
		wrong := maps.Clone(tool)
		wrong[field] = bad
		w.ask("PUT", "/v1/tools/"+name, wrong).refused(422, "validation_failed")
	}
	w.ask("PUT", "/v1/tools/files.read", tool).refused(422, "validation_failed")
	w.ask("PUT", "/v1/tools/a%20b", tool).refused(400, "invalid_request")
	w.ask("DELETE", "/v1/tools/"+name, nil).is(204)
	w.ask("DELETE", "/v1/tools/"+name, nil).refused(404, "not_found")
	w.ask("GET", "/v1/tools/"+name, nil).refused(404, "not_found")
}

// A new session says where it is.
func TestWhereANewSessionIs(t *testing.T) {
	t.Parallel()
	w := setup(t)
	made := w.ask("POST", "/v1/sessions", object{"config": w.played(nil)}, "Idempotency-Key", w.session).is(201)
	s := read[api.Session](made)
	require.Regexp(t, `^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$`, s.ID)
	require.Equal(t, "/v1/sessions/"+s.ID, made.header.Get("Location"))
	again := w.ask("POST", "/v1/sessions", object{"config": w.played(nil)}, "Idempotency-Key", w.session).is(201)
	require.Equal(t, made.header.Get("Location"), again.header.Get("Location"))
	require.True(t, bytes.Equal(made.body, again.body))
}

// The document says no more and no less than the contract of what a session is
// doing.
func TestActivities(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct{ Enum []string }
			}
		}
	}
	require.NoError(t, json.Unmarshal(w.ask("GET", "/v1/openapi.json", nil).is(200).body, &doc))
	for _, schema := range []string{"Session", "SessionSummary"} {
		require.ElementsMatch(t, []string{"quarantined", "cancelling", "running", "waiting", "compacting", "idle"}, doc.Components.Schemas[schema].Properties["activity"].Enum)
	}
	require.ElementsMatch(t, []string{"queued", "running", "waiting", "cancelling", "completed", "failed", "cancelled"}, doc.Components.Schemas["Run"].Properties["status"].Enum)
	require.ElementsMatch(t, strings.Fields("running waiting completed failed rejected expired invalid forbidden unavailable not_run cancelled unknown"), doc.Components.Schemas["ToolCall"].Properties["status"].Enum)
}
