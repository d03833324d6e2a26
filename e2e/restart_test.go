package e2e

import (
	"bytes"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/api"
)

// beside is another session of the same server, with a model of its own.
func (w *world) beside() *world {
	w.Helper()
	return on(w.T, w.target)
}

// powerCut kills the server and starts it again.
func (w *world) powerCut() {
	w.Helper()
	w.kill(w)
	w.start(w)
}

// T33, engine 10.1-10.3: a name is known over a restart.
func TestASubmissionSurvivesARestart(t *testing.T) {
	t.Parallel()
	w := ratherAlone(t)
	name := "make-" + w.session // what is shared keeps names for longer than a test
	w.open(w.played(nil))
	w.model.Enqueue(openaitest.Text("Once.", 1))
	first := w.run("Do it once.", object{"submissionId": "once"})
	w.ends(first.ID, "completed")
	made := read[api.Session](w.ask("POST", "/v1/sessions", object{"config": w.played(nil)}, "Idempotency-Key", name).is(201))

	if w.kill != nil {
		w.powerCut()
	}
	again := read[api.Run](w.post("/runs", object{"input": "Do it once.", "submissionId": "once"}).is(200))
	require.Equal(t, first.ID, again.ID)
	require.Equal(t, "Once.", again.Output.Text)
	byHeader := read[api.Run](w.post("/runs", object{"input": "Do it once."}, "Idempotency-Key", "once").is(200))
	require.Equal(t, first.ID, byHeader.ID)
	w.post("/runs", object{"input": "Do it twice.", "submissionId": "once"}).refused(409, "submission_conflict")
	w.post("/runs", object{"input": "Do it once.", "submissionId": "once", "config": object{"limits": object{"maxTurns": 3}}}).refused(409, "submission_conflict")
	w.post("/runs", object{"input": "Do it once.", "submissionId": "other"}, "Idempotency-Key", "once").refused(400, "invalid_request")
	replayed := w.ask("POST", "/v1/sessions", object{"config": w.played(nil)}, "Idempotency-Key", name).is(201)
	require.Equal(t, made.ID, read[api.Session](replayed).ID)
	require.Equal(t, "true", replayed.header.Get("Idempotency-Replayed"))
	require.Len(t, w.model.Requests(), 1)
	require.Equal(t, 1, w.count("run.accepted"))
}

// I11, T43, T49: the power goes while a model is being asked, a run is queued
// and a person is waited for. Everything goes on.
func TestThePowerGoesDuringAModelCall(t *testing.T) {
	t.Parallel()
	w := alone(t)
	w.open(w.played(nil))
	w.model.Enqueue(openaitest.Reply{Text: "The first half of", Chunks: 2, Hold: true}, openaitest.Text("The whole of it.", 3), openaitest.Text("Next.", 1))
	first := w.run("Tell me all.")
	soon(t, w.model.Seen(1))
	second := w.run("And then?")
	w.post("/runs/"+first.ID+"/steer", object{"input": "Slowly."}).is(202)

	asks := w.beside()
	asks.open(asks.played([]string{"files.*"}))
	asks.model.Enqueue(openaitest.Calls(call("a", "files.write", object{"path": "a", "content": "A"}), call("b", "files.list", object{})), openaitest.Text("Written.", 1))
	waiting := asks.run("Write.")
	_, on := asks.waits(waiting.ID, "approval")

	rests := w.beside()
	rests.open(rests.played([]string{"sleep"}))
	rests.model.Enqueue(openaitest.Calls(call("a", "sleep", object{"seconds": 2})), openaitest.Text("Awake.", 1))
	sleeping := rests.run("Rest.")
	rests.waits(sleeping.ID, "timer")

	w.powerCut()
	ended := w.ends(first.ID, "completed")
	require.Equal(t, "delivered", ended.Steering[0].Status)
	require.Equal(t, "Next.", ended.Output.Text, "the steer has taken one more turn")
	require.False(t, ended.Usage.Complete, "what the first attempt used is not known")
	require.Equal(t, 2, w.count("turn.completed"))
	w.model.Enqueue(openaitest.Text("The end.", 1))
	require.Equal(t, "The end.", w.ends(second.ID, "completed").Output.Text)

	// T11, T13, T17: a decision after it is one, and what ran has run.
	read[api.Run](asks.get("/runs/" + waiting.ID).is(200))
	asks.post("/approvals/"+on.ID, object{"decision": "approve"}).is(200)
	written := asks.ends(waiting.ID, "completed")
	require.Len(t, written.Approvals, 1, "nobody is asked twice")
	require.Equal(t, 2, asks.count("tool.started"))
	require.Equal(t, "Awake.", rests.ends(sleeping.ID, "completed").Output.Text)
}

