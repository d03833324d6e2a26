package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/api"
)

// The file tools on the workspace that the server really has.
func TestFileTools(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"files.*"}, unasked))
	w.model.Enqueue(
		openaitest.Calls(call("a", "files.write", object{"path": "notes/today.md", "content": "one\ntwo\nthree\n"})),
		openaitest.Calls(call("b", "files.read", object{"path": "notes/today.md", "offset": 2, "limit": 1})),
		openaitest.Calls(call("c", "files.edit", object{"path": "notes/today.md", "old": "two", "new": "zwei"})),
		openaitest.Calls(
			call("d", "files.grep", object{"pattern": "zw.i"}),
			call("e", "files.glob", object{"pattern": "**/*.md"}),
			call("f", "files.list", object{"path": "notes"}),
			call("g", "files.read", object{"path": "notes/today.md"}),
		),
		openaitest.Text("Done.", 1),
	)
	run := w.ends(w.run("Write notes.").ID, "completed")
	require.Equal(t, "Done.", run.Output.Text)

	calls := w.calls(run.ID)
	require.Len(t, calls, 7)
	for _, c := range calls {
		require.Equal(t, "completed", c.Status, "%s: %+v", c.Tool, c)
	}
	require.Equal(t, []api.ToolEffect{{Kind: "file.written", Subject: calls[0].Effects[0].Subject, Detail: calls[0].Effects[0].Detail}}, calls[0].Effects)
	require.Contains(t, calls[0].Effects[0].Subject, "notes/today.md")
	require.Contains(t, calls[1].Result.Text, "two")
	require.NotContains(t, calls[1].Result.Text, "three")
	require.Contains(t, calls[3].Result.Text, "zwei")
	require.Contains(t, calls[4].Result.Text, "notes/today.md")
	require.Contains(t, calls[5].Result.Text, "today.md")
	require.Contains(t, calls[6].Result.Text, "one\nzwei\nthree\n")
	require.Equal(t, "action", calls[0].Kind)
	require.Equal(t, "read", calls[1].Kind)
	require.Equal(t, int64(7), run.Usage.ToolCalls)

	last := w.asked(5)
	require.Equal(t, []string{"user", "assistant", "tool", "assistant", "tool", "assistant", "tool", "assistant", "tool", "tool", "tool", "tool"}, last.roles())
	require.Equal(t, "g", last.last().ToolCallID)
	require.Len(t, last.Tools, 6)
}

// engine 10.69, 10.70; T21, T25: the model reads the refusal and why.
func TestACallIsRejected(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"files.*"}))
	w.model.Enqueue(
		openaitest.Calls(call("a", "files.write", object{"path": "a.md", "content": "A"}), call("b", "files.list", object{})),
		openaitest.Calls(call("c", "files.write", object{"path": "a.md", "content": "A"})),
		openaitest.Text("Then not.", 1),
	)
	run := w.run("Write a.md.")
	waiting, on := w.waits(run.ID, "approval")
	require.Equal(t, "completed", w.calls(run.ID)[1].Status, "the call that asks nobody need not wait")
	require.Len(t, waiting.Approvals, 1)
	approval := waiting.Approvals[0]
	require.Equal(t, on.ID, approval.ID)
	require.Equal(t, "files.write", approval.Tool)
	require.JSONEq(t, `{"path":"a.md","content":"A"}`, string(approval.Arguments))

	rejected := read[api.Approval](w.post("/approvals/"+approval.ID, object{"decision": "reject", "note": "Not in this folder."}).is(200))
	require.Equal(t, "rejected", rejected.Status)
	require.Equal(t, "person", rejected.DecidedVia)
	require.Equal(t, "key", rejected.Via)
	soon(t, w.model.Seen(2))
	second := w.asked(2)
	require.Equal(t, []string{"user", "assistant", "tool", "tool"}, second.roles())
	require.Contains(t, second.Messages[2].text(), "Not in this folder.")
	require.Contains(t, second.Messages[2].text(), "declined this call and it did not run")

	// One refusal bans nothing: the same call asks again, and may run.
	waiting, on = w.waits(run.ID, "approval")
	require.NotEqual(t, approval.ID, on.ID)
	w.post("/approvals/"+on.ID, object{"decision": "approve"}).is(200)
	require.Equal(t, "Then not.", w.ends(run.ID, "completed").Output.Text)
	calls := w.calls(run.ID)
	require.Equal(t, "rejected", calls[0].Status)
	require.Equal(t, "completed", calls[2].Status)
	require.Equal(t, on.ID, calls[2].ApprovalID)
	require.Len(t, waiting.Approvals, 2)
}

// T12: the tool gets the edit, the model's words stay, and the result says what
// a person made of them.
func TestACallIsEdited(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"files.*"}))
	w.model.Enqueue(
		openaitest.Calls(call("a", "files.write", object{"path": "a.md", "content": "from the model"})),
		openaitest.Calls(call("b", "files.read", object{"path": "b.md"})),
		openaitest.Text("As you wish.", 1),
	)
	run := w.run("Write a.md.")
	_, on := w.waits(run.ID, "approval")
	w.post("/approvals/"+on.ID, object{"decision": "approve", "arguments": object{"path": 7}}).refused(422, "validation_failed")
	require.Equal(t, "pending", w.until(run.ID, "waiting").Approvals[0].Status)
	edited := read[api.Approval](w.post("/approvals/"+on.ID, object{
		"decision": "approve", "arguments": object{"path": "b.md", "content": "from a person"},
	}).is(200))
	require.JSONEq(t, `{"path":"b.md","content":"from a person"}`, string(edited.EditedArguments))
	require.JSONEq(t, `{"path":"a.md","content":"from the model"}`, string(edited.Arguments))
	require.Equal(t, "As you wish.", w.ends(run.ID, "completed").Output.Text)

	calls := w.calls(run.ID)
	require.JSONEq(t, `{"path":"a.md","content":"from the model"}`, string(calls[0].Arguments))
	require.JSONEq(t, `{"path":"b.md","content":"from a person"}`, string(calls[0].EditedArguments))
	require.Contains(t, calls[1].Result.Text, "from a person")

	second := w.asked(2)
	require.JSONEq(t, `{"path":"a.md","content":"from the model"}`, second.Messages[1].ToolCalls[0].Function.Arguments)
	require.Contains(t, second.last().text(), "person changed")
	require.Contains(t, second.last().text(), "b.md")
}

