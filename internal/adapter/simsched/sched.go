package simsched

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// Now implements host.Sched.
func (s *Sim) Now() ident.Instant {
	s.step("now")
	return s.now
}

// Go implements host.Sched. The task is of the group that ctx names.
func (s *Sim) Go(ctx context.Context, name string, run func(ctx context.Context)) {
	s.step("go " + name)
	t := s.newTask(ctx, name)
	go s.begin(ctx, t, run)
}

// Yield is a scheduling point for what is not the scheduler's: wrapped ports
// call it with the name of their operation.
func (s *Sim) Yield(op string) { s.step(op) }

// Sleep implements host.Sched.
func (s *Sim) Sleep(ctx context.Context, ms int64) error {
	s.step("sleep " + strconv.FormatInt(ms, 10))
	if ms > 0 && ctx.Err() == nil {
		s.block(&wait{ctx: ctx, deadline: s.now.Add(ms), limited: true})
		s.log(s.current, "wake"+cancelled(ctx))
	}
	return ctx.Err() //nolint:wrapcheck // the port says ctx.Err()
}

func cancelled(ctx context.Context) string {
	if ctx.Err() != nil {
		return " cancelled"
	}
	return ""
}

// WaitAny implements host.Sched. A signal that has fired wins over a passed
// timeout and a done ctx, and the first of several over the others.
func (s *Sim) WaitAny(ctx context.Context, timeoutMs int64, signals ...host.Signal) (int, error) {
	own := make([]*signal, 0, len(signals))
	for _, g := range signals {
		o, ok := g.(*signal)
		if !ok || o.sim != s {
			return -1, fmt.Errorf("wait for a signal of type %T, which is not of this scheduler", g)
		}
		own = append(own, o)
	}
	w := &wait{ctx: ctx, signals: own}
	if timeoutMs >= 0 {
		w.deadline, w.limited = s.now.Add(timeoutMs), true
	}
	s.step(waitOp(w, timeoutMs))
	// What the step let pass counts: the wait began before it.
	if !w.over(s.now) {
		s.block(w)
	}
	i := firedOf(own)
	switch {
	case i >= 0:
		s.log(s.current, "woken by "+own[i].String())
		return i, nil
	case ctx.Err() != nil:
		s.log(s.current, "wait cancelled")
	default:
		s.log(s.current, "wait timed out")
	}
	return -1, ctx.Err() //nolint:wrapcheck // the port says ctx.Err()
}

func waitOp(w *wait, timeoutMs int64) string {
	var b strings.Builder
	b.WriteString("wait")
	for _, g := range w.signals {
		b.WriteString(" " + g.String())
	}
	if w.limited {
		b.WriteString(" for " + strconv.FormatInt(timeoutMs, 10))
	}
	return b.String()
}

// Entropy implements host.Sched. The bytes are of the seed.
func (s *Sim) Entropy(n int) []byte {
	s.step("entropy " + strconv.Itoa(n))
	return s.bytes(max(n, 0))
}

// signal is a flag with a number for the trace.
type signal struct {
	sim   *Sim
	id    int
	fired bool
}

// NewSignal implements host.Sched.
func (s *Sim) NewSignal() host.Signal {
	s.step("signal")
	s.signals++
	return &signal{sim: s, id: s.signals}
}

// Fire implements host.Signal.
func (g *signal) Fire() {
	g.sim.step("fire " + g.String())
	g.fired = true
}

// Fired implements host.Signal.
func (g *signal) Fired() bool {
	g.sim.step("look at " + g.String())
	return g.fired
}

func (g *signal) String() string { return "signal " + strconv.Itoa(g.id) }

func firedOf(signals []*signal) int {
	for i, g := range signals {
		if g.fired {
			return i
		}
	}
	return -1
}

type groupKey struct{}

// WithGroup makes the tasks that are started with the context, and all that
// those start, a group: a process that can be killed.
func WithGroup(ctx context.Context, group string) context.Context {
	return context.WithValue(ctx, groupKey{}, group)
}

func groupOf(ctx context.Context) string {
	group, _ := ctx.Value(groupKey{}).(string)
	return group
}

// Kill ends the tasks of a group where they stand, as a crash of their process
// would: none of them makes another call through the scheduler, deferred ones
// included. If the caller is of the group itself, it does not return. It
// happens before anybody else runs.
func (s *Sim) Kill(group string) {
	self := s.current
	s.exitIfKilled(self)
	s.log(self, "kill "+group)
	for _, t := range append([]*task(nil), s.tasks...) {
		if t.group == group && t != self && t != s.main {
			s.unwind(t)
		}
	}
	if self.group == group && self != s.main {
		s.giveUp(self)
	}
	s.step("killed " + group)
}
