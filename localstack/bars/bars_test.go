package bars

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/dynamo"
	"github.com/perdure/perdure/internal/host"
)

// DESIGN §9: a run of ten turns, each a model call and two built-in tools.
func TestARunOfTenTurns(t *testing.T) {
	t.Parallel()
	f := newFarm(t, host.Options{})
	key := f.open("s")
	f.model.reply = func(turn int64, _ host.ModelRequest) host.ModelResult {
		if turn == 10 {
			return host.ModelResult{Text: words(800)}
		}
		return host.ModelResult{Text: words(200), Calls: []host.ModelCall{call(fmt.Sprint("a", turn), "t_one"), call(fmt.Sprint("b", turn), "t_two")}}
	}
	f.meter.Reset()
	f.submit(key, "one", words(300))
	require.Equal(t, "done", f.rests())
	turn := f.costs("a turn of a run of ten, with two tools each", 10)
	require.LessOrEqual(t, turn.write, 24.0)
	require.LessOrEqual(t, turn.read, 6.0)
	require.LessOrEqual(t, turn.transitions, 0.4)
	require.LessOrEqual(t, turn.dollars(), 0.03)
}

func TestARunOfOneTurn(t *testing.T) {
	t.Parallel()
	f := newFarm(t, host.Options{})
	key := f.open("s")
	f.model.reply = func(int64, host.ModelRequest) host.ModelResult { return host.ModelResult{Text: words(800)} }
	f.meter.Reset()
	f.submit(key, "one", words(300))
	require.Equal(t, "done", f.rests())
	run := f.costs("a run of one turn", 1)
	require.LessOrEqual(t, run.write, 36.0)
	require.LessOrEqual(t, run.transitions, 4.0)
	require.LessOrEqual(t, run.dollars(), 0.13)
}

// What an approval adds: a park, a decision, a wake.
func TestARunWithAnApproval(t *testing.T) {
	t.Parallel()
	f := newFarm(t, host.Options{})
	key := f.open("s")
	f.model.reply = func(turn int64, _ host.ModelRequest) host.ModelResult {
		if turn == 2 {
			return host.ModelResult{Text: words(800)}
		}
		return host.ModelResult{Text: words(200), Calls: []host.ModelCall{call("a", "t_ask")}}
	}
	f.meter.Reset()
	f.submit(key, "one", words(300))
	require.Equal(t, "wait", f.rests())
	f.do(key, host.Prepared{Command: &session.DecideApprovals{Decisions: []session.Decision{{Approval: 1, Approve: true}}, Asked: asked("yes")}})
	require.Equal(t, "done", f.rests())
	f.costs("a run of two turns with an approval", 1)
}

// An admission with the state at hand reads nothing and writes once; one without
// reads three times and a checkpoint.
func TestAnAdmission(t *testing.T) {
	t.Parallel()
	f := newFarm(t, host.Options{CheckpointAt: 4 << 10})
	key := f.open("s")
	f.model.reply = func(turn int64, _ host.ModelRequest) host.ModelResult {
		if turn%8 == 0 {
			return host.ModelResult{Text: words(2000)}
		}
		return host.ModelResult{Text: words(2000), Calls: []host.ModelCall{call(fmt.Sprint("a", turn), "t_one")}}
	}
	for i := range 3 {
		f.submit(key, fmt.Sprint("run", i), words(300))
		require.Equal(t, "done", f.rests())
	}
	// A queued run beside an active one: nobody is woken.
	hold, held := make(chan struct{}), make(chan struct{}, 100)
	f.model.wait = func(context.Context) {
		held <- struct{}{}
		<-hold
	}
	f.submit(key, "active", "go")
	<-held
	cold, meter := f.another()
	run := func(id string) (dynamo.Usage, map[string]dynamo.Usage) {
		meter.Reset()
		_, err := cold.Do(t.Context(), key, host.Prepared{Command: &session.RequestRun{Input: []session.Part{{Text: blob.Inline(id)}}, Asked: asked(id)}})
		require.NoError(t, err)
		return meter.Total(), meter.Ops()
	}
	u, ops := run("not cached")
	t.Logf("not cached: %d requests, %.1f read units, %.0f write units: %v", u.Calls, u.Read, u.Write, ops)
	require.LessOrEqual(t, u.Calls-ops["TransactWriteItems"].Calls, 3)
	require.Equal(t, 1, ops["TransactWriteItems"].Calls)
	require.LessOrEqual(t, u.Read, 16.0)

	u, ops = run("cached")
	t.Logf("cached: %d requests, %.1f read units, %.0f write units: %v", u.Calls, u.Read, u.Write, ops)
	require.Equal(t, 1, u.Calls)
	require.Equal(t, 1, ops["TransactWriteItems"].Calls)
	close(hold)
	require.Equal(t, "done", f.rests())
}

// watchMs is what the deployed drive has.
const watchMs = 500

// While a call is under way the driver looks at the head twice a second, at half
// a unit each.
func TestACallIsWatchedForOneUnitASecond(t *testing.T) {
	t.Parallel()
	f := newFarm(t, host.Options{WatchMs: watchMs})
	key := f.open("s")
	f.model.reply = func(int64, host.ModelRequest) host.ModelResult { return host.ModelResult{Text: "ok"} }
	var began time.Time
	var before, after dynamo.Usage
	f.model.wait = func(ctx context.Context) {
		began, before = time.Now(), f.meter.Total()
		select {
		case <-ctx.Done():
		case <-time.After(3 * time.Second): // as long as a short call takes
		}
		after = f.meter.Total()
	}
	f.submit(key, "one", "go")
	require.Equal(t, "done", f.rests())
	read, seconds := after.Read-before.Read, time.Since(began).Seconds()
	t.Logf("%.1f read units in a call of %.1f s", read, seconds)
	require.NotZero(t, read)
	require.LessOrEqual(t, read, seconds+0.5)
}

