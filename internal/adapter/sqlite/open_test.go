package sqlite

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	sqlite3 "github.com/ncruces/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/host"
)

// closed is a data folder with one session in it, closed.
func closed(t *testing.T) (dir, database string) {
	t.Helper()
	dir = t.TempDir()
	s := open(t, dir)
	require.NoError(t, s.Commit(t.Context(), creation("s1")))
	require.NoError(t, s.Close())
	return dir, filepath.Join(dir, databaseName)
}

func creation(name string) host.Commit {
	key := key(name)
	return host.Commit{
		Key: key, Head: host.Head{Rev: 1, Write: "create", Seq: 1, Inc: "i", Status: host.StatusOpen},
		Entries: []host.StoredEntry{{Seq: 1, Data: []byte("first")}},
	}
}

func requireRefused(t *testing.T, dir string, want error) (message string) {
	t.Helper()
	before, err := os.ReadFile(filepath.Join(dir, databaseName))
	require.NoError(t, err)
	s, err := Open(dir, Options{})
	require.ErrorIs(t, err, want)
	require.Nil(t, s)
	after, readErr := os.ReadFile(filepath.Join(dir, databaseName))
	require.NoError(t, readErr)
	require.True(t, bytes.Equal(before, after), "the file was changed")
	return err.Error()
}

func TestANewerDatabaseIsRefusedUntouched(t *testing.T) {
	t.Parallel()
	dir, path := closed(t)
	db, err := sqlite3.Open(path)
	require.NoError(t, err)
	require.NoError(t, db.Exec("PRAGMA user_version = 99"))
	require.NoError(t, db.Close())
	message := requireRefused(t, dir, ErrNewerDatabase)
	require.Contains(t, message, "update the program")
	require.Contains(t, message, "version is 99")
	require.Contains(t, message, path)
}

func TestAFileThatIsNotOursIsRefused(t *testing.T) {
	t.Parallel()
	for name, content := range map[string][]byte{
		"text": bytes.Repeat([]byte("this is no database\n"), 100), "a short text": []byte("x"),
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, databaseName), content, 0o600), name)
		requireRefused(t, dir, ErrForeign)
	}
	for _, mark := range []string{"PRAGMA application_id = 77", "PRAGMA user_version = 1", "SELECT 1"} {
		dir := t.TempDir()
		db, err := sqlite3.Open(filepath.Join(dir, databaseName))
		require.NoError(t, err)
		require.NoError(t, db.Exec("CREATE TABLE somebodys (x);"+mark))
		require.NoError(t, db.Close())
		requireRefused(t, dir, ErrForeign)
	}
}

func TestADamagedDatabaseIsNamed(t *testing.T) {
	t.Parallel()
	dir, path := closed(t)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	// All behind the header: the marks are right, the tables are not.
	for i := headerBytes; i < len(data); i++ {
		data[i] = 0xa5
	}
	require.NoError(t, os.WriteFile(path, data, 0o600))
	requireRefused(t, dir, ErrCorrupt)
}

func TestWhatACrashLeftOfANewFileIsMadeAnew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, databaseName)
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, open(t, dir).Close())

	// A header without marks and without tables.
	dir = t.TempDir()
	db, err := sqlite3.Open(filepath.Join(dir, databaseName))
	require.NoError(t, err)
	require.NoError(t, db.Exec("CREATE TABLE x (y); DROP TABLE x"))
	require.NoError(t, db.Close())
	s := open(t, dir)
	require.NoError(t, s.Commit(t.Context(), creation("s1")))
}

