package wakemodel

// execution is the execution of the head's epoch, with the functions that it
// runs.
func (m *mover) execution() {
	const who = "the execution"
	end := func(t *State) { t.Exec = Execution{In: ended} }
	fail := func(t *State) { t.Exec = Execution{In: dead} }

	switch m.from.Exec.In {
	case unborn, ended, dead:
	case model:
		if m.from.Exec.Rolls {
			m.add(System, who, "invokes drive, to roll over", func(t *State) {
				t.Exec.In, t.Exec.Call = driving, recovery()
			})
			return
		}
		m.add(System, who, "invokes drive", func(t *State) {
			t.Exec.In, t.Exec.Call = driving, Call{Step: Step{At: begins}}
		})
		if m.from.Rollovers > 0 && !m.p.has(separateEpoch) {
			m.add(World, who, "has come to the step with which it rolls over", func(t *State) {
				t.Rollovers--
				t.Exec.Rolls = true
			})
		}
	case driving:
		m.drive(&invocation{
			who: "drive", ahead: m.from.Exec.Ahead, call: func(t *State) *Call { return &t.Exec.Call },
			finish: func(t *State, next what) { t.Exec.follow(next) },
			moved:  func(t *State) { t.Former = Step{At: starts} },
		})
		m.driveFails()
	case tools:
		m.add(System, "tool", "commits its call's result", func(t *State) {
			t.Exec.In = model
			if t.Head.Pend {
				t.wrote()
				t.Head.Pend = false
			}
		})
		m.fault(who, "loses its call", func(t *State) { t.Exec.In = model })
		m.fault(who, "fails", fail)
	case waiting:
		m.waits()
	case recovering:
		m.supersede("drive, recovering,", func(t *State) *Step { return &t.Exec.Call.Step }, func(t *State) { t.Former = Step{At: starts} }, end)
		m.fault(who, "loses drive, recovering, and asks again", func(t *State) { t.Exec.Call = recovery() })
		m.fault(who, "fails", fail)
	}
}

// former is the execution of the epoch before, which has moved the head on.
func (m *mover) former() {
	if m.from.Former.At == nowhere {
		return
	}
	const who = "drive, for the epoch before,"
	end := func(t *State) { t.Former = Step{} }
	m.supersede(who, func(t *State) *Step { return &t.Former }, func(t *State) { t.Former = Step{At: starts} }, end)
	m.fault(who, "dies", end)
}

func recovery() Call { return Call{Step: Step{At: reads}} }

// what a slice says that follows.
type what uint8

const (
	nextAgain what = iota
	nextTools
	nextWait
	nextDone
)

// follow does what the slice that was running says.
func (x *Execution) follow(next what) {
	call := x.Call
	x.Call = Call{}
	// It was claimed, so the next is one ahead; without claims it is no more.
	x.Ahead = min(x.Ahead+1, 1)
	switch next {
	case nextAgain:
		x.In = model
	case nextTools:
		x.In = tools
	case nextWait:
		x.In, x.Park = waiting, Parking{On: true, Mine: call.Mine, Fresh: call.Fresh}
	case nextDone:
		*x = Execution{In: ended}
	}
}

// driveFails is every way in which a machine loses an invocation of drive: it is
// dead, or nobody knows and it goes on.
func (m *mover) driveFails() {
	const who = "the execution"
	then := []struct {
		what string
		goOn func(t *State)
	}{
		{"and asks again", func(t *State) { t.Exec.In, t.Exec.Call = model, Call{} }},
		{"and recovers", func(t *State) { t.Exec.In, t.Exec.Call = recovering, recovery() }},
		{"and fails", func(t *State) { t.Exec = Execution{In: dead} }},
	}
	for _, c := range then {
		m.fault(who, "loses drive "+c.what, c.goOn)
	}
	if m.from.Zombie.On {
		return
	}
	for _, c := range then {
		m.fault(who, "gives drive up, which goes on, "+c.what, func(t *State) {
			t.Zombie = Zombie{On: true, Ahead: t.Exec.Ahead, Call: t.Exec.Call}
			c.goOn(t)
		})
	}
}

