package s3

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

const (
	checkpointsKept = 2
	checkpointMost  = 64 << 20 // bytes of one
)

// Positions are those of the newest two checkpoints of an incarnation; 0 is
// none.
type Positions struct {
	Inc    string
	Newest ident.Seq
	Before ident.Seq
}

func (p Positions) has(inc string, seq ident.Seq) bool {
	return p.Inc == inc && seq != 0 && (seq == p.Newest || seq == p.Before)
}

func (p Positions) seqs() []ident.Seq {
	return slices.DeleteFunc([]ident.Seq{p.Newest, p.Before}, func(seq ident.Seq) bool { return seq == 0 })
}

// Pointer remembers where the checkpoints of a session are. What it says is a
// hint: an object that is not there is passed over, and one that it does not
// name is deleted with the session.
type Pointer interface {
	// GetPointer says where a session's checkpoints are; the zero Positions,
	// and no error, if it has none.
	GetPointer(ctx context.Context, key host.Key) (Positions, error)
	// PutPointer notes a checkpoint that has been written, and returns what was
	// noted before and what is now. It never goes back to an older one.
	PutPointer(ctx context.Context, key host.Key, inc string, seq ident.Seq) (was, now Positions, err error)
}

// where are the checkpoints of a session, newest first.
func (s *Store) where(ctx context.Context, key host.Key) (inc string, seqs []ident.Seq, err error) {
	if s.pointer != nil {
		p, err := s.pointer.GetPointer(ctx, key)
		if err != nil {
			return "", nil, fmt.Errorf("checkpoints: %w", err)
		}
		return p.Inc, p.seqs(), nil
	}
	inc, err = s.inc(ctx, key)
	if errors.Is(err, host.ErrNotFound) {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, err
	}
	seqs, err = s.listCheckpoints(ctx, key, inc)
	return inc, seqs, err
}

func (s *Store) listCheckpoints(ctx context.Context, key host.Key, inc string) ([]ident.Seq, error) {
	prefix, err := checkpointPrefix(key, inc)
	if err != nil {
		return nil, err
	}
	var seqs []ident.Seq
	err = s.bucket.list(ctx, query{prefix: prefix}, pageMost, func(page []listed) (bool, error) {
		for _, row := range page {
			if n, err := strconv.ParseUint(strings.TrimPrefix(row.key, prefix), 10, 64); err == nil {
				seqs = append(seqs, ident.Seq(n))
			}
		}
		return true, nil
	})
	slices.Reverse(seqs)
	return seqs, err
}

// PutCheckpoint implements host.Checkpoints. The object goes first, so that
// nothing points to what is not there yet; what has fallen out goes last.
func (s *Store) PutCheckpoint(ctx context.Context, key host.Key, c host.Checkpoint) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("put checkpoint: %w", err)
	}
	prefix, err := checkpointPrefix(key, c.Inc)
	if err != nil {
		return err
	}
	if err := s.bucket.put(ctx, checkpointKey(prefix, c.Seq), c.Data, condition{}, nil); err != nil {
		return err
	}
	old, err := s.fallen(ctx, key, c)
	if err != nil {
		return err
	}
	return each(old, func(name *string) error { return s.bucket.remove(ctx, *name, condition{}) })
}

// fallen are the keys of checkpoints that are not among those kept, now that one
// has been written: perhaps that one.
func (s *Store) fallen(ctx context.Context, key host.Key, c host.Checkpoint) (names []string, err error) {
	prefix, err := checkpointPrefix(key, c.Inc)
	if err != nil {
		return nil, err
	}
	var old []ident.Seq
	if s.pointer == nil {
		seqs, err := s.listCheckpoints(ctx, key, c.Inc)
		if err != nil {
			return nil, err
		}
		if len(seqs) > 0 && seqs[0] > c.Seq {
			seqs = slices.DeleteFunc(seqs, func(seq ident.Seq) bool { return seq == c.Seq })
			old = append(old, c.Seq)
		}
		old = append(old, seqs[min(len(seqs), checkpointsKept):]...)
	} else {
		was, now, err := s.pointer.PutPointer(ctx, key, c.Inc, c.Seq)
		if err != nil {
			return nil, fmt.Errorf("put checkpoint: %w", err)
		}
		if was.Inc == c.Inc {
			old = was.seqs() // an earlier session's go with it
		}
		old = slices.DeleteFunc(append(old, c.Seq), func(seq ident.Seq) bool { return now.has(c.Inc, seq) })
	}
	for _, seq := range old {
		names = append(names, checkpointKey(prefix, seq))
	}
	return names, nil
}

// LatestCheckpoints implements host.Checkpoints.
func (s *Store) LatestCheckpoints(ctx context.Context, key host.Key, most int) ([]host.Checkpoint, error) {
	inc, seqs, err := s.where(ctx, key)
	if err != nil || len(seqs) == 0 {
		return nil, err
	}
	prefix, err := checkpointPrefix(key, inc)
	if err != nil {
		return nil, err
	}
	found := make([]host.Checkpoint, min(len(seqs), checkpointsKept, most))
	for i := range found {
		found[i] = host.Checkpoint{Inc: inc, Seq: seqs[i]}
	}
	err = each(found, func(c *host.Checkpoint) error {
		data, _, err := s.bucket.get(ctx, checkpointKey(prefix, c.Seq), checkpointMost)
		if errors.Is(err, host.ErrNotFound) {
			c.Inc = "" // it fell out between the two looks
			return nil
		}
		c.Data = data
		return err
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(found, func(c host.Checkpoint) bool { return c.Inc == "" }), nil
}
