package host_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/memory"
	"github.com/perdure/perdure/internal/adapter/simsched"
	"github.com/perdure/perdure/internal/host"
)

// I18: a deletion that fails on its way is finished by the sweep; the head goes
// last, so that nothing is forgotten.
func TestADeletionThatIsCutShort(t *testing.T) {
	t.Parallel()
	var purges, fails int
	lab{
		reports: true,
		deps: func(_ *simsched.Sim, d *host.Deps) {
			d.Purge = func(context.Context, host.Key, string) error {
				if purges++; purges <= fails {
					return errIO
				}
				return nil
			}
		},
		inject: func(sim *simsched.Sim) memory.Injector {
			return func(_ context.Context, op memory.Op, when memory.When) error {
				if op.Name == "log.delete" && when == memory.Before && purges == fails+1 {
					return errIO // once more, at the next step
				}
				return nil
			}
		},
	}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config())
		w.submit(ctx, k, "hi")
		w.untilIdle(ctx, k)
		w.must(ctx, k, &session.CloseSession{Asked: asked("")})
		fails = 3
		require.NoError(t, w.engine.Delete(ctx, k))
		_, err := w.engine.View(ctx, k)
		requireCode(t, err, session.CodeNotFound)
		requireCode(t, w.engine.Delete(ctx, k), session.CodeNotFound)
		require.Equal(t, host.StatusDeleting, w.head(ctx, k).Status)
		w.crash(ctx)
		w.start(w.group(ctx))
		w.sleep(ctx, ident.Minute)
		_, err = w.store.Head(ctx, k)
		require.ErrorIs(t, err, host.ErrNotFound)
		require.GreaterOrEqual(t, purges, fails+2)
		require.Empty(t, w.store.Keys())
		w.open(ctx, k, config()) // the id is free again
	})
}

// I18: a deletion that fails after the head is gone, as one that goes piece by
// piece may, is still brought to its end.
func TestADeletionThatFailsBehindItsHead(t *testing.T) {
	t.Parallel()
	var deletes int
	lab{reports: true, inject: func(*simsched.Sim) memory.Injector {
		return func(_ context.Context, op memory.Op, when memory.When) error {
			if op.Name == "log.delete" && when == memory.After {
				if deletes++; deletes < 4 {
					return errIO
				}
			}
			return nil
		}
	}}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config())
		w.must(ctx, k, &session.CloseSession{Asked: asked("")})
		require.NoError(t, w.engine.Delete(ctx, k))
		_, err := w.store.Head(ctx, k)
		require.ErrorIs(t, err, host.ErrNotFound)
		w.must(ctx, k, &session.OpenSession{Inc: "another", Config: config(), Asked: asked("")})
		w.sleep(ctx, 20*ident.Minute)
		require.Equal(t, 4, deletes, "until it went through")
		require.Equal(t, "another", w.head(ctx, k).Inc)
	})
}
