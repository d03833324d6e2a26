package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/api"
)

// engine 10.6, 10.36, 10.84.
func TestClosingAndDeleting(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played(nil))
	w.ask("DELETE", w.path(""), nil).refused(409, "session_open")
	slow, release := gated(openaitest.Text("A.", 1))
	w.model.Enqueue(slow)
	run := w.run("A")
	soon(t, w.model.Seen(1))
	w.post("/close", nil).refused(409, "session_busy")
	release()
	w.ends(run.ID, "completed")
	s := read[api.Session](w.post("/close", nil).is(200))
	require.Equal(t, "closed", s.Status)
	require.NotZero(t, s.ClosedAt)
	w.post("/close", nil).refused(409, "session_closed")
	w.post("/close", object{"force": true}).is(200)
	w.post("/runs", object{"input": "B"}).refused(409, "session_closed")
	w.ask("PUT", w.path("/config"), w.played(nil)).refused(409, "session_closed")
	w.post("/compact", nil).refused(409, "session_closed")
	require.Equal(t, "A.", read[api.Run](w.get("/runs/"+run.ID).is(200)).Output.Text, "history can be read")

	w.ask("DELETE", w.path(""), nil).is(204)
	for _, path := range []string{"", "/runs", "/runs/run_1", "/runs/run_1/calls", "/events", "/context", "/log", "/promises"} {
		w.get(path).refused(404, "not_found")
	}
	w.ask("DELETE", w.path(""), nil).refused(404, "not_found")
	w.post("/runs", object{"input": "B"}).refused(404, "not_found")
}

// engine 10.36, T50: a session that is busy is closed all the same, in one
// commit.
func TestForceClose(t *testing.T) {
	t.Parallel()
	w := setup(t)
	tool := w.outside("later", object{"kind": "read"})
	tool.answers(says(202, object{}))
	w.open(w.played([]string{tool.name}))
	w.model.Enqueue(openaitest.Calls(call("a", tool.name, object{})))
	run := w.run("A")
	got := soon(t, tool.calls)
	w.waits(run.ID, "promise")
	queued := w.run("B")
	before := read[api.Session](w.get("").is(200)).Head
	s := read[api.Session](w.post("/close", object{"force": true}).is(200))
	require.Equal(t, "closed", s.Status)
	require.Equal(t, "idle", s.Activity)
	require.Equal(t, "cancelled", read[api.Run](w.get("/runs/"+run.ID).is(200)).Status)
	require.Equal(t, "cancelled", read[api.Run](w.get("/runs/"+queued.ID).is(200)).Status)
	require.Equal(t, "cancelled", w.settle(got.Promise.Token, object{"status": "resolved", "value": 1}).refused(409, "already_decided").Actual)
	last := w.events()[before:]
	require.Equal(t, "session.closed", last[len(last)-1].Kind)
	for _, e := range last {
		require.Equal(t, last[0].At, e.At, "all of it is one commit")
	}
}

// T84: an id that is used again is another session: nothing of the first is in
// it, and what was out for the first does not reach it.
func TestAnIdIsUsedAgain(t *testing.T) {
	t.Parallel()
	w := setup(t)
	tool := w.outside("later", object{"kind": "read"})
	tool.answers(says(202, object{}))
	w.open(w.played([]string{tool.name, "files.*"}, unasked))
	w.model.Enqueue(openaitest.Calls(call("a", "files.write", object{"path": "a", "content": "the first"})), openaitest.Calls(call("b", tool.name, object{})))
	run := w.run("A", object{"submissionId": "same"})
	got := soon(t, tool.calls)
	w.waits(run.ID, "promise")
	w.post("/close", object{"force": true}).is(200)
	w.ask("DELETE", w.path(""), nil).is(204)
	w.settle(got.Promise.Token, object{"status": "resolved", "value": 1}).refused(404, "not_found")

	w.poll(func() bool {
		// Until all of it is gone the id is taken.
		a := w.ask("POST", "/v1/sessions", object{"id": w.session, "config": w.played([]string{"files.*"})})
		if a.status != 201 {
			a.refused(409, "already_exists")
		}
		return a.status == 201
	})
	w.settle(got.Promise.Token, object{"status": "resolved", "value": 1}).refused(404, "not_found")
	require.Empty(t, read[api.Page[api.Run]](w.get("/runs").is(200)).Items)
	w.model.Enqueue(openaitest.Calls(call("a", "files.list", object{})), openaitest.Text("Nothing.", 1))
	fresh := w.run("B", object{"submissionId": "same"})
	require.Equal(t, "run_1", fresh.ID)
	w.ends(fresh.ID, "completed")
	require.NotContains(t, w.calls(fresh.ID)[0].Result.Text, "a")
}

