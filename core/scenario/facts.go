package scenario

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
)

// facts is what the laws remember of the log, beside the state and without its
// help: what was started, ended, decided and said.
type facts struct {
	starts map[ident.CallID]int // attempts that may have done something
	unsent map[ident.CallID]int // faults of which it is certain that nothing was sent
	over   map[string]bool      // runs, calls, approvals, questions and promises that have ended
	steers map[ident.SteeringID]*steer
	claims map[session.Claim]bool // effects that were started
}

type steer struct {
	run    ident.RunID
	text   []session.Part
	status string
	next   ident.RunID
}

func newFacts() facts {
	return facts{
		starts: map[ident.CallID]int{}, unsent: map[ident.CallID]int{}, over: map[string]bool{}, steers: map[ident.SteeringID]*steer{},
		claims: map[session.Claim]bool{},
	}
}

// claimed holds that a claim is never taken for an earlier one. To look up what
// became of a call may be asked again.
func (f *facts) claimed(t tester, c session.Claim) {
	t.Helper()
	require.True(t, c.Kind == session.ClaimLookup || !f.claims[c], "%s is started again", c)
	f.claims[c] = true
}

// heard looks at an input before it is taken.
func (l *laws) heard(in session.Command) {
	if o, ok := in.(*session.ToolOutcome); ok && o.Fault != nil && o.Fault.NotSent {
		l.facts.unsent[o.Call]++
	}
}

// event checks one entry against what was before it.
func (w *world) event(env session.Env, before *session.State, en session.Entry) {
	w.t.Helper()
	require.Equal(w.t, before.Seq+1, en.Seq, "I1")
	switch e := en.Event.(type) {
	case *session.ContextEdited:
		w.laws.fresh = w.laws.fresh || !e.Compact
	case *session.ContextCut, *session.ToolsPublished, *session.SessionConfigured:
		w.laws.fresh = true
	case *session.TurnRequested:
		if e.Model != w.laws.model {
			w.laws.fresh, w.laws.model = true, e.Model
		}
		require.True(w.t, env.Driver, "an admission claims a model call")
	case *session.CompactionStarted:
		require.True(w.t, env.Driver, "an admission claims a summary")
	case *session.ToolStarted:
		w.started(env, before, e)
	case *session.ToolCompleted:
		w.end(ident.CallID{Turn: e.Turn, Index: e.Call}.String())
	case *session.ApprovalDecided:
		w.end(e.Approval.String())
	case *session.QuestionAnswered:
		w.end(e.Question.String())
	case *session.PromiseSettled:
		w.end(e.Promise.String())
	case *session.RunCompleted:
		w.end(e.Run.String())
	case *session.RunFailed:
		w.end(e.Run.String())
		if e.Failure.Limit == "maxTurns" {
			require.Equal(w.t, e.Failure.Used, before.Active.Turns, "the closing turn is counted")
		}
	case *session.RunCancelled:
		w.end(e.Run.String())
	case *session.CommandDead:
		w.end("message " + e.ID)
	}
	w.steering(en.Event)
}

// end is I8: whatever ends, ends once.
func (w *world) end(name string) {
	w.t.Helper()
	require.False(w.t, w.laws.facts.over[name], "I8: %s ends twice", name)
	w.laws.facts.over[name] = true
}

