package host

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/machine"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
)

// sends is how often a commit whose outcome is not known is sent again at once.
const sends = 6

func (d *driver) writeID() string { return hex.EncodeToString(d.e.d.Sched.Entropy(16)) }

// attempt is a step on its way to the log.
type attempt struct {
	commit Commit
	ready  machine.Ready
	env    session.Env
	bytes  int64
	choice *choice
	tries  int // since its outcome is not known
}

// commit makes a step durable, and only then lets it be true.
func (d *driver) commit(ctx context.Context, rd machine.Ready, env session.Env, pr *projector, c *choice) error {
	a := &attempt{ready: rd, env: env, choice: c}
	var err error
	if a.commit, a.bytes, err = d.build(a, pr); err != nil {
		return err
	}
	if err = d.send(ctx, a.commit, sends); err == nil {
		return d.landed(ctx, a)
	}
	var conflict *Conflict
	if !errors.As(err, &conflict) && !errors.Is(err, ErrFull) {
		d.unsure = a
		d.later("commit", err)
		return unavailable(err)
	}
	return err
}

// landed lets a step be true that is durable: the machine moves, effects start,
// watchers are told.
func (d *driver) landed(ctx context.Context, a *attempt) error {
	c := &a.commit
	if !d.claimed && !a.choice.resumed {
		// It took the work over, and with it what somebody else performed.
		d.resume(ctx)
	}
	if err := d.m.Commit(c.Head.Seq); err != nil {
		// What is true stands in the log: load it anew.
		d.broken = unavailable(err)
		d.e.ails(d.key, "commit", err)
		return d.broken
	}
	d.duty = d.duty || d.e.o.AdmitOnly && c.Head.Drive != d.head.Drive
	d.head, d.claimed = c.Head, d.owns()
	if c.Meta != nil {
		d.meta = *c.Meta
	}
	d.tail += a.bytes
	d.e.heals(d.key)
	for _, cl := range a.ready.Cancels {
		d.abort(cl, a.ready.State)
	}
	for _, eff := range a.ready.Effects {
		d.start(ctx, eff)
	}
	d.plan(a.ready, a.env)
	d.e.framesOver(d.key, a.ready.Entries)
	d.watchers.tell(d.head.Seq)
	d.save(ctx)
	return nil
}

// unsureMost is how often a commit whose outcome stays unknown is sent again,
// ever more rarely, before this task gives way to one that loads anew.
const unsureMost = 8

// settle finds out what became of a commit whose outcome is not known, by
// sending it again: the log knows its id. Until that is told nothing else is
// decided here, and nothing that runs is given up.
func (d *driver) settle(ctx context.Context) bool {
	a := d.unsure
	err := d.send(ctx, a.commit, 1)
	var conflict *Conflict
	switch {
	case err == nil:
		d.unsure = nil
		if d.landed(ctx, a) == nil && !a.choice.person {
			d.recorded(ctx, a.choice)
		}
	case errors.As(err, &conflict):
		d.unsure = nil
		d.m.Drop()
		if err = d.reload(ctx); err != nil {
			d.later("reload", err)
			return false
		}
	default:
		// A full disk, too, says nothing of what was sent before.
		if a.tries++; a.tries > unsureMost {
			d.broken = unavailable(err)
			d.e.ails(d.key, "commit", err)
			return false
		}
		d.later("commit", err)
		return false
	}
	return d.broken == nil
}

// send writes a commit, the same bytes again while its outcome is not known: a
// landed write is recognised by its id. That the disk is full answers for a
// first try alone: one before it may have landed.
func (d *driver) send(ctx context.Context, c Commit, times int) error {
	var unknown error
	for i := range times {
		if i > 0 && d.e.d.Sched.Sleep(ctx, int64(10)<<i) != nil {
			break
		}
		err := d.e.d.Log.Commit(ctx, c)
		if err == nil {
			return nil
		}
		conflict, ok := errors.AsType[*Conflict](err)
		switch {
		case ok && conflict.Head.Rev == c.Head.Rev && conflict.Head.Write == c.Head.Write:
			return nil
		case ok || errors.Is(err, ErrFull) && unknown == nil:
			return err
		}
		// Not wrapped: it must not be taken for a full disk's plain answer.
		unknown = errors.New("the outcome is not known: " + err.Error())
	}
	return unknown
}

// writeHead writes the head alone, or with the listing document: it moves rev
// and writes no event.
func (d *driver) writeHead(ctx context.Context, head Head, meta *Meta) error {
	head.Rev = d.head.Rev + 1
	head.Write = d.writeID()
	if err := d.send(ctx, Commit{Key: d.key, Expect: d.head.Rev, Head: head, Meta: meta}, sends); err != nil {
		return err
	}
	d.head = head
	if meta != nil {
		d.meta = *meta
	}
	return nil
}

// build turns a step into the one write that makes it durable.
func (d *driver) build(a *attempt, pr *projector) (Commit, int64, error) {
	rd, s := a.ready, a.ready.State
	head := d.head
	head.Rev++
	head.Write = d.writeID()
	head.Seq, head.At, head.Inc = s.Seq, s.At, s.Inc
	head.Status = s.Status
	if pr.progress {
		head.Failures = 0
	}
	d.drive(&head, rd, a.env)
	c := Commit{Key: d.key, Expect: d.head.Rev, Head: head, Rows: pr.rows, Blobs: slices.Clip(a.choice.blobs)}
	if d.claimed {
		claim := d.head.Drive
		c.Claim = &claim
	}
	var bytes int64
	for _, en := range rd.Entries {
		data, err := wire.Encode(en)
		if err != nil {
			return Commit{}, 0, &session.Divergence{Seq: en.Seq, Code: "encode", Detail: err.Error()}
		}
		bytes += int64(len(data))
		c.Entries = append(c.Entries, StoredEntry{Seq: en.Seq, Data: data})
		if _, ok := en.Event.(*session.ToolsPublished); ok && d.offer.body != nil {
			c.Blobs = append(c.Blobs, Blob{Ref: blob.Ref(d.offer.offer.Ref), Data: d.offer.body})
		}
	}
	if pr.list || len(d.metaEdits) > 0 {
		m := d.meta
		pr.apply(&m, s)
		for _, edit := range d.metaEdits {
			edit(&m)
		}
		c.Meta = &m
	}
	return c, bytes, nil
}
