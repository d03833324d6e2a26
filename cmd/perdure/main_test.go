package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/client"
	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/local"
)

// TestMain makes this binary the command as well: a script, or a child process,
// that calls it perdure gets main.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"perdure": main})
}

// hang is how long anything may take before a test is given up. It is no
// measure of anything.
const hang = 2 * time.Minute

// serveIn starts a server on a free port, with the demo and no pauses.
func serveIn(data string, change func(c *local.Config)) (*local.Server, func() error, error) {
	cfg := local.Config{Addr: "127.0.0.1:0", Data: data, AllowPrivate: true, Instant: true, OpenAIModel: env.DefaultModel}
	if change != nil {
		change(&cfg)
	}
	s, err := local.Open(context.Background(), cfg)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Run(ctx) }()
	stop := sync.OnceValue(func() error {
		cancel()
		return errors.Join(<-served, s.Close())
	})
	select {
	case <-s.Ready():
		return s, stop, nil
	case <-time.After(hang):
		return nil, nil, errors.Join(errors.New("the server does not get ready"), stop())
	}
}

// child is a real process that serves.
type child struct {
	cmd  *exec.Cmd
	url  string
	done chan struct{} // closed when it has ended
	err  error
	log  *tail
}

// tail keeps what a process says, to wait for, and to be shown when a test
// fails.
type tail struct {
	mu   sync.Mutex
	text strings.Builder
	more chan struct{} // closed by the next write
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.more != nil {
		close(t.more)
		t.more = nil
	}
	return t.text.Write(b)
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// says waits until a text has come.
func (t *tail) says(tb testing.TB, text string) {
	tb.Helper()
	give := time.After(hang)
	for {
		t.mu.Lock()
		said := t.text.String()
		if t.more == nil {
			t.more = make(chan struct{})
		}
		more := t.more
		t.mu.Unlock()
		if strings.Contains(said, text) {
			return
		}
		select {
		case <-more:
		case <-give:
			require.Fail(tb, "it never says "+text, said)
		}
	}
}

// command is this binary as perdure, in an environment of its own.
func command(tb testing.TB, data string, environ []string, args ...string) *exec.Cmd {
	tb.Helper()
	self, err := os.Executable()
	require.NoError(tb, err)
	cmd := exec.Command(self, args...)
	cmd.Args[0] = "perdure"
	cmd.Env = append([]string{"HOME=" + data, "PATH=" + os.Getenv("PATH"), env.Data + "=" + data}, environ...)
	return cmd
}

// startChild runs perdure serve and waits until it serves.
func startChild(tb testing.TB, data string, environ ...string) *child {
	tb.Helper()
	c := &child{log: &tail{}, done: make(chan struct{})}
	c.cmd = command(tb, data, append([]string{env.Addr + "=127.0.0.1:0"}, environ...), "serve")
	out, err := c.cmd.StdoutPipe()
	require.NoError(tb, err)
	c.cmd.Stderr = c.log
	require.NoError(tb, c.cmd.Start())
	tb.Cleanup(c.kill)
	urls := make(chan string, 1)
	go func() {
		text := make([]byte, 4096)
		n, _ := out.Read(text)
		_, rest, _ := strings.Cut(string(text[:n]), "on ")
		url, _, _ := strings.Cut(rest, "\n")
		urls <- url
		_, _ = io.Copy(c.log, out)
		c.err = c.cmd.Wait()
		close(c.done)
	}()
	select {
	case c.url = <-urls:
	case <-time.After(hang):
	}
	require.True(tb, strings.HasPrefix(c.url, "http://"), "the server did not start: %s", c.log)
	return c
}

// kill ends the process as a power cut would.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may have ended by itself
	<-c.done
}

func (c *child) signal(tb testing.TB, sig os.Signal) {
	tb.Helper()
	require.NoError(tb, c.cmd.Process.Signal(sig))
}

// wait returns how the process ended.
func (c *child) wait(tb testing.TB) error {
	tb.Helper()
	select {
	case <-c.done:
		return c.err
	case <-time.After(hang):
		require.Fail(tb, "the process does not end", c.log.String())
		return nil
	}
}

func (c *child) client(tb testing.TB, data string) *client.Client {
	tb.Helper()
	key, err := local.ReadKey(data)
	require.NoError(tb, err)
	return client.New(c.url, key)
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir)
			e.Setenv(env.Data, filepath.Join(e.WorkDir, "data"))
			e.Setenv(env.URL, "http://127.0.0.1:1") // nobody is there
			e.Values["stop"] = new(func() error)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"server": scriptServer, "until": scriptUntil, "id": scriptID,
		},
		RequireUniqueNames: true,
	})
}

// scriptServer starts a server for the script, in the place of the one before:
//
//	server [slow] [open] [real]
func scriptServer(ts *testscript.TestScript, _ bool, args []string) {
	last, _ := ts.Value("stop").(*func() error)
	if *last != nil {
		ts.Check((*last)())
	}
	r, stop, err := serveIn(ts.Getenv(env.Data), func(c *local.Config) {
		for _, arg := range args {
			switch arg {
			case "slow":
				c.Instant = false
			case "open":
				c.Open = true
			case "real":
				c.OpenAIKeyName, c.Secret = "K", func(string) (string, bool) { return "sk-test", true }
			default:
				ts.Fatalf("server: %q is nothing", arg)
			}
		}
	})
	ts.Check(err)
	*last = stop
	ts.Defer(func() { ts.Check(stop()) })
	ts.Setenv(env.URL, r.URL())
	ts.Setenv("ADDR", r.Addr())
	ts.Setenv("KEY", r.Key())
	ts.Setenv("PID", strconv.Itoa(os.Getpid()))
}

// scriptUntil runs a command until its output has a text:
//
//	until TEXT perdure …
func scriptUntil(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: until TEXT command…")
	}
	give := time.Now().Add(hang)
	for {
		if err := ts.Exec(args[1], args[2:]...); err == nil && strings.Contains(ts.ReadFile("stdout"), args[0]) {
			return
		}
		if time.Now().After(give) {
			ts.Fatalf("%v never says %q", args[1:], args[0])
		}
	}
}

// scriptID takes an id out of the last output and keeps it in a variable:
//
//	id NAME prefix_
func scriptID(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: id NAME prefix")
	}
	out := ts.ReadFile("stdout")
	i := strings.Index(out, args[1])
	if i < 0 {
		ts.Fatalf("there is no %s in the output", args[1])
	}
	id := strings.FieldsFunc(out[i:], func(r rune) bool { return r == '"' || r == ' ' || r == '\n' || r == ',' })[0]
	ts.Setenv(args[0], id)
}
