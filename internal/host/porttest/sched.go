package porttest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// SchedCapabilities is what a scheduler declares.
type SchedCapabilities struct {
	// Virtual time passes at once: a case may sleep for days.
	Virtual bool
}

// SchedRun runs main as the first task of a fresh scheduler, in the test's own
// goroutine, and returns when it and all that it started have ended.
type SchedRun func(t *testing.T, main func(ctx context.Context, s host.Sched))

type schedCase struct {
	name string
	run  func(ctx context.Context, t *testing.T, s host.Sched, caps SchedCapabilities)
}

// Sched checks a host.Sched.
//
// Where the port leaves a choice the suite decides: a signal that has fired
// wins over a passed timeout and a done context, and among several the first;
// a timeout of 0 looks and does not wait; a sleep of 0 or less returns.
func Sched(t *testing.T, run SchedRun, caps SchedCapabilities) {
	t.Helper()
	for _, c := range []schedCase{
		{"ASignalFiresOnce", signalOnce},
		{"AFiredSignalIsNotWaitedFor", waitFired},
		{"ASignalWakesItsWaiters", waitWakes},
		{"OneOfManySignalsWakes", waitMany},
		{"ATimeoutPasses", waitTimeout},
		{"ADoneContextEndsAWait", waitDone},
		{"ACancelWakesAWaiter", waitCancelled},
		{"ASleepTakesItsTime", sleeps},
		{"ALongSleepTakesItsTime", sleepsLong},
		{"ACancelEndsASleep", sleepCancelled},
		{"TasksRunWithTheirContext", tasksRun},
		{"TasksHandWorkToEachOther", pingPong},
		{"EntropyIsNew", entropy},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			run(t, func(ctx context.Context, s host.Sched) { c.run(ctx, t, s, caps) })
		})
	}
}

func signalOnce(_ context.Context, t *testing.T, s host.Sched, _ SchedCapabilities) {
	g := s.NewSignal()
	require.False(t, g.Fired())
	for range 3 {
		g.Fire()
		require.True(t, g.Fired())
	}
	require.False(t, s.NewSignal().Fired())
}

func waitFired(ctx context.Context, t *testing.T, s host.Sched, _ SchedCapabilities) {
	a, b, c := s.NewSignal(), s.NewSignal(), s.NewSignal()
	c.Fire()
	b.Fire()
	done, cancel := context.WithCancel(ctx)
	cancel()
	for _, ctx := range []context.Context{ctx, done} {
		for _, timeout := range []int64{-1, 0, 5} {
			i, err := s.WaitAny(ctx, timeout, a, b, c)
			require.NoError(t, err)
			require.Equal(t, 1, i)
		}
	}
}

func waitWakes(ctx context.Context, t *testing.T, s host.Sched, _ SchedCapabilities) {
	const waiters = 5
	gate, all := s.NewSignal(), make([]host.Signal, waiters)
	got := make([]int, waiters)
	for i := range waiters {
		all[i] = s.NewSignal()
		s.Go(ctx, "waiter", func(ctx context.Context) {
			got[i], _ = s.WaitAny(ctx, -1, s.NewSignal(), gate)
			all[i].Fire()
		})
	}
	gate.Fire()
	for i := range waiters {
		_, err := s.WaitAny(ctx, -1, all[i])
		require.NoError(t, err)
		require.Equal(t, 1, got[i])
	}
}

func waitMany(ctx context.Context, t *testing.T, s host.Sched, _ SchedCapabilities) {
	for _, n := range []int{1, 2, 3, 4, 5, 100} {
		signals := make([]host.Signal, n)
		for i := range signals {
			signals[i] = s.NewSignal()
		}
		i, err := s.WaitAny(ctx, 1, signals...)
		require.NoError(t, err)
		require.Equal(t, -1, i)
		s.Go(ctx, "firer", func(context.Context) { signals[n-1].Fire() })
		i, err = s.WaitAny(ctx, -1, signals...)
		require.NoError(t, err)
		require.Equal(t, n-1, i)
	}
}

func waitTimeout(ctx context.Context, t *testing.T, s host.Sched, _ SchedCapabilities) {
	g := s.NewSignal()
	for _, signals := range [][]host.Signal{nil, {g}, {g, g, g, g, g}} {
		for _, ms := range []int64{0, 1, 20} {
			start := s.Now()
			i, err := s.WaitAny(ctx, ms, signals...)
			require.NoError(t, err)
			require.Equal(t, -1, i)
			requirePassed(t, s, start, ms)
		}
	}
}

