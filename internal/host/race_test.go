package host_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/memory"
	"github.com/perdure/perdure/internal/adapter/simsched"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool"
	"github.com/perdure/perdure/internal/tool/control"
)

// simWorld is an engine under simulated time, with a tool that answers by a
// promise and a model that takes its time.
type simWorld struct {
	sim    *simsched.Sim
	engine *host.Engine
	store  *memory.Store
}

// simulated runs a test's story under a seed.
func simulated(t *testing.T, seed uint64, story func(ctx context.Context, w *simWorld)) {
	t.Helper()
	sim := simsched.New(seed, simsched.Options{})
	store := memory.New(memory.Options{Now: sim.Now, Inject: func(_ context.Context, op memory.Op, _ memory.When) error {
		sim.Yield(op.Name)
		return nil
	}})
	outside := tool.Spec{
		Name: "t.outside", Kind: tool.KindRead, Class: session.ClassJoined, Parallel: true, RetrySafe: true, Description: "answers later", Parameters: anything,
		Run: func(ctx context.Context, c host.ToolCall) (host.ToolResult, error) {
			return host.ToolResult{Accepted: true}, sim.Sleep(ctx, 10)
		},
	}
	tools, err := tool.New(nil, []tool.Spec{outside}, control.Tools())
	require.NoError(t, err)
	err = sim.Run(t.Context(), func(ctx context.Context) {
		e := host.New(host.Deps{
			Log: store, Blobs: store, Checkpoints: store, Stash: store, Models: raceModel{sim}, Tools: tools, Sched: sim,
			Report: func(key host.Key, what string, err error) { panic(fmt.Sprint(key, what, err)) },
		}, host.Options{IdleMs: 20})
		check(e.Start(ctx))
		story(ctx, &simWorld{sim, e, store})
		check(e.Stop(ctx))
	})
	require.NoError(t, err, "seed %d", seed)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// raceModel calls the outside tool when the task says so, else answers.
type raceModel struct{ sim *simsched.Sim }

func (m raceModel) Model(context.Context, ident.TenantID, session.Model) (host.ModelPort, error) {
	return m, nil
}

func (raceModel) Info(session.Model) host.ModelInfo { return host.ModelInfo{} }

func (m raceModel) Generate(ctx context.Context, req host.ModelRequest, _ func(host.Delta)) (host.ModelResult, error) {
	if err := strict(req); err != nil {
		return host.ModelResult{}, &host.Fault{Class: host.ClassInvalid, Message: err.Error(), Sent: true}
	}
	if err := m.sim.Sleep(ctx, 20); err != nil {
		return host.ModelResult{}, err
	}
	res := host.ModelResult{Text: "ok", Finish: host.FinishStop, Usage: session.Usage{Input: 1, Output: 1}}
	if last := req.Messages[len(req.Messages)-1]; last.Role == host.RoleUser && last.Parts[0].Text == "outside" {
		res.Calls = []host.ModelCall{call("c", "t.outside", `{}`)}
	}
	return res, nil
}

func (w *simWorld) do(ctx context.Context, k host.Key, c session.Command) (host.Done, error) {
	return w.engine.Do(ctx, k, host.Prepared{Command: c})
}

func (w *simWorld) begin(ctx context.Context, k host.Key, input string) {
	_, err := w.do(ctx, k, &session.OpenSession{Inc: "i", Config: config("t.*"), Asked: asked("")})
	check(err)
	_, err = w.do(ctx, k, &session.RequestRun{Input: text(input), Asked: asked("")})
	check(err)
}

func (w *simWorld) until(ctx context.Context, k host.Key, ok func(s *session.State) bool) {
	for {
		d, err := w.engine.View(ctx, k)
		check(err)
		if ok(&d.State) {
			return
		}
		if at, err := w.engine.WaitAny(ctx, ident.Hour, w.engine.Watch(k, d.State.Seq)); at < 0 {
			panic(fmt.Sprint("nothing happens any more: ", err))
		}
	}
}

func idle(s *session.State) bool { return s.Active == nil && len(s.Queue) == 0 }

// seeds is how many schedules each race is tried under.
const seeds = 1000

// T26: a promise settled at any moment round the park resumes its run, once.
func TestAPromiseSettledRoundTheParkResumesOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(seeds) {
		simulated(t, seed, func(ctx context.Context, w *simWorld) {
			k := key("s")
			w.begin(ctx, k, "outside")
			w.until(ctx, k, func(s *session.State) bool { return len(s.Promises) > 0 })
			check(w.sim.Sleep(ctx, int64(seed%50)))
			settle := &session.SettlePromise{Promise: 1, Status: session.Resolved, Value: blob.Inline("value"), Asked: asked("")}
			_, err := w.do(ctx, k, settle)
			check(err)
			again := *settle
			_, err = w.do(ctx, k, &again)
			if s := stateOf(ctx, w, k); s.Active != nil {
				check(err) // the same again is fine
			}
			w.until(ctx, k, idle)
			v, err := w.engine.Run(ctx, k, 1)
			check(err)
			if v.Status != session.RunDone || v.Usage.ModelCalls != 2 || v.Usage.ToolCalls != 1 {
				panic(fmt.Sprintf("run is %s with %d model calls", v.Status, v.Usage.ModelCalls))
			}
		})
	}
}

func stateOf(ctx context.Context, w *simWorld, k host.Key) session.State {
	d, err := w.engine.View(ctx, k)
	check(err)
	return d.State
}

// T44, I10: a steer that races with the final answer is in this run or is the
// next one; it is never lost.
func TestASteerThatRacesWithTheEndIsNeverLost(t *testing.T) {
	t.Parallel()
	for seed := range uint64(seeds) {
		simulated(t, seed, func(ctx context.Context, w *simWorld) {
			k := key("s")
			w.begin(ctx, k, "hi")
			check(w.sim.Sleep(ctx, int64(15+seed%10)))
			_, err := w.do(ctx, k, &session.RequestRun{Input: text("steer"), Mode: session.ModeSteer, Asked: asked("s")})
			check(err)
			w.until(ctx, k, idle)
			v, err := w.engine.Run(ctx, k, 1)
			check(err)
			delivered := len(v.Steering) == 1 && v.Steering[0].Status == host.SteerDelivered
			next, err := w.engine.Run(ctx, k, 2)
			ran := err == nil && next.Status == session.RunDone
			if v.Status != session.RunDone || delivered == ran {
				panic(fmt.Sprintf("run %s, delivered %v, next run %v", v.Status, delivered, ran))
			}
		})
	}
}

// T04, T08, I8: a cancel at any moment ends the run as cancelled or finds it
// done, and the session takes the next run.
func TestACancelAtAnyMoment(t *testing.T) {
	t.Parallel()
	for seed := range uint64(seeds) {
		simulated(t, seed, func(ctx context.Context, w *simWorld) {
			k := key("s")
			w.begin(ctx, k, "outside")
			check(w.sim.Sleep(ctx, int64(seed%60)))
			_, err := w.do(ctx, k, &session.CancelRun{Run: 1, Asked: asked("")})
			check(err)
			w.until(ctx, k, idle)
			_, err = w.do(ctx, k, &session.RequestRun{Input: text("next"), Asked: asked("")})
			check(err)
			w.until(ctx, k, idle)
			v, err := w.engine.Run(ctx, k, 1)
			check(err)
			n, err := w.engine.Run(ctx, k, 2)
			check(err)
			if v.Status != session.RunStopped || n.Status != session.RunDone {
				panic(fmt.Sprintf("%s, then %s", v.Status, n.Status))
			}
		})
	}
}
