package sqlite

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

func yield() { runtime.Gosched() }

// childEnv makes the test binary the process that is killed. The data folder is
// where it runs.
const childEnv = "PERDURE_SQLITE_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child(os.Stdout)
	}
	os.Exit(m.Run())
}

const childSessions = 6

func childName(i int) string { return "s" + strconv.Itoa(i) }

// child commits to several sessions at once, for ever, and says after each
// commit which it was.
func child(out io.Writer) {
	s, err := Open(".", Options{})
	if err != nil {
		fmt.Fprintln(out, "error", err)
		os.Exit(1)
	}
	var say sync.Mutex
	var wg sync.WaitGroup
	for i := range childSessions {
		wg.Go(func() {
			name := childName(i)
			head, err := s.Head(context.Background(), key(name))
			for err == nil || head.Rev == 0 {
				c := childCommit(name, head)
				if err = s.Commit(context.Background(), c); err != nil {
					break
				}
				head = c.Head
				say.Lock()
				fmt.Fprintln(out, name, head.Rev, head.Seq)
				say.Unlock()
			}
			say.Lock()
			fmt.Fprintln(out, "error", err)
			os.Exit(1)
		})
	}
	wg.Wait()
}

// childCommit follows from the head alone, so that what it wrote can be
// checked: rev r has 1 + r mod 4 events, a row, a blob, and each third a large
// one.
func childCommit(name string, head host.Head) host.Commit {
	next := head
	next.Rev++
	next.Write = fmt.Sprintf("%s-%d", name, next.Rev)
	next.Inc, next.Status = "i", host.StatusOpen
	c := host.Commit{Key: key(name), Expect: head.Rev}
	for range 1 + next.Rev%4 {
		next.Seq++
		c.Entries = append(c.Entries, host.StoredEntry{Seq: next.Seq, Data: fmt.Appendf(nil, "%s-%d-%d", name, next.Rev, next.Seq)})
	}
	c.Head = next
	c.Rows = []host.Row{{Key: "last", Data: []byte(next.Write)}, {Key: fmt.Sprintf("rev#%012d", next.Rev), Data: []byte(next.Write), IfAbsent: true}}
	c.Blobs = []host.Blob{sized(next.Write, 2000)}
	if next.Rev%3 == 0 {
		c.Blobs = append(c.Blobs, sized(next.Write, rowMax+1000))
	}
	return c
}

// TestAKilledProcessLosesNothingItSaid kills a process that commits, again and
// again on one folder, and looks at what is there.
func TestAKilledProcessLosesNothingItSaid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	acknowledged := map[string]uint64{}
	for round := range 6 {
		runChild(t, dir, 20+rand.IntN(200), acknowledged)
		s := open(t, dir)
		for i := range childSessions {
			requireWhole(t, s, childName(i), acknowledged[childName(i)], round)
		}
		require.NoError(t, s.Close())
	}
}

// runChild kills the child when it has said so many commits, at whatever it is
// about then.
func runChild(t *testing.T, dir string, commits int, acknowledged map[string]uint64) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), childEnv+"=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	guard := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
	defer guard.Stop()

	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 {
			break // the line that the kill cut off
		}
		require.NotEqual(t, "error", fields[0], lines.Text())
		rev, err := strconv.ParseUint(fields[1], 10, 64)
		require.NoError(t, err)
		acknowledged[fields[0]] = rev
		if n == commits {
			require.NoError(t, cmd.Process.Kill())
		}
	}
	require.Error(t, cmd.Wait(), "it ends by being killed")
	require.Empty(t, stderr.String())
}

// requireWhole refolds what the commits must have been, from nothing.
func requireWhole(t *testing.T, s *Store, name string, acknowledged uint64, round int) {
	t.Helper()
	stored, err := s.Head(t.Context(), key(name))
	if acknowledged == 0 && err != nil {
		require.ErrorIs(t, err, host.ErrNotFound)
		return
	}
	require.NoError(t, err)
	require.GreaterOrEqual(t, stored.Rev, acknowledged, "an acknowledged commit is lost (round %d)", round)
	require.LessOrEqual(t, stored.Rev, acknowledged+1, "more was written than was ever sent")

	var head host.Head
	var events []host.StoredEntry
	for head.Rev < stored.Rev {
		c := childCommit(name, head)
		events = append(events, c.Entries...)
		for _, b := range c.Blobs {
			got, err := s.GetBlob(t.Context(), c.Key, b.Ref)
			require.NoError(t, err)
			require.Len(t, got, len(b.Data))
		}
		row, err := s.Row(t.Context(), c.Key, c.Rows[1].Key)
		require.NoError(t, err)
		require.Equal(t, c.Rows[1].Data, row.Data)
		head = c.Head
	}
	require.Equal(t, head, stored)
	got, err := s.Read(t.Context(), key(name), 0, head.Seq, 1<<20, 1<<40)
	require.NoError(t, err)
	require.Equal(t, events, got)

	// And nothing of the commit that did not come to be.
	next := childCommit(name, head)
	_, err = s.Row(t.Context(), key(name), next.Rows[1].Key)
	require.ErrorIs(t, err, host.ErrNotFound)
	for _, b := range next.Blobs {
		_, err = s.GetBlob(t.Context(), key(name), b.Ref)
		require.ErrorIs(t, err, host.ErrNotFound)
	}
	beyond, err := s.ReadBefore(t.Context(), key(name), ident.Seq(seqMax), 1, 1)
	require.NoError(t, err)
	require.Equal(t, head.Seq, beyond[0].Seq)
}
