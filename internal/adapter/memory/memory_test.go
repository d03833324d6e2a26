package memory_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/adapter/memory"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/host/porttest"
)

func clock() ident.Instant { return 1_800_000_000_000 }

func stores(t *testing.T) porttest.Stores {
	t.Helper()
	s := memory.New(memory.Options{Now: clock})
	return porttest.Stores{Log: s, Blobs: s, Checkpoints: s, Stash: s, Now: clock}
}

func caps() porttest.Capabilities {
	return porttest.Capabilities{
		Concurrent: true, PageBytes: true, FencesLate: true,
		TamperBlob: func(_ *testing.T, s porttest.Stores, key host.Key, ref blob.Ref) {
			s.Log.(*memory.Store).TamperBlob(key, ref)
		},
		DropEvent: func(_ *testing.T, s porttest.Stores, key host.Key, seq ident.Seq) {
			s.Log.(*memory.Store).DropEvent(key, seq)
		},
	}
}

func TestLog(t *testing.T)         { t.Parallel(); porttest.Log(t, stores, caps()) }
func TestBlobs(t *testing.T)       { t.Parallel(); porttest.Blobs(t, stores, caps()) }
func TestCheckpoints(t *testing.T) { t.Parallel(); porttest.Checkpoints(t, stores, caps()) }
func TestStash(t *testing.T)       { t.Parallel(); porttest.Stash(t, stores, caps()) }

func creation(key host.Key) host.Commit {
	return host.Commit{
		Key: key, Head: host.Head{Rev: 1, Write: "w1", Seq: 1, Inc: "i", Status: host.StatusOpen},
		Entries: []host.StoredEntry{{Seq: 1, Data: []byte("x")}},
	}
}

func TestInjectedFaults(t *testing.T) {
	t.Parallel()
	key := host.Key{Tenant: "t", Session: "s"}
	lost := errors.New("lost")

	setup := func(t *testing.T, when memory.When, inject error) *memory.Store {
		t.Helper()
		return memory.New(memory.Options{Inject: func(_ context.Context, op memory.Op, w memory.When) error {
			if op.Name == "log.commit" && w == when {
				require.Equal(t, key, op.Key)
				require.Equal(t, "w1", op.Commit.Head.Write)
				return inject
			}
			return nil
		}})
	}

	t.Run("AFaultBeforeWritesNothing", func(t *testing.T) {
		t.Parallel()
		for _, fault := range []error{lost, host.ErrFull} {
			s := setup(t, memory.Before, fault)
			require.ErrorIs(t, s.Commit(t.Context(), creation(key)), fault)
			_, err := s.Head(t.Context(), key)
			require.ErrorIs(t, err, host.ErrNotFound)
		}
	})
	t.Run("ALostResponseWasPerformed", func(t *testing.T) {
		t.Parallel()
		s := setup(t, memory.After, lost)
		require.ErrorIs(t, s.Commit(t.Context(), creation(key)), lost)
		head, err := s.Head(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, "w1", head.Write)
	})
	t.Run("AConflictCarriesTheStoredHead", func(t *testing.T) {
		t.Parallel()
		s := setup(t, memory.Before, memory.ErrInjectConflict)
		var conflict *host.Conflict
		require.ErrorAs(t, s.Commit(t.Context(), creation(key)), &conflict)
		require.Zero(t, conflict.Head.Rev)
	})
	t.Run("ACancelWhileTheInjectorTakesItsTimeWritesNothing", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		s := memory.New(memory.Options{Inject: func(context.Context, memory.Op, memory.When) error { cancel(); return nil }})
		require.ErrorIs(t, s.Commit(ctx, creation(key)), context.Canceled)
		require.Empty(t, s.Keys())
	})
}

// TestWhatIsReadIsACopy: who changes what was returned, or what was handed in,
// changes nothing that is stored.
func TestWhatIsReadIsACopy(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Options{})
	key := host.Key{Tenant: "t", Session: "s"}
	c := creation(key)
	c.Head.Quarantine = &host.Quarantine{Code: "a"}
	c.Meta = &host.Meta{Title: "a", Metadata: map[string]string{"k": "a"}}
	c.Rows = []host.Row{{Key: "r", Data: []byte("a")}}
	require.NoError(t, s.Commit(t.Context(), c))
	for range 2 {
		c.Head.Quarantine.Code, c.Meta.Metadata["k"], c.Rows[0].Data[0], c.Entries[0].Data[0] = "b", "b", 'b', 'b'
		head, err := s.Head(t.Context(), key)
		require.NoError(t, err)
		meta, err := s.Meta(t.Context(), key)
		require.NoError(t, err)
		row, err := s.Row(t.Context(), key, "r")
		require.NoError(t, err)
		page, err := s.Read(t.Context(), key, 0, 1, 1, 1)
		require.NoError(t, err)
		require.Equal(t, "aaax", head.Quarantine.Code+meta.Metadata["k"]+string(row.Data)+string(page[0].Data))
		head.Quarantine.Code, meta.Metadata["k"], row.Data[0], page[0].Data[0] = "b", "b", 'b', 'b'
	}
}

// TestTheClockMayUseTheStore: it is asked without a lock, as the scheduling
// point that a simulated one is.
func TestTheClockMayUseTheStore(t *testing.T) {
	t.Parallel()
	var s *memory.Store
	asked := 0
	now := func() ident.Instant {
		asked++
		_, _ = s.Head(context.Background(), host.Key{})
		return 5
	}
	s = memory.New(memory.Options{Now: now})
	key := host.Key{Tenant: "t", Session: "s"}
	for _, want := range []string{"", "a"} {
		existing, err := s.PutStash(t.Context(), key, "n", []byte("a"), 10, true)
		require.NoError(t, err)
		require.Equal(t, want, string(existing))
	}
	var w *memory.Waker
	w = memory.NewWaker(memory.WakerOptions{Now: func() ident.Instant {
		_, _ = w.Alive(context.Background(), key, "i", 1)
		return now()
	}})
	require.NoError(t, w.Start(t.Context(), key, "i", 1))
	token, err := w.Park(t.Context(), key, "i", 1, 6)
	require.NoError(t, err)
	require.NoError(t, w.Complete(t.Context(), token))
	require.Equal(t, 3, asked)
}
