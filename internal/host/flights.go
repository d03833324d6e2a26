package host

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
)

// flight is an effect under way that the session's state waits for.
type flight struct {
	claim  session.Claim
	cancel context.CancelFunc
	by     ident.Instant // its deadline, 0 for none
	late   *atomic.Bool  // set when the deadline cut it
	over   *atomic.Bool  // set when its slice is over, which cut it
	end    ident.Instant // when it is given up: it was cut off, and says nothing
}

// start performs an effect. Its claim is durable.
func (d *driver) start(ctx context.Context, eff session.Effect) {
	if d.leaves(eff) {
		return
	}
	p := &performance{e: d.e, key: d.key, s: d.m.State(), offer: d.offer, late: new(atomic.Bool), began: d.e.Now()}
	fctx, cancel := context.WithCancel(ctx)
	claim := eff.Claim()
	if claim.Kind == session.ClaimModel {
		p.rendered, d.rendered = d.rendered, nil
		if d.slice != nil {
			d.slice.turns++
		}
	}
	f := &flight{claim: claim, cancel: cancel, by: p.deadline(eff), late: p.late, over: new(atomic.Bool)}
	if d.stopping {
		f.by = min(f.by, max(d.stopBy.Add(-stopTail), 1))
	}
	d.flights = append(d.flights, f)
	d.e.d.Sched.Go(fctx, claim.String(), func(ctx context.Context) {
		if o := p.perform(ctx, eff); o != nil && (!f.over.Load() || o.answered()) {
			o.claim, o.inc, o.rendered = claim, p.s.Inc, p.rendered
			d.deliver(o)
		}
	})
}

// answered says that an effect came to something. What was cut off with its
// slice did not: whoever has the claim now decides what becomes of it.
func (o *outcome) answered() bool {
	switch c := o.Command.(type) {
	case *session.ModelOutcome:
		return c.Fault == nil && !c.Aborted
	case *session.CompactionOutcome:
		return c.Fault == nil && !c.Aborted
	case *session.ToolOutcome:
		return c.Fault == nil && !c.Aborted && (!c.Lookup || c.Found)
	}
	return false
}

// take accepts an effect's end. One of another incarnation means nothing to
// this one.
func (d *driver) take(o *outcome) {
	d.land(o.claim)
	if o.rendered != nil {
		d.rendered, o.rendered = o.rendered, nil
	}
	if d.head.Rev != 0 && o.inc == d.head.Inc {
		d.pending = append(d.pending, *o)
	}
}

// land forgets an effect that has ended, or that nobody waits for any more.
func (d *driver) land(c session.Claim) {
	i := slices.IndexFunc(d.flights, func(f *flight) bool { return f.claim == c })
	if i >= 0 {
		d.flights[i].cancel()
		d.flights = slices.Delete(d.flights, i, i+1)
	}
}

// abort tells an effect that nobody waits for its whole result. One that state
// has given up no longer holds the task: what it comes to is late.
func (d *driver) abort(c session.Claim, s *session.State) {
	for _, f := range d.flights {
		if f.claim == c {
			f.cancel()
		}
	}
	if !slices.Contains(claimsOf(s), c) {
		d.land(c)
	}
}

func claimsOf(s *session.State) []session.Claim {
	flying := s.InFlight()
	out := make([]session.Claim, len(flying))
	for i, e := range flying {
		out[i] = e.Claim()
	}
	return out
}

// reconcile compares what is under way here with a state that others have moved
// on: what it no longer waits for is stopped, as a step of our own would do.
func (d *driver) reconcile() {
	s := d.m.State()
	flying := claimsOf(&s)
	for _, f := range slices.Clone(d.flights) {
		switch {
		case d.head.Quarantine != nil || d.head.Status == StatusDeleting || !slices.Contains(flying, f.claim):
			d.land(f.claim)
		case f.claim.Kind == session.ClaimModel && s.Active.Ending != nil:
			f.cancel()
		}
	}
}

// tickFlights cuts off what takes too long, and gives up what was cut off and
// does not say how it ended: a port that does not heed its context must not
// hold the session.
func (d *driver) tickFlights(now ident.Instant) {
	for _, f := range slices.Clone(d.flights) {
		switch {
		case f.by != 0 && now >= f.by:
			f.late.Store(true)
			f.by, f.end = 0, now.Add(d.e.o.GraceMs)
			if d.stopping {
				f.end = d.stopBy.Add(-stopTail / 2)
			}
			f.cancel()
		case f.end != 0 && now >= f.end:
			f.end = 0
			if o := d.givenUp(f.claim); o != nil {
				d.land(f.claim)
				d.pending = append(d.pending, *o)
			}
		}
	}
}

// givenUp is what is said of an effect that does not say it itself. At a stop
// nothing is said of a call that must not be done twice: it stays in flight,
// and the next start asks what became of it.
func (d *driver) givenUp(c session.Claim) *outcome {
	s := d.m.State()
	f := &session.FaultInfo{Class: ClassTimeout, Message: "no answer within the time allowed"}
	if d.stopping {
		f = &session.FaultInfo{Class: ClassStopped, Message: "the process is going down"}
		if c.Kind == session.ClaimTool || c.Kind == session.ClaimLookup {
			p := performance{s: s}
			_, def := p.call(ident.CallID{Turn: c.Turn, Index: c.Call})
			if def == nil || !def.RetrySafe || c.Kind == session.ClaimLookup {
				return nil
			}
		}
	}
	return lost(&s, c, f)
}

// lost is the end of an effect that does not tell its end itself.
func lost(s *session.State, c session.Claim, f *session.FaultInfo) *outcome {
	o := &outcome{claim: c, inc: s.Inc}
	switch c.Kind {
	case session.ClaimModel:
		m := &session.ModelOutcome{Turn: c.Turn, Attempt: c.Attempt, Fault: f}
		if r := s.Active; r != nil && r.Turn.ID == c.Turn {
			// It may have been answered, and paid for.
			m.Usage = session.Usage{Input: r.Turn.Estimate, Estimated: true}
		}
		o.Command = m
	case session.ClaimCompact:
		o.Command = &session.CompactionOutcome{Through: c.Through, Attempt: c.Attempt, Fault: f}
	default:
		o.Command = &session.ToolOutcome{
			Call: ident.CallID{Turn: c.Turn, Index: c.Call}, Attempt: c.Attempt, Fault: f, Lookup: c.Kind == session.ClaimLookup,
		}
	}
	return o
}

// stopTail is what is left for the last commits after running tools were cut.
const stopTail = ident.Second

// beginStop aborts model calls, whose end is recorded as stopped, and gives
// tools a while: one that does not end in time is found in flight at the next
// start.
func (d *driver) beginStop() {
	d.stopping = true
	now := d.e.Now()
	grace := now.Add(d.e.o.GraceMs)
	d.stopBy = grace.Add(stopTail)
	for _, f := range d.flights {
		if k := f.claim.Kind; k == session.ClaimModel || k == session.ClaimCompact {
			f.by, f.end = 0, grace
			f.cancel()
		} else if f.by == 0 || f.by > grace {
			f.by = grace
		}
	}
}
