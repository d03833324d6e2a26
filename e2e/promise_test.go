package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/api"
)

// settle sends a promise's result as whoever has its token would: without a key.
func (w *world) settle(token string, body any) answer {
	w.Helper()
	return w.ask("POST", "/v1/promises/"+token, body, "Authorization", "")
}

// engine 10.63: an outside tool answers at once.
func TestAnOutsideToolAnswers(t *testing.T) {
	t.Parallel()
	w := setup(t)
	tool := w.outside("mail", object{"parameters": object{
		"type": "object", "properties": object{"to": object{"type": "string"}}, "required": []string{"to"}, "additionalProperties": false,
	}})
	tool.answers(says(200, object{"result": object{"sent": true}}))
	w.open(w.played([]string{tool.name}))
	w.model.Enqueue(openaitest.Calls(call("a", tool.name, object{"to": "Änne <a@b>"})), openaitest.Text("Sent.", 1))
	run := w.run("Send it.")
	_, on := w.waits(run.ID, "approval")
	require.Empty(t, tool.calls)
	w.post("/approvals/"+on.ID, object{"decision": "approve"}).is(200)
	w.ends(run.ID, "completed")
	got := soon(t, tool.calls)
	require.Equal(t, got.OperationID, got.key)
	require.NotEmpty(t, got.key)
	require.Equal(t, 1, got.Attempt)
	require.Equal(t, map[string]any{"to": "Änne <a@b>"}, got.Arguments)
	require.Equal(t, []string{w.session, run.ID, "call_1_1", tool.name}, []string{got.Session, got.Run, got.Call, got.Tool})
	require.NotEmpty(t, got.Actor.ID)
	require.Empty(t, tool.calls, "it was called once")
	c := w.calls(run.ID)[0]
	require.JSONEq(t, `{"sent":true}`, c.Result.Text)
	require.Equal(t, "http.sent", c.Effects[0].Kind)
	require.JSONEq(t, `{"sent":true}`, w.asked(2).last().text())
}

// engine 10.60, 10.63; T26: the tool says that it will answer, and does, without
// a key but with the token.
func TestAJoinedCallIsAnsweredLater(t *testing.T) {
	t.Parallel()
	w := setup(t)
	tool := w.outside("slow", object{"kind": "read"})
	tool.answers(says(202, object{}))
	w.open(w.played([]string{tool.name, "files.*"}))
	w.model.Enqueue(openaitest.Calls(call("a", tool.name, object{"n": 1}), call("b", "files.list", object{})), openaitest.Text("It is 42.", 1))
	run := w.run("Compute.")
	got := soon(t, tool.calls)
	require.NotEmpty(t, got.Promise.Token)
	waiting, on := w.waits(run.ID, "promise")
	require.Equal(t, "waiting", waiting.Status)
	require.NotZero(t, on.Until)
	require.Equal(t, "completed", w.calls(run.ID)[1].Status, "what is done already is recorded already")

	input := w.ask("GET", "/v1/promises/"+got.Promise.Token+"/input", nil, "Authorization", "").is(200)
	require.JSONEq(t, `{"n":1}`, string(input.body))
	require.True(t, w.listed(w.path("/promises?status=pending"), on.ID))

	answered := object{"status": "resolved", "value": object{"answer": 42}}
	w.settle(got.Promise.Token[:len(got.Promise.Token)-3]+"AAA", answered).refused(404, "not_found")
	w.settle("pt_nonsense", answered).refused(404, "not_found")
	w.settle(got.Promise.Token, object{"status": "resolved", "error": "x"}).refused(422, "validation_failed")
	p := read[api.Promise](w.settle(got.Promise.Token, answered).is(200))
	require.Equal(t, "resolved", p.Status)
	require.Equal(t, on.ID, p.ID)
	w.settle(got.Promise.Token, answered).is(200)
	require.Equal(t, "resolved", w.settle(got.Promise.Token, object{"status": "resolved", "value": 41}).refused(409, "already_decided").Actual)
	require.Equal(t, "resolved", w.settle(got.Promise.Token, object{"status": "failed", "error": "x"}).refused(409, "already_decided").Actual)

	ended := w.ends(run.ID, "completed")
	require.Equal(t, "It is 42.", ended.Output.Text)
	require.JSONEq(t, `{"answer":42}`, w.asked(2).Messages[2].text())
	require.Equal(t, []string{"user", "assistant", "tool", "tool"}, w.asked(2).roles())
	w.settle(got.Promise.Token, answered).is(200)
	require.False(t, w.listed(w.path("/promises?status=pending"), on.ID))
	require.True(t, w.listed(w.path("/promises?status=resolved"), on.ID))
	for _, e := range w.events() {
		require.NotContains(t, string(e.Data), got.Promise.Token, "a token stands in an event")
	}
}

