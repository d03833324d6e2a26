package session

import (
	"slices"

	"github.com/perdure/perdure/core/blob"
)

// What the model reads for calls that did not end by themselves.
const (
	textNotStarted   = "Cancelled: not started."
	textStopped      = "Cancelled while it waited."
	textInterrupted  = "Cancelled: interrupted, may have partly run."
	textUnknown      = "The outcome is unknown: the call was started and may have happened. Check before repeating it; a person will be asked first."
	textNotRun       = "Not run: the limit is reached."
	textTooMany      = "Not run: too many calls in one turn."
	textUnavailable  = "Unavailable: nobody serves this tool now."
	textAwaitAlone   = "Failed: one await per turn, and none beside a call that itself waits."
	textNoControl    = "Invalid: the arguments are not what the tool takes."
	textPromisesFull = "Failed: too many promises are pending."
	textExpired      = "Nobody decided in time and the call did not run. Do not retry it on your own; ask whether it is still wanted."
	textRejected     = "A person declined this call and it did not run. This is not a fault: do not diagnose, retry or work around it. Acknowledge it and ask what they want instead."
)

func (e *ToolCalled) apply(s *State, en *Entry) error {
	r, err := s.turn(e.Run, e.Turn)
	if err != nil {
		return err
	}
	if r.Batch == nil || r.Batch.Turn != e.Turn {
		if r.openBatch() {
			return diverge("batch", "%s has calls while those of %s are open", e.Turn, r.Batch.Turn)
		}
		r.Batch = &Batch{Turn: e.Turn, At: en.At, gen: r.gen}
	}
	b := r.batch()
	if e.Call != len(b.Calls)+1 {
		return diverge("call", "call %d of %s follows %d", e.Call, e.Turn, len(b.Calls))
	}
	b.Calls = append(b.Calls, Call{
		Index: e.Call, ProviderID: e.ProviderID, Tool: e.Tool, WireName: e.WireName,
		Arguments: e.Arguments, Verdict: e.Verdict, Problem: e.Problem, Control: e.Control,
	})
	b.Open++
	return nil
}

func (e *ToolStarted) apply(s *State, en *Entry) error {
	r, c, err := s.call(e.Run, e.Turn, e.Call)
	if err != nil {
		return err
	}
	if c.terminal() {
		return diverge("call", "%d of %s started after its end", e.Call, e.Turn)
	}
	switch e.Reason {
	case reasonAccepted:
		c.Status, c.Accepted = CallWaiting, true
		return nil
	case reasonLater:
		c.Status, c.NotBefore = CallCalled, e.NotBefore
		return nil
	case reasonLookup:
		c.LookingUp = true
		c.interrupt(e.Class)
		return nil
	case reasonFirst:
		c.StartedAt = en.At
		r.Usage.ToolCalls++
		s.Totals.ToolCalls++
	case reasonInterrupted:
		c.interrupt(e.Class)
	case reasonRetry:
		c.Failures++
	}
	if e.Attempt != c.Attempt+1 {
		return diverge("attempt", "attempt %d of call %d of %s follows %d", e.Attempt, e.Call, e.Turn, c.Attempt)
	}
	c.Attempt, c.NotBefore, c.LookingUp = e.Attempt, e.NotBefore, false
	c.Status = CallRunning
	switch s.class(c) {
	case ClassSleep, ClassAwait, ClassAsk:
		c.Status = CallWaiting
	}
	if c.Control != nil && c.Control.Timed {
		c.AwaitUntil = en.At.Add(c.Control.TimeoutMs)
	}
	return nil
}

// interrupt counts an attempt that ended without a word. A process that went
// down in good order is none.
func (c *Call) interrupt(class string) {
	if class != classStopped {
		c.Interrupts++
	}
}

func (s *State) class(c *Call) string {
	if d := s.Toolset.Find(c.Tool); d != nil {
		return d.Class
	}
	return ""
}

