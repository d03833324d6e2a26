package session

import (
	"slices"

	"github.com/perdure/perdure/core/ident"
)

// Apply folds one committed entry into a state. It is total over the kinds of
// this build: an error is a *Divergence and leaves s unusable.
func Apply(s *State, en Entry) error {
	if en.Seq != s.Seq+1 {
		return at(en, diverge("seq", "entry %d follows %d", en.Seq, s.Seq))
	}
	if en.At < s.At {
		return at(en, diverge("time", "entry is of %d, the one before of %d", en.At, s.At))
	}
	_, opens := en.Event.(*SessionOpened)
	if (s.Status == New) != opens {
		return at(en, diverge("lifecycle", "%s in a session that is %q", en.Event.Kind(), s.Status))
	}
	if err := en.Event.apply(s, &en); err != nil {
		return at(en, err)
	}
	s.Seq, s.At = en.Seq, en.At
	return nil
}

// at puts the position on a divergence.
func at(en Entry, err error) error {
	if d, ok := err.(*Divergence); ok { //nolint:errorlint // made in this package, never wrapped
		d.Seq = en.Seq
		return d
	}
	return err
}

// Own makes s a state that the caller may fold into: what it shares with
// copies made before is copied before it is changed or added to. Two owners of
// copies of one state may fold at the same time.
func (s *State) Own() {
	s.gen++
	s.Context.Entries = slices.Clip(s.Context.Entries)
}

func next[T ~uint64](what string, cursor *T, id T) error {
	if id != *cursor+1 {
		return diverge("id", "%s %d follows %d", what, uint64(id), uint64(*cursor))
	}
	*cursor = id
	return nil
}

// active returns the active run for changing, if it is the one named.
func (s *State) active(id ident.RunID) (*Run, error) {
	if s.Active == nil || s.Active.ID != id {
		return nil, diverge("run", "%s is not the active run", id)
	}
	return s.run(), nil
}

// turn returns the active run for changing, if that is its newest turn.
func (s *State) turn(run ident.RunID, turn ident.TurnID) (*Run, error) {
	r, err := s.active(run)
	if err != nil {
		return nil, err
	}
	if r.Turn.ID != turn {
		return nil, diverge("turn", "%s is not the newest turn, %s is", turn, r.Turn.ID)
	}
	return r, nil
}

// call returns an open call of the active run's batch for changing.
func (s *State) call(run ident.RunID, turn ident.TurnID, index int) (*Run, *Call, error) {
	r, err := s.active(run)
	if err != nil {
		return nil, nil, err
	}
	if r.Batch == nil || r.Batch.Turn != turn {
		return nil, nil, diverge("batch", "%s has no open batch", turn)
	}
	c := r.batch().call(index)
	if c == nil {
		return nil, nil, diverge("call", "%s has no call %d", turn, index)
	}
	return r, c, nil
}

func (e *SessionOpened) apply(s *State, en *Entry) error {
	s.Status, s.Inc, s.OpenedAt = Open, e.Inc, en.At
	s.Config, s.ConfigRevision = e.Config, 1
	s.Context.Revision = 1
	return nil
}

func (e *SessionConfigured) apply(s *State, _ *Entry) error {
	if e.Revision != s.ConfigRevision+1 {
		return diverge("revision", "config revision %d follows %d", e.Revision, s.ConfigRevision)
	}
	s.Config, s.ConfigRevision = e.Config, e.Revision
	return nil
}

func (e *SessionClosed) apply(s *State, en *Entry) error {
	if s.Active != nil || len(s.Queue) > 0 {
		return diverge("lifecycle", "closed with work in hand")
	}
	s.Status, s.ClosedAt = Closed, en.At
	s.Context.Compaction = CompactionPlan{}
	return nil
}

func (e *SessionQuarantined) apply(*State, *Entry) error { return nil }

func (e *SessionReleased) apply(*State, *Entry) error { return nil }

