package porttest

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// WorkspaceEntry and WorkspaceStat are the types of the port Workspaces of the
// file tools, by their own fields.
type (
	WorkspaceEntry = struct {
		Path     string
		Size     int64
		Modified ident.Instant
	}
	WorkspaceStat = struct {
		Size      int64
		Content   blob.Ref
		Operation string
		Modified  ident.Instant
	}
)

// WorkspacesPort is the port Workspaces of the file tools, which declare it and
// say what its methods promise.
type WorkspacesPort interface {
	ReadFile(ctx context.Context, key host.Key, workspace, path string) ([]byte, error)
	StatFile(ctx context.Context, key host.Key, workspace, path string) (WorkspaceStat, error)
	WriteFile(ctx context.Context, key host.Key, workspace, path string, data []byte, expect *blob.Ref, operation string) (blob.Ref, bool, error)
	DeleteFile(ctx context.Context, key host.Key, workspace, path string, expect *blob.Ref) (blob.Ref, bool, error)
	ListFiles(ctx context.Context, key host.Key, workspace, prefix, after string, deep bool, limit int) ([]WorkspaceEntry, error)
	ListWorkspaces(ctx context.Context, tenant ident.TenantID) ([]string, error)
	DropWorkspace(ctx context.Context, key host.Key, workspace string) error
}

// WorkspacesNeed has what begins the cases that ask more than others of what an
// implementation is built on, and skips them where that has it not.
type WorkspacesNeed struct {
	// ConditionalDelete: a file is deleted only as it was read.
	ConditionalDelete func(tb testing.TB)
	// AnyOrder: a listing goes on after a name that has more than ASCII.
	AnyOrder func(tb testing.TB)
}

// Workspaces checks an implementation of the file tools' port. open returns an
// empty store.
func Workspaces(t *testing.T, open func(t *testing.T) WorkspacesPort) {
	t.Helper()
	WorkspacesWhere(t, WorkspacesNeed{}, open)
}

// WorkspacesWhere is Workspaces, but for what cannot be seen.
func WorkspacesWhere(t *testing.T, need WorkspacesNeed, open func(t *testing.T) WorkspacesPort) {
	t.Helper()
	cases := []struct {
		name string
		run  func(w *workspaceSuite, t *testing.T)
		need func(tb testing.TB)
	}{
		{"what is written is read", (*workspaceSuite).reads, nil},
		{"what is not there is not found", (*workspaceSuite).finds, nil},
		{"a condition is kept", (*workspaceSuite).conditions, nil},
		{"a deletion keeps a condition", (*workspaceSuite).deletesAsRead, need.ConditionalDelete},
		{"of many conditional writers none is lost", (*workspaceSuite).races, nil},
		{"an operation is known while its bytes stand", (*workspaceSuite).operations, nil},
		{"deleting leaves nothing", (*workspaceSuite).deletes, nil},
		{"listings are in order and resume", (*workspaceSuite).lists, nil},
		{"listings resume beyond ASCII", (*workspaceSuite).listsAny, need.AnyOrder},
		{"a folder is one entry of a flat listing", (*workspaceSuite).folders, nil},
		{"bad paths are refused everywhere", (*workspaceSuite).paths, nil},
		{"files and folders do not take each other's place", (*workspaceSuite).clashes, nil},
		{"workspaces are kept apart", (*workspaceSuite).isolation, nil},
		{"any UTF-8 is a name", (*workspaceSuite).names, nil},
		{"a dropped workspace is empty", (*workspaceSuite).drops, nil},
		{"big files are whole, too big ones refused", (*workspaceSuite).sizes, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.need != nil {
				c.need(t)
			}
			c.run(&workspaceSuite{WorkspacesPort: open(t), key: host.Key{Tenant: "acme", Session: "s1"}}, t)
		})
	}
}

type workspaceSuite struct {
	WorkspacesPort
	key host.Key
}

func (w *workspaceSuite) put(t *testing.T, key host.Key, workspace, path, text string) {
	t.Helper()
	content, done, err := w.WriteFile(t.Context(), key, workspace, path, []byte(text), nil, "")
	require.NoError(t, err)
	require.True(t, done)
	require.Equal(t, blob.Sum([]byte(text)), content)
}

