package wakemodel

// Protocol is the protocol of DESIGN §4, with what was changed in it: the zero
// value is the protocol. A change leaves one rule out, or is one of two designs
// that came before.
type Protocol uint32

// Rules that may be left out, to see what for they are.
const (
	// WithoutClaims lets every invocation of the head's epoch work.
	WithoutClaims Protocol = 1 << iota
	// DisplacedEnds lets who finds another claim of its own epoch end its
	// execution, instead of asking for the next step.
	DisplacedEnds
	// ParksBlindly lets park not compare the head with the one that was planned
	// on.
	ParksBlindly
	// ParksSilently lets park, when it is refused, leave its token as it is.
	ParksSilently
	// StartsUnseen and WakesUnseen let an admission that owes a start or a wake
	// not write by when.
	StartsUnseen
	WakesUnseen
	// ClaimsUnseen lets a claim not write by when it is overdue.
	ClaimsUnseen
	// ParksUnseen lets a park with a deadline not write by when it is overdue.
	ParksUnseen
	// ClosedRuns takes an execution that has ended for one that runs.
	ClosedRuns
	// SweepsBlindly lets the sweep give up a driver without asking for it.
	SweepsBlindly
	// WaitsForever lets the machine's wait not end with the deadline, and the
	// sweep not look for one.
	WaitsForever

	// separateEpoch lets an admission start the next epoch in a write of its own,
	// mark every admission as due, and let drive and park take the mark away.
	separateEpoch
	// replacesRunning lets the sweep of such a design replace a driver that runs
	// and is overdue; without it, it does nothing about it.
	replacesRunning

	// DesignA and DesignB are the designs that came before: the first pays twice
	// for an effect that runs, the second loses wake-ups.
	DesignA = separateEpoch | WithoutClaims | replacesRunning
	DesignB = separateEpoch | WithoutClaims
)

func (p Protocol) has(rule Protocol) bool { return p&rule != 0 }

// Kind says who is behind a move.
type Kind uint8

const (
	// System is what goes on by itself.
	System Kind = iota
	// World is what comes from outside, or after so long that nobody may wait
	// for it.
	World
	// Fault is what goes wrong.
	Fault
)

// Move is a step of somebody, and the state that it makes.
type Move struct {
	Kind Kind
	Who  string
	What string
	// Breaks is the rule that the move itself breaks, if it does.
	Breaks string
	To     State
}

// Session is what a session is like, for as long as the model runs.
type Session struct {
	// Waits says that there is something left to wait for when there is nothing
	// to do, so the driver parks; otherwise it comes to rest.
	Waits bool
	// Deadline says that what it waits for has a deadline.
	Deadline bool
}

// mover collects the moves of one state.
type mover struct {
	p       Protocol
	session Session
	from    *State
	out     []Move
}

// Moves returns everything that may happen next.
func (p Protocol) Moves(session Session, s *State) []Move { return p.moves(session, s, nil) }

// moves appends to out.
func (p Protocol) moves(session Session, s *State, out []Move) []Move {
	m := &mover{p: p, session: session, from: s, out: out}
	for i := range s.Admitters {
		m.admitter(i)
	}
	m.execution()
	m.former()
	m.zombie()
	m.parker()
	for i := range s.Sweepers {
		m.sweeper(i)
	}
	if s.Head.Deadline == ToCome && s.Head.Status != Idle {
		m.add(World, "the deadline", "passes", func(t *State) { t.Head.Deadline = Passed })
	}
	return m.out
}

func (m *mover) add(kind Kind, who, what string, change func(t *State)) *Move {
	m.out = append(m.out, Move{Kind: kind, Who: who, What: what, To: *m.from})
	move := &m.out[len(m.out)-1]
	change(&move.To)
	move.To.ordered()
	return move
}

// fault is add for what goes wrong, while something may.
func (m *mover) fault(who, what string, change func(t *State)) {
	if m.from.Faults == 0 {
		return
	}
	m.add(Fault, who, what, func(t *State) {
		t.Faults--
		change(t)
	})
}

// work says whether there is something for a driver to do.
func (h *Head) work() bool { return h.Work || h.Pend || h.Deadline == Passed }

// start is StartExecution for the head's epoch. It says whether the name runs
// now.
func (m *mover) start(t *State) (runs bool) {
	if t.Exec.In == unborn {
		t.Exec = Execution{In: model, Ahead: 1}
	}
	return t.Exec.alive() || m.p.has(ClosedRuns)
}

// complete is SendTaskSuccess with a token that would wake somebody.
func complete(t *State) {
	t.left()
	t.Exec.In, t.Exec.Park = model, Parking{}
}

// supersede gives the head's epoch up for the next one. moved is what becomes of
// who has done it, with the next to start; end of who finds it done.
func (m *mover) supersede(who string, of func(t *State) *Step, moved, end func(t *State)) {
	switch of(m.from).At { //nolint:exhaustive // who is elsewhere gives nothing up
	case reads:
		if m.from.Head.Status == Idle {
			m.add(System, who, "finds the session at rest", end)
			return
		}
		m.add(System, who, "reads the head, to give the epoch up", func(t *State) { *of(t) = Step{At: writes, Fresh: true} })
	case writes:
		if !of(m.from).Fresh {
			m.add(System, who, "meets a conflict, and reads again", func(t *State) { of(t).At = reads })
			return
		}
		move := m.add(System, who, "moves the head to the next epoch, starting", func(t *State) {
			t.wrote()
			t.next()
			t.Head.Status, t.Head.Due = Starting, !m.p.has(StartsUnseen)
			moved(t)
		})
		move.Breaks = m.from.fences()
	case starts:
		m.starts(who, func(t *State) { of(t).At = reads }, end)
	}
}

// fences says what it would break to move the head to the next epoch now. That
// an invocation loses its claim whose machine has failed is not to be helped.
func (s *State) fences() string {
	working := func(c *Call) bool { return c.Mine && (c.At == effect || c.At == outcome) }
	if s.Exec.In == driving && working(&s.Exec.Call) || s.Exec.In == ended && working(&s.Zombie.Call) {
		return LiveDriverFenced
	}
	return ""
}

// starts is StartExecution; an execution that is closed already is given up for
// the next.
func (m *mover) starts(who string, giveUp, end func(t *State)) {
	m.add(System, who, "starts the execution", func(t *State) {
		if m.start(t) {
			end(t)
			return
		}
		giveUp(t)
	})
}
