package session

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
)

func (e *MessageAdded) apply(s *State, _ *Entry) error {
	if err := next("entry", &s.Cursors.Entry, e.Entry); err != nil {
		return err
	}
	en := ContextEntry{ID: e.Entry, Role: e.Role, Source: e.Source, Run: e.Run, Turn: e.Turn, Partial: e.Partial}
	r, err := s.active(e.Run)
	if err != nil {
		return err
	}
	switch e.Source {
	case FromInput:
		en.Parts = r.Input
	case FromSteer:
		i := r.steerIndex(e.Steering)
		if i < 0 {
			return diverge("steer", "%s is not pending", e.Steering)
		}
		steers := append([]Steer(nil), r.Steers...)
		steers[i].Turn = s.Cursors.Turn + 1
		r.Steers, en.Parts = steers, steers[i].Text
	case FromModel:
		en.Text, en.Item = e.Text, e.Item
		if !e.Partial {
			// Its calls follow; the entry joins the window with them, when the
			// turn completes.
			r.Staged = &en
			return nil
		}
		r.Output = e.Text
	default:
		en.Parts = []Part{{Text: e.Text}}
		r.Noted = r.Noted || e.Source == FromRuntime
	}
	s.Context.add(en)
	return nil
}

func (r *Run) steerIndex(id ident.SteeringID) int {
	for i := range r.Steers {
		if r.Steers[i].ID == id {
			return i
		}
	}
	return -1
}

func (e *ToolsPublished) apply(s *State, _ *Entry) error {
	if e.Revision != s.Toolset.Revision+1 {
		return diverge("revision", "toolset revision %d follows %d", e.Revision, s.Toolset.Revision)
	}
	s.Toolset = Toolset{Revision: e.Revision, Ref: e.Ref, Size: e.Size, Tools: e.Tools}
	return nil
}

func (e *TurnRequested) apply(s *State, en *Entry) error {
	r, err := s.active(e.Run)
	if err != nil {
		return err
	}
	t := &r.Turn
	switch {
	case r.openBatch():
		return diverge("turn", "%s is asked for while calls are open", e.Turn)
	case e.ContextRevision != s.Context.Revision || e.ConfigRevision != s.ConfigRevision || e.Toolset != s.Toolset.Revision || e.Through != s.Context.last():
		return diverge("revision", "%s was planned at other revisions", e.Turn)
	}
	if e.Attempt == 1 {
		if t.Status == TurnInFlight || t.Status == TurnRetrying {
			return diverge("turn", "%s is asked for while %s is open", e.Turn, t.ID)
		}
		if err := next("turn", &s.Cursors.Turn, e.Turn); err != nil {
			return err
		}
		*t = Turn{ID: e.Turn, FirstAt: en.At}
	} else if t.ID != e.Turn || t.Attempt+1 != e.Attempt {
		return diverge("attempt", "attempt %d of %s follows attempt %d of %s", e.Attempt, e.Turn, t.Attempt, t.ID)
	}
	if want := s.fingerprint(e); want != e.Fingerprint {
		return diverge("fingerprint", "%s was planned from another state", e.Turn)
	}
	t.Status, t.Attempt, t.At, t.RetryAt = TurnInFlight, e.Attempt, en.At, 0
	t.Model, t.Toolset, t.Through, t.Revision, t.Estimate = e.Model, e.Toolset, e.Through, e.ContextRevision, e.Estimate
	t.Closing = e.Closing != nil
	r.Closing = e.Closing
	if e.Reason == reasonInterrupted {
		// The one before ended without a word, and nobody knows what it used.
		t.Interrupts++
		s.Totals.ModelCalls++
		r.Usage.ModelCalls++
		r.Usage.Unreported++
	}
	for i := range r.Steers {
		if r.Steers[i].Turn != 0 && r.Steers[i].Turn != t.ID {
			steers := append([]Steer(nil), r.Steers...)
			steers[i].Turn = t.ID
			r.Steers = steers
		}
	}
	return nil
}