func (w *workspaceSuite) get(t *testing.T, key host.Key, workspace, path string) string {
	t.Helper()
	data, err := w.ReadFile(t.Context(), key, workspace, path)
	require.NoError(t, err)
	return string(data)
}

func (w *workspaceSuite) all(t *testing.T, prefix, after string, deep bool, limit int) []string {
	t.Helper()
	entries, err := w.ListFiles(t.Context(), w.key, "", prefix, after, deep, limit)
	require.NoError(t, err)
	paths := make([]string, 0, len(entries))
	for _, e := range entries {
		paths = append(paths, e.Path)
	}
	return paths
}

func (w *workspaceSuite) reads(t *testing.T) {
	w.put(t, w.key, "", "notes.md", "one")
	w.put(t, w.key, "", "notes.md", "two")
	w.put(t, w.key, "", "empty", "")
	w.put(t, w.key, "", "a/b/c.txt", "deep")
	require.Equal(t, "two", w.get(t, w.key, "", "notes.md"))
	require.Empty(t, w.get(t, w.key, "", "empty"))
	require.Equal(t, "deep", w.get(t, w.key, "", "a/b/c.txt"))
	st, err := w.StatFile(t.Context(), w.key, "", "notes.md")
	require.NoError(t, err)
	require.EqualValues(t, 3, st.Size)
	require.Equal(t, blob.Sum([]byte("two")), st.Content)
	require.Positive(t, st.Modified)
}

func (w *workspaceSuite) finds(t *testing.T) {
	missing := func() {
		_, err := w.ReadFile(t.Context(), w.key, "", "a/b")
		require.ErrorIs(t, err, host.ErrNotFound)
		_, err = w.StatFile(t.Context(), w.key, "", "a/b")
		require.ErrorIs(t, err, host.ErrNotFound)
		_, _, err = w.DeleteFile(t.Context(), w.key, "", "a/b", nil)
		require.ErrorIs(t, err, host.ErrNotFound)
	}
	missing() // in a workspace that was never written
	require.Empty(t, w.all(t, "", "", true, 10))
	w.put(t, w.key, "", "a/bc", "x")
	missing()
	_, err := w.ReadFile(t.Context(), w.key, "", "a")
	require.ErrorIs(t, err, host.ErrNotFound, "a folder is no file")
	_, err = w.ReadFile(t.Context(), w.key, "", "a/bc/d")
	require.ErrorIs(t, err, host.ErrNotFound, "nothing is below a file")
}

func (w *workspaceSuite) conditions(t *testing.T) {
	absent, one := blob.Ref(""), blob.Sum([]byte("one"))
	write := func(text string, expect *blob.Ref) (blob.Ref, bool) {
		content, done, err := w.WriteFile(t.Context(), w.key, "", "f", []byte(text), expect, "")
		require.NoError(t, err)
		return content, done
	}
	content, done := write("two", &one)
	require.False(t, done, "there is nothing to replace")
	require.Empty(t, content)
	_, done = write("one", &absent)
	require.True(t, done)
	content, done = write("two", &absent)
	require.False(t, done)
	require.Equal(t, one, content)
	_, done = write("two", &one)
	require.True(t, done)
	require.Equal(t, "two", w.get(t, w.key, "", "f"))
}

func (w *workspaceSuite) deletesAsRead(t *testing.T) {
	one := blob.Sum([]byte("one"))
	w.put(t, w.key, "", "f", "two")
	content, done, err := w.DeleteFile(t.Context(), w.key, "", "f", &one)
	require.NoError(t, err)
	require.False(t, done)
	require.Equal(t, blob.Sum([]byte("two")), content)
	_, done, err = w.DeleteFile(t.Context(), w.key, "", "f", &content)
	require.NoError(t, err)
	require.True(t, done)
}

