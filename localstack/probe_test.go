package localstack_test

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfntypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	sfntypes "github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/localstack/target"
)

//go:embed testdata/probe.yaml
var template string

// ceiling is how long anything may take before it has not happened. It is no
// measure of anything.
const ceiling = time.Minute

// world is a target with the stack of testdata/probe.yaml on it.
type world struct {
	target.Target

	sfn    *sfn.Client
	sqs    *sqs.Client
	lambda *lambda.Client
	dynamo *dynamodb.Client
	s3     *s3.Client
	http   *http.Client

	out map[string]string

	// What functions have said, and who waits for which words.
	mu   sync.Mutex
	said []string
}

// newWorld deploys the stack to a target, for as long as the test lasts.
func newWorld(t *testing.T, at target.Target) *world {
	t.Helper()
	stack := aws.String("perdure-probe-" + strings.ToLower(rand.Text()[:8]))
	cfn := cloudformation.NewFromConfig(at.Config)
	_, err := cfn.CreateStack(t.Context(), &cloudformation.CreateStackInput{
		StackName: stack, TemplateBody: &template, Capabilities: []cfntypes.Capability{cfntypes.CapabilityCapabilityIam},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := cfn.DeleteStack(context.WithoutCancel(t.Context()), &cloudformation.DeleteStackInput{StackName: stack})
		require.NoError(t, err)
	})
	waiter := cloudformation.NewStackCreateCompleteWaiter(cfn, func(o *cloudformation.StackCreateCompleteWaiterOptions) {
		o.MinDelay, o.MaxDelay = 100*time.Millisecond, 5*time.Second
	})
	made, err := waiter.WaitForOutput(t.Context(), &cloudformation.DescribeStacksInput{StackName: stack}, 10*time.Minute)
	require.NoError(t, err)
	w := &world{
		Target: at, sfn: sfn.NewFromConfig(at.Config), sqs: sqs.NewFromConfig(at.Config), lambda: lambda.NewFromConfig(at.Config),
		dynamo: dynamodb.NewFromConfig(at.Config), s3: s3.NewFromConfig(at.Config), http: target.HTTP(), out: map[string]string{},
	}
	for _, output := range made.Stacks[0].Outputs {
		w.out[*output.OutputKey] = *output.OutputValue
	}
	return w
}

// eventually waits until something is so.
func eventually(t *testing.T, so func() bool) bool {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(ceiling); time.Now().Before(end); <-tick.C {
		if so() {
			return true
		}
	}
	return false
}

// machine makes a state machine of states, the first of which is "A".
func (w *world) machine(t *testing.T, states string) string {
	t.Helper()
	definition := `{"StartAt":"A","States":` + w.fill(states) + `}`
	made, err := w.sfn.CreateStateMachine(t.Context(), &sfn.CreateStateMachineInput{
		Name: aws.String("perdure-probe-" + rand.Text()), Definition: &definition, RoleArn: aws.String(w.out["Role"]),
	})
	require.NoError(t, err, definition)
	t.Cleanup(func() {
		_, err := w.sfn.DeleteStateMachine(context.WithoutCancel(t.Context()), &sfn.DeleteStateMachineInput{StateMachineArn: made.StateMachineArn})
		require.NoError(t, err)
	})
	return *made.StateMachineArn
}

// fill puts outputs of the stack where <Name> stands.
func (w *world) fill(text string) string {
	for name, value := range w.out {
		text = strings.ReplaceAll(text, "<"+name+">", value)
	}
	return text
}

// start begins an execution, and stops it at the end of the test.
func (w *world) start(t *testing.T, machine, input string) string {
	t.Helper()
	made, err := w.sfn.StartExecution(t.Context(), &sfn.StartExecutionInput{StateMachineArn: &machine, Input: &input})
	require.NoError(t, err)
	t.Cleanup(func() { w.stop(context.WithoutCancel(t.Context()), *made.ExecutionArn) })
	return *made.ExecutionArn
}