// Reasons of an attempt.
const (
	reasonFirst       = "first"
	reasonInterrupted = "interrupted"
	reasonRetry       = "retry"
	reasonLookup      = "lookup"
	reasonAccepted    = "accepted"
	reasonLater       = "later"
)

// fingerprint hashes what a request is built from: never rendered bytes, so a
// later build may render the same facts better.
func (s *State) fingerprint(e *TurnRequested) string {
	h := sha256.New()
	num := func(v uint64) {
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], v)
		h.Write(b[:])
	}
	str := func(v string) {
		num(uint64(len(v)))
		h.Write([]byte(v))
	}
	str("perdure.turn.1")
	num(uint64(e.Turn))
	str(e.Model.Provider)
	str(e.Model.Model)
	str(e.Model.BaseURL)
	str(e.Model.Params)
	num(uint64(s.ConfigRevision))
	num(uint64(s.Toolset.Revision))
	num(uint64(s.Context.Revision))
	num(uint64(s.Context.firstKept()))
	num(uint64(s.Context.last()))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func (u *Usage) add(o Usage) {
	u.Input += o.Input
	u.Output += o.Output
	u.CacheRead += o.CacheRead
	u.CacheWrite += o.CacheWrite
	u.CostMicros += o.CostMicros
	u.Priced = u.Priced || o.Priced
	u.Estimated = u.Estimated || o.Estimated
}

// charge adds a model call's usage to the session and, if it is active, the run.
func (s *State) charge(r *Run, u Usage) {
	s.Totals.Usage.add(u)
	if r != nil {
		r.Usage.add(u)
	}
}

func (e *TurnCompleted) apply(s *State, en *Entry) error {
	r, err := s.turn(e.Run, e.Turn)
	if err != nil {
		return err
	}
	t := &r.Turn
	if t.Status != TurnInFlight || t.Attempt != e.Attempt || r.Staged == nil {
		return diverge("turn", "%s attempt %d completed while %q", e.Turn, e.Attempt, t.Status)
	}
	s.charge(r, e.Usage)
	s.Totals.ModelCalls++
	r.Usage.ModelCalls++
	if e.Usage.IsZero() {
		r.Usage.Unreported++
	}
	r.Usage.Context = e.Usage.Input
	s.Context.Observed = Observed{Through: t.Through, At: en.At}
	if e.Usage.Input > 0 && !e.Usage.Estimated {
		s.Context.Observed.Tokens, s.Context.Observed.Estimate = e.Usage.Input, s.rawTokens()
	}
	t.Status, t.Outcome, t.Finish, t.At = TurnDone, e.Outcome, e.Finish, en.At
	s.Answered = true
	if !t.Closing {
		r.Turns++
	}
	if e.Outcome == OutcomeFinal || t.Closing {
		r.Output = r.Staged.Text
	}
	if e.Outcome == OutcomeFinal {
		r.BadTurns = 0
	}
	said := *r.Staged // older copies of the state share it
	if e.Outcome == OutcomeTools {
		if r.Batch == nil || r.Batch.Turn != e.Turn {
			return diverge("batch", "%s has an outcome of tools and no calls", e.Turn)
		}
		calls := make([]EntryCall, len(r.Batch.Calls))
		for i, c := range r.Batch.Calls {
			calls[i] = EntryCall{Index: c.Index, ProviderID: c.ProviderID, Tool: c.Tool, WireName: c.WireName, Arguments: c.Arguments}
		}
		said.Calls = calls
	}
	s.Context.add(said)
	r.Staged = nil
	return nil
}