func (w *workspaceSuite) races(t *testing.T) {
	const writers, each = 8, 5
	w.put(t, w.key, "", "sum/f", "")
	var all sync.WaitGroup
	for n := range writers {
		all.Go(func() {
			for left := each; left > 0; {
				before, err := w.ReadFile(t.Context(), w.key, "", "sum/f")
				if err != nil {
					t.Error(err)
					return
				}
				expect := blob.Sum(before)
				after := fmt.Appendf(before, "%d\n", n)
				_, done, err := w.WriteFile(t.Context(), w.key, "", "sum/f", after, &expect, "")
				if err != nil {
					t.Error(err)
					return
				}
				if done {
					left--
				}
			}
		})
	}
	all.Wait()
	require.Equal(t, writers*each, strings.Count(w.get(t, w.key, "", "sum/f"), "\n"))
}

func (w *workspaceSuite) operations(t *testing.T) {
	operation := func(path string) string {
		st, err := w.StatFile(t.Context(), w.key, "", path)
		require.NoError(t, err)
		return st.Operation
	}
	_, _, err := w.WriteFile(t.Context(), w.key, "", "a/f", []byte("one"), nil, "op 1\n")
	require.NoError(t, err)
	require.Equal(t, "op 1\n", operation("a/f"))
	w.put(t, w.key, "", "other", "one")
	require.Empty(t, operation("other"), "the operation is the path's, not the content's")
	_, _, err = w.WriteFile(t.Context(), w.key, "", "a/f", []byte("two"), nil, "op 2")
	require.NoError(t, err)
	require.Equal(t, "op 2", operation("a/f"))
	w.put(t, w.key, "", "a/f", "three")
	require.Empty(t, operation("a/f"))
	wrong := blob.Sum([]byte("x"))
	_, done, err := w.WriteFile(t.Context(), w.key, "", "a/f", []byte("four"), &wrong, "op 4")
	require.NoError(t, err)
	require.False(t, done)
	require.Empty(t, operation("a/f"), "a write that was not made leaves no word of itself")
}

func (w *workspaceSuite) deletes(t *testing.T) {
	w.put(t, w.key, "", "a/b/c", "x")
	w.put(t, w.key, "", "a/d", "x")
	_, done, err := w.DeleteFile(t.Context(), w.key, "", "a/b/c", nil)
	require.NoError(t, err)
	require.True(t, done)
	require.Equal(t, []string{"a/d"}, w.all(t, "", "", true, 10))
	_, err = w.ReadFile(t.Context(), w.key, "", "a/b/c")
	require.ErrorIs(t, err, host.ErrNotFound)
	w.put(t, w.key, "", "a/b", "the folder's name is free")
	require.Equal(t, []string{"a/b", "a/d"}, w.all(t, "", "", true, 10))
}

func (w *workspaceSuite) lists(t *testing.T) {
	w.pages(t, []string{"a!/x", "a.txt", "a/x", "b/1", "b/2", "b/c/3", "b0", "z"})
	require.Equal(t, []string{"b/1", "b/2", "b/c/3", "b0"}, w.all(t, "b", "", true, 100))
	require.Equal(t, []string{"b/1", "b/2", "b/c/3"}, w.all(t, "b/", "", true, 100))
	require.Equal(t, []string{"b/c/3"}, w.all(t, "b/c", "", true, 100))
	require.Equal(t, []string{"b/c/3", "b0"}, w.all(t, "b", "b/2", true, 100))
	require.Empty(t, w.all(t, "b/1/", "", true, 100))
	require.Empty(t, w.all(t, "nothing/here", "", true, 100))
	require.Empty(t, w.all(t, "../", "", true, 100))
	entries, err := w.ListFiles(t.Context(), w.key, "", "a.txt", "", true, 1)
	require.NoError(t, err)
	require.EqualValues(t, 5, entries[0].Size)
	require.Positive(t, entries[0].Modified)
}

func (w *workspaceSuite) listsAny(t *testing.T) {
	// The last two are the other way round in UTF-16.
	w.pages(t, []string{"Z", "z", "~", "é/ü", "漢", "\uffee", "\U0001f469"})
}