// I16: the head after 500 turns, and the machine's data.
func TestTheHeadStaysSmall(t *testing.T) {
	t.Parallel()
	f := newFarm(t, host.Options{})
	key := f.open("s")
	f.model.reply = func(turn int64, _ host.ModelRequest) host.ModelResult {
		if turn%100 == 0 {
			return host.ModelResult{Text: words(300)}
		}
		return host.ModelResult{Text: words(100), Calls: []host.ModelCall{call(fmt.Sprint("a", turn), "t_one")}}
	}
	for i := range 5 {
		f.submit(key, fmt.Sprint("run", i), words(300))
		require.Equal(t, "done", f.rests())
	}
	require.EqualValues(t, 500, f.model.turns.Load())
	size := f.headSize(key)
	t.Logf("the head has %d bytes after 500 turns, the machine's data at most %d", size, f.largest.Load())
	require.LessOrEqual(t, size, 1024)
	require.Less(t, f.largest.Load(), int64(4096))
}

// Machine data knows nothing of content: a 2 MB message, a 100 MB blob by its
// reference.
func TestMachineDataIsReferences(t *testing.T) {
	t.Parallel()
	f := newFarm(t, host.Options{})
	key := f.open("s")
	f.model.reply = func(int64, host.ModelRequest) host.ModelResult { return host.ModelResult{Text: "read"} }
	var sp host.Spill
	var text blob.Payload
	sp.Text(&text, words(2<<20))
	f.do(key, sp.Prepare(&session.RequestRun{Input: []session.Part{{Text: text}}, Asked: asked("big")}))
	require.Equal(t, "done", f.rests())
	t.Logf("machine data: %d bytes", f.largest.Load())
	require.Less(t, f.largest.Load(), int64(4096))
}

// T52: fifty commands at once on one session: all admitted, one at each seq.
func TestT52FiftyCommandsAtOnce(t *testing.T) {
	t.Parallel()
	f := newFarm(t, host.Options{})
	key := f.open("s")
	hold := make(chan struct{})
	f.model.wait = func(context.Context) { <-hold }
	f.model.reply = func(int64, host.ModelRequest) host.ModelResult { return host.ModelResult{Text: "ok"} }
	f.submit(key, "active", "go")
	// Ten processes, as a function has under load.
	engines := make([]*host.Engine, 10)
	for i := range engines {
		engines[i], _ = f.another()
	}
	var wg sync.WaitGroup
	errs := make([]error, 50)
	for i := range errs {
		wg.Go(func() {
			cmd := session.Command(&session.SteerRun{Run: 1, Text: []session.Part{{Text: blob.Inline(fmt.Sprint("steer ", i))}}, Asked: asked(fmt.Sprint("c", i))})
			if i >= 15 {
				cmd = &session.RequestRun{Input: []session.Part{{Text: blob.Inline(fmt.Sprint("run ", i))}}, Mode: session.ModeQueue, Asked: asked(fmt.Sprint("c", i))}
			}
			engine := engines[i%len(engines)]
			if i >= 46 {
				_, errs[i] = engine.Describe(t.Context(), key, func(m *host.Meta) { m.Name = fmt.Sprint("name ", i) })
				return
			}
			_, errs[i] = engine.Do(t.Context(), key, host.Prepared{Command: cmd})
		})
	}
	wg.Wait()
	for i, err := range errs {
		require.NoError(t, err, "command %d", i)
	}
	view, err := f.front.View(t.Context(), key)
	require.NoError(t, err)
	require.Len(t, view.State.Queue, 31)
	close(hold)
	require.Equal(t, "done", f.rests())
	require.EqualValues(t, 33, f.model.turns.Load(), "each run has a turn, and the steers one more")
}

// T53: two hundred turns over a window that grows to 200,000 tokens: what the
// machine carries stays small, and no execution's history grows long.
func TestT53ALongRunCarriesReferences(t *testing.T) {
	t.Parallel()
	f := newFarm(t, host.Options{SliceTurns: 1, RolloverSteps: 60})
	key := f.open("s")
	f.model.reply = func(turn int64, _ host.ModelRequest) host.ModelResult {
		if turn == 200 {
			return host.ModelResult{Text: "at last"}
		}
		return host.ModelResult{Text: words(3500), Calls: []host.ModelCall{call(fmt.Sprint("a", turn), "t_one")}}
	}
	f.submit(key, "one", "go")
	executions := 1
	for f.rests(); f.model.turns.Load() < 200; f.rests() {
		executions++
	}
	view, err := f.front.View(t.Context(), key)
	require.NoError(t, err)
	require.Nil(t, view.State.Active)
	// A step is at most Model, Next and Tools, with eleven events each and ten for
	// each of eight calls.
	const stepEvents = 3*11 + 8*10
	most := f.steps.Load() * stepEvents
	t.Logf("%d executions, the longest of %d steps: at most %d events; machine data at most %d bytes", executions, f.steps.Load(), most, f.largest.Load())
	require.Greater(t, executions, 1)
	require.Less(t, most, int64(15_000))
	require.Less(t, f.largest.Load(), int64(4096))
}
