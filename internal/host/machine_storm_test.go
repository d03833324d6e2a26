package host_test

import (
	"context"
	"flag"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/memory"
	"github.com/perdure/perdure/internal/adapter/simsched"
	"github.com/perdure/perdure/internal/host"
)

var oneMachineStorm = flag.Uint64("machine-storm", 0, "play the machine's storm under this seed alone")

// machineStorm is a storm over a farm: functions are killed, invoked twice and
// not heard, starts and wakes are throttled or their answers lost, admissions
// die before they do what they owe.
type machineStorm struct {
	*storm
	farm *farm
}

// killOne ends one function, by chance.
func (m *machineStorm) killOne() {
	m.killIn = 200 + m.choose(600)
	groups := slices.Sorted(maps.Keys(m.farm.running))
	if len(groups) == 0 {
		return
	}
	g := groups[m.choose(len(groups))]
	sig := m.farm.running[g]
	delete(m.farm.running, g)
	m.kills++
	sig.Fire()
	m.farm.sim.Kill(g) // it may be the very task that is at this operation: nothing follows
}

// wakerFaults are those of Step Functions.
func (m *machineStorm) wakerFaults(_ context.Context, op memory.Op, _ memory.When) error {
	if m.rng == nil || m.over || op.Name == "waker.park" || op.Name == "waker.end" {
		return nil
	}
	if m.chance(8) { // before: throttled; after: the answer is lost
		return errIO
	}
	return nil
}

// invocationFaults are those of Lambda: an error although it runs, or none of it.
func (m *machineStorm) invocationFaults(fn string, e *execution) error {
	if m.over || fn != "drive" || e.states[len(e.states)-1] != "Model" {
		return nil
	}
	switch m.choose(30) {
	case 0:
		return errUnheard // and it never ran
	case 1:
		// It runs on, and its machine asks again: two invocations of one step.
		x, o := *e, m.farm.slices
		o.Sliced = true
		m.farm.sim.Go(simsched.WithGroup(m.farm.ctx, "zombie"), "zombie", func(ctx context.Context) {
			st := host.Step{Key: x.Key, Inc: x.Inc, Epoch: x.Epoch, Number: x.step, Began: x.began, Until: m.sim.Now().Add(invocationMs)}
			z := host.New(m.deps, o)
			if z.Start(ctx) == nil {
				_, _ = z.Drive(ctx, st) // nobody hears what it says
			}
		})
		return errUnheard
	}
	return nil
}

// sweeps is the sweep function, every minute.
func (m *machineStorm) sweeps(ctx context.Context) {
	for m.sim.Sleep(ctx, ident.Minute) == nil {
		if _, err := m.engine.SweepOwed(ctx); err != nil && m.over {
			m.wrong = append(m.wrong, "sweep: "+err.Error())
		}
	}
}

func (m *machineStorm) rage(ctx context.Context) {
	m.front = m.engine
	m.over, m.killIn = false, 50+m.choose(300)
	world := simsched.WithGroup(ctx, "world")
	for i := range 3 {
		k, done := key("s"+string(rune('0'+i))), m.sim.NewSignal()
		m.sessions, m.people = append(m.sessions, k), append(m.people, done)
		m.sim.Go(world, "person", func(ctx context.Context) {
			m.person(ctx, k)
			done.Fire()
		})
	}
	m.sim.Go(world, "approver", m.approver)
	m.sim.Go(world, "outside", m.outside)
	m.sim.Go(world, "sweep", m.sweeps)
	for _, p := range m.people {
		at, err := m.sim.WaitAny(ctx, 10*ident.Hour, p)
		check(err)
		if at < 0 {
			m.wrong = append(m.wrong, "a person is still waiting")
		}
	}
	check(m.sim.Sleep(ctx, int64(m.choose(2000))))
	m.over = true
	// Nobody asks any more, and nothing is lost any more: it must come to rest by
	// itself (I9), in the two minutes of the sweep and what there is to do.
	for range 400 {
		check(m.sim.Sleep(ctx, 1000))
		resting := true
		for _, k := range m.sessions {
			resting = resting && m.head(ctx, k).Drive.Status == host.DriveIdle
		}
		if resting {
			break
		}
	}
	for _, k := range m.sessions {
		require.Equal(m.t, host.DriveIdle, m.head(ctx, k).Drive.Status, "%s does not come to rest\n%s", k, m.dump(ctx, k))
	}
}

func playMachineStorm(t *testing.T, seed uint64) *storm {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("this was storm %d; again with: go test -run TestMachineStorm ./internal/host -machine-storm %d", seed, seed)
		}
	}()
	m := &machineStorm{storm: newStorm(seed)}
	m.kill, m.twins = m.killOne, true
	turns := 0
	if seed%4 == 0 {
		turns = 1
	}
	lab{
		seed: seed, reports: true, specs: m.specs, options: host.Options{IdleMs: 400, CheckpointAt: 8 << 10},
		model:  func(*simsched.Sim) generate { return m.generate },
		inject: func(*simsched.Sim) memory.Injector { return m.inject },
	}.farmed(t, host.Options{
		WatchMs: 500, CheckpointAt: 8 << 10, SliceTurns: turns, RolloverSteps: 3 + seed%5,
		Elsewhere: func(def session.ToolDef) bool {
			return seed%3 == 0 && def.Name == "t.once" || seed%5 == 0 && def.Name == "t.read"
		},
	}, func(ctx context.Context, f *farm) {
		m.labWorld, m.farm, m.rng = f.labWorld, f, rand.New(rand.NewPCG(seed, 9))
		f.faults = append(f.faults, m.invocationFaults)
		f.wakerInject = m.wakerFaults
		m.rage(ctx)
		m.calm(ctx)
		for _, r := range f.reports {
			require.NotContains(t, r, "panic")
			require.NotContains(t, r, "quarantine")
		}
	})
	return m.storm
}

// I1, I2, I6-I10, I12 where a machine drives: functions killed at any point,
// invoked twice, not heard, starts and wakes lost or throttled; the sweep is all
// that there is besides.
func TestMachineStorm(t *testing.T) {
	t.Parallel()
	if *oneMachineStorm != 0 {
		playMachineStorm(t, *oneMachineStorm)
		return
	}
	kills := 0
	for seed := range uint64(*storms) {
		kills += playMachineStorm(t, seed+1).kills
	}
	t.Logf("%d kills in %d storms", kills, *storms)
	require.Greater(t, kills, *storms)
}
