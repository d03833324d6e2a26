package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"testing"

	lambdaevents "github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/events"
	"github.com/perdure/perdure/functions/internal/queue"
	"github.com/perdure/perdure/internal/cloud"
)

// handle hands a sample over and returns the answer as it is sent.
func handle(t *testing.T, name string, take queue.Take) (string, error) {
	t.Helper()
	data, err := fs.ReadFile(events.Files(), "invoke/"+name)
	require.NoError(t, err)
	var e lambdaevents.SQSEvent
	require.NoError(t, json.Unmarshal(data, &e))
	ctx := lambdacontext.NewContext(t.Context(), &lambdacontext.LambdaContext{AwsRequestID: "req-1"})
	out, err := queue.Handler(take)(ctx, &e)
	if err != nil {
		return "", err
	}
	answer, err := json.Marshal(out)
	require.NoError(t, err)
	return string(answer), nil
}

func TestABatchComesAsItWasSent(t *testing.T) {
	t.Parallel()
	answer, err := handle(t, "inbox/start_run.json", func(_ context.Context, id string, batch []cloud.Message) ([]string, error) {
		if id != "req-1" || len(batch) != 1 || !json.Valid([]byte(batch[0].Body)) {
			t.Error(id, batch)
		}
		batch[0].Body = ""
		want := cloud.Message{ID: "059f36b4-87a3-44ab-83d2-661975830a7d", Group: "5f2d8c0e4b7a91d3c6e8f0a1b2c3d4e5", Receives: 1}
		if batch[0] != want {
			t.Error(batch[0])
		}
		return nil, nil
	})
	require.NoError(t, err)
	require.Equal(t, `{"batchItemFailures":[]}`, answer, "null is taken for a failure of all")
}

func TestFailuresAreNamedOneByOne(t *testing.T) {
	t.Parallel()
	answer, err := handle(t, "deliver/work.json", func(_ context.Context, _ string, batch []cloud.Message) ([]string, error) {
		if len(batch) != 2 || batch[0].Group != "" || batch[1].Receives != 2 {
			t.Error(batch)
		}
		return []string{batch[1].ID}, nil
	})
	require.NoError(t, err)
	require.Equal(t, `{"batchItemFailures":[{"itemIdentifier":"2e1424d4-f796-459a-8184-9c92662be6db"}]}`, answer)
	_, err = handle(t, "deliver/work.json", func(context.Context, string, []cloud.Message) ([]string, error) {
		return nil, errors.New("not set up")
	})
	require.ErrorContains(t, err, "not set up", "then all of them come again")
}