func (e *TurnFailed) apply(s *State, en *Entry) error {
	r, err := s.turn(e.Run, e.Turn)
	if err != nil {
		return err
	}
	t := &r.Turn
	if t.Status != TurnInFlight || t.Attempt != e.Attempt {
		return diverge("turn", "%s attempt %d failed while %q", e.Turn, e.Attempt, t.Status)
	}
	if e.Refused == nil {
		s.charge(r, e.Usage)
		s.Totals.ModelCalls++
		r.Usage.ModelCalls++
	}
	t.Class, t.Message, t.RetryAt, t.At, t.Refused = e.Class, e.Message, e.RetryAt, en.At, e.Refused
	t.Status = TurnOver
	if e.RetryAt != 0 {
		t.Status = TurnRetrying
		if e.Class != classStopped {
			t.Failures++
		}
	}
	return nil
}

func (e *TurnCancelled) apply(s *State, en *Entry) error {
	r, err := s.turn(e.Run, e.Turn)
	if err != nil {
		return err
	}
	if st := r.Turn.Status; st != TurnInFlight && st != TurnRetrying {
		return diverge("turn", "%s cancelled while %q", e.Turn, st)
	}
	s.charge(r, e.Usage)
	if r.Turn.Status == TurnInFlight {
		s.Totals.ModelCalls++
		r.Usage.ModelCalls++
		if e.Usage.IsZero() {
			r.Usage.Unreported++
		}
	}
	r.Turn.Status, r.Turn.At, r.Turn.RetryAt = TurnOver, en.At, 0
	r.Turn.Class = Cancelled
	return nil
}

// admitModel takes the end of an attempt. What no longer matters is kept as
// usage only: a cancel that came first wins, and its result stays out.
func (s *State) admitModel(c *ModelOutcome, env Env) ([]Event, Reply, error) {
	r := s.Active
	if r == nil || r.Turn.ID != c.Turn || r.Turn.Status != TurnInFlight || r.Turn.Attempt != c.Attempt {
		told := r != nil && r.Turn.ID == c.Turn && r.Turn.Attempt == c.Attempt && r.Turn.Status == TurnDone
		if c.Usage.IsZero() || told {
			return nil, Reply{Same: true}, nil
		}
		return []Event{&ToolLate{Run: r.owns(c.Turn), Turn: c.Turn, Status: Cancelled, Usage: c.Usage}}, Reply{}, nil
	}
	if r.Ending != nil || c.Aborted {
		return s.abortedTurn(r, c, env), Reply{}, nil
	}
	if c.Fault != nil {
		return []Event{failedTurn(r, c, env)}, Reply{}, nil
	}
	if c.Finish == "length" || c.Finish == "content_filter" {
		var ev []Event
		if !c.Text.IsZero() {
			ev = append(ev, s.partial(r, c))
		}
		msg := "the answer was cut at the longest output allowed"
		if c.Finish == "content_filter" {
			msg = "the provider's content filter stopped the answer"
		}
		return append(ev, &TurnFailed{Run: r.ID, Turn: c.Turn, Attempt: c.Attempt, Class: c.Finish, Message: msg, Usage: c.Usage}), Reply{}, nil
	}
	return s.completedTurn(r, c), Reply{}, nil
}

func (s *State) partial(r *Run, c *ModelOutcome) Event {
	return &MessageAdded{Entry: s.Cursors.Entry + 1, Run: r.ID, Turn: c.Turn, Role: RoleAssistant, Source: FromModel, Text: c.Text, Partial: true}
}

// abortedTurn keeps the text that had reached the stream; calls half built and
// reasoning are dropped. A whole result that a cancel overtook stays out.
func (s *State) abortedTurn(r *Run, c *ModelOutcome, env Env) []Event {
	if r.Ending == nil {
		// This process is going down, or lost the connection on purpose: not
		// a failure, the next attempt may start at once.
		return []Event{&TurnFailed{Run: r.ID, Turn: c.Turn, Attempt: c.Attempt, Class: classStopped, RetryAt: env.At, Usage: c.Usage}}
	}
	var ev []Event
	if c.Aborted && !c.Text.IsZero() {
		ev = append(ev, s.partial(r, c))
	}
	return append(ev, &TurnCancelled{Run: r.ID, Turn: c.Turn, Attempt: c.Attempt, Usage: c.Usage})
}

