package dynamo

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/perdure/perdure/internal/host"
)

// get reads one item; nil is none.
func (s *Store) get(ctx context.Context, op, pk, sk string, strongly bool) (it item, err error) {
	err = s.try(ctx, op, func(ctx context.Context) error {
		out, err := s.api.GetItem(ctx, &dynamodb.GetItemInput{
			TableName: aws.String(s.table), Key: itemKey(pk, sk), ConsistentRead: aws.Bool(strongly),
		})
		if err == nil {
			it = out.Item
		}
		return err //nolint:wrapcheck // by try
	})
	return it, err
}

// span is a query of one partition, or of one of an index.
type span struct {
	index     string // empty: the table, read strongly
	hash, of  string // attribute and its value
	sort      string // attribute, and its values low through high
	low, high types.AttributeValue
	desc      bool
	limit     int // items a page; 0: as many as fit
	keysOnly  bool
}

// query reads a span page by page, in order, until each says that it has
// enough, or fails.
func (s *Store) query(ctx context.Context, op string, q span, each func(it item) (more bool, err error)) error {
	in := &dynamodb.QueryInput{
		TableName:                aws.String(s.table),
		KeyConditionExpression:   aws.String("#h = :h AND #s BETWEEN :low AND :high"),
		ExpressionAttributeNames: map[string]string{"#h": q.hash, "#s": q.sort},
		ExpressionAttributeValues: item{
			":h": text(q.of), ":low": q.low, ":high": q.high,
		},
		ScanIndexForward: aws.Bool(!q.desc),
	}
	if q.index == "" {
		in.ConsistentRead = aws.Bool(true)
	} else {
		in.IndexName = aws.String(q.index)
	}
	if q.limit > 0 {
		in.Limit = aws.Int32(int32(min(q.limit, pageItems)))
	}
	if q.keysOnly {
		in.ProjectionExpression = aws.String(attrPK + ", " + attrSK)
	}
	for {
		var out *dynamodb.QueryOutput
		err := s.try(ctx, op, func(ctx context.Context) (err error) {
			out, err = s.api.Query(ctx, in)
			return err //nolint:wrapcheck // by try
		})
		if err != nil {
			return err
		}
		for _, it := range out.Items {
			if more, err := each(it); err != nil || !more {
				return err
			}
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; len(in.ExclusiveStartKey) == 0 {
			return nil
		}
	}
}

// pageItems is the most that a query asks for at once.
const pageItems = 1000

// sessionSpan is a range of a session's items.
func sessionSpan(pk, low, high string) span {
	return span{hash: attrPK, of: pk, sort: attrSK, low: text(low), high: text(high)}
}

// Head implements host.Log.
func (s *Store) Head(ctx context.Context, key host.Key) (host.Head, error) {
	return s.head(ctx, key, true)
}

// Peek implements host.Log: an eventually consistent read.
func (s *Store) Peek(ctx context.Context, key host.Key) (host.Head, error) {
	return s.head(ctx, key, false)
}

func (s *Store) head(ctx context.Context, key host.Key, strongly bool) (host.Head, error) {
	pk, err := partition(key)
	if err != nil {
		return host.Head{}, err
	}
	it, err := s.get(ctx, "head", pk, skHead, strongly)
	if err != nil {
		return host.Head{}, err
	}
	if len(it) == 0 {
		return host.Head{}, host.ErrNotFound
	}
	return parseHead(it)
}

// Open implements host.Log: head and listing document are neighbours, and one
// strong query reads them for the price of their sum.
func (s *Store) Open(ctx context.Context, key host.Key) (host.Head, host.Meta, error) {
	pk, err := partition(key)
	if err != nil {
		return host.Head{}, host.Meta{}, err
	}
	found := map[string]item{}
	err = s.query(ctx, "open", sessionSpan(pk, skHead, skMeta), func(it item) (bool, error) {
		r := reader{it: it}
		found[r.text(attrSK)] = it
		return true, r.err
	})
	if err != nil {
		return host.Head{}, host.Meta{}, err
	}
	if found[skHead] == nil {
		return host.Head{}, host.Meta{}, host.ErrNotFound
	}
	head, err := parseHead(found[skHead])
	if err != nil {
		return host.Head{}, host.Meta{}, err
	}
	meta, _, err := parseMeta(found[skMeta])
	return head, meta, err
}

// Meta implements host.Log.
func (s *Store) Meta(ctx context.Context, key host.Key) (host.Meta, error) {
	pk, err := partition(key)
	if err != nil {
		return host.Meta{}, err
	}
	it, err := s.get(ctx, "meta", pk, skMeta, true)
	if err != nil {
		return host.Meta{}, err
	}
	meta, there, err := parseMeta(it)
	if err == nil && !there {
		err = host.ErrNotFound
	}
	return meta, err
}
