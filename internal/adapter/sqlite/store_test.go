package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	sqlite3 "github.com/ncruces/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

func key(name string) host.Key { return host.Key{Tenant: "acme", Session: ident.SessionID(name)} }

func sized(seed string, n int) host.Blob {
	data := bytes.Repeat([]byte(seed), n/len(seed)+1)[:n]
	return host.Blob{Ref: blob.Sum(data), Data: data}
}

// furnish makes a session that has the text in every place there is.
func furnish(t *testing.T, s *Store, name, text string) {
	t.Helper()
	c := creation(name)
	c.Head.DueAt, c.Head.Drive.Status = 5, host.DriveRunning
	c.Entries[0].Data = []byte(text)
	for i := range ident.Seq(1200) {
		c.Entries = append(c.Entries, host.StoredEntry{Seq: i + 2, Data: []byte(strings.Repeat(text, 20))})
	}
	c.Head.Seq = ident.Seq(len(c.Entries))
	c.Meta = &host.Meta{Title: text, UpdatedAt: 1}
	for i := range 700 {
		c.Rows = append(c.Rows, host.Row{Key: fmt.Sprintf("row#%d", i), Data: []byte(text), Todo: 1})
	}
	for i := range 60 {
		c.Blobs = append(c.Blobs, sized(fmt.Sprintf("%s %d ", text, i), 10<<10))
	}
	c.Blobs = append(c.Blobs, sized(text, rowMax+1))
	require.NoError(t, s.Commit(t.Context(), c))
	require.NoError(t, s.PutCheckpoint(t.Context(), c.Key, host.Checkpoint{Inc: "i", Seq: 1, Data: []byte(text)}))
	_, err := s.PutStash(t.Context(), c.Key, "n", []byte(text), s.now().Add(ident.Day), false)
	require.NoError(t, err)
}

func count(t *testing.T, s *Store, table string) int64 {
	t.Helper()
	n, _, err := s.has(t.Context(), "SELECT count(*) FROM "+table)
	require.NoError(t, err)
	return n
}

func tables() []string {
	return []string{"heads", "events", "rows", "meta", "blobs", "checkpoints", "stash", "trash"}
}

func requireEmpty(t *testing.T, s *Store) {
	t.Helper()
	for _, table := range tables() {
		require.Zero(t, count(t, s, table), table)
	}
}

// TestADeletionLeavesNoTextInAnyFile reads what is left as a thief would.
func TestADeletionLeavesNoTextInAnyFile(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	secret := "the quick brown secret"
	furnish(t, s, "gone", secret)
	furnish(t, s, "kept", "some other words")
	found := func() (files []string) {
		require.NoError(t, filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
			require.NoError(t, err)
			if d.IsDir() {
				return nil
			}
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			if bytes.Contains(data, []byte(secret)) {
				files = append(files, path)
			}
			return nil
		}))
		return files
	}
	require.NotEmpty(t, found())
	require.NoError(t, s.Delete(t.Context(), key("gone"), "i"))
	require.Empty(t, found())
	require.NoError(t, s.Delete(t.Context(), key("kept"), "i"))
	requireEmpty(t, s)
}

// TestADeletionThatWasStoppedGoesOn: the head is gone, so only the deletion's
// own note says what is left to do.
func TestADeletionThatWasStoppedGoesOn(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	furnish(t, s, "s1", "words")
	require.NoError(t, s.write.do(t.Context(), 0, func(c *conn) error {
		_, err := c.dispose(key("s1"), "i")
		return err
	}))
	// The name is free at once, and what is made under it is not touched.
	anew := creation("s1")
	anew.Head.Inc, anew.Head.Write = "j", "anew"
	require.NoError(t, s.Commit(t.Context(), anew))
	require.NoError(t, s.Delete(t.Context(), key("s1"), "i"))
	require.Equal(t, int64(1), count(t, s, "events"))
	head, err := s.Head(t.Context(), key("s1"))
	require.NoError(t, err)
	require.Equal(t, anew.Head, head)
}

// TestEveryFieldOfAHeadIsStored fails when the port's Head grows a field that
// has no column.
func TestEveryFieldOfAHeadIsStored(t *testing.T) {
	t.Parallel()
	var head host.Head
	fill(t, reflect.ValueOf(&head).Elem())
	c := creation("s1")
	head.Rev, head.Seq = 1, 1
	c.Head = head
	s := open(t, t.TempDir())
	require.NoError(t, s.Commit(t.Context(), c))
	got, err := s.Head(t.Context(), c.Key)
	require.NoError(t, err)
	require.Equal(t, head, got)
}

