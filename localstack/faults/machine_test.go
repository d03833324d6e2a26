package faults

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	awssfn "github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/sfn"
	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/host"
)

// machine is a client of the machine's engine.
func (w *world) machine() *awssfn.Client { return awssfn.NewFromConfig(w.stack.Config.Copy()) }

// waker is the stack's own, as the functions have it.
func (w *world) waker() *sfn.Waker {
	w.Helper()
	waker, err := sfn.NewWaker(w.stack.Config.Copy(), w.stack.Outputs["Machine"])
	require.NoError(w, err)
	return waker
}

// execution is the ARN of one, by its name.
func (w *world) execution(name string) string {
	return strings.Replace(w.stack.Outputs["Machine"], ":stateMachine:", ":execution:", 1) + ":" + name
}

// name is that of an epoch's execution.
func (w *world) name(epoch uint64) string {
	w.Helper()
	name, err := sfn.ExecutionName(w.head().Inc, epoch)
	require.NoError(w, err)
	return name
}

// ends waits for an execution to end, and says how.
func (w *world) ends(name string) (status types.ExecutionStatus) {
	w.Helper()
	w.eventually(func() bool {
		out, err := w.machine().DescribeExecution(w.Context(), &awssfn.DescribeExecutionInput{ExecutionArn: aws.String(w.execution(name))})
		require.NoError(w, err)
		status = out.Status
		return status != types.ExecutionStatusRunning
	}, name+" does not end")
	return status
}

// running are the executions of the session's epochs that are not over.
func (w *world) running() (names []string) {
	w.Helper()
	h := w.head()
	for epoch := uint64(1); epoch <= h.Drive.Epoch; epoch++ {
		name, err := sfn.ExecutionName(h.Inc, epoch)
		require.NoError(w, err)
		out, err := w.machine().DescribeExecution(w.Context(), &awssfn.DescribeExecutionInput{ExecutionArn: aws.String(w.execution(name))})
		if _, none := errors.AsType[*types.ExecutionDoesNotExist](err); none {
			continue
		}
		require.NoError(w, err)
		if out.Status == types.ExecutionStatusRunning {
			names = append(names, name)
		}
	}
	return names
}

// states are the states that an execution has entered.
func (w *world) states(name string) (states []string) {
	w.Helper()
	pages := awssfn.NewGetExecutionHistoryPaginator(w.machine(), &awssfn.GetExecutionHistoryInput{ExecutionArn: aws.String(w.execution(name))})
	for pages.HasMorePages() {
		page, err := pages.NextPage(w.Context())
		require.NoError(w, err)
		for _, e := range page.Events {
			if e.StateEnteredEventDetails != nil {
				states = append(states, *e.StateEnteredEventDetails.Name)
			}
		}
	}
	return states
}

// input is that of an epoch's execution.
func (w *world) input(epoch uint64) []byte {
	w.Helper()
	data, err := sfn.Input(w.key, w.head().Inc, epoch)
	require.NoError(w, err)
	return data
}

// event is what the state Model sends for a step of an epoch.
func (w *world) event(epoch, step uint64) []byte {
	w.Helper()
	data := bytes.Replace(w.input(epoch), []byte(`"step":1`), fmt.Appendf(nil, `"step":%d`, step), 1)
	return fmt.Appendf(nil, `{"data":%s,"began":%q}`, data, time.Now().UTC().Format(time.RFC3339Nano))
}

// function is the name of a function of the stack. The machine is named after
// the stack.
func (w *world) function(role string) string {
	arn := w.stack.Outputs["Machine"]
	return strings.TrimSuffix(arn[strings.LastIndexByte(arn, ':')+1:], "session") + role
}

// invoke asks a function, and waits for what it answers.
func (w *world) invoke(ctx context.Context, role string, event []byte) ([]byte, error) {
	c := lambda.NewFromConfig(w.stack.Config.Copy(), func(o *lambda.Options) { o.RetryMaxAttempts = 1 })
	out, err := c.Invoke(ctx, &lambda.InvokeInput{FunctionName: aws.String(w.function(role)), Payload: event})
	if err == nil && out.FunctionError != nil {
		err = fmt.Errorf("%s failed: %s", role, out.Payload)
	}
	if err != nil {
		return nil, err
	}
	return out.Payload, nil
}

