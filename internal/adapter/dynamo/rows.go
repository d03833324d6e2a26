package dynamo

import (
	"context"
	"slices"

	"github.com/perdure/perdure/internal/host"
)

// Row implements host.Log.
func (s *Store) Row(ctx context.Context, key host.Key, row string) (host.Row, error) {
	pk, err := partition(key)
	if err != nil {
		return host.Row{}, err
	}
	sk, err := rowSK(row)
	if err != nil {
		return host.Row{}, err
	}
	it, err := s.get(ctx, "row", pk, sk, true)
	if err != nil {
		return host.Row{}, err
	}
	if len(it) == 0 {
		return host.Row{}, host.ErrNotFound
	}
	return s.parseRow(it)
}

// Rows implements host.Log. The row "park" is read by its name, and is in no
// list.
func (s *Store) Rows(ctx context.Context, key host.Key, prefix, after string, desc bool, limit int) ([]host.Row, error) {
	pk, err := partition(key)
	if err != nil {
		return nil, err
	}
	pieces := rowBounds(prefix)
	if desc {
		slices.Reverse(pieces)
	}
	var rows []host.Row
	for _, piece := range pieces {
		if len(rows) >= limit {
			break
		}
		if after != "" && !piece.cut(encode(after), desc) {
			continue
		}
		q := sessionSpan(pk, piece.low, piece.high)
		q.desc, q.limit = desc, limit-len(rows)
		if after != "" {
			q.limit++ // the cursor itself is in the range
		}
		err := s.query(ctx, "rows", q, func(it item) (bool, error) {
			row, err := s.parseRow(it)
			if after == "" || row.Key != after {
				rows = append(rows, row)
			}
			return len(rows) < limit, err
		})
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// cut leaves what lies behind a cursor, in the direction of reading; false is
// nothing.
func (b *bounds) cut(at string, desc bool) bool {
	if desc {
		b.high = min(b.high, at)
	} else {
		b.low = max(b.low, at)
	}
	return b.low <= b.high
}
