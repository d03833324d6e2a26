package session

import (
	"slices"
	"strings"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
)

func (e *PromiseCreated) apply(s *State, en *Entry) error {
	_, c, err := s.call(e.Run, e.Turn, e.Call)
	if err != nil {
		return err
	}
	if err := next("promise", &s.Cursors.Promise, e.Promise); err != nil {
		return err
	}
	c.Promise = e.Promise
	s.Promises = append(slices.Clip(s.Promises), Promise{
		ID: e.Promise, Run: e.Run, Turn: e.Turn, Call: e.Call, Tool: e.Tool, Source: e.Source, Joined: e.Joined,
		Status: Pending, At: en.At, Deadline: e.Deadline,
	})
	return nil
}

func (e *PromiseSettled) apply(s *State, _ *Entry) error {
	s.Promises = slices.Clone(s.Promises)
	p := s.promise(e.Promise)
	if p == nil || p.Status != Pending {
		return diverge("promise", "%s is not pending", e.Promise)
	}
	p.Status, p.Value, p.Error = e.Status, e.Value, e.Error
	if r := s.Active; r != nil && r.ID == p.Run {
		s.charge(s.run(), e.Usage)
	} else {
		s.charge(nil, e.Usage)
	}
	if p.Run == 0 || p.Joined && s.answeredCall(p) {
		// Nobody can await it any more.
		s.forget(p.ID)
		return nil
	}
	settled := len(s.Promises) - s.pendingPromises()
	for i := 0; settled > SettledMax && i < len(s.Promises); {
		if s.Promises[i].Status == Pending || s.Promises[i].Joined {
			i++
			continue
		}
		s.Promises = slices.Delete(s.Promises, i, i+1)
		settled--
	}
	return nil
}

// answeredCall says that the call of a promise has its result.
func (s *State) answeredCall(p *Promise) bool {
	r := s.Active
	if r == nil || r.Batch == nil || r.Batch.Turn != p.Turn {
		return true
	}
	c := r.Batch.call(p.Call)
	return c == nil || c.terminal()
}

// forget takes a promise out of state; its row has what became of it.
func (s *State) forget(id ident.PromiseID) {
	s.Promises = slices.DeleteFunc(slices.Clone(s.Promises), func(p Promise) bool { return p.ID == id })
}

func (e *PromiseDetached) apply(s *State, _ *Entry) error {
	r, err := s.active(e.Run)
	if err != nil {
		return err
	}
	s.Promises = slices.Clone(s.Promises)
	p := s.promise(e.Promise)
	if p == nil || p.Status != Pending || p.Run != e.Run {
		return diverge("promise", "%s is not a pending promise of %s", e.Promise, e.Run)
	}
	p.Run, p.Actor = 0, r.Actor
	return nil
}

func (s *State) pendingPromises() int {
	n := 0
	for i := range s.Promises {
		if s.Promises[i].Status == Pending {
			n++
		}
	}
	return n
}

// create makes the promise of a call that answers later, in the commit that
// starts it (row 10).
func (s *State) create(r *Run, c *Call, class string, now ident.Instant, ids *Cursors) *PromiseCreated {
	ids.Promise++
	p := &PromiseCreated{Promise: ids.Promise, Run: r.ID, Turn: r.Batch.Turn, Call: c.Index, Tool: c.Tool, Source: SourceOutside, Joined: class != ClassPromise}
	wait := PromiseDefault
	if d := s.Toolset.Find(c.Tool); d != nil && d.DeadlineMs > 0 {
		wait = d.DeadlineMs
	}
	if class == ClassSleep {
		p.Source, wait = SourceTimer, 0
		if c.Control != nil {
			wait = c.Control.SleepMs
		}
	}
	p.Deadline = now.Add(min(wait, PromiseMax))
	return p
}

// settleRunPromises cancels what dies with its run, or what is detached for no
// run, but for what the events before have settled already.
func (s *State) settleRunPromises(run ident.RunID, before []Event, who Who) []Event {
	var ev []Event
	for i := range s.Promises {
		p := &s.Promises[i]
		settled := slices.ContainsFunc(before, func(e Event) bool {
			b, ok := e.(*PromiseSettled)
			return ok && b.Promise == p.ID
		})
		if p.Run == run && p.Status == Pending && !settled {
			ev = append(ev, &PromiseSettled{Promise: p.ID, Run: run, Status: Cancelled, Who: who})
		}
	}
	return ev
}

func (s *State) admitSettle(c *SettlePromise) ([]Event, Reply, error) {
	p := s.promise(c.Promise)
	if p == nil {
		p = c.Settled
	}
	if p == nil {
		return nil, Reply{}, rejectf(CodeNotFound, "there is no %s", c.Promise)
	}
	if p.Status != Pending {
		if p.Status == c.Status && p.Value.Content() == c.Value.Content() && p.Error.Content() == c.Error.Content() {
			return nil, Reply{Same: true}, nil
		}
		rej := rejectf(CodeAlreadyDecided, "%s is %s already", c.Promise, p.Status)
		rej.Decision = &Decided{Status: p.Status}
		return nil, Reply{}, rej
	}
	if c.Status != Resolved && c.Status != Failed {
		return nil, Reply{}, reject(CodeValidation, "status is resolved or failed")
	}
	return s.settle(p, &PromiseSettled{Promise: p.ID, Run: p.Run, Status: c.Status, Value: c.Value, Error: c.Error, Usage: c.Usage, Who: c.who()}), Reply{Run: p.Run}, nil
}

