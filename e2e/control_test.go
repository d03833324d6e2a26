package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/api"
)

// gated is a reply that comes when the gate is closed.
func gated(r openaitest.Reply) (openaitest.Reply, func()) {
	gate := make(chan struct{})
	r.HoldBefore, r.Gate = true, gate
	return r, func() { close(gate) }
}

// engine 10.1, 10.4, 10.17-10.20.
func TestRunsQueue(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played(nil))
	slow, release := gated(openaitest.Text("A is done.", 1))
	w.model.Enqueue(slow, openaitest.Text("C is done.", 1))
	a := w.run("A")
	soon(t, w.model.Seen(1))
	b, c := w.run("B", object{"submissionId": "b"}), w.run("C")
	require.Equal(t, []string{"queued", "queued"}, []string{b.Status, c.Status})
	require.Equal(t, "B", b.Input[0].Text.Text)
	again := read[api.Run](w.post("/runs", object{"input": "B", "submissionId": "b"}).is(200))
	require.Equal(t, b.ID, again.ID)

	s := read[api.Session](w.get("").is(200))
	require.Equal(t, a.ID, s.ActiveRun.ID)
	require.Len(t, s.QueuedRuns, 2)
	require.Equal(t, "B", s.QueuedRuns[0].Input[0].Text.Text)
	w.post("/runs/"+b.ID+"/steer", object{"input": "sooner"}).refused(409, "run_not_active")

	cancelled := read[api.Run](w.post("/runs/"+b.ID+"/cancel", nil).is(202))
	require.Equal(t, "cancelled", cancelled.Status)
	require.Equal(t, "running", read[api.Run](w.get("/runs/"+a.ID).is(200)).Status)
	release()
	require.Equal(t, "A is done.", w.ends(a.ID, "completed").Output.Text)
	require.Equal(t, "C is done.", w.ends(c.ID, "completed").Output.Text)
	require.Equal(t, []string{"user", "assistant", "user"}, w.asked(2).roles())
	require.Equal(t, "C", w.asked(2).last().text())
	require.Len(t, w.model.Requests(), 2)

	// A name sent again finds the run of that name, whatever has become of it.
	require.Equal(t, "cancelled", read[api.Run](w.post("/runs", object{"input": "B", "submissionId": "b"}).is(200)).Status)
}

// engine 10.24, T44: a steer during what would have been the last answer.
func TestASteerTakesOneMoreTurn(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played(nil))
	slow, release := gated(openaitest.Text("Blue.", 1))
	w.model.Enqueue(slow, openaitest.Text("Red, then.", 1))
	run := w.run("Which colour?")
	soon(t, w.model.Seen(1))
	steered := read[api.Steered](w.post("/runs/"+run.ID+"/steer", object{"input": "Not blue."}).is(202))
	require.Equal(t, "steering_1", steered.SteeringID)
	require.Equal(t, "running", steered.Run.Status)
	require.Equal(t, "pending", steered.Run.Steering[0].Status)
	release()
	ended := w.ends(run.ID, "completed")
	require.Equal(t, "Red, then.", ended.Output.Text)
	require.Equal(t, "delivered", ended.Steering[0].Status)
	require.Equal(t, "turn_2", ended.Steering[0].Turn)
	require.Equal(t, []string{"user"}, w.asked(1).roles())
	require.Equal(t, []string{"user", "assistant", "user"}, w.asked(2).roles())
	require.Equal(t, "Not blue.", w.asked(2).last().text())
	require.Equal(t, 1, w.count("run.completed"))
	w.post("/runs/"+run.ID+"/steer", object{"input": "late"}).refused(409, "run_not_active")
}

// engine 10.23; T03, T46: what the model was about stays as it is, and the
// steer stands after all results.
func TestASteerDuringACallTurn(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"files.*"}))
	slow, release := gated(openaitest.Calls(call("a", "files.list", object{}), call("b", "files.glob", object{"pattern": "*"})))
	w.model.Enqueue(slow, openaitest.Text("In French: rien.", 1))
	run := w.run("What is there?")
	soon(t, w.model.Seen(1))
	took := read[api.Run](w.post("/runs", object{"input": "Answer in French.", "mode": "steer"}).is(202))
	require.Equal(t, run.ID, took.ID)
	require.Equal(t, "steering_1", took.SteeringID)
	release()
	w.ends(run.ID, "completed")
	require.Equal(t, []string{"user", "assistant", "tool", "tool", "user"}, w.asked(2).roles())
	require.Equal(t, "Answer in French.", w.asked(2).last().text())
	require.Len(t, w.model.Requests(), 2)

	// On an idle session the same mode starts a run.
	w.model.Enqueue(openaitest.Text("Oui.", 1))
	fresh := w.run("And now?", object{"mode": "steer"})
	require.Equal(t, "run_2", fresh.ID)
	require.Empty(t, fresh.SteeringID)
	w.ends(fresh.ID, "completed")
}