// waits is the state Wait: park registers its token, or completes it; somebody
// else does that; or the time is over.
func (m *mover) waits() {
	const who = "the execution"
	p := m.from.Exec.Park
	if p.On {
		m.park("park", p, true, func(t *State) { t.Exec.Park = Parking{} })
	}
	kind := World // it looks after 30 days, which nobody may wait for
	if m.from.Head.Deadline == Passed && !m.p.has(WaitsForever) {
		kind = System
	}
	m.add(kind, who, "has waited long enough", func(t *State) {
		t.abandon()
		t.left()
		t.Exec.In, t.Exec.Park = model, Parking{}
	})

	// Park is asked again with another token, whatever the first has done.
	again := func(t *State) {
		t.left()
		t.Exec.Park = Parking{On: true, Mine: p.Mine, Fresh: p.Fresh}
	}
	giveUp := func(t *State) {
		t.left()
		t.Exec.In, t.Exec.Park, t.Exec.Call = recovering, Parking{}, recovery()
	}
	m.fault(who, "loses park, or its answer, and asks again", again)
	m.fault(who, "loses park, or its answer, and recovers", giveUp)
	m.fault(who, "is stopped", func(t *State) { t.stop() })
	if p.On && !m.from.Parker.On {
		m.fault(who, "gives park up, which goes on, and asks again", func(t *State) {
			t.abandon()
			again(t)
		})
		m.fault(who, "gives park up, which goes on, and recovers", func(t *State) {
			t.abandon()
			giveUp(t)
		})
	}
}

// abandon leaves an invocation alone that has not come to its end.
func (s *State) abandon() {
	x := &s.Exec
	if x.In == driving && !s.Zombie.On {
		s.Zombie = Zombie{On: true, Ahead: x.Ahead, Call: x.Call}
	}
	if x.In == waiting && x.Park.On && !s.Parker.On {
		s.Parker = x.Park
	}
}

// stop ends the execution. What it ran goes on, and nobody hears of it.
func (s *State) stop() {
	s.abandon()
	s.left()
	s.Exec = Execution{In: dead}
}

// park registers a token if the head is the one that was planned on, and
// completes it otherwise. live is whether the token wakes somebody.
func (m *mover) park(who string, p Parking, live bool, end func(t *State)) {
	h := &m.from.Head
	if (p.Fresh || m.p.has(ParksBlindly)) && p.Mine && h.Status == Running {
		m.add(System, who, "registers its token", func(t *State) {
			t.wrote()
			end(t)
			t.Head.Status, t.Head.Token = Parked, live
			t.Head.Due = (h.Deadline == ToCome || h.Deadline == Passed) && !m.p.has(separateEpoch|ParksUnseen)
		})
		return
	}
	m.add(System, who, "finds the head moved", func(t *State) {
		end(t)
		if live && !m.p.has(ParksSilently) {
			complete(t)
		}
	})
}

// zombie is an invocation of drive whose answer nobody hears.
func (m *mover) zombie() {
	z := &m.from.Zombie
	if !z.On {
		return
	}
	const who = "the abandoned drive"
	end := func(t *State) { t.Zombie = Zombie{} }
	m.drive(&invocation{
		who: who, ahead: z.Ahead, call: func(t *State) *Call { return &t.Zombie.Call },
		finish: func(t *State, _ what) { end(t) },
		moved:  func(t *State) { t.Zombie = Zombie{On: true, Call: Call{Step: Step{At: starts}}} },
	})
	m.fault(who, "dies", end)
}

// parker is an invocation of park whose wait is over.
func (m *mover) parker() {
	if !m.from.Parker.On {
		return
	}
	const who = "the abandoned park"
	end := func(t *State) { t.Parker = Parking{} }
	m.park(who, m.from.Parker, false, end)
	m.fault(who, "dies", end)
}
