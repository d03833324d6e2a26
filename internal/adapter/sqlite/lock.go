package sqlite

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
)

// folderLock keeps a second process out of a data folder: two would each
// believe that they alone drive its sessions. The system lets it go with the
// process, however that ends.
type folderLock struct {
	file *os.File
	once sync.Once
	err  error
}

func lockFolder(path string) (*folderLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	if err := lockFile(f); err != nil {
		defer f.Close() //nolint:errcheck // nothing was written
		if !errors.Is(err, errHeld) {
			return nil, fmt.Errorf("lock the data folder: %w", err)
		}
		held, _ := io.ReadAll(io.LimitReader(f, 32))
		pid, err := strconv.Atoi(strings.TrimSpace(string(held)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w (by a process that did not say its number)", path, ErrLocked)
		}
		return nil, fmt.Errorf("%s: %w (by process %d)", path, ErrLocked, pid)
	}
	if err := errors.Join(f.Truncate(0), writeAt(f, strconv.Itoa(os.Getpid())+"\n")); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the data folder: %w", err), f.Close())
	}
	return &folderLock{file: f}, nil
}

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err //nolint:wrapcheck // by its caller
}

// release lets the folder go. The file stays: taking it away would let two
// processes hold locks on two files of one name.
func (l *folderLock) release() error {
	l.once.Do(func() { l.err = errors.Join(l.file.Truncate(0), unlockFile(l.file), l.file.Close()) })
	return l.err
}

// errHeld: another open file holds the lock.
var errHeld = errors.New("held")
