package shows

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/host"
)

// A run of one turn, and what it takes of the state machine: the design's bar is
// four transitions. The start is one.
func TestARunAndItsAnswer(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(nil)
	w.model.Enqueue(openaitest.Text("To you, too.", 2))
	run := w.run("Good morning.")
	require.Equal(t, "To you, too.", w.ends(run.ID))
	require.Equal(t, "Good morning.", last(w.asked(1)))

	head := w.driven(host.DriveIdle)
	require.EqualValues(t, 1, head.Drive.Epoch)
	execution := w.execution(1)
	w.succeeds(execution)
	entered := states(w.history(execution))
	require.Equal(t, []string{"Model", "Next", "Done"}, entered)
	require.LessOrEqual(t, 1+len(entered), 4)
	w.small("Good morning")
}

func TestTwoRunsAreQueued(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(nil)
	slow, release := gated(openaitest.Text("A is done.", 1))
	w.model.Enqueue(slow, openaitest.Text("B is done.", 1), openaitest.Text("C is done.", 1))
	a := w.run("A")
	soon(t, w.model.Seen(1))
	b, c := w.run("B"), w.run("C")
	require.Equal(t, []string{"queued", "queued"}, []string{b.Status, c.Status})
	release()
	require.Equal(t, "A is done.", w.ends(a.ID))
	require.Equal(t, "B is done.", w.ends(b.ID))
	require.Equal(t, "C is done.", w.ends(c.ID))
	require.Equal(t, "B", last(w.asked(2)))
	require.Equal(t, "C", last(w.asked(3)))
	require.EqualValues(t, 1, w.head().Drive.Epoch, "what is queued needs no execution of its own")
}

func TestASteerReachesTheRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(nil)
	slow, release := gated(openaitest.Text("Blue.", 1))
	w.model.Enqueue(slow, openaitest.Text("Red, then.", 1))
	run := w.run("Which colour?")
	soon(t, w.model.Seen(1))
	w.post("/runs/"+run.ID+"/steer", object{"input": "Not blue."}).is(202)
	release()
	require.Equal(t, "Red, then.", w.ends(run.ID))
	require.Equal(t, "Not blue.", last(w.asked(2)))
	require.Equal(t, "delivered", w.until(run.ID, "completed").Steering[0].Status)
}