// failedTurn decides whether the attempt is followed by another: at most
// FailuresMax failures within TryingMax, each pause the larger of the back-off
// and what the provider asked for.
func failedTurn(r *Run, c *ModelOutcome, env Env) Event {
	f := &TurnFailed{Run: r.ID, Turn: c.Turn, Attempt: c.Attempt, Class: c.Fault.Class, Message: blob.Cut(c.Fault.Message, blob.InlineMax), Usage: c.Usage}
	if f.Refused = c.Fault.Refused; f.Refused == nil {
		f.RetryAt = retryAt(c.Fault, r.Turn.Failures, r.Turn.FirstAt, env.At)
	}
	return f
}

func retryAt(f *FaultInfo, failures int, firstAt, now ident.Instant) ident.Instant {
	if f.Class == classStopped {
		return now
	}
	if !f.Retryable() || failures+1 >= FailuresMax {
		return 0
	}
	wait := max(RetryFirst<<min(failures, 10), min(f.RetryAfterMs, RetryMost))
	at := now.Add(min(wait, RetryMost))
	if at >= firstAt.Add(TryingMax) {
		return 0
	}
	return at
}

func (s *State) completedTurn(r *Run, c *ModelOutcome) []Event {
	ev := make([]Event, 0, 2+len(c.Calls)+len(r.Steers))
	calls, item := c.Calls, c.Item
	if len(calls) > CallsKept {
		// With the calls the provider's own form goes, which still has them.
		calls, item = calls[:CallsKept], nil
	}
	ev = append(ev, &MessageAdded{Entry: s.Cursors.Entry + 1, Run: r.ID, Turn: c.Turn, Role: RoleAssistant, Source: FromModel, Text: c.Text, Item: item})
	for i, p := range calls {
		s.screen(&p)
		ev = append(ev, &ToolCalled{
			Run: r.ID, Turn: c.Turn, Call: i + 1, ProviderID: p.ProviderID, Tool: p.Tool, WireName: p.WireName,
			Arguments: p.Arguments, Verdict: p.Verdict, Problem: p.Problem, Control: p.Control,
		})
	}
	out := OutcomeFinal
	if len(calls) > 0 {
		out = OutcomeTools
	}
	ev = append(ev, r.deliver()...)
	return append(ev, &TurnCompleted{
		Run: r.ID, Turn: c.Turn, Attempt: c.Attempt, Outcome: out, Finish: c.Finish, Model: c.Model,
		ResponseID: c.ResponseID, Usage: c.Usage, DurationMs: c.DurationMs,
	})
}

// screen holds a proposed call to what an event may carry. The host has judged
// it; what is more than the bounds is invalid, whatever the host says.
func (s *State) screen(p *ProposedCall) {
	switch p.Verdict {
	case VerdictOK, VerdictInvalid, VerdictForbidden, VerdictUnavailable:
	default:
		p.Verdict, p.Problem = VerdictUnavailable, textUnavailable
	}
	p.Problem = blob.Cut(p.Problem, blob.InlineMax)
	if problem := s.controlProblem(p.Tool, p.Control); problem != "" {
		p.Control = nil
		if p.Verdict == VerdictOK {
			p.Verdict, p.Problem = VerdictInvalid, problem
		}
	}
}

// planTurn decides what follows a turn, and the next one.
func planTurn(s *State, env Env) ([]Event, bool) {
	r := s.Active
	if r == nil || r.Ending != nil || r.Intake == intakeAsked || r.openBatch() || s.Context.Compaction.Phase == CompactionRuns {
		return nil, false
	}
	switch t := &r.Turn; t.Status {
	case TurnInFlight, TurnRetrying:
		return nil, false
	case TurnOver:
		return s.afterFailure(r, env)
	case TurnDone:
		switch {
		case r.Closing != nil:
			return s.fail(r, *r.Closing), false
		case t.Outcome == OutcomeTools:
		case !r.unread():
			return s.complete(r), false
		case s.lastTurn(r) != nil || s.overBudget(r, env) != nil:
			// One more turn is not to be had: the answer stands, and the steer
			// gets a run of its own.
			return append(s.requeue(r), s.complete(r)...), false
		}
	}
	if !env.Driver {
		return nil, true
	}
	return s.nextTurn(r, env)
}