// pages lists files, in pages of every size.
func (w *workspaceSuite) pages(t *testing.T, want []string) {
	t.Helper()
	for _, p := range want {
		w.put(t, w.key, "", p, "12345")
	}
	require.Equal(t, want, w.all(t, "", "", true, 100), "bytewise, whatever is a folder")
	for limit := 1; limit <= len(want); limit++ {
		var got []string
		for after := ""; ; {
			page := w.all(t, "", after, true, limit)
			if len(page) == 0 {
				break
			}
			require.LessOrEqual(t, len(page), limit)
			got = append(got, page...)
			after = page[len(page)-1]
		}
		require.Equal(t, want, got, "limit %d", limit)
	}
}

func (w *workspaceSuite) folders(t *testing.T) {
	for _, p := range []string{"a/1", "a/2", "b", "c/d/e", "c/f", "c0"} {
		w.put(t, w.key, "", p, "x")
	}
	require.Equal(t, []string{"a/", "b", "c/", "c0"}, w.all(t, "", "", false, 100))
	require.Equal(t, []string{"c/d/", "c/f"}, w.all(t, "c/", "", false, 100))
	require.Equal(t, []string{"c/", "c0"}, w.all(t, "c", "", false, 100))
	require.Equal(t, []string{"a/", "b"}, w.all(t, "", "", false, 2))
	require.Equal(t, []string{"b", "c/"}, w.all(t, "", "a/", false, 2))
	_, _, err := w.DeleteFile(t.Context(), w.key, "", "c/d/e", nil)
	require.NoError(t, err)
	require.Equal(t, []string{"c/f"}, w.all(t, "c/", "", false, 100), "a folder goes with its last file")
}

// WorkspaceBadPaths are paths that no implementation takes.
func WorkspaceBadPaths() []string {
	return []string{
		"", "/", "/etc/passwd", "a/", "a//b", ".", "..", "../x", "a/../b", "a/..", "./a", "a/./b", "a\x00b", "\xff", "a/\xc3",
		strings.Repeat("a/", 256) + "b",
	}
}

func (w *workspaceSuite) paths(t *testing.T) {
	for _, path := range append(WorkspaceBadPaths(), strings.Repeat("x", 300)) {
		_, err := w.ReadFile(t.Context(), w.key, "", path)
		require.Error(t, err, "%q", path)
		_, _, err = w.WriteFile(t.Context(), w.key, "", path, []byte("x"), nil, "")
		require.ErrorIs(t, err, fs.ErrInvalid, "%q", path)
		_, _, err = w.DeleteFile(t.Context(), w.key, "", path, nil)
		require.Error(t, err, "%q", path)
	}
	require.Empty(t, w.all(t, "", "", true, 10))
	longest := strings.Repeat("é/", 170) + "ab"
	require.Len(t, longest, 512)
	w.put(t, w.key, "", longest, "x")
	require.Equal(t, []string{longest}, w.all(t, "", "", true, 10))
}

func (w *workspaceSuite) clashes(t *testing.T) {
	w.put(t, w.key, "", "a/b", "x")
	w.put(t, w.key, "", "f", "x")
	for _, path := range []string{"a", "f/g", "f/g/h"} {
		_, _, err := w.WriteFile(t.Context(), w.key, "", path, []byte("y"), nil, "op")
		require.ErrorIs(t, err, fs.ErrInvalid, path)
	}
	require.Equal(t, []string{"a/b", "f"}, w.all(t, "", "", true, 10))
	_, _, err := w.DeleteFile(t.Context(), w.key, "", "a/b", nil)
	require.NoError(t, err)
	w.put(t, w.key, "", "a", "now a file")
	require.Equal(t, []string{"a", "f"}, w.all(t, "", "", true, 10))
}