// engine 10.83, 10.9: lists.
func TestListingSessions(t *testing.T) {
	t.Parallel()
	w := setup(t)
	label := "of-" + w.session
	ids := make([]string, 5)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s.%d", w.session, i)
		w.ask("POST", "/v1/sessions", object{"id": ids[i], "name": fmt.Sprintf("Number %d", i), "config": w.played(nil), "metadata": object{"suite": label, "n": strconv.Itoa(i)}}).is(201)
	}
	mine := "/v1/sessions?metadata.suite=" + label
	list := func(query string) (found []string) {
		t.Helper()
		newer := "9"
		w.pages(mine+query, func(item map[string]any) {
			at := item["updatedAt"].(string)
			require.LessOrEqual(t, at, newer, "newest update first")
			found, newer = append(found, item["id"].(string)), at
		})
		return found
	}
	// Those of one millisecond stand in any order, and keep to it.
	reversed := list("")
	require.ElementsMatch(t, ids, reversed)
	require.Equal(t, reversed, list("&limit=2"))
	without := func(all []string, id string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == id })
	}
	require.Equal(t, []string{ids[3]}, list("&metadata.n=3"))
	require.Len(t, list("&metadata.n="), 5)
	require.Empty(t, list("&metadata.m="))
	require.Equal(t, []string{ids[2]}, list("&q=number%202"))

	// A name and metadata do not move a session, a run does.
	w.ask("PATCH", "/v1/sessions/"+ids[0], object{"name": "Other", "metadata": object{"x": "y"}}).is(200)
	require.Equal(t, reversed, list(""))
	w.model.Enqueue(openaitest.Text("Hello.", 1))
	w.session = ids[1]
	w.ends(w.run("Hello?").ID, "completed")
	moved := append([]string{ids[1]}, without(reversed, ids[1])...)
	require.Equal(t, moved, list(""))
	w.ask("POST", "/v1/sessions/"+ids[2]+"/close", nil).is(200)
	require.Equal(t, without(moved, ids[2]), list(""))
	require.Equal(t, []string{ids[2]}, list("&status=closed"))
	require.Equal(t, append([]string{ids[2]}, without(moved, ids[2])...), list("&status=all"))
	require.Len(t, list("&status=all&kind=all&activity=idle"), 5)
	require.Empty(t, list("&activity=running"))

	// T76: a cursor is good for its own list alone.
	next := read[api.Page[api.SessionSummary]](w.ask("GET", mine+"&limit=2", nil).is(200)).Next
	for _, path := range []string{
		"/v1/sessions?metadata.suite=other&cursor=" + next, "/v1/sessions?cursor=" + next, "/v1/approvals?cursor=" + next,
		"/v1/sessions/" + ids[1] + "/runs?cursor=" + next, mine + "&cursor=A" + next[1:], mine + "&cursor=x", mine + "&cursor=" + next[:len(next)-2],
	} {
		if path != mine+"&cursor=A"+next[1:] || next[0] != 'A' {
			w.ask("GET", path, nil).refused(400, "invalid_request")
		}
	}
	w.ask("GET", mine+"&limit=1&cursor="+next, nil).is(200)
}

// engine 10.11.
func TestConfiguring(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.open(w.played(nil))
	path := w.path("/config")
	same := read[api.Session](w.ask("PUT", path, w.played(nil), "If-Match", quoted(s.ConfigRevision)).is(200))
	require.Equal(t, s.ConfigRevision, same.ConfigRevision)
	changed := read[api.Session](w.ask("PUT", path, w.played([]string{"files.*"}, object{"instructions": "Be brief."})).is(200))
	require.Equal(t, s.ConfigRevision+1, changed.ConfigRevision)
	stale := w.ask("PUT", path, w.played(nil), "If-Match", quoted(s.ConfigRevision)).refused(409, "revision_conflict")
	require.Equal(t, []any{float64(s.ConfigRevision), float64(changed.ConfigRevision)}, []any{stale.Expected, stale.Actual})
	back := read[api.Session](w.ask("PUT", path, changed.Config).is(200))
	require.Equal(t, changed.ConfigRevision, back.ConfigRevision, "what was read, written back, changes nothing")

	slow, release := gated(openaitest.Text("A.", 1))
	w.model.Enqueue(slow)
	run := w.run("A")
	soon(t, w.model.Seen(1))
	w.ask("PUT", path, w.played(nil)).refused(409, "session_busy")
	w.ask("PUT", path, changed.Config).is(200)
	release()
	w.ends(run.ID, "completed")
}

// Ids may be as long and as strange as the contract lets them be, everywhere.
func TestIdsOfEveryShape(t *testing.T) {
	t.Parallel()
	w := setup(t)
	random := w.session[len("e2e-"):]
	for _, id := range []string{
		"Z" + strings.Repeat("9.", 50) + random + "x", random + ":" + strings.Repeat("_", 101-1) + "-", "CON." + random, random + "..a", "0" + random,
	} {
		id = id[:min(len(id), 128)]
		w.session = id
		w.open(w.played([]string{"files.*"}, unasked))
		n := len(w.model.Requests())
		w.model.Enqueue(openaitest.Calls(call("a", "files.write", object{"path": "a", "content": id})), openaitest.Calls(call("b", "files.read", object{"path": "a"})), openaitest.Text("Done.", 1))
		run := w.ends(w.run("Go.", object{"submissionId": strings.Repeat("~", 128)}).ID, "completed")
		require.Contains(t, w.calls(run.ID)[1].Result.Text, id)
		require.Equal(t, "tool", w.asked(n+3).last().Role)
		require.Equal(t, id, run.SessionID)
		w.post("/close", nil).is(200)
		w.ask("DELETE", w.path(""), nil).is(204)
	}
}
