package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/api"
)

// turn 8.1: at the limit the model has a last word, with the same tools in
// sight and none to call.
func TestTheClosingTurn(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"files.*"}, object{"limits": object{"maxTurns": 2}}))
	list := func(id string) openaitest.Reply {
		return openaitest.Calls(call(id, "files.list", object{}))
	}
	w.model.Enqueue(list("a"), list("b"), openaitest.Text("This far I came.", 1))
	run := w.ends(w.run("Look for ever.").ID, "failed")
	require.Equal(t, "limit_exceeded", run.Failure.Kind)
	require.Equal(t, "maxTurns", run.Failure.Limit)
	require.Equal(t, "2", string(run.Failure.Value))
	require.Equal(t, "2", string(run.Failure.Used))
	require.Equal(t, "This far I came.", run.Output.Text)
	require.Len(t, w.model.Requests(), 3)

	second, third := w.asked(2), w.asked(3)
	require.Equal(t, second.Tools, third.Tools)
	require.Equal(t, "none", third.ToolChoice)
	require.NotEqual(t, "none", second.ToolChoice)
	require.Equal(t, "user", third.last().Role)
	require.Contains(t, third.last().text(), "maxTurns is reached")

	// The limit was this run's: the next one has its own.
	w.model.Enqueue(openaitest.Text("Hello.", 1))
	w.ends(w.run("Hello?").ID, "completed")
}

// turn 8.1: a model that calls all the same runs nothing.
func TestCallsOfTheClosingTurnDoNotRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	tool := w.outside("more", object{"kind": "read"})
	tool.answers(says(200, object{"result": "x"}))
	w.open(w.played([]string{tool.name}))
	w.model.Enqueue(openaitest.Calls(call("a", tool.name, object{})), openaitest.Calls(call("b", tool.name, object{})))
	run := w.ends(w.run("More.", object{"config": object{"limits": object{"maxToolRounds": 1}}}).ID, "failed")
	require.Equal(t, "maxToolRounds", run.Failure.Limit)
	calls := w.calls(run.ID)
	require.Equal(t, []string{"completed", "not_run"}, []string{calls[0].Status, calls[1].Status})
	soon(t, tool.calls)
	require.Empty(t, tool.calls)
	w.model.Enqueue(openaitest.Text("Hello.", 1))
	w.ends(w.run("Hello?").ID, "completed")
	require.Equal(t, []string{"user", "assistant", "tool", "user", "assistant", "tool", "user"}, w.asked(3).roles())
}

// turn 8.40: the same call that fails again and again ends with a last word.
func TestGoingInCircles(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"files.*"}))
	for range 3 {
		w.model.Enqueue(openaitest.Calls(call("a", "files.read", object{"path": "nowhere"})))
	}
	w.model.Enqueue(openaitest.Text("It is not there.", 1))
	run := w.ends(w.run("Read it.").ID, "failed")
	require.Equal(t, "tool", run.Failure.Kind)
	require.Equal(t, "maxRepeats", run.Failure.Limit)
	require.Equal(t, "It is not there.", run.Output.Text)
	require.Equal(t, "none", w.asked(4).ToolChoice)
}

// A call that does not fit is not sent.
func TestTooFewTokens(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played(nil, object{"limits": object{"maxTokens": 50}}))
	run := w.ends(w.run("Hello?").ID, "failed")
	require.Equal(t, "limit_exceeded", run.Failure.Kind)
	require.Equal(t, "maxTokens", run.Failure.Limit)
	require.Empty(t, w.model.Requests())
	w.post("/runs", object{"input": "Hello?", "config": object{"limits": object{"maxCostUsd": 1}}}).refused(422, "validation_failed")
}