// engine 10.48: three calls of one turn, the middle one fails.
func TestOneOfThreeCallsFails(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"files.*"}, unasked))
	w.model.Enqueue(
		openaitest.Calls(call("a", "files.list", object{}), call("b", "files.read", object{"path": "nowhere.md"}), call("c", "files.glob", object{"pattern": "*"})),
		openaitest.Text("One is missing.", 1),
	)
	run := w.ends(w.run("Look.").ID, "completed")
	calls := w.calls(run.ID)
	require.Equal(t, []string{"completed", "failed", "completed"}, []string{calls[0].Status, calls[1].Status, calls[2].Status})
	require.Equal(t, "no such file", calls[1].Error.Text)
	second := w.asked(2)
	require.Equal(t, []string{"user", "assistant", "tool", "tool", "tool"}, second.roles())
	for i, id := range []string{"a", "b", "c"} {
		require.Equal(t, id, second.Messages[2+i].ToolCallID)
	}
}

// T67, turn 8.5: what cannot run is asked of nobody.
func TestABadCallAsksNobody(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"files.*"}))
	w.model.Enqueue(
		openaitest.Calls(call("a", "files.write", `{"path": "a.md", `), call("b", "files.write", object{"path": "a.md"}), call("c", "web.fetch", object{"url": "http://x"})),
		openaitest.Text("I see.", 1),
	)
	run := w.ends(w.run("Write.").ID, "completed")
	calls := w.calls(run.ID)
	require.Equal(t, []string{"invalid", "invalid"}, []string{calls[0].Status, calls[1].Status})
	require.Contains(t, []string{"forbidden", "unavailable"}, calls[2].Status)
	require.Empty(t, run.Approvals)
}

// T10, T15, T19: three calls alike, each with a decision of its own.
func TestThreeCallsAlikeAreDecidedApart(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"files.*"}))
	same := object{"path": "a.md", "content": "A"}
	w.model.Enqueue(openaitest.Calls(call("a", "files.write", same), call("b", "files.write", same), call("c", "files.write", same)), openaitest.Text("Good.", 1))
	run := w.run("Write a.md three times.")
	waiting, _ := w.waits(run.ID, "approval")
	require.Len(t, waiting.Approvals, 3)
	ids := make([]string, 3)
	for i, a := range waiting.Approvals {
		ids[i] = a.ID
	}
	w.post("/approvals/"+ids[2], object{"decision": "approve"}).is(200)
	w.post("/approvals/"+ids[0], object{"decision": "reject", "note": "no"}).is(200)
	require.Len(t, w.model.Requests(), 1, "the run goes on when all are decided")
	w.post("/approvals/"+ids[1], object{"decision": "approve", "arguments": object{"path": "b.md", "content": "B"}}).is(200)
	run = w.ends(run.ID, "completed")
	calls := w.calls(run.ID)
	require.Equal(t, []string{"rejected", "completed", "completed"}, []string{calls[0].Status, calls[1].Status, calls[2].Status})
	require.NotEmpty(t, calls[1].EditedArguments)
	require.Empty(t, calls[2].EditedArguments)
	require.Len(t, run.Approvals, 3)
}

// engine 10.71: decisions of one request, each alone.
func TestDecisionsInOneRequest(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"files.*"}))
	w.model.Enqueue(
		openaitest.Calls(call("a", "files.write", object{"path": "a.md", "content": "A"}), call("b", "files.write", object{"path": "b.md", "content": "B"})),
		openaitest.Text("Good.", 1),
	)
	run := w.run("Write two files.")
	waiting, _ := w.waits(run.ID, "approval")
	one, two := waiting.Approvals[0].ID, waiting.Approvals[1].ID
	decided := read[api.ApprovalsDecided](w.post("/runs/"+run.ID+"/approvals", object{"decisions": []object{
		{"approvalId": one, "decision": "approve"},
		{"approvalId": "approval_999", "decision": "approve"},
		{"approvalId": two, "decision": "reject", "note": strings.Repeat("x", 2001)},
		{"approvalId": "nonsense", "decision": "approve"},
	}}).is(200))
	require.Len(t, decided.Results, 4)
	require.Equal(t, api.DecisionResult{ApprovalID: one, Status: "approved"}, decided.Results[0])
	require.Equal(t, "not_found", decided.Results[1].Code)
	require.NotEmpty(t, decided.Results[2].Code)
	require.Equal(t, "invalid_request", decided.Results[3].Code)
	require.Empty(t, decided.Results[3].ApprovalID)

	again := w.post("/approvals/"+one, object{"decision": "approve"}).is(200)
	require.Equal(t, "approved", read[api.Approval](again).Status)
	other := w.post("/approvals/"+one, object{"decision": "reject"}).refused(409, "already_decided")
	require.Equal(t, "approved", other.Actual)
	require.NotEmpty(t, other.DecidedBy)
	require.Regexp(t, instant, other.DecidedAt)
	w.post("/approvals/"+two, object{"decision": "approve"}).is(200)
	w.ends(run.ID, "completed")
}
