package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/sqlite"
	"github.com/perdure/perdure/internal/host"
)

func TestProblemsOfAStartSayWhatToDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want string
	}{
		{listenProblem("a:1", &os.SyscallError{Err: syscall.EADDRINUSE}), "choose another address with PERDURE_ADDR"},
		{listenProblem("a:80", &os.SyscallError{Err: syscall.EACCES}), "choose a port above 1023"},
		{listenProblem("a:1", &os.SyscallError{Err: syscall.EADDRNOTAVAIL}), "is no address of this machine"},
		{listenProblem("a:1", errors.New("what")), "choose another address"},
		{folderProblem("/d", &fs.PathError{Err: syscall.EACCES}), "may not be written by this user"},
		{folderProblem("/d", &fs.PathError{Err: syscall.EROFS}), "read-only disk"},
		{folderProblem("/d", &fs.PathError{Err: syscall.ENOSPC}), "make room and start again, nothing is lost"},
		{folderProblem("/d", fmt.Errorf("x: %w", host.ErrFull)), "make room"},
		{folderProblem("/d", &fs.PathError{Err: syscall.ENOTDIR}), "is no folder"},
		{folderProblem("/d", sqlite.ErrCorrupt), "PERDURE_DATA"},
		{folderProblem("/d", errors.New("what")), "cannot be used"},
	} {
		require.ErrorContains(t, c.err, c.want)
		require.NotContains(t, c.err.Error(), "\n")
	}
}
