package e2e

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/api"
)

// quiet lets a second pass in which the session does nothing: a server looks
// again at what is offered no oftener than that.
func (w *world) quiet() {
	w.Helper()
	s := read[api.Session](w.get("").is(200))
	require.Empty(w, w.page("wait=1&after="+strconv.FormatUint(s.Head, 10)).Events)
}

// T16, T66: a tool is gone when its call is approved, and comes back.
func TestAToolIsGoneForAWhile(t *testing.T) {
	t.Parallel()
	w := setup(t)
	tool := w.outside("mail", nil)
	tool.answers(says(200, object{"result": "sent"}))
	definition := read[map[string]any](w.ask("GET", "/v1/tools/"+tool.name, nil).is(200))
	delete(definition, "name")
	w.open(w.played([]string{tool.name}))
	w.model.Enqueue(openaitest.Calls(call("a", tool.name, object{})), openaitest.Text("Sent.", 1))
	run := w.run("Send it.")
	_, on := w.waits(run.ID, "approval")
	w.ask("DELETE", "/v1/tools/"+tool.name, nil).is(204)
	w.quiet()
	w.post("/approvals/"+on.ID, object{"decision": "approve"}).is(200)
	waiting, on := w.waits(run.ID, "tool")
	require.Equal(t, "approved", waiting.Approvals[0].Status)
	require.Equal(t, "call_1_1", on.ID)
	require.Empty(t, tool.calls)
	w.ask("PUT", "/v1/tools/"+tool.name, definition).is(201)
	require.Equal(t, "Sent.", w.ends(run.ID, "completed").Output.Text)
	soon(t, tool.calls)
	require.Empty(t, tool.calls)
}

// Row 9: what was approved is not what would run now: a person is asked again.
func TestAToolIsAnotherWhenItsCallIsApproved(t *testing.T) {
	t.Parallel()
	w := setup(t)
	tool := w.outside("mail", nil)
	tool.answers(says(200, object{"result": "sent"}))
	definition := read[map[string]any](w.ask("GET", "/v1/tools/"+tool.name, nil).is(200))
	delete(definition, "name")
	w.open(w.played([]string{tool.name}))
	w.model.Enqueue(openaitest.Calls(call("a", tool.name, object{})), openaitest.Text("Sent.", 1))
	run := w.run("Send it.")
	_, on := w.waits(run.ID, "approval")
	definition["url"] = definition["url"].(string) + "/elsewhere"
	w.ask("PUT", "/v1/tools/"+tool.name, definition).is(200)
	w.quiet()
	w.post("/approvals/"+on.ID, object{"decision": "approve"})
	require.Empty(t, tool.calls, "nothing runs under a decision on something else")
	again := w.until(run.ID, "waiting")
	pending := ""
	for _, a := range again.Approvals {
		if a.Status == "pending" {
			pending = a.ID
		}
	}
	require.NotEmpty(t, pending, "%+v", again.Approvals)
	require.NotEqual(t, on.ID, pending)
	w.post("/approvals/"+pending, object{"decision": "approve"}).is(200)
	w.ends(run.ID, "completed")
	soon(t, tool.calls)
	require.Empty(t, tool.calls)
}

// A tool may ask for a role: who lacks it may not call it, and is told nothing
// of its arguments.
func TestAToolForARole(t *testing.T) {
	t.Parallel()
	w := setup(t)
	tool := w.outside("pay", object{"kind": "read", "requiresRole": "treasurer"})
	tool.answers(says(200, object{"result": "paid"}))
	w.open(w.played([]string{tool.name}))
	w.model.Enqueue(openaitest.Calls(call("a", tool.name, object{})), openaitest.Text("I may not.", 1))
	run := read[api.Run](w.post("/runs", object{"input": "Pay."}, "Perdure-Actor", "ann").is(202))
	w.ends(run.ID, "completed")
	require.Contains(t, []string{"forbidden", "unavailable"}, w.calls(run.ID)[0].Status)
	require.Empty(t, tool.calls)
	w.model.Enqueue(openaitest.Calls(call("a", tool.name, object{})), openaitest.Text("Paid.", 1))
	run = read[api.Run](w.post("/runs", object{"input": "Pay."}, "Perdure-Actor", "ann", "Perdure-Roles", "treasurer").is(202))
	w.ends(run.ID, "completed")
	require.Equal(t, "completed", w.calls(run.ID)[0].Status)
	require.Equal(t, "ann", soon(t, tool.calls).Actor.ID)
}