// Admit decides whether a command becomes events. It returns the events, or a
// *Rejection; no events and no error mean that it was so already. It moves
// nothing.
func Admit(s *State, c Command, env Env) ([]Event, Reply, error) {
	if s.Status == New {
		if o, ok := c.(*OpenSession); ok {
			return s.admitOpen(o)
		}
		return nil, Reply{}, reject(CodeNotFound, "there is no such session")
	}
	switch c := c.(type) {
	case *OpenSession:
		return nil, Reply{Same: true}, nil
	case *Configure:
		return s.admitConfigure(c)
	case *CloseSession:
		return s.admitClose(c)
	case *ReleaseSession:
		return []Event{&SessionReleased{Who: c.who()}}, Reply{}, nil
	case *RequestRun:
		return s.admitRun(c, env)
	case *SteerRun:
		return s.admitSteer(c)
	case *CancelRun:
		return s.admitCancel(c)
	case *DecideApprovals:
		return s.admitDecisions(c, env)
	case *AnswerQuestion:
		return s.admitAnswer(c)
	case *ForgetRemembered:
		return s.admitForget(c)
	case *SettlePromise:
		return s.admitSettle(c)
	case *EditContext:
		return s.admitEdit(c)
	case *CompactContext:
		return s.admitCompact(c)
	case *NoteDead:
		return s.admitDead(c)
	case *Wake:
		ev := s.due(env)
		return ev, Reply{Same: len(ev) == 0}, nil
	case *Resume:
		return s.admitResume(env)
	case *ModelOutcome:
		return s.admitModel(c, env)
	case *ToolOutcome:
		return s.admitTool(c, env)
	case *CompactionOutcome:
		return s.admitCompaction(c, env)
	}
	return nil, Reply{}, diverge("command", "unknown command %T", c)
}

func (s *State) admitOpen(c *OpenSession) ([]Event, Reply, error) {
	cfg := c.Config.WithDefaults()
	if err := cfg.validate(); err != nil {
		return nil, Reply{}, err
	}
	return []Event{&SessionOpened{Inc: c.Inc, Config: cfg, Who: c.who()}}, Reply{Revision: 1}, nil
}

func (s *State) admitConfigure(c *Configure) ([]Event, Reply, error) {
	if s.Status == Closed {
		return nil, Reply{}, closed()
	}
	if c.IfRevision >= 0 && c.IfRevision != s.ConfigRevision {
		return nil, Reply{}, stale("config", c.IfRevision, s.ConfigRevision)
	}
	cfg := c.Config.WithDefaults()
	// Identical comes before busy, so that a retry is harmless at any time.
	if cfg.equal(s.Config) {
		return nil, Reply{Same: true, Revision: s.ConfigRevision}, nil
	}
	if s.busy() {
		return nil, Reply{}, reject(CodeSessionBusy, "the config changes only while no run is active or queued: wait, or cancel them")
	}
	if err := cfg.validate(); err != nil {
		return nil, Reply{}, err
	}
	rev := s.ConfigRevision + 1
	return []Event{&SessionConfigured{Revision: rev, Config: cfg, Who: c.who()}}, Reply{Revision: rev}, nil
}

func closed() *Rejection {
	return reject(CodeSessionClosed, "the session is closed; its history can be read, new work needs a new session")
}

// busy says that a run is active or queued, or a summary is being made.
func (s *State) busy() bool {
	return s.Active != nil || len(s.Queue) > 0 || s.Context.Compaction.Phase == CompactionRuns
}

func (s *State) admitClose(c *CloseSession) ([]Event, Reply, error) {
	if s.Status == Closed {
		if c.Force {
			return nil, Reply{Same: true}, nil
		}
		return nil, Reply{}, closed()
	}
	if !c.Force {
		if s.busy() || s.Context.Compaction.Phase == CompactionPending || s.pendingPromises() > 0 {
			return nil, Reply{}, reject(CodeSessionBusy, "runs, promises or a compaction are under way: wait, cancel them, or close with force")
		}
		return []Event{&SessionClosed{Who: c.who()}}, Reply{}, nil
	}
	// Everything ends in one commit: the worst case (32 open calls with their
	// approvals, 32 promises, 16 steers, 33 runs) stays below BatchEventsMax.
	var ev []Event
	if r := s.Active; r != nil {
		ev = append(ev, s.settleCalls(r)...)
		if r.Turn.Status == TurnInFlight || r.Turn.Status == TurnRetrying {
			ev = append(ev, &TurnCancelled{Run: r.ID, Turn: r.Turn.ID, Attempt: r.Turn.Attempt})
		}
		ev = append(ev, s.settleRunPromises(r.ID, ev, system())...)
		ev = append(ev, undelivered(r)...)
		ev = append(ev, &RunCancelled{Run: r.ID, Output: r.Output, Who: c.who()})
	}
	for _, q := range s.Queue {
		ev = append(ev, &RunCancelled{Run: q.ID, Who: c.who()})
	}
	// The call of a detached promise has answered: nothing above settles it.
	ev = append(ev, s.settleRunPromises(0, nil, c.who())...)
	return append(ev, &SessionClosed{Force: true, Who: c.who()}), Reply{}, nil
}
