package session

import (
	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
)

// keepTurns is how many of the newest answers a summary leaves as they are.
const keepTurns = 2

func (e *CompactionStarted) apply(s *State, en *Entry) error {
	c := &s.Context.Compaction
	if e.Attempt != s.Context.nextAttempt() {
		return diverge("attempt", "attempt %d of a summary through %s follows %d", e.Attempt, e.Through, c.Attempt)
	}
	switch {
	case c.Phase != CompactionRuns:
		*c = c.ended()
		c.FirstAt = en.At
	case c.RetryAt == 0:
		c.Interrupts++
	}
	c.Phase, c.Reason, c.Through, c.Attempt, c.Model, c.RetryAt = CompactionRuns, e.Reason, e.Through, e.Attempt, e.Model, 0
	c.Tried = max(c.Tried, e.Through)
	return nil
}

func (e *CompactionFailed) apply(s *State, _ *Entry) error {
	c := &s.Context.Compaction
	if c.Phase != CompactionRuns && c.Phase != CompactionPending {
		return diverge("compaction", "failed while %q", c.Phase)
	}
	if !e.Usage.IsZero() {
		s.charge(s.owned(), e.Usage)
		s.Totals.ModelCalls++
	}
	c.Class, c.RetryAt, c.Refused = e.Class, e.RetryAt, e.Refused
	if e.RetryAt != 0 {
		if e.Class != classStopped {
			c.Failures++
		}
		return nil
	}
	c.Phase, c.FailedAt = CompactionFails, s.Cursors.Turn
	if e.Class == Cancelled {
		*c = c.ended()
	}
	return nil
}

// ended is what is left of a plan when nothing is wanted any more: what numbers
// the next attempt.
func (c *CompactionPlan) ended() CompactionPlan {
	return CompactionPlan{Attempt: c.Attempt, Tried: c.Tried}
}

// nextAttempt numbers the next attempt at a summary, through whatever entry. It
// begins at 1 once no entry is left that one was tried through, because ids of
// entries do not come again: until then a number is not given twice.
func (c *Context) nextAttempt() int {
	if c.firstKept() > c.Compaction.Tried {
		return 1
	}
	return c.Compaction.Attempt + 1
}

// admitCompact records the wish; the driver acts on it at a safe boundary.
func (s *State) admitCompact(c *CompactContext) ([]Event, Reply, error) {
	switch {
	case s.Status == Closed:
		return nil, Reply{}, closed()
	case s.Context.Compaction.Phase == CompactionPending, s.Context.Compaction.Phase == CompactionRuns:
		return nil, Reply{Same: true, Revision: s.Context.Revision}, nil
	case s.Active == nil && s.coverable(false) == 0:
		return nil, Reply{Same: true, Revision: s.Context.Revision}, nil
	}
	rev := s.Context.Revision
	return []Event{&ContextEdited{Revision: rev, Compact: true, Who: c.who()}}, Reply{Revision: rev}, nil
}

// coverable is how many of the oldest entries a summary would stand for: all
// but about the last two answers with what led to them; all that a request has
// carried, when hard.
func (s *State) coverable(hard bool) int {
	es := s.Context.Entries
	most := s.consumedTo()
	if hard {
		return most
	}
	n, answers := len(es), 0
	for n > 0 {
		n--
		if es[n].Role == RoleAssistant {
			if answers++; answers == keepTurns {
				for n > 0 && es[n-1].Role == RoleUser {
					n--
				}
				break
			}
		}
	}
	n = min(n, most)
	for n > 0 && n < len(es) && es[n].Role == RoleResults {
		n-- // never between calls and their results
	}
	return n
}

func (s *State) canCompact(r *Run) bool {
	c := &s.Context.Compaction
	if s.Config.Context.Compaction.Mode == CompactOff || r.CutTries >= ContextTriesMax {
		return false
	}
	if c.Phase == CompactionFails && c.FailedAt == s.Cursors.Turn {
		return false
	}
	return s.coverable(r.CutTries > 0) > 0 || s.coverable(true) > 0
}

