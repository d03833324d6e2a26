package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	sqlite3 "github.com/ncruces/go-sqlite3"
)

// Bounds of one transaction. Beyond them the rest waits for the next.
const (
	groupMax      = 512
	groupBytesMax = 8 << 20
)

// request is one write that waits for its turn.
type request struct {
	// apply checks first and writes then: what it refuses it refuses before it
	// has changed anything. It may be run again after a rollback, and starts
	// from nothing each time.
	apply func(c *conn) error
	size  int64
	state atomic.Int32
	done  chan struct{}
	err   error // set before done is closed
}

// States of a request: who moves it out of waiting decides.
const (
	waiting int32 = iota
	taken
	abandoned
)

// writer owns the one connection that writes. There is no goroutine behind
// it: of those that wait, one leads, and takes all the others along in its
// transaction. So a lone write is never handed over, and many share a sync.
type writer struct {
	lead chan struct{} // holds one token while somebody leads
	conn *conn         // belongs to who leads

	mu     sync.Mutex
	queue  []*request
	closed bool

	transactions atomic.Int64
}

func newWriter(c *conn) *writer { return &writer{lead: make(chan struct{}, 1), conn: c} }

// do performs one write and returns when it is durable, or when it is certain
// that it is not. A context that ends while the write still waits takes it
// back; one that ends later is too late, and the answer is waited for.
func (w *writer) do(ctx context.Context, size int64, apply func(c *conn) error) error {
	if err := ctx.Err(); err != nil {
		return err //nolint:wrapcheck // the caller compares it with its own
	}
	r := &request{apply: apply, size: size, done: make(chan struct{})}
	if err := w.enqueue(r); err != nil {
		return err
	}
	cancelled := ctx.Done()
	for {
		select {
		case <-r.done:
			return r.err
		case w.lead <- struct{}{}:
			w.takeTurn(r)
		case <-cancelled:
			if r.state.CompareAndSwap(waiting, abandoned) {
				return ctx.Err() //nolint:wrapcheck // as above
			}
			cancelled = nil
		}
	}
}

func (w *writer) enqueue(r *request) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return ErrClosed
	}
	w.queue = append(w.queue, r)
	return nil
}

// takeTurn leads one group, unless the request was served in the meantime:
// then whoever still waits leads.
func (w *writer) takeTurn(r *request) {
	defer func() { <-w.lead }()
	select {
	case <-r.done:
	default:
		w.group(w.take())
	}
}

// take removes the next group from the queue, in order.
func (w *writer) take() []*request {
	w.mu.Lock()
	defer w.mu.Unlock()
	var group []*request
	var size int64
	for len(w.queue) > 0 && len(group) < groupMax {
		r := w.queue[0]
		if len(group) > 0 && size+r.size > groupBytesMax {
			break
		}
		w.queue[0], w.queue = nil, w.queue[1:]
		if r.state.CompareAndSwap(waiting, taken) {
			group = append(group, r)
			size += r.size
		}
	}
	return group
}

// group writes all requests in one transaction and answers each. A fault of
// the database says nothing of whose fault it is and may have undone them all:
// then each has a transaction of its own, so that one that does not fit
// touches no other.
func (w *writer) group(group []*request) {
	errs, err := w.transaction(group)
	if err != nil && len(group) > 1 {
		for i := range group {
			one, err := w.transaction(group[i : i+1])
			if errs[i] = err; err == nil {
				errs[i] = one[0]
			}
		}
		err = nil
	}
	for i, r := range group {
		if r.err = errs[i]; err != nil {
			r.err = err
		}
		close(r.done)
	}
}

// transaction applies the requests and commits. The error for all is of the
// database; the others are refusals, each of one request that wrote nothing.
// Refusals too are answered after the commit only: they may rest on what
// another request of the group wrote.
func (w *writer) transaction(group []*request) (errs []error, err error) {
	errs = make([]error, len(group))
	if len(group) == 0 {
		return errs, nil
	}
	if err := errors.Join(w.rollback(), w.conn.exec("BEGIN IMMEDIATE")); err != nil {
		return errs, err
	}
	before := w.conn.db.TotalChanges()
	for i, r := range group {
		start := w.conn.db.TotalChanges()
		errs[i] = r.apply(w.conn)
		if errs[i] != nil && (isFault(errs[i]) || w.conn.db.TotalChanges() != start) {
			return errs, errors.Join(errs[i], w.rollback())
		}
	}
	wrote := w.conn.db.TotalChanges() != before
	if err := w.conn.exec("COMMIT"); err != nil {
		return errs, errors.Join(err, w.rollback())
	}
	if wrote {
		w.transactions.Add(1)
	}
	return errs, nil
}

// isFault tells an error of the database from a refusal.
func isFault(err error) bool {
	var code sqlite3.ErrorCode
	return errors.As(err, &code)
}

// rollback undoes what the database has not undone by itself, as it does
// after some faults.
func (w *writer) rollback() error {
	if w.conn.db.GetAutocommit() {
		return nil
	}
	if err := w.conn.exec("ROLLBACK"); err != nil {
		return fmt.Errorf("roll back: %w", err)
	}
	return nil
}

// exclusive runs with the writing connection, outside a transaction.
func (w *writer) exclusive(run func(c *conn) error) error {
	w.lead <- struct{}{}
	defer func() { <-w.lead }()
	w.mu.Lock()
	closed := w.closed
	w.mu.Unlock()
	if closed {
		return ErrClosed
	}
	return run(w.conn)
}

// close waits for who leads, serves what still waits, and closes.
func (w *writer) close() error {
	w.mu.Lock()
	closed := w.closed
	w.closed = true
	w.mu.Unlock()
	w.lead <- struct{}{}
	defer func() { <-w.lead }()
	if closed {
		return nil
	}
	for group := w.take(); len(group) > 0; group = w.take() {
		w.group(group)
	}
	if err := w.conn.close(); err != nil {
		return fmt.Errorf("close the database: %w", err)
	}
	return nil
}
