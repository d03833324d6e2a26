package session

import (
	"slices"

	"github.com/perdure/perdure/core/ident"
)

// cacheLapse is how long a provider keeps a prompt's prefix: after that a run
// pays for the whole window anyway, so it is cut to the low mark at once.
const cacheLapse = 5 * ident.Minute

func (e *ContextCut) apply(s *State, en *Entry) error {
	c := &s.Context
	if e.Revision != c.Revision+1 {
		return diverge("revision", "context revision %d follows %d", e.Revision, c.Revision)
	}
	if e.Reason == CutFailedRun {
		c.takeOut(e.From)
	} else if err := s.cutFront(e); err != nil {
		return err
	}
	c.recount()
	c.Revision = e.Revision
	c.Observed = Observed{At: en.At}
	if e.Mode == CutSummary {
		s.charge(s.owned(), e.Usage)
		s.Totals.ModelCalls++
		c.Compaction = c.Compaction.ended()
		if s.Active != nil && e.Reason == CutContext {
			r := s.run()
			r.CutTries++
			// The turn is asked again on the smaller window.
			r.Turn.Status, r.Turn.Class = TurnNone, ""
		}
	}
	return nil
}

// takeOut removes what a failed run has added: what a person has put there
// meanwhile stays, and so does the summary of what was before.
func (c *Context) takeOut(from ident.EntryID) {
	c.Entries = slices.DeleteFunc(slices.Clone(c.Entries), func(en ContextEntry) bool { return en.ID >= from && en.Key == "" })
	c.Lead = slices.DeleteFunc(slices.Clone(c.Lead), func(en ContextEntry) bool { return en.ID >= from && en.Source != FromSummary })
}

// cutFront moves the first kept entry forward.
func (s *State) cutFront(e *ContextCut) error {
	c := &s.Context
	n := 0
	for n < len(c.Entries) && c.Entries[n].ID <= e.Through {
		n++
	}
	if n == 0 || c.Entries[n-1].ID != e.Through {
		return diverge("cut", "%s is not in the window", e.Through)
	}
	lead := slices.DeleteFunc(slices.Clone(c.Lead), func(en ContextEntry) bool { return en.Source != FromSummary })
	if e.Mode == CutSummary {
		sum := ContextEntry{ID: e.Through, Role: RoleUser, Source: FromSummary, Parts: []Part{{Text: e.Summary}}}
		sum.Tokens = estimateEntry(&sum)
		lead = []ContextEntry{sum}
	}
	if e.Lead {
		in := s.inputBefore(n)
		if in == nil {
			return diverge("cut", "there is no input to repeat before %s", e.Through+1)
		}
		lead = append(lead, *in)
	}
	c.Lead, c.Entries = lead, c.Entries[n:]
	return nil
}

// inputBefore is the input of the run in whose midst entry n is, if it stands
// before that entry; nil at the begin of a run.
func (s *State) inputBefore(n int) *ContextEntry {
	c := &s.Context
	var run ident.RunID
	if n < len(c.Entries) {
		run = c.Entries[n].Run
	}
	if run == 0 && s.Active != nil {
		run = s.Active.ID
	}
	for _, es := range [...][]ContextEntry{c.Entries[:n], c.Lead} {
		for i := len(es) - 1; i >= 0; i-- {
			if es[i].Source == FromInput && es[i].Run == run && run != 0 {
				return &es[i]
			}
		}
	}
	return nil
}

// owned is the active run for changing, or nil.
func (s *State) owned() *Run {
	if s.Active == nil {
		return nil
	}
	return s.run()
}

// consumedTo is how many of the oldest entries may be cut: those that a
// request has carried. An unanswered input, a steer not yet seen and the
// newest calls with their results stay.
func (s *State) consumedTo() int {
	es := s.Context.Entries
	r := s.Active
	if r == nil {
		return len(es)
	}
	through := r.Turn.Through
	if r.Turn.ID == 0 || through < r.FirstEntry {
		through = r.FirstEntry - 1
	}
	if r.Turn.Status == TurnOver || r.Turn.Status == TurnNone && r.Turn.ID != 0 {
		// The newest request failed, so nothing that it alone carried has
		// been read: keep from its last user message or answer on.
		through = min(through, s.lastBoundary())
	}
	n := 0
	for n < len(es) && es[n].ID <= through {
		n++
	}
	return n
}

