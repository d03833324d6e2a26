package localstack_test

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/require"
)

// verdicts are what functions and tasks have said, until somebody takes it.
type verdicts struct {
	mu   sync.Mutex
	said []string
	more chan struct{} // is closed when there is more
}

// listen hears the stack's verdicts, for as long as the test lasts.
func (w *world) listen(t *testing.T) {
	t.Helper()
	w.verdicts.more = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() {
		queue := aws.String(w.out["Verdicts"])
		for ctx.Err() == nil {
			got, err := w.sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: queue, MaxNumberOfMessages: 10, WaitTimeSeconds: 5})
			if err == nil && len(got.Messages) > 0 {
				_, err = w.sqs.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: queue, Entries: taken(got.Messages)})
				w.verdicts.add(got.Messages)
			}
			if err != nil && ctx.Err() == nil {
				t.Errorf("the verdicts are not heard: %v", err)
				return
			}
		}
	})
	t.Cleanup(func() { cancel(); ended.Wait() })
}

func taken(messages []types.Message) (entries []types.DeleteMessageBatchRequestEntry) {
	for _, m := range messages {
		entries = append(entries, types.DeleteMessageBatchRequestEntry{Id: m.MessageId, ReceiptHandle: m.ReceiptHandle})
	}
	return entries
}

func (v *verdicts) add(messages []types.Message) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, m := range messages {
		v.said = append(v.said, *m.Body)
	}
	close(v.more)
	v.more = make(chan struct{})
}

// take takes something that was said and begins with a word; more is closed when
// there is more to look at.
func (v *verdicts) take(word string) (rest string, heard bool, more chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	i := slices.IndexFunc(v.said, func(text string) bool { return strings.HasPrefix(text, word) })
	if i < 0 {
		return "", false, v.more
	}
	rest = strings.TrimSpace(strings.TrimPrefix(v.said[i], word))
	v.said = slices.Delete(v.said, i, i+1)
	return rest, true, nil
}

// hears waits until a function or a task has said something that begins with a
// word, and takes what follows it.
func (w *world) hears(t *testing.T, word string) string {
	t.Helper()
	late := time.NewTimer(ceiling)
	defer late.Stop()
	for {
		rest, heard, more := w.verdicts.take(word)
		if heard {
			return rest
		}
		select {
		case <-more:
		case <-late.C:
			require.Fail(t, "nobody said "+word)
		}
	}
}

// heard says whether something like that was said by now, and is still there.
func (w *world) heard(word string) bool {
	_, heard, _ := w.verdicts.take(word)
	return heard
}

// queue makes a queue of the question's own; a name that ends in .fifo makes it
// one of those.
func (w *world) queue(t *testing.T, suffix string) string {
	t.Helper()
	in := &sqs.CreateQueueInput{QueueName: aws.String(w.name + "-" + rand.Text() + suffix)}
	if suffix == ".fifo" {
		in.Attributes = map[string]string{"FifoQueue": "true"}
	}
	made, err := w.sqs.CreateQueue(t.Context(), in)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := w.sqs.DeleteQueue(context.WithoutCancel(t.Context()), &sqs.DeleteQueueInput{QueueUrl: made.QueueUrl})
		require.NoError(t, err)
	})
	return *made.QueueUrl
}

// put sends a message; a group and an id against duplicates are for a FIFO queue.
func (w *world) put(t *testing.T, queue, body, group, id string) error {
	t.Helper()
	message := &sqs.SendMessageInput{QueueUrl: &queue, MessageBody: &body}
	if group != "" {
		message.MessageGroupId, message.MessageDeduplicationId = &group, &id
	}
	_, err := w.sqs.SendMessage(t.Context(), message)
	return err
}

// receive takes at most so many messages from a queue, and waits for the first
// one as long as a request may.
func (w *world) receive(t *testing.T, queue string, most int32) []types.Message {
	t.Helper()
	got, err := w.sqs.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &queue, MaxNumberOfMessages: most, WaitTimeSeconds: 20})
	require.NoError(t, err)
	return got.Messages
}

func (w *world) remove(t *testing.T, queue string, message types.Message) {
	t.Helper()
	_, err := w.sqs.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: &queue, ReceiptHandle: message.ReceiptHandle})
	require.NoError(t, err)
}

// left counts what is in one of the stack's queues, and what is in flight.
func (w *world) left(t *testing.T, queue string) string {
	t.Helper()
	got, err := w.sqs.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: aws.String(w.out[queue]), AttributeNames: []types.QueueAttributeName{"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"},
	})
	require.NoError(t, err)
	return got.Attributes["ApproximateNumberOfMessages"] + "+" + got.Attributes["ApproximateNumberOfMessagesNotVisible"]
}
