package host

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
)

// callWatchMs is between two looks at the head while a call runs elsewhere.
const callWatchMs = 500

// tellMost bounds the pause between two tries to commit what a call came to.
const tellMost = 5 * ident.Second

// RunCall runs one call that a slice left to a process of its own, and commits
// what it came to. An error is of this process, never of the tool: what became
// of the call the next step finds out.
func (e *Engine) RunCall(ctx context.Context, st Step, c CallRef) error {
	claim := session.Claim{Kind: session.ClaimTool, Turn: c.Call.Turn, Call: c.Call.Index, Attempt: c.Attempt}
	view, err := e.View(ctx, st.Key)
	if err != nil {
		return err
	}
	if !waitsFor(&view, st.Inc, claim) {
		return nil
	}
	p := &performance{e: e, key: st.Key, s: view.State, late: new(atomic.Bool), began: e.Now()}
	mine, err := p.once(ctx, claim, c)
	if err != nil || !mine {
		return err
	}
	o := p.aside(ctx, st, &session.RunTool{Run: c.Run, Call: c.Call, Attempt: c.Attempt, NotBefore: p.notBefore(c.Call)}, claim)
	if o == nil {
		return nil
	}
	o.Inc = st.Inc
	return e.tell(ctx, st, claim, o.Prepared)
}

// tell commits what a call came to. That is worth more than this caller's
// patience: it is tried as long as this process lives.
func (e *Engine) tell(ctx context.Context, st Step, claim session.Claim, p Prepared) error {
	ctx = context.WithoutCancel(ctx)
	for try := 0; ; try++ {
		_, err := e.Do(ctx, st.Key, p)
		pause := min(ident.Second<<min(try, 4), tellMost)
		if !errors.Is(err, ErrUnavailable) || int64(st.Until-e.Now()) < pause+sliceEnd {
			return err
		}
		if err := e.d.Sched.Sleep(ctx, pause); err != nil {
			return err
		}
		if view, err := e.View(ctx, st.Key); err == nil && !waitsFor(&view, st.Inc, claim) {
			return nil // it had landed, or nobody waits for it any more
		}
	}
}

// waitsFor says that the session's state still waits for an effect.
func waitsFor(d *Done, inc string, claim session.Claim) bool {
	return d.Head.Inc == inc && d.Head.Quarantine == nil && slices.Contains(claimsOf(&d.State), claim)
}

// once sees to it that a call which must not be done twice is begun by one
// process: the one whose note is the first. A machine may ask twice.
func (p *performance) once(ctx context.Context, claim session.Claim, c CallRef) (bool, error) {
	first, err := p.note(ctx, claim)
	if err != nil {
		// Not known whether it is there: so nothing is begun.
		return false, err
	}
	_, def := p.call(c.Call)
	return first || def != nil && def.RetrySafe, nil
}

// note says that a call is begun, or taken back; whose note is the first.
func (p *performance) note(ctx context.Context, claim session.Claim) (first bool, err error) {
	note := []byte(`"` + hex.EncodeToString(p.e.d.Sched.Entropy(16)) + `"`)
	before, err := p.e.d.Stash.PutStash(ctx, p.key, "call/"+p.s.Inc+"/"+claim.String(), note, p.e.Now().Add(ident.Day), true)
	return err == nil && (before == nil || string(before) == string(note)), err
}

// unbegun takes a call back that was left to a process of its own and that none
// has begun: whoever comes for it now finds that it is too late, so it may start
// anew although it must not run twice.
func (d *driver) unbegun(ctx context.Context, s *session.State, claim session.Claim) *outcome {
	if claim.Kind != session.ClaimTool || d.slice == nil || d.e.o.Elsewhere == nil {
		return nil
	}
	p := &performance{e: d.e, key: d.key, s: *s}
	id := ident.CallID{Turn: claim.Turn, Index: claim.Call}
	_, def := p.call(id)
	if def == nil || def.RetrySafe || !d.e.o.Elsewhere(*def) {
		return nil
	}
	if first, err := p.note(ctx, claim); err != nil || !first {
		return nil // it was begun, or nobody can say
	}
	return &outcome{claim: claim, inc: s.Inc, Prepared: Prepared{Command: &session.ToolOutcome{
		Call: id, Attempt: claim.Attempt, Fault: &session.FaultInfo{Class: ClassStopped, Message: "the call was never begun", NotSent: true},
	}}}
}

func (p *performance) notBefore(id ident.CallID) ident.Instant {
	if c, _ := p.call(id); c != nil {
		return c.NotBefore
	}
	return 0
}

// aside performs a call, and stops it when the session no longer waits for it,
// when it takes too long, or when this process is about to be cut off.
func (p *performance) aside(ctx context.Context, st Step, eff *session.RunTool, claim session.Claim) *outcome {
	sched := p.e.d.Sched
	fctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := sched.NewSignal()
	var result atomic.Pointer[outcome]
	sched.Go(fctx, claim.String(), func(ctx context.Context) {
		result.Store(p.perform(ctx, eff))
		ended.Fire()
	})
	by := p.deadline(eff)
	if st.Until != 0 {
		by = min(by, st.Until.Add(-2*p.e.o.GraceMs))
	}
	var giveUp ident.Instant
	for {
		if at, err := sched.WaitAny(ctx, callWatchMs, ended); at == 0 || err != nil {
			return result.Load()
		}
		now := p.e.Now()
		switch {
		case giveUp != 0 && now >= giveUp:
			return lost(&p.s, claim, &session.FaultInfo{Class: ClassTimeout, Message: "no answer within the time allowed"})
		case giveUp != 0:
		case now >= by:
			p.late.Store(true)
			giveUp = now.Add(p.e.o.GraceMs)
			cancel()
		case p.abandoned(ctx, st, claim):
			giveUp = now.Add(p.e.o.GraceMs)
			cancel()
		}
	}
}

// abandoned looks whether the session has moved, and if so whether it still
// waits for the call.
func (p *performance) abandoned(ctx context.Context, st Step, claim session.Claim) bool {
	head, err := p.e.d.Log.Peek(ctx, p.key)
	if err != nil || head.Rev <= p.rev && head.Inc == st.Inc {
		return false
	}
	view, err := p.e.View(ctx, p.key)
	if err != nil {
		_, gone := errors.AsType[*session.Rejection](err)
		return gone
	}
	p.rev = view.Head.Rev
	return !waitsFor(&view, st.Inc, claim)
}
