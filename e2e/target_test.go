package e2e

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"
	"github.com/stretchr/testify/require"

	_ "github.com/perdure/perdure/core/replay" // see built
	_ "github.com/perdure/perdure/internal/chat"
	"github.com/perdure/perdure/internal/cloud"
	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/local"
	aws "github.com/perdure/perdure/localstack/target"
)

var deployed = flag.Bool("deployed", false, "ask the server at "+env.URL+" with "+env.Key+", or the stack on a target of AWS, instead of one that is started here")

// hang is how long anything may take before a test is given up. It is no
// measure of anything.
const hang = 5 * time.Minute

// What every server of the suite has in its environment, for outside tools.
const (
	secretName  = "E2E_TOOL_SECRET"
	secretValue = "a secret of the suite's own"
)

// target is a server to ask. What cannot be done to it is nil, and tests that
// need it are skipped.
type target struct {
	url string
	key string
	// start brings the server back after kill, which ends it as a power cut
	// would, or stop, which ends it as a deploy does. Its URL may be another.
	start, kill, stop func(tb testing.TB)
	// stack is what has been deployed for the suite, nil if nothing was: addresses
	// that the server names are found from here as it knows.
	stack *aws.Stack
	// data is the server's folder.
	data string
	// log is what the server has said.
	log *tail
}

// shared is the target of all tests that leave the server alone.
func shared(t *testing.T) *target {
	t.Helper()
	if *deployed && os.Getenv(env.URL) == "" {
		return onAWS(t)
	}
	at, err := server()
	require.NoError(t, err)
	return at
}

// onAWS is the stack on a target of AWS, which is deployed if it is not.
func onAWS(t *testing.T) *target {
	t.Helper()
	stack := aws.Deployed(t)
	entry := "perdure/" + nameOf(stack) + "/" + cloud.Tenant + "/" + secretName
	_, err := secretsmanager.NewFromConfig(stack.Config).CreateSecret(t.Context(), &secretsmanager.CreateSecretInput{Name: new(entry), SecretString: new(secretValue)})
	if _, there := errors.AsType[*types.ResourceExistsException](err); !there {
		require.NoError(t, err)
	}
	return &target{url: stack.API, key: stack.Key, log: &tail{}, stack: stack}
}

// nameOf is what the stack is called, after which its machine is.
func nameOf(stack *aws.Stack) string {
	machine := stack.Outputs["Machine"]
	return strings.TrimSuffix(machine[strings.LastIndex(machine, ":")+1:], "-session")
}

// server is what all those tests share where it is a program.
var server = sync.OnceValues(func() (*target, error) {
	if *deployed {
		return &target{url: strings.TrimRight(os.Getenv(env.URL), "/"), key: os.Getenv(env.Key), log: &tail{}}, nil
	}
	data, err := os.MkdirTemp("", "perdure-e2e-")
	if err != nil {
		return nil, err
	}
	atEnd(func() error { return os.RemoveAll(data) })
	t, p := &target{data: data, log: &tail{}}, &process{}
	atEnd(func() error {
		err := p.end(syscall.SIGTERM)
		if err != nil {
			err = fmt.Errorf("the server ended badly: %w\n%s", err, t.log)
		}
		return err
	})
	return t, p.begin(t)
})

// own starts a server for one test.
func own(t *testing.T, environ ...string) *target {
	t.Helper()
	if *deployed {
		t.Skip("what is deployed is not ours to stop: localstack/faults kills its functions, one by one")
	}
	at, p := &target{data: t.TempDir(), log: &tail{}}, &process{environ: environ}
	at.start = func(tb testing.TB) {
		tb.Helper()
		require.NoError(tb, p.begin(at))
	}
	at.kill = func(tb testing.TB) {
		tb.Helper()
		_ = p.end(syscall.SIGKILL) // how it ends says so
	}
	at.stop = func(tb testing.TB) {
		tb.Helper()
		require.NoError(tb, p.end(syscall.SIGTERM), "%s", at.log)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the server said:\n%s", at.log)
		}
		_ = p.end(syscall.SIGKILL) // it may be gone
	})
	at.start(t)
	return at
}

// process is perdure serve.
type process struct {
	environ []string
	cmd     *exec.Cmd
	done    chan error
}

// begin starts it and waits until it serves.
func (p *process) begin(t *target) error {
	program, err := built()
	if err != nil {
		return err
	}
	p.cmd = exec.Command(program, "serve")
	p.cmd.Env = append([]string{
		"HOME=" + t.data, "PATH=" + os.Getenv("PATH"), env.Addr + "=127.0.0.1:0", env.Data + "=" + t.data, secretName + "=" + secretValue,
	}, p.environ...)
	p.cmd.Stderr = t.log
	tied(p.cmd)
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.done = make(chan error, 1)
	urls := make(chan string, 1)
	go func() {
		first := make([]byte, 4096)
		n, _ := out.Read(first)
		_, rest, _ := strings.Cut(string(first[:n]), "serves sessions on ")
		url, _, _ := strings.Cut(rest, "\n")
		urls <- url
		_, _ = io.Copy(t.log, out)
		p.done <- p.cmd.Wait()
	}()
	select {
	case t.url = <-urls:
	case <-time.After(hang):
	}
	if t.url == "" {
		return errors.New("the server did not start: " + t.log.String())
	}
	t.key, err = local.ReadKey(t.data)
	return err
}

// end ends it and waits until it is gone.
func (p *process) end(sig os.Signal) error {
	if p.done == nil {
		return nil
	}
	_ = p.cmd.Process.Signal(sig) // it may be gone
	select {
	case err := <-p.done:
		p.done = nil
		return err
	case <-time.After(hang):
		return errors.Join(errors.New("the process does not end"), p.cmd.Process.Kill())
	}
}

// built is the program, built once for all tests.
var built = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "perdure-e2e-bin-")
	if err != nil {
		return "", err
	}
	atEnd(func() error { return os.RemoveAll(folder) })
	// go test keeps results while nothing changes that a test is made of or has
	// looked at. What is only linked into the program, it would not know of:
	// the libraries it has by the imports above, the main by this look.
	err = filepath.WalkDir(filepath.Join("..", "cmd", "perdure"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") {
			_, err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	program := filepath.Join(folder, "perdure")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	out, err := exec.Command("go", "build", "-o", program, "../cmd/perdure").CombinedOutput()
	if err != nil {
		return "", errors.New("the program cannot be built: " + err.Error() + "\n" + string(out))
	}
	return program, nil
})

// ends is what is left to do when all tests are over, the last first.
var ends struct {
	mu  sync.Mutex
	all []func() error
}

func atEnd(f func() error) {
	ends.mu.Lock()
	defer ends.mu.Unlock()
	ends.all = append([]func() error{f}, ends.all...)
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	for _, end := range ends.all {
		if err := end(); err != nil {
			fmt.Fprintln(os.Stderr, "e2e:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// tail keeps what a process says.
type tail struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(b)
}

// String is all of it.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}
