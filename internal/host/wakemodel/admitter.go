package wakemodel

// admitter is a process that admits commands: it decides on a head, commits
// under the condition that nobody has written it since, and then does what its
// commit owes.
func (m *mover) admitter(i int) {
	const who = "an admitter"
	a := &m.from.Admitters[i]
	me := func(t *State) *Actor { return &t.Admitters[i] }
	end := func(t *State) { t.Admitters[i] = Actor{} }

	switch a.At {
	case gone:
		return
	case nowhere:
		if m.from.Commands > 0 {
			m.add(World, who, "takes a command, and reads the head", func(t *State) {
				t.Commands--
				me(t).Step = Step{At: decides, Fresh: true}
			})
		}
		return
	case decides:
		m.decides(who, me, end)
		return
	case owes:
		if a.Status == Starting {
			m.starts(who, func(t *State) { me(t).At = reads }, end)
		} else {
			m.token(who, me)
		}
	case wakes:
		m.wakes(who, me, end)
	case counts, again:
		m.countsApart(who, me, end)
	default:
		m.supersede(who, func(t *State) *Step { return &me(t).Step }, func(t *State) {
			*me(t) = Actor{Step: Step{At: starts}, Of: true}
		}, end)
	}
	m.fault(who, "dies", end)
}

// decides commits what a command comes to, and with it that a driver is owed.
func (m *mover) decides(who string, me func(t *State) *Actor, end func(t *State)) {
	h := &m.from.Head
	if !me(m.from).Fresh {
		m.add(World, who, "meets a conflict, and reads again", func(t *State) { me(t).Fresh = true })
		return
	}
	if h.Status != Idle {
		m.add(World, who, "commits what makes no work", func(t *State) {
			t.wrote()
			end(t)
		})
	}
	if m.p.has(separateEpoch) {
		m.admitsApart(who, me)
		return
	}
	m.add(World, who, "commits work", func(t *State) {
		t.wrote()
		end(t)
		t.Head.Work = true
		switch h.Status {
		case Starting, Running, Waking:
			// The driver's next write fails, and it looks again.
		case Idle:
			t.next()
			t.Head.Status, t.Head.Due = Starting, !m.p.has(StartsUnseen)
			*me(t) = Actor{Step: Step{At: owes}, Status: Starting, Of: true}
		case Parked:
			t.Head.Status, t.Head.Due = Waking, !m.p.has(WakesUnseen)
			*me(t) = Actor{Step: Step{At: owes}, Status: Waking}
		}
	})
}

// token reads the token that the session is parked on.
func (m *mover) token(who string, me func(t *State) *Actor) {
	m.add(System, who, "reads the token", func(t *State) {
		me(t).At, me(t).Token = wakes, t.Head.Token
	})
}

// wakes completes the token that was read. That it is no good is no failure.
func (m *mover) wakes(who string, me func(t *State) *Actor, end func(t *State)) {
	m.add(System, who, "completes the token", func(t *State) {
		good := me(t).Token
		end(t)
		if good {
			complete(t)
		}
	})
}