// engine 10.28, 10.29, 10.30: a cancel aborts the call where it is made.
func TestACancelAbortsTheModelCall(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played(nil))
	w.model.Enqueue(openaitest.Reply{Text: "Once upon a time there was", Chunks: 2, Hold: true}, openaitest.Text("Short: no.", 1))
	run := w.run("Tell me a long story.")
	soon(t, w.model.Seen(1))
	cancelled := read[api.Run](w.post("/runs/"+run.ID+"/cancel", object{"submissionId": "stop"}).is(202))
	require.Contains(t, []string{"cancelling", "cancelled"}, cancelled.Status)
	soon(t, w.model.Requests()[0].Gone)
	require.True(t, w.model.Requests()[0].Aborted(), "the provider was left talking")
	ended := w.ends(run.ID, "cancelled")
	require.NotEmpty(t, ended.CancelledBy)
	require.False(t, ended.Usage.Complete)
	require.Equal(t, 1, w.count("turn.cancelled"))
	require.Zero(t, w.count("run.failed"))
	w.post("/runs/"+run.ID+"/cancel", object{"submissionId": "stop"}).is(200)
	w.post("/runs/"+run.ID+"/cancel", nil).is(200)
	w.post("/runs/"+run.ID+"/cancel", object{"submissionId": "stop", "force": true}).refused(409, "submission_conflict")

	next := w.run("Shorter?")
	require.Equal(t, "Short: no.", w.ends(next.ID, "completed").Output.Text)
	second := w.asked(2)
	require.Equal(t, "Shorter?", second.last().text())
	require.Len(t, w.model.Requests(), 2)
}

// engine 10.30; T01, T04, T05: the call that was cut off has one result, and
// the next run's request is whole.
func TestACancelDuringATool(t *testing.T) {
	t.Parallel()
	w := setup(t)
	tool := w.outside("slow", object{"kind": "read"})
	w.open(w.played([]string{"files.*", tool.name}))
	w.model.Enqueue(openaitest.Calls(call("a", tool.name, object{}), call("b", "files.list", object{})), openaitest.Text("Well.", 1))
	run := w.run("Do it.")
	got := soon(t, tool.calls)
	w.happens("tool.completed", 1) // the list
	w.post("/runs/"+run.ID+"/cancel", nil).is(202)
	soon(t, got.gone)
	w.ends(run.ID, "cancelled")
	calls := w.calls(run.ID)
	require.Equal(t, "unknown", calls[0].Status, "it began, and nobody knows how far it came")
	require.Equal(t, "completed", calls[1].Status)
	w.ends(w.run("And?").ID, "completed")
	require.Equal(t, []string{"user", "assistant", "tool", "tool", "user"}, w.asked(2).roles())
}

// T44, T46: one commit ends the one and begins the other.
func TestAnInterrupt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played(nil))
	w.model.Enqueue(openaitest.Reply{Text: "Blah blah", Chunks: 2, Hold: true}, openaitest.Text("At once.", 1), openaitest.Text("Last.", 1))
	a := w.run("A")
	soon(t, w.model.Seen(1))
	queued := w.run("Q")
	b := w.run("B", object{"mode": "interrupt"})
	soon(t, w.model.Requests()[0].Gone)
	require.True(t, w.model.Requests()[0].Aborted())
	w.ends(a.ID, "cancelled")
	require.Equal(t, "At once.", w.ends(b.ID, "completed").Output.Text)
	require.Equal(t, "Last.", w.ends(queued.ID, "completed").Output.Text)
	require.Equal(t, "B", w.asked(2).last().text())
	require.Equal(t, "Q", w.asked(3).last().text())
	var accepted, requested uint64
	for _, e := range w.events() {
		switch {
		case e.Kind == "run.accepted" && e.Run == b.ID:
			accepted = e.Seq
		case e.Kind == "run.cancel_requested" && e.Run == a.ID:
			requested = e.Seq
		}
	}
	require.NotZero(t, accepted)
	require.InDelta(t, accepted, requested, 1)
}

// A client may ask for an answer now or never.
func TestModeReject(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played(nil))
	slow, release := gated(openaitest.Text("A.", 1))
	w.model.Enqueue(slow, openaitest.Text("B.", 1))
	a := w.run("A")
	w.post("/runs", object{"input": "B", "mode": "reject", "submissionId": "b"}).refused(409, "session_busy")
	release()
	w.ends(a.ID, "completed")
	// The refusal has left no trace of the name.
	b := w.run("B", object{"mode": "reject", "submissionId": "b"})
	require.Equal(t, "run_2", b.ID)
	w.ends(b.ID, "completed")
}

