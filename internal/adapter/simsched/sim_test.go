package simsched_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/adapter/simsched"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/host/porttest"
)

func TestSched(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprintf("Seed%d", seed), func(t *testing.T) {
			t.Parallel()
			porttest.Sched(t, func(t *testing.T, main func(ctx context.Context, s host.Sched)) {
				t.Helper()
				s := simsched.New(seed, simsched.Options{})
				require.NoError(t, s.Run(t.Context(), func(ctx context.Context) { main(ctx, s) }))
			}, porttest.SchedCapabilities{Virtual: true})
		})
	}
}

// play runs tasks that meet in every way there is, and returns what happened.
func play(t *testing.T, seed uint64) (trace, outcome string) {
	t.Helper()
	var out strings.Builder
	s := simsched.New(seed, simsched.Options{})
	err := s.Run(t.Context(), func(ctx context.Context) {
		const tasks = 8
		gate, done := s.NewSignal(), make([]host.Signal, tasks)
		sub, cancel := context.WithCancel(ctx)
		defer cancel()
		for i := range tasks {
			done[i] = s.NewSignal()
			s.Go(sub, fmt.Sprintf("t%d", i), func(ctx context.Context) {
				defer done[i].Fire()
				for n := range 5 {
					s.Yield(fmt.Sprintf("work %d", n))
					if err := s.Sleep(ctx, int64(s.Entropy(1)[0]%4)); err != nil {
						fmt.Fprintf(&out, "%d cancelled at %d\n", i, n)
						return
					}
					if i == 3 && n == 2 {
						gate.Fire()
					}
				}
				got, err := s.WaitAny(ctx, 50, s.NewSignal(), done[(i+1)%tasks])
				fmt.Fprintf(&out, "%d got %d %v at %d\n", i, got, err, s.Now())
			})
		}
		_, err := s.WaitAny(ctx, -1, gate)
		require.NoError(t, err)
		require.NoError(t, s.Sleep(ctx, 4))
		cancel()
		for _, g := range done {
			_, err := s.WaitAny(ctx, -1, g)
			require.NoError(t, err)
		}
	})
	require.NoError(t, err)
	return s.Trace(), out.String()
}

func TestEqualSeedsGiveEqualRuns(t *testing.T) {
	t.Parallel()
	outcomes, traces := map[string]bool{}, map[string]bool{}
	for seed := range uint64(30) {
		trace, outcome := play(t, seed)
		again, outcomeAgain := play(t, seed)
		require.Equal(t, trace, again)
		require.Equal(t, outcome, outcomeAgain)
		require.NotEmpty(t, trace)
		traces[trace], outcomes[outcome] = true, true
	}
	require.Len(t, traces, 30, "every seed runs differently")
	require.Greater(t, len(outcomes), 5, "and comes to different ends")
}

func TestTimeStandsWhileAnybodyRuns(t *testing.T) {
	t.Parallel()
	s := simsched.New(1, simsched.Options{Start: 1000})
	var busy, idle ident.Instant
	require.NoError(t, s.Run(t.Context(), func(ctx context.Context) {
		s.Go(ctx, "busy", func(context.Context) {
			for range 500 {
				s.Yield("work")
			}
			busy = s.Now()
		})
		require.NoError(t, s.Sleep(ctx, 1))
		idle = s.Now()
	}))
	require.Equal(t, ident.Instant(1000), busy)
	require.Equal(t, ident.Instant(1001), idle)
}

func TestADeadlockSaysWhoWaitsForWhat(t *testing.T) {
	t.Parallel()
	s := simsched.New(1, simsched.Options{})
	deferred := false
	err := s.Run(t.Context(), func(ctx context.Context) {
		a, b := s.NewSignal(), s.NewSignal()
		s.Go(ctx, "other", func(ctx context.Context) {
			defer func() { deferred = true }()
			_, _ = s.WaitAny(ctx, -1, a, b)
			a.Fire()
		})
		s.Go(ctx, "stuck", func(ctx context.Context) { _, _ = s.WaitAny(ctx, -1) })
		_, _ = s.WaitAny(ctx, -1, b)
		require.Fail(t, "main went on")
	})
	require.ErrorIs(t, err, simsched.ErrDeadlock)
	for _, want := range []string{"main#0 waits for signal 2", "other#1 waits for signal 1, signal 2", "stuck#2 waits for its context"} {
		require.ErrorContains(t, err, want)
	}
	require.True(t, deferred, "what was abandoned has unwound")
}

