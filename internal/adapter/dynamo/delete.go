package dynamo

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/perdure/perdure/internal/host"
)

// passes is how often a deletion begins again because the session was written
// meanwhile.
const passes = 8

// Delete implements host.Log. The head goes last: as long as it is there the
// session is not made anew, and the next Delete finds what this one left. It
// goes on condition that nobody has written since the pass began; what was
// written then would stay behind, in the way of a session of the same id.
func (s *Store) Delete(ctx context.Context, key host.Key, inc string) error {
	for range passes {
		head, err := s.Head(ctx, key)
		if errors.Is(err, host.ErrNotFound) {
			return nil
		}
		if err != nil || head.Inc != inc {
			return err
		}
		if err := s.purge(ctx, key, inc); err != nil {
			return err
		}
		gone, err := s.dropHead(ctx, key, head)
		if err != nil || gone {
			return err
		}
	}
	return fmt.Errorf("delete: %w", ErrContended)
}

// Purge removes everything of a session but its head, and what it keeps
// outside the table, if its head has the incarnation inc. It may be repeated.
func (s *Store) Purge(ctx context.Context, key host.Key, inc string) error {
	head, err := s.Head(ctx, key)
	if errors.Is(err, host.ErrNotFound) {
		return nil
	}
	if err != nil || head.Inc != inc {
		return err
	}
	return s.purge(ctx, key, inc)
}

func (s *Store) purge(ctx context.Context, key host.Key, inc string) error {
	pk, err := partition(key)
	if err != nil {
		return err
	}
	var page []types.WriteRequest
	q := sessionSpan(pk, first, last)
	q.keysOnly = true
	err = s.query(ctx, "delete", q, func(it item) (bool, error) {
		r := reader{it: it}
		if sk := r.text(attrSK); sk != skHead {
			page = append(page, types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: itemKey(pk, sk)}})
		}
		if len(page) < batchWrites || r.err != nil {
			return true, r.err
		}
		err := s.writeAll(ctx, "delete", page)
		page = page[:0]
		return true, err
	})
	if err == nil {
		err = s.writeAll(ctx, "delete", page)
	}
	if err == nil && s.o.Purge != nil {
		err = s.o.Purge(ctx, key, inc)
	}
	return err
}

// batchWrites is how many writes one BatchWriteItem takes.
const batchWrites = 25

// writeAll makes at most 25 writes, in any order.
func (s *Store) writeAll(ctx context.Context, op string, writes []types.WriteRequest) error {
	for tries := 1; len(writes) > 0; tries++ {
		var out *dynamodb.BatchWriteItemOutput
		err := s.try(ctx, op, func(ctx context.Context) (err error) {
			out, err = s.api.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{s.table: writes}})
			return err //nolint:wrapcheck // by try
		})
		if err != nil {
			return err
		}
		writes = out.UnprocessedItems[s.table]
		if err := s.unprocessed(ctx, op, tries, len(writes)); err != nil {
			return err
		}
	}
	return nil
}

// dropHead removes a head that nobody has written since; false is that
// somebody has.
func (s *Store) dropHead(ctx context.Context, key host.Key, head host.Head) (gone bool, err error) {
	pk, err := partition(key)
	if err != nil {
		return false, err
	}
	err = s.try(ctx, "delete", func(ctx context.Context) error {
		_, err := s.api.DeleteItem(ctx, &dynamodb.DeleteItemInput{
			TableName: aws.String(s.table), Key: itemKey(pk, skHead),
			ConditionExpression:       aws.String("inc = :inc AND rev = :rev"),
			ExpressionAttributeValues: item{":inc": text(head.Inc), ":rev": number(head.Rev)},
		})
		return err //nolint:wrapcheck // by try
	})
	if _, changed := errors.AsType[*types.ConditionalCheckFailedException](err); changed {
		return false, nil
	}
	return err == nil, err
}
