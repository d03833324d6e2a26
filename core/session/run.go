package session

import (
	"slices"

	"github.com/perdure/perdure/core/ident"
)

func (e *RunAccepted) apply(s *State, en *Entry) error {
	if err := next("run", &s.Cursors.Run, e.Run); err != nil {
		return err
	}
	r := &Run{
		ID: e.Run, Mode: e.Mode, Front: e.Front, Input: e.Input, Config: e.Config, Submission: e.Submission,
		Steering: e.Steering, Promise: e.Promise, Actor: e.Actor, Via: e.Via, FirstSeq: en.Seq, AcceptedAt: en.At, gen: s.gen,
	}
	// Front runs stand before the others, among themselves in order of
	// admission (I4).
	i := len(s.Queue)
	if e.Front {
		i = 0
		for i < len(s.Queue) && s.Queue[i].Front {
			i++
		}
	}
	q := make([]*Run, 0, len(s.Queue)+1)
	q = append(q, s.Queue[:i]...)
	q = append(q, r)
	s.Queue = append(q, s.Queue[i:]...)
	s.Totals.Runs++
	return nil
}

func (e *RunStarted) apply(s *State, en *Entry) error {
	if s.Active != nil || len(s.Queue) == 0 || s.Queue[0].ID != e.Run {
		return diverge("run", "%s started and is not the head of the queue", e.Run)
	}
	r := *s.Queue[0]
	r.gen = s.gen
	r.StartedAt = en.At
	r.FirstEntry, r.FirstTurn = s.Cursors.Entry+1, s.Cursors.Turn+1
	r.Model, r.Limits = s.Config.merge(r.Config)
	s.Queue = s.Queue[1:]
	s.Active = &r
	return nil
}

func (e *RunWaiting) apply(s *State, en *Entry) error {
	r, err := s.active(e.Run)
	if err != nil {
		return err
	}
	r.Wait.end(en.At)
	r.Wait.On, r.Wait.Since, r.Wait.Person = e.On, en.At, e.Person
	return nil
}

func (e *RunResumed) apply(s *State, en *Entry) error {
	r, err := s.active(e.Run)
	if err != nil {
		return err
	}
	r.Wait.end(en.At)
	return nil
}

// end closes a span of waiting; time spent on a person does not count.
func (w *Wait) end(at ident.Instant) {
	if w.Since != 0 && w.Person {
		w.PersonMs += int64(at - w.Since)
	}
	w.On, w.Since, w.Person = nil, 0, false
}

func (e *RunCancelRequested) apply(s *State, en *Entry) error {
	r, err := s.active(e.Run)
	if err != nil {
		return err
	}
	end := Ending{At: en.At, Failure: e.Failure, Force: e.Force, Who: e.Who}
	if r.Ending != nil {
		// The first request counts for the watchdog and for how the run ends;
		// a later one can only add force.
		end = *r.Ending
		end.Force = true
	}
	r.Ending = &end
	return nil
}

func (e *RunCompleted) apply(s *State, en *Entry) error { return s.endRun(e.Run, en) }

func (e *RunFailed) apply(s *State, en *Entry) error { return s.endRun(e.Run, en) }

func (e *RunCancelled) apply(s *State, en *Entry) error {
	if s.Active == nil || s.Active.ID != e.Run {
		i := slices.IndexFunc(s.Queue, func(r *Run) bool { return r.ID == e.Run })
		if i < 0 {
			return diverge("run", "%s is neither active nor queued", e.Run)
		}
		q := make([]*Run, 0, len(s.Queue)-1)
		q = append(q, s.Queue[:i]...)
		s.Queue = append(q, s.Queue[i+1:]...)
		return nil
	}
	return s.endRun(e.Run, en)
}

