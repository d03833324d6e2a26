package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// Row implements host.Log.
func (s *Store) Row(ctx context.Context, key host.Key, row string) (r host.Row, err error) {
	err = s.do(ctx, Op{Name: "log.row", Key: key}, func() error {
		x := s.sessions[key]
		if x == nil {
			return host.ErrNotFound
		}
		found, ok := x.rows[row]
		if !ok {
			return host.ErrNotFound
		}
		r = copyRow(found)
		return nil
	})
	return r, err
}

// Rows implements host.Log.
func (s *Store) Rows(ctx context.Context, key host.Key, prefix, after string, desc bool, limit int) (rows []host.Row, err error) {
	err = s.do(ctx, Op{Name: "log.rows", Key: key}, func() error {
		x := s.sessions[key]
		if x == nil {
			return nil
		}
		keys := slices.Sorted(maps.Keys(x.rows))
		if desc {
			slices.Reverse(keys)
		}
		for _, k := range keys {
			beyond := after == "" || !desc && k > after || desc && k < after
			if len(rows) < limit && beyond && strings.HasPrefix(k, prefix) {
				rows = append(rows, copyRow(x.rows[k]))
			}
		}
		return nil
	})
	return rows, err
}

// Meta implements host.Log.
func (s *Store) Meta(ctx context.Context, key host.Key) (meta host.Meta, err error) {
	err = s.do(ctx, Op{Name: "log.meta", Key: key}, func() error {
		x := s.sessions[key]
		if x == nil || x.meta == nil {
			return host.ErrNotFound
		}
		meta = copyMeta(*x.meta)
		return nil
	})
	return meta, err
}

// List implements host.Log.
func (s *Store) List(ctx context.Context, q host.ListQuery) (page []host.Listed, err error) {
	err = s.do(ctx, Op{Name: "log.list", Key: host.Key{Tenant: q.Tenant}}, func() error {
		for key, x := range s.sessions {
			l := host.Listed{Session: key.Session, Head: x.head}
			if x.meta == nil || key.Tenant != q.Tenant || !inList(q.Status, x.head.Status) {
				continue
			}
			l.Meta = *x.meta
			cursor := host.Listed{Session: q.BeforeSession, Meta: host.Meta{UpdatedAt: q.BeforeUpdated}}
			if q.BeforeUpdated == 0 && q.BeforeSession == "" || compareListed(l, cursor) > 0 {
				page = append(page, l)
			}
		}
		slices.SortFunc(page, compareListed)
		page = page[:min(len(page), max(q.Limit, 0))]
		for i := range page {
			page[i].Head, page[i].Meta = copyHead(page[i].Head), copyMeta(page[i].Meta)
		}
		return nil
	})
	return page, err
}

func inList(asked, status string) bool {
	return status != host.StatusDeleting && (asked == "" || asked == status)
}

// compareListed orders newest update first, ties by id.
func compareListed(a, b host.Listed) int {
	return cmp.Or(cmp.Compare(b.Meta.UpdatedAt, a.Meta.UpdatedAt), cmp.Compare(a.Session, b.Session))
}

// Todo implements host.Log.
func (s *Store) Todo(ctx context.Context, tenant ident.TenantID, prefix string, after *host.TodoRow, limit int) (page []host.TodoRow, err error) {
	err = s.do(ctx, Op{Name: "log.todo", Key: host.Key{Tenant: tenant}}, func() error {
		for key, x := range s.sessions {
			for k, r := range x.rows {
				todo := host.TodoRow{Session: key.Session, Row: r}
				if key.Tenant == tenant && r.Todo != 0 && strings.HasPrefix(k, prefix) && (after == nil || compareTodo(todo, *after) > 0) {
					page = append(page, todo)
				}
			}
		}
		slices.SortFunc(page, compareTodo)
		page = page[:min(len(page), max(limit, 0))]
		for i := range page {
			page[i].Row = copyRow(page[i].Row)
		}
		return nil
	})
	return page, err
}

func compareTodo(a, b host.TodoRow) int {
	return cmp.Or(cmp.Compare(a.Row.Todo, b.Row.Todo), cmp.Compare(a.Session, b.Session), cmp.Compare(a.Row.Key, b.Row.Key))
}

// Due implements host.Log.
func (s *Store) Due(ctx context.Context, now ident.Instant, limit int) (keys []host.Key, err error) {
	err = s.do(ctx, Op{Name: "log.due"}, func() error {
		for key, x := range s.sessions {
			if x.head.DueAt != 0 && x.head.DueAt <= now {
				keys = append(keys, key)
			}
		}
		slices.SortFunc(keys, func(a, b host.Key) int {
			return cmp.Or(cmp.Compare(s.sessions[a].head.DueAt, s.sessions[b].head.DueAt), compareKeys(a, b))
		})
		keys = keys[:min(len(keys), max(limit, 0))]
		return nil
	})
	return keys, err
}

// Unfinished implements host.Log.
func (s *Store) Unfinished(ctx context.Context, after host.Key, limit int) (keys []host.Key, err error) {
	err = s.do(ctx, Op{Name: "log.unfinished"}, func() error {
		for key, x := range s.sessions {
			status := x.head.Drive.Status
			if status != "" && status != host.DriveIdle && compareKeys(key, after) > 0 {
				keys = append(keys, key)
			}
		}
		slices.SortFunc(keys, compareKeys)
		keys = keys[:min(len(keys), max(limit, 0))]
		return nil
	})
	return keys, err
}

func copyRow(r host.Row) host.Row {
	r.Data = slices.Clone(r.Data)
	return r
}
