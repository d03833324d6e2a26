package memory_test

import (
	"context"
	"errors"
	"strings"
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

func frame(turn ident.TurnID, attempt int, part, text string) host.Frame {
	return host.Frame{Run: 1, Turn: turn, Attempt: attempt, Delta: host.Delta{Part: part, Text: text}}
}

func TestFrames(t *testing.T) {
	t.Parallel()
	porttest.Frames(t, func(*testing.T) (host.Frames, func(key host.Key) func() []host.Frame) {
		hub := memory.NewHub()
		return hub, func(key host.Key) func() []host.Frame {
			_, w := hub.Watch(key, 16)
			return func() (got []host.Frame) {
				for len(w.Frames()) > 0 {
					got = append(got, <-w.Frames())
				}
				return got
			}
		}
	})
}

func TestHub(t *testing.T) {
	t.Parallel()
	key := host.Key{Tenant: "t", Session: "s"}
	texts := func(frames []host.Frame) (out []string) {
		for _, f := range frames {
			out = append(out, f.Part+":"+f.Text)
		}
		return out
	}

	t.Run("WhoComesLaterSeesTheTurnSoFar", func(t *testing.T) {
		t.Parallel()
		hub := memory.NewHub()
		hub.PublishFrame(key, frame(1, 1, "text", "dropped"))
		for _, text := range []string{"a", "b"} {
			hub.PublishFrame(key, frame(1, 2, "reasoning", text))
			hub.PublishFrame(key, frame(1, 2, "text", text+text))
		}
		so, w := hub.Watch(key, 4)
		require.Equal(t, []string{"reasoning:ab", "text:aabb"}, texts(so))
		hub.PublishFrame(key, frame(1, 2, "text", "c"))
		require.Equal(t, "c", (<-w.Frames()).Text)

		hub.TurnOver(key, 1)
		so, _ = hub.Watch(key, 4)
		require.Empty(t, so)
	})
	t.Run("AWatcherWithoutRoomGoesOnFromTheWhole", func(t *testing.T) {
		t.Parallel()
		hub := memory.NewHub()
		_, w := hub.Watch(key, 2)
		_, lost := w.Lost()
		require.False(t, lost)
		for _, text := range []string{"a", "b", "c", "d"} {
			hub.PublishFrame(key, frame(1, 1, "text", text))
		}
		so, lost := w.Lost()
		require.True(t, lost)
		require.Equal(t, []string{"text:abcd"}, texts(so))
		require.Empty(t, w.Frames())
		hub.PublishFrame(key, frame(1, 1, "text", "e"))
		require.Equal(t, "e", (<-w.Frames()).Text)
	})
	t.Run("WhatATurnSaidIsBounded", func(t *testing.T) {
		t.Parallel()
		hub := memory.NewHub()
		for range 20 {
			hub.PublishFrame(key, frame(1, 1, "text", strings.Repeat("x", 100<<10)))
		}
		so, _ := hub.Watch(key, 1)
		require.Empty(t, so)
		hub.PublishFrame(key, frame(2, 1, "text", "y"))
		so, _ = hub.Watch(key, 1)
		require.Equal(t, []string{"text:y"}, texts(so))
	})
	t.Run("AClosedWatcherIsForgotten", func(t *testing.T) {
		t.Parallel()
		hub := memory.NewHub()
		_, a := hub.Watch(key, 1)
		_, b := hub.Watch(key, 1)
		a.Close()
		a.Close()
		require.True(t, hub.Watched(key))
		b.Close()
		require.False(t, hub.Watched(key))
		hub.PublishFrame(key, frame(1, 1, "text", "x"))
		require.Empty(t, a.Frames())
	})
}
