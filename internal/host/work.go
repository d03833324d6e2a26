package host

import (
	"context"
	"errors"
	"slices"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/machine"
	"github.com/perdure/perdure/core/session"
)

// choice is what one commit is decided on: a person's commands, or what nobody
// waits for (ends of effects, a resumption, a wake).
type choice struct {
	commands []session.Command
	blobs    []Blob
	person   bool
	blind    bool                            // idempotency keys are not looked up
	unseen   bool                            // and there are some
	again    func(ctx context.Context) error // runs before each further try
	inc      string                          // the incarnation that it is for; empty is any
	outcomes int                             // of pending, from its front
	resume   bool
	resumed  bool // a driver's step was possible
	wake     bool
}

func (c *choice) inputs(env session.Env) []session.Command {
	in := slices.Clip(c.commands)
	if c.resumed = c.resume && env.Driver; c.resumed {
		in = append(in, &session.Resume{})
	}
	if c.wake {
		in = append(in, &session.Wake{})
	}
	return in
}

// next is what the next commit is decided on: as many of the ends at hand as
// keep it below its bounds, and after the last of them the rest.
func (d *driver) next(single bool) *choice {
	c := &choice{}
	var inline int64
	for i := range d.pending {
		o := &d.pending[i]
		full := i >= session.InFlightMax || single || inline+o.Inline > blob.BatchInlineMax
		if i > 0 && full {
			break
		}
		inline += o.Inline
		c.commands, c.blobs = append(c.commands, o.Command), append(c.blobs, o.Blobs...)
		c.outcomes++
	}
	if c.outcomes == len(d.pending) {
		c.resume, c.wake = d.owes, d.woken
	}
	c.again = func(ctx context.Context) error {
		d.stash(ctx)
		return nil
	}
	return c
}

// step decides and commits what nobody waits for. What cannot be committed now
// is kept and tried again: a model result that was read is never dropped.
func (d *driver) step(ctx context.Context) {
	if !d.loaded || d.broken != nil || d.unsure != nil && !d.settle(ctx) {
		return
	}
	if d.e.o.Sliced && d.slice == nil {
		// Between two slices nothing is written: there is no claim. A model's
		// answer that comes now is there for the next.
		d.stash(ctx)
		d.pending, d.woken, d.owes = nil, false, false
		return
	}
	if d.drop(ctx) {
		return
	}
	single, put, did := false, d.puts, false
	for len(d.pending) > 0 || d.woken || d.owes && d.retryAt == 0 {
		c := d.next(single)
		wakeAt := d.wakeAt
		_, err := d.decide(ctx, c)
		switch {
		case errors.Is(err, machine.ErrBatch) && c.outcomes > 1:
			single = true
			continue
		case d.broken != nil || err != nil && d.drop(ctx):
			return
		case err != nil:
			d.wakeAt = wakeAt
			d.stash(ctx)
			d.later("commit", err)
			return
		}
		did = true
		d.recorded(ctx, c)
		if d.owes && !c.resumed && c.resume {
			break // env has said why, and when to try again
		}
	}
	if did && d.puts == put {
		d.well()
	}
}

// drop forgets what there is to do for a session that takes nothing. An answer
// to a frozen one waits in the stash for its release.
func (d *driver) drop(ctx context.Context) bool {
	if d.head.Rev != 0 && d.head.Status != StatusDeleting && d.head.Quarantine == nil {
		return false
	}
	d.stash(ctx)
	d.pending, d.woken, d.owes, d.retryAt = nil, false, false, 0
	return true
}

// recorded takes what a commit was decided on off the list.
func (d *driver) recorded(ctx context.Context, c *choice) {
	n := min(c.outcomes, len(d.pending))
	d.unstash(ctx, d.pending[:n])
	d.pending = slices.Clone(d.pending[n:])
	d.owes = d.owes && !c.resumed
	d.woken = d.woken && !c.wake
}

// later puts off what did not go through: from one second to half a minute, and
// it is told once.
func (d *driver) later(what string, err error) {
	d.puts++
	now := d.e.Now()
	if d.retryAt == 0 || now >= d.retryAt {
		d.pause = min(max(2*d.pause, troubleFirst), troubleMost)
		d.retryAt = now.Add(d.pause)
	}
	d.tell(what, err)
}

// tell reports what goes wrong, once as long as it is the same.
func (d *driver) tell(what string, err error) {
	if s := gist(what, err); s != d.said {
		d.said = s
		d.e.d.Report(d.key, what, err)
	}
}

// well says that nothing is put off any more.
func (d *driver) well() { d.retryAt, d.pause, d.said = 0, 0, "" }