func TestAQuestionIsAnswered(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"ask"}))
	ask := object{"questions": []object{
		{"id": "size", "prompt": "How big?", "options": []object{{"value": "s", "label": "Small"}, {"value": "l", "label": "Large"}}, "defaults": []string{"s"}},
		{"id": "name", "prompt": "For whom?", "freeText": true, "defaults": []string{"nobody"}},
	}}
	w.model.Enqueue(openaitest.Calls(call("a", "ask", ask)), openaitest.Text("Large, for Ann.", 1))
	run := w.run("Order a cake.")
	waiting, on := w.waits(run.ID, "question")
	require.Len(t, waiting.Questions, 1)
	q := waiting.Questions[0]
	require.Equal(t, on.ID, q.ID)
	require.Equal(t, "ask", q.Source)
	require.Equal(t, "pending", q.Status)
	require.Equal(t, []string{"size", "name"}, []string{q.Items[0].ID, q.Items[1].ID})

	answers := object{"questionId": q.ID, "answers": object{"size": []string{"l"}, "name": []string{"Ann"}}, "submissionId": "cake"}
	w.post("/runs/"+run.ID+"/answers", object{"questionId": q.ID, "answers": object{"colour": []string{"red"}}}).refused(422, "validation_failed")
	w.post("/runs/"+run.ID+"/answers", object{"questionId": "question_99", "answers": object{}}).refused(404, "not_found")
	w.post("/runs/"+run.ID+"/answers", answers).is(200)
	w.post("/runs/"+run.ID+"/answers", answers).is(200)
	ended := w.ends(run.ID, "completed")
	require.Equal(t, "answered", ended.Questions[0].Status)
	require.Equal(t, map[string][]string{"size": {"l"}, "name": {"Ann"}}, ended.Questions[0].Answers)
	require.Contains(t, w.asked(2).last().text(), "Large")
	require.Contains(t, w.asked(2).last().text(), "Ann")
	w.post("/runs/"+run.ID+"/answers", object{"questionId": q.ID, "answers": object{"size": []string{"s"}}}).refused(409, "already_decided")
}

func TestIntakeAsksFirst(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played(nil, object{"intake": object{"when": "session", "items": []object{
		{"id": "tone", "prompt": "Which tone?", "options": []object{{"value": "dry", "label": "Dry"}, {"value": "warm", "label": "Warm"}}, "defaults": []string{"dry"}},
		{"id": "who", "prompt": "Who reads it?", "freeText": true, "defaults": []string{"everyone"}},
	}}}))
	w.model.Enqueue(openaitest.Text("Dear reader,", 1), openaitest.Text("And again.", 1))
	run := w.run("Write a letter.")
	waiting, on := w.waits(run.ID, "question")
	require.Equal(t, "intake", waiting.Questions[0].Source)
	require.Empty(t, w.model.Requests(), "nothing is sent before")
	w.post("/runs/"+run.ID+"/answers", object{"questionId": on.ID, "answers": object{"tone": []string{"warm"}}}).is(200)
	ended := w.ends(run.ID, "completed")
	require.Equal(t, []string{"who"}, ended.Questions[0].Defaulted)
	var all strings.Builder
	for _, m := range w.asked(1).Messages {
		all.WriteString(m.text() + "\n")
	}
	text := all.String()
	require.Contains(t, text, "Warm")
	require.Contains(t, text, "everyone")
	require.Contains(t, text, "Write a letter.")

	// It has answered once, so it is not asked again.
	require.Empty(t, w.ends(w.run("Another.").ID, "completed").Questions)
}

func TestAQuestionIsSkipped(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"ask"}))
	w.model.Enqueue(openaitest.Calls(call("a", "ask", object{"questions": []object{{"id": "x", "prompt": "X?", "defaults": []string{"nine"}}}})), openaitest.Text("Nine.", 1))
	run := w.run("Go.")
	_, on := w.waits(run.ID, "question")
	w.post("/runs/"+run.ID+"/answers", object{"questionId": on.ID, "skip": true, "answers": object{"x": []string{"1"}}}).refused(422, "validation_failed")
	w.post("/runs/"+run.ID+"/answers", object{"questionId": on.ID, "skip": true}).is(200)
	ended := w.ends(run.ID, "completed")
	require.Equal(t, "skipped", ended.Questions[0].Status)
	require.Contains(t, w.asked(2).last().text(), "nine")
}