// I6, T31, T43: the power goes while tools run. What may run twice does, under
// the same operation; what may not is unknown, and the model is told; what can
// be asked for is asked.
func TestThePowerGoesDuringTools(t *testing.T) {
	t.Parallel()
	w := alone(t)
	safe, once := w.outside("safe", object{"kind": "read", "retrySafe": true}), w.outside("once", object{"kind": "read"})
	known := w.outside("known", object{"kind": "read", "lookup": true})
	later := w.outside("later", object{"kind": "read"})
	later.answers(says(202, object{}))
	w.open(w.played([]string{safe.name, once.name, known.name, later.name}))
	w.model.Enqueue(
		openaitest.Calls(call("a", safe.name, object{}), call("b", once.name, object{}), call("c", known.name, object{}), call("d", later.name, object{})),
		openaitest.Calls(call("e", once.name, object{})),
		openaitest.Text("Checked.", 1),
	)
	run := w.run("Do all four.")
	first := soon(t, safe.calls)
	soon(t, once.calls)
	asked := soon(t, known.calls)
	promised := soon(t, later.calls)
	w.happens("promise.created", 1)

	w.kill(w)
	safe.answers(says(200, object{"result": "done"}))
	once.answers(says(200, object{"result": "done"}))
	known.answers(func(rw http.ResponseWriter, c outsideCall) {
		if c.lookup == asked.OperationID {
			says(200, object{"result": "it was done"})(rw, c)
			return
		}
		w.Errorf("a call that can be asked for was made again")
	})
	w.start(w)
	w.settle(promised.Promise.Token, object{"status": "resolved", "value": "at last"}).is(200)

	again := soon(t, safe.calls)
	require.Equal(t, first.OperationID, again.OperationID)
	require.Equal(t, first.key, again.key)
	require.Equal(t, 2, again.Attempt)
	require.Empty(t, once.calls, "it ran twice")
	waiting, on := w.waits(run.ID, "approval")
	calls := w.calls(run.ID)
	require.Equal(t, []string{"completed", "unknown", "completed", "completed"}, []string{calls[0].Status, calls[1].Status, calls[2].Status, calls[3].Status})
	require.Equal(t, "it was done", calls[2].Result.Text)
	require.Equal(t, "at last", calls[3].Result.Text)
	require.Contains(t, w.asked(2).Messages[3].text(), "may have")

	// The same call once more asks a person, whatever the policy says.
	require.Equal(t, "repeat_of_unknown", waiting.Approvals[0].Kind)
	require.Empty(t, once.calls)
	w.post("/approvals/"+on.ID, object{"decision": "approve"}).is(200)
	require.Equal(t, "Checked.", w.ends(run.ID, "completed").Output.Text)
	soon(t, once.calls)
}

// A deploy is no failure: what is under way comes to a commit, and goes on.
func TestAStopIsNoFailure(t *testing.T) {
	t.Parallel()
	w := alone(t)
	w.open(w.played([]string{"files.*"}, unasked))
	w.model.Enqueue(openaitest.Reply{Text: "Let me see", Chunks: 2, Hold: true}, openaitest.Calls(call("a", "files.list", object{})), openaitest.Text("Nothing.", 1))
	run := w.run("Look.")
	soon(t, w.model.Seen(1))
	w.stop(w)
	require.True(t, w.model.Requests()[0].Aborted())
	w.start(w)
	require.Equal(t, "Nothing.", w.ends(run.ID, "completed").Output.Text)
	for _, f := range w.failures() {
		require.Equal(t, "stopped", f.Class)
	}
}

// I2, engine 10.75: the log that a server gives out folds to where the session
// is, by the program that anybody has.
func TestTheLogReplays(t *testing.T) {
	t.Parallel()
	w := ratherAlone(t)
	w.open(w.played([]string{"files.*"}))
	w.model.Enqueue(openaitest.Calls(call("a", "files.write", object{"path": "a", "content": strings.Repeat("long ", 20000)})), openaitest.Text("Written.", 1))
	run := w.run("Write.")
	_, on := w.waits(run.ID, "approval")
	w.post("/approvals/"+on.ID, object{"decision": "approve"}).is(200)
	w.ends(run.ID, "completed")
	if w.kill != nil {
		w.powerCut()
	}

	head := read[api.Session](w.get("").is(200)).Head
	log := w.get("/log").is(200)
	require.Equal(t, "application/x-ndjson", log.header.Get("Content-Type"))
	require.Equal(t, int(head), bytes.Count(log.body, []byte("\n")))
	tail := w.get("/log?after=" + strconv.FormatUint(head-2, 10)).is(200)
	require.Equal(t, 2, bytes.Count(tail.body, []byte("\n")))
	require.True(t, bytes.HasSuffix(log.body, tail.body))
	require.Empty(t, w.get("/log?after="+strconv.FormatUint(head, 10)).is(200).body)
	w.get("/log?after="+strconv.FormatUint(head+1, 10)).refused(400, "invalid_request")

	program, err := built()
	require.NoError(t, err)
	replay := exec.Command(program, "replay")
	replay.Stdin = bytes.NewReader(log.body)
	out, err := replay.CombinedOutput()
	require.NoError(t, err, "%s", out)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, lines, int(head)+1)
	require.Contains(t, lines[head], "= after "+strconv.FormatUint(head, 10)+": open, idle")
	require.Contains(t, lines[head], "1 run(s), 2 model call(s), 1 tool call(s)")
}
