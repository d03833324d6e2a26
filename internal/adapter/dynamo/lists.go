package dynamo

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// listPlace is a session where the index has it, which may be where it was a
// moment ago.
type listPlace struct {
	at   string // sort key
	pk   string
	meta host.Meta
	key  host.Key
}

// List implements host.Log. The index says which sessions and in which order,
// with the document that it has; heads are read strongly, so that a session
// that is being deleted is not listed, however late the index.
func (s *Store) List(ctx context.Context, q host.ListQuery) ([]host.Listed, error) {
	if _, err := tenantPartition(host.Key{Tenant: q.Tenant, Session: q.BeforeSession}); err != nil {
		return nil, err
	}
	statuses := []string{q.Status}
	if q.Status == "" {
		statuses = []string{host.StatusOpen, host.StatusClosed}
	}
	if q.Status == host.StatusDeleting {
		statuses = nil
	}
	after := ""
	if q.BeforeUpdated != 0 || q.BeforeSession != "" {
		_, after = listKeys(q.Tenant, q.Status, q.BeforeUpdated, q.BeforeSession)
	}
	var listed []host.Listed
	seen := map[string]bool{}
	for more := true; more && len(listed) < q.Limit; {
		var places []listPlace
		var err error
		if places, more, err = s.places(ctx, q.Tenant, statuses, after, q.Limit); err != nil {
			return nil, err
		}
		heads, err := s.heads(ctx, places)
		if err != nil {
			return nil, err
		}
		for _, p := range places {
			after = p.at
			head, there := heads[p.pk]
			// A late index has it under the status that it had, perhaps twice.
			if !there || head.Status == host.StatusDeleting || q.Status != "" && head.Status != q.Status || seen[p.pk] {
				continue
			}
			seen[p.pk] = true
			if len(listed) < q.Limit {
				listed = append(listed, host.Listed{Session: p.key.Session, Head: head, Meta: p.meta})
			}
		}
	}
	return listed, nil
}

// places reads the index behind a place, over the statuses, at most limit.
func (s *Store) places(ctx context.Context, tenant ident.TenantID, statuses []string, after string, limit int) (places []listPlace, more bool, err error) {
	for _, status := range statuses {
		pk, _ := listKeys(tenant, status, 0, "")
		n := 0
		q := span{
			index: indexList, hash: attrListPK, of: pk, sort: attrListSK, limit: limit + 1,
			low: text(after + first), high: text(last),
		}
		err := s.query(ctx, "list", q, func(it item) (bool, error) {
			r := reader{it: it}
			p := listPlace{at: r.text(attrListSK), pk: r.text(attrPK)}
			var ok bool
			if p.key, ok = keyOf(p.pk); !ok || r.err != nil {
				return false, fmt.Errorf("list: %w", ErrDamaged)
			}
			var err error
			if p.meta, _, err = parseMeta(it); err != nil {
				return false, err
			}
			places = append(places, p)
			n++
			return n <= limit, nil
		})
		if err != nil {
			return nil, false, err
		}
	}
	slices.SortStableFunc(places, func(a, b listPlace) int { return cmp.Compare(a.at, b.at) })
	if len(places) > limit {
		return places[:limit], true, nil
	}
	return places, false, nil
}

