package wakemodel

// invocation is one of drive: its machine's, or one that nobody hears.
type invocation struct {
	who    string
	ahead  int8
	call   func(t *State) *Call
	finish func(t *State, next what)
	moved  func(t *State) // has rolled over, and has the next to start
}

// drive does a slice: it sees whether it may claim, claims with its first write,
// and goes on until it must wait, a call must run elsewhere, or its time is
// over.
func (m *mover) drive(v *invocation) {
	h, c := &m.from.Head, *v.call(m.from)
	switch c.At {
	case begins:
		m.begins(v)
	case opened:
		if !c.Fresh {
			m.add(System, v.who, "meets a conflict, and reads again", func(t *State) { v.call(t).At = begins })
			return
		}
		m.writes(v, "claims and ", func(t *State) {
			t.claimed(v.ahead)
			v.call(t).Mine = true
			t.Head.Status, t.Head.Due = Running, !m.p.has(ClaimsUnseen)
		})
	case plans:
		if !c.Fresh {
			m.reloads(v)
			return
		}
		m.writes(v, "", func(t *State) {
			if m.p.has(separateEpoch) {
				t.Head.Status, t.Head.Due = Running, false
			}
		})
	case effect:
		m.add(System, v.who, "has its model's answer", func(t *State) { v.call(t).At = outcome })
		if c.Fresh && c.Mine {
			m.add(System, v.who, "says that it is at work", func(t *State) {
				t.wrote()
				v.call(t).Fresh = true
			})
		}
	case outcome:
		switch {
		case !c.Fresh:
			m.reloads(v)
		case !h.Pend:
			m.add(System, v.who, "finds its answer out of date", func(t *State) { v.call(t).At = plans })
		default:
			m.result(v)
		}
	default:
		m.supersede(v.who, func(t *State) *Step { return &v.call(t).Step }, v.moved, func(t *State) { v.finish(t, nextDone) })
	}
}

// begins reads the head and sees what the step may claim.
func (m *mover) begins(v *invocation) {
	h := &m.from.Head
	switch {
	case h.Status == Idle:
		m.add(System, v.who, "finds the session at rest", func(t *State) { v.finish(t, nextDone) })
	case m.p.has(WithoutClaims):
		m.add(System, v.who, "reads the head", func(t *State) {
			*v.call(t) = Call{Step: Step{At: plans, Fresh: true}, Mine: true}
		})
	case v.ahead == 1, v.ahead == 0 && h.Status == Running:
		m.add(System, v.who, "reads the head, and may claim", func(t *State) {
			*v.call(t) = Call{Step: Step{At: opened, Fresh: true}}
		})
	default:
		m.displaced(v)
	}
}

// displaced is who finds another claim than its own. One of a newer epoch ends
// it; of its own, only it can tell its machine to go on.
func (m *mover) displaced(v *invocation) {
	if m.from.Head.Status == Idle || m.p.has(DisplacedEnds) || m.p.has(separateEpoch) {
		m.add(System, v.who, "is displaced, and ends", func(t *State) { v.finish(t, nextDone) })
		return
	}
	m.add(System, v.who, "is displaced, and asks for the next step", func(t *State) { v.finish(t, nextAgain) })
}

// reloads is who sees, or is told by a conflict, that the head has moved.
func (m *mover) reloads(v *invocation) {
	if !v.call(m.from).Mine {
		m.displaced(v)
		return
	}
	m.add(System, v.who, "reloads", func(t *State) { v.call(t).Fresh = true })
}

// writes is what a driver that knows the head does: an effect begins after the
// commit that claims it, and only then.
func (m *mover) writes(v *invocation, claims string, claim func(t *State)) {
	h := &m.from.Head
	commit := func(t *State) {
		t.wrote()
		claim(t)
		v.call(t).Fresh = true
	}
	begin := func(t *State) {
		commit(t)
		t.Head.intend()
	}
	switch {
	case h.work():
		m.add(System, v.who, claims+"begins an effect", func(t *State) {
			begin(t)
			v.call(t).At = effect
		})
		if !m.p.has(separateEpoch) {
			m.add(System, v.who, claims+"leaves a call to tool", func(t *State) {
				begin(t)
				v.finish(t, nextTools)
			})
		}
		if v.call(m.from).At == plans {
			m.add(System, v.who, "has no more time, and asks for the next step", func(t *State) { v.finish(t, nextAgain) })
		}
	case !m.session.Waits:
		m.add(System, v.who, claims+"comes to rest", func(t *State) {
			commit(t)
			t.Head.Status, t.Head.Due = Idle, false
			v.finish(t, nextDone)
		})
	case v.call(m.from).At == opened:
		m.add(System, v.who, "claims, with nothing to do", func(t *State) {
			commit(t)
			v.call(t).At = plans
		})
	default:
		m.add(System, v.who, "plans to wait", func(t *State) { v.finish(t, nextWait) })
	}
}

// intend claims an effect for what there is to do.
func (h *Head) intend() {
	h.Work, h.Pend = false, true
	if h.Deadline == Passed {
		h.Deadline = DealtWith
	}
}

// result commits what the model has answered, and in the same commit what
// follows from it.
func (m *mover) result(v *invocation) {
	h := &m.from.Head
	commit := func(t *State) {
		t.wrote()
		v.call(t).Fresh = true
		t.Head.Pend = false
	}
	if more := h.Work || h.Deadline == Passed; more {
		m.add(System, v.who, "commits its result, and the next effect", func(t *State) {
			commit(t)
			t.Head.intend()
			v.call(t).At = effect
		})
	} else if !m.session.Waits {
		m.add(System, v.who, "commits its result, and comes to rest", func(t *State) {
			commit(t)
			t.Head.Status, t.Head.Due = Idle, false
			v.finish(t, nextDone)
		})
		return
	}
	m.add(System, v.who, "commits its result", func(t *State) {
		commit(t)
		v.call(t).At = plans
	})
}