// A promise that fails is a tool error; one whose run was cancelled is closed.
func TestAJoinedCallFailsLater(t *testing.T) {
	t.Parallel()
	w := setup(t)
	tool := w.outside("slow", object{"kind": "read"})
	tool.answers(says(202, object{}))
	w.open(w.played([]string{tool.name}))
	w.model.Enqueue(openaitest.Calls(call("a", tool.name, object{})), openaitest.Text("Too bad.", 1), openaitest.Calls(call("b", tool.name, object{})))
	run := w.run("Compute.")
	got := soon(t, tool.calls)
	w.waits(run.ID, "promise")
	w.settle(got.Promise.Token, object{"status": "failed", "error": "the disk is full"}).is(200)
	w.ends(run.ID, "completed")
	c := w.calls(run.ID)[0]
	require.Equal(t, "failed", c.Status)
	require.Contains(t, c.Error.Text, "the disk is full")
	require.Contains(t, w.asked(2).last().text(), "the disk is full")

	second := w.run("Again.")
	got = soon(t, tool.calls)
	w.waits(second.ID, "promise")
	w.post("/runs/"+second.ID+"/cancel", nil).is(202)
	w.ends(second.ID, "cancelled")
	require.Equal(t, "cancelled", w.settle(got.Promise.Token, object{"status": "resolved", "value": 1}).refused(409, "already_decided").Actual)
}

// engine 10.55, 10.59: a tool of completion promise gives the model a promise at
// once, which it awaits when it wants.
func TestPromisesAreAwaited(t *testing.T) {
	t.Parallel()
	w := setup(t)
	tool := w.outside("job", object{"kind": "read", "completion": "promise", "parallel": false})
	tool.answers(says(202, object{}))
	w.open(w.played([]string{tool.name, "await"}))
	w.model.Enqueue(
		openaitest.Calls(call("a", tool.name, object{}), call("b", tool.name, object{})),
		openaitest.Calls(call("c", "await", object{"promises": []string{"promise_1", "promise_2"}, "mode": "any"})),
		openaitest.Calls(call("d", "await", object{"promises": []string{"promise_1", "promise_2"}})),
		openaitest.Calls(call("e", "await", object{"promises": []string{"promise_1", "promise_7"}})),
		openaitest.Text("Both are done.", 1),
	)
	run := w.run("Start two jobs.")
	one, two := soon(t, tool.calls), soon(t, tool.calls)
	second := w.asked(2)
	require.Equal(t, []string{"user", "assistant", "tool", "tool"}, second.roles())
	require.Contains(t, second.Messages[2].text(), "promise_1")
	require.Contains(t, second.Messages[3].text(), "promise_2")

	w.waits(run.ID, "promise")
	w.settle(two.Promise.Token, object{"status": "resolved", "value": "second"}).is(200)
	third := w.asked(3)
	require.Contains(t, third.last().text(), "second")
	require.NotContains(t, third.last().text(), "first")
	w.waits(run.ID, "promise")
	w.settle(one.Promise.Token, object{"status": "resolved", "value": "first"}).is(200)
	fourth := w.asked(4)
	require.Contains(t, fourth.last().text(), "first")
	require.Contains(t, fourth.last().text(), "second")
	require.Equal(t, "Both are done.", w.ends(run.ID, "completed").Output.Text)
	require.Equal(t, "failed", w.calls(run.ID)[4].Status, "what is not there is awaited by nobody")
}

