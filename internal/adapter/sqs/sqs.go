// Package sqs puts messages into queues of AWS SQS.
//
// It receives none: Lambda does, and hands over batches. It knows nothing of what
// is in a message. It may import the AWS SDK.
package sqs

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
)

// Queues sends messages. It is safe for concurrent use.
type Queues struct {
	client *awssqs.Client
}

// New makes a Queues. It asks nothing of AWS yet.
func New(cfg aws.Config) *Queues { return &Queues{awssqs.NewFromConfig(cfg)} }

// Send puts a message into a standard queue. It is there when it returns; after
// an error it may be there all the same.
func (q *Queues) Send(ctx context.Context, url, body string) error {
	_, err := q.client.SendMessage(ctx, &awssqs.SendMessageInput{QueueUrl: aws.String(url), MessageBody: aws.String(body)})
	if err != nil {
		return fmt.Errorf("send a message: %w", err)
	}
	return nil
}
