// Package sqlite keeps sessions in one SQLite database and a folder of blob
// files: host.Log, Blobs, Checkpoints and Stash of a local server.
//
// Every write is durable when it returns (WAL, synchronous=FULL). Writes that
// wait at the same time share a transaction, and so one sync of the disk; one
// that waits alone goes at once. Reads have connections of their own and see
// what was committed before they began.
//
// It serves one process a folder, holds no session in memory and knows nothing
// of what is in events, rows and checkpoints. It may import the standard
// library, golang.org/x/sys, github.com/ncruces/go-sqlite3, core/blob,
// core/ident and internal/host.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure/core/ident"
)

// Errors of opening and using a data folder, beside those of the ports.
var (
	// ErrNewerDatabase: a newer version of the program has written the
	// database. Nothing was changed.
	ErrNewerDatabase = errors.New("the database was written by a newer version of this program: update the program, or choose another data folder")
	// ErrForeign: the file in the database's place is none of ours.
	ErrForeign = errors.New("not a database of this program: move the file away, or choose another data folder")
	// ErrCorrupt: stored bytes are damaged.
	ErrCorrupt = errors.New("stored data is damaged: restore the data folder from a backup")
	// ErrLocked: another process serves the data folder.
	ErrLocked = errors.New("the data folder is in use: stop that process, or choose another data folder")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("the store is closed")
)

// Options of a Store; the zero value is good.
type Options struct {
	// Now judges the expiry of stashed documents. The default is the clock.
	Now func() ident.Instant
	// Readers is how many reads go on at once; the default is 4.
	Readers int

	// fileSystem replaces gathering in tests of a disk that fails.
	fileSystem string
}

// Stats counts what a Store did since it was opened.
type Stats struct {
	Commits      int64 // host commits that wrote
	Transactions int64 // transactions that wrote: each is one sync of the log
	Bytes        int64 // of events, rows, metas and blobs handed in to be written
	BlobFiles    int64 // blobs that became files: each is synced, and its folder
	ReadBytes    int64 // of events, checkpoints, blobs and stashed documents
}

// Store implements host.Log, host.Blobs, host.Checkpoints and host.Stash over
// one data folder. It is safe for concurrent use.
type Store struct {
	dir   string
	now   func() ident.Instant
	lock  *folderLock
	write *writer
	read  *readers
	files files

	nextNumber atomic.Int64
	commits    atomic.Int64
	bytes      atomic.Int64
	readBytes  atomic.Int64
}

const databaseName = "perdure.db"

// Open opens the data folder, making it if there is none. It fails with
// ErrLocked, ErrNewerDatabase, ErrForeign or ErrCorrupt (errors.Is), and has
// then changed nothing in the database.
func Open(dir string, o Options) (*Store, error) {
	if o.Now == nil {
		o.Now = func() ident.Instant { return ident.Instant(time.Now().UnixMilli()) }
	}
	if o.Readers <= 0 {
		o.Readers = 4
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if o.fileSystem == "" {
		o.fileSystem = gathering
	}
	lock, err := lockFolder(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, now: o.Now, lock: lock, files: files{root: filepath.Join(dir, "blobs")}}
	if err := s.open(o); err != nil {
		return nil, errors.Join(err, lock.release())
	}
	return s, nil
}

func (s *Store) open(o Options) error {
	path := filepath.Join(s.dir, databaseName)
	w, err := openDatabase(path, o.fileSystem)
	if err != nil {
		return err
	}
	s.write, s.read = newWriter(w), newReaders(path, o.Readers)
	if err := s.recover(); err != nil {
		return errors.Join(err, s.read.close(), s.write.close())
	}
	return nil
}

// recover finishes what a crash left half done: deletions, and blob files of
// sessions that are not there.
func (s *Store) recover() error {
	ctx := context.Background() //nolint:forbidigo // opening is no request's
	if err := s.purgeAll(ctx); err != nil {
		return err
	}
	last, err := s.lastNumber(ctx)
	if err != nil {
		return err
	}
	s.nextNumber.Store(last)
	return s.files.sweep(func(number int64) (bool, error) { return s.hasNumber(ctx, number) })
}

// Stats returns the counters.
func (s *Store) Stats() Stats {
	return Stats{
		Commits: s.commits.Load(), Transactions: s.write.transactions.Load(), Bytes: s.bytes.Load(),
		BlobFiles: s.files.written.Load(), ReadBytes: s.readBytes.Load(),
	}
}

// Close waits for what is under way, refuses what comes later with ErrClosed,
// and lets the folder go. Closing again does nothing.
func (s *Store) Close() error {
	return errors.Join(s.read.close(), s.write.close(), s.lock.release())
}
