package session

import "github.com/perdure/perdure/core/ident"

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
		if c.Status != CallCalled || running >= InFlightMax || !r.mayStart(s, c) || c.NotBefore > env.At {
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

// controlProblem says what is wrong with what a call of one of the session's own
// tools asks for.
func (s *State) controlProblem(tool string, c *Control) string {
	d := s.Toolset.Find(tool)
	switch {
	case d == nil || !own(d.Class):
		if c != nil {
			return textNoControl
		}
		return ""
	case c == nil:
		return textNoControl
	case d.Class == ClassSleep && (c.SleepMs < 0 || c.SleepMs > SleepMax):
		return "Invalid: sleep takes up to a year."
	case d.Class == ClassAsk:
		if err := ValidateItems(c.Items); err != nil {
			return "Invalid: " + err.Error() + "."
		}
	case d.Class != ClassSleep && (len(c.Promises) == 0 || len(c.Promises) > AwaitMax):
		return "Invalid: " + d.Class + " takes 1 to 32 promises."
	}
	return ""
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
		// Unreachable while what is recorded is screened.
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
	st := started(r, c, c.Attempt+1, reasonFirst)
	if c.Attempt > 0 {
		// It has its promise, if it has one.
		st.Reason = reasonRetry
		return []Event{st}
	}
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
