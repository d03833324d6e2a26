package dir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/perdure/perdure/internal/host"
)

// readError says in the port's words why something could not be read.
func readError(what string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR):
		return fmt.Errorf("%s: %w", what, host.ErrNotFound)
	case errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.EILSEQ):
		return fmt.Errorf("%s: a part of the path is too long or no name: %w", what, fs.ErrInvalid)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// writeError does the same for what could not be written.
func writeError(what string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%s: %w: %w", what, host.ErrFull, err)
	case errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.EILSEQ):
		return fmt.Errorf("%s: a part of the path is too long or no name: %w", what, fs.ErrInvalid)
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR), errors.Is(err, fs.ErrExist), errors.Is(err, syscall.ENOTEMPTY):
		return fmt.Errorf("%s: a folder is there, or a part of the path is a file: %w", what, fs.ErrInvalid)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// throughLink says whether a part of the path is a link. It is asked when
// something has failed: a link that leads out of the workspace is refused by
// os.Root with an error that has no name.
func throughLink(root *os.Root, path string) bool {
	at := ""
	for part := range strings.SplitSeq(path, "/") {
		if at += part; at == "" {
			continue
		}
		info, err := root.Lstat(at)
		if err != nil {
			return false
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return true
		}
		at += "/"
	}
	return false
}

// release closes what was only read from; nothing can be lost by it.
func release(c io.Closer) { _ = c.Close() }
