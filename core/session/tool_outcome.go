package session

import (
	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
)

// admitTool takes the end of an attempt of a call, or of a lookup.
func (s *State) admitTool(c *ToolOutcome, env Env) ([]Event, Reply, error) {
	r := s.Active
	var call *Call
	if r != nil && r.Batch != nil && r.Batch.Turn == c.Call.Turn {
		call = r.Batch.call(c.Call.Index)
	}
	if call == nil || call.Status != CallRunning || call.Attempt != c.Attempt || call.LookingUp != c.Lookup {
		return s.late(r, c), Reply{}, nil
	}
	if r.Ending != nil {
		// Unreachable while an ending run settles its calls at once; kept
		// so that a late result can never undo a cancel.
		return s.late(r, c), Reply{}, nil
	}
	switch {
	case c.Aborted:
		return s.interrupted(r, call, classStopped, env), Reply{}, nil
	case c.Lookup && !c.Found:
		return s.finish(r, call, completed(r, call, CallUnknown, textUnknown)), Reply{}, nil
	case c.Refused != "":
		status := c.Refused
		if status != CallInvalid && status != CallForbidden {
			status = CallUnavailable
		}
		e := completed(r, call, status, "")
		e.Error = c.Text
		return s.finish(r, call, e), Reply{}, nil
	case c.Fault != nil:
		return s.toolFault(r, call, c, env), Reply{}, nil
	}
	return s.toolAnswer(r, call, c), Reply{}, nil
}

// late keeps an outcome that nobody waits for.
func (s *State) late(r *Run, c *ToolOutcome) []Event {
	if c.Aborted || c.Accepted || c.Lookup && !c.Found || c.Fault != nil && c.Fault.Class == classStopped {
		return nil
	}
	e := &ToolLate{Run: r.owns(c.Call.Turn), Turn: c.Call.Turn, Call: c.Call.Index, Status: CallCompleted, Result: c.Text}
	if c.Error || c.Fault != nil {
		e.Status, e.Result, e.Error = CallFailed, blob.Payload{}, c.Text
		if c.Fault != nil {
			e.Error = blob.Inline(blob.Cut(c.Fault.Message, blob.InlineMax))
		}
	}
	return []Event{e}
}

// owns is the run's id if the turn is one of its own, else none: of a run that
// is over, its row says which turns it had.
func (r *Run) owns(turn ident.TurnID) ident.RunID {
	if r == nil || turn < r.FirstTurn || turn > r.Turn.ID {
		return 0
	}
	return r.ID
}

// toolAnswer records a result. A call with a promise settles it the same way.
func (s *State) toolAnswer(r *Run, call *Call, c *ToolOutcome) []Event {
	if c.Accepted && s.class(call) == ClassJoined {
		return []Event{started(r, call, call.Attempt, reasonAccepted)}
	}
	e := &ToolCompleted{
		Run: r.ID, Turn: r.Batch.Turn, Call: call.Index, Status: CallCompleted, Effects: c.Effects,
		DurationMs: c.DurationMs, OutputBytes: c.OutputBytes, Truncated: c.Truncated,
	}
	if len(e.Effects) > EffectsMax {
		e.Effects = e.Effects[:EffectsMax]
	}
	switch {
	case c.Accepted && call.Promise != 0:
		e.Result = promised(call.Promise, Pending)
		return []Event{e}
	case c.Error:
		e.Status, e.Error = CallFailed, c.Text
	default:
		e.Result = c.Text
	}
	return s.finish(r, call, e)
}

// promised is what the model reads of a promise that it may await.
func promised(id ident.PromiseID, status string) blob.Payload {
	return blob.Inline(`{"promise":"` + id.String() + `","status":"` + status + `"}`)
}

// answered ends a call whose promise was settled before anybody heard how its
// start went: the other side is done, so it had taken the call.
func (s *State) answered(r *Run, c *Call) []Event {
	p := s.promise(c.Promise)
	if p == nil || p.Status == Pending {
		return nil
	}
	if p.Joined {
		return s.look(r, c, 0)
	}
	e := completed(r, c, CallCompleted, "")
	e.Result = promised(p.ID, p.Status)
	return []Event{e}
}

