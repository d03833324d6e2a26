package dynamo_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/adapter/dynamo"
	"github.com/perdure/perdure/internal/adapter/dynamo/dynamotest"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/host/porttest"
	"github.com/perdure/perdure/localstack/target"
)

// often makes tests short.
const often = 10 * time.Millisecond

// frames are both ends of live frames over a table of a test's own.
type frames struct {
	*dynamo.Frames
	live      *dynamo.Live
	store     *dynamo.Store
	client    *dynamodb.Client
	transport *dynamotest.Transport
}

func newFrames(t *testing.T) *frames {
	t.Helper()
	cfg := target.AWS(t)
	transport := dynamotest.New(http.DefaultTransport)
	cfg.HTTPClient = &http.Client{Transport: transport}
	client := dynamo.NewClient(cfg)
	store := dynamo.New(client, dynamotest.Table(t, target.AWS(t)), dynamo.Options{Now: clock})
	f := &frames{dynamo.NewFrames(store, dynamo.FramesOptions{Every: often, Look: often}), dynamo.NewLive(store, dynamo.LiveOptions{Every: often}), store, client, transport}
	t.Cleanup(func() { require.NoError(t, f.Drain(context.WithoutCancel(t.Context()))) })
	return f
}

func TestFrames(t *testing.T) {
	t.Parallel()
	porttest.Frames(t, func(t *testing.T) porttest.FramesWorld {
		t.Helper()
		f := newFrames(t)
		return porttest.FramesWorld{Frames: f, Live: f.live, Settle: f.Drain}
	})
}

var talk = host.Key{Tenant: "t", Session: "s"}

func said(attempt, offset int, text string) host.Frame {
	return host.Frame{Run: 1, Turn: 3, Attempt: attempt, Delta: host.Delta{Part: "text", Text: text}, Offset: int64(offset)}
}

// items are the sort keys of what is stored of frames.
func (f *frames) items(t *testing.T) (keys []string) {
	t.Helper()
	out, err := f.client.Query(t.Context(), &dynamodb.QueryInput{
		TableName: aws.String(f.store.Table()), ConsistentRead: aws.Bool(true), KeyConditionExpression: aws.String("pk = :pk AND begins_with(sk, :live)"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":pk": &types.AttributeValueMemberS{Value: "t#s"}, ":live": &types.AttributeValueMemberS{Value: "live#"}},
	})
	require.NoError(t, err)
	for _, it := range out.Items {
		keys = append(keys, it["sk"].(*types.AttributeValueMemberS).Value)
		require.NotNil(t, it["ttl"], "an item that a crash leaves would stay for ever")
	}
	return keys
}

// Nobody pays for what nobody watches.
func TestNoFrameIsWrittenWhereNobodyWatches(t *testing.T) {
	t.Parallel()
	f := newFrames(t)
	for i := range 5000 {
		f.PublishFrame(talk, said(1, i, "x"))
	}
	require.Eventually(t, func() bool { return f.transport.Requests("GetItem") >= 3 }, time.Minute, time.Millisecond)
	f.TurnOver(talk, 3, 1)
	require.NoError(t, f.Drain(t.Context()))
	require.Zero(t, f.transport.Requests("PutItem"))
	require.Zero(t, f.transport.Requests("BatchWriteItem"))
	require.Zero(t, f.transport.Requests("DeleteItem"))
}

// A lease that has run out is none.
func TestALeaseRunsOut(t *testing.T) {
	t.Parallel()
	f := newFrames(t)
	early := dynamo.New(f.client, f.store.Table(), dynamo.Options{Now: func() ident.Instant { return clock().Add(-15 * ident.Second) }})
	w := dynamo.NewLive(early, dynamo.LiveOptions{Every: time.Hour}).WatchFrames(t.Context(), talk, func() {})
	w.Close()
	leases := f.transport.Requests("PutItem")
	require.Equal(t, 1, leases)
	f.PublishFrame(talk, said(1, 0, "x"))
	looks := f.transport.Requests("GetItem")
	require.Eventually(t, func() bool { return f.transport.Requests("GetItem") >= looks+3 }, time.Minute, time.Millisecond)
	require.Equal(t, leases, f.transport.Requests("PutItem"))
}

// What was written of a turn is removed when it is over, all of it.
func TestFramesAreRemovedWhenTheTurnIsOver(t *testing.T) {
	t.Parallel()
	f := newFrames(t)
	w := f.live.WatchFrames(t.Context(), talk, func() {})
	defer w.Close()
	offset := 0
	for n := 0; n < 30; n = len(f.items(t)) { // more than one request removes
		text := strings.Repeat("x", 1200)
		f.PublishFrame(talk, said(2, offset, text))
		offset += len(text)
	}
	for i, sk := range f.items(t) {
		require.Equal(t, fmt.Sprintf("live#%012d#%06d#%06d", 3, 2, i), sk)
	}
	f.TurnOver(talk, 3, 2)
	f.PublishFrame(talk, said(2, offset, "late"))
	require.NoError(t, f.Drain(t.Context()))
	require.Empty(t, f.items(t))
}

// Requests that fail lose frames and nothing else: who watches goes on.
func TestLostFrames(t *testing.T) {
	t.Parallel()
	f := newFrames(t)
	rung := make(chan struct{}, 100)
	w := f.live.WatchFrames(t.Context(), talk, func() { rung <- struct{}{} })
	defer w.Close()
	take := func() (got []host.Frame) {
		t.Helper()
		for len(got) == 0 {
			select {
			case <-rung:
			case <-time.After(time.Minute):
				require.Fail(t, "nothing comes")
			}
			got, _ = w.Take()
		}
		return got
	}
	f.PublishFrame(talk, said(1, 0, "a"))
	require.Equal(t, []host.Frame{said(1, 0, "a")}, take())
	f.transport.Inject("PutItem", 1, dynamotest.Error("ThrottlingException"))
	f.PublishFrame(talk, said(1, 1, "b"))
	require.Eventually(t, func() bool { return f.transport.Left() == 0 }, time.Minute, time.Millisecond)
	f.PublishFrame(talk, said(1, 2, "c"))
	require.Equal(t, []host.Frame{said(1, 2, "c")}, take())
	f.transport.Inject("Query", 3, dynamotest.Error("ThrottlingException"))
	f.PublishFrame(talk, said(1, 3, "d"))
	require.Equal(t, []host.Frame{said(1, 3, "d")}, take())
}

// Who comes first to a turn that a crash has left finds what is said now.
func TestWhatACrashLeavesSaysNothing(t *testing.T) {
	t.Parallel()
	f := newFrames(t)
	w := f.live.WatchFrames(t.Context(), talk, func() {})
	dead := dynamo.NewFrames(f.store, dynamo.FramesOptions{Every: often, Look: often})
	dead.PublishFrame(talk, said(1, 0, "left"))
	require.Eventually(t, func() bool { return len(f.items(t)) == 1 }, time.Minute, time.Millisecond)
	f.PublishFrame(talk, said(2, 0, "now"))
	require.Eventually(t, func() bool { return len(f.items(t)) == 2 }, time.Minute, time.Millisecond)
	w.Close()
	late := f.live.WatchFrames(t.Context(), talk, func() {})
	defer late.Close()
	got, whole := late.Take()
	require.True(t, whole)
	require.Equal(t, []host.Frame{said(2, 0, "now")}, got)
	require.NoError(t, dead.Drain(t.Context()))
}
