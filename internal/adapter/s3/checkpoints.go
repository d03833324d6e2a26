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

// Pointer remembers where the checkpoints of a session are. What it says is a
// hint: an object that is not there is passed over, and one that it does not
// name is deleted with the session.
type Pointer interface {
	// Checkpoints returns the incarnation and the positions of a session's
	// checkpoints, newest first; none, and no error, if there are none.
	Checkpoints(ctx context.Context, key host.Key) (inc string, seqs []ident.Seq, err error)
	// SetCheckpoints replaces them.
	SetCheckpoints(ctx context.Context, key host.Key, inc string, seqs []ident.Seq) error
}

// where are the checkpoints of a session, newest first.
func (s *Store) where(ctx context.Context, key host.Key) (inc string, seqs []ident.Seq, err error) {
	if s.pointer != nil {
		inc, seqs, err = s.pointer.Checkpoints(ctx, key)
		if err != nil {
			return "", nil, fmt.Errorf("checkpoints: %w", err)
		}
		return inc, seqs, nil
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
// the pointer never names what is not there yet; what falls out goes last.
func (s *Store) PutCheckpoint(ctx context.Context, key host.Key, c host.Checkpoint) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("put checkpoint: %w", err)
	}
	prefix, err := checkpointPrefix(key, c.Inc)
	if err != nil {
		return err
	}
	inc, seqs, err := s.where(ctx, key)
	if err != nil {
		return err
	}
	if inc != c.Inc {
		seqs = nil // of a session that is gone, or not seen yet
	}
	if len(seqs) > 0 && c.Seq < seqs[0] {
		return nil
	}
	if err := s.bucket.put(ctx, checkpointKey(prefix, c.Seq), c.Data, condition{}, nil); err != nil {
		return err
	}
	seqs = slices.DeleteFunc(seqs, func(old ident.Seq) bool { return old == c.Seq })
	seqs = slices.Insert(seqs, 0, c.Seq)
	kept := seqs[:min(len(seqs), checkpointsKept)]
	if s.pointer != nil {
		if err := s.pointer.SetCheckpoints(ctx, key, c.Inc, kept); err != nil {
			return fmt.Errorf("put checkpoint: %w", err)
		}
	}
	return each(seqs[len(kept):], func(old *ident.Seq) error {
		return s.bucket.remove(ctx, checkpointKey(prefix, *old), condition{})
	})
}

// LatestCheckpoints implements host.Checkpoints.
func (s *Store) LatestCheckpoints(ctx context.Context, key host.Key) ([]host.Checkpoint, error) {
	inc, seqs, err := s.where(ctx, key)
	if err != nil || len(seqs) == 0 {
		return nil, err
	}
	prefix, err := checkpointPrefix(key, inc)
	if err != nil {
		return nil, err
	}
	found := make([]host.Checkpoint, min(len(seqs), checkpointsKept))
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
