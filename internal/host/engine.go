package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
)

// Deps are the ports that an engine works with. All are required but Frames
// and Report.
type Deps struct {
	Log         Log
	Blobs       Blobs
	Checkpoints Checkpoints
	Stash       Stash
	Models      Models
	Tools       Tools
	Sched       Sched
	Frames      Frames
	// Waker starts and wakes the drivers of other processes. It is required
	// with Options.AdmitOnly where somebody is to drive at once, and with
	// Options.Sliced.
	Waker Waker
	// Keys sign promise tokens.
	Keys Keyring
	// Purge removes what a deleted session has left, but for its head: its
	// private workspace, and what Log.Delete leaves to it. It may be nil, and may
	// be called again.
	Purge func(ctx context.Context, key Key, inc string) error
	// Report is told of what nobody waits for: a failed sweep, a quarantine, a
	// panic. It logs. It may be nil. What goes on failing is told once.
	Report func(key Key, what string, err error)
}

// Options are the engine's tunables; zero fields take the defaults.
type Options struct {
	IdleMs   int64 // a session's task ends after this long with nothing to do (2 min)
	ModelMs  int64 // one attempt of a model call (300 s, at most 780 s)
	ToolMs   int64 // one attempt of an inline tool without a deadline of its own (90 s)
	CommitMs int64 // how long a conflicting command is decided again (10 s)
	SweepMs  int64 // between looks for sessions that nobody drives (1 s)
	GraceMs  int64 // what running tools are given at a stop, and what was cut off to say how it ended (5 s)
	LookMs   int64 // between looks for a tool that a call waits for (5 s)
	// WatchMs is between looks at the head of a session in hand, where other
	// processes admit beside this driver: that is how it hears of a cancel. 0 is
	// for the only process.
	WatchMs      int64
	CheckpointAt int64 // bytes of tail after which a checkpoint is written (64 KB)
	// AdmitOnly takes commands and leaves the work that follows to a driver in
	// another process: nothing is claimed, resumed or swept here.
	AdmitOnly bool
	// Sliced drives a session only within Drive, for one slice at a time, as a
	// machine elsewhere asks for it. Nothing is resumed or swept by itself.
	Sliced bool
	// SliceTurns is how many model calls a slice makes; 0 is as many as fit.
	SliceTurns int
	// RolloverSteps is after how many steps an activation gives way to the next
	// (300), and RolloverMs after how long (30 days).
	RolloverSteps uint64
	RolloverMs    int64
	// PurgeAgainMs is how long after a deletion content is looked for once more
	// that a process wrote which knew nothing of it (20 min).
	PurgeAgainMs int64
	// Elsewhere says of a call's tool that it runs in a process of its own; nil
	// is never.
	Elsewhere func(def session.ToolDef) bool
}

func (o Options) withDefaults() Options {
	set := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	set(&o.IdleMs, 2*ident.Minute)
	set(&o.ModelMs, 300*ident.Second)
	set(&o.ToolMs, 90*ident.Second)
	set(&o.CommitMs, 10*ident.Second)
	set(&o.SweepMs, ident.Second)
	set(&o.GraceMs, 5*ident.Second)
	set(&o.LookMs, 5*ident.Second)
	set(&o.CheckpointAt, 64<<10)
	set(&o.RolloverMs, 30*ident.Day)
	set(&o.PurgeAgainMs, 20*ident.Minute)
	if o.RolloverSteps == 0 {
		o.RolloverSteps = 300
	}
	o.ModelMs = min(o.ModelMs, 780*ident.Second)
	return o
}

// Errors that every command may come back with, beside a
// *session.Rejection.
var (
	// ErrUnavailable: the command was not decided, or its outcome is not
	// known; the same command may be sent again.
	ErrUnavailable = errors.New("unavailable")
	// ErrStopping: this process is going down.
	ErrStopping = errors.New("the server is stopping")
)

// Engine drives the sessions of one process. One task owns each session in
// hand: it admits commands, commits, and performs effects. Engine is safe for
// concurrent use.
type Engine struct {
	d        Deps
	o        Options
	drivers  sync.Map // Key → *driver
	troubles sync.Map // Key → *trouble
	kept     sync.Map // Key → []outcome: of a task that broke down, for the next
	purges   sync.Map // Key → incarnation whose deletion is under way
	stopping atomic.Bool
	live     atomic.Int64 // sessions in hand
	// base is what Start was given: the life of every session's task, which
	// outlives the request that started it.
	base context.Context //nolint:containedctx // see above
	wake atomic.Value    // signalBox: the sweeper's, fired at a stop
}

// New makes an engine. It does nothing until Start, which must come first.
func New(d Deps, o Options) *Engine {
	if d.Report == nil {
		d.Report = func(Key, string, error) {}
	}
	e := &Engine{d: d, o: o.withDefaults(), base: context.Background()} //nolint:forbidigo // until Start
	e.wake.Store(signalBox{d.Sched.NewSignal()})
	return e
}

