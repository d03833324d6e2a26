package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/api"
)

// I4, T45: interrupting runs go to the front, among themselves in order of
// admission; what was queued before keeps its place behind them.
func TestInterruptsStandInOrder(t *testing.T) {
	t.Parallel()
	w := setup(t)
	tool := w.outside("slow", object{"kind": "read"})
	w.open(w.played([]string{tool.name}))
	// The second may find the first begun already, and then interrupts it; none
	// is over before both are there.
	answer, release := gated(openaitest.Text("Yes.", 1))
	w.model.Fallback = func(openaitest.Request) openaitest.Reply { return answer }
	w.model.Enqueue(openaitest.Calls(call("a", tool.name, object{})))
	a := w.run("A")
	soon(t, tool.calls)
	q := w.run("Q")
	first := w.run("first", object{"mode": "interrupt"})
	second := w.run("second", object{"mode": "interrupt"})
	release()
	w.ends(a.ID, "cancelled")
	for _, run := range []string{first.ID, second.ID, q.ID} {
		w.until(run, "completed", "cancelled")
	}
	var started []string
	for _, e := range w.events() {
		if e.Kind == "run.started" {
			started = append(started, e.Run)
		}
	}
	require.Equal(t, []string{a.ID, first.ID, second.ID, q.ID}, started)

	// An idle session has nothing to interrupt.
	w.ends(w.run("third", object{"mode": "interrupt"}).ID, "completed")
}

// Row 2: a steer that a run has no turn left for begins a run of its own.
func TestASteerOutlivesItsRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"files.*"}, object{"limits": object{"maxTurns": 1}}))
	slow, release := gated(openaitest.Calls(call("a", "files.list", object{})))
	last, releaseLast := gated(openaitest.Text("No more.", 1))
	w.model.Enqueue(slow, last, openaitest.Text("In French.", 1), openaitest.Text("Queued.", 1))
	run := w.run("Go.")
	soon(t, w.model.Seen(1))
	queued := w.run("Queued?")
	release()
	soon(t, w.model.Seen(2))
	w.post("/runs/"+run.ID+"/steer", object{"input": "In French!"}).is(202)
	releaseLast()
	ended := w.ends(run.ID, "failed")
	require.Equal(t, "limit_exceeded", ended.Failure.Kind)
	require.Equal(t, "requeued", ended.Steering[0].Status)
	next := ended.Steering[0].Run
	require.NotEmpty(t, next)
	w.ends(queued.ID, "completed")
	require.Equal(t, "In French.", w.ends(next, "completed").Output.Text)
	require.Equal(t, "In French!", w.asked(3).last().text(), "before the run that was queued")

	// Cancelled with its run, it is said to be undelivered, with its text.
	hold, releaseHold := gated(openaitest.Text("x", 1))
	w.model.Enqueue(hold)
	cut := w.run("Again.")
	soon(t, w.model.Seen(5))
	w.post("/runs/"+cut.ID+"/steer", object{"input": "Never read."}).is(202)
	w.post("/runs/"+cut.ID+"/cancel", nil).is(202)
	over := w.ends(cut.ID, "cancelled")
	releaseHold()
	require.Equal(t, "undelivered", over.Steering[0].Status)
	require.Equal(t, "Never read.", over.Steering[0].Text)
}

// engine 10.71: an approval belongs to its run.
func TestAnApprovalOfAnotherRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"files.*"}))
	w.model.Enqueue(openaitest.Calls(call("a", "files.write", object{"path": "a", "content": "A"})), openaitest.Text("1", 1), openaitest.Calls(call("b", "files.write", object{"path": "b", "content": "B"})))
	first := w.run("One.")
	_, one := w.waits(first.ID, "approval")
	w.post("/approvals/"+one.ID, object{"decision": "approve"}).is(200)
	w.ends(first.ID, "completed")
	second := w.run("Two.")
	_, two := w.waits(second.ID, "approval")
	decided := read[api.ApprovalsDecided](w.post("/runs/"+second.ID+"/approvals", object{"decisions": []object{
		{"approvalId": one.ID, "decision": "approve"}, {"approvalId": two.ID, "decision": "reject", "note": "n"}, {"approvalId": two.ID, "decision": "reject", "note": "n"},
	}}).is(200))
	require.Equal(t, "not_found", decided.Results[0].Code)
	require.Equal(t, "rejected", decided.Results[1].Status)
	require.Equal(t, "invalid_request", decided.Results[2].Code, "one decision of a request is enough")
	w.model.Enqueue(openaitest.Text("2", 1))
	w.ends(second.ID, "completed")
	w.post("/close", nil).is(200)
	require.Equal(t, "rejected", w.post("/approvals/"+two.ID, object{"decision": "approve"}).refused(409, "already_decided").Actual)
	w.post("/approvals/"+two.ID, object{"decision": "reject", "note": "n"}).is(200)
}

