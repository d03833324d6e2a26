package awsaccount

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// Stack is a deployed stack.
type Stack struct {
	Status  string
	Reason  string // of a status that is none to like
	Outputs map[string]string
}

// Stack finds a stack by its name.
func (a *Account) Stack(ctx context.Context, name string) (Stack, error) {
	const action = "cloudformation:DescribeStacks"
	out, err := a.stacks.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &name})
	if err != nil {
		return Stack{}, fault(action, err)
	}
	if len(out.Stacks) == 0 {
		return Stack{}, &FaultError{Action: action, Why: WhyMissing, Err: errors.New("there is no such stack")}
	}
	s := Stack{Status: string(out.Stacks[0].StackStatus), Reason: aws.ToString(out.Stacks[0].StackStatusReason), Outputs: map[string]string{}}
	for _, o := range out.Stacks[0].Outputs {
		s.Outputs[aws.ToString(o.OutputKey)] = aws.ToString(o.OutputValue)
	}
	return s, nil
}

// Table says how a table and its indexes stand: ACTIVE is how they should. Of an
// index nothing may be said.
func (a *Account) Table(ctx context.Context, name string) (status string, indexes map[string]string, err error) {
	out, err := a.tables.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &name})
	if err != nil {
		return "", nil, fault("dynamodb:DescribeTable", err)
	}
	indexes = map[string]string{}
	for _, i := range out.Table.GlobalSecondaryIndexes {
		indexes[aws.ToString(i.IndexName)] = string(i.IndexStatus)
	}
	return string(out.Table.TableStatus), indexes, nil
}

// Bucket looks whether a bucket is there and may be listed.
func (a *Account) Bucket(ctx context.Context, name string) error {
	_, err := a.buckets.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &name})
	return fault("s3:ListBucket", err)
}

// Machine says how a state machine stands: ACTIVE is how it should.
func (a *Account) Machine(ctx context.Context, arn string) (status string, err error) {
	out, err := a.machines.DescribeStateMachine(ctx, &sfn.DescribeStateMachineInput{StateMachineArn: &arn})
	if err != nil {
		return "", fault("states:DescribeStateMachine", err)
	}
	return string(out.Status), nil
}

// Secret reads an entry. Its text is for no log and no screen.
func (a *Account) Secret(ctx context.Context, arn string) (string, error) {
	out, err := a.secrets.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &arn})
	if err != nil {
		return "", fault("secretsmanager:GetSecretValue", err)
	}
	return aws.ToString(out.SecretString), nil
}

// Queue is how a queue stands. Dead counts what is in its dead-letter queue, and
// is -1 where it has none.
type Queue struct {
	Waiting int64
	Dead    int64
}

// Queue counts the messages of a queue and of its dead-letter queue.
func (a *Account) Queue(ctx context.Context, url string) (Queue, error) {
	waiting, redrive, err := a.messages(ctx, url)
	q := Queue{Waiting: waiting, Dead: -1}
	if err != nil || redrive == "" {
		return q, err
	}
	var policy struct {
		Target string `json:"deadLetterTargetArn"`
	}
	if err := json.Unmarshal([]byte(redrive), &policy); err != nil {
		return q, fault("sqs:GetQueueAttributes", err)
	}
	name := policy.Target[strings.LastIndexByte(policy.Target, ':')+1:]
	at, err := a.queues.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &name})
	if err != nil {
		return q, fault("sqs:GetQueueUrl", err)
	}
	q.Dead, _, err = a.messages(ctx, aws.ToString(at.QueueUrl))
	return q, err
}

func (a *Account) messages(ctx context.Context, url string) (n int64, redrive string, err error) {
	out, err := a.queues.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl:       &url,
		AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameApproximateNumberOfMessages, sqstypes.QueueAttributeNameRedrivePolicy},
	})
	if err != nil {
		return 0, "", fault("sqs:GetQueueAttributes", err)
	}
	n, err = strconv.ParseInt(out.Attributes[string(sqstypes.QueueAttributeNameApproximateNumberOfMessages)], 10, 64)
	return n, out.Attributes[string(sqstypes.QueueAttributeNameRedrivePolicy)], fault("sqs:GetQueueAttributes", err)
}

// Function is how a function stands. Reserved is -1 where it has nothing for
// itself.
type Function struct {
	State    string // Active is how it should be, or Inactive after a long rest
	Update   string // of its last update: Successful
	Reason   string
	Reserved int64
}

// Function looks at a function.
func (a *Account) Function(ctx context.Context, name string) (Function, error) {
	out, err := a.functions.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &name})
	if err != nil {
		return Function{}, fault("lambda:GetFunctionConfiguration", err)
	}
	f := Function{State: string(out.State), Update: string(out.LastUpdateStatus), Reason: aws.ToString(out.StateReason), Reserved: -1}
	if f.Reason == "" {
		f.Reason = aws.ToString(out.LastUpdateStatusReason)
	}
	own, err := a.functions.GetFunctionConcurrency(ctx, &lambda.GetFunctionConcurrencyInput{FunctionName: &name})
	if err != nil {
		return f, fault("lambda:GetFunctionConcurrency", err)
	}
	if own.ReservedConcurrentExecutions != nil {
		f.Reserved = int64(*own.ReservedConcurrentExecutions)
	}
	return f, nil
}
