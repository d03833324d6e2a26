package wakemodel

import (
	"cmp"
	"slices"
)

// How many processes may admit and sweep at once.
const (
	admittersMax = 3
	sweepersMax  = 2
)

// Status is the head's drive status.
type Status uint8

// The drive statuses of a head.
const (
	Idle Status = iota
	Starting
	Running
	Parked
	Waking
)

// Passing says how it stands with the deadline that a session waits for.
type Passing uint8

// A session has no deadline that matters, one to come, one that has passed and
// nobody has looked, or one that was dealt with.
const (
	NoDeadline Passing = iota
	ToCome
	Passed
	DealtWith
)

// Head is the session's head, and what its log comes to.
type Head struct {
	Status Status
	// Due is whether the sweeper will ever see it.
	Due bool
	// Work is whether there is something that nobody has begun, Pend whether an
	// effect was claimed and has no result.
	Work, Pend bool
	Deadline   Passing
	// Token is whether the token in the row "park" would wake somebody.
	Token bool
}

// place is where somebody stands in what it does.
type place uint8

const (
	nowhere place = iota
	gone          // left out

	// Of whoever gives an activation up for the next.
	reads  // the head
	writes // the next epoch into it
	starts // the next execution

	// Of an invocation of drive.
	begins  // has read nothing
	opened  // knows the head, and what it may claim
	plans   // has claimed
	effect  // waits for the model
	outcome // has its answer

	// Of an admission.
	decides // knows the head
	owes    // has committed, and must start or wake
	wakes   // has read the token
	counts  // of the designs that fail: writes the next epoch
	again   // of them too: looks again

	// Of a sweep.
	looks   // knows the head
	asks    // the engine, whether the driver is there
	revives // starts a name that the engine does not know
	extends // lets a driver that is there go on
)

// Step is somebody on the way through one of the protocol's procedures.
type Step struct {
	At place
	// Fresh is whether the head is as it last saw it.
	Fresh bool
}

// Call is one invocation of drive.
type Call struct {
	Step

	// Mine is whether its claim is the last one.
	Mine bool
}

// phase is the state that an execution is in.
type phase uint8

const (
	unborn phase = iota
	model        // is about to invoke drive
	driving
	tools
	waiting
	recovering
	ended // by itself
	dead  // failed, timed out or stopped
)

// Execution is the execution of the head's epoch.
type Execution struct {
	In phase
	// Ahead is the number of its step less the head's: 1 is the next, and may be
	// claimed; 0 is the one that was claimed last.
	Ahead int8
	// Rolls says that its step is one with which the drive rolls over.
	Rolls bool
	Call  Call // of drive, while it runs
	Park  Parking
}

// Parking is one invocation of park.
type Parking struct {
	On          bool // it has not come to its end
	Mine, Fresh bool // of what its driver planned on
}

func (x *Execution) alive() bool { return x.In != unborn && x.In != ended && x.In != dead }

// Actor is a process that admits or sweeps.
type Actor struct {
	Step

	Status Status // of the head, as it saw it
	Token  bool   // that the token which it has read would wake somebody
	// Of is whether the epoch that it knows is the head's.
	Of bool
}

// Zombie is an invocation of drive whose machine has given it up, and that goes
// on. Nobody hears what it says.
type Zombie struct {
	On    bool
	Ahead int8
	Call  Call
}

// State is everything at one moment. Whoever belongs to an epoch before the
// head's is left out: all that it can still do is to find that out.
type State struct {
	Head Head
	Exec Execution
	// Former is the execution of the epoch before, while it still has this one to
	// start.
	Former    Step
	Admitters [admittersMax]Actor
	Sweepers  [sweepersMax]Actor
	Zombie    Zombie
	// Parker is an invocation of park that its machine has given up: its token
	// wakes nobody.
	Parker Parking
	// Faults and Rollovers are how many may still be, Commands how many may still
	// come in.
	Faults, Rollovers, Commands uint8
}

// actors yields all who admit and sweep.
func (s *State) actors(yield func(a *Actor) bool) {
	for i := range s.Admitters {
		if !yield(&s.Admitters[i]) {
			return
		}
	}
	for i := range s.Sweepers {
		if !yield(&s.Sweepers[i]) {
			return
		}
	}
}

