package shows

import (
	"net/http"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/host"
)

// Decisions that come as soon as they are asked for, wherever the driver is on
// its way from its last commit to the park: none is lost, whoever has to wake
// whom.
func TestDecisionsOnTheWayToThePark(t *testing.T) {
	t.Parallel()
	const sessions, asks = 4, 4
	for i := range sessions {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.open([]string{"files.*"})
			for n := range asks {
				w.model.Enqueue(openaitest.Calls(call("a", "files.write", object{"path": "a.md", "content": strconv.Itoa(n)})))
			}
			w.model.Enqueue(openaitest.Text("Done.", 1))
			run := w.run("Write.")
			for n := range asks {
				eventually(t, "nobody is asked", func() bool { return len(w.current(run.ID).Approvals) > n })
				w.approve(w.current(run.ID).Approvals[n].ID)
			}
			require.Equal(t, "Done.", w.ends(run.ID))
			require.Equal(t, asks, w.count("tool.started"))
			head := w.driven(host.DriveIdle)
			require.Zero(t, head.Failures)
			for epoch := uint64(1); epoch <= head.Drive.Epoch; epoch++ {
				w.succeeds(w.execution(epoch))
			}
		})
	}
}

// T28: the same decision comes several times at once, and so does its wake: each
// sender is told that it is decided, and the execution goes on once.
func TestT28ADecisionSeveralTimesAtOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.asking()
	run := w.run("Write.")
	on := w.waits(run.ID, "approval")
	w.rests()
	answers := make([]answer, 4)
	var senders sync.WaitGroup
	for i := range answers {
		senders.Go(func() { answers[i] = w.post("/approvals/"+on.ID, object{"decision": "approve"}) })
	}
	senders.Wait()
	for _, a := range answers {
		a.is(http.StatusOK)
	}
	require.Equal(t, "Written.", w.ends(run.ID))
	w.approve(on.ID)
	require.Equal(t, 1, w.count("tool.started"))
	head := w.driven(host.DriveIdle)
	require.EqualValues(t, 1, head.Drive.Epoch)
	w.succeeds(w.execution(1))
	require.Equal(t, []string{"Model", "Next", "Wait", "Model", "Next", "Done"}, states(w.history(w.execution(1))))
}
