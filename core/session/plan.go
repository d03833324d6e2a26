package session

import "github.com/perdure/perdure/core/ident"

// planners are asked in order; the first with an answer is taken, and asked
// again on the state that results.
//
//nolint:gochecknoglobals // a constant table
var planners = [...]func(*State, Env) ([]Event, bool){
	planEnding,
	planQueue,
	planIntake,
	planBatch,
	planTurn,
	planCompaction,
	planWaiting,
}

// Plan says what follows from state alone: the next events, or none. work says
// that a driver would have events where this caller, who is none, has not.
func Plan(s *State, env Env) (ev []Event, work bool) {
	for _, p := range planners {
		e, w := p(s, env)
		work = work || w
		if len(e) > 0 {
			return e, work
		}
	}
	return nil, work
}

// inProgress says that something of the run is under way. A short pause before
// a retry counts: it is slept through, not waited for.
func (s *State) inProgress(r *Run) bool {
	switch r.Turn.Status {
	case TurnInFlight:
		return true
	case TurnRetrying:
		if int64(r.Turn.RetryAt-r.Turn.At) <= ShortWait {
			return true
		}
	}
	if s.Context.Compaction.Phase == CompactionRuns {
		return true
	}
	if r.openBatch() {
		for i := range r.Batch.Calls {
			if r.Batch.Calls[i].Status == CallRunning {
				return true
			}
		}
	}
	return false
}

// waitsFor lists the kinds of what a run waits for, in a fixed order.
func (s *State) waitsFor(r *Run, now ident.Instant) (on []string, person bool) {
	var has struct{ approval, question, promise, timer, child, tool, retry bool }
	has.retry = r.Turn.Status == TurnRetrying
	has.question = len(r.Questions) > 0
	if r.openBatch() {
		for i := range r.Batch.Calls {
			c := &r.Batch.Calls[i]
			switch {
			case c.terminal() || c.Status == CallRunning:
			case c.Status == CallCalled:
				if a := r.approval(c.Approval); a != nil && a.Status == Pending {
					has.approval = true
				} else if c.NotBefore > now {
					has.retry = true
				} else if r.mayStart(s, c) {
					has.tool = true
				}
			case s.class(c) == ClassAwait:
				has.promise = true
			case c.Promise != 0:
				if p := s.promise(c.Promise); p != nil {
					has.timer = has.timer || p.Source == SourceTimer
					has.promise = has.promise || p.Source == SourceOutside
					has.child = has.child || p.Source == SourceSession
				}
			}
		}
	}
	for _, k := range [...]struct {
		yes  bool
		name string
	}{
		{has.approval, "approval"},
		{has.question, "question"},
		{has.promise, "promise"},
		{has.timer, "timer"},
		{has.child, "child"},
		{has.tool, "tool"},
		{has.retry, "retry"},
	} {
		if k.yes {
			on = append(on, k.name)
		}
	}
	return on, has.approval || has.question
}

// planWaiting marks that a run waits, and that it goes on.
func planWaiting(s *State, env Env) ([]Event, bool) {
	r := s.Active
	if r == nil || r.Ending != nil {
		return nil, false
	}
	if s.inProgress(r) {
		if r.Wait.Since != 0 {
			return []Event{&RunResumed{Run: r.ID}}, false
		}
		return nil, false
	}
	on, person := s.waitsFor(r, env.At)
	if !env.Driver {
		// A call that may start is the driver's work, not a wait for a tool.
		for i, k := range on {
			if k == "tool" {
				on = append(on[:i:i], on[i+1:]...)
				break
			}
		}
	}
	if len(on) == 0 || r.Wait.Since != 0 && r.Wait.Person == person {
		return nil, false
	}
	return []Event{&RunWaiting{Run: r.ID, Person: person, On: on}}, false
}

// Ready says that a call of the active run's batch may start and has not: it
// waits for its driver, for somebody to serve its tool, or, after a failed
// attempt, for its NotBefore.
func (s *State) Ready(c *Call) bool {
	return s.Active != nil && c.Status == CallCalled && s.Active.mayStart(s, c)
}
