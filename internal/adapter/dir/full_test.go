package dir

import (
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/host"
)

// A full disk cannot be had in a test that runs anywhere; its errors can.
func TestAFullDiskIsToldFromOtherFaults(t *testing.T) {
	t.Parallel()
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		err := writeError("write f", &os.PathError{Op: "write", Path: "f", Err: errno})
		require.ErrorIs(t, err, host.ErrFull)
		require.ErrorIs(t, err, errno)
	}
	err := writeError("write f", &os.PathError{Op: "write", Path: "f", Err: syscall.EIO})
	require.NotErrorIs(t, err, host.ErrFull)
	require.NotErrorIs(t, err, fs.ErrInvalid)
	require.ErrorIs(t, err, syscall.EIO)
	require.NotErrorIs(t, readError("read f", syscall.EIO), host.ErrNotFound)
}

func FuzzEncodeID(f *testing.F) {
	for _, id := range []string{"a", "A", "a:B", "..", "a+", "a=01", "x/y", ""} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		name, err := encodeID("id", id)
		if err != nil {
			return
		}
		back, ok := decodeID(name)
		require.True(t, ok)
		require.Equal(t, id, back)
		require.NotContains(t, name, "/")
		require.LessOrEqual(t, len(name), 255)
	})
}
