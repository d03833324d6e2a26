package sqlite

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	sqlite3 "github.com/ncruces/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// benchEvents is what a steady turn commits: a model's answer, the calls that
// it made and that they have started.
const (
	benchEvents = 3
	benchBytes  = 600
)

func benchCreate(b *testing.B, s *Store, name string) host.Head {
	b.Helper()
	c := creation(name)
	require.NoError(b, s.Commit(b.Context(), c))
	return c.Head
}

// benchNext is the next commit of a session: events and, each fourth time, the
// row and the listing document that the end of a run writes.
func benchNext(name string, head host.Head) host.Commit {
	next := head
	next.Rev++
	next.Write = fmt.Sprintf("01J0000000000000%010d", next.Rev)
	// A claim and its dueAt stand for a slice of many commits.
	next.Drive = host.Drive{Epoch: 1, Step: next.Rev / 10, Attempt: 1, Status: host.DriveRunning}
	next.DueAt = ident.Instant(next.Rev/10) * 1000
	c := host.Commit{Key: key(name), Expect: head.Rev}
	for range benchEvents {
		next.Seq++
		c.Entries = append(c.Entries, host.StoredEntry{Seq: next.Seq, Data: bytes.Repeat([]byte("e"), benchBytes)})
	}
	c.Head = next
	if next.Rev%4 == 0 {
		c.Rows = []host.Row{{Key: fmt.Sprintf("run#%012d", next.Rev), Data: bytes.Repeat([]byte("r"), benchBytes)}}
		c.Meta = &host.Meta{Title: "a title", Status: host.StatusOpen, UpdatedAt: ident.Instant(next.Rev)}
	}
	return c
}

// BenchmarkRawCommit is the floor: the events' bytes in one row of one table, a
// transaction each, through the same library with its own settings.
func BenchmarkRawCommit(b *testing.B) {
	c, err := rawDatabase(b)
	require.NoError(b, err)
	data := bytes.Repeat([]byte("e"), benchEvents*benchBytes)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.exec("INSERT INTO raw (data) VALUES (?1)", data); err != nil {
			b.Fatal(err)
		}
	}
}

func rawDatabase(b *testing.B) (*conn, error) {
	b.Helper()
	path := filepath.Join(b.TempDir(), "raw.db")
	db, err := sqlite3.Open(path)
	if err != nil {
		return nil, err
	}
	c := &conn{db: db, stmts: map[string]*sqlite3.Stmt{}}
	b.Cleanup(func() { require.NoError(b, c.close()) })
	return c, db.Exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE raw (id INTEGER PRIMARY KEY, data BLOB)")
}

func benchOpen(b *testing.B) *Store {
	b.Helper()
	s, err := Open(b.TempDir(), Options{})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	return s
}

// BenchmarkCommit is one session that commits alone.
func BenchmarkCommit(b *testing.B) {
	s := benchOpen(b)
	head := benchCreate(b, s, "s")
	b.ReportAllocs()
	for b.Loop() {
		c := benchNext("s", head)
		if err := s.Commit(b.Context(), c); err != nil {
			b.Fatal(err)
		}
		head = c.Head
	}
	report(b, s)
}

// BenchmarkCommitters is many sessions that commit at once, each waiting for
// its own commit before the next.
func BenchmarkCommitters(b *testing.B) {
	for _, n := range []int{1, 8, 50, 200} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			s := benchOpen(b)
			heads := make([]host.Head, n)
			for i := range heads {
				heads[i] = benchCreate(b, s, childName(i))
			}
			before := s.Stats()
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() {
					for head := heads[i]; left.Add(-1) >= 0; {
						c := benchNext(childName(i), head)
						if err := s.Commit(b.Context(), c); err != nil {
							b.Error(err)
							return
						}
						head = c.Head
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			after := s.Stats()
			commits := float64(after.Commits - before.Commits)
			b.ReportMetric(commits/b.Elapsed().Seconds(), "commits/s")
			b.ReportMetric(float64(after.Transactions-before.Transactions)/commits, "syncs/commit")
		})
	}
}

func report(b *testing.B, s *Store) {
	b.Helper()
	st := s.Stats()
	b.ReportMetric(float64(st.Transactions)/float64(st.Commits), "syncs/commit")
}

// BenchmarkRead is the tail of a log: a hundred events behind a checkpoint.
func BenchmarkRead(b *testing.B) {
	s := benchOpen(b)
	head := benchCreate(b, s, "s")
	for range 1000 {
		c := benchNext("s", head)
		require.NoError(b, s.Commit(b.Context(), c))
		head = c.Head
	}
	b.ReportAllocs()
	for b.Loop() {
		page, err := s.Read(b.Context(), key("s"), head.Seq-100, head.Seq, 1000, 1<<20)
		if err != nil || len(page) != 100 {
			b.Fatal(len(page), err)
		}
	}
}

// BenchmarkHead is what every admission and look at a session begins with.
func BenchmarkHead(b *testing.B) {
	s := benchOpen(b)
	benchCreate(b, s, "s")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Head(b.Context(), key("s")); err != nil {
			b.Fatal(err)
		}
	}
}
