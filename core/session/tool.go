package session

import (
	"slices"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
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

// planBatch moves the calls of the newest turn: those that must not run get
// their result, gated ones are asked about, waiting ones are looked at, and
// what may start is started.
func planBatch(s *State, env Env) ([]Event, bool) {
	r := s.Active
	if r == nil || r.Ending != nil || !r.openBatch() {
		return nil, false
	}
	var ev []Event
	clash := r.awaitClash(s)
	for i := range r.Batch.Calls {
		c := &r.Batch.Calls[i]
		switch c.Status {
		case CallCalled:
			if e := s.judge(r, c, clash); e != nil {
				ev = append(ev, e)
			}
		case CallRunning:
			ev = append(ev, s.answered(r, c)...)
		case CallWaiting:
			ev = append(ev, s.look(r, c, env.At)...)
		}
	}
	if len(ev) > 0 {
		return ev, false
	}
	ids := s.Cursors
	if ev = s.askApprovals(r, env.At, &ids); len(ev) > 0 {
		return ev, false
	}
	return s.startCalls(r, env, &ids)
}

// startCalls starts what may, as far as somebody serves it.
func (s *State) startCalls(r *Run, env Env, ids *Cursors) (ev []Event, work bool) {
	running, promises := 0, s.pendingPromises()
	for i := range r.Batch.Calls {
		if r.Batch.Calls[i].Status == CallRunning {
			running++
		}
	}
	for i := range r.Batch.Calls {
		c := &r.Batch.Calls[i]
		if c.Status != CallCalled || running >= InFlightMax || !r.mayStart(s, c) {
			continue
		}
		if !env.Driver {
			return nil, true
		}
		d := s.served(c, env)
		if d == nil {
			continue
		}
		if why := r.asksAgain(c, d); why != "" {
			ev = append(ev, s.ask(r, c, why, d, env.At, ids))
			continue
		}
		ev = append(ev, s.start(r, c, env.At, ids, &promises)...)
		running++
		if class := s.class(c); class == ClassDetach || class == ClassCancel {
			// The next one must see what this one did.
			return ev, false
		}
	}
	return ev, false
}

// served is a tool as it would run now, or nil. The session's own are always
// there.
func (s *State) served(c *Call, env Env) *ToolDef {
	d := env.Offer.find(c.Tool)
	if d == nil && own(s.class(c)) {
		d = s.Toolset.Find(c.Tool)
	}
	return d
}

// own says that the session itself does the work of a class.
func own(class string) bool {
	switch class {
	case ClassSleep, ClassAwait, ClassDetach, ClassCancel, ClassAsk:
		return true
	}
	return false
}

// judge ends a call that must not run.
func (s *State) judge(r *Run, c *Call, clash bool) Event {
	switch {
	case r.Turn.Closing:
		return completed(r, c, CallNotRun, textNotRun)
	case c.Index > CallsMax:
		return completed(r, c, CallNotRun, textTooMany)
	case c.Verdict != VerdictOK:
		return completed(r, c, c.Verdict, c.Problem)
	case s.Toolset.Find(c.Tool) == nil:
		return completed(r, c, CallUnavailable, textUnavailable)
	case own(s.class(c)) && c.Control == nil:
		return completed(r, c, CallInvalid, textNoControl)
	case clash && s.waits(c):
		return completed(r, c, CallFailed, textAwaitAlone)
	}
	if a := r.approval(c.Approval); a != nil {
		switch a.Status {
		case Rejected:
			text := textRejected
			if a.Note != "" {
				text += " Their note: " + a.Note
			}
			return completed(r, c, CallRejected, text)
		case Expired:
			return completed(r, c, CallExpired, textExpired)
		}
	}
	return nil
}

// waits says that a call waits by itself: an await, or one whose result is a
// promise.
func (s *State) waits(c *Call) bool {
	switch s.class(c) {
	case ClassAwait, ClassJoined, ClassSleep:
		return true
	}
	return false
}

// awaitClash says that an await is beside another call that waits: both could
// wait for each other, so neither may.
func (r *Run) awaitClash(s *State) bool {
	awaits, waits := 0, 0
	for i := range r.Batch.Calls {
		c := &r.Batch.Calls[i]
		if c.Verdict != VerdictOK || !s.waits(c) {
			continue
		}
		waits++
		if s.class(c) == ClassAwait {
			awaits++
		}
	}
	return awaits > 0 && waits > 1
}

// mayStart says that nothing in the batch keeps an approved or ungated call:
// parallel-safe ones at once, exclusive ones after every earlier exclusive one.
func (r *Run) mayStart(s *State, c *Call) bool {
	if a := r.approval(c.Approval); a != nil && a.Status != Approved {
		return false
	}
	if d := s.Toolset.Find(c.Tool); d == nil || d.Parallel {
		return d != nil
	}
	for i := range c.Index - 1 {
		b := &r.Batch.Calls[i]
		if d := s.Toolset.Find(b.Tool); !b.terminal() && (d == nil || !d.Parallel) {
			return false
		}
	}
	return true
}

// start begins a call. ids are the cursors with what this round has taken.
func (s *State) start(r *Run, c *Call, now ident.Instant, ids *Cursors, promises *int) []Event {
	st := started(r, c, 1, reasonFirst)
	class := s.class(c)
	switch class {
	case ClassInline:
		return []Event{st}
	case ClassAsk:
		return s.startAsk(r, c, st, now, ids)
	case ClassDetach, ClassCancel:
		return s.startControl(r, c, st, class)
	case ClassAwait:
		if problem := s.awaitProblem(r, c); problem != "" {
			return []Event{completed(r, c, CallFailed, problem)}
		}
		return []Event{st}
	}
	if *promises >= PromisesMax {
		return []Event{completed(r, c, CallFailed, textPromisesFull)}
	}
	*promises++
	return []Event{st, s.create(r, c, class, now, ids)}
}

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
		return s.interrupted(r, call, classStopped), Reply{}, nil
	case c.Lookup && !c.Found:
		return s.finish(r, call, completed(r, call, CallUnknown, textUnknown)), Reply{}, nil
	case c.Refused != "":
		e := completed(r, call, c.Refused, "")
		e.Error = c.Text
		return s.finish(r, call, e), Reply{}, nil
	case c.Fault != nil:
		return s.toolFault(r, call, c, env), Reply{}, nil
	}
	return s.toolAnswer(r, call, c), Reply{}, nil
}

