package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// ErrCorrupt: stored bytes are not those of their address.
var ErrCorrupt = errors.New("content does not match its address")

func checkBlob(b host.Blob) error {
	if _, err := blob.ParseRef(string(b.Ref)); err != nil {
		return fmt.Errorf("blob: %w", err)
	}
	if blob.Sum(b.Data) != b.Ref {
		return fmt.Errorf("blob %s: %w", b.Ref, ErrCorrupt)
	}
	return nil
}

// PutBlob implements host.Blobs. A session that is not there is ErrNotFound:
// what comes after its deletion leaves nothing.
func (s *Store) PutBlob(ctx context.Context, key host.Key, b host.Blob) error {
	return s.do(ctx, Op{Name: "blobs.put", Key: key}, func() error {
		if err := checkBlob(b); err != nil {
			return err
		}
		x := s.sessions[key]
		if x == nil {
			return host.ErrNotFound
		}
		x.blobs[b.Ref] = slices.Clone(b.Data)
		return nil
	})
}

// GetBlob implements host.Blobs.
func (s *Store) GetBlob(ctx context.Context, key host.Key, ref blob.Ref) (data []byte, err error) {
	err = s.do(ctx, Op{Name: "blobs.get", Key: key}, func() error {
		x := s.sessions[key]
		if x == nil {
			return host.ErrNotFound
		}
		stored, ok := x.blobs[ref]
		if !ok {
			return host.ErrNotFound
		}
		if err := checkBlob(host.Blob{Ref: ref, Data: stored}); err != nil {
			return err
		}
		data = slices.Clone(stored)
		s.stats.ReadBytes += int64(len(data))
		return nil
	})
	return data, err
}

// TamperBlob changes a byte of a stored blob, as damage would.
func (s *Store) TamperBlob(key host.Key, ref blob.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.sessions[key]; x != nil && len(x.blobs[ref]) > 0 {
		x.blobs[ref][0] ^= 1
	}
}

// PutCheckpoint implements host.Checkpoints. One of another incarnation than
// the session's is dropped.
func (s *Store) PutCheckpoint(ctx context.Context, key host.Key, c host.Checkpoint) error {
	return s.do(ctx, Op{Name: "checkpoints.put", Key: key}, func() error {
		x := s.sessions[key]
		if x == nil || x.head.Inc != c.Inc || len(x.checkpoints) > 0 && c.Seq < x.checkpoints[0].Seq {
			return nil
		}
		c.Data = slices.Clone(c.Data)
		kept := slices.DeleteFunc(x.checkpoints, func(old host.Checkpoint) bool { return old.Seq == c.Seq })
		kept = append(kept, c)
		slices.SortFunc(kept, func(a, b host.Checkpoint) int { return cmp.Compare(b.Seq, a.Seq) })
		x.checkpoints = kept[:min(len(kept), 2)]
		return nil
	})
}

// LatestCheckpoints implements host.Checkpoints.
func (s *Store) LatestCheckpoints(ctx context.Context, key host.Key, most int) (latest []host.Checkpoint, err error) {
	err = s.do(ctx, Op{Name: "checkpoints.latest", Key: key}, func() error {
		x := s.sessions[key]
		if x == nil {
			return nil
		}
		for _, c := range x.checkpoints[:min(len(x.checkpoints), most)] {
			c.Data = slices.Clone(c.Data)
			latest = append(latest, c)
			s.stats.ReadBytes += int64(len(c.Data))
		}
		return nil
	})
	return latest, err
}

// PutStash implements host.Stash.
func (s *Store) PutStash(ctx context.Context, key host.Key, name string, data []byte, until ident.Instant, ifAbsent bool) (existing []byte, err error) {
	err = s.doAt(ctx, Op{Name: "stash.put", Key: key, timed: ifAbsent}, func(now ident.Instant) error {
		k := stashKey{key, name}
		if old, there := s.stash[k]; there && ifAbsent && now < old.until {
			existing = append([]byte{}, old.data...)
			return nil
		}
		s.stash[k] = stashed{slices.Clone(data), until}
		return nil
	})
	return existing, err
}

// GetStash implements host.Stash.
func (s *Store) GetStash(ctx context.Context, key host.Key, name string, now ident.Instant) (data []byte, err error) {
	err = s.do(ctx, Op{Name: "stash.get", Key: key}, func() error {
		x, there := s.stash[stashKey{key, name}]
		if !there || x.until <= now {
			return host.ErrNotFound
		}
		data = append([]byte{}, x.data...)
		return nil
	})
	return data, err
}

// DropStash implements host.Stash.
func (s *Store) DropStash(ctx context.Context, key host.Key, name string) error {
	return s.do(ctx, Op{Name: "stash.drop", Key: key}, func() error {
		delete(s.stash, stashKey{key, name})
		return nil
	})
}

// SweepStash implements host.Stash. It forgets the earliest first.
func (s *Store) SweepStash(ctx context.Context, now ident.Instant, limit int) (n int, err error) {
	err = s.do(ctx, Op{Name: "stash.sweep"}, func() error {
		var expired []stashKey
		for k, x := range s.stash {
			if x.until <= now {
				expired = append(expired, k)
			}
		}
		slices.SortFunc(expired, func(a, b stashKey) int {
			return cmp.Or(cmp.Compare(s.stash[a].until, s.stash[b].until), compareKeys(a.key, b.key), cmp.Compare(a.name, b.name))
		})
		expired = expired[:min(len(expired), max(limit, 0))]
		for _, k := range expired {
			delete(s.stash, k)
		}
		n = len(expired)
		return nil
	})
	return n, err
}
