package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/adapter/scripted"
	"github.com/perdure/perdure/internal/api"
)

// asking makes a session whose run waits for approvals of n writes.
func (w *world) asking(id string, n int, policy m) api.Run {
	w.t.Helper()
	c := config("t.*")
	c["approvals"] = policy
	w.call("POST", "/v1/sessions", m{"id": id, "config": c}).is(201, nil)
	step := scripted.Step{}
	for i := range n {
		step.Calls = append(step.Calls, call("t.write", `{"x":"`+string(rune('a'+i))+`"}`))
	}
	w.model.For(ident.SessionID(id), step, scripted.Step{Text: "done"}, scripted.Step{Text: "done"})
	run := w.run(id, "write")
	require.Equal(w.t, "waiting", run.Status)
	return run
}

func TestDecidingApprovalsEachAlone(t *testing.T) {
	t.Parallel()
	w := setup(t)
	run := w.asking("s1", 3, m{})
	require.Len(t, run.Approvals, 3)
	require.Len(t, run.WaitingOn, 3)
	require.Equal(t, "approval", run.WaitingOn[0].Kind)
	a := run.Approvals[0]
	require.Equal(t, "approval_1", a.ID)
	require.Equal(t, "call_1_1", a.CallID)
	require.Equal(t, "tool", a.Kind)
	require.JSONEq(t, `{"x":"a"}`, string(a.Arguments))

	var out api.ApprovalsDecided
	w.call("POST", "/v1/sessions/s1/runs/run_1/approvals", m{"submissionId": "d1", "decisions": []m{
		{"approvalId": "approval_1", "decision": "approve"},
		{"approvalId": "approval_1", "decision": "reject"},
		{"approvalId": "approval_9", "decision": "approve"},
		{"approvalId": "three", "decision": "approve"},
		{"approvalId": "approval_2", "decision": "reject", "note": "not now"},
		{"approvalId": "approval_3", "decision": "approve", "arguments": m{"y": 1}},
	}}).is(200, &out)
	codes := make([]string, 0, len(out.Results))
	for _, r := range out.Results {
		codes = append(codes, r.ApprovalID+" "+r.Status+" "+r.Code)
	}
	require.Equal(t, []string{
		"approval_1 approved ", "approval_1  invalid_request", "approval_9  not_found", "  invalid_request", "approval_2 rejected ", "approval_3 pending validation_failed",
	}, codes)

	var one api.Approval
	p := w.call("POST", "/v1/sessions/s1/approvals/approval_2", m{"decision": "approve"}).refused(409, "already_decided")
	require.Equal(t, `"rejected"`, string(p.Actual))
	require.Equal(t, "ann", p.DecidedBy)
	require.NotZero(t, p.DecidedAt)
	w.call("POST", "/v1/sessions/s1/approvals/approval_2", m{"decision": "reject"}).is(200, &one)
	require.Equal(t, "not now", one.Note)
	require.Equal(t, "person", one.DecidedVia)
	require.Equal(t, "key", one.Via)
	p = w.call("POST", "/v1/sessions/s1/approvals/approval_3", m{"decision": "approve", "arguments": m{"y": "secret"}}).refused(422, "validation_failed")
	require.NotContains(t, p.Detail, "secret")
	w.call("POST", "/v1/sessions/s1/approvals/approval_3", m{"decision": "approve", "arguments": m{"x": "edited"}}).is(200, &one)
	require.JSONEq(t, `{"x":"edited"}`, string(one.EditedArguments))

	w.call("GET", "/v1/sessions/s1/runs/run_1?wait=20", nil).is(200, &run)
	require.Equal(t, "completed", run.Status)
	var calls api.Page[api.ToolCall]
	w.call("GET", "/v1/sessions/s1/runs/run_1/calls", nil).is(200, &calls)
	require.Equal(t, "approval_1", calls.Items[0].ApprovalID)
	require.Equal(t, "rejected", calls.Items[1].Status)
	require.JSONEq(t, `{"x":"edited"}`, string(calls.Items[2].EditedArguments))
	require.Contains(t, calls.Items[2].Result.Text, `{"x":"edited"}`)

	head := w.session("s1").Head
	w.call("POST", "/v1/sessions/s1/approvals/approval_2", m{"decision": "approve"}).refused(409, "already_decided")
	w.call("POST", "/v1/sessions/s1/approvals/approval_1", m{"decision": "approve"}).is(200, &one)
	w.call("POST", "/v1/sessions/s1/approvals/approval_9", m{"decision": "approve"}).refused(404, "not_found")
	w.call("POST", "/v1/sessions/s1/approvals/nine", m{"decision": "approve"}).refused(400, "invalid_request")
	w.call("POST", "/v1/sessions/s1/approvals/approval_1", m{"decision": "maybe"}).refused(422, "validation_failed")
	w.call("POST", "/v1/sessions/s1/runs/run_9/approvals", m{"decisions": []m{{"approvalId": "x", "decision": "approve"}}}).refused(404, "not_found")
	w.call("POST", "/v1/sessions/s1/runs/run_1/approvals", m{"decisions": []m{}}).refused(422, "validation_failed")
	require.Equal(t, head, w.session("s1").Head)
}