// wantsCompaction says that one is asked for, or that the high mark is passed
// and it has not failed before this very turn.
func (s *State) wantsCompaction(env Env) bool {
	c := &s.Context.Compaction
	if c.Phase == CompactionPending {
		return s.coverable(false) > 0
	}
	cfg := s.Config.Context.Compaction
	if cfg.Mode != CompactAuto || c.Phase == CompactionRuns || c.Phase == CompactionFails && c.FailedAt == s.Cursors.Turn {
		return false
	}
	mark := cfg.AtTokens
	if mark == 0 {
		mark = env.InputLimit * 8 / 10
	}
	return mark > 0 && s.PromptTokens() > mark && s.coverable(false) > 0
}

func (s *State) compactionReason() string {
	if s.Context.Compaction.Phase == CompactionPending {
		return CutManual
	}
	return CutHighWater
}

func (s *State) startCompaction(reason string, hard bool) Event {
	n := s.coverable(hard)
	if n == 0 {
		n = s.coverable(true)
	}
	through := s.Context.Entries[n-1].ID
	e := &CompactionStarted{Through: through, Reason: reason, Attempt: s.Context.nextAttempt(), Model: s.Config.Model}
	if r := s.Active; r != nil {
		e.Run, e.Model = r.ID, r.Model
	}
	return e
}

func (s *State) againCompaction() Event {
	c := &s.Context.Compaction
	e := &CompactionStarted{Through: c.Through, Reason: c.Reason, Attempt: s.Context.nextAttempt(), Model: c.Model}
	if s.Active != nil {
		e.Run = s.Active.ID
	}
	return e
}

// planCompaction acts on a wish while no run is active. With one active the
// turn planner does, at its boundary.
func planCompaction(s *State, env Env) ([]Event, bool) {
	c := &s.Context.Compaction
	if s.Status != Open || s.Active != nil || c.Phase != CompactionPending {
		return nil, false
	}
	if s.coverable(false) == 0 {
		return []Event{&CompactionFailed{Class: Cancelled, Message: "there is nothing to cover"}}, false
	}
	if !env.Driver {
		return nil, true
	}
	return []Event{s.startCompaction(CutManual, false)}, false
}

// admitCompaction takes the summary, or decides on another try.
func (s *State) admitCompaction(o *CompactionOutcome, env Env) ([]Event, Reply, error) {
	c := &s.Context.Compaction
	if c.Phase != CompactionRuns || c.Through != o.Through || c.Attempt != o.Attempt || c.RetryAt != 0 {
		if o.Usage.IsZero() {
			return nil, Reply{Same: true}, nil
		}
		return []Event{&ToolLate{Status: Cancelled, Usage: o.Usage}}, Reply{}, nil
	}
	switch {
	case o.Aborted:
		return []Event{&CompactionFailed{Class: classStopped, RetryAt: max(env.At, 1), Usage: o.Usage}}, Reply{}, nil
	case o.Fault != nil:
		f := &CompactionFailed{Class: o.Fault.Class, Message: blob.Cut(o.Fault.Message, blob.InlineMax), Usage: o.Usage, Refused: o.Fault.Refused}
		if f.Refused == nil {
			f.RetryAt = retryAt(o.Fault, c.Failures, c.FirstAt, env.At)
		}
		return []Event{f}, Reply{}, nil
	case o.Summary.IsZero():
		return []Event{&CompactionFailed{Class: "other", Message: "the model gave no summary", Usage: o.Usage}}, Reply{}, nil
	}
	cut := &ContextCut{
		Revision: s.Context.Revision + 1, Through: c.Through, Mode: CutSummary, Reason: c.Reason,
		Summary: o.Summary, Attempt: o.Attempt, Usage: o.Usage,
	}
	if r := s.Active; r != nil && c.Through >= r.FirstEntry {
		cut.Lead = true
	}
	return []Event{cut}, Reply{}, nil
}

// entriesThrough returns what a summary through an entry is made of.
func (s *State) entriesThrough(id ident.EntryID) []ContextEntry {
	es := s.Context.Entries
	n := 0
	for n < len(es) && es[n].ID <= id {
		n++
	}
	return es[:n:n]
}

// Covered returns what the compaction that runs is made of: the lead (an older
// summary) and the entries through its last.
func (s *State) Covered() (lead, entries []ContextEntry) {
	return s.Context.Lead, s.entriesThrough(s.Context.Compaction.Through)
}
