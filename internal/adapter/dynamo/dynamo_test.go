package dynamo_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/adapter/dynamo"
	"github.com/perdure/perdure/internal/adapter/dynamo/dynamotest"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/host/porttest"
	"github.com/perdure/perdure/localstack/target"
)

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

func stores(t *testing.T) porttest.Stores {
	t.Helper()
	client := dynamo.NewClient(target.AWS(t))
	s := dynamo.New(client, dynamotest.Table(t, target.AWS(t)), dynamo.Options{Now: clock, Blobs: new(somewhere)})
	return porttest.Stores{Log: s, Stash: s, Now: clock}
}

func caps(t *testing.T) porttest.Capabilities {
	t.Helper()
	return porttest.Capabilities{
		Concurrent: true, PageBytes: true, Recalls: true, Expires: true, ListsLag: target.Get(t).Can.Shows(target.StaleIndexes),
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