func (s *State) complete(r *Run) []Event {
	return append(s.settleRunPromises(r.ID, nil, system()), &RunCompleted{Run: r.ID, Output: r.Output})
}

// afterFailure ends the run of a turn that is over, or makes room for another
// try when the window was the reason.
func (s *State) afterFailure(r *Run, env Env) ([]Event, bool) {
	t := &r.Turn
	f := Failure{Kind: FailModel, Message: t.Message}
	switch {
	case t.Class == "context_length" && s.canCompact(r):
		if over := s.overBudget(r, env); over != nil {
			return s.fail(r, *over), false
		}
		if !env.Driver {
			return nil, true
		}
		return []Event{s.startCompaction(CutContext, r.CutTries > 0)}, false
	case r.Closing != nil:
		// The limit is why the run ends, with or without a last word.
		return s.fail(r, *r.Closing), false
	case t.Refused != nil:
		return s.fail(r, *t.Refused), false
	}
	switch t.Class {
	case "context_length":
		if c := &s.Context.Compaction; c.FailedAt == t.ID && c.Refused != nil {
			return s.fail(r, *c.Refused), false
		}
		f.Kind = FailContext
	case "invalid_request":
		f.Kind = FailRejected
	case "interrupted":
		f.Kind = FailInternal
	}
	if f.Message == "" {
		f.Message = "the model call failed: " + t.Class
	}
	return s.fail(r, f), false
}

// overTurns says which limit on the number of turns is reached.
func (s *State) overTurns(r *Run) *Failure {
	limit := func(name string, value, used int64) *Failure {
		return &Failure{Kind: FailLimit, Message: name + " is reached: " + strconv.FormatInt(used, 10) + " of " + strconv.FormatInt(value, 10), Limit: name, Value: value, Used: used}
	}
	switch l := r.Limits; {
	case r.Turns >= l.MaxTurns:
		return limit("maxTurns", l.MaxTurns, r.Turns)
	case l.MaxToolRounds > 0 && r.Rounds >= l.MaxToolRounds:
		return limit("maxToolRounds", l.MaxToolRounds, r.Rounds)
	}
	return nil
}

// lastTurn says why the next turn is the closing one.
func (s *State) lastTurn(r *Run) *Failure {
	if f := s.overTurns(r); f != nil {
		return f
	}
	return repeating(r)
}

// repeating says that the run goes in circles.
func repeating(r *Run) *Failure {
	most := r.Limits.MaxRepeats
	if most < 1 {
		return nil
	}
	if r.BadTurns >= most {
		return &Failure{Kind: FailTool, Message: "the calls of several turns in a row were all invalid", Limit: "maxRepeats", Value: most, Used: r.BadTurns}
	}
	for _, p := range r.Repeats {
		if p.Failures >= most {
			return &Failure{Kind: FailTool, Message: "the same call of " + p.Tool + " failed again and again", Limit: "maxRepeats", Value: most, Used: p.Failures}
		}
	}
	return nil
}

