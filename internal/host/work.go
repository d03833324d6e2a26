package host

import (
	"context"
	"errors"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/machine"
	"github.com/perdure/perdure/core/session"
)

// work is what one commit is made of: outcomes that were at hand, and a wake.
type work struct {
	wake     bool
	resume   bool
	outcomes []outcome
}

func (w *work) empty() bool { return !w.wake && !w.resume && len(w.outcomes) == 0 }

// full keeps a commit below its bounds.
func (w *work) full() bool {
	var inline int64
	for i := range w.outcomes {
		inline += w.outcomes[i].Inline
	}
	return len(w.outcomes) >= session.InFlightMax || inline > blob.BatchInlineMax/2
}

func (w *work) inputs() ([]session.Command, []Blob) {
	var cmds []session.Command
	var blobs []Blob
	for _, o := range w.outcomes {
		cmds, blobs = append(cmds, o.Command), append(blobs, o.Blobs...)
	}
	if w.resume {
		cmds = append(cmds, &session.Resume{})
	}
	if w.wake {
		cmds = append(cmds, &session.Wake{})
	}
	return cmds, blobs
}

// step decides and commits what nobody waits for. What cannot be committed now
// is kept and tried again: a model result that was read is never dropped.
func (d *driver) step(ctx context.Context, w work) {
	d.wakeAt = 0
	cmds, blobs := w.inputs()
	_, err := d.decide(ctx, cmds, blobs, func(context.Context) error {
		d.stash(ctx, w.outcomes)
		return nil
	})
	if err == nil {
		d.unstash(ctx, w.outcomes)
		return
	}
	if d.broken != nil {
		return
	}
	d.e.d.Report(d.key, "commit", err)
	d.stash(ctx, w.outcomes)
	d.pending = append(d.pending, w.outcomes...)
	d.retryAt = d.e.Now().Add(ident.Second)
	if w.wake || w.resume {
		d.wakeAt = d.retryAt
	}
}

// command decides and commits a person's commands as one.
func (d *driver) command(ctx context.Context, cmds []Prepared) (Done, error) {
	if err := d.mayCommand(cmds); err != nil {
		return Done{}, err
	}
	if d.head.Quarantine != nil {
		return d.frozen(ctx, cmds[0].Command)
	}
	var blobs []Blob
	inputs := make([]session.Command, len(cmds))
	for i, c := range cmds {
		inputs[i], blobs = c.Command, append(blobs, c.Blobs...)
	}
	if err := d.prepare(ctx, inputs); err != nil {
		return Done{}, err
	}
	if _, open := inputs[0].(*session.OpenSession); open && d.head.Rev != 0 {
		// The session is there already: it is answered as it is, and what was
		// to be its first run is not started a second time.
		return d.done([]session.Reply{{Same: true}}), nil
	}
	d.metaEdits = nil
	for _, c := range cmds {
		if c.Meta != nil {
			d.metaEdits = append(d.metaEdits, c.Meta)
		}
	}
	defer func() { d.metaEdits = nil }()
	_, open := inputs[0].(*session.OpenSession)
	results, err := d.decide(ctx, inputs, blobs, func(ctx context.Context) error {
		if open {
			return errOpened
		}
		return d.prepare(ctx, inputs)
	})
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
	if q := d.head.Quarantine; q != nil {
		return &session.Rejection{Code: session.CodeQuarantined, Message: "the session is frozen at event " + uitoa(uint64(q.Seq)) + " (" + q.Code + "): it can be read, released, closed with force or deleted"}
	}
	return nil
}

// decide steps the machine and commits, again on the new head when another
// writer came first. again runs before each further try.
func (d *driver) decide(ctx context.Context, inputs []session.Command, blobs []Blob, again func(context.Context) error) ([]machine.Result, error) {
	began := d.e.Now()
	for try := 0; ; try++ {
		env := d.env(ctx)
		pr := &projector{blobs: blobs}
		rd, err := d.m.Step(env, pr.observe, inputs...)
		if err != nil {
			return nil, d.freeze(ctx, err)
		}
		if len(rd.Entries) == 0 {
			d.plan(rd)
			return rd.Results, nil
		}
		// A refused command beside one that wrote something refuses both: what
		// a person sent as one is decided as one.
		if len(inputs) > 1 && refused(rd.Results) && isPersons(inputs) {
			d.m.Drop()
			return rd.Results, nil
		}
		err = d.commit(ctx, rd, pr, blobs)
		if err == nil {
			return rd.Results, nil
		}
		d.m.Drop()
		var conflict *Conflict
		if !errors.As(err, &conflict) {
			return nil, errors.Join(ErrUnavailable, err)
		}
		if int64(d.e.Now()-began) > d.e.o.CommitMs {
			return nil, errors.Join(ErrUnavailable, err)
		}
		if err := d.e.d.Sched.Sleep(ctx, d.jitter(try)); err != nil {
			return nil, errors.Join(ErrUnavailable, err)
		}
		if err := d.reload(ctx); err != nil {
			return nil, err
		}
		if err := again(ctx); err != nil {
			return nil, err
		}
	}
}

func refused(rs []machine.Result) bool {
	for _, r := range rs {
		if r.Refused != nil {
			return true
		}
	}
	return false
}

func isPersons(inputs []session.Command) bool {
	_, open := inputs[0].(*session.OpenSession)
	return open
}

// jitter is a full-jitter pause of 5 to 250 ms.
func (d *driver) jitter(try int) int64 {
	most := min(int64(5)<<min(try, 6), 250)
	b := d.e.d.Sched.Entropy(2)
	return 5 + (int64(b[0])<<8|int64(b[1]))%most
}

// env is what a step is given beside state. A driver that is stopping, or whose
// tools cannot be listed now, claims nothing more.
func (d *driver) env(ctx context.Context) session.Env {
	s := d.m.State()
	env := session.Env{At: max(d.e.Now(), s.At), Driver: !d.stopping && !d.e.o.AdmitOnly && d.head.Quarantine == nil}
	if s.Status != session.Open {
		return env
	}
	m := s.Config.Model
	if s.Active != nil {
		m = s.Active.Model
	}
	if err := d.offer.refresh(ctx, d, s, m, env.At); err != nil {
		d.e.d.Report(d.key, "offer", err)
		env.Driver = false
		d.retryAt = env.At.Add(ident.Second)
	}
	env.Offer, env.InputLimit, env.Priced = d.offer.offer, d.offer.info.InputLimit, d.offer.info.Priced
	return env
}
