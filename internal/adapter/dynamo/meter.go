package dynamo

import (
	"context"
	"errors"
	"reflect"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Usage is what requests cost.
type Usage struct {
	Calls int
	Read  float64 // read request units
	Write float64 // write request units, those of indexes included
	// Index is the part of Write that indexes take.
	Index float64
}

func (u *Usage) add(v Usage) {
	u.Calls += v.Calls
	u.Read += v.Read
	u.Write += v.Write
	u.Index += v.Index
}

// Meter is an API that counts request units by AWS's rules, from the bytes of
// items and not from what an endpoint reports: an emulator may report
// something else. It is for tests and measurements: to know what an item was
// before a write it reads it, uncounted, and so it is exact only where nobody
// else writes the same items meanwhile.
//
// Counted are requests that were done, and those whose condition did not hold:
// AWS takes the price of the write for them, without its indexes. Requests that
// were refused for another reason cost nothing.
type Meter struct {
	api    API
	schema TableSchema

	mu  sync.Mutex
	ops map[string]*Usage
}

// NewMeter counts what goes through to an API.
func NewMeter(api API) *Meter {
	return &Meter{api: api, schema: Schema(), ops: map[string]*Usage{}}
}

// Ops returns what each operation of DynamoDB has cost since the last Reset.
func (m *Meter) Ops() map[string]Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	ops := map[string]Usage{}
	for name, u := range m.ops {
		ops[name] = *u
	}
	return ops
}

// Total is the sum of Ops.
func (m *Meter) Total() Usage {
	var sum Usage
	for _, u := range m.Ops() {
		sum.add(u)
	}
	return sum
}

// Reset begins to count anew, and returns what was counted.
func (m *Meter) Reset() Usage {
	sum := m.Total()
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.ops)
	return sum
}

func (m *Meter) count(op string, u Usage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ops[op] == nil {
		m.ops[op] = new(Usage)
	}
	u.Calls++
	m.ops[op].add(u)
}

// peek reads an item without counting it.
func (m *Meter) peek(ctx context.Context, table *string, key item) (item, error) {
	out, err := m.api.GetItem(ctx, &dynamodb.GetItemInput{TableName: table, Key: key, ConsistentRead: aws.Bool(true)})
	if err != nil {
		return nil, err //nolint:wrapcheck // a Meter hands on
	}
	return out.Item, nil
}

func keyIn(it item) item { return item{attrPK: it[attrPK], attrSK: it[attrSK]} }

// failed says whether a write was paid for though it was not done.
func failed(err error) bool { return judge(err) == refused }

// change is one write of an item.
type change struct{ before, after item }

// transactTwice: a transaction prepares each item, and then does it.
const transactTwice = 2

// cost of changes that are done, each alone or all in a transaction. Indexes
// follow after the transaction, and are not paid for twice, which others have
// measured: https://github.com/nubo-db/dynoxide/pull/188
func (m *Meter) cost(changes []change, transaction, done bool) Usage {
	var u Usage
	for _, c := range changes {
		units := WriteUnits(max(ItemSize(c.before), ItemSize(c.after)))
		if transaction {
			units *= transactTwice
		}
		u.Write += units
		if !done {
			continue
		}
		for _, x := range m.schema.Indexes {
			u.Index += x.writeUnits(m.schema.Keys, c.before, c.after)
		}
	}
	u.Write += u.Index
	return u
}

// GetItem implements API.
func (m *Meter) GetItem(ctx context.Context, in *dynamodb.GetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	out, err := m.api.GetItem(ctx, in, opts...)
	if err == nil {
		m.count("GetItem", Usage{Read: ReadUnits(ItemSize(out.Item), aws.ToBool(in.ConsistentRead))})
	}
	return out, err //nolint:wrapcheck // a Meter hands on
}

// PutItem implements API.
func (m *Meter) PutItem(ctx context.Context, in *dynamodb.PutItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	before, err := m.peek(ctx, in.TableName, keyIn(in.Item))
	if err != nil {
		return nil, err
	}
	out, err := m.api.PutItem(ctx, in, opts...)
	if err == nil || failed(err) {
		m.count("PutItem", m.cost([]change{{before, in.Item}}, false, err == nil))
	}
	return out, err //nolint:wrapcheck // a Meter hands on
}

// UpdateItem implements API.
func (m *Meter) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	before, err := m.peek(ctx, in.TableName, in.Key)
	if err != nil {
		return nil, err
	}
	out, err := m.api.UpdateItem(ctx, in, opts...)
	if err == nil || failed(err) {
		after, peekErr := m.peek(ctx, in.TableName, in.Key)
		m.count("UpdateItem", m.cost([]change{{before, after}}, false, err == nil))
		err = errors.Join(err, peekErr)
	}
	return out, err
}

// DeleteItem implements API.
func (m *Meter) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	before, err := m.peek(ctx, in.TableName, in.Key)
	if err != nil {
		return nil, err
	}
	out, err := m.api.DeleteItem(ctx, in, opts...)
	if err == nil || failed(err) {
		m.count("DeleteItem", m.cost([]change{{before: before}}, false, err == nil))
	}
	return out, err //nolint:wrapcheck // a Meter hands on
}

