// Package machine binds a session's state to its position in the log: it feeds
// one input after another to the core's verbs and says what to commit and what
// to do after that.
//
// It performs nothing and knows no time but the instant it is given. It may
// import the standard library's slices and the packages of core below it.
package machine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
)

// Machine is one session at one position. It is not safe for concurrent use.
type Machine struct {
	state session.State
	next  *session.State // tentative; nil when no step is pending
}

// New binds a state that was folded from a log, or the zero state. Others may
// hold copies of it, and machines on it: none writes where another reads.
func New(s session.State) *Machine {
	s.Own()
	return &Machine{state: s}
}

// State is the committed state. The copy stays good after later steps.
func (m *Machine) State() session.State { return m.state }

// Head is the position of the committed state.
func (m *Machine) Head() ident.Seq { return m.state.Seq }

// Result is what became of one input of a step.
type Result struct {
	Reply session.Reply
	// Refused is set when the command was; it wrote nothing.
	Refused *session.Rejection
}

// Ready is what a step came to. The order is the law of the system: Entries
// must be durable, on a head still at Expect, BEFORE anything else here is
// true; Effects may start, and Cancels be carried out, only AFTER that. A step
// without entries needs no commit, and then has neither.
type Ready struct {
	Expect  ident.Seq
	Entries []session.Entry
	// Results has one element per input, in order. They may be told AFTER the
	// commit.
	Results []Result
	// Effects are claimed by Entries: each is performed once, AFTER.
	Effects []session.Effect
	// Cancels are effects under way that nobody waits for any more, or whose
	// partial outcome is wanted now.
	Cancels []session.Claim
	// WakeAt is when time alone will change the session: 0 is never. It
	// replaces every earlier one.
	WakeAt ident.Instant
	// Work says that a driver is needed: this step was taken by none.
	Work bool
	// State is the tentative state, to project from. It is not committed yet.
	State *session.State
}

// Observe is called for each entry of a step as it is applied, with the state
// before and after; what it keeps of them it must copy.
type Observe func(before *session.State, en session.Entry, after *session.State)

// Step feeds inputs to a tentative copy of the state, each followed by Plan
// until it rests. A refused input leaves no trace. An error is a *Divergence,
// or wraps ErrBatch or ErrTime: nothing of the step may be committed.
//
// What inputs carry from rows (Prior, Noted, Settled) was looked up before the
// step and knows nothing of its other inputs: no two of them may have the same
// idempotency key, or note the same message.
func (m *Machine) Step(env session.Env, observe Observe, inputs ...session.Command) (Ready, error) {
	if env.At < m.state.At {
		return Ready{}, fmt.Errorf("instant %d is before the last entry's %d: %w", env.At, m.state.At, ErrTime)
	}
	m.Drop()
	fork := m.state.Fork()
	st := &step{env: env, observe: observe, s: &fork}
	before := claims(&m.state)
	rd := Ready{Expect: m.state.Seq}
	for _, in := range inputs {
		if _, ok := in.(*session.Resume); ok {
			// Nobody performs anything now: what is in flight after this is
			// all to be done.
			before = nil
		}
		if c, ok := session.ClaimOf(in); ok {
			// It has ended by itself: there is nothing to cancel.
			before = slices.DeleteFunc(before, func(b session.Claim) bool { return b == c })
		}
		res, err := st.take(in)
		if err != nil {
			return Ready{}, err
		}
		rd.Results = append(rd.Results, res)
	}
	if len(inputs) == 0 {
		if err := st.plan(); err != nil {
			return Ready{}, err
		}
	}
	if len(st.entries) > session.BatchEventsMax {
		if len(inputs) > 1 {
			return Ready{}, fmt.Errorf("%d inputs make %d events: %w", len(inputs), len(st.entries), ErrBatch)
		}
		return Ready{}, &session.Divergence{Seq: m.state.Seq, Code: "batch", Detail: fmt.Sprintf("a step of %d events", len(st.entries))}
	}
	rd.Entries, rd.State, rd.Work = st.entries, st.s, st.work
	rd.WakeAt = st.s.NextWake(env)
	rd.Effects, rd.Cancels = difference(before, st.s, &m.state)
	if len(rd.Entries) > 0 {
		m.next = st.s
	}
	return rd, nil
}