func TestTheEndOfMainCancelsAndAbandons(t *testing.T) {
	t.Parallel()
	s := simsched.New(1, simsched.Options{})
	var ended []string
	require.NoError(t, s.Run(t.Context(), func(ctx context.Context) {
		s.Go(ctx, "polite", func(ctx context.Context) {
			_ = s.Sleep(ctx, ident.Day)
			s.Yield("clean up")
			ended = append(ended, "polite")
		})
		s.Go(context.WithoutCancel(ctx), "deaf", func(ctx context.Context) {
			_ = s.Sleep(ctx, 10)
			ended = append(ended, "slept")
			_, _ = s.WaitAny(ctx, -1, s.NewSignal())
			ended = append(ended, "never")
		})
		s.Yield("let them begin")
		s.Yield("and wait")
	}))
	require.ElementsMatch(t, []string{"polite", "slept"}, ended)
}

func TestARunawayAndAPanicEndTheRun(t *testing.T) {
	t.Parallel()
	for name, spin := range map[string]func(ctx context.Context, s *simsched.Sim){
		"in main": func(_ context.Context, s *simsched.Sim) {
			for {
				s.Yield("spin")
			}
		},
		"in a task": func(ctx context.Context, s *simsched.Sim) {
			s.Go(ctx, "spinner", func(ctx context.Context) {
				for {
					_ = s.Sleep(ctx, 1)
				}
			})
			_, _ = s.WaitAny(ctx, -1, s.NewSignal())
		},
		"after main": func(ctx context.Context, s *simsched.Sim) {
			s.Go(ctx, "spinner", func(ctx context.Context) {
				for {
					_ = s.Sleep(ctx, 1)
				}
			})
		},
	} {
		s := simsched.New(1, simsched.Options{MaxSteps: 500})
		require.ErrorIs(t, s.Run(t.Context(), func(ctx context.Context) { spin(ctx, s) }), simsched.ErrRunaway, name)
	}
	s := simsched.New(1, simsched.Options{})
	err := s.Run(t.Context(), func(ctx context.Context) {
		s.Go(ctx, "bad", func(context.Context) { panic("boom") })
		_ = s.Sleep(ctx, 10)
	})
	require.ErrorIs(t, err, simsched.ErrPanic)
	require.ErrorContains(t, err, "bad#1")
	require.ErrorContains(t, err, "boom")
	require.PanicsWithValue(t, "mine", func() {
		s := simsched.New(1, simsched.Options{})
		_ = s.Run(t.Context(), func(ctx context.Context) {
			s.Go(ctx, "waits", func(ctx context.Context) { _ = s.Sleep(ctx, 10) })
			panic("mine")
		})
	})
}

// TestAKilledGroupDoesNothingMore is how a crash of a process is played.
func TestAKilledGroupDoesNothingMore(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		s := simsched.New(seed, simsched.Options{})
		killed, steps, other := false, 0, 0
		require.NoError(t, s.Run(t.Context(), func(ctx context.Context) {
			gate := s.NewSignal()
			work := func(ctx context.Context) {
				defer gate.Fire()
				for range 1000 {
					s.Yield("work")
					require.False(t, killed)
					steps++
				}
			}
			process := simsched.WithGroup(ctx, "p1")
			for range 3 {
				s.Go(process, "root", func(context.Context) {
					// A context without the group, started by one of the group.
					s.Go(ctx, "child", work)
					work(process)
				})
			}
			s.Go(simsched.WithGroup(ctx, "p2"), "other", func(context.Context) {
				for range 100 {
					s.Yield("work")
					other++
				}
			})
			if seed%2 == 0 {
				s.Go(process, "killer", func(context.Context) {
					s.Yield("wait a little")
					killed = true
					s.Kill("p1")
					require.Fail(t, "the killer went on")
				})
			} else {
				s.Yield("wait a little")
				killed = true
				s.Kill("p1")
			}
			require.NoError(t, s.Sleep(ctx, 100))
			require.False(t, gate.Fired(), "a deferred call of the killed had an effect")
		}))
		require.Less(t, steps, 6000)
		require.Equal(t, 100, other)
	}
}

func TestAForeignSignalIsRefused(t *testing.T) {
	t.Parallel()
	a, b := simsched.New(1, simsched.Options{}), simsched.New(1, simsched.Options{})
	require.NoError(t, a.Run(t.Context(), func(context.Context) {
		require.NoError(t, b.Run(t.Context(), func(ctx context.Context) {
			_, err := b.WaitAny(ctx, 0, a.NewSignal())
			require.Error(t, err)
		}))
	}))
}