// stop stops an execution; one that has ended is none.
func (w *world) stop(ctx context.Context, execution string) {
	_, _ = w.sfn.StopExecution(ctx, &sfn.StopExecutionInput{ExecutionArn: &execution})
}

// end waits for the end of an execution and says how it ended.
func (w *world) end(t *testing.T, execution string) (status sfntypes.ExecutionStatus, code string) {
	t.Helper()
	require.True(t, eventually(t, func() bool {
		status, code = w.status(t, execution)
		return status != sfntypes.ExecutionStatusRunning
	}), "the execution does not end")
	return status, code
}

func (w *world) status(t *testing.T, execution string) (status sfntypes.ExecutionStatus, code string) {
	t.Helper()
	described, err := w.sfn.DescribeExecution(t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: &execution})
	require.NoError(t, err)
	return described.Status, aws.ToString(described.Error)
}

// hears waits until a function or a task has said something that begins with a
// word, and takes it.
func (w *world) hears(t *testing.T, word string) string {
	t.Helper()
	heard := ""
	require.True(t, eventually(t, func() bool {
		got, err := w.sqs.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: aws.String(w.out["Verdicts"]), MaxNumberOfMessages: 10})
		require.NoError(t, err)
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, message := range got.Messages {
			w.said = append(w.said, *message.Body)
			_, err = w.sqs.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: aws.String(w.out["Verdicts"]), ReceiptHandle: message.ReceiptHandle})
			require.NoError(t, err)
		}
		for i, text := range w.said {
			if strings.HasPrefix(text, word) {
				heard = text
				w.said = append(w.said[:i:i], w.said[i+1:]...)
				return true
			}
		}
		return false
	}), "nobody said %s", word)
	return strings.TrimSpace(strings.TrimPrefix(heard, word))
}

// send puts a message into one of the stack's queues; a group is for a FIFO one.
func (w *world) send(t *testing.T, queue, body, group string) {
	t.Helper()
	message := &sqs.SendMessageInput{QueueUrl: aws.String(w.out[queue]), MessageBody: &body}
	if group != "" {
		message.MessageGroupId, message.MessageDeduplicationId = &group, aws.String(rand.Text())
	}
	_, err := w.sqs.SendMessage(t.Context(), message)
	require.NoError(t, err)
}

// left counts what is in a queue, in flight included.
func (w *world) left(t *testing.T, queue string) string {
	t.Helper()
	got, err := w.sqs.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: aws.String(w.out[queue]), AttributeNames: []sqsAttribute{"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"},
	})
	require.NoError(t, err)
	return got.Attributes["ApproximateNumberOfMessages"] + "+" + got.Attributes["ApproximateNumberOfMessagesNotVisible"]
}

// get asks the stack's API.
func (w *world) get(t *testing.T, path string, body io.Reader) (status int, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.out["Api"]+path, body)
	require.NoError(t, err)
	response, err := w.http.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(read)
}

// invoke calls a function and says what AWS calls its failure, if it fails.
func (w *world) invoke(t *testing.T, function string, event any) (failure string) {
	t.Helper()
	payload, err := json.Marshal(event)
	require.NoError(t, err)
	got, err := w.lambda.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: aws.String(w.out[function]), Payload: payload})
	require.NoError(t, err)
	if got.FunctionError == nil {
		return ""
	}
	var said struct {
		ErrorType string `json:"errorType"`
	}
	require.NoError(t, json.NewDecoder(bytes.NewReader(got.Payload)).Decode(&said))
	return said.ErrorType
}

// limit sees to it that the function that may not run does not, whether or not
// the template said so.
func (w *world) limit(t *testing.T) {
	t.Helper()
	_, err := w.lambda.PutFunctionConcurrency(t.Context(), &lambda.PutFunctionConcurrencyInput{
		FunctionName: aws.String(w.out["Limited"]), ReservedConcurrentExecutions: aws.Int32(0),
	})
	require.NoError(t, err)
}

// code is what AWS calls an error, "" for none.
func code(err error) string {
	var api smithy.APIError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &api):
		return api.ErrorCode()
	default:
		return err.Error()
	}
}
