package host

import (
	"context"
	"sync/atomic"
)

// mailbox is how the outside hands messages to the one task that owns a
// session. It needs no lock: senders push onto a list by compare-and-swap and
// fire the signal that the owner last put up.
type mailbox[T any] struct {
	head   atomic.Pointer[letter[T]]
	closed letter[T] // its address marks a mailbox that takes no more
	signal atomic.Value
	sched  Sched
}

type letter[T any] struct {
	body T
	next *letter[T]
}

type signalBox struct{ Signal }

func newMailbox[T any](sched Sched) *mailbox[T] {
	m := &mailbox[T]{sched: sched}
	m.signal.Store(signalBox{sched.NewSignal()})
	return m
}

// put hands a message over; false means that the owner has gone, and the
// sender must look for the next one.
func (m *mailbox[T]) put(body T) bool {
	l := &letter[T]{body: body}
	for {
		h := m.head.Load()
		if h == &m.closed {
			return false
		}
		l.next = h
		if m.head.CompareAndSwap(h, l) {
			break
		}
	}
	box, _ := m.signal.Load().(signalBox)
	box.Fire()
	return true
}

// take empties the mailbox, oldest first. Only the owner calls it.
func (m *mailbox[T]) take() []T {
	l := m.head.Swap(nil)
	var out []T
	for ; l != nil; l = l.next {
		out = append(out, l.body)
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}

// wait returns when there is a message, after timeoutMs (negative: never), or
// with an error when ctx is done.
func (m *mailbox[T]) wait(ctx context.Context, timeoutMs int64) error {
	sig := m.sched.NewSignal()
	// The signal goes up before the look: a sender that comes in between has
	// either been seen or fires it.
	m.signal.Store(signalBox{sig})
	if m.head.Load() != nil {
		return nil
	}
	_, err := m.sched.WaitAny(ctx, timeoutMs, sig)
	return err
}

// close ends the mailbox if it is empty.
func (m *mailbox[T]) close() bool { return m.head.CompareAndSwap(nil, &m.closed) }
