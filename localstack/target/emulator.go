package target

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/env"
)

// slow is how long a server may take to start, the first time including what it
// installs. It is less than go test gives a binary, which would say less of it.
const slow = 8 * time.Minute

// Servers, by the value of PERDURE_AWS_TARGET: scripts below localstack/.
var servers = map[string]server{
	"":           {"emulator.py", emulated},
	"emulator":   {"emulator.py", emulated},
	"localstack": {"host/serve.py", localstack},
}

// server is what can be started to stand for AWS.
type server struct {
	script string
	can    Capabilities
}

// chosen is the server that tests start, unless an endpoint is given.
func chosen() (server, error) {
	name := os.Getenv(env.AWSTarget)
	s, ok := servers[name]
	if !ok {
		return s, fmt.Errorf("%s is %q; it may be emulator or localstack", env.AWSTarget, name)
	}
	return s, nil
}

// statusMissing is how a server ends where the machine lacks something.
const statusMissing = 3

// process is a running server.
type process struct {
	Endpoint string `json:"endpoint"`
	PID      int    `json:"pid"`

	// life is its standard input. It ends when that is closed, which the system
	// does for a test binary that is killed.
	life io.Closer
	cmd  *exec.Cmd
}

// missingError says what this machine lacks.
type missingError struct{ what string }

func (e missingError) Error() string { return e.what }

func isMissing(err error) bool { return errors.As(err, new(missingError)) }

// shared is the server of this test binary. It is kept here, so that nothing
// closes its life before the binary ends.
var shared = sync.OnceValues(func() (*process, error) {
	s, err := chosen()
	if err != nil {
		return nil, err
	}
	//nolint:forbidigo // it is every test's, and outlives the one that comes first
	return start(context.Background(), s, filepath.Base(os.Args[0]))
})

// Emulator starts an emulator for one test, with some of its known gaps left
// open ("all" is all of them): to show that they are gaps. Where another target
// is wanted, the test is skipped.
func Emulator(tb testing.TB, leave ...string) Target {
	tb.Helper()
	var args []string
	for _, name := range leave {
		args = append(args, "--leave", name)
	}
	return own(tb, servers["emulator"], args...)
}

// LocalStack starts a LocalStack for one test. Where another target is wanted,
// the test is skipped.
func LocalStack(tb testing.TB) Target {
	tb.Helper()
	return own(tb, servers["localstack"])
}

// own starts a server for one test, if it is of the kind that tests are run on.
func own(tb testing.TB, s server, args ...string) Target {
	tb.Helper()
	if os.Getenv(env.AWSEndpoint) != "" {
		tb.Skip("the target is given, and is not ours to start")
	}
	if wanted, err := chosen(); err != nil || wanted.script != s.script {
		tb.Skipf("the target is %s, and this is about %s", wanted.can.Name, s.can.Name)
	}
	p, err := start(context.WithoutCancel(tb.Context()), s, filepath.Base(os.Args[0])+"-own", args...)
	need(tb, err)
	tb.Cleanup(func() { require.NoError(tb, p.end()) })
	return at(p.Endpoint, s.can)
}

// start runs a server until its life is closed. Its log is in
// .cache/localstack/log.
func start(ctx context.Context, s server, name string, args ...string) (*process, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		return nil, missingError{"python3 is not installed"}
	}
	logs := filepath.Join(root, ".cache", "localstack", "log")
	if err = os.MkdirAll(logs, 0o700); err != nil {
		return nil, err
	}
	args = append([]string{filepath.Join(root, "localstack", s.script), "serve", "--log", filepath.Join(logs, name+"-"+strings.ReplaceAll(s.can.Name, " ", "-")+".log")}, args...)
	p := &process{cmd: exec.CommandContext(ctx, python, args...)}
	var complaint strings.Builder
	p.cmd.Stderr = &complaint
	life, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	answers, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err = p.cmd.Start(); err != nil {
		return nil, err
	}
	p.life = life
	// The end of its life ends what it has started too, an installation for one.
	tooSlow := time.AfterFunc(slow, func() { _ = p.life.Close() })
	defer tooSlow.Stop()
	line, _ := bufio.NewReader(answers).ReadBytes('\n')
	if err = json.Unmarshal(line, p); err == nil {
		return p, nil
	}
	// How it ended says more than what went wrong in ending it.
	_, _ = p.life.Close(), p.cmd.Wait()
	if p.cmd.ProcessState.ExitCode() == statusMissing {
		return nil, missingError{strings.TrimSpace(complaint.String())}
	}
	return nil, fmt.Errorf("%s did not start: %s", s.script, strings.TrimSpace(complaint.String()+" "+p.cmd.ProcessState.String()))
}

// end closes the server's life and waits until it is gone. It ends by killing
// its whole group, itself included, so its status says nothing.
func (p *process) end() error {
	err := p.life.Close()
	_ = p.cmd.Wait()
	return err
}

// Root returns the folder of this module, where tests run below.
func Root() (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := at; ; dir = filepath.Dir(dir) {
		if _, err = os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("there is no go.mod above %s", at)
		}
	}
}