// Query implements API. It is billed by the size of what it looked at, whatever
// it returned of it: of an index that is the entry.
func (m *Meter) Query(ctx context.Context, in *dynamodb.QueryInput, opts ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	out, err := m.api.Query(ctx, in, opts...)
	if err != nil {
		return nil, err //nolint:wrapcheck // a Meter hands on
	}
	items := out.Items
	if in.ProjectionExpression != nil || in.FilterExpression != nil {
		whole := *in
		whole.ProjectionExpression, whole.FilterExpression = nil, nil
		all, err := m.api.Query(ctx, &whole, opts...)
		if err != nil {
			return nil, err //nolint:wrapcheck // a Meter hands on
		}
		items = all.Items
	}
	m.count("Query", Usage{Read: ReadUnits(sizes(items), aws.ToBool(in.ConsistentRead))})
	return out, nil
}

// Scan implements API.
func (m *Meter) Scan(ctx context.Context, in *dynamodb.ScanInput, opts ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	out, err := m.api.Scan(ctx, in, opts...)
	if err != nil {
		return nil, err //nolint:wrapcheck // a Meter hands on
	}
	whole := *in
	whole.FilterExpression, whole.ExpressionAttributeValues, whole.ExpressionAttributeNames = nil, nil, nil
	all, err := m.api.Scan(ctx, &whole, opts...)
	if err != nil {
		return nil, err //nolint:wrapcheck // a Meter hands on
	}
	m.count("Scan", Usage{Read: ReadUnits(sizes(all.Items), aws.ToBool(in.ConsistentRead))})
	return out, nil
}

func sizes(items []map[string]types.AttributeValue) int {
	sum := 0
	for _, it := range items {
		sum += ItemSize(it)
	}
	return sum
}

// BatchGetItem implements API. Each item is rounded by itself, also one that is
// not there.
func (m *Meter) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	out, err := m.api.BatchGetItem(ctx, in, opts...)
	if err != nil {
		return nil, err //nolint:wrapcheck // a Meter hands on
	}
	var u Usage
	for table, asked := range in.RequestItems {
		found := out.Responses[table]
		for _, it := range found {
			u.Read += ReadUnits(ItemSize(it), aws.ToBool(asked.ConsistentRead))
		}
		missing := len(asked.Keys) - len(found) - len(out.UnprocessedKeys[table].Keys)
		u.Read += float64(missing) * ReadUnits(0, aws.ToBool(asked.ConsistentRead))
	}
	m.count("BatchGetItem", u)
	return out, nil
}

// BatchWriteItem implements API.
func (m *Meter) BatchWriteItem(ctx context.Context, in *dynamodb.BatchWriteItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
	var before []change
	for table, writes := range in.RequestItems {
		for _, w := range writes {
			var c change
			var key item
			if w.PutRequest != nil {
				key, c.after = keyIn(w.PutRequest.Item), w.PutRequest.Item
			} else {
				key = w.DeleteRequest.Key
			}
			var err error
			if c.before, err = m.peek(ctx, aws.String(table), key); err != nil {
				return nil, err
			}
			before = append(before, c)
		}
	}
	out, err := m.api.BatchWriteItem(ctx, in, opts...)
	if err == nil {
		// What was left unprocessed comes again, and is counted then.
		left := 0
		for _, writes := range out.UnprocessedItems {
			left += len(writes)
		}
		m.count("BatchWriteItem", m.cost(before[:len(before)-left], false, true))
	}
	return out, err //nolint:wrapcheck // a Meter hands on
}

// TransactWriteItems implements API.
func (m *Meter) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, opts ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	changes := make([]change, len(in.TransactItems))
	for i, w := range in.TransactItems {
		table, key, after := target(w)
		before, err := m.peek(ctx, table, key)
		if err != nil {
			return nil, err
		}
		changes[i] = change{before, after}
	}
	out, err := m.api.TransactWriteItems(ctx, in, opts...)
	if err != nil && !failed(err) {
		return out, err //nolint:wrapcheck // a Meter hands on
	}
	for i, w := range in.TransactItems {
		if w.Update != nil {
			after, peekErr := m.peek(ctx, w.Update.TableName, w.Update.Key)
			if peekErr != nil {
				return out, errors.Join(err, peekErr)
			}
			changes[i].after = after
		}
	}
	if err == nil && replayed(changes) {
		var u Usage
		for _, c := range changes {
			u.Read += transactTwice * ReadUnits(ItemSize(c.after), true)
		}
		m.count("TransactWriteItems", u)
		return out, nil
	}
	m.count("TransactWriteItems", m.cost(changes, true, err == nil))
	return out, err //nolint:wrapcheck // a Meter hands on
}

// replayed says that a transaction was done before, under its token: every
// item was already what it makes of it. It is then paid for as a read.
func replayed(changes []change) bool {
	for _, c := range changes {
		if !reflect.DeepEqual(c.before, c.after) {
			return false
		}
	}
	return true
}

// target is what a write of a transaction is about, and what it makes of it
// where the request says so.
func target(w types.TransactWriteItem) (table *string, key, after item) {
	switch {
	case w.Put != nil:
		return w.Put.TableName, keyIn(w.Put.Item), w.Put.Item
	case w.Update != nil:
		return w.Update.TableName, w.Update.Key, nil
	case w.Delete != nil:
		return w.Delete.TableName, w.Delete.Key, nil
	default:
		return w.ConditionCheck.TableName, w.ConditionCheck.Key, nil
	}
}