// heads reads the heads of sessions, strongly.
func (s *Store) heads(ctx context.Context, places []listPlace) (map[string]host.Head, error) {
	const most = 100 // of BatchGetItem
	heads := map[string]host.Head{}
	for chunk := range slices.Chunk(places, most) {
		var keys []map[string]types.AttributeValue
		asked := map[string]bool{}
		for _, p := range chunk {
			if !asked[p.pk] && heads[p.pk].Rev == 0 {
				asked[p.pk] = true
				keys = append(keys, itemKey(p.pk, skHead))
			}
		}
		err := s.getAll(ctx, "list", keys, func(it item) error {
			head, err := parseHead(it)
			r := reader{it: it}
			heads[r.text(attrPK)] = head
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return heads, nil
}

// getAll reads at most 100 items, strongly, in any order.
func (s *Store) getAll(ctx context.Context, op string, keys []map[string]types.AttributeValue, each func(it item) error) error {
	for tries := 1; len(keys) > 0; tries++ {
		var out *dynamodb.BatchGetItemOutput
		err := s.try(ctx, op, func(ctx context.Context) (err error) {
			out, err = s.api.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{
				RequestItems: map[string]types.KeysAndAttributes{s.table: {Keys: keys, ConsistentRead: aws.Bool(true)}},
			})
			return err //nolint:wrapcheck // by try
		})
		if err != nil {
			return err
		}
		for _, it := range out.Responses[s.table] {
			if err := each(it); err != nil {
				return err
			}
		}
		keys = out.UnprocessedKeys[s.table].Keys
		if err := s.unprocessed(ctx, op, tries, len(keys)); err != nil {
			return err
		}
	}
	return nil
}

// unprocessed pauses for what a batch left: the table is throttled.
func (s *Store) unprocessed(ctx context.Context, op string, tries, left int) error {
	if left == 0 {
		return nil
	}
	if tries >= s.o.Tries {
		return fmt.Errorf("%s: %d items were left: %w", op, left, ErrThrottled)
	}
	if err := s.o.Pause(ctx, pauseAfter(throttled, tries)); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// Todo implements host.Log.
func (s *Store) Todo(ctx context.Context, tenant ident.TenantID, prefix string, after *host.TodoRow, limit int) ([]host.TodoRow, error) {
	if _, err := tenantPartition(host.Key{Tenant: tenant}); err != nil {
		return nil, err
	}
	low := first
	if after != nil {
		low = todoKey(after.Row.Todo, after.Session, after.Row.Key) + first
	}
	var rows []host.TodoRow
	if limit <= 0 {
		return rows, nil
	}
	q := span{index: indexTodo, hash: attrTodoPK, of: string(tenant), sort: attrTodoSK, low: text(low), high: text(last), limit: limit}
	err := s.query(ctx, "todo", q, func(it item) (bool, error) {
		r := reader{it: it}
		key, ok := keyOf(r.text(attrPK))
		row, err := s.parseRow(it)
		if !ok || err != nil {
			return false, fmt.Errorf("todo: %w", ErrDamaged)
		}
		if strings.HasPrefix(row.Key, prefix) {
			rows = append(rows, host.TodoRow{Session: key.Session, Row: row})
		}
		return len(rows) < limit, nil
	})
	return rows, err
}

// dueItem is a session in the index of what is due.
type dueItem struct {
	at  ident.Instant
	key host.Key
}

// Due implements host.Log. It asks every shard.
func (s *Store) Due(ctx context.Context, now ident.Instant, limit int) ([]host.Key, error) {
	if limit <= 0 {
		return nil, nil
	}
	var found []dueItem
	for shard := range s.o.Shards {
		n := 0
		q := span{
			index: indexDue, hash: attrDuePK, of: dueKey(shard), sort: attrDueSK, limit: limit,
			low: number(0), high: number(now),
		}
		err := s.query(ctx, "due", q, func(it item) (bool, error) {
			r := reader{it: it}
			key, ok := keyOf(r.text(attrPK))
			if ok && r.text(attrSK) == skHead {
				found = append(found, dueItem{ident.Instant(r.int(attrDueSK)), key})
				n++
			}
			return n < limit, r.err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(found, func(a, b dueItem) int { return cmp.Or(cmp.Compare(a.at, b.at), compareKeys(a.key, b.key)) })
	keys := make([]host.Key, 0, min(len(found), limit))
	for _, d := range found[:min(len(found), limit)] {
		keys = append(keys, d.key)
	}
	return keys, nil
}

func compareKeys(a, b host.Key) int {
	return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Session, b.Session))
}

// Unfinished implements host.Log by a scan of the whole table: for the driver
// of one process over a table of a test. On AWS nobody asks it, because Due
// says who is owed something.
func (s *Store) Unfinished(ctx context.Context, after host.Key, limit int) ([]host.Key, error) {
	var keys []host.Key
	in := &dynamodb.ScanInput{
		TableName: aws.String(s.table), ConsistentRead: aws.Bool(true),
		FilterExpression: aws.String("sk = :head"), ExpressionAttributeValues: item{":head": text(skHead)},
	}
	for more := true; more; more = len(in.ExclusiveStartKey) > 0 {
		var out *dynamodb.ScanOutput
		err := s.try(ctx, "unfinished", func(ctx context.Context) (err error) {
			out, err = s.api.Scan(ctx, in)
			return err //nolint:wrapcheck // by try
		})
		if err != nil {
			return nil, err
		}
		for _, it := range out.Items {
			head, err := parseHead(it)
			if err != nil {
				return nil, err
			}
			r := reader{it: it}
			key, ok := keyOf(r.text(attrPK))
			if ok && head.Drive.Status != "" && head.Drive.Status != host.DriveIdle && compareKeys(key, after) > 0 {
				keys = append(keys, key)
			}
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
	slices.SortFunc(keys, compareKeys)
	return keys[:min(len(keys), max(limit, 0))], nil
}
