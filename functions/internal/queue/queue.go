// Package queue turns the events of a queue into batches, and the ids of the
// messages that failed into partial answers. It may import aws-lambda-go.
package queue

import (
	"context"
	"strconv"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/perdure/perdure/internal/cloud"
)

// Take handles a batch and returns the ids of the messages that failed; id is
// that of the invocation.
type Take func(ctx context.Context, id string, batch []cloud.Message) (failed []string, err error)

// Handler takes the batches of a queue that reports failures by message. The
// queue delivers just those again.
func Handler(take Take) func(context.Context, *events.SQSEvent) (*events.SQSEventResponse, error) {
	return func(ctx context.Context, e *events.SQSEvent) (*events.SQSEventResponse, error) {
		batch := make([]cloud.Message, len(e.Records))
		for i := range e.Records {
			batch[i] = message(&e.Records[i])
		}
		id := ""
		if lc, ok := lambdacontext.FromContext(ctx); ok {
			id = lc.AwsRequestID
		}
		failed, err := take(ctx, id, batch)
		if err != nil {
			return nil, err
		}
		// Never null: the list of an answer is there, or the whole batch is taken
		// for failed.
		out := &events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{}}
		for _, f := range failed {
			out.BatchItemFailures = append(out.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: f})
		}
		return out, nil
	}
}

func message(r *events.SQSMessage) cloud.Message {
	// A count that is missing or none is the first.
	n, err := strconv.Atoi(r.Attributes["ApproximateReceiveCount"])
	if err != nil || n < 1 {
		n = 1
	}
	return cloud.Message{ID: r.MessageId, Group: r.Attributes["MessageGroupId"], Body: r.Body, Receives: n}
}
