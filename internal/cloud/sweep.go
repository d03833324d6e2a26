package cloud

import (
	"context"
	"time"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/env"
)

const (
	// stuckAfter is how long something may be owed before it counts as stuck:
	// longer than the rounds of the sweep take to see to it.
	stuckAfter = 2 * ident.Minute
	// stuckMost bounds what is counted: beyond it one more says nothing new.
	stuckMost = 1000
	// countWithin is what is left of the time to count, however much there was to
	// do: the number is what the alarm looks at.
	countWithin = 10 * time.Second
)

// Sweep looks after every session whose driver is overdue, and says how many are
// so for too long. What event it was woken by does not matter: what there is to
// do is in the table.
func (f *Function) Sweep(ctx context.Context, request string, _ []byte) error {
	return f.invoke(ctx, request, func(ctx context.Context, p *parts) error {
		within, cancel := reserve(ctx, countWithin)
		defer cancel()
		found, err := p.engine.SweepOwed(within)
		f.log.InfoContext(ctx, "swept", "found", found.Found, "deleted", found.Deleted, "lost", found.Lost, "failed", found.Failed)
		stuck, errCount := p.ports.Log.Due(ctx, p.sched.Now().Add(-stuckAfter), stuckMost)
		if errCount == nil {
			f.metrics.count(env.MetricOverdue, len(stuck))
		}
		if err == nil {
			err = errCount
		}
		return err
	})
}
