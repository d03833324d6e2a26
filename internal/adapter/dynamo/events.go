package dynamo

import (
	"context"
	"fmt"
	"slices"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// page collects events until it has enough of them.
type page struct {
	events []host.StoredEntry
	limit  int
	most   int64 // bytes
	bytes  int64
	full   bool
}

// add takes an event, and says whether there was room for it.
func (p *page) add(e host.StoredEntry) bool {
	if len(p.events) >= p.limit || len(p.events) > 0 && p.bytes+int64(len(e.Data)) > p.most {
		p.full = true
		return false
	}
	p.bytes += int64(len(e.Data))
	p.events = append(p.events, e)
	p.full = len(p.events) == p.limit
	return true
}

// itemsFor is how many items a page of events asks for at once. An item is at
// least one event, and seldom less than a kilobyte; what is read beyond the
// page is paid for and thrown away.
func itemsFor(limit int, maxBytes int64) int {
	const least, most = 4, 256
	return min(limit, int(min(max(maxBytes/1024, least), most)))
}

// Read implements host.Log. Batches stand under their first event. A reader who
// follows the log asks from the start of one; one who does not is answered from
// the batch that began before, for one more query.
func (s *Store) Read(ctx context.Context, key host.Key, after, upTo ident.Seq, limit int, maxBytes int64) ([]host.StoredEntry, error) {
	pk, err := partition(key)
	if err != nil {
		return nil, err
	}
	if after >= upTo || limit <= 0 {
		return []host.StoredEntry{}, nil
	}
	upTo = min(upTo, seqMax)
	p := &page{limit: limit, most: maxBytes}
	next, looked := after+1, false
	take := func(it item) (bool, error) {
		entries, err := s.parseBatch(it)
		if err != nil {
			return false, err
		}
		for _, e := range entries {
			if e.Seq == next && e.Seq <= upTo && p.add(e) {
				next++
			}
		}
		return !p.full && next <= upTo && entries[0].Seq < next, nil
	}
	before := func() error {
		looked = true
		q := sessionSpan(pk, batchSK(0), batchSK(next-1))
		q.desc, q.limit = true, 1
		return s.query(ctx, "read", q, func(it item) (bool, error) {
			_, err := take(it)
			return false, err
		})
	}
	q := sessionSpan(pk, batchSK(next), batchSK(upTo))
	q.limit = itemsFor(limit, maxBytes)
	err = s.query(ctx, "read", q, func(it item) (bool, error) {
		r := reader{it: it}
		if from, ok := batchSeq(r.text(attrSK)); ok && from > next && !looked {
			if err := before(); err != nil || p.full {
				return false, err
			}
		}
		return take(it)
	})
	if err == nil && !p.full && next <= upTo && !looked {
		err = before()
	}
	if err != nil {
		return nil, err
	}
	if !p.full && next <= upTo {
		return nil, fmt.Errorf("event %d of %s: %w", next, key, host.ErrGap)
	}
	return p.events, nil
}

// ReadBefore implements host.Log.
func (s *Store) ReadBefore(ctx context.Context, key host.Key, before ident.Seq, limit int, maxBytes int64) ([]host.StoredEntry, error) {
	pk, err := partition(key)
	if err != nil {
		return nil, err
	}
	p := &page{limit: limit, most: maxBytes, events: []host.StoredEntry{}}
	if before <= 1 || limit <= 0 {
		return p.events, nil
	}
	q := sessionSpan(pk, batchSK(0), batchSK(before-1))
	q.desc, q.limit = true, itemsFor(limit, maxBytes)
	lowest := ident.Seq(0) // 0: none yet
	err = s.query(ctx, "read before", q, func(it item) (bool, error) {
		entries, err := s.parseBatch(it)
		for _, e := range slices.Backward(entries) {
			if e.Seq >= before || p.full {
				continue
			}
			if lowest != 0 && e.Seq != lowest-1 {
				return false, fmt.Errorf("event %d of %s: %w", lowest-1, key, host.ErrGap)
			}
			if p.add(e) {
				lowest = e.Seq
			}
		}
		return !p.full, err
	})
	if err != nil {
		return nil, err
	}
	if !p.full && lowest > 1 {
		return nil, fmt.Errorf("event %d of %s: %w", lowest-1, key, host.ErrGap)
	}
	slices.Reverse(p.events)
	return p.events, nil
}
