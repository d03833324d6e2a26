package sqlite

import (
	"bytes"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	sqlite3 "github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/host"
)

// disk is a file system below the real one's name that can be full, or fail to
// sync. Its faults are those that the log of writes meets.
type disk struct {
	vfs.VFSFilename
	room  atomic.Int64 // bytes that may still be written; negative: any
	dying atomic.Bool
}

func newDisk(t *testing.T) (d *disk, options Options) {
	t.Helper()
	require.NoError(t, registerGathering())
	below, ok := vfs.Find("os").(vfs.VFSFilename)
	require.True(t, ok)
	d = &disk{VFSFilename: below}
	d.room.Store(-1)
	name := fmt.Sprintf("perdure-test-%p", d)
	// Gathered as in production, with the faults below.
	vfs.Register(name, gatheringFS{d})
	t.Cleanup(func() { vfs.Unregister(name) })
	return d, Options{fileSystem: name}
}

func (d *disk) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	f, flags, err := d.VFSFilename.OpenFilename(name, flags)
	if err == nil && flags&vfs.OPEN_WAL != 0 {
		f = &diskFile{f, d}
	}
	return f, flags, err
}

type diskFile struct {
	vfs.File
	disk *disk
}

func (f *diskFile) WriteAt(p []byte, off int64) (int, error) {
	if room := f.disk.room.Load(); room >= 0 && room < int64(len(p)) {
		n, err := f.File.WriteAt(p[:room], off)
		if err != nil {
			return n, err
		}
		return n, &fs.PathError{Op: "write", Path: "the disk", Err: syscall.ENOSPC}
	}
	return f.File.WriteAt(p, off)
}

func (f *diskFile) Sync(flags vfs.SyncFlag) error {
	if f.disk.dying.Load() {
		return &fs.PathError{Op: "sync", Path: "the disk", Err: syscall.EIO}
	}
	return f.File.Sync(flags)
}

func openOn(t *testing.T, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// TestAFullDiskRefusesAndGoesOn: wherever in the transaction the disk is full,
// nothing of it is there, and with room again all is well.
func TestAFullDiskRefusesAndGoesOn(t *testing.T) {
	t.Parallel()
	d, o := newDisk(t)
	dir := t.TempDir()
	s := openOn(t, dir, o)
	head := host.Head{}
	land := func() host.Commit {
		c := childCommit("s", head)
		require.NoError(t, s.Commit(t.Context(), c))
		head = c.Head
		return c
	}
	land()
	for room := int64(0); room < 30_000; room += 1111 {
		d.room.Store(room)
		c := childCommit("s", head)
		c.Entries[0].Data = bytes.Repeat([]byte("x"), 40_000)
		require.ErrorIs(t, s.Commit(t.Context(), c), host.ErrFull)
		got, err := s.Head(t.Context(), c.Key)
		require.NoError(t, err)
		require.Equal(t, head, got)
		d.room.Store(-1)
		land()
	}
	require.NoError(t, s.Close())
	s = open(t, dir)
	requireWhole(t, s, "s", head.Rev, 0)
}

// TestAFailedSyncLeavesTheOutcomeOpen: the caller sends the commit again, and
// it is written once, whatever came of the first.
func TestAFailedSyncLeavesTheOutcomeOpen(t *testing.T) {
	t.Parallel()
	d, o := newDisk(t)
	dir := t.TempDir()
	s := openOn(t, dir, o)
	require.NoError(t, s.Commit(t.Context(), childCommit("s", host.Head{})))
	head, err := s.Head(t.Context(), key("s"))
	require.NoError(t, err)
	c := childCommit("s", head)

	d.dying.Store(true)
	var errs [3]error
	letGo := held(t, s)
	var wg sync.WaitGroup
	wg.Go(func() { errs[0] = s.Commit(t.Context(), c) })
	wg.Go(func() { errs[1] = s.Commit(t.Context(), creation("other")) })
	queued(s, 2)
	letGo()
	wg.Wait()
	errs[2] = s.PutBlob(t.Context(), c.Key, sized("b", 100))
	for _, err := range errs {
		require.ErrorIs(t, err, sqlite3.IOERR)
		require.NotErrorIs(t, err, host.ErrFull)
	}
	d.dying.Store(false)
	require.NoError(t, s.Commit(t.Context(), c))
	require.NoError(t, s.Commit(t.Context(), creation("other")))
	require.NoError(t, s.Close())

	s = open(t, dir)
	requireWhole(t, s, "s", c.Head.Rev, 0)
}
