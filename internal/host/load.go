package host

import (
	"context"
	"errors"
	"fmt"

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
// that is not there is loaded too, as one that can be opened.
func (d *driver) ensure(ctx context.Context) error {
	if d.loaded {
		return d.broken
	}
	head, err := d.e.d.Log.Head(ctx, d.key)
	if errors.Is(err, ErrNotFound) {
		d.m, d.loaded = machine.New(session.State{}), true
		return nil
	}
	if err != nil {
		d.broken = errors.Join(ErrUnavailable, err)
		return d.broken
	}
	if d.meta, err = d.e.d.Log.Meta(ctx, d.key); err != nil && !errors.Is(err, ErrNotFound) {
		d.broken = errors.Join(ErrUnavailable, err)
		return d.broken
	}
	d.head = head
	if head.Status == StatusDeleting {
		d.m, d.loaded = machine.New(session.State{}), true
		return d.purge(ctx)
	}
	s, err := d.fold(ctx, session.State{}, head.Seq)
	d.m = machine.New(s)
	d.loaded = true
	if err == nil {
		if head.Drive.Status != DriveIdle {
			d.takeOver(ctx)
		}
		return d.broken
	}
	var div *session.Divergence
	if errors.As(err, &div) && !errors.Is(err, session.ErrNewer) {
		if head.Quarantine == nil {
			d.quarantine(ctx, div)
		}
		return nil
	}
	// A newer build's session, a gap, a fault: nothing is written.
	d.broken = errors.Join(ErrUnavailable, err)
	return d.broken
}

// reload catches up with another writer's commits.
func (d *driver) reload(ctx context.Context) error {
	head, err := d.e.d.Log.Head(ctx, d.key)
	if errors.Is(err, ErrNotFound) {
		d.head, d.m = Head{}, machine.New(session.State{})
		return nil
	}
	if err != nil {
		return errors.Join(ErrUnavailable, err)
	}
	if mine := d.head.Drive; d.claimed && (head.Drive.Epoch != mine.Epoch || head.Drive.Step != mine.Step || head.Drive.Attempt != mine.Attempt) {
		// Another driver has claimed the work (I12): this one stops its
		// effects and ends; the next command finds the session anew.
		d.broken = errors.Join(ErrUnavailable, errStale)
		return d.broken
	}
	s := d.m.State()
	if head.Inc != d.head.Inc && d.head.Inc != "" || head.Seq < s.Seq {
		s = session.State{}
	}
	if s, err = d.fold(ctx, s, head.Seq); err != nil {
		return err
	}
	d.head, d.m = head, machine.New(s)
	if d.meta, err = d.e.d.Log.Meta(ctx, d.key); err != nil && !errors.Is(err, ErrNotFound) {
		return errors.Join(ErrUnavailable, err)
	}
	return nil
}

// fold brings a state up to a position: from a checkpoint if it starts at
// nothing and there is a good one, then the tail.
func (d *driver) fold(ctx context.Context, s session.State, upTo ident.Seq) (session.State, error) {
	if s.Seq == 0 {
		s = d.checkpoint(ctx, upTo)
		d.ckpt, d.tail = s.Seq, 0
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
		for _, st := range page {
			en, err := wire.Decode(st.Data)
			if err != nil {
				return s, decodeProblem(st.Seq, err)
			}
			if err := session.Apply(&s, en); err != nil {
				return s, err
			}
			d.tail += int64(len(st.Data))
		}
	}
	return s, nil
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
	cs, err := d.e.d.Checkpoints.LatestCheckpoints(ctx, d.key)
	if err != nil {
		d.e.d.Report(d.key, "checkpoint", err)
		return session.State{}
	}
	for _, c := range cs {
		if c.Inc != d.headInc() || c.Seq > upTo {
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

func (d *driver) headInc() string { return d.head.Inc }

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
	d.tail, d.ckpt = 0, s.Seq
}
