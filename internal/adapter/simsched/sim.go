// Package simsched is host.Sched in simulated time: one task runs at a time,
// a seed chooses who is next at every call, and nothing waits for real. Equal
// seeds give equal runs, byte for byte in the trace.
//
// It sees what passes through it and nothing else: a task that waits for a
// channel, a lock or a real clock stops the simulation. Contexts wake tasks
// when they are cancelled by a task; context.AfterFunc and deadlines belong to
// the real world and do not. It may import the standard library, core/ident
// and internal/host.
package simsched

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/perdure/perdure/core/ident"
)

// Errors of a run.
var (
	// ErrDeadlock: main waits, and nobody is left who could wake it.
	ErrDeadlock = errors.New("deadlock")
	// ErrRunaway: the run took more steps than it may.
	ErrRunaway = errors.New("too many steps")
	// ErrPanic: a task panicked.
	ErrPanic = errors.New("task panicked")
)

// Options of a Sim; the zero value is good.
type Options struct {
	// Start is the first instant. The default is 2025-01-01T00:00:00Z.
	Start ident.Instant
	// MaxSteps bounds a run; the default is two million.
	MaxSteps int
}

// Sim implements host.Sched for the tasks of one Run. All its state belongs to
// the task that holds the baton, so it has no lock.
type Sim struct {
	order   *rand.Rand // who is next
	entropy *rand.Rand // apart, so that a byte more does not change the order

	now      ident.Instant
	steps    int
	maxSteps int
	trace    strings.Builder

	tasks   []*task // alive, in order of their making
	made    int
	signals int
	main    *task
	current *task

	failure error         // ends the run
	home    chan struct{} // the baton, for Run or for who kills
}

// task is a goroutine that runs while it holds the baton.
type task struct {
	label  string
	group  string
	baton  chan struct{}
	wait   *wait // nil while it is runnable
	killed bool  // unwinds instead of going on
	killer bool  // somebody waits at home for it to have unwound
	ended  bool
}

// wait is what keeps a task from running.
type wait struct {
	ctx      context.Context //nolint:containedctx // what a task waits with is what this is about
	signals  []*signal
	deadline ident.Instant
	limited  bool // by the deadline
}

// New makes a Sim for one Run.
func New(seed uint64, o Options) *Sim {
	if o.Start == 0 {
		o.Start = 1_735_689_600_000
	}
	if o.MaxSteps == 0 {
		o.MaxSteps = 2_000_000
	}
	return &Sim{
		order:   rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // a simulation repeats
		entropy: rand.New(rand.NewPCG(seed, 2)), //nolint:gosec // a simulation repeats
		now:     o.Start, maxSteps: o.MaxSteps, home: make(chan struct{}, 1),
	}
}

// abandon unwinds main, which runs on its caller's goroutine.
type abandon struct{}

// Run runs main as the first task, on the caller's goroutine. When it returns
// its ctx is cancelled and the other tasks go on until they have ended or wait
// for what cannot come; those are abandoned. The error is ErrDeadlock,
// ErrRunaway or ErrPanic (errors.Is), and says who was where.
func (s *Sim) Run(ctx context.Context, main func(ctx context.Context)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.main = s.newTask(ctx, "main")
	s.current = s.main
	defer s.buryAll()
	s.runMain(ctx, main)
	cancel()
	if s.failure == nil {
		s.hand(s.next())
		<-s.home
	}
	return s.failure
}

func (s *Sim) runMain(ctx context.Context, main func(ctx context.Context)) {
	defer func() {
		s.bury(s.main)
		if r := recover(); r != nil {
			if _, ok := r.(abandon); !ok {
				panic(r) // main's own, on the goroutine that it is at home on
			}
		}
	}()
	main(ctx)
}

// buryAll unwinds what is left, so that no goroutine outlives the run: also
// when main ends its goroutine, as a failed test does.
func (s *Sim) buryAll() {
	for len(s.tasks) > 0 {
		s.unwind(s.tasks[0])
	}
}

// unwind ends a task where it stands. The caller holds the baton, and has it
// again afterwards.
func (s *Sim) unwind(t *task) {
	before := s.current
	t.killed, t.killer = true, true
	s.current = t
	t.baton <- struct{}{}
	<-s.home
	s.current = before
}

func (s *Sim) newTask(ctx context.Context, name string) *task {
	t := &task{label: name + "#" + strconv.Itoa(s.made), group: groupOf(ctx), baton: make(chan struct{}, 1)}
	if t.group == "" && s.current != nil {
		t.group = s.current.group
	}
	s.made++
	s.tasks = append(s.tasks, t)
	return t
}

func (s *Sim) bury(t *task) {
	t.ended = true
	for i, x := range s.tasks {
		if x == t {
			s.tasks = append(s.tasks[:i], s.tasks[i+1:]...)
			return
		}
	}
}

