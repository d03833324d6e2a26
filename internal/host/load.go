package host

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/machine"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
)

// pageEvents and pageBytes bound one read of the log.
const (
	pageEvents = 512
	pageBytes  = 1 << 20
)

var errStale = errors.New("another driver has taken over")

// ensure loads the session once: head, newest good checkpoint, tail. A session
// that is not there is loaded too, as one that can be opened. A driver's work
// begins here: whoever had it before is gone.
func (d *driver) ensure(ctx context.Context) error {
	if d.loaded || d.broken != nil {
		return d.broken
	}
	woken := slices.ContainsFunc(d.rest, func(m message) bool { return m.wake })
	if woken {
		d.purgeLog(ctx)
	}
	if err := d.load(ctx); err != nil {
		d.broken = unavailable(err)
		if ctx.Err() == nil {
			d.e.ails(d.key, "load", err)
		}
		return d.broken
	}
	d.loaded = true
	if d.head.Status == StatusDeleting {
		if woken {
			return d.purge(ctx)
		}
		return nil // the sweep sees to what is left of it
	}
	d.takeOver(ctx)
	return d.broken
}

func (d *driver) load(ctx context.Context) error {
	for try := 0; ; try++ {
		head, meta, err := d.e.d.Log.Open(ctx, d.key)
		if errors.Is(err, ErrNotFound) {
			d.m = machine.New(session.State{})
			return nil
		}
		if err != nil {
			return err
		}
		d.head, d.meta = head, meta
		err = d.claim(ctx)
		if _, ok := errors.AsType[*Conflict](err); ok && try < sends {
			continue // it moves: an admission elsewhere, or another driver
		}
		if err != nil {
			return err
		}
		break
	}
	if d.head.Status == StatusDeleting {
		d.m = machine.New(session.State{})
		return nil
	}
	s, err := d.fold(ctx, session.State{}, d.head.Seq)
	d.m = machine.New(s)
	var div *session.Divergence
	if errors.As(err, &div) && !errors.Is(err, session.ErrNewer) {
		if d.head.Quarantine == nil {
			d.quarantine(ctx, div)
		}
		return d.broken
	}
	// A newer build's session, a gap, a fault: nothing is written.
	return err
}

// reload catches up with another writer's commits.
func (d *driver) reload(ctx context.Context) error {
	head, meta, err := d.e.d.Log.Open(ctx, d.key)
	gone := errors.Is(err, ErrNotFound)
	if err != nil && !gone {
		return unavailable(err)
	}
	mine := d.head.Drive
	stale := head.Inc != d.head.Inc || head.Drive.Epoch != mine.Epoch || head.Drive.Step != mine.Step || head.Drive.Attempt != mine.Attempt
	if d.slice != nil && !d.claimed {
		// The step is not claimed yet: whether it still may be is asked anew.
		var instead string
		d.slice.claim, instead = d.slice.step.fence(&head)
		stale = instead != ""
	}
	if (d.claimed || d.slice != nil) && (gone || stale) {
		d.taken = head
		// Another driver has claimed the work (I12), or it is gone: this one
		// stops its effects and ends; the next command finds the session anew.
		d.broken = unavailable(errStale)
		return d.broken
	}
	if gone {
		d.head, d.meta, d.m = Head{}, Meta{}, machine.New(session.State{})
		return nil
	}
	s := d.m.State()
	if head.Inc != d.head.Inc || head.Seq < s.Seq {
		s = session.State{}
	}
	if head.Status != StatusDeleting {
		s, err = d.fold(ctx, s, head.Seq)
	}
	var div *session.Divergence
	if err != nil && (!errors.As(err, &div) || errors.Is(err, session.ErrNewer)) {
		return unavailable(err)
	}
	d.head, d.meta, d.m = head, meta, machine.New(s)
	if div != nil && head.Quarantine == nil {
		d.quarantine(ctx, div)
	}
	d.reconcile()
	switch {
	case d.broken != nil:
		return d.broken
	case d.head.Quarantine != nil:
		return d.isFrozen()
	}
	return nil
}

// unavailable marks an error that says nothing of the command: it may be sent
// again.
func unavailable(err error) error {
	if errors.Is(err, ErrUnavailable) {
		return err
	}
	return errors.Join(ErrUnavailable, err)
}

// fold brings a state up to a position: from a checkpoint if it starts at
// nothing and there is a good one, then the tail.
func (d *driver) fold(ctx context.Context, s session.State, upTo ident.Seq) (session.State, error) {
	if s.Seq == 0 {
		s, d.tail = d.checkpoint(ctx, upTo), 0
	}
	s.Own()
	for s.Seq < upTo {
		page, err := d.e.d.Log.Read(ctx, d.key, s.Seq, upTo, pageEvents, pageBytes)
		if err != nil {
			return s, err
		}
		if len(page) == 0 {
			return s, fmt.Errorf("%w: nothing after %d, the head says %d", ErrGap, s.Seq, upTo)
		}
		if err := d.foldPage(&s, page); err != nil {
			return s, err
		}
	}
	return s, nil
}

// foldPage moves a state on by a page of events. A panic in the core is a bug
// that this log shows: it freezes the session and leaves the process alone.
func (d *driver) foldPage(s *session.State, page []StoredEntry) (err error) {
	defer func() {
		if p := caught(recover()); p != nil {
			err = &session.Divergence{Seq: s.Seq + 1, Code: "panic", Detail: p.Error()}
		}
	}()
	for _, st := range page {
		en, err := wire.Decode(st.Data)
		if err != nil {
			return decodeProblem(st.Seq, err)
		}
		if err := session.Apply(s, en); err != nil {
			return err
		}
		d.tail += int64(len(st.Data))
	}
	return nil
}

// decodeProblem tells damage from what a newer build wrote.
func decodeProblem(seq ident.Seq, err error) error {
	if errors.Is(err, session.ErrNewer) {
		return fmt.Errorf("event %d: %w", seq, err)
	}
	return &session.Divergence{Seq: seq, Code: wire.CodeMalformed, Detail: err.Error()}
}

// checkpoint returns the newest state that can be trusted, or the empty one: a
// checkpoint is an accelerator, so any doubt means a full fold.
func (d *driver) checkpoint(ctx context.Context, upTo ident.Seq) session.State {
	for n := 1; n <= 2; n++ {
		cs, err := d.e.d.Checkpoints.LatestCheckpoints(ctx, d.key, n)
		if err != nil {
			d.e.d.Report(d.key, "checkpoint", err)
			return session.State{}
		}
		if len(cs) < n {
			break
		}
		c := cs[n-1]
		if c.Inc != d.head.Inc || c.Seq > upTo {
			continue
		}
		s, err := wire.DecodeCheckpoint(c.Data, c.Inc, c.Seq)
		if err == nil {
			return s
		}
		d.e.d.Report(d.key, "checkpoint", err)
	}
	return session.State{}
}

// save writes a checkpoint when the tail has grown long. It is never part of a
// commit, and its failure harms nobody.
func (d *driver) save(ctx context.Context) {
	if d.tail < d.e.o.CheckpointAt {
		return
	}
	s := d.m.State()
	data, err := wire.EncodeCheckpoint(s)
	if err == nil {
		err = d.e.d.Checkpoints.PutCheckpoint(ctx, d.key, Checkpoint{Inc: s.Inc, Seq: s.Seq, Data: data})
	}
	if err != nil {
		d.e.d.Report(d.key, "checkpoint", err)
	}
	d.tail = 0
}