// started is I6 and I7: a call that must not run twice is not started twice,
// and a gated one only under a decision that covers it.
func (w *world) started(env session.Env, before *session.State, e *session.ToolStarted) {
	w.t.Helper()
	id := ident.CallID{Turn: e.Turn, Index: e.Call}
	require.False(w.t, w.laws.facts.over[id.String()], "I8: %s starts after its end", id)
	if e.Reason == "accepted" || e.Reason == "later" {
		return
	}
	require.True(w.t, env.Driver, "an admission claims a tool")
	if e.Reason == "lookup" {
		return
	}
	r := before.Active
	c := &r.Batch.Calls[e.Call-1]
	d := before.Toolset.Find(c.Tool)
	w.laws.facts.starts[id]++
	if !d.RetrySafe {
		require.LessOrEqual(w.t, w.laws.facts.starts[id], 1+w.laws.facts.unsent[id], "I6: %s of %s starts again", id, c.Tool)
	}
	repeat := slices.ContainsFunc(r.Unknowns, func(u session.Repeat) bool {
		return u.Tool == c.Tool && u.Arguments == effective(c).Content()
	})
	if e.Reason != "first" || !d.Gate.Ask && !repeat {
		return
	}
	i := slices.IndexFunc(r.Approvals, func(a session.Approval) bool { return a.ID == c.Approval })
	require.GreaterOrEqual(w.t, i, 0, "I7: %s starts and nobody was asked", id)
	a := r.Approvals[i]
	require.Equal(w.t, session.Approved, a.Status, "I7: %s starts undecided", id)
	require.Equal(w.t, c.Arguments.Content(), a.Arguments, "I7: %s has other arguments than were approved", id)
	if a.Edited != "" {
		require.Equal(w.t, a.Edited, effective(c).Content(), "I7: %s does not get the edit", id)
	} else {
		require.Equal(w.t, c.Arguments.Content(), effective(c).Content(), "I7: %s gets an edit that nobody made", id)
	}
	if served := slices.IndexFunc(env.Offer.Tools, func(d session.ToolDef) bool { return d.Name == c.Tool }); served >= 0 {
		require.Equal(w.t, env.Offer.Tools[served].Definition, a.Definition, "I7: %s is not what was approved", id)
	}
	if repeat {
		require.Equal(w.t, session.WhyRepeat, a.Why, "I7: %s repeats an unknown one under an approval that did not say so", id)
	}
}

func effective(c *session.Call) blob.Payload {
	if !c.Edited.IsZero() {
		return c.Edited
	}
	return c.Arguments
}

// steering follows what became of each steer (I10).
func (w *world) steering(ev session.Event) {
	w.t.Helper()
	steers := w.laws.facts.steers
	switch e := ev.(type) {
	case *session.RunSteered:
		steers[e.Steering] = &steer{run: e.Run, text: e.Text, status: session.Pending}
	case *session.RunSteerDelivered:
		w.endSteer(e.Steering, "delivered")
	case *session.RunSteerRequeued:
		w.endSteer(e.Steering, "requeued")
		steers[e.Steering].next = e.Next
	case *session.RunSteerUndelivered:
		w.endSteer(e.Steering, "undelivered")
	case *session.RunAccepted:
		if e.Steering != 0 {
			require.Equal(w.t, steers[e.Steering].text, e.Input, "I10: the run of %s has another text", e.Steering)
		}
	case *session.RunCompleted:
		w.endedBy(e.Run, false, true)
	case *session.RunFailed:
		limit := e.Failure.Limit != ""
		w.endedBy(e.Run, !limit, limit)
	case *session.RunCancelled:
		w.endedBy(e.Run, true, false)
	}
}

func (w *world) endSteer(id ident.SteeringID, status string) {
	w.t.Helper()
	st := w.laws.facts.steers[id]
	require.Equal(w.t, session.Pending, st.status, "I10: %s ends twice", id)
	st.status = status
}

// endedBy says that steers of a run that has ended so may be undelivered, or
// may have become runs.
func (w *world) endedBy(run ident.RunID, undelivered, requeued bool) {
	w.t.Helper()
	for id, st := range w.laws.facts.steers {
		if st.run != run {
			continue
		}
		require.NotEqual(w.t, session.Pending, st.status, "I10: %s is lost", id)
		require.True(w.t, st.status != "undelivered" || undelivered, "I10: %s is undelivered", id)
		require.True(w.t, st.status != "requeued" || requeued, "I10: %s is requeued", id)
	}
}

// settled looks at the state for what the log said is over, and at what ought
// to be known of the steers.
func (w *world) settled(s session.State) {
	w.t.Helper()
	over := w.laws.facts.over
	if r := s.Active; r != nil {
		require.False(w.t, over[r.ID.String()], "I8: %s goes on", r.ID)
	} else {
		for id, st := range w.laws.facts.steers {
			require.NotEqual(w.t, session.Pending, st.status, "I10: %s is lost", id)
		}
	}
	for _, q := range s.Queue {
		require.False(w.t, over[q.ID.String()], "I8: %s is queued", q.ID)
	}
}