func (e *ToolCompleted) apply(s *State, en *Entry) error {
	r, c, err := s.call(e.Run, e.Turn, e.Call)
	if err != nil {
		return err
	}
	if c.terminal() {
		return diverge("call", "%d of %s completed twice", e.Call, e.Turn)
	}
	c.Status, c.Result, c.Error, c.LookingUp = e.Status, e.Result, e.Error, false
	if !c.terminal() {
		return diverge("call", "%d of %s completed as %q", e.Call, e.Turn, e.Status)
	}
	if p := s.promise(c.Promise); p != nil && p.Joined && p.Status != Pending {
		// Its value is the result now, and nobody else may await it.
		s.forget(p.ID)
	}
	r.count(c)
	r.Batch.At = en.At
	r.Batch.Open--
	if r.Batch.Open == 0 {
		s.closeBatch(r)
	}
	return nil
}

// count keeps what later calls are judged by: failures of the same call, and
// calls whose outcome nobody knows.
func (r *Run) count(c *Call) {
	switch c.Status {
	case CallCompleted:
		r.Repeats = slices.DeleteFunc(slices.Clone(r.Repeats), func(p Repeat) bool { return p.Tool == c.Tool })
	case CallFailed, CallInvalid:
		p := slices.Clone(r.Repeats)
		i := slices.IndexFunc(p, func(p Repeat) bool { return p.Tool == c.Tool && p.Arguments == c.Arguments.Content() })
		if i < 0 {
			i, p = len(p), append(p, Repeat{Tool: c.Tool, Arguments: c.Arguments.Content()})
		}
		p[i].Failures++
		r.Repeats = p[max(0, len(p)-RepeatsTracked):]
	case CallUnknown:
		p := append(slices.Clone(r.Unknowns), Repeat{Tool: c.Tool, Arguments: c.effective().Content()})
		r.Unknowns = p[max(0, len(p)-UnknownsMax):]
	}
}

// effective is what the tool gets: a person's edit, else the model's words.
func (c *Call) effective() blob.Payload {
	if !c.Edited.IsZero() {
		return c.Edited
	}
	return c.Arguments
}

// closeBatch puts the results into the window: one per call, in order, right
// after the message that asked (I5), by construction.
func (s *State) closeBatch(r *Run) {
	results := make([]EntryResult, len(r.Batch.Calls))
	bad := len(r.Batch.Calls) > 0
	for i := range r.Batch.Calls {
		c := &r.Batch.Calls[i]
		res := EntryResult{Index: c.Index, Status: c.Status, Text: c.Result, Edited: c.Edited}
		if c.Status != CallCompleted {
			res.Error = true
			if !c.Error.IsZero() {
				res.Text = c.Error
			}
		}
		bad = bad && c.Status == CallInvalid
		results[i] = res
	}
	s.Cursors.Entry++
	s.Context.add(ContextEntry{ID: s.Cursors.Entry, Role: RoleResults, Source: FromRuntime, Run: r.ID, Turn: r.Batch.Turn, Results: results})
	r.Rounds++
	r.BadTurns++
	if !bad {
		r.BadTurns = 0
	}
	r.Approvals = nil
}

func (e *ToolLate) apply(s *State, _ *Entry) error {
	r := s.Active
	if r != nil && r.ID == e.Run {
		r = s.run()
	} else {
		r = nil
	}
	if !e.Usage.IsZero() {
		s.charge(r, e.Usage)
		s.Totals.ModelCalls++
	}
	return nil
}

// completed builds the end of a call.
func completed(r *Run, c *Call, status, text string) *ToolCompleted {
	e := &ToolCompleted{Run: r.ID, Turn: r.Batch.Turn, Call: c.Index, Status: status}
	if status == CallCompleted {
		e.Result = blob.Inline(text)
	} else {
		e.Error = blob.Inline(text)
	}
	return e
}

func started(r *Run, c *Call, attempt int, reason string) *ToolStarted {
	return &ToolStarted{Run: r.ID, Turn: r.Batch.Turn, Call: c.Index, Attempt: attempt, Reason: reason}
}