// turn 2.6: a value that is no option counts for nothing, a single choice keeps
// its first, an empty list is none of these.
func TestAnswersAreMadeToFit(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"ask"}))
	options := []object{{"value": "s", "label": "Small"}, {"value": "l", "label": "Large"}}
	w.model.Enqueue(openaitest.Calls(call("a", "ask", object{"questions": []object{
		{"id": "one", "prompt": "One?", "options": options, "defaults": []string{"s"}},
		{"id": "two", "prompt": "Two?", "options": options, "defaults": []string{"s"}, "multiple": true},
		{"id": "three", "prompt": "Three?", "options": options, "defaults": []string{"s"}},
	}})), openaitest.Text("Good.", 1))
	run := w.run("Go.")
	_, on := w.waits(run.ID, "question")
	w.post("/runs/"+run.ID+"/answers", object{"questionId": on.ID, "answers": object{
		"one": []string{"l", "s"}, "two": []string{"xxl", "l"}, "three": []string{},
	}}).is(200)
	ended := w.ends(run.ID, "completed")
	require.Equal(t, map[string][]string{"one": {"l"}, "two": {"l"}, "three": {}}, ended.Questions[0].Answers)
	require.Contains(t, w.asked(2).last().text(), "Three?: none of these")
}

// T09: a cancel takes what was asked with it.
func TestACancelClosesApprovals(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"files.*"}))
	w.model.Enqueue(openaitest.Calls(call("a", "files.write", object{"path": "a", "content": "A"})), openaitest.Text("Fine.", 1))
	run := w.run("Write.")
	_, on := w.waits(run.ID, "approval")
	require.True(t, w.listed("/v1/approvals", on.ID))
	w.post("/runs/"+run.ID+"/cancel", nil).is(202)
	ended := w.ends(run.ID, "cancelled")
	require.Equal(t, "cancelled", ended.Approvals[0].Status)
	late := w.post("/approvals/"+on.ID, object{"decision": "approve"})
	require.Equal(t, "cancelled", late.refused(409, "already_decided").Actual)
	require.False(t, w.listed("/v1/approvals", on.ID))
	require.Equal(t, "cancelled", w.calls(run.ID)[0].Status)
	w.ends(w.run("And now?").ID, "completed")
}

// T22: text decides nothing.
func TestTextDecidesNoApproval(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"files.*"}))
	w.model.Enqueue(openaitest.Calls(call("a", "files.write", object{"path": "a", "content": "A"})), openaitest.Text("Written.", 1))
	run := w.run("Write.")
	_, on := w.waits(run.ID, "approval")
	w.run("yes please", object{"mode": "steer"})
	require.Equal(t, "pending", w.until(run.ID, "waiting").Approvals[0].Status)
	w.post("/approvals/"+on.ID, object{"decision": "approve"}).is(200)
	w.ends(run.ID, "completed")
	require.Equal(t, []string{"user", "assistant", "tool", "user"}, w.asked(2).roles())
	require.Equal(t, "yes please", w.asked(2).last().text())
}

// A remembered approval lets later calls of that definition run unasked, until
// it is taken back.
func TestARememberedApproval(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"files.*"}, object{"approvals": object{"tools": object{"files.*": object{"remember": true}}}}))
	write := func(id string) openaitest.Reply {
		return openaitest.Calls(call(id, "files.write", object{"path": id, "content": "x"}))
	}
	w.model.Enqueue(write("a"), openaitest.Text("1", 1), write("b"), openaitest.Text("2", 1), write("c"), openaitest.Text("3", 1))
	first := w.run("One.")
	waiting, on := w.waits(first.ID, "approval")
	require.True(t, waiting.Approvals[0].Remember)
	w.post("/approvals/"+on.ID, object{"decision": "approve", "remember": true}).is(200)
	w.ends(first.ID, "completed")
	remembered := read[api.Session](w.get("").is(200)).Remembered
	require.Len(t, remembered, 1)
	require.Equal(t, "files.write", remembered[0].Tool)

	second := w.ends(w.run("Two.").ID, "completed")
	require.Len(t, second.Approvals, 1, "what ran unasked has its record too")
	require.Equal(t, "remembered", second.Approvals[0].DecidedVia)

	w.ask("DELETE", w.path("/remembered/files.write"), nil).is(204)
	require.Empty(t, read[api.Session](w.get("").is(200)).Remembered)
	third := w.run("Three.")
	_, on = w.waits(third.ID, "approval")
	w.post("/approvals/"+on.ID, object{"decision": "reject"}).is(200)
	w.ends(third.ID, "completed")
}

// engine 10.47, I15: each request extends the one before it byte for byte.
func TestRequestsExtendOneAnother(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"files.*"}, unasked))
	for i := range 4 {
		w.model.Enqueue(
			openaitest.Calls(call("w"+strings.Repeat("x", i), "files.write", object{"path": "a", "content": strings.Repeat("é漢👩‍👩‍👧‍👦\u0000", i)})),
			openaitest.Text("Done.", 1),
		)
		w.ends(w.run("Go on.").ID, "completed")
	}
	before := ""
	for i, r := range w.model.Requests() {
		messages := strings.TrimSuffix(r.Messages(), "]")
		require.True(t, strings.HasPrefix(messages, before), "request %d does not extend the one before", i+1)
		before = messages
	}
}