// engine 10.36: what is still to come keeps a session open, unless by force.
func TestADetachedPromiseKeepsASessionOpen(t *testing.T) {
	t.Parallel()
	w := setup(t)
	tool := w.outside("job", object{"kind": "read", "completion": "promise"})
	tool.answers(says(202, object{}))
	w.open(w.played([]string{tool.name, "detach"}))
	w.model.Enqueue(
		openaitest.Calls(call("a", tool.name, object{})), openaitest.Calls(call("b", "detach", object{"promises": []string{"promise_1"}})), openaitest.Text("Later.", 1),
	)
	run := w.run("Go.")
	got := soon(t, tool.calls)
	w.ends(run.ID, "completed")
	w.post("/close", nil).refused(409, "session_busy")
	w.post("/close", object{"force": true}).is(200)
	w.settle(got.Promise.Token, object{"status": "resolved", "value": 1}).refused(409, "already_decided")

	// An operator settles in the other side's stead.
	other := w.beside()
	other.open(other.played([]string{tool.name}))
	tool.answers(says(202, object{}))
	other.model.Enqueue(openaitest.Calls(call("a", tool.name, object{})))
	gate, release := gated(openaitest.Text("x", 1))
	other.model.Enqueue(gate)
	second := other.run("Go.")
	soon(t, tool.calls)
	soon(t, other.model.Seen(2))
	settled := read[api.Promise](other.post("/promises/promise_1", object{"status": "failed", "error": "given up"}).is(200))
	require.Equal(t, "failed", settled.Status)
	require.Equal(t, "given up", settled.Error.Text)
	other.post("/promises/promise_1", object{"status": "resolved"}).refused(409, "already_decided")
	other.post("/promises/promise_9", object{"status": "resolved"}).refused(404, "not_found")
	other.post("/promises/9", object{"status": "resolved"}).refused(400, "invalid_request")
	release()
	other.ends(second.ID, "completed")
}

// engine 10.12: one run may have another model and other limits.
func TestARunOfItsOwnKind(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played(nil))
	w.model.Enqueue(openaitest.Text("1", 1), openaitest.Text("2", 1), openaitest.Text("3", 1))
	w.ends(w.run("a", object{"config": object{"model": "another-model", "params": object{"temperature": 0.25}}}).ID, "completed")
	w.ends(w.run("b", object{"config": object{"model": object{"model": "a-third"}}}).ID, "completed")
	w.ends(w.run("c").ID, "completed")
	require.Equal(t, []string{"another-model", "a-third", "test-model"}, []string{w.asked(1).Model, w.asked(2).Model, w.asked(3).Model})
	require.Contains(t, string(w.model.Requests()[0].Body), `"temperature":0.25`)
	require.NotContains(t, string(w.model.Requests()[2].Body), "temperature")
	w.model.Enqueue(openaitest.Text("4", 1))
	run := w.run("d", object{"config": object{"model": object{"provider": "scripted", "model": "script"}, "params": object{"steps": []object{{"text": "from the script"}}}}})
	require.Equal(t, "from the script", w.ends(run.ID, "completed").Output.Text)
	w.ends(w.run("e").ID, "completed")
}

// What waits for a person is listed over all sessions, oldest first, and is gone
// when its session is.
func TestWhatWaitsForAPerson(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var sessions []*world
	for range 3 {
		s := w.beside()
		s.open(s.played([]string{"files.*"}))
		s.model.Enqueue(openaitest.Calls(call("a", "files.write", object{"path": "a", "content": "A"})))
		run := read[api.Run](s.post("/runs", object{"input": "Go."}, "Perdure-Actor", "asker-"+w.session).is(202))
		s.waits(run.ID, "approval")
		sessions = append(sessions, s)
	}
	mine := func() (found []string) {
		newest := ""
		w.pages("/v1/approvals?limit=2", func(item map[string]any) {
			for _, s := range sessions {
				if item["sessionId"] == s.session {
					found = append(found, s.session)
					require.LessOrEqual(t, newest, item["requestedAt"].(string), "oldest first")
					newest = item["requestedAt"].(string)
				}
			}
		})
		return found
	}
	require.Equal(t, []string{sessions[0].session, sessions[1].session, sessions[2].session}, mine())
	asker := read[api.Page[api.Approval]](w.ask("GET", "/v1/approvals?mine=true", nil, "Perdure-Actor", "asker-"+w.session).is(200))
	require.Len(t, asker.Items, 3)
	other := read[api.Page[api.Approval]](w.ask("GET", "/v1/approvals?mine=true", nil, "Perdure-Actor", "other-"+w.session).is(200))
	require.Empty(t, other.Items)
	w.ask("GET", "/v1/approvals?status=approved", nil).refused(400, "invalid_request")
	w.ask("GET", "/v1/approvals?mine=maybe", nil).refused(400, "invalid_request")
	sessions[1].post("/close", object{"force": true}).is(200)
	require.Equal(t, []string{sessions[0].session, sessions[2].session}, mine())
	for _, s := range []*world{sessions[0], sessions[2]} {
		s.post("/close", object{"force": true}).is(200)
	}
	w.ask("DELETE", sessions[0].path(""), nil).is(204)
	require.Empty(t, mine())
}
