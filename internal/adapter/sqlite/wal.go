//nolint:wrapcheck // the library knows errors by their type: here they pass as they are
package sqlite

import (
	"errors"
	"syscall"

	sqlite3 "github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

// gathering is the name of a file system that is the system's own, but for the
// log of writes: there it gathers what SQLite writes in pieces, two a page,
// and hands it on in one call, before the sync that makes it count.
//
// That loses nothing. With synchronous=FULL a commit ends with a sync of the
// log, and only then are its pages shown to readers, which have files of their
// own. What was not synced is what a crash may lose in any case.
const gathering = "perdure-gathering"

// gatherMax bounds what is held back, in bytes.
const gatherMax = 1 << 20

type gatheringFS struct{ vfs.VFSFilename }

// registerGathering makes the name known to the library, once or again.
func registerGathering() error {
	system, ok := vfs.Find("os").(vfs.VFSFilename)
	if !ok {
		return errors.New("the database library has no file system of the kind that is needed")
	}
	vfs.Register(gathering, gatheringFS{system})
	return nil
}

// OpenFilename implements vfs.VFSFilename.
func (g gatheringFS) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	file, flags, err := g.VFSFilename.OpenFilename(name, flags)
	if err == nil && flags&vfs.OPEN_WAL != 0 {
		file = &gatheringFile{File: file}
	}
	return file, flags, err
}

// gatheringFile holds back writes that follow each other. Everything else that
// is asked of the file hands them on first.
type gatheringFile struct {
	vfs.File
	held []byte
	at   int64 // where held belongs
}

// WriteAt implements vfs.File.
func (f *gatheringFile) WriteAt(p []byte, off int64) (int, error) {
	if len(f.held) > 0 && (off != f.at+int64(len(f.held)) || len(f.held)+len(p) > gatherMax) {
		if err := f.handOn(); err != nil {
			return 0, err
		}
	}
	if len(f.held) == 0 {
		f.at = off
	}
	f.held = append(f.held, p...)
	return len(p), nil
}

// handOn writes what is held. After an error it is forgotten: the transaction
// that wrote it fails, and the next one writes to the same place.
func (f *gatheringFile) handOn() error {
	if len(f.held) == 0 {
		return nil
	}
	_, err := f.File.WriteAt(f.held, f.at)
	f.held = f.held[:0]
	return named(err)
}

// named gives a full disk its name. The library would call it an error of I/O,
// and forget by whom.
func named(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return vfs.SystemError(err, sqlite3.FULL)
	}
	return err
}

// ReadAt implements vfs.File.
func (f *gatheringFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.handOn(); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

// Sync implements vfs.File.
func (f *gatheringFile) Sync(flags vfs.SyncFlag) error {
	if err := f.handOn(); err != nil {
		return err
	}
	return f.File.Sync(flags)
}

// Truncate implements vfs.File.
func (f *gatheringFile) Truncate(size int64) error {
	if err := f.handOn(); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

// Size implements vfs.File.
func (f *gatheringFile) Size() (int64, error) {
	if err := f.handOn(); err != nil {
		return 0, err
	}
	return f.File.Size()
}

// Close implements vfs.File. What was never synced is no commit.
func (f *gatheringFile) Close() error {
	return f.File.Close()
}