// late keeps an outcome that nobody waits for.
func (s *State) late(r *Run, c *ToolOutcome) []Event {
	if c.Aborted || c.Accepted || c.Lookup && !c.Found {
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

// toolFault decides what a fault means. Nothing sent: failed for certain, and
// retried if that may help. Sent and not retry-safe: nobody knows.
func (s *State) toolFault(r *Run, call *Call, c *ToolOutcome, env Env) []Event {
	d := s.Toolset.Find(call.Tool)
	safe := d != nil && d.RetrySafe
	if c.Fault.Class == classStopped {
		if !safe && c.Fault.NotSent {
			e := started(r, call, call.Attempt+1, reasonInterrupted)
			e.Class = classStopped
			return []Event{e}
		}
		return s.interrupted(r, call, classStopped)
	}
	if c.Fault.Retryable() && (safe || c.Fault.NotSent) && call.Failures+1 < ToolAttemptsMax {
		wait := min(max(ToolRetryFirst<<call.Failures, c.Fault.RetryAfterMs), ShortWait)
		e := started(r, call, call.Attempt+1, reasonRetry)
		e.Class, e.NotBefore = c.Fault.Class, env.At.Add(wait)
		return []Event{e}
	}
	if c.Fault.Retryable() && !safe && !c.Fault.NotSent {
		return s.interrupted(r, call, c.Fault.Class)
	}
	e := completed(r, call, CallFailed, "")
	e.Error = blob.Inline(blob.Cut(c.Fault.Message, blob.InlineMax))
	return s.finish(r, call, e)
}

// interrupted says what follows when an attempt ended without a word: a
// retry-safe call runs again, one that can be looked up is, and of any other
// nobody knows (I6).
func (s *State) interrupted(r *Run, c *Call, class string) []Event {
	d := s.Toolset.Find(c.Tool)
	var e *ToolStarted
	switch {
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
		case c.Status == CallCalled:
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