// command decides and commits a person's commands as one.
func (d *driver) command(ctx context.Context, cmds []Prepared) (Done, error) {
	if d.unsure != nil && !d.settle(ctx) {
		return Done{}, ErrUnavailable
	}
	if err := d.mayCommand(cmds); err != nil {
		return Done{}, err
	}
	if d.head.Quarantine != nil {
		return d.frozen(ctx, cmds[0].Command)
	}
	c := &choice{person: true, blind: true, inc: cmds[0].Inc}
	for _, p := range cmds {
		c.commands, c.blobs = append(c.commands, p.Command), append(c.blobs, p.Blobs...)
	}
	if err := d.prepare(ctx, c); err != nil {
		return Done{}, err
	}
	_, open := c.commands[0].(*session.OpenSession)
	if open && d.head.Rev != 0 {
		// The session is there already: it is answered as it is, and what was
		// to be its first run is not started a second time.
		return d.done([]session.Reply{{Same: true}}), nil
	}
	d.metaEdits = nil
	for _, p := range cmds {
		if p.Meta != nil {
			d.metaEdits = append(d.metaEdits, p.Meta)
		}
	}
	defer func() { d.metaEdits = nil }()
	c.again = func(ctx context.Context) error {
		if open && d.head.Rev != 0 {
			return errOpened
		}
		c.blind, c.unseen = false, false
		return d.prepare(ctx, c)
	}
	results, err := d.decide(ctx, c)
	if errors.Is(err, errOpened) {
		return d.done([]session.Reply{{Same: true}}), nil
	}
	if err != nil {
		return Done{}, err
	}
	replies := make([]session.Reply, 0, len(results))
	for _, r := range results {
		if r.Refused != nil {
			return Done{}, r.Refused
		}
		replies = append(replies, r.Reply)
	}
	return d.done(replies), nil
}

// errOpened ends an open that lost to another.
var errOpened = errors.New("opened by another")

// mayCommand refuses what a frozen or unknown session does not take.
func (d *driver) mayCommand(cmds []Prepared) error {
	switch c := cmds[0].Command.(type) {
	case *session.OpenSession:
		if d.head.Status == StatusDeleting {
			return &session.Rejection{Code: session.CodeAlreadyExists, Message: "a session of this id is being deleted: try again, or take another id"}
		}
		return nil
	case *session.CloseSession:
		if d.head.Quarantine != nil && c.Force {
			return d.exists()
		}
	case *session.ReleaseSession:
		return d.exists()
	}
	if err := d.exists(); err != nil {
		return err
	}
	if d.head.Quarantine != nil {
		return d.isFrozen()
	}
	return nil
}

// verdict is what one try came to.
type verdict int

const (
	decided verdict = iota
	moved           // it was tried on an old state, which is caught up with
	outrun          // another writer came first
)

// decide steps the machine and commits, again on the new head when another
// writer came first.
func (d *driver) decide(ctx context.Context, c *choice) ([]machine.Result, error) {
	began := d.e.Now()
	for try := 0; ; try++ {
		if d.head.Status == StatusDeleting || c.inc != "" && c.inc != d.head.Inc {
			// Others have deleted it meanwhile. A commit would bring it back.
			return nil, notFound()
		}
		results, v, err := d.try(ctx, c)
		if err != nil || v == decided {
			return results, err
		}
		if v == outrun {
			if err := d.e.d.Sched.Sleep(ctx, d.jitter(try)); err != nil {
				return nil, unavailable(err)
			}
			if err := d.reload(ctx); err != nil {
				return nil, err
			}
		}
		if int64(d.e.Now()-began) > d.e.o.CommitMs {
			return nil, unavailable(errContended)
		}
		if c.again != nil {
			if err := c.again(ctx); err != nil {
				return nil, err
			}
		}
	}
}

func (d *driver) try(ctx context.Context, c *choice) ([]machine.Result, verdict, error) {
	env := d.env(ctx, c)
	inputs := c.inputs(env)
	pr := &projector{blobs: c.blobs}
	rd, err := d.stepMachine(env, pr, inputs)
	if err != nil {
		d.m.Drop()
		if old, readErr := d.outdated(ctx, c); old && readErr == nil {
			return nil, moved, nil // no evidence against the log
		}
		if c.person && d.sound(env) {
			d.e.d.Report(d.key, "command", err)
			return nil, decided, &session.Rejection{Code: session.CodeInvalid, Message: "this command cannot be taken: a fault of this server, which is reported"}
		}
		return nil, decided, d.freeze(ctx, err)
	}
	// What a person sent as one is decided as one: a refused command beside one
	// that wrote something refuses both.
	nothing := len(rd.Entries) == 0
	if c.unseen && (nothing || refused(rd.Results)) {
		// What was asked for before is answered as then, not by how things stand.
		d.m.Drop()
		return nil, moved, nil
	}
	if nothing || c.person && len(inputs) > 1 && refused(rd.Results) {
		d.m.Drop()
		old, err := d.outdated(ctx, c)
		switch {
		case err != nil:
			return nil, decided, unavailable(err)
		case old:
			return nil, moved, nil
		case nothing:
			d.plan(rd, env)
			d.park(ctx, rd, env, c)
		}
		return rd.Results, decided, nil
	}
	if err = d.commit(ctx, rd, env, pr, c); err == nil {
		return rd.Results, decided, nil
	}
	return nil, outrun, d.failed(ctx, err, c)
}

