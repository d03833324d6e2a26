package porttest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// FramesWorld is the two ends of live frames over one store.
type FramesWorld struct {
	Frames host.Frames
	Live   host.LiveFrames
	// Settle returns when what was published has reached the store; nil is at
	// once.
	Settle func(ctx context.Context) error
}

// Frames checks both ends of live frames: publishing returns, whoever watches or
// does not, and who watches can put together what was said.
func Frames(t *testing.T, factory func(t *testing.T) FramesWorld) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(t *testing.T, w FramesWorld)
	}{
		{"FramesReachWhoWatchesTheirSession", framesReach},
		{"WhoComesLaterHearsTheTurnSoFar", framesLater},
		{"AllWhoWatchHearAll", framesTwo},
		{"AHigherAttemptDiscardsALower", framesAttempt},
		{"OffsetsCountBytesAndCutNoCharacter", framesBytes},
		{"ATurnThatIsOverIsForgotten", framesOver},
		{"PublishingNeverWaits", framesStorm},
		{"AWatchEndsOnce", framesClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := factory(t)
			if w.Settle == nil {
				w.Settle = func(context.Context) error { return nil }
			}
			c.test(t, w)
		})
	}
}

func say(turn ident.TurnID, attempt int, part string, offset int, text string) host.Frame {
	return host.Frame{Run: 1, Turn: turn, Attempt: attempt, Delta: host.Delta{Part: part, Text: text}, Offset: int64(offset)}
}

// listener puts together what it hears.
type listener struct {
	t     *testing.T
	watch host.FrameWatch
	rung  chan struct{}
	of    host.Frame
	parts map[string]string
}

func listen(t *testing.T, w FramesWorld, key host.Key) *listener {
	t.Helper()
	l := &listener{t: t, rung: make(chan struct{}, 1), parts: map[string]string{}}
	l.watch = w.Live.WatchFrames(t.Context(), key, func() {
		select {
		case l.rung <- struct{}{}:
		default:
		}
	})
	t.Cleanup(l.watch.Close)
	return l
}

// take adds what has come.
func (l *listener) take() {
	frames, whole := l.watch.Take()
	if whole {
		l.parts = map[string]string{}
	}
	for _, f := range frames {
		require.False(l.t, f.Before(l.of), "attempt %d of turn %d after attempt %d of turn %d", f.Attempt, f.Turn, l.of.Attempt, l.of.Turn)
		if l.of.Before(f) {
			l.of, l.parts = f, map[string]string{}
		}
		name := fmt.Sprintf("%s%d", f.Part, f.Call)
		require.Equal(l.t, int64(len(l.parts[name])), f.Offset, "a piece of %s is missing or there twice", name)
		require.True(l.t, utf8.ValidString(f.Text), "a character is cut")
		l.parts[name] += f.Text
	}
}

// hears waits until what was put together is this.
func (l *listener) hears(want map[string]string) {
	l.t.Helper()
	guard := time.After(hang)
	for l.take(); !equalParts(l.parts, want); l.take() {
		select {
		case <-l.rung:
		case <-guard:
			require.Equal(l.t, want, l.parts)
			return
		}
	}
}

func equalParts(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for name, text := range a {
		if b[name] != text {
			return false
		}
	}
	return true
}

func framesReach(t *testing.T, w FramesWorld) {
	l := listen(t, w, keyOf("s1"))
	other := listen(t, w, host.Key{Tenant: "elsewhere", Session: "s1"})
	w.Frames.PublishFrame(keyOf("s1"), say(1, 1, "reasoning", 0, "hm"))
	w.Frames.PublishFrame(keyOf("s1"), say(1, 1, "text", 0, "a"))
	w.Frames.PublishFrame(keyOf("s2"), say(1, 1, "text", 0, "x"))
	w.Frames.PublishFrame(host.Key{Tenant: "elsewhere", Session: "s1"}, say(1, 1, "text", 0, "y"))
	w.Frames.PublishFrame(keyOf("s1"), say(1, 1, "text", 1, "b"))
	call := say(1, 1, "arguments", 0, "{}")
	call.Call = 2
	w.Frames.PublishFrame(keyOf("s1"), call)
	l.hears(map[string]string{"reasoning0": "hm", "text0": "ab", "arguments2": "{}"})
	other.hears(map[string]string{"text0": "y"})
	require.Equal(t, ident.RunID(1), l.of.Run)
}

