package local

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/perdure/perdure/internal/adapter/sqlite"
	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/host"
)

// Errors that a start may end with (errors.Is). Each comes with a line that
// says what to do.
var (
	// ErrAddressInUse: somebody listens there.
	ErrAddressInUse = errors.New("the address is in use")
	// ErrFolderInUse: another process serves the data folder.
	ErrFolderInUse = sqlite.ErrLocked
	// ErrNewerDatabase: a newer version has written the data folder.
	ErrNewerDatabase = sqlite.ErrNewerDatabase
)

// listenProblem says why an address cannot be listened on.
func listenProblem(addr string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w: something listens on %s already: stop it, or choose another address with %s", ErrAddressInUse, addr, env.Addr)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s may not be listened on by this user: choose a port above 1023 with %s", addr, env.Addr)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%s is no address of this machine: choose another with %s", addr, env.Addr)
	}
	return fmt.Errorf("%s cannot be listened on: %w: choose another address with %s", addr, err, env.Addr)
}

// folderProblem says why a data folder cannot be used. Nothing in it has been
// changed then.
func folderProblem(folder string, err error) error {
	choose := ", or choose another folder with " + env.Data
	switch {
	case errors.Is(err, sqlite.ErrLocked), errors.Is(err, sqlite.ErrNewerDatabase), errors.Is(err, sqlite.ErrForeign), errors.Is(err, sqlite.ErrCorrupt):
		return fmt.Errorf("%w; the folder is set with %s", err, env.Data)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the data folder %s may not be written by this user: give the user the right%s (%w)", folder, choose, err)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("the data folder %s is on a read-only disk: make it writable%s (%w)", folder, choose, err)
	case isFull(err):
		return fmt.Errorf("the disk of the data folder %s is full: make room and start again, nothing is lost%s", folder, choose)
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist):
		return fmt.Errorf("the data folder %s is no folder: move the file away%s (%w)", folder, choose, err)
	}
	return fmt.Errorf("the data folder %s cannot be used: %w", folder, err)
}

func isFull(err error) bool {
	return errors.Is(err, host.ErrFull) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
