package dynamo

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

func stashKeys(key host.Key, name string) (pk, sk string, err error) {
	if pk, err = tenantPartition(key); err != nil {
		return "", "", err
	}
	sk, err = stashSK(name)
	return pk, sk, err
}

// PutStash implements host.Stash.
func (s *Store) PutStash(ctx context.Context, key host.Key, name string, data []byte, until ident.Instant, ifAbsent bool) ([]byte, error) {
	pk, sk, err := stashKeys(key, name)
	if err != nil {
		return nil, err
	}
	it := itemKey(pk, sk)
	write := s.o.NewID()
	it[attrWrite], it[attrData], it[attrUntil] = text(write), blob(s.packer.pack(data)), number(until)
	// The item may outlive its expiry by days: nobody reads it then.
	it[attrTTL] = number(int64(until)/ident.Second + 1)
	if size := ItemSize(it); size > itemBytes {
		return nil, fmt.Errorf("put stash: an item of %d bytes, allowed are %d: %w", size, itemBytes, ErrTooLarge)
	}
	in := &dynamodb.PutItemInput{TableName: aws.String(s.table), Item: it}
	if ifAbsent {
		in.ConditionExpression = aws.String("attribute_not_exists(pk) OR #until <= :now")
		in.ExpressionAttributeNames = map[string]string{"#until": attrUntil}
		in.ExpressionAttributeValues = item{":now": number(s.o.Now())}
		in.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureAllOld
	}
	err = s.try(ctx, "put stash", func(ctx context.Context) error {
		_, err := s.api.PutItem(ctx, in)
		return err //nolint:wrapcheck // by try
	})
	refusal, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
	if !ok {
		return nil, err
	}
	r := reader{it: refusal.Item}
	if r.text(attrWrite) == write {
		return nil, nil // its first try had landed
	}
	return s.data(&r)
}

// GetStash implements host.Stash.
func (s *Store) GetStash(ctx context.Context, key host.Key, name string, now ident.Instant) ([]byte, error) {
	pk, sk, err := stashKeys(key, name)
	if err != nil {
		return nil, err
	}
	it, err := s.get(ctx, "get stash", pk, sk, true)
	if err != nil {
		return nil, err
	}
	r := reader{it: it}
	if len(it) == 0 || ident.Instant(r.int(attrUntil)) <= now {
		return nil, host.ErrNotFound
	}
	return s.data(&r)
}

// DropStash implements host.Stash.
func (s *Store) DropStash(ctx context.Context, key host.Key, name string) error {
	pk, sk, err := stashKeys(key, name)
	if err != nil {
		return err
	}
	return s.try(ctx, "drop stash", func(ctx context.Context) error {
		_, err := s.api.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: aws.String(s.table), Key: itemKey(pk, sk)})
		return err //nolint:wrapcheck // by try
	})
}

// SweepStash implements host.Stash: there is nothing to do. DynamoDB removes
// what expired, for nothing; a scan that looks for it would read the table.
func (s *Store) SweepStash(ctx context.Context, _ ident.Instant, _ int) (int, error) {
	return 0, ctx.Err() //nolint:wrapcheck // the caller compares it with its own
}