// settle ends a promise. A detached one has nobody waiting: its result becomes
// a run, so that an idle session wakes for it, exactly once.
func (s *State) settle(p *Promise, e *PromiseSettled) []Event {
	ev := []Event{e}
	if p.Run != 0 || e.Status == Cancelled || s.Status != Open {
		return ev
	}
	text := e.Value
	lead := p.ID.String() + " of " + p.Tool + " " + e.Status + ":"
	if e.Status != Resolved {
		text = e.Error
	}
	input := []Part{{Text: blob.Inline(lead)}}
	if !text.IsZero() {
		input = append(input, Part{Text: text})
	}
	return append(ev, &RunAccepted{
		Run: s.Cursors.Run + 1, Mode: ModeQueue, Input: input, Promise: p.ID,
		Actor: p.Actor, Via: ActorSystem,
	})
}

// look says what follows for a call that waits.
func (s *State) look(r *Run, c *Call, now ident.Instant) []Event {
	if s.class(c) == ClassAwait {
		return s.lookAwait(r, c, now)
	}
	p := s.promise(c.Promise)
	if p == nil || p.Status == Pending {
		return nil
	}
	switch {
	case p.Source == SourceTimer && p.Status == Resolved:
		return []Event{completed(r, c, CallCompleted, "The time has passed.")}
	case p.Status == Resolved:
		e := completed(r, c, CallCompleted, "")
		e.Result = p.Value
		return []Event{e}
	case p.Status == Cancelled:
		return []Event{completed(r, c, CallCancelled, textInterrupted)}
	}
	e := completed(r, c, CallFailed, "Failed: no result came in time.")
	if !p.Error.IsZero() {
		e.Error = p.Error
	}
	return []Event{e}
}

// awaitProblem says why an await cannot be: every id must be a promise of this
// run that the model owns. How many there are was screened.
func (s *State) awaitProblem(r *Run, c *Call) string {
	for _, id := range c.Control.Promises {
		if p := s.promise(id); p == nil || p.Joined || p.Run != r.ID {
			return "Failed: " + id.String() + " is not a promise of this task that can be awaited."
		}
	}
	return ""
}

// lookAwait ends an await when what it waits for is there or its time is up.
func (s *State) lookAwait(r *Run, c *Call, now ident.Instant) []Event {
	settled := 0
	for _, id := range c.Control.Promises {
		if p := s.promise(id); p == nil || p.Status != Pending {
			settled++
		}
	}
	done := settled == len(c.Control.Promises) || c.Control.Any && settled > 0
	if !done && (!c.Control.Timed || now < c.AwaitUntil) {
		return nil
	}
	e := completed(r, c, CallCompleted, "")
	e.Result = blob.Inline(s.snapshot(c.Control.Promises, done))
	if ids := c.Control.Promises; len(ids) == 1 {
		// One large value is the result itself: a reference would be of no
		// use to the model.
		if p := s.promise(ids[0]); p != nil && p.Status == Resolved && p.Value.Ref != "" {
			e.Result = p.Value
		}
	}
	return []Event{e}
}

// snapshot tells the model how each promise stands. Values that do not ride
// inline are named by reference, so the text stays bounded.
func (s *State) snapshot(ids []ident.PromiseID, done bool) string {
	var b strings.Builder
	if !done {
		b.WriteString("The time is up; what is pending can be awaited again.\n")
	}
	share := blob.InlineMax/max(len(ids), 1) - 64
	for _, id := range ids {
		b.WriteString(id.String())
		b.WriteString(": ")
		p := s.promise(id)
		if p == nil {
			b.WriteString("settled\n")
			continue
		}
		b.WriteString(p.Status)
		text := p.Value
		if p.Status != Resolved {
			text = p.Error
		}
		switch {
		case text.Ref != "":
			b.WriteString(" with " + string(text.Ref))
		case text.Text != "":
			b.WriteString(" " + blob.Cut(text.Text, max(share, 0)))
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// startControl runs detach and cancel: they act on state alone, and on what the
// model was given. The id of a promise whose call has not answered is a guess;
// how that call ends settles the promise, which must then still be the run's.
func (s *State) startControl(r *Run, c *Call, st *ToolStarted, class string) []Event {
	ev := []Event{st}
	var said strings.Builder
	var done []ident.PromiseID
	for _, id := range c.Control.Promises {
		p := s.promise(id)
		switch {
		case p == nil || p.Joined || p.Run != r.ID || !s.answeredCall(p):
			return []Event{st, completed(r, c, CallFailed, "Failed: "+id.String()+" is not a promise of this task.")}
		case slices.Contains(done, id):
			continue
		case p.Status != Pending && class == ClassDetach:
			return []Event{st, completed(r, c, CallFailed, "Failed: "+id.String()+" is "+p.Status+" already.")}
		case p.Status != Pending:
			said.WriteString(id.String() + ": was " + p.Status + " already\n")
		case class == ClassDetach:
			ev = append(ev, &PromiseDetached{Promise: id, Run: r.ID})
			said.WriteString(id.String() + ": detached; its result will start a new task\n")
		default:
			ev = append(ev, &PromiseSettled{Promise: id, Run: r.ID, Status: Cancelled, Who: Who{By: r.Actor.ID, Via: r.Via}})
			said.WriteString(id.String() + ": cancelled\n")
		}
		done = append(done, id)
	}
	return append(ev, completed(r, c, CallCompleted, strings.TrimSuffix(said.String(), "\n")))
}
