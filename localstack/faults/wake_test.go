package faults

import (
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssfn "github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/adapter/sfn"
	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/localstack/target"
)

// gated is a session whose one call waits for a person, parked.
func gated(t *testing.T) (w *world, once *tool, run string) {
	t.Helper()
	w = visit(t)
	once = w.outside(nil)
	w.open(once.name, asking)
	w.model.Enqueue(openaitest.Calls(call("a", once)), openaitest.Text("Done.", 1))
	run = w.run("Do it.")
	w.until(run, "waiting")
	w.stands(host.DriveParked)
	return w, once, run
}

// T29: the wake-up is lost, every time. The sweep finds the session that waits
// for nothing any more.
func TestT29ALostWakeIsFoundByTheSweep(t *testing.T) {
	t.Parallel()
	w, once, run := gated(t)
	w.decide(w.careless(), run)
	h := w.head()
	require.Equal(t, host.DriveWaking, h.Drive.Status)
	require.LessOrEqual(t, int64(h.DueAt-h.At), int64(60_000), "it is found within a minute")
	w.claimed()

	w.until(run, "completed")
	require.EqualValues(t, 1, w.sound().Drive.Epoch, "the one that waited goes on")
	require.Len(t, once.done(), 1)
}

// A process dies between its commit and the start of a driver.
func TestAProcessDiesBetweenCommitAndStart(t *testing.T) {
	t.Parallel()
	w := visit(t)
	once := w.outside(nil)
	w.open(once.name)
	w.model.Enqueue(openaitest.Calls(call("a", once)), openaitest.Text("Done.", 1), openaitest.Text("Next.", 1))
	run := w.runBy(w.careless(), "Do it.")
	require.Equal(t, host.DriveStarting, w.head().Drive.Status)
	require.Empty(t, w.running())
	// Whoever comes next does not start it either: it is owed already.
	next := w.run("And then?")
	w.claimed()

	w.until(run, "completed")
	require.Equal(t, "Next.", w.until(next, "completed").Output.Text)
	require.EqualValues(t, 1, w.sound().Drive.Epoch)
	require.Len(t, once.done(), 1)
}

// T28: a token that was used before, or is not known, says nothing of the
// decision that it was to be used for: that is acknowledged, and carried out.
func TestT28ADecisionOutlivesItsToken(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{
		"the first use worked": {op: "SendTaskSuccess", times: 1, code: "TaskTimedOut", perform: true},
		"no use worked":        {op: "SendTaskSuccess", times: 100, code: "TaskDoesNotExist"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, once, run := gated(t)
			p := w.process(env.FunctionAPI, nil)
			p.calls.inject(f)
			w.decide(p.door(), run)
			require.Equal(t, 1, p.calls.injected(), "nobody insists on a token that is no good")
			if !f.perform {
				w.claimed()
			}

			w.until(run, "completed")
			w.sound()
			require.Len(t, once.done(), 1)
		})
	}
}

// StartExecution is throttled: for a moment, which nobody notices; for longer,
// and the command is acknowledged all the same and the sweep starts it.
func TestStartExecutionIsThrottled(t *testing.T) {
	t.Parallel()
	w := visit(t)
	once := w.outside(nil)
	w.open(once.name)
	w.model.Enqueue(openaitest.Calls(call("a", once)), openaitest.Text("Done.", 1), openaitest.Text("Late.", 1))
	p := w.process(env.FunctionAPI, nil)
	door := p.door()
	p.calls.inject(fault{op: "StartExecution", times: 2, code: "ThrottlingException"})
	w.until(w.runBy(door, "Do it."), "completed")
	require.Equal(t, 2, p.calls.injected())

	w.stands(host.DriveIdle)
	p.calls.inject(fault{op: "StartExecution", times: 1000, code: "ThrottlingException"})
	late := w.runBy(door, "Again.")
	require.Equal(t, host.DriveStarting, w.head().Drive.Status)
	t.Logf("it was given up after %d throttled calls", p.calls.injected()-2)
	w.claimed()
	require.Equal(t, "Late.", w.until(late, "completed").Output.Text)
	require.EqualValues(t, 2, w.sound().Drive.Epoch)
	require.Len(t, once.done(), 1)
}

// The answer to StartExecution is lost, and the name that is asked for again is
// taken: by the execution that it has started.
func TestTheAnswerToAStartIsLost(t *testing.T) {
	t.Parallel()
	w := visit(t)
	once := w.outside(nil)
	w.open(once.name)
	w.model.Enqueue(openaitest.Calls(call("a", once)), openaitest.Text("Done.", 1))
	p := w.process(env.FunctionAPI, nil)
	p.calls.inject(fault{op: "StartExecution", times: 1, code: "ServiceUnavailable", perform: true})
	w.until(w.runBy(p.door(), "Do it."), "completed")
	require.Equal(t, 1, p.calls.injected())
	require.EqualValues(t, 1, w.sound().Drive.Epoch)
	require.Len(t, once.done(), 1)
}

