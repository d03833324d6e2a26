package session

import (
	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
)

// Kinds of deadlines, in the order in which those of one instant fire.
const (
	dueRunLimit = iota
	dueForce
	dueApproval
	dueQuestion
	duePromise
	dueAwait
	dueTool
	dueRetry
	dueCompaction
)

// deadline is an instant at which time alone changes the session.
type deadline struct {
	at   ident.Instant
	kind int
	id   uint64
}

func (d deadline) before(o deadline) bool {
	switch {
	case d.at != o.at:
		return d.at < o.at
	case d.kind != o.kind:
		return d.kind < o.kind
	}
	return d.id < o.id
}

// earliest finds the first deadline in state; all counts those that only a
// driver can act on, too.
func (s *State) earliest(env Env, all bool) (deadline, bool) {
	var first deadline
	found := false
	add := func(at ident.Instant, kind int, id uint64) {
		if d := (deadline{at, kind, id}); at != 0 && (!found || d.before(first)) {
			first, found = d, true
		}
	}
	for i := range s.Promises {
		if p := &s.Promises[i]; p.Status == Pending {
			add(p.Deadline, duePromise, uint64(p.ID))
		}
	}
	if c := &s.Context.Compaction; c.Phase == CompactionRuns && all {
		add(c.RetryAt, dueCompaction, 0)
	}
	r := s.Active
	if r == nil {
		return first, found
	}
	if r.Ending != nil {
		if !r.Ending.Force {
			add(r.Ending.At.Add(CancelWatchdog), dueForce, 0)
		}
		return first, found
	}
	if r.Limits.MaxSeconds > 0 && (r.Wait.Since == 0 || !r.Wait.Person) {
		add(r.StartedAt.Add(r.Limits.MaxSeconds*ident.Second+r.Wait.PersonMs), dueRunLimit, 0)
	}
	for i := range r.Approvals {
		if a := &r.Approvals[i]; a.Status == Pending {
			add(a.ExpiresAt, dueApproval, uint64(a.ID))
		}
	}
	for i := range r.Questions {
		add(r.Questions[i].ExpiresAt, dueQuestion, uint64(r.Questions[i].ID))
	}
	if r.Turn.Status == TurnRetrying && all {
		add(r.Turn.RetryAt, dueRetry, 0)
	}
	if r.openBatch() {
		s.callDeadlines(r, env, add)
	}
	return first, found
}

func (s *State) callDeadlines(r *Run, env Env, add func(ident.Instant, int, uint64)) {
	for i := range r.Batch.Calls {
		c := &r.Batch.Calls[i]
		switch {
		case c.Status == CallWaiting && s.class(c) == ClassAwait:
			add(c.AwaitUntil, dueAwait, uint64(c.Index))
		case c.Status == CallCalled && c.NotBefore > env.At:
			// Planning starts it when the time has come.
			add(c.NotBefore, dueTool, uint64(c.Index))
		case c.Status == CallCalled && c.Approval == 0 && env.Driver && r.mayStart(s, c) && s.served(c, env) == nil:
			// Nobody serves it now. An approved one waits without limit.
			add(r.Batch.At.Add(ToolAbsentMax), dueTool, uint64(c.Index))
		}
	}
}

// NextWake is the earliest deadline, or 0.
func (s *State) NextWake(env Env) ident.Instant {
	d, ok := s.earliest(env, true)
	if !ok {
		return 0
	}
	return d.at
}

// due turns the earliest deadline that has passed into its events. The step
// asks again until there is none. What only a driver may write is left to it.
func (s *State) due(env Env) []Event {
	d, ok := s.earliest(env, env.Driver)
	if !ok || d.at > env.At {
		return nil
	}
	r := s.Active
	deadlineWho := Who{By: ActorDeadline, Via: ActorSystem}
	switch d.kind {
	case dueRunLimit:
		used := (int64(env.At-r.StartedAt) - r.Wait.PersonMs) / ident.Second
		return []Event{&RunCancelRequested{Run: r.ID, Who: deadlineWho, Failure: &Failure{
			Kind: FailLimit, Message: "the time limit is reached", Limit: "maxSeconds", Value: r.Limits.MaxSeconds, Used: used,
		}}}
	case dueForce:
		return []Event{&RunCancelRequested{Run: r.ID, Force: true, Who: deadlineWho}}
	case dueApproval:
		return []Event{&ApprovalDecided{Approval: ident.ApprovalID(d.id), Run: r.ID, Decision: Expired, Decided: ByDeadline, Who: deadlineWho}}
	case dueQuestion:
		return s.answer(r, r.question(ident.QuestionID(d.id)), Expired, nil, Submission{}, deadlineWho)
	case duePromise:
		return s.duePromise(s.promise(ident.PromiseID(d.id)), deadlineWho)
	case dueAwait:
		return s.lookAwait(r, r.Batch.call(int(d.id)), env.At)
	case dueTool:
		return []Event{completed(r, r.Batch.call(int(d.id)), CallUnavailable, textUnavailable)}
	}
	if d.kind == dueRetry {
		return []Event{s.retry(r, reasonRetry)}
	}
	return []Event{s.againCompaction()}
}

// duePromise fires a timer, or fails a promise whose time is up.
func (s *State) duePromise(p *Promise, who Who) []Event {
	e := &PromiseSettled{Promise: p.ID, Run: p.Run, Status: Expired, Error: blob.Inline("Failed: no result came before the deadline."), Who: who}
	if p.Source == SourceTimer {
		e.Status, e.Error = Resolved, blob.Payload{}
	}
	return s.settle(p, e)
}

// admitResume takes over from a driver that is gone: every effect in flight
// ended without a word.
func (s *State) admitResume(env Env) ([]Event, Reply, error) {
	if !env.Driver {
		return nil, Reply{}, diverge("resume", "only a driver resumes")
	}
	var ev []Event
	r := s.Active
	if c := &s.Context.Compaction; c.Phase == CompactionRuns && c.RetryAt == 0 {
		if c.Interrupts >= InterruptsMax {
			ev = append(ev, &CompactionFailed{Class: "interrupted", Message: "the summary was interrupted again and again"})
		} else {
			ev = append(ev, s.againCompaction())
		}
	}
	if r == nil {
		return ev, Reply{Same: len(ev) == 0}, nil
	}
	if r.Turn.Status == TurnInFlight {
		switch {
		case r.Ending != nil:
			ev = append(ev, &TurnCancelled{Run: r.ID, Turn: r.Turn.ID, Attempt: r.Turn.Attempt})
		case r.Turn.Interrupts >= InterruptsMax:
			ev = append(ev, &TurnFailed{Run: r.ID, Turn: r.Turn.ID, Attempt: r.Turn.Attempt, Class: "interrupted", Message: "the model call was interrupted again and again"})
		default:
			ev = append(ev, s.retry(r, reasonInterrupted))
		}
	}
	if r.openBatch() {
		for i := range r.Batch.Calls {
			c := &r.Batch.Calls[i]
			if c.Status == CallRunning {
				ev = append(ev, s.interrupted(r, c, "", env)...)
			}
		}
	}
	return ev, Reply{Same: len(ev) == 0}, nil
}
