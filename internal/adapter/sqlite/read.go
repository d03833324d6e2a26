package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	sqlite3 "github.com/ncruces/go-sqlite3"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// page gathers events in the order they are read until a limit is reached.
type page struct {
	events   []host.StoredEntry
	bytes    int64
	most     int64
	full     bool // ended by its bytes, not by the log
	missing  bool // an event was not next to the one before
	previous ident.Seq
}

func (p *page) scan(st *sqlite3.Stmt) bool {
	seq := ident.Seq(st.ColumnInt64(0) & seqMax)
	if p.previous != 0 && seq != p.previous+1 && seq != p.previous-1 {
		p.missing = true
		return false
	}
	p.previous = seq
	// The length is in the row's header: what does not fit is not read.
	if size := st.ColumnInt64(1); len(p.events) > 0 && p.bytes+size > p.most {
		p.full = true
		return false
	}
	data := column(st, 2)
	p.bytes += int64(len(data))
	p.events = append(p.events, host.StoredEntry{Seq: seq, Data: data})
	return true
}

// Read implements host.Log.
func (s *Store) Read(ctx context.Context, key host.Key, after, upTo ident.Seq, limit int, maxBytes int64) ([]host.StoredEntry, error) {
	p := page{most: maxBytes, previous: after}
	err := s.read.with(ctx, func(c *conn) error {
		if after >= upTo || limit <= 0 {
			return nil
		}
		return c.query(sqlRead, p.scan, string(key.Tenant), string(key.Session), clamp(after), clamp(upTo), limit)
	})
	if err != nil {
		return nil, fault("read", err)
	}
	s.readBytes.Add(p.bytes)
	first := len(p.events) == 0 || p.events[0].Seq == after+1
	ended := p.full || len(p.events) >= limit || p.previous >= upTo
	if p.missing || !first || !ended {
		return nil, fmt.Errorf("event %d of %s: %w", p.previous+1, key, host.ErrGap)
	}
	return p.events, nil
}

// ReadBefore implements host.Log.
func (s *Store) ReadBefore(ctx context.Context, key host.Key, before ident.Seq, limit int, maxBytes int64) ([]host.StoredEntry, error) {
	p := page{most: maxBytes}
	err := s.read.with(ctx, func(c *conn) error {
		if limit <= 0 {
			return nil
		}
		return c.query(sqlReadBefore, p.scan, string(key.Tenant), string(key.Session), clamp(before), limit)
	})
	if err != nil {
		return nil, fault("read", err)
	}
	s.readBytes.Add(p.bytes)
	if p.missing || len(p.events) > 0 && !p.full && len(p.events) < limit && p.previous != 1 {
		return nil, fmt.Errorf("event %d of %s: %w", p.previous-1, key, host.ErrGap)
	}
	slices.Reverse(p.events)
	return p.events, nil
}

// clamp keeps a position within one session's range of ids.
func clamp(seq ident.Seq) int64 { return int64(min(seq, seqMax)) }

// Row implements host.Log.
func (s *Store) Row(ctx context.Context, key host.Key, row string) (host.Row, error) {
	found, err := s.rows(ctx, sqlRow, string(key.Tenant), string(key.Session), row)
	if err == nil && len(found) == 0 {
		return host.Row{}, host.ErrNotFound
	}
	if err != nil {
		return host.Row{}, err
	}
	return found[0], nil
}

// Rows implements host.Log.
func (s *Store) Rows(ctx context.Context, key host.Key, prefix, after string, desc bool, limit int) ([]host.Row, error) {
	// One range, [low, high), in either direction, so that the tree is entered
	// at the page's first row and left at its last.
	low, high, sql := prefix, afterPrefix(prefix), sqlRowsUp
	if desc {
		sql = sqlRowsDown
		if text, bounded := high.(string); after != "" && (!bounded || after < text) {
			high = after
		}
	} else if after != "" && after >= low {
		low = after + "\x00"
	}
	return s.rows(ctx, sql, string(key.Tenant), string(key.Session), low, high, max(limit, 0))
}

// afterPrefix is the least value that sorts after every text with the prefix:
// a text, or an empty blob, which sorts after all texts.
func afterPrefix(prefix string) any {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < math.MaxUint8 {
			return prefix[:i] + string([]byte{prefix[i] + 1})
		}
	}
	return []byte{}
}

func (s *Store) rows(ctx context.Context, sql string, args ...any) (rows []host.Row, err error) {
	err = s.read.with(ctx, func(c *conn) error {
		return c.query(sql, func(st *sqlite3.Stmt) bool {
			rows = append(rows, host.Row{Key: st.ColumnText(0), Todo: ident.Instant(st.ColumnInt64(1)), Data: column(st, 2)})
			return true
		}, args...)
	})
	return rows, fault("rows", err)
}