// What a config grants is what the model is offered, as of its next turn.
func TestTheOfferFollowsTheConfig(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"files.read"}))
	w.talk(1)
	require.Len(t, w.asked(1).Tools, 1)
	w.ask("PUT", w.path("/config"), w.played([]string{"files.*", "ask"})).is(200)
	w.talk(1)
	require.Len(t, w.asked(2).Tools, 7)
	require.Equal(t, 2, w.count("tools.published"))
	w.ask("PUT", w.path("/config"), w.played(nil)).is(200)
	w.talk(1)
	require.Empty(t, w.asked(3).Tools)
}

// Named workspaces are the tenant's: what one session writes another reads, if
// it may.
func TestASharedWorkspace(t *testing.T) {
	t.Parallel()
	w := setup(t)
	name := "shared-" + w.session
	writes, reads := w.beside(), w.beside()
	writes.open(writes.played([]string{"files.*"}, unasked, object{"workspaces": []object{{"name": name, "access": "write"}}}))
	reads.open(reads.played([]string{"files.*"}, unasked, object{"workspaces": []object{{"name": name, "access": "read"}, {"name": "~", "access": "write"}}}))
	require.Equal(t, []api.Workspace{{Name: name, Access: "write"}}, read[api.Session](writes.get("").is(200)).Workspaces)
	writes.model.Enqueue(openaitest.Calls(call("a", "files.write", object{"path": "a.md", "content": "for all"})), openaitest.Text("1", 1))
	writes.ends(writes.run("Write.").ID, "completed")
	reads.model.Enqueue(
		openaitest.Calls(call("a", "files.read", object{"path": name + "/a.md"}), call("b", "files.write", object{"path": name + "/a.md", "content": "mine"}), call("c", "files.write", object{"path": "~/a.md", "content": "mine"})),
		openaitest.Text("2", 1),
	)
	run := reads.ends(reads.run("Read.").ID, "completed")
	calls := reads.calls(run.ID)
	require.Equal(t, []string{"completed", "failed", "completed"}, []string{calls[0].Status, calls[1].Status, calls[2].Status})
	require.Contains(t, calls[0].Result.Text, "for all")
	require.Equal(t, "~/a.md", calls[2].Effects[0].Subject)
}

// A summary that cannot be had is said, and holds nobody up.
func TestACompactionFails(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played(nil))
	w.talk(4)
	w.model.Enqueue(openaitest.Refuse(400, "invalid_request_error", "invalid_value", "No."))
	w.post("/compact", nil).is(202)
	w.happens("context.compaction_failed", 1)
	c := read[api.Context](w.get("/context").is(200))
	require.Equal(t, "failed", c.Compaction)
	require.Len(t, c.Entries, 8)
	w.talk(1)
	require.Len(t, w.asked(6).Messages, 9)
}

// engine 10.2: while a summary is made runs queue, and a close takes it back.
func TestRunsQueueBehindACompaction(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played(nil))
	w.talk(4)
	slow, release := gated(openaitest.Text("A summary.", 1))
	w.model.Enqueue(slow, openaitest.Text("Next.", 1))
	w.post("/compact", nil).is(202)
	soon(t, w.model.Seen(5))
	s := read[api.Session](w.get("").is(200))
	require.Equal(t, "compacting", s.Activity)
	require.Equal(t, "running", s.Context.Compaction)
	run := w.run("Next?")
	require.Equal(t, "queued", run.Status)
	w.post("/compact", nil).is(202)
	release()
	w.ends(run.ID, "completed")
	require.Contains(t, w.asked(6).Messages[0].text(), "A summary.")

	again, releaseAgain := gated(openaitest.Text("Never used.", 1))
	w.talk(3)
	n := len(w.model.Requests())
	w.model.Enqueue(again)
	w.post("/compact", nil).is(202)
	soon(t, w.model.Seen(n+1))
	w.post("/close", object{"force": true}).is(200)
	soon(t, w.model.Requests()[n].Gone)
	releaseAgain()
	require.Equal(t, "closed", read[api.Session](w.get("").is(200)).Status)
}

