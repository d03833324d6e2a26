package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/adapter/sfn"
	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/host"
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
// so for too long. An event that says that an execution has ended badly makes it
// begin with that one, at once: its session is not overdue yet.
func (f *Function) Sweep(ctx context.Context, request string, event []byte) error {
	return f.invoke(ctx, request, func(ctx context.Context, p *parts) error {
		within, cancel := reserve(ctx, countWithin)
		defer cancel()
		errLost := f.lost(within, p, event)
		found, err := p.engine.SweepOwed(within)
		f.log.InfoContext(ctx, "swept", "found", found.Found, "deleted", found.Deleted, "lost", found.Lost, "failed", found.Failed)
		stuck, errCount := p.ports.Log.Due(ctx, p.sched.Now().Add(-stuckAfter), stuckMost)
		if errCount == nil {
			f.metrics.count(env.MetricOverdue, len(stuck))
		}
		return errors.Join(errLost, err, errCount)
	})
}

// statusChange is what EventBridge says of an execution.
type statusChange struct {
	DetailType string `json:"detail-type"` //nolint:tagliatelle // AWS's name
	Detail     struct {
		Status string `json:"status"`
		Input  string `json:"input"` // as the execution was started with
	} `json:"detail"`
}

// executionChanged is the detail-type of such an event.
const executionChanged = "Step Functions Execution Status Change"

// lost gives the activation up whose execution an event says has ended badly. An
// event of long ago does nothing: its session is with another activation. What
// the event says is not trusted further than that, and one that cannot be read is
// none: what there is to do is in the table.
func (f *Function) lost(ctx context.Context, p *parts, event []byte) error {
	var e statusChange
	if json.Unmarshal(event, &e) != nil || e.DetailType != executionChanged || e.Detail.Status == "RUNNING" || e.Detail.Status == "SUCCEEDED" {
		return nil //nolint:nilerr // it may be a newer build's, and its session is found when it is overdue
	}
	data, err := sfn.Decode([]byte(e.Detail.Input))
	if err != nil {
		f.log.WarnContext(ctx, "an execution ended badly, and what it was for cannot be read", "error", err)
		return nil
	}
	key := host.Key{Tenant: ident.TenantID(data.Tenant), Session: ident.SessionID(data.Session)}
	f.log.WarnContext(ctx, "an execution ended badly", "status", e.Detail.Status, "tenant", data.Tenant, "session", data.Session, "epoch", data.Epoch)
	_, err = p.engine.Drive(ctx, host.Step{Key: key, Inc: data.Inc, Epoch: data.Epoch, Number: data.Step, Recover: true})
	return err
}