// Todo implements host.Log.
func (s *Store) Todo(ctx context.Context, tenant ident.TenantID, prefix string, after *host.TodoRow, limit int) (rows []host.TodoRow, err error) {
	if after == nil {
		after = &host.TodoRow{}
	}
	err = s.read.with(ctx, func(c *conn) error {
		return c.query(sqlTodo, func(st *sqlite3.Stmt) bool {
			rows = append(rows, host.TodoRow{
				Session: ident.SessionID(st.ColumnText(0)),
				Row:     host.Row{Key: st.ColumnText(1), Todo: ident.Instant(st.ColumnInt64(2)), Data: column(st, 3)},
			})
			return true
		}, string(tenant), int64(after.Row.Todo), string(after.Session), after.Row.Key, prefix, afterPrefix(prefix), max(limit, 0))
	})
	return rows, fault("todo", err)
}

// Meta implements host.Log.
func (s *Store) Meta(ctx context.Context, key host.Key) (meta host.Meta, err error) {
	var data []byte
	err = s.read.with(ctx, func(c *conn) error {
		return c.query(sqlMeta, func(st *sqlite3.Stmt) bool {
			data = column(st, 0)
			return false
		}, string(key.Tenant), string(key.Session))
	})
	if err == nil && data == nil {
		return host.Meta{}, host.ErrNotFound
	}
	if err == nil {
		err = json.Unmarshal(data, &meta)
	}
	return meta, fault("meta", err)
}

// List implements host.Log.
func (s *Store) List(ctx context.Context, q host.ListQuery) (listed []host.Listed, err error) {
	statuses := []string{q.Status}
	if q.Status == "" {
		statuses = []string{host.StatusOpen, host.StatusClosed}
	}
	older := int64(math.MinInt64)
	if q.BeforeUpdated != 0 || q.BeforeSession != "" {
		older = -int64(q.BeforeUpdated)
	}
	err = s.read.snapshot(ctx, func(c *conn) error {
		for _, status := range statuses {
			if status == host.StatusDeleting {
				continue
			}
			some, err := c.list(string(q.Tenant), status, older, string(q.BeforeSession), max(q.Limit, 0))
			if err != nil {
				return err
			}
			listed = append(listed, some...)
		}
		return nil
	})
	if err != nil {
		return nil, fault("list", err)
	}
	slices.SortStableFunc(listed, newestFirst)
	return listed[:min(len(listed), max(q.Limit, 0))], nil
}

func newestFirst(a, b host.Listed) int {
	switch {
	case a.Meta.UpdatedAt != b.Meta.UpdatedAt && a.Meta.UpdatedAt > b.Meta.UpdatedAt, a.Meta.UpdatedAt == b.Meta.UpdatedAt && a.Session < b.Session:
		return -1
	default:
		return 1
	}
}

func (c *conn) list(tenant, status string, older int64, session string, limit int) (listed []host.Listed, err error) {
	var scanErr error
	err = c.query(sqlList, func(st *sqlite3.Stmt) bool {
		l := host.Listed{Session: ident.SessionID(st.ColumnText(14))}
		if l.Head, scanErr = scanHead(st); scanErr != nil {
			return false
		}
		if scanErr = json.Unmarshal(st.ColumnRawBlob(15), &l.Meta); scanErr != nil {
			return false
		}
		listed = append(listed, l)
		return true
	}, tenant, status, older, session, limit)
	return listed, errors.Join(err, scanErr)
}

// Due implements host.Log.
func (s *Store) Due(ctx context.Context, now ident.Instant, limit int) ([]host.Key, error) {
	return s.keys(ctx, "due", sqlDue, int64(now), max(limit, 0))
}

// Unfinished implements host.Log.
func (s *Store) Unfinished(ctx context.Context, after host.Key, limit int) ([]host.Key, error) {
	return s.keys(ctx, "unfinished", sqlUnfinished, string(after.Tenant), string(after.Session), max(limit, 0))
}

func (s *Store) keys(ctx context.Context, op, sql string, args ...any) (keys []host.Key, err error) {
	err = s.read.with(ctx, func(c *conn) error {
		return c.query(sql, func(st *sqlite3.Stmt) bool {
			keys = append(keys, host.Key{Tenant: ident.TenantID(st.ColumnText(0)), Session: ident.SessionID(st.ColumnText(1))})
			return true
		}, args...)
	})
	return keys, fault(op, err)
}