func TestADecisionTakesTheRole(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.asking("s1", 1, m{"tools": m{"t.write": m{"role": "lead", "remember": true}}})
	w.call("POST", "/v1/sessions/s1/approvals/approval_1", m{"decision": "approve"}, as(decider)).refused(403, "forbidden")
	w.call("POST", "/v1/sessions/s1/approvals/approval_1", m{"decision": "approve"}, header("Perdure-Actor", "eve")).refused(403, "forbidden")
	var none, mine api.Page[api.Approval]
	w.call("GET", "/v1/approvals", nil, as(decider)).is(200, &none)
	require.Empty(t, none.Items)
	w.call("GET", "/v1/approvals", nil, header("Perdure-Actor", "eve"), header("Perdure-Roles", "lead, other")).is(200, &mine)
	require.Len(t, mine.Items, 1)
	w.call("GET", "/v1/approvals?mine=true", nil, header("Perdure-Actor", "eve"), header("Perdure-Roles", "lead")).is(200, &none)
	require.Empty(t, none.Items)
	w.call("GET", "/v1/approvals?mine=true", nil).is(200, &mine)
	require.Len(t, mine.Items, 1)
	var one api.Approval
	w.call("POST", "/v1/sessions/s1/approvals/approval_1", m{"decision": "approve", "remember": true}, header("Perdure-Actor", "eve"), header("Perdure-Roles", "lead"), header("User-Agent", "perdure-cli/1")).is(200, &one)
	require.Equal(t, "eve", one.DecidedBy)
	require.Equal(t, "cli", one.Via)

	s := w.session("s1")
	require.Len(t, s.Remembered, 1)
	require.Equal(t, "t.write", s.Remembered[0].Tool)
	w.call("DELETE", "/v1/sessions/s1/remembered/t.write", nil).is(204, nil)
	w.call("DELETE", "/v1/sessions/s1/remembered/t.write", nil).refused(404, "not_found")
	require.Empty(t, w.session("s1").Remembered)
}

func TestListsOfWhatWaitsForAPerson(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, id := range []string{"s1", "s2", "s3"} {
		w.asking(id, 2, m{})
	}
	var got []string
	for next := ""; ; {
		var page api.Page[api.Approval]
		path := "/v1/approvals?limit=4"
		if next != "" {
			path += "&cursor=" + next
		}
		w.call("GET", path, nil).is(200, &page)
		for _, a := range page.Items {
			got = append(got, a.SessionID+" "+a.ID)
		}
		if next = page.Next; next == "" {
			break
		}
	}
	require.Equal(t, []string{"s1 approval_1", "s1 approval_2", "s2 approval_1", "s2 approval_2", "s3 approval_1", "s3 approval_2"}, got)
	var page api.Page[api.Approval]
	w.call("GET", "/v1/approvals?status=pending", nil, as(bob)).is(200, &page)
	require.Empty(t, page.Items)
	w.call("GET", "/v1/approvals?status=approved", nil).refused(400, "invalid_request")
}