// T61: reasoning goes back to the model that made it, byte for byte, and to no
// other.
func TestReasoningStaysWithItsModel(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.model.Rules.MessageFields = []string{"reasoning_content"}
	w.open(w.played([]string{"files.*"}))
	thought := openaitest.Calls(call("a", "files.list", object{}))
	thought.Reasoning = "First \u00e9 I\nlook <around>."
	w.model.Enqueue(thought, openaitest.Text("Nothing.", 1), openaitest.Text("Other.", 1))
	w.ends(w.run("Look.").ID, "completed")
	require.Contains(t, w.model.Requests()[1].Messages(), `"reasoning_content":"First é I\nlook <around>."`)
	w.ends(w.run("Again.", object{"config": object{"model": "another-model"}}).ID, "completed")
	require.NotContains(t, w.model.Requests()[2].Messages(), "look <around>")
}

// A blob of the session is a part of an input; another session's is not.
func TestABlobIsAPart(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"files.*"}, unasked))
	w.model.Enqueue(openaitest.Calls(call("a", "files.write", object{"path": "a", "content": strings.Repeat("z", 70<<10)})), openaitest.Text("1", 1), openaitest.Text("2", 1))
	run := w.ends(w.run("Write.").ID, "completed")
	var calls struct {
		Items []struct{ Arguments struct{ Ref string } }
	}
	require.NoError(t, json.Unmarshal(w.get("/runs/"+run.ID+"/calls").is(200).body, &calls))
	ref := calls.Items[0].Arguments.Ref
	require.NotEmpty(t, ref)
	input := []object{{"type": "text", "text": "Look at this."}, {"type": "blob", "ref": ref, "mediaType": "text/plain", "name": "a.txt"}}
	next := w.ends(w.run(input).ID, "completed")
	require.Equal(t, ref, next.Input[1].Ref)
	require.Equal(t, "a.txt", next.Input[1].Name)

	other := w.beside()
	other.open(other.played(nil))
	other.post("/runs", object{"input": input}).refused(422, "validation_failed")
}

// Money is counted where a price is known.
func TestMoney(t *testing.T) {
	t.Parallel()
	w := setup(t)
	config := scripted([]string{"files.*"}, object{"calls": []object{{"tool": "files.list"}}, "usage": object{"input": 1000, "output": 1000}}, object{"text": "Done.", "usage": object{"input": 1000, "output": 1000}})
	config["model"].(object)["params"].(object)["prices"] = object{"input": 1000000, "output": 2000000}
	w.open(config)
	run := w.ends(w.run("Go.").ID, "completed")
	require.Equal(t, api.USD(6000), *run.Usage.CostUSD, "two thousand tokens at a dollar and two thousand at two a million")
	require.Equal(t, api.USD(6000), *read[api.Session](w.get("").is(200)).Usage.CostUSD)
}

// What a session is doing is found in lists.
func TestSessionsByActivity(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.ask("POST", "/v1/sessions", object{"id": w.session, "config": w.played([]string{"files.*"}), "metadata": object{"suite": w.session}}).is(201)
	list := func(activity string) int {
		t.Helper()
		return len(read[api.Page[api.SessionSummary]](w.ask("GET", "/v1/sessions?metadata.suite="+w.session+"&activity="+activity, nil).is(200)).Items)
	}
	require.Equal(t, 1, list("idle"))
	slow, release := gated(openaitest.Calls(call("a", "files.write", object{"path": "a", "content": "A"})))
	w.model.Enqueue(slow)
	run := w.run("Go.")
	soon(t, w.model.Seen(1))
	require.Equal(t, []int{1, 0, 0}, []int{list("running"), list("idle"), list("waiting")})
	release()
	w.waits(run.ID, "approval")
	require.Equal(t, []int{0, 0, 1}, []int{list("running"), list("idle"), list("waiting")})
	w.post("/runs/"+run.ID+"/cancel", nil).is(202)
	w.ends(run.ID, "cancelled")
	require.Equal(t, []int{0, 1, 0}, []int{list("running"), list("idle"), list("waiting")})
	for _, query := range []string{"activity=queued", "status=all&kind=some", "status=done", "metadata.=x", "root=%00"} {
		if query != "root=%00" {
			w.ask("GET", "/v1/sessions?"+query, nil).refused(400, "invalid_request")
		}
	}
	require.Len(t, read[api.Page[api.SessionSummary]](w.ask("GET", "/v1/sessions?root="+w.session, nil).is(200)).Items, 1)
	require.Empty(t, read[api.Page[api.SessionSummary]](w.ask("GET", "/v1/sessions?parent="+w.session, nil).is(200)).Items)
}
