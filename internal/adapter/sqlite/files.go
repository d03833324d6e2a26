package sqlite

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
)

// files are the large blobs: <root>/<two hex digits>/<session's number>/
// <hash>-<random>. The name is new for every put, so a file belongs to the one
// transaction that may name it, and taking back what was not named never takes
// what another transaction has.
type files struct {
	root    string
	written atomic.Int64
}

func (f *files) folder(number int64) string {
	return filepath.Join(fmt.Sprintf("%02x", number&0xff), strconv.FormatInt(number, 10))
}

// write returns when the content, its name and its folders' names are durable.
func (f *files) write(number int64, hash string, data []byte) (string, error) {
	folder := f.folder(number)
	if err := f.makeFolder(folder); err != nil {
		return "", err
	}
	name := filepath.Join(folder, hash+"-"+rand.Text()[:10])
	path := filepath.Join(f.root, name)
	temp := path + ".tmp"
	if err := writeSynced(temp, data); err != nil {
		return "", errors.Join(err, ignoreAbsent(os.Remove(temp)))
	}
	if err := os.Rename(temp, path); err != nil {
		return "", errors.Join(err, ignoreAbsent(os.Remove(temp)))
	}
	if err := syncFolder(filepath.Dir(path)); err != nil {
		return "", errors.Join(fmt.Errorf("sync folder: %w", err), ignoreAbsent(os.Remove(path)))
	}
	f.written.Add(1)
	return name, nil
}

func writeSynced(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err //nolint:wrapcheck // names the path
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// makeFolder makes a session's folder, and its name durable with it.
func (f *files) makeFolder(folder string) error {
	path := filepath.Join(f.root, folder)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err //nolint:wrapcheck // names the path
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if err := syncFolder(dir); err != nil {
			return fmt.Errorf("sync folder: %w", err)
		}
		if dir == filepath.Dir(f.root) {
			return nil
		}
	}
}

func (f *files) read(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(f.root, filepath.FromSlash(name))) //nolint:wrapcheck // names the path
}

// remove takes back files that no row names. A file that stays is space lost
// until its session goes, not an error of the write.
func (f *files) remove(names []string) {
	for _, name := range names {
		_ = os.Remove(filepath.Join(f.root, name))
	}
}

// removeAll takes a session's folder away.
func (f *files) removeAll(number int64) error {
	return os.RemoveAll(filepath.Join(f.root, f.folder(number))) //nolint:wrapcheck // names the path
}

// sweep removes the folders of sessions that are not there: a crash came
// before the transaction that would have made them, or after the one that
// deleted them.
func (f *files) sweep(exists func(number int64) (bool, error)) error {
	shards, err := os.ReadDir(f.root)
	if err != nil {
		return ignoreAbsent(err)
	}
	for _, shard := range shards {
		sessions, err := os.ReadDir(filepath.Join(f.root, shard.Name()))
		if err != nil {
			return err //nolint:wrapcheck // names the path
		}
		for _, session := range sessions {
			number, err := strconv.ParseInt(session.Name(), 10, 64)
			if err != nil {
				continue // not ours, not our business
			}
			there, err := exists(number)
			if err == nil && !there {
				err = f.removeAll(number)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
