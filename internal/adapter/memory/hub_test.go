package memory_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/adapter/memory"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/host/porttest"
)

func TestFrames(t *testing.T) {
	t.Parallel()
	porttest.Frames(t, func(*testing.T) porttest.FramesWorld {
		hub := memory.NewHub()
		return porttest.FramesWorld{Frames: hub, Live: hub}
	})
}

func frame(turn ident.TurnID, attempt int, part, text string) host.Frame {
	return host.Frame{Run: 1, Turn: turn, Attempt: attempt, Delta: host.Delta{Part: part, Text: text}}
}

func texts(frames []host.Frame, whole bool) (out []string) {
	if whole {
		out = []string{"whole"}
	}
	for _, f := range frames {
		out = append(out, f.Part+":"+f.Text)
	}
	return out
}

// watching counts how often it is woken.
func watching(t *testing.T, hub *memory.Hub, key host.Key) (w host.FrameWatch, woken *int) {
	t.Helper()
	woken = new(int)
	return hub.WatchFrames(t.Context(), key, func() { *woken++ }), woken
}

func TestHub(t *testing.T) {
	t.Parallel()
	key := host.Key{Tenant: "t", Session: "s"}

	t.Run("TheFirstTakeIsTheTurnSoFar", func(t *testing.T) {
		t.Parallel()
		hub := memory.NewHub()
		hub.PublishFrame(key, frame(1, 1, "text", "dropped"))
		for _, text := range []string{"a", "b"} {
			hub.PublishFrame(key, frame(1, 2, "reasoning", text))
			hub.PublishFrame(key, frame(1, 2, "text", text+text))
		}
		w, woken := watching(t, hub, key)
		require.Equal(t, []string{"whole", "reasoning:ab", "text:aabb"}, texts(w.Take()))
		require.Empty(t, texts(w.Take()))
		require.Zero(t, *woken)
		hub.PublishFrame(key, frame(1, 2, "text", "c"))
		require.Equal(t, []string{"text:c"}, texts(w.Take()))
		require.Equal(t, 1, *woken)
	})
	t.Run("AWatcherWithoutRoomGoesOnFromTheWhole", func(t *testing.T) {
		t.Parallel()
		hub := memory.NewHub()
		w, _ := watching(t, hub, key)
		w.Take()
		piece := strings.Repeat("x", 100<<10)
		for range 4 {
			hub.PublishFrame(key, frame(1, 1, "text", piece))
		}
		require.Equal(t, []string{"whole", "text:" + strings.Repeat(piece, 4)}, texts(w.Take()))
		hub.PublishFrame(key, frame(1, 1, "text", "e"))
		require.Equal(t, []string{"text:e"}, texts(w.Take()))
		for range 10_000 {
			hub.PublishFrame(key, frame(1, 1, "text", ""))
		}
		_, whole := w.Take()
		require.True(t, whole)
	})
	t.Run("WhatATurnSaidIsBounded", func(t *testing.T) {
		t.Parallel()
		hub := memory.NewHub()
		for range 20 {
			hub.PublishFrame(key, frame(1, 1, "text", strings.Repeat("x", 100<<10)))
		}
		w, _ := watching(t, hub, key)
		require.Equal(t, []string{"whole"}, texts(w.Take()))
		hub.PublishFrame(key, frame(2, 1, "text", "y"))
		require.Equal(t, []string{"text:y"}, texts(w.Take()))
	})
	t.Run("WhatAllTurnsSaidIsBounded", func(t *testing.T) {
		t.Parallel()
		hub := memory.NewHub()
		large := strings.Repeat("x", 1<<20)
		name := func(i int) host.Key { return host.Key{Tenant: "t", Session: ident.SessionID(fmt.Sprintf("s%d", i))} }
		so := func(i int) []host.Frame {
			w, _ := watching(t, hub, name(i))
			defer w.Close()
			frames, _ := w.Take()
			return frames
		}
		for i := range 70 {
			hub.PublishFrame(name(i), frame(1, 1, "text", large))
		}
		require.Empty(t, so(0))
		require.NotEmpty(t, so(69))
		for i := range 5000 {
			hub.PublishFrame(name(i), frame(1, 2, "text", "x"))
		}
		require.Empty(t, so(0))
		require.NotEmpty(t, so(4999))
	})
	t.Run("AClosedWatcherIsForgotten", func(t *testing.T) {
		t.Parallel()
		hub := memory.NewHub()
		a, _ := watching(t, hub, key)
		b, _ := watching(t, hub, key)
		a.Take()
		a.Close()
		a.Close()
		require.True(t, hub.Watched(key))
		b.Close()
		require.False(t, hub.Watched(key))
		hub.PublishFrame(key, frame(1, 1, "text", "x"))
		require.Empty(t, texts(a.Take()))
	})
}
