package memory_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/adapter/memory"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/host/porttest"
)

func TestWaker(t *testing.T) {
	t.Parallel()
	porttest.Waker(t, func(t *testing.T) porttest.WakerWorld {
		t.Helper()
		now := clock()
		tell := func() ident.Instant { return now }
		w := memory.NewWaker(memory.WakerOptions{Now: tell})
		return porttest.WakerWorld{
			Waker: w, Park: w.Park, Now: tell,
			Advance: func(ms int64) { now = now.Add(ms) },
		}
	})
}

func TestWakerTellsWhatFollows(t *testing.T) {
	t.Parallel()
	var told []string
	tell := func(what string) func(a memory.Activation) {
		return func(a memory.Activation) { told = append(told, what+" "+a.Key.String()+" "+a.Inc) }
	}
	fault := errors.New("lost")
	var inject error
	w := memory.NewWaker(memory.WakerOptions{
		Now: clock, Started: tell("started"), Ended: tell("ended"),
		Woken: func(a memory.Activation, token string) { tell("woken")(a); told = append(told, token) },
		Inject: func(_ context.Context, op memory.Op, when memory.When) error {
			if when == memory.After && op.Name == "waker.start" {
				return inject
			}
			return nil
		},
	})
	key := host.Key{Tenant: "t", Session: "s"}
	inject = fault
	require.ErrorIs(t, w.Start(t.Context(), key, "i", 1), fault, "it has started, and nobody heard")
	inject = nil
	require.NoError(t, w.Start(t.Context(), key, "i", 1))
	token, err := w.Park(t.Context(), key, "i", 1, 0)
	require.NoError(t, err)
	require.NoError(t, w.Complete(t.Context(), token))
	require.ErrorIs(t, w.Complete(t.Context(), token), host.ErrTokenDone)
	require.NoError(t, w.End(t.Context(), key, "i", 1))
	require.NoError(t, w.End(t.Context(), key, "i", 1))
	require.Equal(t, []string{"started t/s i", "woken t/s i", token, "ended t/s i"}, told)
}