// The name of the next epoch is one of an execution that has run and ended. It is
// never taken for a running one: the epoch after it has the work.
func TestTheNextNameIsClosed(t *testing.T) {
	t.Parallel()
	w := visit(t)
	once := w.outside(nil)
	w.open(once.name)
	w.model.Enqueue(openaitest.Text("One.", 1), openaitest.Calls(call("a", once)), openaitest.Text("Two.", 1))
	w.until(w.run("First."), "completed")
	h := w.stands(host.DriveIdle)
	name, err := sfn.ExecutionName(h.Inc, h.Drive.Epoch+1)
	require.NoError(t, err)
	_, err = w.machine().StartExecution(t.Context(), &awssfn.StartExecutionInput{
		StateMachineArn: aws.String(w.stack.Outputs["Machine"]), Name: &name, Input: aws.String(string(w.input(h.Drive.Epoch + 1))),
	})
	require.NoError(t, err)
	require.Equal(t, types.ExecutionStatusSucceeded, w.ends(name), "it finds no work")

	require.Equal(t, "Two.", w.until(w.run("Second."), "completed").Output.Text)
	require.Equal(t, h.Drive.Epoch+2, w.sound().Drive.Epoch)
	require.Len(t, once.done(), 1)
}

// T27: a wait that nobody ends runs out, and the run goes on with that.
func TestT27AWaitEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	w := visit(t)
	promised := w.outside(object{"timeoutSeconds": 12})
	promised.answers(func(arrival) (int, object) { return http.StatusAccepted, object{} })
	w.open(promised.name, "sleep")
	w.model.Enqueue(
		openaitest.Calls(call("a", promised)), openaitest.Calls(openaitest.Call{ID: "b", Name: "sleep", Arguments: `{"seconds":12}`}),
		openaitest.Text("Nobody came.", 1),
	)
	run := w.run("Wait for it.")
	w.stands(host.DriveParked)

	require.Equal(t, "Nobody came.", w.until(run, "completed").Output.Text)
	require.EqualValues(t, 1, w.sound().Drive.Epoch)
	require.Equal(t, 1, w.count("promise.settled", `"expired"`))
	states := w.states(w.name(1))
	require.Equal(t, []string{"Model", "Next", "Wait", "Model", "Next", "Wait", "Model", "Next", "Done"}, states, "a wait that ran out is no fault")
	require.Len(t, promised.done(), 1)
}

// An execution is stopped, by an operator or by a limit of the engine's. The rule
// on such ends tells the sweep at once, and the next activation has the session,
// also where a drive was at work that nobody hears any more.
func TestAnExecutionIsStopped(t *testing.T) {
	t.Parallel()
	t.Run("at work", func(t *testing.T) {
		t.Parallel()
		w := visit(t)
		w.stack.Need(t, target.Stopping)
		once := w.outside(nil)
		w.open(once.name)
		held, over := openaitest.Calls(call("a", once)), make(chan struct{})
		held.HoldBefore, held.Gate = true, over
		w.model.Enqueue(held)
		w.model.Fallback = func(r openaitest.Request) openaitest.Reply {
			if strings.Contains(r.Messages(), `"tool"`) {
				return openaitest.Text("Done.", 1)
			}
			return openaitest.Calls(call("a", once))
		}
		run := w.run("Do it.")
		w.model.asked(t, 1)
		w.stop(1)
		w.taken()
		close(over)
		w.until(run, "completed")
		require.Zero(t, w.sound().Failures, "a result has come since")
		require.Equal(t, 1, w.count("tool.started", ""))
		require.Len(t, once.done(), 1)
	})
	t.Run("parked", func(t *testing.T) {
		t.Parallel()
		w, once, run := gated(t)
		w.stack.Need(t, target.Stopping)
		w.stop(1)
		w.taken()
		w.decide(w.api, run)
		w.until(run, "completed")
		require.Zero(t, w.sound().Failures, "a result has come since")
		require.Len(t, once.done(), 1)
	})
	t.Run("parked, and woken at once", func(t *testing.T) {
		t.Parallel()
		w, once, run := gated(t)
		w.stop(1)
		w.decide(w.api, run)
		w.taken()
		w.until(run, "completed")
		require.Zero(t, w.sound().Failures, "a result has come since")
		require.Len(t, once.done(), 1)
	})
}

// stop stops an epoch's execution.
func (w *world) stop(epoch uint64) {
	w.Helper()
	require.NoError(w, w.waker().End(w.Context(), w.key, w.head().Inc, epoch))
}

// taken waits until the first execution has ended as one that was stopped, and
// the session is the next one's.
func (w *world) taken() {
	w.Helper()
	require.Equal(w, types.ExecutionStatusAborted, w.ends(w.name(1)))
	w.eventually(func() bool { return w.head().Drive.Epoch == 2 }, "nobody hears of it")
}