func framesLater(t *testing.T, w FramesWorld) {
	key := keyOf("s1")
	w.Frames.PublishFrame(key, say(1, 1, "text", 0, "so "))
	w.Frames.PublishFrame(key, say(1, 1, "text", 3, "far"))
	l := listen(t, w, key)
	l.hears(map[string]string{"text0": "so far"})
	w.Frames.PublishFrame(key, say(1, 1, "text", 6, ", so good"))
	l.hears(map[string]string{"text0": "so far, so good"})
}

func framesTwo(t *testing.T, w FramesWorld) {
	key := keyOf("s1")
	a, b := listen(t, w, key), listen(t, w, key)
	for i := range 50 {
		w.Frames.PublishFrame(key, say(1, 1, "text", i, "x"))
	}
	want := map[string]string{"text0": strings.Repeat("x", 50)}
	a.hears(want)
	b.hears(want)
}

func framesAttempt(t *testing.T, w FramesWorld) {
	key := keyOf("s1")
	l := listen(t, w, key)
	w.Frames.PublishFrame(key, say(1, 1, "text", 0, "first"))
	l.hears(map[string]string{"text0": "first"})
	w.Frames.PublishFrame(key, say(1, 2, "text", 0, "second"))
	w.Frames.PublishFrame(key, say(1, 1, "text", 5, " late"))
	w.Frames.PublishFrame(key, say(1, 2, "text", 6, "!"))
	l.hears(map[string]string{"text0": "second!"})
	w.Frames.PublishFrame(key, say(2, 1, "text", 0, "next"))
	l.hears(map[string]string{"text0": "next"})
	late := listen(t, w, key)
	late.hears(map[string]string{"text0": "next"})
}

func framesBytes(t *testing.T, w FramesWorld) {
	key := keyOf("s1")
	l := listen(t, w, key)
	piece := strings.Repeat("🙂é", 300)
	var all strings.Builder
	for range 12 {
		w.Frames.PublishFrame(key, say(1, 1, "text", all.Len(), piece))
		all.WriteString(piece)
	}
	l.hears(map[string]string{"text0": all.String()})
}

func framesOver(t *testing.T, w FramesWorld) {
	key := keyOf("s1")
	l := listen(t, w, key)
	w.Frames.PublishFrame(key, say(1, 1, "text", 0, "over"))
	l.hears(map[string]string{"text0": "over"})
	w.Frames.TurnOver(key, 1, 1)
	require.NoError(t, w.Settle(t.Context()))
	frames, _ := listen(t, w, key).watch.Take()
	require.Empty(t, frames)
	// One that ends says nothing of the next.
	w.Frames.PublishFrame(key, say(2, 2, "text", 0, "on"))
	w.Frames.TurnOver(key, 2, 1)
	listen(t, w, key).hears(map[string]string{"text0": "on"})
}

func framesStorm(t *testing.T, w FramesWorld) {
	key := keyOf("s1")
	l := listen(t, w, key)
	const n = 10_000
	for i := range n {
		w.Frames.PublishFrame(key, say(1, 1, "text", i, "x"))
		w.Frames.PublishFrame(keyOf("unwatched"), say(1, 1, "text", i, "x"))
	}
	l.hears(map[string]string{"text0": strings.Repeat("x", n)})
}

func framesClosed(t *testing.T, w FramesWorld) {
	key := keyOf("s1")
	l := listen(t, w, key)
	l.watch.Close()
	l.watch.Close()
	w.Frames.PublishFrame(key, say(1, 1, "text", 0, "x"))
	require.NoError(t, w.Settle(t.Context()))
}