// ErrBatch is wrapped when several inputs make more events than one commit
// holds. Nothing was taken; each of them alone fits.
var ErrBatch = errors.New("too many inputs for one step")

// ErrTime is wrapped when a step is given an instant before the last entry's.
var ErrTime = errors.New("time went back")

// Commit makes the tentative state the state: the batch is durable and the
// head is now at its last entry. After a step without entries there is nothing
// to do.
func (m *Machine) Commit(head ident.Seq) error {
	if m.next == nil && m.state.Seq == head {
		return nil
	}
	if m.next == nil || m.next.Seq != head {
		return &session.Divergence{Seq: head, Code: "commit", Detail: "the committed head is not the step's"}
	}
	m.state, m.next = *m.next, nil
	return nil
}

// Drop forgets the tentative state: its commit did not go through. The next
// step writes elsewhere, so copies of the dropped state stay what they are.
func (m *Machine) Drop() {
	if m.next != nil {
		m.next = nil
		m.state.Own()
	}
}

type step struct {
	env     session.Env
	observe Observe
	s       *session.State
	entries []session.Entry
	before  session.State // kept here: a copy per event would be garbage
	work    bool
}

// take admits one input and plans until the state rests. A wake is repeated:
// every deadline that has passed becomes its event, in order.
func (st *step) take(in session.Command) (Result, error) {
	_, wake := in.(*session.Wake)
	var res Result
	for round := 0; ; round++ {
		ev, reply, err := session.Admit(st.s, in, st.env)
		if rej, ok := errors.AsType[*session.Rejection](err); ok {
			return Result{Refused: rej}, nil
		}
		if err != nil {
			return Result{}, err
		}
		if round == 0 {
			res.Reply = reply
		}
		if err := st.apply(ev); err != nil {
			return Result{}, err
		}
		if err := st.plan(); err != nil {
			return Result{}, err
		}
		if !wake || len(ev) == 0 || len(st.entries) > session.BatchEventsMax/2 {
			return res, nil
		}
	}
}

func (st *step) plan() error {
	for range session.PlanRounds {
		ev, work := session.Plan(st.s, st.env)
		st.work = work
		if len(ev) == 0 {
			return nil
		}
		if err := st.apply(ev); err != nil {
			return err
		}
	}
	return &session.Divergence{Seq: st.s.Seq, Code: "plan", Detail: "planning does not come to rest"}
}

func (st *step) apply(ev []session.Event) error {
	for _, e := range ev {
		en := session.Entry{Seq: st.s.Seq + 1, At: st.env.At, Event: e}
		if st.observe != nil {
			// The observer is shown what was before: nothing of it may be
			// changed in place.
			st.before = *st.s
			*st.s = st.before.Fork()
		}
		if err := session.Apply(st.s, en); err != nil {
			return err
		}
		st.entries = append(st.entries, en)
		if st.observe != nil {
			st.observe(&st.before, en, st.s)
		}
	}
	return nil
}

// claims lists what is in flight, by claim.
func claims(s *session.State) []session.Claim {
	var out []session.Claim
	for _, e := range s.InFlight() {
		out = append(out, e.Claim())
	}
	return out
}

// difference says what to start and what to stop: in flight after and not
// before, and the other way round. An ending run's model call is stopped while
// it is still in flight, so that its partial text comes back.
func difference(before []session.Claim, after, committed *session.State) (start []session.Effect, stop []session.Claim) {
	flying := after.InFlight()
	var now []session.Claim
	for _, e := range flying {
		c := e.Claim()
		now = append(now, c)
		if !slices.Contains(before, c) {
			start = append(start, e)
		}
	}
	for _, c := range before {
		if !slices.Contains(now, c) {
			stop = append(stop, c)
		}
	}
	ending := after.Active != nil && after.Active.Ending != nil
	was := committed.Active != nil && committed.Active.Ending != nil
	if ending && !was {
		for _, c := range now {
			if c.Kind == session.ClaimModel && slices.Contains(before, c) {
				stop = append(stop, c)
			}
		}
	}
	return start, stop
}