func TestAnsweringAQuestion(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := config()
	c["intake"] = m{"when": "run", "items": []m{
		{"id": "colour", "prompt": "Which?", "options": []m{{"value": "r", "label": "red"}, {"value": "g", "label": "green"}}, "defaults": []string{"r"}},
		{"id": "why", "prompt": "Why?", "freeText": true, "defaults": []string{"because"}},
	}}
	w.call("POST", "/v1/sessions", m{"id": "s1", "config": c}).is(201, nil)
	w.model.For("s1", scripted.Step{Text: "ok"}, scripted.Step{Text: "ok"})
	run := w.run("s1", "paint")
	require.Equal(t, "waiting", run.Status)
	require.Equal(t, "question_1", run.Questions[0].ID)
	require.Equal(t, "intake", run.Questions[0].Source)
	var list api.Page[api.Question]
	w.call("GET", "/v1/questions", nil).is(200, &list)
	require.Len(t, list.Items, 1)
	require.Equal(t, "s1", list.Items[0].SessionID)

	path := "/v1/sessions/s1/runs/run_1/answers"
	w.call("POST", path, m{"questionId": "question_1", "answers": m{"colour": []string{"g"}}, "skip": true}).refused(422, "validation_failed")
	w.call("POST", path, m{"questionId": "question_1", "answers": m{"shape": []string{"g"}}}).refused(422, "validation_failed")
	w.call("POST", path, m{"questionId": "one", "answers": m{}}).refused(422, "validation_failed")
	w.call("POST", path, m{"questionId": "question_2", "skip": true}).refused(404, "not_found")
	w.call("POST", path, m{"questionId": "question_1", "answers": m{"colour": []string{"g"}}, "submissionId": "a1"}).is(200, nil)
	w.call("POST", path, m{"questionId": "question_1", "answers": m{"colour": []string{"g"}}, "submissionId": "a1"}).is(200, nil)
	w.call("POST", path, m{"questionId": "question_1", "skip": true}).refused(409, "already_decided")
	w.call("GET", "/v1/sessions/s1/runs/run_1?wait=20", nil).is(200, &run)
	require.Equal(t, "completed", run.Status)
	q := run.Questions[0]
	require.Equal(t, "answered", q.Status)
	require.Equal(t, map[string][]string{"colour": {"g"}, "why": {"because"}}, q.Answers)
	require.Equal(t, []string{"why"}, q.Defaulted)
	require.Equal(t, "ann", q.AnsweredBy)

	run = w.run("s1", "again")
	w.call("POST", "/v1/sessions/s1/runs/run_2/answers", m{"questionId": "question_2", "skip": true}).is(200, nil)
	w.call("GET", "/v1/sessions/s1/runs/run_2?wait=20", nil).is(200, &run)
	require.Equal(t, "skipped", run.Questions[0].Status)
}

