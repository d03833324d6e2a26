package dir_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/internal/adapter/dir"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/host/porttest"
)

var key = host.Key{Tenant: "acme", Session: "s1"}

func open(t *testing.T) (*dir.Workspaces, string) {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "workspaces")
	w, err := dir.Open(folder)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return w, folder
}

func put(t *testing.T, w *dir.Workspaces, path, text string) {
	t.Helper()
	_, done, err := w.WriteFile(t.Context(), key, "", path, []byte(text), nil, "op")
	require.NoError(t, err)
	require.True(t, done)
}

// inside is where the files of the test's session are on disk.
func inside(folder string) string { return filepath.Join(folder, "acme", "own", "s1") }

func TestWorkspacesKeepThePort(t *testing.T) {
	t.Parallel()
	porttest.Workspaces(t, func(t *testing.T) porttest.WorkspacesPort {
		t.Helper()
		w, _ := open(t)
		return w
	})
}

func TestFilesAreThereAfterReopening(t *testing.T) {
	t.Parallel()
	w, folder := open(t)
	put(t, w, "a/b", "text")
	again, err := dir.Open(folder)
	require.NoError(t, err)
	defer func() { require.NoError(t, again.Close()) }()
	data, err := again.ReadFile(t.Context(), key, "", "a/b")
	require.NoError(t, err)
	require.Equal(t, "text", string(data))
}

func TestNobodyElseMayReadTheFiles(t *testing.T) {
	t.Parallel()
	w, folder := open(t)
	put(t, w, "a/b", "text")
	seen := 0
	require.NoError(t, filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, path)
		seen++
		return nil
	}))
	require.Greater(t, seen, 5)
}

func TestLinksDoNotLeadOut(t *testing.T) {
	t.Parallel()
	w, folder := open(t)
	put(t, w, "a/b", "text")
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.MkdirAll(secret, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(secret, "key"), []byte("secret"), 0o600))
	files := filepath.Join(inside(folder), "files")
	for name, to := range map[string]string{
		"file": filepath.Join(secret, "key"), "folder": secret, "up": "../../../../..", "dangling": filepath.Join(secret, "none"),
	} {
		require.NoError(t, os.Symlink(to, filepath.Join(files, name)))
	}
	for _, path := range []string{"file", "folder/key", "up/secret/key", "dangling"} {
		_, err := w.ReadFile(t.Context(), key, "", path)
		require.ErrorIs(t, err, host.ErrNotFound, path)
	}
	for _, path := range []string{"folder/key", "folder/new", "folder/sub/new", "up/new"} {
		_, _, err := w.WriteFile(t.Context(), key, "", path, []byte("mine"), nil, "")
		require.ErrorIs(t, err, fs.ErrInvalid, path)
	}
	// A link in a file's place is replaced, never written through.
	put(t, w, "file", "mine")
	data, err := os.ReadFile(filepath.Join(secret, "key"))
	require.NoError(t, err)
	require.Equal(t, "secret", string(data))
	entries, err := os.ReadDir(secret)
	require.NoError(t, err)
	require.Len(t, entries, 1)

	listed, err := w.ListFiles(t.Context(), key, "", "", "", true, 100)
	require.NoError(t, err)
	require.Len(t, listed, 2)
	require.NoError(t, w.DropWorkspace(t.Context(), key, ""))
	require.FileExists(t, filepath.Join(secret, "key"))
}

func TestOtherThanFilesAreNotThere(t *testing.T) {
	t.Parallel()
	w, folder := open(t)
	put(t, w, "a", "text")
	files := filepath.Join(inside(folder), "files")
	require.NoError(t, os.WriteFile(filepath.Join(files, "\xff"), nil, 0o600))
	makePipe(t, filepath.Join(files, "pipe"))
	listed, err := w.ListFiles(t.Context(), key, "", "", "", true, 100)
	require.NoError(t, err)
	require.Len(t, listed, 1)
	_, err = w.ReadFile(t.Context(), key, "", "pipe")
	require.ErrorIs(t, err, host.ErrNotFound)
}

// TestCrashesLeaveNothing puts there what a crash at each step leaves.
func TestCrashesLeaveNothing(t *testing.T) {
	t.Parallel()
	w, folder := open(t)
	put(t, w, "f", "before")

	// After the note, before the file.
	note := filepath.Join(inside(folder), "notes", blob.Sum([]byte("f")).Hex())
	require.NoError(t, os.WriteFile(note, []byte(`{"operation":"op 2","content":"`+string(blob.Sum([]byte("after")))+`"}`), 0o600))
	st, err := w.StatFile(t.Context(), key, "", "f")
	require.NoError(t, err)
	require.Empty(t, st.Operation, "the operation has not written its bytes")

	// After a half-written note.
	require.NoError(t, os.WriteFile(note, []byte(`{"oper`), 0o600))
	st, err = w.StatFile(t.Context(), key, "", "f")
	require.NoError(t, err)
	require.Empty(t, st.Operation)

	// After the folders, before the file in them: the name is free for a file.
	require.NoError(t, os.MkdirAll(filepath.Join(inside(folder), "files", "g", "h", "i"), 0o700))
	flat, err := w.ListFiles(t.Context(), key, "", "", "", false, 100)
	require.NoError(t, err)
	require.Len(t, flat, 1)
	put(t, w, "g", "a file now")

	// Half a temporary file: taken away once nobody can be writing it.
	temp := filepath.Join(inside(folder), "tmp")
	require.NoError(t, os.WriteFile(filepath.Join(temp, "old"), []byte("ha"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(temp, "new"), []byte("ha"), 0o600))
	long := time.Now().Add(-2 * time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(temp, "old"), long, long))
	put(t, w, "f", "after")
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Equal(t, "new", left[0].Name())
}

func TestFoldersTellIdsApartWhereCaseIsIgnored(t *testing.T) {
	t.Parallel()
	w, folder := open(t)
	ids := []string{"ab", "Ab", "aB", "AB", "a:b", "a.b", "a-b", "a_b", strings.Repeat("A", 128), strings.Repeat("aB", 64)}
	for _, id := range ids {
		_, _, err := w.WriteFile(t.Context(), key, id, "f", []byte(id), nil, "")
		require.NoError(t, err)
	}
	entries, err := os.ReadDir(filepath.Join(folder, "acme", "shared"))
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, e := range entries {
		require.Equal(t, strings.ToLower(e.Name()), e.Name())
		require.LessOrEqual(t, len(e.Name()), 255)
		require.NotContains(t, e.Name(), ":")
		seen[e.Name()] = true
	}
	require.Len(t, seen, len(ids))
	names, err := w.ListWorkspaces(t.Context(), key.Tenant)
	require.NoError(t, err)
	require.ElementsMatch(t, ids, names)
}
