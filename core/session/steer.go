package session

import (
	"slices"

	"github.com/perdure/perdure/core/ident"
)

func (e *RunSteered) apply(s *State, en *Entry) error {
	r, err := s.active(e.Run)
	if err != nil {
		return err
	}
	if err := next("steering", &s.Cursors.Steering, e.Steering); err != nil {
		return err
	}
	r.Steers = append(slices.Clip(r.Steers), Steer{ID: e.Steering, Text: e.Text, At: en.At, By: e.By, Via: e.Via, Roles: e.Roles})
	return nil
}

// settle takes a steer off the run.
func (r *Run) settleSteer(id ident.SteeringID) error {
	i := slices.IndexFunc(r.Steers, func(st Steer) bool { return st.ID == id })
	if i < 0 {
		return diverge("steer", "%s is not pending", id)
	}
	r.Steers = slices.Delete(slices.Clone(r.Steers), i, i+1)
	return nil
}

func (e *RunSteerDelivered) apply(s *State, _ *Entry) error {
	r, err := s.active(e.Run)
	if err != nil {
		return err
	}
	return r.settleSteer(e.Steering)
}

func (e *RunSteerRequeued) apply(s *State, _ *Entry) error {
	r, err := s.active(e.Run)
	if err != nil {
		return err
	}
	return r.settleSteer(e.Steering)
}

func (e *RunSteerUndelivered) apply(s *State, _ *Entry) error {
	r, err := s.active(e.Run)
	if err != nil {
		return err
	}
	return r.settleSteer(e.Steering)
}

func (s *State) admitSteer(c *SteerRun) ([]Event, Reply, error) {
	if done, reply, err := c.prior(); done {
		return nil, reply, err
	}
	if s.Status == Closed {
		return nil, Reply{}, closed()
	}
	if c.Run == 0 || c.Run > s.Cursors.Run {
		return nil, Reply{}, rejectf(CodeNotFound, "there is no %s in this session", c.Run)
	}
	r := s.Active
	if r == nil || r.ID != c.Run || r.Ending != nil {
		return nil, Reply{}, rejectf(CodeRunNotActive, "%s is not running or waiting: send a new run instead", c.Run)
	}
	if err := checkInput(c.Text); err != nil {
		return nil, Reply{}, err
	}
	return s.steer(r, c.Text, c.Asked)
}

func (s *State) steer(r *Run, text []Part, by Asked) ([]Event, Reply, error) {
	if n := len(r.Steers); n >= SteersMax {
		return nil, Reply{}, bound("pending steers", int64(n), SteersMax)
	}
	id := s.Cursors.Steering + 1
	return []Event{&RunSteered{Run: r.ID, Steering: id, Text: text, Submission: by.Submission, Roles: by.Actor.Roles, Who: by.who()}},
		Reply{Run: r.ID, Steering: id}, nil
}

// undelivered ends the steers that no turn carried to its end.
func undelivered(r *Run) []Event {
	ev := make([]Event, 0, len(r.Steers))
	for _, st := range r.Steers {
		ev = append(ev, &RunSteerUndelivered{Run: r.ID, Steering: st.ID})
	}
	return ev
}

// requeue makes a front run of each steer that outlives its run (I10). The
// queue's bound does not count here: an acknowledged steer is never lost.
func (s *State) requeue(r *Run) []Event {
	var ev []Event
	run := s.Cursors.Run
	for _, st := range r.Steers {
		run++
		ev = append(ev,
			&RunAccepted{Run: run, Front: true, Input: st.Text, Config: r.Config, Steering: st.ID, Actor: Actor{ID: st.By, Roles: st.Roles}, Via: st.Via},
			&RunSteerRequeued{Run: r.ID, Steering: st.ID, Next: run})
	}
	return ev
}

// deliver marks the steers that the completed turn carried.
func (r *Run) deliver() []Event {
	var ev []Event
	for _, st := range r.Steers {
		if st.Turn == r.Turn.ID {
			ev = append(ev, &RunSteerDelivered{Run: r.ID, Steering: st.ID, Turn: r.Turn.ID})
		}
	}
	return ev
}

// unread says that a steer waits for a turn to carry it to its end. Those that
// the newest completed turn carried are delivered, so any that is left counts,
// also one that stands in the window already.
func (r *Run) unread() bool { return len(r.Steers) > 0 }
