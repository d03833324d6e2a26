package host

import (
	"context"
	"errors"
)

var errNotBuilt = errors.New("not built")

// Drive does one slice of an activation's work and says what follows. An error
// means that the step is lost: whoever asked recovers.
func (e *Engine) Drive(_ context.Context, _ Step) (Next, error) { return Next{}, errNotBuilt }

// Park registers the token of an activation that waits, if nothing has come
// since its driver planned to. If something has, or the session is gone, it
// completes the token, so that the driver looks again.
func (e *Engine) Park(_ context.Context, _ Key, _ string, _ uint64, _ Wait, _ string) (parked bool, err error) {
	return false, errNotBuilt
}

// RunCall runs one call that a slice left to a process of its own, and commits
// what it came to. An error is of this process, never of the tool: what became
// of the call the next step finds out.
func (e *Engine) RunCall(_ context.Context, _ Step, _ CallRef) error { return errNotBuilt }

// SweepOwed looks after every session whose driver is overdue: it starts and
// wakes again what was lost, and goes on with deletions. It says how many it
// found.
func (e *Engine) SweepOwed(_ context.Context) (found int, err error) { return 0, errNotBuilt }