// endRun takes the active run out of state; its row is written beside.
func (s *State) endRun(id ident.RunID, _ *Entry) error {
	r, err := s.active(id)
	switch {
	case err != nil:
		return err
	case r.openBatch():
		return diverge("run", "%s ended with open calls", id)
	case r.Turn.Status == TurnInFlight || r.Turn.Status == TurnRetrying:
		return diverge("run", "%s ended with %s open", id, r.Turn.ID)
	case len(r.Steers) > 0:
		return diverge("run", "%s ended with an unsettled steer", id)
	case slices.ContainsFunc(s.Promises, func(p Promise) bool { return p.Run == id && p.Status == Pending }):
		return diverge("run", "%s ended with a pending promise", id)
	}
	s.Active = nil
	// What only the run could await is not needed any more.
	s.Promises = slices.DeleteFunc(slices.Clone(s.Promises), func(p Promise) bool { return p.Run == id && p.Status != Pending })
	return nil
}

// prior answers a repeated submission: the same is a no-op with the first
// answer, another is a conflict, whatever state the session is in now.
func (a Asked) prior() (done bool, reply Reply, err error) {
	switch {
	case a.Submission.IsZero() || a.Prior == nil:
		return false, Reply{}, nil
	case a.Prior.Digest != a.Submission.Digest:
		return true, Reply{}, reject(CodeSubmissionConflict, "this submission id was used for something else in this session: take another id")
	}
	return true, Reply{Run: a.Prior.Run, Steering: a.Prior.Steering, Same: true}, nil
}

// checkInput holds for runs, steers and context entries.
func checkInput(parts []Part) error {
	if len(parts) == 0 {
		return reject(CodeValidation, "input is empty")
	}
	if len(parts) > PartsMax {
		return bound("input parts", int64(len(parts)), PartsMax)
	}
	for _, p := range parts {
		if p.Blob == "" && p.Text.IsZero() {
			return reject(CodeValidation, "input has an empty part")
		}
	}
	return nil
}

func (s *State) admitRun(c *RequestRun, env Env) ([]Event, Reply, error) {
	if done, reply, err := c.prior(); done {
		return nil, reply, err
	}
	if s.Status == Closed {
		return nil, Reply{}, closed()
	}
	if err := checkInput(c.Input); err != nil {
		return nil, Reply{}, err
	}
	model, limits := s.Config.merge(c.Config)
	if model.Model == "" {
		return nil, Reply{}, reject(CodeValidation, "config.model: another provider needs a model of its own")
	}
	if limits.MaxTurns < 1 || limits.MaxTokens < 0 || limits.MaxSeconds < 0 || limits.MaxToolRounds < 0 || limits.MaxCostMicros < 0 || limits.MaxRepeats < -1 {
		return nil, Reply{}, reject(CodeValidation, "config.limits has a negative limit")
	}
	if limits.MaxCostMicros > 0 && !env.Priced {
		return nil, Reply{}, reject(CodeValidation, "limits.maxCostUsd needs a model with a known price")
	}
	busy := s.Active != nil || len(s.Queue) > 0
	cancelling := s.Active != nil && s.Active.Ending != nil
	front := false
	switch c.Mode {
	case "", ModeQueue:
	case ModeReject:
		if busy {
			return nil, Reply{}, reject(CodeSessionBusy, "a run is active or queued, and the mode is reject")
		}
	case ModeSteer:
		if s.Active != nil && !cancelling {
			return s.steer(s.Active, c.Input, c.Asked)
		}
		front = cancelling
	case ModeInterrupt:
		front = busy
	default:
		return nil, Reply{}, rejectf(CodeValidation, "mode is queue, steer, interrupt or reject")
	}
	if n := len(s.Queue); n >= QueueMax {
		return nil, Reply{}, bound("queued runs", int64(n), QueueMax)
	}
	id := s.Cursors.Run + 1
	ev := []Event{&RunAccepted{Run: id, Mode: c.Mode, Front: front, Input: c.Input, Config: c.Config, Submission: c.Submission, Actor: c.Actor, Via: c.Via}}
	if c.Mode == ModeInterrupt && s.Active != nil && !cancelling {
		ev = append(ev, &RunCancelRequested{Run: s.Active.ID, Who: c.who()})
	}
	return ev, Reply{Run: id}, nil
}