var errContended = errors.New("other writers came first, again and again")

// failed says what a commit's failure means: nil is a conflict, to be decided
// again.
func (d *driver) failed(ctx context.Context, err error, c *choice) error {
	var conflict *Conflict
	var div *session.Divergence
	switch {
	case d.unsure != nil:
		return err
	case errors.As(err, &conflict):
		d.m.Drop()
		return nil
	case errors.As(err, &div) && c.person:
		// What a person sent cannot be written. That harms nobody else.
		d.m.Drop()
		return &session.Rejection{Code: session.CodeValidation, Message: "the command cannot be stored: " + blob.Cut(div.Detail, 200)}
	case errors.As(err, &div):
		return d.freeze(ctx, err)
	}
	d.m.Drop()
	return unavailable(err)
}

// sound says that the session goes on by itself: a command that does not go
// with it is the command's trouble, or ours, and no reason to freeze it.
func (d *driver) sound(env session.Env) bool {
	_, err := d.stepMachine(env, &projector{}, []session.Command{&session.Wake{}})
	d.m.Drop()
	return err == nil
}

// outdated says whether what was decided without a write was decided on a state
// that others have moved on. A driver's own state is what it has claimed.
func (d *driver) outdated(ctx context.Context, c *choice) (bool, error) {
	if !c.person || d.claimed {
		return false, nil
	}
	return d.behind(ctx)
}

func refused(rs []machine.Result) bool {
	return slices.ContainsFunc(rs, func(r machine.Result) bool { return r.Refused != nil })
}

// stepMachine is the machine's step. A panic in the core is a bug that this
// log shows: it freezes the session and leaves the process alone.
func (d *driver) stepMachine(env session.Env, pr *projector, inputs []session.Command) (rd machine.Ready, err error) {
	defer func() {
		if p := caught(recover()); p != nil {
			err = &session.Divergence{Seq: d.head.Seq + 1, Code: "panic", Detail: p.Error()}
		}
	}()
	rd, err = d.m.Step(env, pr.observe, inputs...)
	if err == nil && pr.err != nil {
		err = &session.Divergence{Seq: d.head.Seq + 1, Code: "row", Detail: pr.err.Error()}
	}
	return rd, err
}

// jitter is a full-jitter pause of 5 to 250 ms.
func (d *driver) jitter(try int) int64 {
	most := min(int64(5)<<min(try, 6), 250)
	b := d.e.d.Sched.Entropy(2)
	return 5 + (int64(b[0])<<8|int64(b[1]))%most
}

// env is what a step is given beside state. A driver that is stopping, or whose
// tools cannot be listed now, claims nothing more.
func (d *driver) env(ctx context.Context, c *choice) session.Env {
	s := d.m.State()
	env := session.Env{At: max(d.e.Now(), s.At), Driver: d.begins() && d.head.Quarantine == nil}
	w := wanted{config: s.Config, revision: s.ConfigRevision, model: s.Config.Model, tools: env.Driver}
	if r := s.Active; r != nil {
		w.model = r.Model
		if len(r.Approvals) > 0 {
			// What an approval covers is the definition as it is now, not as
			// it was a moment ago.
			d.offer.at = 0
		}
	}
	for _, cmd := range c.commands {
		switch cmd := cmd.(type) {
		case *session.OpenSession:
			w.config, w.model = cmd.Config, cmd.Config.Model
		case *session.RequestRun:
			if cmd.Config.Provider != "" {
				w.model.Provider = cmd.Config.Provider
			}
			if cmd.Config.Model != "" {
				w.model.Model = cmd.Config.Model
			}
		}
	}
	if s.Status == session.Closed || w.config.Model.Provider == "" {
		return env
	}
	if err := d.offer.refresh(ctx, d, w, env.At); err != nil {
		env.Driver = false
		if d.begins() {
			d.later("offer", err)
		}
	}
	env.Offer, env.InputLimit, env.Priced = d.offer.offer, d.offer.info.InputLimit, d.offer.info.Priced
	env.InputPrice, env.OutputPrice = d.offer.info.InputPrice, d.offer.info.OutputPrice
	return env
}
