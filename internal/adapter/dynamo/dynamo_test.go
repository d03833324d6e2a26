package dynamo_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/adapter/dynamo"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/host/porttest"
	"github.com/perdure/perdure/localstack/target"
)

// hang is a ceiling for what should take milliseconds.
const hang = time.Minute

func clock() ident.Instant { return 1_800_000_000_000 }

// somewhere is a place for blobs.
type somewhere struct {
	mu    sync.Mutex
	blobs map[string][]byte
}

func (s *somewhere) PutBlob(_ context.Context, key host.Key, b host.Blob) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blobs == nil {
		s.blobs = map[string][]byte{}
	}
	s.blobs[key.String()+"/"+string(b.Ref)] = b.Data
	return nil
}

func (s *somewhere) GetBlob(_ context.Context, key host.Key, ref blob.Ref) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, there := s.blobs[key.String()+"/"+string(ref)]
	if !there {
		return nil, host.ErrNotFound
	}
	return data, nil
}

// table makes an empty table that goes with the test.
func table(t *testing.T) string {
	t.Helper()
	client := dynamodb.NewFromConfig(target.AWS(t)) // with the SDK's retries
	name := "dynamo-" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '_'
	}, t.Name())
	name = name[max(0, len(name)-200):]
	_, err := client.CreateTable(t.Context(), dynamo.Schema().CreateTableInput(name))
	if _, made := errors.AsType[*types.ResourceInUseException](err); !made { // by a try whose answer was lost
		require.NoError(t, err)
	}
	waiter := dynamodb.NewTableExistsWaiter(client)
	require.NoError(t, waiter.Wait(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(name)}, hang))
	t.Cleanup(func() {
		_, err := client.DeleteTable(context.WithoutCancel(t.Context()), &dynamodb.DeleteTableInput{TableName: aws.String(name)})
		if _, gone := errors.AsType[*types.ResourceNotFoundException](err); !gone {
			require.NoError(t, err)
		}
	})
	return name
}

func stores(t *testing.T) porttest.Stores {
	t.Helper()
	client := dynamo.NewClient(target.AWS(t))
	s := dynamo.New(client, table(t), dynamo.Options{Now: clock, Blobs: new(somewhere)})
	return porttest.Stores{Log: s, Stash: s, Now: clock}
}

func caps(t *testing.T) porttest.Capabilities {
	t.Helper()
	return porttest.Capabilities{
		Concurrent: true, PageBytes: true, Recalls: true, Expires: true, ListsLag: target.Get(t).Can.StaleIndexes,
		Persistent: true,
		Reopen: func(t *testing.T, old porttest.Stores) porttest.Stores {
			t.Helper()
			s := dynamo.New(dynamo.NewClient(target.AWS(t)), old.Log.(*dynamo.Store).Table(), dynamo.Options{Now: clock, Blobs: new(somewhere)})
			return porttest.Stores{Log: s, Stash: s, Now: clock}
		},
		DropEvent: dropEvent,
	}
}

// dropEvent takes an event out of the middle of its batch.
func dropEvent(t *testing.T, s porttest.Stores, key host.Key, seq ident.Seq) {
	t.Helper()
	store := s.Log.(*dynamo.Store)
	client := dynamo.NewClient(target.AWS(t))
	pk := string(key.Tenant) + "#" + string(key.Session)
	out, err := client.Query(t.Context(), &dynamodb.QueryInput{
		TableName: aws.String(store.Table()), ScanIndexForward: aws.Bool(false), Limit: aws.Int32(1),
		KeyConditionExpression: aws.String("pk = :pk AND sk <= :sk"),
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":pk": &types.AttributeValueMemberS{Value: pk}, ":sk": &types.AttributeValueMemberS{Value: dynamo.BatchSK(seq)},
		},
	})
	require.NoError(t, err)
	batch := out.Items[0]
	from := dynamo.BatchSeq(t, batch)
	events := store.Events(t, batch)
	put := func(at ident.Seq, events [][]byte) {
		batch["sk"] = &types.AttributeValueMemberS{Value: dynamo.BatchSK(at)}
		batch["events"] = &types.AttributeValueMemberB{Value: store.Pack(events)}
		_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(store.Table()), Item: batch})
		require.NoError(t, err)
	}
	put(from, events[:seq-from])
	put(seq+1, events[seq-from+1:])
}

func TestLog(t *testing.T)   { t.Parallel(); porttest.Log(t, stores, caps(t)) }
func TestStash(t *testing.T) { t.Parallel(); porttest.Stash(t, stores, caps(t)) }

func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}