func (w *workspaceSuite) isolation(t *testing.T) {
	type at struct {
		key       host.Key
		workspace string
	}
	own := func(tenant ident.TenantID, session ident.SessionID) at {
		return at{key: host.Key{Tenant: tenant, Session: session}}
	}
	named := func(tenant ident.TenantID, name string) at {
		return at{key: host.Key{Tenant: tenant, Session: "s1"}, workspace: name}
	}
	// Ids that a careless encoding would take for one another.
	places := []at{
		own("acme", "s1"), own("acme", "S1"), own("ACME", "s1"), own("Acme", "s1"), own("acme", "s:1"), own("acme", "s.1"),
		own("acme", "s-1"), own("acme", "s_1"), own("acme", "shared"), own("own", "acme"), own("acme.own", "s1"), own("acme:own", "s1"),
		own("acme", "aB"), own("acme", "Ab"), own("acme", "AB"), own("acme", "ab"),
		own("acme", ident.SessionID(strings.Repeat("A", 128))), own("acme", ident.SessionID(strings.Repeat("a", 128))),
		named("acme", "s1"), named("acme", "S1"), named("ACME", "s1"), named("acme", "own"), named("acme", "s1:files"), named("acme", "files"),
	}
	for i, p := range places {
		w.put(t, p.key, p.workspace, "f", strconv.Itoa(i))
	}
	for i, p := range places {
		require.Equal(t, strconv.Itoa(i), w.get(t, p.key, p.workspace, "f"), "%v", p)
	}
	w.put(t, host.Key{Tenant: "acme", Session: "another"}, "s1", "g", "shared")
	require.Equal(t, "shared", w.get(t, w.key, "s1", "g"), "a named workspace is the tenant's")
	names, err := w.ListWorkspaces(t.Context(), "acme")
	require.NoError(t, err)
	require.Equal(t, []string{"S1", "files", "own", "s1", "s1:files"}, names)
	names, err = w.ListWorkspaces(t.Context(), "nobody")
	require.NoError(t, err)
	require.Empty(t, names)
	for _, bad := range []host.Key{{}, {Tenant: "..", Session: "s"}, {Tenant: "a/b", Session: "s"}, {Tenant: "a", Session: ".."}, {Tenant: "a"}} {
		_, _, err := w.WriteFile(t.Context(), bad, "", "f", nil, nil, "")
		require.Error(t, err, "%v", bad)
	}
	for _, bad := range []string{"..", ".", "a/b", "~", "a b", strings.Repeat("a", 129)} {
		_, _, err := w.WriteFile(t.Context(), w.key, bad, "f", nil, nil, "")
		require.Error(t, err, bad)
		require.Error(t, w.DropWorkspace(t.Context(), w.key, bad), bad)
	}
}

func (w *workspaceSuite) names(t *testing.T) {
	paths := []string{" ", "-rf", "a b", "a\nb", "a\\b", "a:b", "CON", "%2e%2e", "...", "~", "=", "漢字/👩‍👩‍👧‍👦.md", ".hidden", "'\"$(x)`", "\u202e"}
	for _, p := range paths {
		w.put(t, w.key, "", p, p)
	}
	require.ElementsMatch(t, paths, w.all(t, "", "", true, 100))
	for _, p := range paths {
		require.Equal(t, p, w.get(t, w.key, "", p))
	}
}

func (w *workspaceSuite) drops(t *testing.T) {
	w.put(t, w.key, "", "a/b", "x")
	w.put(t, w.key, "named", "a/b", "y")
	require.NoError(t, w.DropWorkspace(t.Context(), w.key, ""))
	require.NoError(t, w.DropWorkspace(t.Context(), w.key, ""))
	require.Empty(t, w.all(t, "", "", true, 10))
	require.Equal(t, "y", w.get(t, w.key, "named", "a/b"))
	require.NoError(t, w.DropWorkspace(t.Context(), w.key, "named"))
	names, err := w.ListWorkspaces(t.Context(), w.key.Tenant)
	require.NoError(t, err)
	require.Empty(t, names)
	w.put(t, w.key, "", "a", "again")
	require.Equal(t, "again", w.get(t, w.key, "", "a"))
}

func (w *workspaceSuite) sizes(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 1<<20)
	w.put(t, w.key, "", "big", big)
	require.Equal(t, blob.Sum([]byte(big)), blob.Sum([]byte(w.get(t, w.key, "", "big"))), "16 MiB come back as they went")
	_, _, err := w.WriteFile(t.Context(), w.key, "", "bigger", []byte(big+"x"), nil, "")
	require.ErrorIs(t, err, fs.ErrInvalid)
	_, err = w.StatFile(t.Context(), w.key, "", "bigger")
	require.ErrorIs(t, err, host.ErrNotFound)
}
