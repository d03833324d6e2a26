package host_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/host"
)

// A command that is given up is noted beside whatever the session is doing:
// nobody is woken, and a second delivery of the message notes nothing.
func TestADeadCommandIsNotedOnceAndMovesNothing(t *testing.T) {
	t.Parallel()
	lab{specs: plain, model: gated, options: host.Options{SweepMs: ident.Hour}}.play(t, func(ctx context.Context, w *labWorld) {
		f, k, id := parkedOn(ctx, w)
		other := w.front(ctx)
		dead := func(message string) session.Command {
			return &session.NoteDead{Source: "inbox", ID: message, Receives: 3, Code: "unavailable", Command: "POST /runs"}
		}
		before := w.head(ctx, k)
		require.False(t, f.must(ctx, k, dead("m1")).Replies[0].Same)
		h := w.head(ctx, k)
		require.Equal(t, before.Drive, h.Drive, "a note wakes nobody")
		require.Equal(t, before.DueAt, h.DueAt)
		require.Equal(t, before.Seq+1, h.Seq)
		require.True(t, other.must(ctx, k, dead("m1")).Replies[0].Same)
		require.False(t, other.must(ctx, k, dead("m2")).Replies[0].Same)
		require.True(t, f.must(ctx, k, dead("m2")).Replies[0].Same)
		require.Equal(t, 2, w.count(ctx, k, session.KindCommandDead))

		// The run goes on as if nothing had been noted.
		f.must(ctx, k, decide(true, "", 1))
		w.start(w.group(ctx))
		w.sleep(ctx, 21_000)
		require.NoError(t, w.engine.SweepOnce(ctx))
		w.untilIdle(ctx, k)
		v, err := w.engine.Run(ctx, k, id)
		require.NoError(t, err)
		require.Equal(t, session.RunDone, v.Status)

		f.must(ctx, k, &session.CloseSession{Asked: asked("")})
		_, err = f.do(ctx, k, dead("m3"))
		var rej *session.Rejection
		require.ErrorAs(t, err, &rej)
		require.Equal(t, session.CodeSessionClosed, rej.Code)
		_, err = f.do(ctx, key("other"), dead("m3"))
		require.ErrorAs(t, err, &rej)
		require.Equal(t, session.CodeNotFound, rej.Code)
	})
}