// One call is under way when the time is up: it is aborted where it is made.
func TestTheTimeIsUp(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played(nil, object{"limits": object{"maxSeconds": 1}}))
	w.model.Enqueue(openaitest.Reply{Text: "Once upon a time", Chunks: 2, Hold: true})
	run := w.ends(w.run("A story.").ID, "failed")
	require.Equal(t, "limit_exceeded", run.Failure.Kind)
	require.Equal(t, "maxSeconds", run.Failure.Limit)
	soon(t, w.model.Requests()[0].Gone)
	require.True(t, w.model.Requests()[0].Aborted())
}

// The time in which a person is waited for is not the run's.
func TestWaitingForAPersonCostsNoTime(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"files.*"}, object{"limits": object{"maxSeconds": 2}}))
	w.model.Enqueue(openaitest.Calls(call("a", "files.write", object{"path": "a", "content": "A"})), openaitest.Text("Written.", 1))
	run := w.run("Write.")
	_, on := w.waits(run.ID, "approval")
	for range 3 {
		w.quiet()
	}
	w.post("/approvals/"+on.ID, object{"decision": "approve"}).is(200)
	ended := w.ends(run.ID, "completed")
	require.Greater(t, int64(ended.CompletedAt-ended.StartedAt), int64(2000))
}

// engine 10.94, I15: the window is cut in recorded steps, from a high mark to a
// low one, and begins with a user's message.
func TestTheWindowIsCut(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played(nil, object{"context": object{"window": object{"maxMessages": 6, "keep": 2}}}))
	const runs = 9
	for range runs {
		w.model.Enqueue(openaitest.Text("Yes.", 1))
		w.ends(w.run("And?").ID, "completed")
	}
	cuts := w.count("context.cut")
	require.Positive(t, cuts)
	before, broken := "", 0
	for i, r := range w.model.Requests() {
		asked := w.asked(i + 1)
		require.LessOrEqual(t, len(asked.Messages), 6)
		require.Equal(t, "user", asked.Messages[0].Role)
		messages := strings.TrimSuffix(r.Messages(), "]")
		if !strings.HasPrefix(messages, before) {
			broken++
		}
		before = messages
	}
	require.Equal(t, cuts, broken, "the prefix breaks where the log has a cut, and nowhere else")
	require.Less(t, cuts, runs/2)
	for _, e := range w.events() {
		if e.Kind == "context.cut" {
			require.Contains(t, string(e.Data), `"reason":"window"`)
		}
	}
}

// talk has n runs, each with its answer.
func (w *world) talk(n int) {
	w.Helper()
	for range n {
		w.model.Enqueue(openaitest.Text("A fact about whales.", 1))
		w.ends(w.run("Tell me more.").ID, "completed")
	}
}

// engine 10.91.
func TestCompactionByHand(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"files.*"}, object{"instructions": "You know whales."}))
	w.talk(5)
	w.model.Enqueue(openaitest.Text("They asked five times about whales.", 1))
	summary := read[api.ContextSummary](w.post("/compact", nil).is(202))
	require.Contains(t, []string{"pending", "running", "idle"}, summary.Compaction)
	w.happens("context.cut", 1)

	request := w.asked(6)
	require.Empty(t, request.Tools, "a summary is made without tools")
	require.Equal(t, "system", request.Messages[0].Role)
	require.Equal(t, "user", request.last().Role)

	c := read[api.Context](w.get("/context").is(200))
	require.Equal(t, "idle", c.Compaction)
	require.Equal(t, "summary", c.Entries[0].Source)
	require.Equal(t, "They asked five times about whales.", c.Entries[0].Parts[0].Text.Text)
	require.Len(t, c.Entries, 5, "the summary, and the last two answers with what led to them")

	w.talk(1)
	last := w.asked(7)
	require.Equal(t, []string{"system", "user", "user", "assistant", "user", "assistant", "user"}, last.roles())
	require.Equal(t, "You know whales.", last.Messages[0].text())
	require.Contains(t, last.Messages[1].text(), "They asked five times about whales.")
	require.NotEmpty(t, last.Tools)
}