// wrote says that somebody has written the head: nobody knows it any more.
func (s *State) wrote() {
	s.Exec.Call.Fresh, s.Exec.Park.Fresh = false, false
	s.Former.Fresh, s.Zombie.Call.Fresh, s.Parker.Fresh = false, false, false
	for a := range s.actors {
		a.Fresh = false
	}
}

// claimed says that a claim was taken with a step that was so far ahead: no
// other holds.
func (s *State) claimed(ahead int8) {
	s.Exec.Call.Mine, s.Exec.Park.Mine, s.Zombie.Call.Mine, s.Parker.Mine = false, false, false, false
	s.Exec.Ahead -= ahead
	if s.Zombie.On {
		// A step that is over stays over, however long ago.
		s.Zombie.Ahead = max(s.Zombie.Ahead-ahead, -1)
	}
}

// next takes the head to the next epoch.
func (s *State) next() {
	s.Exec, s.Former, s.Zombie, s.Parker, s.Head.Token = Execution{}, Step{}, Zombie{}, Parking{}, false
	for a := range s.actors {
		a.outdated()
	}
}

// outdated is what becomes of who knows an epoch that is over. To wake is still
// to read the row "park" as it is then; to start, to ask and to give up come to
// nothing.
func (a *Actor) outdated() {
	a.Of, a.Token = false, false
	switch a.At { //nolint:exhaustive // the others know no epoch
	case reads, writes, starts, asks, revives, extends:
		*a = Actor{}
	case owes, looks:
		if a.Status != Parked && a.Status != Waking {
			*a = Actor{}
		}
	}
}

// left says that the execution is no longer in the wait that it was in: its
// token wakes nobody.
func (s *State) left() {
	s.Head.Token = false
	for a := range s.actors {
		a.Token = false
	}
}

// ordered puts those who do the same in an order: which of them is which is all
// the same.
func (s *State) ordered() {
	slices.SortFunc(s.Admitters[:], order)
	slices.SortFunc(s.Sweepers[:], order)
}

func order(a, b Actor) int {
	var x, y key
	a.pack(&x)
	b.pack(&y)
	return cmp.Compare(x.low, y.low)
}

// key is a state in few bits, for it is kept by the million. Two states have one
// key only if they are one.
type key struct {
	low, high uint64
	used      uint8
}

func (k *key) put(v, bits uint8) {
	if v >= 1<<bits {
		panic("a value of the model has more bits than were foreseen")
	}
	switch {
	case k.used < 64 && k.used+bits > 64:
		k.used = 64
		fallthrough
	case k.used >= 64:
		k.high |= uint64(v) << (k.used - 64)
	default:
		k.low |= uint64(v) << k.used
	}
	if k.used += bits; k.used > 128 {
		panic("a state of the model has more bits than were foreseen")
	}
}

func (k *key) flags(flags ...bool) {
	for _, f := range flags {
		var v uint8
		if f {
			v = 1
		}
		k.put(v, 1)
	}
}

func (c *Call) pack(k *key) {
	k.put(uint8(c.At), 5)
	k.flags(c.Fresh, c.Mine)
}

func (p *Parking) pack(k *key) { k.flags(p.On, p.Mine, p.Fresh) }

func (a *Actor) pack(k *key) {
	k.put(uint8(a.At), 5)
	k.put(uint8(a.Status), 3)
	k.flags(a.Fresh, a.Token, a.Of)
}

func (s *State) key() key {
	var k key
	h, x := &s.Head, &s.Exec
	k.put(uint8(h.Status), 3)
	k.put(uint8(h.Deadline), 2)
	k.flags(h.Due, h.Work, h.Pend, h.Token, x.Rolls, s.Former.Fresh, s.Zombie.On)
	k.put(uint8(x.In), 3)
	k.put(uint8(x.Ahead+1), 2)
	x.Call.pack(&k)
	x.Park.pack(&k)
	k.put(uint8(s.Former.At), 5)
	k.put(uint8(s.Zombie.Ahead+1), 2)
	s.Zombie.Call.pack(&k)
	s.Parker.pack(&k)
	k.put(s.Faults, 3)
	k.put(s.Rollovers, 2)
	k.put(s.Commands, 3)
	for a := range s.actors {
		a.pack(&k)
	}
	return k
}
