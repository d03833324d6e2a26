package sqlite

import (
	"context"
	"errors"

	sqlite3 "github.com/ncruces/go-sqlite3"

	"github.com/perdure/perdure/internal/host"
)

// Bounds of one transaction of a deletion, so that a long log does not keep
// the writes of other sessions waiting.
const (
	purgeItems = 500
	purgeBlobs = 25
)

// Delete implements host.Log. The first transaction takes the session out of
// sight and remembers its number; the rest goes piece by piece. A crash in
// between is made good by the next Delete or Open.
func (s *Store) Delete(ctx context.Context, key host.Key, inc string) error {
	var gone []int64
	err := s.write.do(ctx, 0, func(c *conn) (err error) {
		gone, err = c.dispose(key, inc)
		return err
	})
	for _, number := range gone {
		if err == nil {
			err = s.purge(ctx, number)
		}
	}
	if err == nil && len(gone) > 0 {
		err = s.forget()
	}
	return fault("delete", err)
}

// dispose returns the numbers under which the incarnation is to be purged.
func (c *conn) dispose(key host.Key, inc string) (numbers []int64, err error) {
	tenant, session := string(key.Tenant), string(key.Session)
	err = c.query(sqlTrashOf, func(st *sqlite3.Stmt) bool {
		numbers = append(numbers, st.ColumnInt64(0))
		return true
	}, tenant, session, inc)
	if err != nil {
		return nil, err
	}
	now, err := c.stored(key)
	if err != nil || now.number == 0 || now.head.Inc != inc {
		return numbers, err
	}
	return append(numbers, now.number), errors.Join(
		c.exec(sqlTrashPut, now.number, tenant, session, inc),
		c.exec(sqlHeadDelete, tenant, session),
		c.exec(sqlMetaDelete, now.number),
		c.exec(sqlStashSession, tenant, session),
	)
}

// purge removes what a number left, piece by piece, and its folder.
func (s *Store) purge(ctx context.Context, number int64) error {
	for more := true; more; {
		err := s.write.do(ctx, 0, func(c *conn) (err error) {
			more, err = c.purge(number)
			return err
		})
		if err != nil {
			return err
		}
	}
	if err := s.files.removeAll(number); err != nil {
		return err
	}
	return s.write.do(ctx, 0, func(c *conn) error { return c.exec(sqlTrashDone, number) })
}

func (c *conn) purge(number int64) (more bool, err error) {
	for _, part := range []struct {
		sql   string
		limit int
	}{{sqlPurgeEvents, purgeItems}, {sqlPurgeRows, purgeItems}, {sqlPurgeBlobs, purgeBlobs}} {
		n, err := c.changes(part.sql, number, part.limit)
		if err != nil || n == part.limit {
			return true, err
		}
	}
	return false, c.exec(sqlPurgeCheckp, number)
}

// forget folds the log of writes back into the database and empties it: it
// still has pages with what was deleted. A reader may hold it; then later
// writes do, in their time.
func (s *Store) forget() error {
	return s.write.exclusive(func(c *conn) error {
		_, _, err := c.db.WALCheckpoint("main", sqlite3.CHECKPOINT_TRUNCATE)
		if errors.Is(err, sqlite3.BUSY) {
			return nil
		}
		return err //nolint:wrapcheck // by its caller
	})
}

func (s *Store) purgeAll(ctx context.Context) error {
	var numbers []int64
	err := s.read.with(ctx, func(c *conn) error {
		return c.query(sqlTrashAll, func(st *sqlite3.Stmt) bool {
			numbers = append(numbers, st.ColumnInt64(0))
			return true
		})
	})
	for _, number := range numbers {
		if err == nil {
			err = s.purge(ctx, number)
		}
	}
	return fault("finish deletions", err)
}

func (s *Store) lastNumber(ctx context.Context) (int64, error) {
	number, _, err := s.has(ctx, sqlLastNumber)
	return number, fault("find the last session", err)
}

func (s *Store) hasNumber(ctx context.Context, number int64) (bool, error) {
	_, there, err := s.has(ctx, sqlHasNumber, number)
	return there, err
}