// engine 10.93, T63: the provider says that it is too much, a summary is made,
// and the same run goes on.
func TestAContextLimitLeadsToASummary(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played(nil))
	w.talk(4)
	tooLong := openaitest.Refuse(400, "invalid_request_error", "context_length_exceeded", "This model's maximum context length is 100 tokens.")
	w.model.Enqueue(tooLong, openaitest.Text("Whales, mostly.", 1), openaitest.Text("They sing.", 1))
	run := w.ends(w.run("And do they sing?").ID, "completed")
	require.Equal(t, "They sing.", run.Output.Text)
	require.Equal(t, "run_5", run.ID)
	last := w.asked(7)
	require.Contains(t, last.Messages[0].text(), "Whales, mostly.")
	require.Equal(t, "And do they sing?", last.last().text())
	require.Equal(t, 1, w.count("context.cut"))
	require.Zero(t, w.count("run.failed"))
}

// engine 10.93, T63: what cannot be made to fit ends the run, and not the
// session.
func TestTooLargeForAnySummary(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played(nil))
	tooLong := openaitest.Refuse(400, "invalid_request_error", "context_length_exceeded", "This model's maximum context length is 100 tokens.")
	w.model.Enqueue(tooLong)
	run := w.ends(w.run(strings.Repeat("whale ", 1000)).ID, "failed")
	require.Equal(t, "context", run.Failure.Kind)
	w.model.Enqueue(openaitest.Text("Hello.", 1))
	w.ends(w.run("Hello?").ID, "completed")
	require.Len(t, w.asked(2).Messages, 1, "what did not fit is not sent again")
}

// engine 10.13-10.16, 10.95.
func TestTheContextIsEdited(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played(nil))
	w.talk(1)
	type patched = api.ContextPatched
	c := read[api.Context](w.get("/context").is(200))
	put := object{"put": []object{{"key": "instructions.facts", "role": "instructions", "input": "Ann is tall."}, {"key": "note", "role": "user", "input": "It is Monday."}}}
	first := read[patched](w.ask("PATCH", w.path("/context"), put, "If-Match", quoted(c.Revision)).is(200))
	require.Equal(t, []string{"applied", "applied"}, []string{first.Results[0].Status, first.Results[1].Status})
	require.Greater(t, first.Revision, c.Revision)
	same := read[patched](w.ask("PATCH", w.path("/context"), put).is(200))
	require.Equal(t, "unchanged", same.Results[0].Status)
	require.Equal(t, first.Revision, same.Revision)
	stale := w.ask("PATCH", w.path("/context"), put, "If-Match", quoted(c.Revision)).refused(409, "revision_conflict")
	require.Equal(t, []any{float64(c.Revision), float64(first.Revision)}, []any{stale.Expected, stale.Actual})

	c = read[api.Context](w.get("/context").is(200))
	var said string
	for _, e := range c.Entries {
		if e.Role == "assistant" {
			said = e.ID
		}
	}
	mixed := read[patched](w.ask("PATCH", w.path("/context"), object{
		"remove":  []string{"note", "nowhere"},
		"replace": []object{{"entry": said, "text": nil}, {"entry": "entry_999", "text": "x"}},
	}).is(200))
	require.Equal(t, []string{"removed", "absent", "applied"}, []string{mixed.Results[0].Status, mixed.Results[1].Status, mixed.Results[2].Status})
	require.Contains(t, []string{"absent", "failed"}, mixed.Results[3].Status)

	w.talk(1)
	last := w.asked(2)
	require.Equal(t, "system", last.Messages[0].Role)
	require.Equal(t, "Ann is tall.", last.Messages[0].text())
	for _, m := range last.Messages {
		require.NotContains(t, m.text(), "whales")
		require.NotContains(t, m.text(), "Monday")
	}
	require.True(t, read[api.Context](w.get("/context").is(200)).Entries[2].Redacted)
}
