package sqlite

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/host/porttest"
)

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func asStores(s *Store) porttest.Stores {
	return porttest.Stores{Log: s, Blobs: s, Checkpoints: s, Stash: s, Now: s.now}
}

func stores(t *testing.T) porttest.Stores {
	t.Helper()
	return asStores(open(t, t.TempDir()))
}

func caps() porttest.Capabilities {
	return porttest.Capabilities{
		Persistent: true, Concurrent: true, PageBytes: true, FencesLate: true,
		Reopen: func(t *testing.T, old porttest.Stores) porttest.Stores {
			t.Helper()
			s := old.Log.(*Store)
			require.NoError(t, s.Close())
			return asStores(open(t, s.dir))
		},
		TamperBlob: tamper,
		DropEvent: func(t *testing.T, s porttest.Stores, key host.Key, seq ident.Seq) {
			t.Helper()
			store := s.Log.(*Store)
			number, err := store.number(t.Context(), key)
			require.NoError(t, err)
			change(t, store, "DELETE FROM events WHERE id = ?1", eventID(number, seq))
		},
	}
}

// change writes behind the store's back.
func change(t *testing.T, s *Store, sql string, args ...any) {
	t.Helper()
	require.NoError(t, s.write.do(t.Context(), 0, func(c *conn) error { return c.exec(sql, args...) }))
}

func tamper(t *testing.T, s porttest.Stores, key host.Key, ref blob.Ref) {
	t.Helper()
	store := s.Log.(*Store)
	file, data, there, err := store.findBlob(t.Context(), key, ref)
	require.NoError(t, err)
	require.True(t, there)
	if file == "" {
		data[0] ^= 1
		hash, err := hashOf(ref)
		require.NoError(t, err)
		change(t, store, "UPDATE blobs SET data = ?1 WHERE hash = ?2", data, hash)
		return
	}
	path := filepath.Join(store.files.root, file)
	data, err = os.ReadFile(path)
	require.NoError(t, err)
	data[0] ^= 1
	require.NoError(t, os.WriteFile(path, data, 0o600))
}

func TestLog(t *testing.T)         { t.Parallel(); porttest.Log(t, stores, caps()) }
func TestBlobs(t *testing.T)       { t.Parallel(); porttest.Blobs(t, stores, caps()) }
func TestCheckpoints(t *testing.T) { t.Parallel(); porttest.Checkpoints(t, stores, caps()) }
func TestStash(t *testing.T)       { t.Parallel(); porttest.Stash(t, stores, caps()) }
