package dynamo_test

import (
	"context"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/perdure/perdure/internal/adapter/dynamo"
)

// reported asks the endpoint what each operation cost, and adds that up beside
// what a Meter below has counted.
type reported struct {
	dynamo.API

	mu  sync.Mutex
	ops map[string]float64
}

func (r *reported) add(op string, costs ...types.ConsumedCapacity) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range costs {
		if c.CapacityUnits != nil {
			r.ops[op] += *c.CapacityUnits
		}
	}
}

const all = types.ReturnConsumedCapacityIndexes

func one(c *types.ConsumedCapacity) types.ConsumedCapacity {
	if c == nil {
		return types.ConsumedCapacity{}
	}
	return *c
}

func (r *reported) GetItem(ctx context.Context, in *dynamodb.GetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	in.ReturnConsumedCapacity = all
	out, err := r.API.GetItem(ctx, in, opts...)
	if err == nil {
		r.add("GetItem", one(out.ConsumedCapacity))
	}
	return out, err
}

func (r *reported) PutItem(ctx context.Context, in *dynamodb.PutItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	in.ReturnConsumedCapacity = all
	out, err := r.API.PutItem(ctx, in, opts...)
	if err == nil {
		r.add("PutItem", one(out.ConsumedCapacity))
	}
	return out, err
}

func (r *reported) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	in.ReturnConsumedCapacity = all
	out, err := r.API.UpdateItem(ctx, in, opts...)
	if err == nil {
		r.add("UpdateItem", one(out.ConsumedCapacity))
	}
	return out, err
}

func (r *reported) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	in.ReturnConsumedCapacity = all
	out, err := r.API.DeleteItem(ctx, in, opts...)
	if err == nil {
		r.add("DeleteItem", one(out.ConsumedCapacity))
	}
	return out, err
}

func (r *reported) Query(ctx context.Context, in *dynamodb.QueryInput, opts ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	in.ReturnConsumedCapacity = all
	out, err := r.API.Query(ctx, in, opts...)
	if err == nil {
		r.add("Query", one(out.ConsumedCapacity))
	}
	return out, err
}

func (r *reported) Scan(ctx context.Context, in *dynamodb.ScanInput, opts ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	in.ReturnConsumedCapacity = all
	out, err := r.API.Scan(ctx, in, opts...)
	if err == nil {
		r.add("Scan", one(out.ConsumedCapacity))
	}
	return out, err
}

func (r *reported) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	in.ReturnConsumedCapacity = all
	out, err := r.API.BatchGetItem(ctx, in, opts...)
	if err == nil {
		r.add("BatchGetItem", out.ConsumedCapacity...)
	}
	return out, err
}

func (r *reported) BatchWriteItem(ctx context.Context, in *dynamodb.BatchWriteItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
	in.ReturnConsumedCapacity = all
	out, err := r.API.BatchWriteItem(ctx, in, opts...)
	if err == nil {
		r.add("BatchWriteItem", out.ConsumedCapacity...)
	}
	return out, err
}

func (r *reported) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, opts ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	in.ReturnConsumedCapacity = all
	out, err := r.API.TransactWriteItems(ctx, in, opts...)
	if err == nil {
		r.add("TransactWriteItems", out.ConsumedCapacity...)
	}
	return out, err
}
