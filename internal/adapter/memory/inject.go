package memory

import (
	"context"
	"errors"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// When says on which side of an operation an Injector is asked.
type When int

// The two sides.
const (
	// Before: nothing is done yet; an error keeps it so.
	Before When = iota
	// After: it is done, whatever is answered; an error loses the response.
	After
)

// Op is one operation: its port and verb, the session it is about, and the
// commit if it is one.
type Op struct {
	Name   string
	Key    host.Key
	Commit *host.Commit

	timed bool // it asks what time it is
}

// Injector makes faults. It is called before and after each operation; an
// error before means that nothing is done, one after that it was done and the
// answer is lost. host.ErrFull and errors of its own go through as they are;
// ErrInjectConflict becomes a *host.Conflict with the stored head. It may take
// its time: it is no part of the operation and runs without a lock.
type Injector func(ctx context.Context, op Op, when When) error

// ErrInjectConflict makes the commit before which an Injector returns it one
// that lost a race against nobody.
var ErrInjectConflict = errors.New("injected conflict")

// do performs one operation. The context is looked at first, and again after
// the injector has taken its time: a call that was cancelled does nothing.
func (s *Store) do(ctx context.Context, op Op, perform func() error) error {
	return s.doAt(ctx, op, func(ident.Instant) error { return perform() })
}

// doAt is do with the time, which is asked before the lock is taken: a
// simulated clock may be a scheduling point.
func (s *Store) doAt(ctx context.Context, op Op, perform func(now ident.Instant) error) error {
	if err := ctx.Err(); err != nil {
		return err //nolint:wrapcheck // the caller compares it with its own
	}
	if s.inject != nil {
		if err := s.inject(ctx, op, Before); err != nil {
			return s.injected(op, err)
		}
		if err := ctx.Err(); err != nil {
			return err //nolint:wrapcheck // as above
		}
	}
	var now ident.Instant
	if op.timed && s.now != nil {
		now = s.now()
	}
	err := s.locked(func() error { return perform(now) })
	if s.inject != nil {
		if lost := s.inject(ctx, op, After); lost != nil {
			return lost
		}
	}
	return err
}

func (s *Store) locked(perform func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Ops++
	return perform()
}

func (s *Store) injected(op Op, err error) error {
	if !errors.Is(err, ErrInjectConflict) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	conflict := &host.Conflict{}
	if x := s.sessions[op.Key]; x != nil {
		conflict.Head = copyHead(x.head)
	}
	return conflict
}
