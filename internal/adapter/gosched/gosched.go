// Package gosched is host.Sched over goroutines: what production runs on.
//
// It bounds nothing and orders nothing: the Go runtime does. It may import the
// standard library, core/ident and internal/host.
package gosched

import (
	"context"
	"crypto/rand"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// Sched implements host.Sched.
type Sched struct {
	mu    sync.Mutex
	tasks int
	idle  chan struct{} // closed when tasks falls to 0; made by who waits
}

// New makes a Sched without tasks.
func New() *Sched { return &Sched{} }

// Now implements host.Sched.
func (s *Sched) Now() ident.Instant { return ident.Instant(time.Now().UnixMilli()) }

// Go implements host.Sched.
func (s *Sched) Go(ctx context.Context, _ string, task func(ctx context.Context)) {
	s.mu.Lock()
	s.tasks++
	s.mu.Unlock()
	go func() {
		defer s.ended()
		task(ctx)
	}()
}

func (s *Sched) ended() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tasks--; s.tasks == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// Wait returns when no task is left, those that tasks start included, or when
// ctx is done. It stops nobody: cancel what was handed to Go first.
func (s *Sched) Wait(ctx context.Context) error {
	s.mu.Lock()
	if s.tasks == 0 {
		s.mu.Unlock()
		return nil
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	s.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for tasks: %w", ctx.Err())
	}
}

// Sleep implements host.Sched.
func (s *Sched) Sleep(ctx context.Context, ms int64) error {
	if err := ctx.Err(); err != nil || ms <= 0 {
		return err //nolint:wrapcheck // the port says ctx.Err()
	}
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // the port says ctx.Err()
	}
}

// signal is a channel that Fire closes.
type signal struct {
	once sync.Once
	done chan struct{}
}

// NewSignal implements host.Sched.
func (s *Sched) NewSignal() host.Signal { return &signal{done: make(chan struct{})} }

// Fire implements host.Signal.
func (g *signal) Fire() { g.once.Do(func() { close(g.done) }) }

// Fired implements host.Signal.
func (g *signal) Fired() bool {
	select {
	case <-g.done:
		return true
	default:
		return false
	}
}

// WaitAny implements host.Sched. A signal that has fired wins over a passed
// timeout and a done ctx, and the first of several over the others. It takes
// signals of this package only; it waits on their channels from the caller's
// goroutine, so nothing is left behind when it returns.
func (s *Sched) WaitAny(ctx context.Context, timeoutMs int64, signals ...host.Signal) (int, error) {
	if i := fired(signals); i >= 0 || timeoutMs == 0 || ctx.Err() != nil {
		return settle(ctx, i)
	}
	var timeout <-chan time.Time
	if timeoutMs > 0 {
		timer := time.NewTimer(time.Duration(timeoutMs) * time.Millisecond)
		defer timer.Stop()
		timeout = timer.C
	}
	var done [3]chan struct{} // nil: never
	if len(signals) > len(done) {
		if err := selectMany(ctx, timeout, signals); err != nil {
			return -1, err
		}
		return settle(ctx, fired(signals))
	}
	for i, g := range signals {
		own, err := channel(g)
		if err != nil {
			return -1, err
		}
		done[i] = own
	}
	select {
	case <-done[0]:
	case <-done[1]:
	case <-done[2]:
	case <-timeout:
	case <-ctx.Done():
	}
	return settle(ctx, fired(signals))
}

func settle(ctx context.Context, i int) (int, error) {
	if i >= 0 {
		return i, nil
	}
	return -1, ctx.Err() //nolint:wrapcheck // the port says ctx.Err()
}

func fired(signals []host.Signal) int {
	for i, g := range signals {
		if g.Fired() {
			return i
		}
	}
	return -1
}

func channel(g host.Signal) (chan struct{}, error) {
	own, ok := g.(*signal)
	if !ok {
		return nil, fmt.Errorf("wait for a signal of type %T, which is not of this scheduler", g)
	}
	return own.done, nil
}

// selectMany waits for more signals than a written select has cases for.
func selectMany(ctx context.Context, timeout <-chan time.Time, signals []host.Signal) error {
	cases := make([]reflect.SelectCase, 0, len(signals)+2)
	receive := func(from any) {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(from)})
	}
	receive(ctx.Done())
	receive(timeout)
	for _, g := range signals {
		own, err := channel(g)
		if err != nil {
			return err
		}
		receive(own)
	}
	reflect.Select(cases)
	return nil
}

// Entropy implements host.Sched, from the system's generator.
func (s *Sched) Entropy(n int) []byte {
	b := make([]byte, max(n, 0))
	// It never returns an error: where the system has no randomness the
	// process is stopped by the library, which is the only safe answer.
	_, _ = rand.Read(b)
	return b
}