// begin is a task's goroutine.
func (s *Sim) begin(ctx context.Context, t *task, run func(ctx context.Context)) {
	<-t.baton
	defer s.end(t)
	if !t.killed {
		run(ctx)
	}
}

func (s *Sim) end(t *task) {
	if r := recover(); r != nil && s.failure == nil {
		s.failure = fmt.Errorf("%w: %s at %d: %v\n%s", ErrPanic, t.label, s.now, r, debug.Stack())
	}
	s.bury(t)
	if t.killer {
		s.home <- struct{}{}
		return
	}
	s.log(t, "end")
	s.hand(s.next())
}

// hand gives the baton to the task, or home if there is none.
func (s *Sim) hand(t *task) {
	if s.current = t; t == nil {
		s.home <- struct{}{}
		return
	}
	t.baton <- struct{}{}
}

// next chooses who runs. With nobody runnable it lets time pass to the first
// sleeper; with no sleeper it gives main up, or, when main has ended, returns
// nil.
func (s *Sim) next() *task {
	if s.failure == nil {
		if t := s.choose(); t != nil {
			return t
		}
		if !s.main.ended {
			s.failure = fmt.Errorf("%w at %d: %s", ErrDeadlock, s.now, s.waiting())
		}
	}
	if s.main.ended {
		return nil
	}
	s.main.killed = true
	return s.main
}

func (s *Sim) choose() *task {
	for {
		var runnable []*task
		var first *task
		for _, t := range s.tasks {
			if t.wait == nil || t.wait.over(s.now) {
				runnable = append(runnable, t)
			} else if t.wait.limited && (first == nil || t.wait.deadline < first.wait.deadline) {
				first = t
			}
		}
		switch {
		case len(runnable) == 1:
			return runnable[0]
		case len(runnable) > 1:
			return runnable[s.order.IntN(len(runnable))]
		case first == nil:
			return nil
		}
		s.now = first.wait.deadline
	}
}

// over looks at contexts anew each time, since what cancels them runs here.
func (w *wait) over(now ident.Instant) bool {
	return w.limited && w.deadline <= now || w.ctx.Err() != nil || firedOf(w.signals) >= 0
}

// step is a scheduling point: the task says what it is about to do, and does
// it when it is chosen again.
func (s *Sim) step(op string) {
	t := s.current
	s.exitIfKilled(t)
	if s.steps++; s.steps > s.maxSteps {
		s.failure = fmt.Errorf("%w: %d; at %d: %s", ErrRunaway, s.maxSteps, s.now, s.waiting())
		s.giveUp(t)
	}
	s.log(t, op)
	s.pass(t)
}

// block is a scheduling point at which the task waits.
func (s *Sim) block(w *wait) {
	t := s.current
	t.wait = w
	s.pass(t)
	t.wait = nil
}

// pass hands the baton on and waits to have it again.
func (s *Sim) pass(t *task) {
	if next := s.next(); next != t {
		s.hand(next)
		<-t.baton
	}
	s.exitIfKilled(t)
}

// exitIfKilled unwinds the task that was given up. Its deferred calls run, and
// come here again if they use the Sim: they do no more than the task may.
func (s *Sim) exitIfKilled(t *task) {
	switch {
	case !t.killed:
	case t == s.main:
		panic(abandon{})
	default:
		runtime.Goexit()
	}
}

// giveUp ends the running task where it stands.
func (s *Sim) giveUp(t *task) {
	t.killed = true
	s.exitIfKilled(t)
}

func (s *Sim) log(t *task, op string) {
	fmt.Fprintf(&s.trace, "%d %s %s\n", s.now, t.label, op)
}

// Trace is what happened so far: a line a step, with the time, the task and
// what it was about to do.
func (s *Sim) Trace() string { return s.trace.String() }

// Steps is how many scheduling points were passed.
func (s *Sim) Steps() int { return s.steps }

// waiting says where every task stands.
func (s *Sim) waiting() string {
	parts := make([]string, 0, len(s.tasks))
	for _, t := range s.tasks {
		parts = append(parts, t.label+" "+t.wait.String())
	}
	return strings.Join(parts, "; ")
}

// String says what is waited for.
func (w *wait) String() string {
	if w == nil {
		return "runs"
	}
	var parts []string
	for _, g := range w.signals {
		parts = append(parts, g.String())
	}
	if w.limited {
		parts = append(parts, "time "+strconv.FormatInt(int64(w.deadline), 10))
	}
	if len(parts) == 0 {
		return "waits for its context"
	}
	return "waits for " + strings.Join(parts, ", ")
}

func (s *Sim) bytes(n int) []byte {
	out := make([]byte, 0, n+8)
	for len(out) < n {
		out = binary.LittleEndian.AppendUint64(out, s.entropy.Uint64())
	}
	return out[:n]
}
