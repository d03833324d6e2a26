package sqs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/perdure/perdure/internal/host"
)

// Bounds of a call's tries, with full jitter between them.
const (
	triesMax   = 4
	backoffMax = 2 * time.Second
)

// MessageBytesMax is the longest message of a queue.
const MessageBytesMax = 1 << 20

// ErrMessage is wrapped by the error about a message that no queue takes.
var ErrMessage = errors.New("bad message")

// Queues sends messages to plain queues. It is safe for concurrent use.
type Queues struct {
	client *awssqs.Client
}

// New makes a Queues. It asks nothing of AWS yet.
func New(cfg aws.Config, options ...func(*awssqs.Options)) *Queues {
	return &Queues{open(cfg, options)}
}

// open makes a client whose tries are set here, once.
func open(cfg aws.Config, options []func(*awssqs.Options)) *awssqs.Client {
	options = append([]func(*awssqs.Options){func(o *awssqs.Options) {
		o.Retryer = retry.NewStandard(func(s *retry.StandardOptions) { s.MaxAttempts, s.MaxBackoff = triesMax, backoffMax })
	}}, options...)
	return awssqs.NewFromConfig(cfg, options...)
}

// Send puts a message into a standard queue. It is there when it returns; after
// an error it may be there all the same, and after none it may be there twice.
// JSON goes as ASCII, which means the same; other text must be of characters
// that a queue takes.
func (q *Queues) Send(ctx context.Context, url, body string) error {
	body, err := Portable(body)
	if err != nil {
		return err
	}
	return send(ctx, q.client, &awssqs.SendMessageInput{QueueUrl: &url, MessageBody: &body})
}

func send(ctx context.Context, client *awssqs.Client, in *awssqs.SendMessageInput) error {
	if err := ctx.Err(); err != nil {
		return err //nolint:wrapcheck // the caller compares it with its own
	}
	if n := len(*in.MessageBody); n == 0 || n > MessageBytesMax {
		return fmt.Errorf("%w: it has %d bytes, allowed are 1 to %d", ErrMessage, n, MessageBytesMax)
	}
	_, err := client.SendMessage(ctx, in)
	return explain(ctx, aws.ToString(in.QueueUrl), err)
}

// denied are the codes of a call that AWS knows the caller of, and refuses.
var denied = []string{"AccessDenied", "AccessDeniedException", "KmsAccessDenied"}

// explain says what to do about an error of AWS: what is wrong for good names
// its remedy, all else may be tried again.
func explain(ctx context.Context, url string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("send a message: %w", errors.Join(ctx.Err(), err))
	}
	if _, ok := errors.AsType[*types.QueueDoesNotExist](err); ok {
		return fmt.Errorf("queue %s does not exist; deploy the stack, or name the one that was deployed: %w", url, err)
	}
	// The service says it in a form of its own, by which it is not always found.
	if said, ok := errors.AsType[smithy.APIError](err); ok {
		switch code := said.ErrorCode(); {
		case slices.Contains(denied, code):
			return fmt.Errorf("not allowed to call sqs:SendMessage on %s; add it to the role of this function: %w", url, err)
		case code == "AWS.SimpleQueueService.NonExistentQueue":
			return fmt.Errorf("queue %s does not exist; deploy the stack, or name the one that was deployed: %w", url, err)
		case code == "InvalidMessageContents", code == "InvalidParameterValue", code == "MissingParameter":
			return fmt.Errorf("%w: %w", ErrMessage, err)
		}
	}
	return fmt.Errorf("%w: send a message: %w", host.ErrUnavailable, err)
}