// overBudget says that the next call, with the steers that it would carry, does
// not fit what the run may use.
func (s *State) overBudget(r *Run, env Env) *Failure {
	out := r.Model.MaxOutput
	if out == 0 {
		out = DefaultOutput
	}
	prompt := s.PromptTokens()
	for i := range r.Steers {
		if r.Steers[i].Turn == 0 {
			prompt += tokensPerEntry + estimateParts(r.Steers[i].Text)
		}
	}
	if most, used := r.Limits.MaxTokens, r.Usage.Input+r.Usage.Output; most > 0 && used+prompt+out > most {
		return &Failure{Kind: FailLimit, Message: "the next model call does not fit maxTokens", Limit: "maxTokens", Value: most, Used: used}
	}
	cost := (prompt*env.InputPrice + out*env.OutputPrice + perMillion - 1) / perMillion
	if most, used := r.Limits.MaxCostMicros, r.Usage.CostMicros; most > 0 && used+cost > most {
		return &Failure{Kind: FailLimit, Message: "the next model call does not fit maxCostUsd", Limit: "maxCostUsd", Value: most, Used: used}
	}
	return nil
}

// perMillion: prices are for a million tokens.
const perMillion = 1_000_000

// nextTurn plans a model call. Each round does one thing and returns: cut,
// compact, take in what was said meanwhile, publish the offer, and ask.
func (s *State) nextTurn(r *Run, env Env) ([]Event, bool) {
	if cut := s.windowCut(r, env); cut != nil {
		return []Event{cut}, false
	}
	// Before steers join: one that no turn will carry gets a run of its own,
	// and its text must not be there twice. Before a summary, which is a call
	// like any other.
	if f := s.overBudget(r, env); f != nil {
		return s.fail(r, *f), false
	}
	if s.wantsCompaction(env) {
		return []Event{s.startCompaction(s.compactionReason(), false)}, false
	}
	if e := s.publish(env.Offer); e != nil {
		return []Event{e}, false
	}
	var ev []Event
	entry := s.Cursors.Entry
	for _, st := range r.Steers {
		if st.Turn == 0 {
			entry++
			ev = append(ev, &MessageAdded{Entry: entry, Run: r.ID, Role: RoleUser, Source: FromSteer, Steering: st.ID})
		}
	}
	if len(ev) > 0 {
		return ev, false
	}
	closing := s.lastTurn(r)
	if closing != nil && !r.Noted {
		return []Event{&MessageAdded{Entry: entry + 1, Run: r.ID, Role: RoleUser, Source: FromRuntime, Text: blob.Inline(closingText(closing))}}, false
	}
	return []Event{s.request(r, s.Cursors.Turn+1, 1, reasonFirst, "", closing)}, false
}

func closingText(f *Failure) string {
	return "[" + f.Message + ". No more tools will run in this task: answer now with what you have, and say what is left undone.]"
}

// request builds the claim of an attempt on the state as it is.
func (s *State) request(r *Run, turn ident.TurnID, attempt int, reason, class string, closing *Failure) *TurnRequested {
	m := r.Model
	if attempt > 1 {
		m = r.Turn.Model
	}
	e := &TurnRequested{
		Run: r.ID, Turn: turn, Attempt: attempt, Reason: reason, Class: class, Closing: closing, Model: m,
		Through: s.Context.last(), ContextRevision: s.Context.Revision, ConfigRevision: s.ConfigRevision,
		Toolset: s.Toolset.Revision, Estimate: s.PromptTokens(),
	}
	e.Fingerprint = s.fingerprint(e)
	return e
}

// retry claims the next attempt of the turn that is open.
func (s *State) retry(r *Run, reason string) *TurnRequested {
	return s.request(r, r.Turn.ID, r.Turn.Attempt+1, reason, r.Turn.Class, r.Closing)
}

// publish records the offer when it is not the one that is in force.
func (s *State) publish(o Offer) Event {
	if s.Toolset.Revision > 0 && string(s.Toolset.Ref) == o.Ref && equalTools(s.Toolset.Tools, o.Tools) {
		return nil
	}
	if s.Toolset.Revision == 0 && len(o.Tools) == 0 {
		return nil
	}
	return &ToolsPublished{Revision: s.Toolset.Revision + 1, Ref: blob.Ref(o.Ref), Size: o.Size, Tools: o.Tools}
}

func equalTools(a, b []ToolDef) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
