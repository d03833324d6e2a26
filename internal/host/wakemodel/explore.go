package wakemodel

import "slices"

// What Explore finds.
const (
	// Stuck: something is to be done, and nothing that goes on by itself leads to
	// its being done.
	Stuck = "there is work, and nobody will do it"
	// TwoEffects: two invocations perform an effect, and both may commit.
	TwoEffects = "two effects run, and both pass the fence"
	// LiveDriverFenced: a driver loses its claim while its effect runs, which is
	// paid for twice, though nothing has gone wrong with its machine.
	LiveDriverFenced = "a driver that is alive is given up while its effect runs"
	// TwoClaims: a claim is two invocations' own.
	TwoClaims = "two invocations hold the claim"
)

// Start is where Explore starts from: a session at rest.
type Start struct {
	Session Session
	// Commands come in, taken by so many admitters; so many sweeps may be under
	// way at once. Faults is how much may go wrong, Rollovers how often a drive
	// rolls over.
	Admitters, Commands, Sweepers, Faults, Rollovers int
	// StatesMax is how many states it looks at; more is Result.Cut.
	StatesMax int
}

// Violation is a rule that does not hold, and the shortest way to where it does
// not.
type Violation struct {
	What  string
	Trace []string
}

// Result is what Explore has found.
type Result struct {
	States     int
	Violations []Violation // the first of each kind
	// Cut says that there were more states than it may look at.
	Cut bool
}

// Explore looks at every state that can be reached, breadth first.
func (p Protocol) Explore(start Start) Result {
	s := State{Faults: uint8(start.Faults), Rollovers: uint8(start.Rollovers), Commands: uint8(start.Commands)}
	for i := start.Admitters; i < admittersMax; i++ {
		s.Admitters[i].At = gone
	}
	for i := start.Sweepers; i < sweepersMax; i++ {
		s.Sweepers[i].At = gone
	}
	if start.Session.Deadline {
		s.Head.Deadline = ToCome
	}
	s.ordered()
	e := &explorer{p: p, start: start, known: map[key]int32{}, words: map[words]uint16{}, found: map[string]bool{}}
	e.meet(&s, -1, words{})
	for n := int32(0); len(e.queue) > 0 && !e.result.Cut; n++ {
		next := e.queue[0]
		e.queue = e.queue[1:]
		e.expand(n, &next)
	}
	e.result.States = len(e.by)
	if !e.result.Cut {
		e.stuck()
	}
	return e.result
}

// words are those of a move: who does what.
type words struct{ who, what string }

// step is how a state was first reached.
type step struct {
	from  int32
	words uint16
}

// explorer numbers states in the order in which it meets them.
type explorer struct {
	p     Protocol
	start Start
	queue []State // met, and not looked at
	known map[key]int32
	by    []step
	well  []bool // nothing is to be done there
	// edges are the moves of the system alone, from and to.
	edges [][2]int32
	moves []Move // of the state in hand

	words map[words]uint16
	said  []words

	found  map[string]bool
	result Result
}

// meet returns a state's number.
func (e *explorer) meet(s *State, from int32, by words) int32 {
	k := s.key()
	if n, ok := e.known[k]; ok {
		return n
	}
	n := int32(len(e.by))
	e.known[k] = n
	e.queue = append(e.queue, *s)
	e.by = append(e.by, step{from: from, words: e.number(by)})
	e.well = append(e.well, s.settled())
	if e.start.StatesMax > 0 && len(e.by) > e.start.StatesMax {
		e.result.Cut = true
	}
	if rule := s.broken(); rule != "" {
		e.violation(rule, n)
	}
	return n
}

func (e *explorer) number(w words) uint16 {
	n, ok := e.words[w]
	if !ok {
		n = uint16(len(e.said))
		e.words[w], e.said = n, append(e.said, w)
	}
	return n
}

func (e *explorer) expand(n int32, s *State) {
	e.moves = e.p.moves(e.start.Session, s, e.moves[:0])
	for i := range e.moves {
		m := &e.moves[i]
		to := e.meet(&m.To, n, words{m.Who, m.What})
		if m.Kind == System && to != n {
			e.edges = append(e.edges, [2]int32{n, to})
		}
		if m.Breaks != "" {
			e.violation(m.Breaks, to)
		}
	}
}

// broken says which rule a state breaks.
func (s *State) broken() string {
	effects, claims := 0, 0
	for _, c := range []*Call{&s.Exec.Call, &s.Zombie.Call} {
		if c.At == nowhere || !c.Mine {
			continue
		}
		claims++
		if c.At == effect {
			effects++
		}
	}
	switch {
	case effects > 1:
		return TwoEffects
	case claims > 1:
		return TwoClaims
	}
	return ""
}

// settled says that nothing is to be done.
func (s *State) settled() bool {
	return !s.Head.work() && (s.Head.Status == Idle && !s.Head.Due || s.Head.Status == Parked)
}

// stuck looks for a state from which the system does not come to where nothing
// is to be done, by itself and with nothing more going wrong.
func (e *explorer) stuck() {
	slices.SortFunc(e.edges, func(a, b [2]int32) int { return int(a[1] - b[1]) })
	into := make([]int32, len(e.by)+1) // where the edges to each state begin
	for i, at := 0, 0; i <= len(e.by); i++ {
		for at < len(e.edges) && int(e.edges[at][1]) < i {
			at++
		}
		into[i] = int32(at)
	}
	var queue []int32
	for n, well := range e.well {
		if well {
			queue = append(queue, int32(n))
		}
	}
	for len(queue) > 0 {
		n := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, edge := range e.edges[into[n]:into[n+1]] {
			if !e.well[edge[0]] {
				e.well[edge[0]] = true
				queue = append(queue, edge[0])
			}
		}
	}
	if n := slices.Index(e.well, false); n >= 0 {
		e.violation(Stuck, int32(n))
	}
}

// violation notes the first state that breaks a rule; states are met by their
// distance, so the way to it is a shortest.
func (e *explorer) violation(rule string, n int32) {
	if e.found[rule] {
		return
	}
	e.found[rule] = true
	var trace []string
	for at := n; e.by[at].from >= 0; at = e.by[at].from {
		w := e.said[e.by[at].words]
		trace = append(trace, w.who+" "+w.what)
	}
	slices.Reverse(trace)
	e.result.Violations = append(e.result.Violations, Violation{What: rule, Trace: trace})
}
