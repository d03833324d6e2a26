// Package rejected starts and waits by itself: each marked line is one finding.
package rejected

import (
	"context"
	"math/rand" // want import
	"sync"
	. "time" // want import
	clock "time"
)

type host struct {
	mu    sync.Mutex      // want name
	table sync.RWMutex    // want name
	done  chan int        // want channel
	group *sync.WaitGroup // want name
}

func (h *host) run(ctx context.Context) {
	go h.wait(ctx) // want goroutine

	now := clock.Now // want name
	_ = now()

	ctx, cancel := context.WithTimeout(ctx, Second) // want name
	defer cancel()

	_, _ = context.WithDeadlineCause(ctx, clock.Time{}, nil) // want name

	clock.AfterFunc(1, func() { // want name
		h.done <- rand.Int() // want channel
	})
}

func (h *host) wait(ctx context.Context) {
	<-ctx.Done() // want channel

	select { // want channel
	case <-h.done: // want channel
	case <-clock.After(clock.Second): // want channel name
	}

	clock.Sleep(1)            // want name
	clock.NewTimer(1)         // want name
	clock.Tick(1)             // want name
	clock.Since(clock.Time{}) // want name
}
