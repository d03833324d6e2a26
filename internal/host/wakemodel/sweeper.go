package wakemodel

// seen says whether the sweep sees the head. Of a driver that is parked with a
// deadline it sees nothing until that has passed; of all else it may at once.
func (h *Head) seen() bool { return h.Due && (h.Status != Parked || h.Deadline != ToCome) }

// sweeper looks after a head that is overdue. What it does depends on the head
// as it read it, and on what the engine says then.
func (m *mover) sweeper(i int) {
	const who = "a sweep"
	a, h := &m.from.Sweepers[i], &m.from.Head
	me := func(t *State) *Actor { return &t.Sweepers[i] }
	end := func(t *State) { *me(t) = Actor{} }
	giveUp := func(t *State) { *me(t) = Actor{Step: Step{At: reads}, Of: true} }

	switch a.At {
	case gone:
	case nowhere:
		switch {
		case !h.seen():
		case m.p.has(separateEpoch):
			m.sweepsApart(who)
		default:
			m.add(System, who, "reads the head", func(t *State) {
				*me(t) = Actor{Step: Step{At: looks, Fresh: true}, Status: h.Status, Of: true}
			})
		}
	case looks:
		switch a.Status {
		case Starting:
			m.starts(who, giveUp, end)
		case Parked, Waking:
			m.token(who, me)
		case Running:
			m.add(System, who, "finds a driver overdue", func(t *State) { me(t).At = asks })
		case Idle:
			m.add(System, who, "takes the mark from a head at rest", func(t *State) {
				if end(t); a.Fresh {
					t.wrote()
					t.Head.Due = false
				}
			})
		}
	case wakes:
		if a.Token {
			m.wakes(who, me, end)
			return
		}
		m.add(System, who, "finds the token no good", func(t *State) {
			if me(t).At = asks; !a.Of {
				end(t)
			}
		})
	case asks:
		m.asks(who, me, giveUp)
	case revives:
		m.starts(who, giveUp, end)
	case extends:
		m.add(System, who, "lets the driver go on", func(t *State) {
			if end(t); a.Fresh {
				t.wrote()
			}
		})
	default:
		m.supersede(who, func(t *State) *Step { return &me(t).Step }, func(t *State) {
			*me(t) = Actor{Step: Step{At: starts}, Of: true}
		}, end)
		m.fault(who, "dies", end)
	}
}

// asks is DescribeExecution, for the driver.
func (m *mover) asks(who string, me func(t *State) *Actor, giveUp func(t *State)) {
	x := &m.from.Exec
	unknown := func(t *State) { me(t).At = revives }
	switch {
	case m.p.has(SweepsBlindly):
		m.add(System, who, "gives the driver up", giveUp)
		return
	case x.In == unborn:
		m.add(System, who, "finds no execution", unknown)
		return
	case !x.alive():
		m.add(System, who, "finds the execution over", giveUp)
	default:
		m.add(System, who, "finds the execution alive", func(t *State) { me(t).At = extends })
		if me(m.from).Status != Parked {
			m.fault(who, "finds no progress, and stops the execution", func(t *State) {
				t.stop()
				giveUp(t)
			})
		}
	}
	m.add(World, who, "finds no execution, because descriptions lag", unknown)
}