// drives invokes the drive for a step beside the machine, and returns what it
// says is to be done next.
func (w *world) drives(epoch, step uint64) string {
	w.Helper()
	answer, err := w.invoke(w.Context(), env.FunctionDrive, w.event(epoch, step))
	require.NoError(w, err)
	var next struct{ Next string }
	require.NoError(w, json.Unmarshal(answer, &next))
	return next.Next
}

// sweeps invokes the sweep until it is so. What is owed is found when its time
// is up.
func (w *world) sweeps(so func() bool) {
	w.Helper()
	w.eventually(func() bool {
		_, err := w.invoke(w.Context(), env.FunctionSweep, []byte(`{}`))
		require.NoError(w, err)
		return so()
	}, "the sweep does not find it")
}

// claimed sweeps until a driver has the session.
func (w *world) claimed() {
	w.Helper()
	w.sweeps(func() bool {
		s := w.head().Drive.Status
		return s != host.DriveStarting && s != host.DriveWaking
	})
}

// link is a connection from a function to a server of this test.
type link struct{ theirs, ours string }

// linkOf is the one that a request came by.
func linkOf(r *http.Request) link {
	l := link{theirs: r.RemoteAddr}
	if ours, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		l.ours = ours.String()
	}
	return l
}

// kill ends the function that is at the other end of a connection, as the loss
// of its machine would.
func (w *world) kill(from link) {
	w.Helper()
	pid, err := owner(from)
	require.NoError(w, err)
	require.NoError(w, kill(pid))
}

func kill(pid int) error {
	process, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return process.Kill()
}

// mortal skips a test that kills functions where that cannot be done.
func (w *world) mortal() {
	w.Helper()
	if runtime.GOOS != "linux" || os.Getenv(env.AWSEndpoint) != "" {
		w.Skip("functions are processes that this test can find on Linux, under an emulator that it has started")
	}
}

// owner finds the process at the other end of a connection. It must be a
// function: a descendant of this process by the name that Lambda gives to
// programs. The kernel's tables may be read while they change, and then lack what
// is in them: so it looks again.
func owner(from link) (pid int, err error) {
	for range 20 {
		if pid, err = look(from); err == nil {
			break
		}
	}
	return pid, err
}

func look(from link) (pid int, err error) {
	inode, err := socketOf(from)
	if err != nil {
		return 0, err
	}
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return 0, err
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err != nil || to != "socket:["+inode+"]" {
			continue // another's, or gone
		}
		pid, err := strconv.Atoi(strings.Split(link, "/")[2])
		if err != nil {
			return 0, err
		}
		program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err != nil {
			return 0, err
		}
		if filepath.Base(program) != "bootstrap" || !descends(pid) {
			return 0, fmt.Errorf("%s is at %s, and is no function of ours", program, from.theirs)
		}
		return pid, nil
	}
	return 0, fmt.Errorf("no process is at %s", from.theirs)
}

// socketOf is the number of the socket at their end, IPv4. A port may be used for
// several connections at once, to different addresses, so both ends tell.
func socketOf(l link) (inode string, err error) {
	theirs, err := hexadecimal(l.theirs)
	if err != nil {
		return "", err
	}
	ours, err := hexadecimal(l.ours)
	if err != nil {
		return "", err
	}
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 9 && f[1] == theirs && f[2] == ours {
			return f[9], nil
		}
	}
	return "", fmt.Errorf("there is no connection from %s to %s", l.theirs, l.ours)
}

// hexadecimal is an address as the kernel's table has it.
func hexadecimal(address string) (string, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return "", err
	}
	ip := at.Addr().As4()
	return fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(ip[:]), at.Port()), nil
}

// descends says that a process has this one among its ancestors.
func descends(pid int) bool {
	for pid > 1 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false
		}
		// After the name, which may hold anything: state, parent.
		rest := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if pid, err = strconv.Atoi(rest[1]); err != nil {
			return false
		}
		if pid == os.Getpid() {
			return true
		}
	}
	return false
}
