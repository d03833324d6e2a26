//go:build unix

package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func lockFile(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errHeld
	}
	return err //nolint:wrapcheck // by its caller
}

// unlockFile lets go at once, also of what a child that is just being started
// holds by its copy of the file until it becomes another program.
func unlockFile(f *os.File) error {
	return unix.Flock(int(f.Fd()), unix.LOCK_UN) //nolint:wrapcheck // by its caller
}

// syncFolder makes the names in a folder durable.
func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err //nolint:wrapcheck // names the path
	}
	return errors.Join(d.Sync(), d.Close())
}