// requirePassed allows a millisecond for clocks that are cut to whole ones.
func requirePassed(t *testing.T, s host.Sched, start ident.Instant, ms int64) {
	t.Helper()
	require.GreaterOrEqual(t, int64(s.Now()-start), ms-1)
}

func waitDone(ctx context.Context, t *testing.T, s host.Sched, _ SchedCapabilities) {
	done, cancel := context.WithCancel(ctx)
	cancel()
	for _, timeout := range []int64{-1, 0, 1000} {
		i, err := s.WaitAny(done, timeout, s.NewSignal())
		require.Equal(t, -1, i)
		require.ErrorIs(t, err, context.Canceled)
	}
	require.ErrorIs(t, s.Sleep(done, 1000), context.Canceled)
	require.ErrorIs(t, s.Sleep(done, 0), context.Canceled)
}

func waitCancelled(ctx context.Context, t *testing.T, s host.Sched, _ SchedCapabilities) {
	for _, n := range []int{0, 1, 9} {
		signals := make([]host.Signal, n)
		for i := range signals {
			signals[i] = s.NewSignal()
		}
		sub, cancel := context.WithCancel(ctx)
		s.Go(ctx, "canceller", func(context.Context) { cancel() })
		i, err := s.WaitAny(sub, -1, signals...)
		require.Equal(t, -1, i)
		require.ErrorIs(t, err, context.Canceled)
	}
}

func sleeps(ctx context.Context, t *testing.T, s host.Sched, _ SchedCapabilities) {
	for _, ms := range []int64{-1, 0, 1, 15} {
		start := s.Now()
		require.NoError(t, s.Sleep(ctx, ms))
		requirePassed(t, s, start, ms)
	}
}

func sleepsLong(ctx context.Context, t *testing.T, s host.Sched, caps SchedCapabilities) {
	if !caps.Virtual {
		t.Skip("the adapter declares no Virtual time")
	}
	start := s.Now()
	require.NoError(t, s.Sleep(ctx, 7*ident.Day))
	require.Equal(t, start.Add(7*ident.Day), s.Now())
}

func sleepCancelled(ctx context.Context, t *testing.T, s host.Sched, _ SchedCapabilities) {
	sub, cancel := context.WithCancel(ctx)
	s.Go(ctx, "canceller", func(context.Context) { cancel() })
	require.ErrorIs(t, s.Sleep(sub, ident.Day), context.Canceled)
}

type ctxKey struct{}

func tasksRun(ctx context.Context, t *testing.T, s host.Sched, _ SchedCapabilities) {
	const tasks = 20
	done, got := make([]host.Signal, tasks), make([]any, tasks)
	for i := range tasks {
		done[i] = s.NewSignal()
		s.Go(context.WithValue(ctx, ctxKey{}, i), "outer", func(ctx context.Context) {
			s.Go(ctx, "inner", func(ctx context.Context) {
				got[i] = ctx.Value(ctxKey{})
				done[i].Fire()
			})
		})
	}
	for i := range tasks {
		_, err := s.WaitAny(ctx, -1, done[i])
		require.NoError(t, err)
		require.Equal(t, i, got[i])
	}
}

func pingPong(ctx context.Context, t *testing.T, s host.Sched, _ SchedCapabilities) {
	const rounds = 50
	ping, pong := make([]host.Signal, rounds), make([]host.Signal, rounds)
	for i := range rounds {
		ping[i], pong[i] = s.NewSignal(), s.NewSignal()
	}
	s.Go(ctx, "echo", func(ctx context.Context) {
		for i := range rounds {
			if _, err := s.WaitAny(ctx, -1, ping[i]); err != nil {
				return
			}
			pong[i].Fire()
		}
	})
	for i := range rounds {
		ping[i].Fire()
		_, err := s.WaitAny(ctx, -1, pong[i])
		require.NoError(t, err)
	}
}

func entropy(_ context.Context, t *testing.T, s host.Sched, _ SchedCapabilities) {
	require.Empty(t, s.Entropy(0))
	seen := map[string]bool{}
	for range 100 {
		b := s.Entropy(16)
		require.Len(t, b, 16)
		require.False(t, seen[string(b)])
		seen[string(b)] = true
	}
}
