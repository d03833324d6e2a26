package shows

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/host"
)

const (
	// longCall is how long the model would talk if nobody stopped it, and stopped
	// how long it may go on when somebody does.
	longCall = 10 * time.Second
	stopped  = 2 * time.Second
	// busy is how often that is tried: this machine may be at something else, but
	// not each time.
	busy = 3
)

// A cancel in the middle of a call ends it where it is made, within two seconds,
// and the session goes on.
func TestACancelDuringAModelCall(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(nil)
	took := longCall
	for try := 1; try <= busy && took > stopped; try++ {
		w.model.Enqueue(openaitest.Reply{Text: "Once upon a time there was", Chunks: 2, Hold: true, HoldMs: longCall.Milliseconds()})
		calls := len(w.model.Requests())
		run := w.run("Tell me a long story.")
		soon(t, w.model.Seen(calls+1))
		w.post("/runs/"+run.ID+"/cancel", nil).is(http.StatusAccepted)
		asked := time.Now()
		soon(t, w.model.Requests()[calls].Gone)
		took = time.Since(asked)
		t.Logf("the call was aborted %v after the cancel was admitted", took)
		require.True(t, w.model.Requests()[calls].Aborted(), "the provider was left talking")
		w.until(run.ID, "cancelled")
	}
	require.LessOrEqual(t, took, stopped)

	calls := len(w.model.Requests())
	w.model.Enqueue(openaitest.Text("Short: no.", 1))
	require.Equal(t, "Short: no.", w.ends(w.run("Shorter?").ID))
	require.Equal(t, "Shorter?", last(w.asked(calls+1)))
}

// asking is a session whose model wants to write a file, which asks first.
func (w *world) asking() {
	w.open([]string{"files.*"})
	w.model.Enqueue(openaitest.Calls(call("a", "files.write", object{"path": "a.md", "content": "A"})), openaitest.Text("Written.", 1))
}

// The decision comes when nothing runs any more: the execution waits on a task
// token, and the decision's commit completes it.
func TestAnApprovalParksAndResumes(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.asking()
	run := w.run("Write.")
	on := w.waits(run.ID, "approval")
	parked := w.rests()
	require.EqualValues(t, 1, parked.Drive.Epoch)

	w.approve(on.ID)
	require.Equal(t, "Written.", w.ends(run.ID))
	require.Equal(t, []string{"completed"}, w.statuses(run.ID))
	head := w.driven(host.DriveIdle)
	require.EqualValues(t, 1, head.Drive.Epoch, "the execution that waited goes on")
	w.succeeds(w.execution(1))
	require.Equal(t, []string{"Model", "Next", "Wait", "Model", "Next", "Done"}, states(w.history(w.execution(1))))
	w.small("Written")
}

// The decision comes while the slice is still at work on another call of the
// same batch: it is carried out there and then.
func TestAnApprovalIsDecidedBeforeTheWait(t *testing.T) {
	t.Parallel()
	w := setup(t)
	slow := w.outside("slow", object{"kind": "read"})
	release := make(chan struct{})
	slow.answers(func(rw http.ResponseWriter, c outsideCall) {
		<-release
		says(http.StatusOK, object{"result": "slow"})(rw, c)
	})
	w.open([]string{"files.*", slow.name})
	w.model.Enqueue(openaitest.Calls(call("a", slow.name, object{}), call("b", "files.write", object{"path": "a.md", "content": "A"})), openaitest.Text("Both.", 1))
	run := w.run("Go.")
	soon(t, slow.calls)
	var pending string
	eventually(t, "nobody is asked", func() bool {
		if approvals := w.current(run.ID).Approvals; len(approvals) > 0 {
			pending = approvals[0].ID
		}
		return pending != ""
	})
	w.approve(pending)
	close(release)
	require.Equal(t, "Both.", w.ends(run.ID))
	require.Equal(t, []string{"completed", "completed"}, w.statuses(run.ID))
	w.driven(host.DriveIdle)
	w.succeeds(w.execution(1))
	require.Equal(t, []string{"Model", "Next", "Done"}, states(w.history(w.execution(1))), "there was nothing to wait for")
}

