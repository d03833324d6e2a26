// Package accepted goes through its port and breaks no rule.
package accepted

import (
	"context"
	"sync/atomic"
	"time"
)

type sched interface {
	Go(func(context.Context))
	Now() time.Time
	Sleep(context.Context, time.Duration) error
}

type host struct {
	sched sched
	runs  atomic.Int64
}

func (h *host) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	h.sched.Go(func(context.Context) { h.runs.Add(1) })

	// A variable called like the package is not the package.
	time := h.sched
	_ = time.Now()

	return time.Sleep(ctx, 5)
}