func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(t, field)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.String:
		v.SetString("filled")
	case reflect.Int, reflect.Int64:
		v.SetInt(41)
	case reflect.Uint64:
		v.SetUint(42)
	case reflect.Bool:
		v.SetBool(true)
	default:
		require.Fail(t, "no such field yet", "kind %s", v.Kind())
	}
}

// held makes the writer wait in a transaction until it is let go, so that what
// is sent meanwhile is one group.
func held(t *testing.T, s *Store) (letGo func()) {
	t.Helper()
	inside, gate := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = s.write.do(context.WithoutCancel(t.Context()), 0, func(*conn) error {
			close(inside)
			<-gate
			return nil
		})
	})
	<-inside
	return sync.OnceFunc(func() { close(gate); wg.Wait() })
}

// queued waits until so many requests wait for the writer.
func queued(s *Store, n int) {
	for {
		s.write.mu.Lock()
		have := len(s.write.queue)
		s.write.mu.Unlock()
		if have >= n {
			return
		}
		yield()
	}
}

// TestWritesThatWaitTogetherShareASync, and what is wrong with one touches no
// other.
func TestWritesThatWaitTogetherShareASync(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	require.NoError(t, s.Commit(t.Context(), creation("taken")))
	before := s.Stats()

	letGo := held(t, s)
	const n = 40
	errs := make([]error, n+2)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = s.Commit(t.Context(), creation(fmt.Sprintf("s%d", i))) })
	}
	clash := creation("taken")
	clash.Head.Write = "other"
	wg.Go(func() { errs[n] = s.Commit(t.Context(), clash) })
	gap := creation("gap")
	gap.Head.Rev, gap.Expect = 8, 7
	wg.Go(func() { errs[n+1] = s.Commit(t.Context(), gap) })
	queued(s, n+2)
	letGo()
	wg.Wait()

	require.NoError(t, errors.Join(errs[:n]...))
	var conflict *host.Conflict
	require.ErrorAs(t, errs[n], &conflict)
	require.ErrorAs(t, errs[n+1], &conflict)
	after := s.Stats()
	require.Equal(t, int64(1), after.Transactions-before.Transactions)
	require.Equal(t, int64(n), after.Commits-before.Commits)
}

// TestAFaultOfOneWriteTouchesNoOther: the transaction that they shared is
// undone, and each has its own.
func TestAFaultOfOneWriteTouchesNoOther(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	letGo := held(t, s)
	errs := make([]error, 11)
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() { errs[i] = s.Commit(t.Context(), creation(fmt.Sprintf("s%d", i))) })
	}
	queued(s, 5)
	wg.Go(func() {
		errs[10] = s.write.do(t.Context(), 0, func(c *conn) error {
			if err := c.exec("INSERT INTO stash (tenant, session, name, until, data) VALUES ('t', 's', 'half', 1, 'x')"); err != nil {
				return err
			}
			return c.exec("INSERT INTO heads (tenant) VALUES ('breaks the rules')")
		})
	})
	queued(s, 11)
	letGo()
	wg.Wait()
	require.NoError(t, errors.Join(errs[:10]...))
	require.ErrorIs(t, errs[10], sqlite3.CONSTRAINT)
	require.Zero(t, count(t, s, "stash"))
	require.Equal(t, int64(10), count(t, s, "heads"))
}

func TestACancelTakesAWaitingWriteBack(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	letGo := held(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	var err error
	var wg sync.WaitGroup
	c := creation("s1")
	c.Blobs = []host.Blob{sized("large", rowMax+1)}
	wg.Go(func() { err = s.Commit(ctx, c) })
	queued(s, 1)
	cancel()
	wg.Wait()
	require.ErrorIs(t, err, context.Canceled)
	letGo()
	requireEmpty(t, s)
	require.NoError(t, filepath.WalkDir(s.files.root, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		require.True(t, d.IsDir(), path)
		return nil
	}))
}

func TestCloseWaitsForWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	letGo := held(t, s)
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = s.Commit(t.Context(), creation(fmt.Sprintf("s%d", i))) })
	}
	queued(s, len(errs))
	closing := make(chan error)
	go func() { closing <- s.Close() }()
	for {
		s.write.mu.Lock()
		shut := s.write.closed
		s.write.mu.Unlock()
		if shut {
			break
		}
		yield()
	}
	require.ErrorIs(t, s.Commit(t.Context(), creation("late")), ErrClosed)
	letGo()
	require.NoError(t, <-closing)
	wg.Wait()
	require.NoError(t, errors.Join(errs...), "what waited was served")
	_, err := s.Head(t.Context(), key("s1"))
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, s.Delete(t.Context(), key("s1"), "i"), ErrClosed)

	s = open(t, dir)
	require.Equal(t, int64(len(errs)), count(t, s, "heads"))
}

// TestAFullDatabaseRefusesAndGoesOn. The limit stands in for the disk's.
func TestAFullDatabaseRefusesAndGoesOn(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	require.NoError(t, s.Commit(t.Context(), creation("s1")))
	limit := func(pages string) {
		require.NoError(t, s.write.exclusive(func(c *conn) error {
			return c.query("PRAGMA max_page_count = "+pages, func(*sqlite3.Stmt) bool { return true })
		}))
	}
	limit("60")
	c := host.Commit{Key: key("s1"), Expect: 1, Head: host.Head{Rev: 2, Write: "w2", Seq: 2, Inc: "i", Status: host.StatusOpen}}
	c.Entries = []host.StoredEntry{{Seq: 2, Data: bytes.Repeat([]byte("x"), 300<<10)}}
	c.Rows = []host.Row{{Key: "r", Data: []byte("x")}}
	for range 3 {
		require.ErrorIs(t, s.Commit(t.Context(), c), host.ErrFull)
		require.ErrorIs(t, s.PutBlob(t.Context(), c.Key, sized("row", 200<<10)), host.ErrFull)
	}
	head, err := s.Head(t.Context(), c.Key)
	require.NoError(t, err)
	require.Equal(t, uint64(1), head.Rev)
	require.Zero(t, count(t, s, "rows"))
	require.Zero(t, count(t, s, "blobs"))

	// In a group, what fits is written and what does not is refused.
	letGo := held(t, s)
	small := creation("small")
	var large, fits error
	var wg sync.WaitGroup
	wg.Go(func() { large = s.Commit(t.Context(), c) })
	wg.Go(func() { fits = s.Commit(t.Context(), small) })
	queued(s, 2)
	letGo()
	wg.Wait()
	require.ErrorIs(t, large, host.ErrFull)
	require.NoError(t, fits)

	limit("100000")
	require.NoError(t, s.Commit(t.Context(), c))
	got, err := s.Read(t.Context(), c.Key, 0, 2, 10, 1<<20)
	require.NoError(t, err)
	require.Equal(t, c.Entries[0].Data, got[1].Data)
}

// TestReadsTakeOnlyWhatIsAskedFor compares a short log with a long one.
func TestReadsTakeOnlyWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	for _, n := range []int{100, 20_000} {
		c := creation(fmt.Sprintf("s%d", n))
		for i := 2; i <= n; i++ {
			c.Entries = append(c.Entries, host.StoredEntry{Seq: ident.Seq(i), Data: bytes.Repeat([]byte("x"), 100)})
		}
		c.Head.Seq = ident.Seq(n)
		require.NoError(t, s.Commit(t.Context(), c))
		before := s.Stats().ReadBytes
		got, err := s.Read(t.Context(), c.Key, ident.Seq(n-10), ident.Seq(n), 100, 1<<20)
		require.NoError(t, err)
		require.Len(t, got, 10)
		got, err = s.ReadBefore(t.Context(), c.Key, 50, 10, 1<<20)
		require.NoError(t, err)
		require.Len(t, got, 10)
		_, err = s.Read(t.Context(), c.Key, 5, ident.Seq(n), 1000, 500)
		require.NoError(t, err)
		require.Equal(t, int64(2500), s.Stats().ReadBytes-before)
	}
}