// The decision comes between the two: the driver has said that it will wait, and
// nobody has the token yet, because the function that would keep it is refused.
// Whoever comes to look next finds the decision. This test is alone on the
// stack: until then no session there can park.
//
//nolint:paralleltest // see above
func TestAnApprovalIsDecidedBeforeThePark(t *testing.T) {
	w := setup(t)
	w.asking()
	park := w.function(env.FunctionPark)
	_, err := w.lambda.PutFunctionConcurrency(t.Context(), &lambda.PutFunctionConcurrencyInput{FunctionName: &park, ReservedConcurrentExecutions: aws.Int32(0)})
	require.NoError(t, err)
	let := func() {
		_, err := w.lambda.DeleteFunctionConcurrency(context.WithoutCancel(t.Context()), &lambda.DeleteFunctionConcurrencyInput{FunctionName: &park})
		require.NoError(t, err)
	}
	t.Cleanup(let)
	run := w.run("Write.")
	on := w.waits(run.ID, "approval")
	refused := ""
	eventually(t, "the park is not refused", func() bool {
		for _, e := range w.history(w.execution(1)) {
			if e.TaskFailedEventDetails != nil {
				refused = aws.ToString(e.TaskFailedEventDetails.Error)
			}
		}
		return refused != ""
	})
	require.NotEqual(t, host.DriveParked, w.head().Drive.Status)
	w.approve(on.ID)
	let()
	require.Equal(t, "Written.", w.ends(run.ID))
	require.Equal(t, 1, w.count("tool.started"))
	head := w.driven(host.DriveIdle)
	w.succeeds(w.execution(head.Drive.Epoch))
	if refused != "Lambda.TooManyRequestsException" {
		t.Logf("the target says %s, so the machine gave the execution up and another one found the decision", refused)
		return
	}
	// The machine asks again, and the park completes its own token.
	require.EqualValues(t, 1, head.Drive.Epoch)
	require.Equal(t, []string{"Model", "Next", "Wait", "Model", "Next", "Done"}, states(w.history(w.execution(1))))
}

// A cancel of a run that waits: what was asked is closed, and the execution ends.
func TestACancelOfAParkedRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open([]string{"files.*"})
	w.model.Enqueue(openaitest.Calls(call("a", "files.write", object{"path": "a.md", "content": "A"})), openaitest.Text("At once.", 1))
	run := w.run("Write.")
	on := w.waits(run.ID, "approval")
	w.rests()
	w.post("/runs/"+run.ID+"/cancel", nil).is(http.StatusAccepted)
	w.until(run.ID, "cancelled")
	w.post("/approvals/"+on.ID, object{"decision": "approve"}).is(http.StatusConflict)
	w.driven(host.DriveIdle)
	w.succeeds(w.execution(1))
	require.Equal(t, "At once.", w.ends(w.run("And now?").ID))
}

// A cancel while a customer's function is at work, in a function of ours that the
// driver does not hear of: it is let go, and nobody knows how far it came.
func TestACancelDuringACustomersFunction(t *testing.T) {
	t.Parallel()
	w := setup(t)
	name := w.customer()
	w.open([]string{name})
	w.model.Enqueue(openaitest.Calls(call("a", name, object{"do": "sleep"})), openaitest.Text("At once.", 1))
	run := w.run("Ask it.")
	eventually(t, "the call does not start", func() bool { return w.count("tool.started") > 0 })
	w.post("/runs/"+run.ID+"/cancel", nil).is(http.StatusAccepted)
	w.until(run.ID, "cancelled")
	require.Equal(t, []string{"unknown"}, w.statuses(run.ID))
	require.Equal(t, "At once.", w.ends(w.run("And now?").ID))
	w.driven(host.DriveIdle)
}

// A session that is deleted while it waits: its execution ends, too.
func TestADeleteOfAParkedSession(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open([]string{"files.*"})
	w.model.Enqueue(openaitest.Calls(call("a", "files.write", object{"path": "a.md", "content": "A"})))
	run := w.run("Write.")
	w.waits(run.ID, "approval")
	w.rests()
	execution := w.execution(1)
	w.post("/close", object{}).is(http.StatusConflict)
	w.post("/close", object{"force": true}).is(http.StatusOK)
	w.ask(http.MethodDelete, w.path(""), nil).is(http.StatusNoContent)
	w.get("").is(http.StatusNotFound)
	w.succeeds(execution)
}
