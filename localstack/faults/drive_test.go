package faults

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssfn "github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/host"
)

// T43: a drive is killed while it waits for a model. The next activation makes
// the call again, and the log says so.
func TestT43ADriveKilledInMidSlice(t *testing.T) {
	t.Parallel()
	w := visit(t)
	w.mortal()
	once := w.outside(nil)
	w.open(once.name)
	w.model.Enqueue(
		openaitest.Calls(call("a", once)), openaitest.Reply{Text: "The first half of", Chunks: 2, Hold: true},
		openaitest.Text("The whole of it.", 2),
	)
	run := w.run("Do it, and tell me.")
	w.kill(w.model.asked(t, 2))

	require.Equal(t, "The whole of it.", w.until(run, "completed").Output.Text)
	h := w.sound()
	require.EqualValues(t, 2, h.Drive.Epoch)
	require.Zero(t, h.Failures, "a result has come since")
	require.Len(t, w.model.Requests(), 3)
	require.Equal(t, 1, w.count("turn.requested", `"attempt":2`))
	require.Equal(t, []string{"Model", "Recover", "Next", "Done"}, w.states(w.name(1)))
	require.Len(t, once.done(), 1)
}

// A drive is killed in the middle of a call that must not be made twice: it is
// not, and the model is told that nobody knows.
func TestADriveKilledInACall(t *testing.T) {
	t.Parallel()
	w := visit(t)
	w.mortal()
	once, again := w.outside(nil), w.outside(object{"kind": "read", "retrySafe": true})
	w.open(once.name, again.name)
	hold := func(a arrival) (int, object) {
		<-a.gone
		return 200, nil
	}
	once.answers(hold)
	again.answers(hold)
	w.model.Enqueue(openaitest.Calls(call("a", once), call("b", again)), openaitest.Text("Nobody knows.", 1))
	run := w.run("Do both.")
	first, safe := soon(t, once.came), soon(t, again.came)
	once.answers(nil)
	again.answers(nil)
	w.kill(first.from)

	require.Equal(t, "Nobody knows.", w.until(run, "completed").Output.Text)
	w.sound()
	require.Equal(t, []string{"unknown 1", "completed 2"}, w.calls(run))
	retried := soon(t, again.came)
	require.Equal(t, safe.OperationID, retried.OperationID)
	require.Equal(t, 2, retried.Attempt)
}

// Two invocations of one step at once: whoever came last has the word, and the
// machine goes on.
func TestTwoInvocationsOfOneStep(t *testing.T) {
	t.Parallel()
	w := visit(t)
	once := w.outside(nil)
	w.open(once.name)
	held := openaitest.Calls(call("a", once))
	held.HoldBefore = true
	w.model.Enqueue(held, openaitest.Calls(call("a", once)), openaitest.Text("Done once.", 1))
	run := w.run("Do it once.")
	w.model.asked(t, 1)
	require.Contains(t, []string{host.NextDone, host.NextAgain}, w.drives(1, 1))

	require.Equal(t, "Done once.", w.until(run, "completed").Output.Text)
	h := w.sound()
	require.EqualValues(t, 1, h.Drive.Epoch, "no driver counts as lost")
	require.Equal(t, types.ExecutionStatusSucceeded, w.ends(w.name(1)))
	require.NotContains(t, w.states(w.name(1)), "Recover")
	require.Len(t, once.done(), 1)
}

// Lambda delivers an invocation late: its twin has done the step and parked. It
// writes nothing, and tells its machine to go on.
func TestAnInvocationThatComesAfterItsTwinHasParked(t *testing.T) {
	t.Parallel()
	w := visit(t)
	once := w.outside(nil)
	w.open(once.name, asking)
	w.model.Enqueue(openaitest.Calls(call("a", once)), openaitest.Text("Done.", 1))
	run := w.run("Do it.")
	before := w.stands(host.DriveParked)
	require.Equal(t, host.NextAgain, w.drives(1, 1))
	require.Equal(t, host.NextDone, w.drives(2, 1), "an epoch that never was")
	require.Equal(t, before, w.head(), "nothing is written")
	w.decide(w.api, run)

	w.until(run, "completed")
	w.sound()
	require.Len(t, once.done(), 1)
	require.Equal(t, host.NextDone, w.drives(1, 2), "there is nothing left to do")
}

// An execution is started twice: under its own name, which is one execution; and
// under another for an epoch that is over, which finds nothing to do.
func TestADuplicateExecution(t *testing.T) {
	t.Parallel()
	w := visit(t)
	once := w.outside(nil)
	w.open(once.name)
	held, over := openaitest.Calls(call("a", once)), make(chan struct{})
	held.HoldBefore, held.Gate = true, over
	slow, late := openaitest.Text("And over.", 1), make(chan struct{})
	slow.HoldBefore, slow.Gate = true, late
	w.model.Enqueue(held, openaitest.Text("Done.", 1), slow)
	start := func(name string, epoch uint64) *awssfn.StartExecutionOutput {
		out, err := w.machine().StartExecution(t.Context(), &awssfn.StartExecutionInput{
			StateMachineArn: aws.String(w.stack.Outputs["Machine"]), Name: &name, Input: aws.String(string(w.input(epoch))),
		})
		require.NoError(t, err)
		return out
	}
	run := w.run("Do it.")
	w.model.asked(t, 1)
	require.Equal(t, w.execution(w.name(1)), *start(w.name(1), 1).ExecutionArn)
	close(over)
	w.until(run, "completed")

	next := w.run("What then?")
	w.model.asked(t, 3)
	old := w.name(1) + "-late"
	before := w.head()
	start(old, 1)
	require.Equal(t, types.ExecutionStatusSucceeded, w.ends(old))
	require.Equal(t, before.Drive, w.head().Drive, "it leaves the one at work alone")
	close(late)
	w.until(next, "completed")
	for _, name := range []string{w.name(1), w.name(2)} {
		require.Equal(t, types.ExecutionStatusSucceeded, w.ends(name), name)
	}
	h := w.sound()
	require.EqualValues(t, 2, h.Drive.Epoch)
	require.Len(t, w.model.Requests(), 3)
	require.Len(t, once.done(), 1)
}

// T43: less time is left of an invocation than a model call may take. The slice
// begins nothing more, comes to a commit and asks for the next step.
func TestT43ASliceEndsBeforeItsTimeIsOver(t *testing.T) {
	t.Parallel()
	w := visit(t)
	once := w.outside(nil)
	w.open(once.name)
	w.model.Enqueue(openaitest.Calls(call("a", once)), openaitest.Text("Done.", 1))
	run := w.runBy(w.careless(), "Do it.")
	p := w.process(env.FunctionDrive, nil)
	short, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	answer, err := p.Drive(short, "request", w.event(1, 1))
	require.NoError(t, err)
	require.Contains(t, string(answer), `"step":2,"next":"again"`)
	require.Equal(t, host.DriveRunning, w.head().Drive.Status)
	require.Equal(t, 1, w.count("turn.completed", ""))
	require.Len(t, w.model.Requests(), 1)
	require.Empty(t, once.done())
	p.dies() // and is never seen again

	require.NoError(t, w.waker().Start(t.Context(), w.key, w.head().Inc, 1))
	w.until(run, "completed")
	w.sound()
	require.Len(t, once.done(), 1)
	require.Len(t, w.model.Requests(), 2, "no answer was asked for twice")
	require.Equal(t, []string{"completed 1"}, w.calls(run))
}