func (s *State) admitCancel(c *CancelRun) ([]Event, Reply, error) {
	if done, reply, err := c.prior(); done {
		return nil, reply, err
	}
	reply := Reply{Run: c.Run}
	if c.Run == 0 || c.Run > s.Cursors.Run {
		return nil, Reply{}, rejectf(CodeNotFound, "there is no %s in this session", c.Run)
	}
	if slices.ContainsFunc(s.Queue, func(r *Run) bool { return r.ID == c.Run }) {
		return []Event{&RunCancelled{Run: c.Run, Submission: c.Submission, Who: c.who()}}, reply, nil
	}
	r := s.Active
	if r == nil || r.ID != c.Run || r.Ending != nil && (!c.Force || r.Ending.Force) {
		reply.Same = true
		return nil, reply, nil
	}
	return []Event{&RunCancelRequested{Run: c.Run, Force: c.Force, Submission: c.Submission, Who: c.who()}}, reply, nil
}

// planQueue starts the head of the queue. A summary in the making holds it.
func planQueue(s *State, _ Env) ([]Event, bool) {
	if s.Status != Open || s.Active != nil || len(s.Queue) == 0 || s.Context.Compaction.Phase == CompactionRuns {
		return nil, false
	}
	q := s.Queue[0]
	return []Event{
		&RunStarted{Run: q.ID},
		&MessageAdded{Entry: s.Cursors.Entry + 1, Run: q.ID, Role: RoleUser, Source: FromInput},
	}, false
}

// planEnding drains a run that was asked to stop: what is open gets its result,
// and the run ends as soon as no model call is in flight (its partial text is
// still wanted), or at once when forced.
func planEnding(s *State, _ Env) ([]Event, bool) {
	r := s.Active
	if r == nil || r.Ending == nil {
		return nil, false
	}
	if ev := s.settleCalls(r); len(ev) > 0 {
		return ev, false
	}
	switch r.Turn.Status {
	case TurnRetrying:
		return []Event{&TurnCancelled{Run: r.ID, Turn: r.Turn.ID, Attempt: r.Turn.Attempt}}, false
	case TurnInFlight:
		if !r.Ending.Force {
			return nil, false
		}
		return []Event{&TurnCancelled{Run: r.ID, Turn: r.Turn.ID, Attempt: r.Turn.Attempt}}, false
	}
	var ev []Event
	if c := &s.Context.Compaction; c.Phase == CompactionRuns {
		ev = append(ev, &CompactionFailed{Class: Cancelled})
	}
	if f := r.Ending.Failure; f != nil {
		return append(ev, s.fail(r, *f)...), false
	}
	ev = append(ev, s.settleRunPromises(r.ID, nil, system())...)
	ev = append(ev, undelivered(r)...)
	return append(ev, &RunCancelled{Run: r.ID, Output: r.Output, Who: r.Ending.Who}), false
}

// fail ends the active run. A limit gives its steers a run of their own at the
// front of the queue; other failures leave them undelivered, with their text.
func (s *State) fail(r *Run, f Failure) []Event {
	var ev []Event
	if f.Kind == FailLimit || f.Kind == FailQuota || r.Closing != nil {
		ev = s.requeue(r)
	} else {
		ev = undelivered(r)
	}
	ev = append(ev, s.settleRunPromises(r.ID, nil, system())...)
	if f.Kind == FailContext || f.Kind == FailRejected {
		// What the model will not take must not stand in the next run's way.
		if cut := s.cutFailedRun(r); cut != nil {
			ev = append(ev, cut)
		}
	}
	return append(ev, &RunFailed{Run: r.ID, Failure: f, Output: r.Output})
}