// engine 10.32, 10.55: an await that has no time left says what it knows, and
// loses nothing; a cancel ends it without another word to the model.
func TestAnAwaitEndsEarly(t *testing.T) {
	t.Parallel()
	w := setup(t)
	tool := w.outside("job", object{"kind": "read", "completion": "promise"})
	tool.answers(says(202, object{}))
	w.open(w.played([]string{tool.name, "await"}))
	w.model.Enqueue(
		openaitest.Calls(call("a", tool.name, object{})),
		openaitest.Calls(call("b", "await", object{"promises": []string{"promise_1"}, "timeoutSeconds": 0})),
		openaitest.Calls(call("c", "await", object{"promises": []string{"promise_1"}})),
	)
	run := w.run("Start a job.")
	got := soon(t, tool.calls)
	third := w.asked(3)
	require.Contains(t, third.last().text(), "pending")
	_, on := w.waits(run.ID, "promise")
	require.Equal(t, "promise_1", on.ID)
	w.post("/runs/"+run.ID+"/cancel", nil).is(202)
	w.ends(run.ID, "cancelled")
	require.Len(t, w.model.Requests(), 3)
	require.Equal(t, "cancelled", w.settle(got.Promise.Token, object{"status": "resolved", "value": 1}).refused(409, "already_decided").Actual)
	w.model.Enqueue(openaitest.Text("Well.", 1))
	w.ends(w.run("And?").ID, "completed")
}

// engine 10.62: what a run has let go of begins a run of its own.
func TestADetachedPromiseBeginsARun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	tool := w.outside("job", object{"kind": "read", "completion": "promise"})
	tool.answers(says(202, object{}))
	w.open(w.played([]string{tool.name, "detach"}))
	w.model.Enqueue(
		openaitest.Calls(call("a", tool.name, object{})),
		openaitest.Calls(call("b", "detach", object{"promises": []string{"promise_1"}})),
		openaitest.Text("I will come back to it.", 1),
		openaitest.Text("It has come.", 1),
	)
	run := w.run("Start a job and go on.")
	got := soon(t, tool.calls)
	w.ends(run.ID, "completed")
	settled := object{"status": "resolved", "value": "the result of the job"}
	w.settle(got.Promise.Token, settled).is(200)
	require.Equal(t, "It has come.", w.ends("run_2", "completed").Output.Text)
	require.Contains(t, w.asked(4).last().text(), "the result of the job")
	w.settle(got.Promise.Token, settled).is(200)
	require.Equal(t, 2, w.count("run.accepted"))
}

// engine 10.61: what a run has not let go of ends with it.
func TestAPromiseEndsWithItsRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	tool := w.outside("job", object{"kind": "read", "completion": "promise"})
	tool.answers(says(202, object{}))
	w.open(w.played([]string{tool.name}))
	w.model.Enqueue(openaitest.Calls(call("a", tool.name, object{})), openaitest.Text("Never mind.", 1))
	run := w.run("Start a job.")
	got := soon(t, tool.calls)
	w.ends(run.ID, "completed")
	require.Equal(t, "cancelled", w.settle(got.Promise.Token, object{"status": "resolved", "value": 1}).refused(409, "already_decided").Actual)
}

// A pause costs nothing, and ends by itself.
func TestASleep(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"sleep"}))
	w.model.Enqueue(openaitest.Calls(call("a", "sleep", object{"seconds": 1.25})), openaitest.Text("Good morning.", 1))
	run := w.run("Rest a little.")
	waiting := w.until(run.ID, "waiting", "completed")
	if waiting.Status == "waiting" {
		require.Equal(t, "timer", waiting.WaitingOn[0].Kind)
		require.Equal(t, int64(1250), int64(waiting.WaitingOn[0].Until)-int64(waiting.WaitingOn[0].Since))
	}
	require.Equal(t, "Good morning.", w.ends(run.ID, "completed").Output.Text)
	require.Equal(t, 1, w.count("promise.settled"))
}