func TestSettlingAPromise(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1", "t.*")
	w.model.For("s1", scripted.Step{Calls: []scripted.Call{call("t.later", `{"x":"1"}`)}}, scripted.Step{Text: "done"})
	require.Equal(t, "waiting", w.run("s1", "go").Status)
	token := <-w.tokens
	var args map[string]string
	w.call("GET", "/v1/promises/"+token+"/input", nil, as("")).is(200, &args)
	require.Equal(t, map[string]string{"x": "1"}, args)
	w.call("GET", "/v1/promises/"+token[:len(token)-2]+"xx/input", nil).refused(404, "not_found")

	var list api.Page[api.Promise]
	w.call("GET", "/v1/sessions/s1/promises?status=pending", nil).is(200, &list)
	require.Len(t, list.Items, 1)
	require.Equal(t, "outside", list.Items[0].Source)
	require.Equal(t, "call_1_1", list.Items[0].CallID)

	path := "/v1/promises/" + token
	w.call("POST", path, m{"status": "done"}).refused(422, "validation_failed")
	w.call("POST", path, m{"status": "resolved", "error": "x"}).refused(422, "validation_failed")
	w.call("POST", path, m{"status": "failed", "value": "x"}).refused(422, "validation_failed")
	w.call("POST", "/v1/promises/pt_k1.x.y", m{"status": "resolved"}).refused(404, "not_found")
	var p api.Promise
	w.call("POST", path, m{"status": "resolved", "value": m{"sum": 7}}, func(r *http.Request) { r.Header.Del("Authorization") }).is(200, &p)
	require.Equal(t, "resolved", p.Status)
	require.JSONEq(t, `{"sum":7}`, p.Value.Text)
	w.call("POST", path, m{"status": "resolved", "value": m{"sum": 7}}).is(200, nil)
	prob := w.call("POST", path, m{"status": "failed", "error": "no"}).refused(409, "already_decided")
	require.Equal(t, `"resolved"`, string(prob.Actual))
	var run api.Run
	w.call("GET", "/v1/sessions/s1/runs/run_1?wait=20", nil).is(200, &run)
	require.Equal(t, "completed", run.Status)
	w.call("POST", path, m{"status": "resolved", "value": "other"}).refused(409, "already_decided")
	w.call("POST", path, m{"status": "resolved", "value": m{"sum": 7}}).is(200, nil)
	w.call("GET", path+"/input", nil).is(200, &args)
	require.Equal(t, map[string]string{"x": "1"}, args)

	w.call("POST", "/v1/sessions/s1/close", nil).is(200, nil)
	w.call("DELETE", "/v1/sessions/s1", nil).is(204, nil)
	w.call("POST", path, m{"status": "resolved", "value": m{"sum": 7}}).refused(404, "not_found")
	w.create("s1", "t.*")
	w.call("POST", path, m{"status": "resolved", "value": m{"sum": 7}}).refused(404, "not_found")
}

func TestTheInputOfAnEditedCallIsTheEdit(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := config("t.*")
	c["approvals"] = m{"tools": m{"t.later": m{"require": true}}}
	w.call("POST", "/v1/sessions", m{"id": "s1", "config": c}).is(201, nil)
	w.model.For("s1", scripted.Step{Calls: []scripted.Call{call("t.later", `{"x":"mine"}`)}}, scripted.Step{Text: "done"})
	w.run("s1", "go")
	w.call("POST", "/v1/sessions/s1/approvals/approval_1", m{"decision": "approve", "arguments": m{"x": "theirs"}}).is(200, nil)
	path := "/v1/promises/" + <-w.tokens
	var args map[string]string
	w.call("GET", path+"/input", nil).is(200, &args)
	require.Equal(t, map[string]string{"x": "theirs"}, args)
	w.call("POST", path, m{"status": "failed", "error": m{"code": 7}}).is(200, nil)
	w.call("GET", "/v1/sessions/s1/runs/run_1?wait=20", nil).is(200, nil)
	w.call("GET", path+"/input", nil).is(200, &args)
	require.Equal(t, map[string]string{"x": "theirs"}, args)
}

func TestAnOperatorSettlesAPromise(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1", "t.*", "await")
	w.model.For("s1", scripted.Step{Calls: []scripted.Call{call("t.promise", `{}`)}},
		scripted.Step{Calls: []scripted.Call{call("await", `{"promises":["promise_1"]}`)}}, scripted.Step{Text: "got it"})
	w.run("s1", "go")
	<-w.tokens
	path := "/v1/sessions/s1/promises/promise_1"
	w.call("POST", path, m{"status": "failed", "error": strings.Repeat("e", 100<<10)}, as(reader)).refused(403, "forbidden")
	w.call("POST", "/v1/sessions/s1/promises/promise_7", m{"status": "resolved"}).refused(404, "not_found")
	w.call("POST", "/v1/sessions/s1/promises/seven", m{"status": "resolved"}).refused(400, "invalid_request")
	w.call("POST", path, m{"status": "resolved", "value": strings.Repeat("v", 100<<10)}).is(200, nil)
	var list api.Page[api.Promise]
	w.call("GET", "/v1/sessions/s1/promises?limit=1", nil).is(200, &list)
	require.Equal(t, int64(100<<10), list.Items[0].Value.Size)
}
