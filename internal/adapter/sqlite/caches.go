package sqlite

import (
	"context"

	sqlite3 "github.com/ncruces/go-sqlite3"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// PutCheckpoint implements host.Checkpoints. One of another incarnation than
// the session's is dropped: it would outlive the deletion of its own.
func (s *Store) PutCheckpoint(ctx context.Context, key host.Key, cp host.Checkpoint) error {
	err := s.write.do(ctx, int64(len(cp.Data)), func(c *conn) error {
		now, err := c.stored(key)
		if err != nil || now.number == 0 || now.head.Inc != cp.Inc {
			return err
		}
		newest, _, err := c.number(sqlCheckpointNewest, now.number)
		if err != nil || clamp(cp.Seq) < newest {
			return err
		}
		if err := c.exec(sqlCheckpointPut, now.number, clamp(cp.Seq), cp.Data); err != nil {
			return err
		}
		return c.exec(sqlCheckpointTrim, now.number)
	})
	return fault("put checkpoint", err)
}

// LatestCheckpoints implements host.Checkpoints.
func (s *Store) LatestCheckpoints(ctx context.Context, key host.Key, most int) (latest []host.Checkpoint, err error) {
	err = s.read.with(ctx, func(c *conn) error {
		return c.query(sqlCheckpoints, func(st *sqlite3.Stmt) bool {
			cp := host.Checkpoint{Inc: st.ColumnText(0), Seq: ident.Seq(st.ColumnInt64(1)), Data: column(st, 2)}
			latest = append(latest, cp)
			s.readBytes.Add(int64(len(cp.Data)))
			return len(latest) < most
		}, string(key.Tenant), string(key.Session))
	})
	return latest, fault("checkpoints", err)
}

// PutStash implements host.Stash.
func (s *Store) PutStash(ctx context.Context, key host.Key, name string, data []byte, until ident.Instant, ifAbsent bool) (existing []byte, err error) {
	err = s.write.do(ctx, int64(len(data)), func(c *conn) error {
		existing = nil
		if ifAbsent {
			found, expires, err := c.stashed(key, name)
			if err != nil {
				return err
			}
			if found != nil && s.now() < expires {
				existing = found
				return nil
			}
		}
		return c.exec(sqlStashPut, string(key.Tenant), string(key.Session), name, int64(until), data)
	})
	return existing, fault("put stash", err)
}

// GetStash implements host.Stash.
func (s *Store) GetStash(ctx context.Context, key host.Key, name string, now ident.Instant) ([]byte, error) {
	var data []byte
	var until ident.Instant
	err := s.read.with(ctx, func(c *conn) (err error) {
		data, until, err = c.stashed(key, name)
		return err
	})
	if err != nil {
		return nil, fault("get stash", err)
	}
	if data == nil || until <= now {
		return nil, host.ErrNotFound
	}
	s.readBytes.Add(int64(len(data)))
	return data, nil
}

func (c *conn) stashed(key host.Key, name string) (data []byte, until ident.Instant, err error) {
	err = c.query(sqlStashGet, func(st *sqlite3.Stmt) bool {
		until, data = ident.Instant(st.ColumnInt64(0)), column(st, 1)
		return false
	}, string(key.Tenant), string(key.Session), name)
	return data, until, err
}

// DropStash implements host.Stash.
func (s *Store) DropStash(ctx context.Context, key host.Key, name string) error {
	return fault("drop stash", s.write.do(ctx, 0, func(c *conn) error {
		return c.exec(sqlStashDrop, string(key.Tenant), string(key.Session), name)
	}))
}

// SweepStash implements host.Stash.
func (s *Store) SweepStash(ctx context.Context, now ident.Instant, limit int) (n int, err error) {
	err = s.write.do(ctx, 0, func(c *conn) (err error) {
		n, err = c.changes(sqlStashSweep, int64(now), max(limit, 0))
		return err
	})
	return n, fault("sweep stash", err)
}
