package gosched_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/gosched"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/host/porttest"
)

func TestSched(t *testing.T) {
	t.Parallel()
	porttest.Sched(t, func(t *testing.T, main func(ctx context.Context, s host.Sched)) {
		t.Helper()
		s := gosched.New()
		main(t.Context(), s)
		require.NoError(t, s.Wait(t.Context()))
	}, porttest.SchedCapabilities{})
}

func TestWaitJoinsTasksOfTasks(t *testing.T) {
	t.Parallel()
	s := gosched.New()
	require.NoError(t, s.Wait(t.Context()), "nothing was started")

	gate := s.NewSignal()
	ended := 0
	s.Go(t.Context(), "outer", func(ctx context.Context) {
		_, _ = s.WaitAny(ctx, -1, gate)
		s.Go(ctx, "inner", func(context.Context) { ended++ })
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.Wait(ctx), context.Canceled)
	gate.Fire()
	require.NoError(t, s.Wait(t.Context()))
	require.Equal(t, 1, ended)
	require.NoError(t, s.Wait(t.Context()))
}

type foreign struct{}

func (foreign) Fire()       {}
func (foreign) Fired() bool { return false }

func TestAForeignSignalIsRefused(t *testing.T) {
	t.Parallel()
	s := gosched.New()
	_, err := s.WaitAny(t.Context(), -1, foreign{})
	require.Error(t, err)
	_, err = s.WaitAny(t.Context(), -1, s.NewSignal(), s.NewSignal(), s.NewSignal(), foreign{})
	require.Error(t, err)
}