// lastBoundary is the id just before the newest stretch that a model has not
// answered: the last assistant message with its results, or the input.
func (s *State) lastBoundary() ident.EntryID {
	es := s.Context.Entries
	for i := len(es) - 1; i > 0; i-- {
		if es[i].Role == RoleAssistant || es[i].Source == FromInput {
			return es[i-1].ID
		}
	}
	return 0
}

// windowCut cuts the window when a high mark is passed, down to the low mark.
func (s *State) windowCut(r *Run, env Env) Event {
	w := s.Config.Context.Window
	if w.MaxMessages == 0 && w.MaxTokens == 0 {
		return nil
	}
	c := &s.Context
	n := int64(len(c.Lead) + len(c.Entries))
	tokens := s.PromptTokens()
	keep, keepTokens := n, int64(1)<<62
	if w.MaxMessages > 0 {
		keep = w.Keep
		if w.MaxTokens > 0 {
			keepTokens = w.MaxTokens * w.Keep / w.MaxMessages
		}
	} else {
		keepTokens = w.Keep
	}
	over := w.MaxMessages > 0 && n > w.MaxMessages || w.MaxTokens > 0 && tokens > w.MaxTokens
	lapsed := r.Turn.ID == 0 && c.Observed.At != 0 && env.At-c.Observed.At > ident.Instant(cacheLapse) &&
		(w.MaxMessages > 0 && n > keep || tokens > keepTokens)
	if !over && !lapsed {
		return nil
	}
	// What is not entries stays whatever is cut: the summary, and in the midst
	// of a run its input.
	fixed, lead := tokens-sum(c.Entries), int64(0)
	for i := range c.Lead {
		if c.Lead[i].Source == FromSummary {
			lead++
		}
	}
	if r.Turn.ID != 0 {
		lead++
	}
	from := len(c.Entries)
	var kept int64
	for from > 0 && lead+int64(len(c.Entries)-from) < keep && fixed+kept+c.Entries[from-1].Tokens <= keepTokens {
		from--
		kept += c.Entries[from].Tokens
	}
	i := s.boundary(from, func(i int) bool {
		return (w.MaxMessages == 0 || lead+int64(len(c.Entries)-i) <= w.MaxMessages) && (w.MaxTokens == 0 || fixed+sum(c.Entries[i:]) <= w.MaxTokens)
	})
	if i == 0 {
		return nil
	}
	return &ContextCut{
		Revision: c.Revision + 1, Through: c.Entries[i-1].ID, Mode: CutDrop, Reason: CutWindow, Lead: s.inputBefore(i) != nil,
	}
}

func sum(es []ContextEntry) int64 {
	var n int64
	for i := range es {
		n += es[i].Tokens
	}
	return n
}

// boundary finds where the window may begin, near index want, and rather keeps
// more, if that fits, than less. 0 means nowhere.
func (s *State) boundary(want int, fits func(int) bool) int {
	most := s.consumedTo()
	want = min(want, most)
	for i := want; i > 0; i-- {
		if s.mayBegin(i) && fits(i) {
			return i
		}
	}
	for i := want + 1; i <= most; i++ {
		if s.mayBegin(i) {
			return i
		}
	}
	for i := want; i > 0; i-- {
		if s.mayBegin(i) {
			return i
		}
	}
	return 0
}

// mayBegin says that the window may begin at an entry: at a user message, or
// in the midst of a run at a message of the model, because the run's input is
// then repeated before it. To cut that input alone would gain nothing.
func (s *State) mayBegin(i int) bool {
	es := s.Context.Entries
	if i >= len(es) || es[i].Role == RoleResults {
		return false
	}
	in := s.inputBefore(i)
	if in == nil {
		return es[i].Role == RoleUser
	}
	return in.ID != es[i-1].ID
}

// cutFailedRun takes the entries of a run that the model will not read out of
// the window.
func (s *State) cutFailedRun(r *Run) Event {
	c := &s.Context
	lead := slices.ContainsFunc(c.Lead, func(en ContextEntry) bool { return en.Run == r.ID })
	if c.last() < r.FirstEntry && !lead {
		return nil
	}
	return &ContextCut{Revision: c.Revision + 1, From: r.FirstEntry, Through: max(c.last(), r.FirstEntry), Mode: CutDrop, Reason: CutFailedRun}
}