func TestMigrationsRunOnceAndInOrder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), databaseName)
	migrate := func(steps ...string) error {
		require.NoError(t, os.WriteFile(path+".touch", nil, 0o600))
		db, err := sqlite3.Open(path)
		require.NoError(t, err)
		c := &conn{db: db, stmts: map[string]*sqlite3.Stmt{}}
		defer func() { require.NoError(t, c.close()) }()
		return c.migrate(steps)
	}
	one, two := "CREATE TABLE a (x); INSERT INTO a VALUES (1)", "INSERT INTO a VALUES (2)"
	require.NoError(t, migrate(one))
	require.NoError(t, migrate(one, two))
	require.NoError(t, migrate(one, two))
	// A step that fails leaves the version before it, whole.
	require.Error(t, migrate(one, two, "INSERT INTO a VALUES (3); INSERT INTO nowhere VALUES (1)"))

	db, err := sqlite3.Open(path)
	require.NoError(t, err)
	defer db.Close() //nolint:errcheck // only read
	c := &conn{db: db, stmts: map[string]*sqlite3.Stmt{}}
	version, _, err := c.number("PRAGMA user_version")
	require.NoError(t, err)
	require.Equal(t, int64(2), version)
	sum, _, err := c.number("SELECT sum(x) FROM a")
	require.NoError(t, err)
	require.Equal(t, int64(3), sum)
	require.NoError(t, c.close())
}

func TestASecondOpenIsRefusedWithTheProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	_, err := Open(dir, Options{})
	require.ErrorIs(t, err, ErrLocked)
	require.ErrorContains(t, err, "by process "+strconv.Itoa(os.Getpid()))
	require.NoError(t, s.Commit(t.Context(), creation("s1")), "the holder goes on")
	require.NoError(t, s.Close())
	require.NoError(t, open(t, dir).Close())
}

func TestNobodyElseMayReadTheFolder(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the system has no such modes")
	}
	dir := filepath.Join(t.TempDir(), "deep", "folder")
	s := open(t, dir)
	c := creation("s1")
	c.Blobs = []host.Blob{sized("large", rowMax+1)}
	require.NoError(t, s.Commit(t.Context(), c))
	seen := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = fs.ModeDir | 0o700
		}
		require.Equal(t, want, info.Mode(), path)
		seen++
		return nil
	}))
	require.GreaterOrEqual(t, seen, 8, "folder, lock, database, wal, shm, blobs, its two levels, a blob")
}

func TestAFolderMayHaveAnyName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"my data", "100% + ?x=1&y#z", "tür ;:@", "%20", "a//b"} {
		dir := filepath.Join(t.TempDir(), name)
		s := open(t, dir)
		c := creation("s1")
		c.Blobs = []host.Blob{sized("large", rowMax+1)}
		require.NoError(t, s.Commit(t.Context(), c))
		_, err := s.Head(t.Context(), c.Key)
		require.NoError(t, err)
		require.FileExists(t, filepath.Join(dir, databaseName+"-wal"))
		require.NoError(t, s.Close())
	}
}

func TestFoldersWithoutASessionAreSweptAtOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	c := creation("s1")
	large := sized("large", rowMax+1)
	c.Blobs = []host.Blob{large}
	require.NoError(t, s.Commit(t.Context(), c))
	number, err := s.number(t.Context(), c.Key)
	require.NoError(t, err)
	// What a crash leaves that comes between a blob's file and its commit.
	stray, err := s.files.write(number+256, large.Ref.Hex(), large.Data)
	require.NoError(t, err)
	require.NoError(t, s.Close())

	s = open(t, dir)
	require.NoFileExists(t, filepath.Join(s.files.root, stray))
	got, err := s.GetBlob(t.Context(), c.Key, large.Ref)
	require.NoError(t, err)
	require.Equal(t, large.Data, got)
}

// TestAnInterruptedDeletionIsFinishedAtOpen stops a deletion behind its first
// transaction, as a crash would.
func TestAnInterruptedDeletionIsFinishedAtOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	furnish(t, s, "s1", "secret words")
	require.NoError(t, s.write.do(t.Context(), 0, func(c *conn) error {
		_, err := c.dispose(key("s1"), "i")
		return err
	}))
	require.NotZero(t, count(t, s, "events"))
	require.NoError(t, s.Close())
	s = open(t, dir)
	requireEmpty(t, s)
}

func TestHeaderPlaces(t *testing.T) {
	t.Parallel()
	_, path := closed(t)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, uint32(applicationID), binary.BigEndian.Uint32(data[applicationIDAt:]))
	require.Equal(t, uint32(len(migrations())), binary.BigEndian.Uint32(data[versionAt:]))
	require.Equal(t, "Prdr", string(data[applicationIDAt:applicationIDAt+4]))
}
