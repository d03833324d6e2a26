package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
)

// failuresMax is how many drivers may be lost over a session, with no result
// between, until it is frozen. A call that its process did not outlive ends its
// run before that (session.InterruptsMax): what is left is a session that takes
// the process down each time it is only looked at.
const failuresMax = session.InterruptsMax + 2

// claim takes the work over from a driver that was lost, before anything else
// is done: so that it is counted how often that happens, also when this very
// look is what the process does not outlive.
func (d *driver) claim(ctx context.Context) error {
	if !d.mayDrive() || d.head.Drive.Status != DriveRunning {
		return nil
	}
	head := d.head
	if head.Failures++; head.Failures >= failuresMax {
		d.quarantine(ctx, &session.Divergence{
			Seq: head.Seq, Code: "failures", Detail: fmt.Sprintf("%d drivers were lost over this session, with no result between", head.Failures),
		})
		return d.broken
	}
	head.Drive = Drive{Epoch: head.Drive.Epoch + 1, Step: 1, Attempt: 1, Status: DriveRunning}
	head.DueAt = d.e.Now().Add(runningDueMs)
	err := d.writeHead(ctx, head, nil)
	switch {
	case err == nil:
		d.claimed = true
	case errors.Is(err, ErrFull):
		// It can be read all the same; the first commit claims it.
		return nil
	}
	return err
}

// mayDrive says that the session is one that is driven, here.
func (d *driver) mayDrive() bool {
	return d.drives() && d.head.Rev != 0 && d.head.Quarantine == nil && d.head.Status == StatusOpen
}

// takeOver begins the work on a session that was just loaded: what a task kept
// that broke down, and what a driver that is gone had in flight.
func (d *driver) takeOver(ctx context.Context) {
	if v, ok := d.e.kept.LoadAndDelete(d.key); ok {
		kept, _ := v.([]outcome)
		for i := range kept {
			d.take(&kept[i])
		}
	}
	d.rest = slices.DeleteFunc(d.rest, func(m message) bool {
		if m.outcome != nil {
			d.take(m.outcome)
		}
		return m.outcome != nil
	})
	if d.broken == nil && d.mayDrive() && d.head.Drive.Status != DriveIdle {
		d.woken = true
		d.resume(ctx)
	}
}

// resume sees to what state says is in flight and nobody performs. What is
// known of how it ended is taken instead of doing it again.
func (d *driver) resume(ctx context.Context) {
	if !d.mayDrive() {
		return
	}
	s := d.m.State()
	for _, c := range claimsOf(&s) {
		d.woken = true
		if slices.ContainsFunc(d.pending, func(o outcome) bool { return o.claim == c }) {
			continue
		}
		if o := d.unstashed(ctx, c); o != nil {
			d.pending = append(d.pending, *o)
			continue
		}
		if o := d.unbegun(ctx, &s, c); o != nil {
			d.pending = append(d.pending, *o)
			continue
		}
		d.owes = true
	}
}

// stashed is a model's answer on its way to a commit that did not go through.
// What is long in it stands in the blob store already: a document has a bound.
type stashed struct {
	Outcome *session.ModelOutcome      `json:"outcome,omitempty"`
	Summary *session.CompactionOutcome `json:"summary,omitempty"`
}

// stash keeps models' answers whose commit did not go through at the first try,
// so that a crash before the next one does not cost a generation (I11).
func (d *driver) stash(ctx context.Context) {
	for i := range d.pending {
		o := &d.pending[i]
		if o.kept {
			continue
		}
		var st stashed
		switch c := o.Command.(type) {
		case *session.ModelOutcome:
			if c.Fault != nil || c.Aborted {
				continue
			}
			st.Outcome = c
		case *session.CompactionOutcome:
			if c.Fault != nil || c.Aborted {
				continue
			}
			st.Summary = c
		default:
			continue
		}
		data, err := json.Marshal(st) //nolint:musttag // the fields are the core's, and both ends are this file
		for _, b := range o.Blobs {
			if err == nil {
				err = d.e.d.Blobs.PutBlob(ctx, d.key, b)
			}
		}
		if err == nil {
			_, err = d.e.d.Stash.PutStash(ctx, d.key, stashName(o.inc, o.claim), data, d.e.Now().Add(ident.Day), false)
		}
		if o.kept = err == nil; !o.kept {
			d.tell("stash", err)
		}
	}
}

// unstash forgets what is committed now.
func (d *driver) unstash(ctx context.Context, outs []outcome) {
	for _, o := range outs {
		if !o.kept {
			continue
		}
		// One that stays is forgotten in a day, and never taken: its claim is
		// no longer in flight.
		if err := d.e.d.Stash.DropStash(ctx, d.key, stashName(o.inc, o.claim)); err != nil {
			d.e.d.Report(d.key, "stash", err)
		}
	}
}

func stashName(inc string, c session.Claim) string {
	return "outcome/" + inc + "/" + c.String()
}

// unstashed finds what a driver that is gone had stashed.
func (d *driver) unstashed(ctx context.Context, claim session.Claim) *outcome {
	if claim.Kind != session.ClaimModel && claim.Kind != session.ClaimCompact {
		return nil
	}
	var data []byte
	var err error
	for i := range 3 {
		data, err = d.e.d.Stash.GetStash(ctx, d.key, stashName(d.head.Inc, claim), d.e.Now())
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		// What it holds is paid for: worth another look.
		if err == nil || d.e.d.Sched.Sleep(ctx, int64(20)<<i) != nil {
			break
		}
	}
	var st stashed
	if err == nil {
		err = json.Unmarshal(data, &st) //nolint:musttag // as above
	}
	o := &outcome{claim: claim, inc: d.head.Inc, kept: true}
	switch {
	case err == nil && st.Outcome != nil:
		o.Command = st.Outcome
	case err == nil && st.Summary != nil:
		o.Command = st.Summary
	default:
		d.e.d.Report(d.key, "stash", fmt.Errorf("the answer of %s is not used: %w", claim, err))
		return nil
	}
	return o
}
