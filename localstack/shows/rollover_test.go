package shows

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/host"
)

// T54: an execution's history is bounded, so it gives a long run to the next one
// at a safe place: the run keeps its id, what waits for a person waits on, and
// what was decided before is not done again.
func TestT54ARolloverInMidRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.set(env.RolloverSteps, rolloverSteps)
	w.open([]string{"files.*"})
	var calls []openaitest.Call
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		calls = append(calls, call(id, "files.write", object{"path": id + ".md", "content": id}))
	}
	w.model.Enqueue(openaitest.Calls(calls...), openaitest.Text("All five.", 1))
	run := w.run("Write five files.")
	w.waits(run.ID, "approval")
	approvals := w.current(run.ID).Approvals
	require.Len(t, approvals, 5)
	for i, a := range approvals[:4] {
		w.rests()
		w.approve(a.ID)
		eventually(t, "the decided call does not run", func() bool { return w.calls(run.ID)[i].Status == "completed" })
	}
	head := w.rests()
	require.EqualValues(t, 2, head.Drive.Epoch, "the steps of one execution were used up")
	w.succeeds(w.execution(1))
	require.Equal(t, "pending", w.current(run.ID).Approvals[4].Status)
	w.approve(approvals[4].ID)
	require.Equal(t, "All five.", w.ends(run.ID))
	require.Equal(t, "run_1", run.ID)
	require.Equal(t, 1, w.count("run.accepted"))
	require.Equal(t, 5, w.count("tool.started"))
	require.Len(t, w.model.Requests(), 2)
	w.driven(host.DriveIdle)
	w.succeeds(w.execution(2))
}

// T53: a long run with a large context. Whatever the model reads and tools
// answer, each payload of the machine stays small, and so does each history.
func TestT53ALongRunMovesReferences(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.set(env.RolloverSteps, rolloverSteps)
	name := w.customer()
	w.open([]string{name})
	const turns = 10
	for range turns {
		w.model.Enqueue(openaitest.Calls(call("a", name, object{"do": "large", "with": 60 << 10})))
	}
	w.model.Enqueue(openaitest.Text("Enough.", 1))
	run := w.run(strings.Repeat("long text ", 10<<10))
	require.Equal(t, "Enough.", w.ends(run.ID))
	context := w.model.Requests()[turns].Body
	require.Greater(t, len(context), 650<<10)
	head := w.driven(host.DriveIdle)
	require.GreaterOrEqual(t, head.Drive.Epoch, uint64(2), "at least one rollover")
	require.Equal(t, turns, w.count("tool.started"))
	largest := w.small("long text")
	for epoch := uint64(1); epoch <= head.Drive.Epoch; epoch++ {
		w.succeeds(w.execution(epoch))
		require.Less(t, len(w.history(w.execution(epoch))), 100)
	}
	t.Logf("%d executions, %d bytes of context, machine data of at most %d bytes", head.Drive.Epoch, len(context), largest)
}