// TestHotStatementsUseAnIndex asks the planner. "SEARCH" enters a tree at a
// key; "SCAN" of an index in order is fine only where a LIMIT ends it.
func TestHotStatementsUseAnIndex(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	plan := func(sql string) (lines []string) {
		require.NoError(t, s.read.with(t.Context(), func(c *conn) error {
			return c.query("EXPLAIN QUERY PLAN "+sql, func(st *sqlite3.Stmt) bool {
				lines = append(lines, st.ColumnText(3))
				return true
			})
		}))
		return lines
	}
	for sql, want := range map[string][]string{
		sqlHead:             {"SEARCH heads USING PRIMARY KEY (tenant=? AND session=?)"},
		sqlNumber:           {"SEARCH heads USING PRIMARY KEY (tenant=? AND session=?)"},
		sqlWriteAt:          {"SEARCH events USING INTEGER PRIMARY KEY (rowid=?)"},
		sqlHeadUpdate:       {"SEARCH heads USING PRIMARY KEY (tenant=? AND session=?)"},
		sqlRowExists:        {"SEARCH rows USING PRIMARY KEY (number=? AND key=?)"},
		sqlRowDelete:        {"SEARCH rows USING PRIMARY KEY (number=? AND key=?)"},
		sqlRead:             {"SEARCH h USING PRIMARY KEY (tenant=? AND session=?)", "SEARCH e USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
		sqlReadBefore:       {"SEARCH h USING PRIMARY KEY (tenant=? AND session=?)", "SEARCH e USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
		sqlRow:              {"SEARCH h USING PRIMARY KEY (tenant=? AND session=?)", "SEARCH r USING PRIMARY KEY (number=? AND key=?)"},
		sqlRowsUp:           {"SEARCH h USING PRIMARY KEY (tenant=? AND session=?)", "SEARCH r USING PRIMARY KEY (number=? AND key>? AND key<?)"},
		sqlRowsDown:         {"SEARCH h USING PRIMARY KEY (tenant=? AND session=?)", "SEARCH r USING PRIMARY KEY (number=? AND key>? AND key<?)"},
		sqlTodo:             {"SEARCH rows USING INDEX rows_todo (tenant=? AND (todo,session,key)>(?,?,?))"},
		sqlMeta:             {"SEARCH h USING PRIMARY KEY (tenant=? AND session=?)", "SEARCH m USING INTEGER PRIMARY KEY (rowid=?)"},
		sqlList:             {"SEARCH m USING INDEX meta_list (tenant=? AND status=? AND (older,session)>(?,?))", "SEARCH h USING PRIMARY KEY (tenant=? AND session=?)"},
		sqlDue:              {"SEARCH heads USING COVERING INDEX heads_due (due>? AND due<?)"},
		sqlUnfinished:       {"SEARCH heads USING COVERING INDEX heads_busy ((tenant,session)>(?,?))"},
		sqlBlob:             {"SEARCH h USING PRIMARY KEY (tenant=? AND session=?)", "SEARCH b USING INDEX blobs_hash (number=? AND hash=?)"},
		sqlBlobOf:           {"SEARCH blobs USING COVERING INDEX blobs_hash (number=? AND hash=?)"},
		sqlCheckpoints:      {"SEARCH h USING PRIMARY KEY (tenant=? AND session=?)", "SEARCH c USING INDEX checkpoints_seq (number=?)"},
		sqlCheckpointNewest: {"SEARCH checkpoints USING COVERING INDEX checkpoints_seq (number=?)"},
		sqlStashGet:         {"SEARCH stash USING INDEX stash_name (tenant=? AND session=? AND name=?)"},
		sqlHasNumber:        {"SEARCH heads USING COVERING INDEX heads_number (number=?)"},
	} {
		require.Equal(t, want, plan(sql), sql)
	}
	for _, sql := range []string{
		sqlCheckpointTrim, sqlStashSweep, sqlStashDrop, sqlStashSession, sqlPurgeEvents, sqlPurgeRows, sqlPurgeBlobs, sqlPurgeCheckp,
		sqlMetaStatus, sqlHeadDelete, sqlMetaDelete, sqlTrashDone,
	} {
		for _, line := range plan(sql) {
			require.NotContains(t, line, "SCAN", sql)
			require.NotContains(t, line, "TEMP B-TREE", sql)
		}
	}
}

func TestReadersAreSharedByMany(t *testing.T) {
	t.Parallel()
	s, err := Open(t.TempDir(), Options{Readers: 2})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	require.NoError(t, s.Commit(t.Context(), creation("s1")))
	errs := make([]error, 50)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { _, errs[i] = s.Read(t.Context(), key("s1"), 0, 1, 10, 100) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	require.LessOrEqual(t, len(s.read.idle), 2)
}
