package host_test

import (
	"context"
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/simsched"
	"github.com/perdure/perdure/internal/host"
)

// process is one of a function's: it has its own clock, is frozen between
// invocations, and may be of a build that is older than what it reads.
type process struct {
	*simsched.Sim
	host.Log

	group  string
	engine *host.Engine
	skew   int64       // of its clock
	stale  func() bool // whether a look at a head sees the one before
	old    func() bool // whether the log is of a newer build
	thawed host.Signal // nil: it is at work
	seen   map[host.Key]host.Head
}

func (f *farm) newProcess(ctx context.Context, o host.Options) *process {
	f.process++
	p := &process{
		Sim: f.sim, Log: f.deps.Log, group: fmt.Sprint("function", f.process), seen: map[host.Key]host.Head{},
		stale: func() bool { return false }, old: func() bool { return false },
	}
	if f.birth != nil {
		f.birth(p)
	}
	d := f.deps
	d.Sched, d.Log = p, p
	p.engine = host.New(d, o)
	require.NoError(f.t, p.engine.Start(simsched.WithGroup(ctx, p.group)))
	return p
}

// processFor is a process for an invocation: the one that was used last, or a new
// one.
func (f *farm) processFor(ctx context.Context, fn string, o host.Options) *process {
	if n := len(f.warm[fn]); n > 0 {
		p := f.warm[fn][n-1]
		f.warm[fn] = f.warm[fn][:n-1]
		sig := p.thawed
		p.thawed = nil
		sig.Fire()
		return p
	}
	return f.newProcess(f.ctx, o)
}

func (p *process) freeze() { p.thawed = p.NewSignal() }

// hold keeps a task of a frozen process where it is.
func (p *process) hold() {
	for p.thawed != nil {
		_, err := p.Sim.WaitAny(context.Background(), -1, p.thawed)
		check(err)
	}
}

// Now implements host.Sched.
func (p *process) Now() ident.Instant {
	p.hold()
	return p.Sim.Now().Add(p.skew)
}

// Sleep implements host.Sched.
func (p *process) Sleep(ctx context.Context, ms int64) error {
	err := p.Sim.Sleep(ctx, ms)
	p.hold()
	return err
}

// WaitAny implements host.Sched.
func (p *process) WaitAny(ctx context.Context, ms int64, signals ...host.Signal) (int, error) {
	at, err := p.Sim.WaitAny(ctx, ms, signals...)
	p.hold()
	return at, err
}

// Commit implements host.Log.
func (p *process) Commit(ctx context.Context, c host.Commit) error {
	p.hold()
	defer p.hold()
	return p.Log.Commit(ctx, c)
}

// Head implements host.Log.
func (p *process) Head(ctx context.Context, k host.Key) (host.Head, error) {
	p.hold()
	return p.Log.Head(ctx, k)
}

// Peek implements host.Log.
func (p *process) Peek(ctx context.Context, k host.Key) (host.Head, error) {
	before, saw := p.seen[k]
	h, err := p.Log.Peek(ctx, k)
	if err == nil {
		p.seen[k] = h
	}
	if saw && p.stale() {
		return before, nil
	}
	return h, err
}

// Read implements host.Log.
func (p *process) Read(ctx context.Context, k host.Key, after, upTo ident.Seq, limit int, maxBytes int64) ([]host.StoredEntry, error) {
	if p.old() {
		return nil, fmt.Errorf("event %d: %w", after+1, session.ErrNewer)
	}
	return p.Log.Read(ctx, k, after, upTo, limit, maxBytes)
}
