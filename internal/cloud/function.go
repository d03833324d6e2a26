package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/sfn"
	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/host"
)

// Config of a Function.
type Config struct {
	// Role is what it does: one of env.FunctionNames.
	Role string
	// Lookup finds variables.
	Lookup env.Lookup
	// Connect makes the adapters.
	Connect Connect
	// Out gets the log: JSON, a line each.
	Out io.Writer
	// Version is what the API says of itself.
	Version string
}

// openWithin is what getting ready may take: less than Lambda gives a process to
// come up, so that it ends with a line that says what is wrong.
const openWithin = 8 * time.Second

// Function is one function of the stack. A process has one, and one invocation
// at a time. What it works with is opened once; if that fails, the log says why
// and each later invocation tries again, so that nothing has to be restarted
// when an operator has put it right.
type Function struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	// life is the life of the engine's tasks: that of the process.
	life context.Context //nolint:containedctx // see above
	// request is the id of the invocation in hand.
	request atomic.Pointer[string]

	mu   sync.Mutex
	open *parts
}

// New makes a Function. ctx is the life of the process.
func New(ctx context.Context, cfg Config) *Function {
	f := &Function{cfg: cfg, life: ctx}
	name, _ := cfg.Lookup(env.AWSFunction)
	out := &lines{to: cfg.Out}
	f.log = slog.New(advising{tagging{slog.NewJSONHandler(out, nil), &f.request}}).With("function", name)
	f.metrics = newMetrics(out, name)
	return f
}

// Warm gets ready before the first invocation comes. That it fails is logged,
// and tried again then.
func (f *Function) Warm(ctx context.Context) { _, _ = f.parts(ctx) }

// parts returns what the function works with, and opens it if need be.
func (f *Function) parts(ctx context.Context) (*parts, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open != nil {
		return f.open, nil
	}
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	p, err := f.assemble(ctx)
	if err != nil {
		f.log.ErrorContext(ctx, "this function is not set up: it answers that it is unavailable, and looks again at its next invocation", "error", err)
		return nil, fmt.Errorf("not set up: %w", err)
	}
	f.open = p
	return p, nil
}

// drop lets go of what the function works with: after a panic nobody knows what
// state it is in. The next invocation opens it anew.
func (f *Function) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open = nil
}

// InvocationError is how an invocation fails: its text, which others keep (a state
// machine's history, a queue's records), is a code and the id of the invocation
// whose log says the rest.
type InvocationError struct {
	Code    string
	Request string
	err     error
}

func (e *InvocationError) Error() string {
	return e.Code + ": the log of request " + e.Request + " says why"
}

// Unwrap returns the cause.
func (e *InvocationError) Unwrap() error { return e.err }

// Codes of an InvocationError.
const (
	FailedUnavailable = "unavailable"
	FailedNewer       = "newer_version"
	FailedEvent       = "bad_event"
	FailedInternal    = "internal"
)

func failureCode(err error) string {
	switch {
	case errors.Is(err, session.ErrNewer):
		return FailedNewer
	case errors.Is(err, sfn.ErrData):
		return FailedEvent
	case errors.Is(err, errPanic):
		return FailedInternal
	}
	return FailedUnavailable
}

var errPanic = errors.New("panic")

// answerWithin is what is left of an invocation's time when its work is given
// up: so that whoever asked hears of it, and the log says what it waited for.
const answerWithin = time.Second

// invoke does the work of one invocation: it opens what is needed, and turns
// whatever goes wrong into a line of the log and an InvocationError.
func (f *Function) invoke(ctx context.Context, request string, work func(ctx context.Context, p *parts) error) (err error) {
	f.request.Store(&request)
	ctx, cancel := reserve(ctx, answerWithin)
	defer cancel()
	defer func() {
		if err == nil {
			return
		}
		code := failureCode(err)
		f.log.ErrorContext(ctx, "the invocation failed", "code", code, "error", err)
		err = &InvocationError{Code: code, Request: request, err: err}
	}()
	p, err := f.parts(ctx)
	if err != nil {
		return err
	}
	p.settings.Forget()
	return f.caught(ctx, func() error { return work(ctx, p) })
}

// caught turns a panic into an error. The value may be anybody's text, so the log
// gets only what the runtime says itself, and where it was.
func (f *Function) caught(ctx context.Context, work func() error) (err error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		f.panicked(ctx, "an invocation panicked", v, debug.Stack())
		f.drop()
		err = errPanic
	}()
	return work()
}

func (f *Function) panicked(ctx context.Context, what string, v any, stack []byte, more ...any) {
	f.log.ErrorContext(ctx, what, append(more, "panic", host.PanicText(v), "stack", string(stack))...)
}

// report is host.Deps.Report.
func (f *Function) report(then func(host.Key, string, error)) func(host.Key, string, error) {
	return func(key host.Key, what string, err error) {
		then(key, what, err)
		if what == reportQuarantine {
			f.metrics.count(env.MetricQuarantined, 1)
		}
	}
}

// reportQuarantine is what the engine calls it when it freezes a session.
const reportQuarantine = "quarantine"
