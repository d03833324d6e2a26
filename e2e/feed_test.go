package e2e

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/api"
)

func (w *world) page(query string) api.Events {
	w.Helper()
	return read[api.Events](w.get("/events?" + query).is(200))
}

// engine 10.45, 10.86: pages in both directions have each event once, while more are
// written.
func TestEveryEventOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const turns = 60
	steps := make([]object, 0, turns+1)
	for range turns {
		steps = append(steps, object{"calls": []object{{"tool": "files.list", "arguments": object{}}}})
	}
	config := scripted([]string{"files.*"}, append(steps, object{"text": "Enough."})...)
	config["limits"] = object{"maxTurns": 100}
	w.open(config)
	run := w.run("Look and look again.")

	var wg sync.WaitGroup
	var forward []uint64
	wg.Go(func() {
		for after := uint64(0); ; {
			page := w.page("limit=7&wait=20&after=" + strconv.FormatUint(after, 10))
			for _, e := range page.Events {
				forward = append(forward, e.Seq)
				if e.Kind == "run.completed" {
					return
				}
			}
			after = page.Next
		}
	})
	w.happens("turn.completed", 10)
	var backward []uint64
	for before := "head"; ; {
		page := w.page("limit=5&before=" + before)
		seqs := make([]uint64, 0, len(page.Events))
		for _, e := range page.Events {
			seqs = append(seqs, e.Seq)
		}
		backward = append(seqs, backward...)
		if page.Complete {
			break
		}
		before = strconv.FormatUint(page.Next, 10)
	}
	wg.Wait()
	dense := func(seqs []uint64) {
		t.Helper()
		for i, seq := range seqs {
			require.Equal(t, uint64(i+1), seq)
		}
	}
	dense(forward)
	dense(backward)
	w.ends(run.ID, "completed")
	require.Len(t, forward, int(read[api.Session](w.get("").is(200)).Head))
	require.GreaterOrEqual(t, len(backward), 40)

	// What the feed says is what is stored, under the same number and kind.
	stored := strings.Split(strings.TrimSpace(string(w.get("/log").is(200).body)), "\n")
	for i, e := range w.events() {
		require.Contains(t, stored[i], `"`+e.Kind+`"`)
	}
}

// engine 10.87: a poll ends with an event, or after its time with none.
func TestALongPoll(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.open(w.played(nil))
	none := w.page("wait=1&after=" + strconv.FormatUint(s.Head, 10))
	require.Empty(t, none.Events)
	require.True(t, none.Complete)
	require.Equal(t, []uint64{s.Head, s.Head}, []uint64{none.Next, none.Head})

	w.model.Enqueue(openaitest.Text("Hello.", 1))
	got := make(chan api.Events, 1)
	go func() { got <- w.page("wait=20&after=" + strconv.FormatUint(s.Head, 10)) }()
	run := w.run("Hello?")
	require.NotEmpty(t, soon(t, got).Events)
	w.ends(run.ID, "completed")
}

// A run that is asked for with wait answers when it is over, or waits itself.
func TestWaitingForARun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"files.*"}))
	w.model.Enqueue(openaitest.Text("Hello.", 1), openaitest.Calls(call("a", "files.write", object{"path": "a", "content": "A"})))
	over := read[api.Run](w.post("/runs?wait=20", object{"input": "Hello?"}).is(202))
	require.Equal(t, "completed", over.Status)
	waiting := read[api.Run](w.post("/runs?wait=20", object{"input": "Write."}).is(202))
	require.Equal(t, "waiting", waiting.Status)
	w.post("/runs/"+waiting.ID+"/cancel", nil).is(202)
}

func TestWhatTheFeedRefuses(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.open(w.played(nil))
	beyond := strconv.FormatUint(s.Head+1, 10)
	for _, query := range []string{
		"after=1&before=1", "before=head&wait=1", "after=" + beyond, "before=" + strconv.FormatUint(s.Head+2, 10), "before=0", "limit=0", "limit=513",
		"limit=x", "after=-1", "after=x", "after=1.5", "wait=-1", "wait=x", "afer=1", "after=1&after=1", "before=tail",
	} {
		w.get("/events?"+query).refused(400, "invalid_request")
	}
	require.Len(t, w.page("").Events, int(s.Head))
	require.Len(t, w.page("before="+beyond).Events, int(s.Head))
	require.Empty(t, w.page("before=1").Events)
	require.True(t, w.page("before=1").Complete)
	require.Len(t, w.page("limit=512&wait=99").Events, int(s.Head))
	w.ask("GET", "/v1/sessions/nobody-"+w.session+"/events", nil).refused(404, "not_found")
}

// The feed resolves what is stored beside the events, up to 64 KiB.
func TestTheFeedResolvesTexts(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played(nil))
	small, large := strings.Repeat("s", 60<<10), strings.Repeat("l", 65<<10)
	w.model.Enqueue(openaitest.Text("1", 1), openaitest.Text("2", 1))
	w.ends(w.run(small).ID, "completed")
	w.ends(w.run(large).ID, "completed")
	var datas []string
	for _, e := range w.events() {
		if e.Kind == "run.accepted" {
			datas = append(datas, string(e.Data))
		}
	}
	require.Len(t, datas, 2)
	require.Contains(t, datas[0], small)
	require.NotContains(t, datas[0], `"ref"`)
	require.Contains(t, datas[1], `"ref":"sha256:`)
	require.Contains(t, datas[1], `"size":66560`)
	require.Less(t, len(datas[1]), 5000)
	stored := string(w.get("/log").is(200).body)
	require.NotContains(t, stored, small)
}

// Kinds are those of the contract.
func TestKinds(t *testing.T) {
	known := strings.Fields(`session.opened session.configured session.closed session.forked session.quarantined session.released
		run.accepted run.started run.steered run.steer_delivered run.steer_requeued run.steer_undelivered run.cancel_requested run.waiting run.resumed
		run.completed run.failed run.cancelled turn.requested turn.completed turn.failed turn.cancelled tools.published message.added
		tool.called tool.started tool.completed tool.late approval.requested approval.decided approval.remembered approval.forgotten
		question.asked question.answered promise.created promise.settled promise.detached
		context.edited context.cut context.compaction_started context.compaction_failed delivery.requested delivery.settled command.dead`)
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"files.*", "ask", "sleep"}))
	w.model.Enqueue(
		openaitest.Calls(call("a", "files.write", object{"path": "a", "content": "A"}), call("b", "ask", object{"questions": []object{{"id": "q", "prompt": "Q?", "defaults": []string{"x"}}}})),
		openaitest.Text("Done.", 1),
	)
	run := w.run("Go.")
	_, on := w.waits(run.ID, "approval")
	w.post("/approvals/"+on.ID, object{"decision": "reject"}).is(200)
	_, on = w.waits(run.ID, "question")
	w.post("/runs/"+run.ID+"/answers", object{"questionId": on.ID, "skip": true}).is(200)
	w.ends(run.ID, "completed")
	w.ask("PUT", w.path("/config"), w.played(nil)).is(200)
	w.post("/close", nil).is(200)
	for _, e := range w.events() {
		require.True(t, slices.Contains(known, e.Kind), "%s is no kind of the contract", e.Kind)
		require.Positive(t, int64(e.At))
	}
}
