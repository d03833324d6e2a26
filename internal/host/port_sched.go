package host

import (
	"context"
	"errors"

	"github.com/perdure/perdure/core/ident"
)

// Sched is all the concurrency, waiting and time there is in this package.
// Production maps it to goroutines; the simulator runs one task at a time and
// picks the next by its seed at every call of a port.
type Sched interface {
	// Now is the time. It may go back; the host sees to it that what is
	// written does not.
	Now() ident.Instant
	// Go starts a task. The name says what it is, for traces. ctx is handed to
	// it; the task ends by returning.
	Go(ctx context.Context, name string, task func(ctx context.Context))
	// Sleep waits ms milliseconds or until ctx is done (then ctx.Err()).
	Sleep(ctx context.Context, ms int64) error
	// NewSignal makes a signal that has not fired.
	NewSignal() Signal
	// WaitAny returns the index of a fired signal, waiting for one. With
	// timeoutMs ≥ 0 it returns -1, nil when that passes first; with a done ctx
	// it returns -1, ctx.Err(). A negative timeout waits without limit.
	WaitAny(ctx context.Context, timeoutMs int64, signals ...Signal) (int, error)
	// Entropy returns n random bytes, for ids and jitter.
	Entropy(n int) []byte
}

// Signal fires once. Firing again does nothing.
type Signal interface {
	Fire()
	Fired() bool
}

// Waker starts activations of a driver that runs elsewhere, and wakes parked
// ones by token: on AWS a state machine engine. The driver of one process needs
// none.
type Waker interface {
	// Start begins an activation named by incarnation and epoch. Starting the
	// same name again while it is open is harmless; a name that has ended
	// returns ErrEnded: the caller takes the next epoch.
	Start(ctx context.Context, key Key, inc string, epoch uint64) error
	// Complete wakes the holder of a token, which is what an activation that
	// waits is known by: once. ErrTokenDone if it was
	// completed before, ErrTokenTimedOut past its deadline, ErrTokenLost if it
	// is not known.
	Complete(ctx context.Context, token string) error
	// Alive says whether the activation runs; ErrNotFound if it never started.
	Alive(ctx context.Context, key Key, inc string, epoch uint64) (bool, error)
	// End stops an activation; its token is lost.
	End(ctx context.Context, key Key, inc string, epoch uint64) error
}

// Errors of a Waker.
var (
	// ErrEnded: an activation of this name has run and ended.
	ErrEnded = errors.New("activation has ended")
	// ErrTokenDone: the token was completed before.
	ErrTokenDone = errors.New("token is completed")
	// ErrTokenTimedOut: nobody completed the token in time.
	ErrTokenTimedOut = errors.New("token has timed out")
	// ErrTokenLost: no such token, or its activation has ended.
	ErrTokenLost = errors.New("token is lost")
)