// finish ends a call, and with it the promise that it had.
func (s *State) finish(r *Run, call *Call, e *ToolCompleted) []Event {
	ev := []Event{e}
	if p := s.promise(call.Promise); p != nil && p.Status == Pending {
		st := &PromiseSettled{Promise: p.ID, Run: r.ID, Status: Resolved, Value: e.Result, Who: system()}
		if e.Status != CallCompleted {
			st.Status, st.Value, st.Error = Failed, blob.Payload{}, e.Error
		}
		if e.Status == CallCancelled || e.Status == CallUnknown {
			st.Status, st.Error = Cancelled, blob.Payload{}
		}
		ev = append(ev, st)
	}
	return ev
}

func system() Who { return Who{By: ActorSystem, Via: ActorSystem} }

// toolFault decides what a fault means. Nothing sent, or refused: failed for
// certain, and tried again if that may help and can do no harm. Sent and without
// an answer, and not retry-safe: nobody knows.
func (s *State) toolFault(r *Run, call *Call, c *ToolOutcome, env Env) []Event {
	d := s.Toolset.Find(call.Tool)
	safe := d != nil && d.RetrySafe
	if c.Fault.Class == classStopped {
		if !safe && c.Fault.NotSent {
			e := started(r, call, call.Attempt+1, reasonInterrupted)
			if !env.Driver {
				e = started(r, call, call.Attempt, reasonLater)
			}
			e.Class = classStopped
			return []Event{e}
		}
		return s.interrupted(r, call, classStopped, env)
	}
	if c.Fault.Retryable() && (safe || c.Fault.NotSent) && call.Failures+1 < ToolAttemptsMax {
		wait := min(max(ToolRetryFirst<<call.Failures, c.Fault.RetryAfterMs), RetryMost)
		e := started(r, call, call.Attempt+1, reasonRetry)
		if wait > ShortWait || !env.Driver {
			e = started(r, call, call.Attempt, reasonLater)
		}
		e.Class, e.NotBefore = c.Fault.Class, env.At.Add(wait)
		return []Event{e}
	}
	if c.Fault.uncertain() && !safe {
		return s.interrupted(r, call, c.Fault.Class, env)
	}
	e := completed(r, call, CallFailed, "")
	e.Error = blob.Inline(blob.Cut(c.Fault.Message, blob.InlineMax))
	return s.finish(r, call, e)
}

// interrupted says what follows when an attempt ended without a word: a
// retry-safe call runs again, one that can be looked up is, and of any other
// nobody knows (I6). Whoever goes down claims no further attempt: the call
// waits for the next driver, which starts it as any other.
func (s *State) interrupted(r *Run, c *Call, class string, env Env) []Event {
	d := s.Toolset.Find(c.Tool)
	var e *ToolStarted
	switch {
	case d != nil && d.RetrySafe && !env.Driver:
		e = started(r, c, c.Attempt, reasonLater)
	case c.Interrupts >= InterruptsMax && class != classStopped:
	case d != nil && d.RetrySafe:
		e = started(r, c, c.Attempt+1, reasonInterrupted)
	case d != nil && d.Lookup:
		e = started(r, c, c.Attempt, reasonLookup)
	}
	if e == nil {
		return s.finish(r, c, completed(r, c, CallUnknown, textUnknown))
	}
	e.Class = class
	return []Event{e}
}

// settleCalls ends every open call of a run that stops: not started ones did
// not run, retry-safe ones may have partly run, of the others nobody knows; the
// session's own have only waited.
// Pending approvals and questions are closed as cancelled, never as rejected.
func (s *State) settleCalls(r *Run) []Event {
	var ev []Event
	for i := range r.Approvals {
		if a := &r.Approvals[i]; a.Status == Pending {
			ev = append(ev, &ApprovalDecided{Approval: a.ID, Run: r.ID, Decision: Cancelled, Decided: "policy", Who: system()})
		}
	}
	for i := range r.Questions {
		ev = append(ev, &QuestionAnswered{Question: r.Questions[i].ID, Run: r.ID, Status: Cancelled, Who: system()})
	}
	if !r.openBatch() {
		return ev
	}
	for i := range r.Batch.Calls {
		c := &r.Batch.Calls[i]
		if c.terminal() {
			continue
		}
		status, text := CallCancelled, textNotStarted
		d := s.Toolset.Find(c.Tool)
		switch {
		case c.Status == CallCalled && c.Attempt == 0:
		case d != nil && own(d.Class):
			text = textStopped
		case d != nil && d.RetrySafe:
			text = textInterrupted
		default:
			// Running, or taken by the other side: it may go on there.
			status, text = CallUnknown, textUnknown
		}
		ev = append(ev, s.finish(r, c, completed(r, c, status, text))...)
	}
	return ev
}
