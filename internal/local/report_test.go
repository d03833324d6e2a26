package local

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/sqlite"
	"github.com/perdure/perdure/internal/host"
)

func TestTroubleIsLoggedOnceAndQuotesNoLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	r := &reporter{log: slog.New(slog.NewTextHandler(&out, nil))}
	a, b := host.Key{Tenant: "t", Session: "a"}, host.Key{Tenant: "t", Session: "b"}
	for range 3 {
		r.report(a, "commit", errors.New("no room"))
		r.report(b, "quarantine", &session.Divergence{Seq: 7, Code: "seq", Detail: "somebody's words"})
	}
	require.Equal(t, 2, strings.Count(out.String(), "\n"), out.String())
	require.Contains(t, out.String(), "seq=7")
	require.NotContains(t, out.String(), "words")
	r.report(a, "commit", errors.New("no network"))
	r.report(a, "commit", errors.New("no room"))
	require.Equal(t, 4, strings.Count(out.String(), "\n"))
}

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
