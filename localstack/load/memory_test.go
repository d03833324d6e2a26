package load

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// memory is what the processes of a target have resident, in megabytes.
type memory struct {
	server, java, functions float64
	environments            int // processes of functions
}

// report reports it, if it is known.
func (m memory) report(b *testing.B) {
	b.Helper()
	if m == (memory{}) {
		b.Log("no figures of memory: the target is not on this machine, or the machine has no /proc")
		return
	}
	b.ReportMetric(m.server, "server-MB")
	b.ReportMetric(m.java, "java-MB")
	b.ReportMetric(m.functions, "functions-MB")
	b.ReportMetric(float64(m.environments), "environments")
}

// footprint adds up the process that listens at an endpoint and all that it has
// started. Pages that several of them share are counted for each.
func footprint(tb testing.TB, endpoint string) (m memory) {
	tb.Helper()
	server := listener(tb, endpoint)
	if server == 0 {
		return m
	}
	parents := map[int]int{}
	for _, pid := range pids(tb) {
		parents[pid] = int(status(pid, "PPid"))
	}
	for pid := range parents {
		if !descends(pid, server, parents) {
			continue
		}
		program, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)) // it may be gone
		const megabyte = 1 << 10
		switch resident := float64(status(pid, "VmRSS")) / megabyte; filepath.Base(program) {
		case "bootstrap":
			m.functions += resident
			m.environments++
		case "java":
			m.java += resident
		default:
			m.server += resident
		}
	}
	return m
}

func descends(pid, from int, parents map[int]int) bool {
	for ; pid > 1; pid = parents[pid] {
		if pid == from {
			return true
		}
	}
	return false
}

func pids(tb testing.TB) (all []int) {
	tb.Helper()
	folders, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(tb, err)
	for _, folder := range folders {
		pid, err := strconv.Atoi(filepath.Base(folder))
		require.NoError(tb, err)
		all = append(all, pid)
	}
	return all
}

// status is a number of a process's status: kilobytes, or an id. It is 0 if the
// process is gone.
func status(pid int, field string) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // it may be gone
	for line := range strings.Lines(string(text)) {
		if value, is := strings.CutPrefix(line, field+":"); is {
			n, _ := strconv.ParseInt(strings.Fields(value)[0], 10, 64) // the kernel wrote it
			return n
		}
	}
	return 0
}

// listener is the process that listens at an endpoint of this machine, 0 if that
// cannot be found out.
func listener(tb testing.TB, endpoint string) int {
	tb.Helper()
	at, err := url.Parse(endpoint)
	require.NoError(tb, err)
	port, err := strconv.ParseUint(at.Port(), 10, 16)
	sockets, missing := os.ReadFile("/proc/net/tcp")
	if err != nil || missing != nil || !slices.Contains([]string{"127.0.0.1", "localhost"}, at.Hostname()) {
		return 0
	}
	const localAddress, state, inode, listens = 1, 3, 9, "0A"
	for line := range strings.Lines(string(sockets)) {
		fields := strings.Fields(line)
		if len(fields) <= inode || fields[state] != listens || !strings.HasSuffix(fields[localAddress], fmt.Sprintf(":%04X", port)) {
			continue
		}
		links, err := filepath.Glob("/proc/[0-9]*/fd/*")
		require.NoError(tb, err)
		for _, link := range links {
			if to, _ := os.Readlink(link); to == "socket:["+fields[inode]+"]" {
				pid, err := strconv.Atoi(strings.Split(link, "/")[2])
				require.NoError(tb, err)
				return pid
			}
		}
	}
	return 0
}
