package memory

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// Activation names one activation of a session's driver.
type Activation struct {
	Key   host.Key
	Inc   string
	Epoch uint64
}

// WakerOptions say what follows from a Waker's calls. The functions are called
// from the call that causes them, after its effect and without a lock: they
// may use the Waker.
type WakerOptions struct {
	// Now judges deadlines. It is required where a deadline is.
	Now func() ident.Instant
	// Started begins to drive the activation.
	Started func(a Activation)
	// Woken continues the driver that parked with the token.
	Woken func(a Activation, token string)
	// Ended stops the driver.
	Ended func(a Activation)
	// Inject is asked before and after every operation, as in a Store.
	Inject Injector
}

// Waker implements host.Waker as a table of activations and tokens. It drives
// nothing itself: who makes it says what a start and a wake do.
//
// It remembers that a name has ended for as long as it lives: a name is three
// words and a number, and a process has some thousands.
type Waker struct {
	opts WakerOptions

	mu          sync.Mutex
	activations map[Activation]*activation
	tokens      map[string]*token
	minted      uint64
}

type activation struct {
	ended  bool
	tokens []string
}

type token struct {
	of       Activation
	deadline ident.Instant
	done     bool
}

// NewWaker makes a Waker with nothing started.
func NewWaker(o WakerOptions) *Waker {
	return &Waker{opts: o, activations: map[Activation]*activation{}, tokens: map[string]*token{}}
}

// Start implements host.Waker.
func (w *Waker) Start(ctx context.Context, key host.Key, inc string, epoch uint64) error {
	a := Activation{key, inc, epoch}
	return w.do(ctx, Op{Name: "waker.start", Key: key}, func() (follow func(), err error) {
		switch x := w.activations[a]; {
		case x == nil:
			w.activations[a] = &activation{}
			return w.call(w.opts.Started, a), nil
		case x.ended:
			return nil, host.ErrEnded
		}
		return nothing, nil
	})
}

// Park makes a token for an activation that waits, good until the deadline (0:
// without limit); the one before is lost. On AWS the machine makes it.
func (w *Waker) Park(ctx context.Context, key host.Key, inc string, epoch uint64, deadline ident.Instant) (minted string, err error) {
	a := Activation{key, inc, epoch}
	err = w.do(ctx, Op{Name: "waker.park", Key: key}, func() (follow func(), err error) {
		x := w.activations[a]
		if x == nil {
			return nil, host.ErrNotFound
		}
		if x.ended {
			return nil, host.ErrEnded
		}
		// A driver waits with one token at a time; the one before is lost,
		// unless it did what it was for.
		x.tokens = slices.DeleteFunc(x.tokens, func(t string) bool {
			done := w.tokens[t].done
			if !done {
				delete(w.tokens, t)
			}
			return !done
		})
		w.minted++
		minted = fmt.Sprintf("wake-%s-%s-%d-%d", key, inc, epoch, w.minted)
		w.tokens[minted] = &token{of: a, deadline: deadline}
		x.tokens = append(x.tokens, minted)
		return nothing, nil
	})
	return minted, err
}

// Complete implements host.Waker.
func (w *Waker) Complete(ctx context.Context, name string) error {
	var now ident.Instant
	ask := func() {
		if w.opts.Now != nil {
			now = w.opts.Now()
		}
	}
	return w.doAfter(ctx, Op{Name: "waker.complete", Key: w.keyOf(name)}, ask, func() (follow func(), err error) {
		t := w.tokens[name]
		switch {
		case t == nil:
			return nil, host.ErrTokenLost
		case t.done:
			return nil, host.ErrTokenDone
		case t.deadline != 0 && now >= t.deadline:
			return nil, host.ErrTokenTimedOut
		}
		t.done = true
		return w.call(func(a Activation) {
			if w.opts.Woken != nil {
				w.opts.Woken(a, name)
			}
		}, t.of), nil
	})
}

func (w *Waker) keyOf(name string) host.Key {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.tokens[name]; t != nil {
		return t.of.Key
	}
	return host.Key{}
}

// Alive implements host.Waker.
func (w *Waker) Alive(ctx context.Context, key host.Key, inc string, epoch uint64) (alive bool, err error) {
	err = w.do(ctx, Op{Name: "waker.alive", Key: key}, func() (follow func(), err error) {
		x := w.activations[Activation{key, inc, epoch}]
		if x == nil {
			return nil, host.ErrNotFound
		}
		alive = !x.ended
		return nothing, nil
	})
	return alive, err
}

// End implements host.Waker.
func (w *Waker) End(ctx context.Context, key host.Key, inc string, epoch uint64) error {
	a := Activation{key, inc, epoch}
	return w.do(ctx, Op{Name: "waker.end", Key: key}, func() (follow func(), err error) {
		x := w.activations[a]
		if x == nil || x.ended {
			return nothing, nil
		}
		for _, t := range x.tokens {
			delete(w.tokens, t)
		}
		x.ended, x.tokens = true, nil
		return w.call(w.opts.Ended, a), nil
	})
}

func (w *Waker) call(then func(a Activation), a Activation) func() {
	if then == nil {
		return nothing
	}
	return func() { then(a) }
}

// nothing is what follows from most calls.
func nothing() {}

func (w *Waker) do(ctx context.Context, op Op, perform func() (follow func(), err error)) error {
	return w.doAfter(ctx, op, nothing, perform)
}

// doAfter calls first before the lock is taken: a simulated clock may be a
// scheduling point.
func (w *Waker) doAfter(ctx context.Context, op Op, first func(), perform func() (follow func(), err error)) error {
	if err := ctx.Err(); err != nil {
		return err //nolint:wrapcheck // the caller compares it with its own
	}
	if w.opts.Inject != nil {
		if err := w.opts.Inject(ctx, op, Before); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err //nolint:wrapcheck // as above
		}
	}
	first()
	follow, err := w.locked(perform)
	if err == nil {
		follow()
	}
	if w.opts.Inject != nil {
		if lost := w.opts.Inject(ctx, op, After); lost != nil {
			return lost
		}
	}
	return err
}

func (w *Waker) locked(perform func() (follow func(), err error)) (follow func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return perform()
}
