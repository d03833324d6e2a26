// Package stub plays what is round a function to its built binary, on this
// machine: the runtime API that Lambda serves, and as much of AWS as a test
// scripts.
//
// It is for tests and benchmarks; nothing in it is deployed. It may import the
// standard library alone.
package stub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// runtimeAPI begins every path of Lambda's runtime API.
const runtimeAPI = "/2018-06-01/runtime/"

// Lambda is one process of a function, and the runtime API that it asks for
// work.
type Lambda struct {
	// Took is the time from the start of the process to its first question for
	// work: its init.
	Took time.Duration

	cmd     *exec.Cmd
	server  *http.Server
	began   time.Time
	log     *log
	queue   chan *invocation
	ready   chan struct{}
	once    sync.Once
	exited  chan struct{}
	exitErr error

	mu      sync.Mutex
	last    int
	pending map[string]*invocation
}

type invocation struct {
	id       string
	event    []byte
	deadline time.Time
	answered chan Answer
}

// Answer is what a function made of an event.
type Answer struct {
	// Failed says that it answered with an error; Body is then its JSON.
	Failed      bool
	ContentType string
	Body        io.ReadCloser
}

// Start starts a function's binary. environ is the whole environment that it
// gets, but for the address of the runtime API.
func Start(ctx context.Context, binary string, environ ...string) (*Lambda, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &Lambda{
		log: &log{}, queue: make(chan *invocation), ready: make(chan struct{}), exited: make(chan struct{}), pending: map[string]*invocation{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+runtimeAPI+"invocation/next", l.next)
	mux.HandleFunc("POST "+runtimeAPI+"invocation/{id}/{how}", l.answer)
	l.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = l.server.Serve(listener) }()
	l.cmd = exec.CommandContext(ctx, binary)
	l.cmd.Env = append([]string{"AWS_LAMBDA_RUNTIME_API=" + listener.Addr().String()}, environ...)
	l.cmd.Stdout, l.cmd.Stderr = l.log, l.log
	l.began = time.Now()
	if err := l.cmd.Start(); err != nil {
		return nil, errors.Join(err, l.server.Close())
	}
	go func() {
		l.exitErr = l.cmd.Wait()
		close(l.exited)
	}()
	return l, nil
}

// Ready waits until the function asks for work.
func (l *Lambda) Ready(ctx context.Context) error {
	select {
	case <-l.ready:
		return nil
	case <-l.exited:
		return fmt.Errorf("the process has ended (%w): %s", l.exitErr, l.Log())
	case <-ctx.Done():
		return fmt.Errorf("%w: %s", ctx.Err(), l.Log())
	}
}

// Invoke hands an event to the function, which may work on it for so long, and
// returns when it begins to answer.
func (l *Lambda) Invoke(ctx context.Context, within time.Duration, event []byte) (Answer, error) {
	l.mu.Lock()
	l.last++
	in := &invocation{id: "req-" + strconv.Itoa(l.last), event: event, deadline: time.Now().Add(within), answered: make(chan Answer, 1)}
	l.pending[in.id] = in
	l.mu.Unlock()
	select {
	case l.queue <- in:
	case <-l.exited:
		return Answer{}, fmt.Errorf("the process has ended (%w): %s", l.exitErr, l.Log())
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	}
	select {
	case a := <-in.answered:
		return a, nil
	case <-l.exited:
		return Answer{}, fmt.Errorf("the process has ended (%w): %s", l.exitErr, l.Log())
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	}
}

// Ask invokes the function and reads its whole answer.
func (l *Lambda) Ask(ctx context.Context, within time.Duration, event []byte) (body []byte, failed bool, err error) {
	a, err := l.Invoke(ctx, within, event)
	if err != nil {
		return nil, false, err
	}
	body, err = io.ReadAll(a.Body)
	return body, a.Failed, errors.Join(err, a.Body.Close())
}

// Log is all that the process has written.
func (l *Lambda) Log() string { return l.log.String() }

// Stop kills the process and waits for its end.
func (l *Lambda) Stop() error {
	_ = l.cmd.Process.Kill() // it may be gone
	<-l.exited
	return l.server.Close()
}

func (l *Lambda) next(w http.ResponseWriter, r *http.Request) {
	l.once.Do(func() {
		l.Took = time.Since(l.began)
		close(l.ready)
	})
	select {
	case in := <-l.queue:
		h := w.Header()
		h.Set("Lambda-Runtime-Aws-Request-Id", in.id)
		h.Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(in.deadline.UnixMilli(), 10))
		h.Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:eu-west-1:111122223333:function:f")
		h.Set("Content-Type", "application/json")
		_, _ = w.Write(in.event)
	case <-r.Context().Done():
	}
}

// answer hands the answer on while it comes in.
func (l *Lambda) answer(w http.ResponseWriter, r *http.Request) {
	id, how := r.PathValue("id"), r.PathValue("how")
	l.mu.Lock()
	in := l.pending[id]
	delete(l.pending, id)
	l.mu.Unlock()
	if in == nil || how != "response" && how != "error" {
		http.Error(w, "no such invocation", http.StatusNotFound)
		return
	}
	from, to := io.Pipe()
	in.answered <- Answer{Failed: how == "error", ContentType: r.Header.Get("Content-Type"), Body: from}
	_, err := io.Copy(to, r.Body)
	_ = to.CloseWithError(err)
	w.WriteHeader(http.StatusAccepted)
}

// log keeps what a process writes.
type log struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String implements fmt.Stringer.
func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