// Start picks up every session that has unfinished work and begins to sweep.
// The tasks end with ctx or Stop.
func (e *Engine) Start(ctx context.Context) error {
	e.base = ctx
	if e.o.AdmitOnly || e.o.Sliced {
		return nil
	}
	if err := e.resumeAll(ctx); err != nil {
		return err
	}
	e.d.Sched.Go(ctx, "sweep", e.sweep)
	return nil
}

// Stop lets every session come to a commit: model calls are aborted and
// recorded as stopped, running tools get GraceMs. Commands are refused with
// ErrStopping from now on. What does not let itself be stopped is left behind,
// and found in flight at the next start.
func (e *Engine) Stop(ctx context.Context) error {
	e.stopping.Store(true)
	box, _ := e.wake.Load().(signalBox)
	box.Fire()
	// Every task looks at stopping by itself; those that wait are told. One
	// that is made after this begins by looking.
	var keys []Key
	e.drivers.Range(func(k, _ any) bool {
		key, _ := k.(Key)
		keys = append(keys, key)
		return true
	})
	slices.SortFunc(keys, compareKeys)
	for _, k := range keys {
		if v, ok := e.drivers.Load(k); ok {
			d, _ := v.(*driver)
			d.inbox.put(message{})
		}
	}
	for e.live.Load() > 0 {
		if err := e.d.Sched.Sleep(ctx, 5); err != nil {
			return err
		}
	}
	return nil
}

// Do hands a command to the session's owner and waits for what it came to: a
// rejection is a *session.Rejection. When ctx ends first the command may still
// take effect.
func (e *Engine) Do(ctx context.Context, key Key, cmds ...Prepared) (Done, error) {
	c := &call{cmds: cmds, done: e.d.Sched.NewSignal()}
	return e.ask(ctx, key, message{call: c}, c)
}

// View returns the committed state of a session.
func (e *Engine) View(ctx context.Context, key Key) (Done, error) {
	c := &call{done: e.d.Sched.NewSignal()}
	return e.ask(ctx, key, message{call: c}, c)
}

// Watch returns a signal that fires when the session's head has passed seq, or
// its owner lets go of it; the caller looks again then. Who stops waiting fires
// the signal, so that it is forgotten.
func (e *Engine) Watch(key Key, seq ident.Seq) Signal {
	sig := e.d.Sched.NewSignal()
	if e.stopping.Load() {
		sig.Fire()
		return sig
	}
	e.send(key, message{watch: &watcher{after: seq, signal: sig}})
	return sig
}

// WaitAny waits for one of the signals; see Sched.
func (e *Engine) WaitAny(ctx context.Context, timeoutMs int64, signals ...Signal) (int, error) {
	return e.d.Sched.WaitAny(ctx, timeoutMs, signals...)
}

// Now is the engine's time.
func (e *Engine) Now() ident.Instant { return e.d.Sched.Now() }

// Prepared is a command with the blobs that its payloads name and what
// admitting it needs from rows.
type Prepared struct {
	Command session.Command
	Blobs   []Blob
	// Inline is how many payload bytes ride in its events.
	Inline int64
	// Inc is the incarnation that it is for; empty is whichever there is.
	Inc string
	// Meta, if set, changes the listing document in the same commit.
	Meta func(*Meta)
}

// Done is what commands came to, with the state after them.
type Done struct {
	Replies []session.Reply
	State   session.State
	Head    Head
	Meta    Meta
}

type call struct {
	cmds []Prepared
	done Signal
	out  Done
	err  error
}

func (e *Engine) ask(ctx context.Context, key Key, m message, c *call) (Done, error) {
	if e.stopping.Load() {
		return Done{}, ErrStopping
	}
	e.send(key, m)
	if _, err := e.d.Sched.WaitAny(ctx, -1, c.done); err != nil {
		return Done{}, err
	}
	return c.out, c.err
}

// send finds the session's task, or starts one. A task that is just ending
// takes no more messages: then the next one does.
func (e *Engine) send(key Key, m message) {
	for {
		v, ok := e.drivers.Load(key)
		if !ok {
			d := newDriver(e, key)
			if v, ok = e.drivers.LoadOrStore(key, d); !ok {
				d.inbox.put(m)
				e.live.Add(1)
				e.d.Sched.Go(e.base, "session "+key.String(), d.run)
				return
			}
		}
		d, _ := v.(*driver)
		if d.inbox.put(m) {
			return
		}
		e.drivers.CompareAndDelete(key, d)
	}
}

// operation is the id under which a call is known to the outside: the same for
// every attempt, and for nothing else.
func operation(key Key, inc string, id ident.CallID) string {
	h := sha256.New()
	for _, s := range []string{"perdure.operation.1", string(key.Tenant), string(key.Session), inc, id.String()} {
		h.Write([]byte{byte(len(s) >> 8), byte(len(s))})
		h.Write([]byte(s))
	}
	return "op_" + hex.EncodeToString(h.Sum(nil)[:16])
}
