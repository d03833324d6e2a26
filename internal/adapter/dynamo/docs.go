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

// Doc reads a tenant's document and its revision, strongly. ErrNotFound of the
// host if there is none; its revision is 0.
func (s *Store) Doc(ctx context.Context, tenant ident.TenantID, name string) (data []byte, revision uint64, err error) {
	pk, sk, err := docKeys(tenant, name)
	if err != nil {
		return nil, 0, err
	}
	it, err := s.get(ctx, "document", pk, sk, true)
	if err != nil {
		return nil, 0, err
	}
	if len(it) == 0 {
		return nil, 0, host.ErrNotFound
	}
	r := reader{it: it}
	if data, err = s.data(&r); err != nil {
		return nil, 0, err
	}
	return data, r.uint(attrRev), r.err
}

// PutDoc replaces a tenant's document that is at a revision (0: that is not
// there), and returns the new one. It fails with ErrRevision where others have
// written meanwhile.
func (s *Store) PutDoc(ctx context.Context, tenant ident.TenantID, name string, data []byte, revision uint64) (uint64, error) {
	pk, sk, err := docKeys(tenant, name)
	if err != nil {
		return 0, err
	}
	it := itemKey(pk, sk)
	write := s.o.NewID()
	it[attrWrite], it[attrData], it[attrRev] = text(write), blob(s.packer.pack(data)), number(revision+1)
	if size := ItemSize(it); size > itemBytes {
		return 0, fmt.Errorf("put document: an item of %d bytes, allowed are %d: %w", size, itemBytes, ErrTooLarge)
	}
	in := &dynamodb.PutItemInput{
		TableName: aws.String(s.table), Item: it, ConditionExpression: aws.String(absent),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	if revision > 0 {
		in.ConditionExpression = aws.String("rev = :rev")
		in.ExpressionAttributeValues = item{":rev": number(revision)}
	}
	err = s.try(ctx, "put document", func(ctx context.Context) error {
		_, err := s.api.PutItem(ctx, in)
		return err //nolint:wrapcheck // by try
	})
	if refusal, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		r := reader{it: refusal.Item}
		if len(refusal.Item) == 0 || r.text(attrWrite) != write {
			return 0, ErrRevision
		}
		err = nil // its first try had landed
	}
	if err != nil {
		return 0, err
	}
	return revision + 1, nil
}

func docKeys(tenant ident.TenantID, name string) (pk, sk string, err error) {
	if pk, err = tenantPartition(host.Key{Tenant: tenant}); err != nil {
		return "", "", err
	}
	sk, err = docSK(name)
	return pk, sk, err
}
