package wakemodel

// The designs that came before, as far as they differ: an admission marks the
// head as due, and starts the next epoch in a write of its own.

func (m *mover) admitsApart(who string, me func(t *State) *Actor) {
	h := &m.from.Head
	m.add(World, who, "commits work", func(t *State) {
		t.wrote()
		t.Head.Work, t.Head.Due = true, true
		*me(t) = Actor{}
		switch h.Status {
		case Starting, Running, Waking:
		case Idle:
			*me(t) = Actor{Step: Step{At: counts, Fresh: true}}
		case Parked:
			*me(t) = Actor{Step: Step{At: owes}, Status: Waking}
		}
	})
}

func (m *mover) countsApart(who string, me func(t *State) *Actor, end func(t *State)) {
	a, h := me(m.from), &m.from.Head
	if a.At == again {
		m.add(System, who, "looks again", func(t *State) {
			end(t)
			switch {
			case h.Work && h.Status == Idle:
				*me(t) = Actor{Step: Step{At: counts, Fresh: true}}
			case h.Work && h.Status == Parked:
				*me(t) = Actor{Step: Step{At: owes}, Status: Waking}
			}
		})
		return
	}
	if !a.Fresh {
		m.add(System, who, "does not get to start the next epoch", func(t *State) { me(t).At = again })
		return
	}
	m.add(System, who, "starts the next epoch", func(t *State) {
		t.wrote()
		t.next()
		t.Head.Status = Running
		*me(t) = Actor{Step: Step{At: owes}, Status: Starting, Of: true}
	})
}

func (m *mover) sweepsApart(who string) {
	h := m.from.Head
	switch {
	case h.Status == Parked && h.Token:
		m.add(System, who, "completes the token", complete)
	case h.Status != Running, m.p.has(replacesRunning):
		move := m.add(System, who, "starts the next epoch, and its execution", func(t *State) {
			t.wrote()
			t.next()
			t.Head.Status, t.Head.Due = Running, true
			m.start(t)
		})
		move.Breaks = m.from.fences()
	}
}
