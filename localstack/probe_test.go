package localstack_test

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
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
var probeTemplate string

//go:embed testdata/api.yaml
var apiTemplate string

// ceiling is how long anything may take before it has not happened. It is no
// measure of anything.
const ceiling = 3 * time.Minute

// world is a target with the stack of testdata/probe.yaml on it.
type world struct {
	target.Target

	sfn    *sfn.Client
	sqs    *sqs.Client
	lambda *lambda.Client
	dynamo *dynamodb.Client
	s3     *s3.Client
	http   *http.Client

	name     string            // of the stack, which all that a question makes begins with
	out      map[string]string // the stack's outputs
	code     string            // the bucket with the functions' code
	verdicts verdicts
}

// newWorld deploys the stack to a target, for as long as the test lasts.
func newWorld(t *testing.T, at target.Target) *world {
	t.Helper()
	w := &world{
		Target: at, sfn: sfn.NewFromConfig(at.Config), sqs: sqs.NewFromConfig(at.Config), lambda: lambda.NewFromConfig(at.Config),
		dynamo: dynamodb.NewFromConfig(at.Config), s3: s3.NewFromConfig(at.Config), http: target.HTTP(),
		name: "perdure-probe-" + strings.ToLower(rand.Text()[:8]), out: map[string]string{},
	}
	w.upload(t)
	w.deploy(t, w.name, probeTemplate, map[string]string{"CodeBucket": w.code, "CodeKey": codeKey, "Architecture": string(w.architecture())})
	if at.Can.Shows(target.HTTPAPI) {
		w.deploy(t, w.name+"-api", apiTemplate, map[string]string{"Does": w.out["Does"], "Limited": w.out["Limited"]})
	}
	w.listen(t)
	return w
}

// deploy makes a stack and takes its outputs.
func (w *world) deploy(t *testing.T, name, template string, parameters map[string]string) {
	t.Helper()
	cfn := cloudformation.NewFromConfig(w.Config)
	in := &cloudformation.CreateStackInput{StackName: &name, TemplateBody: &template, Capabilities: []cfntypes.Capability{cfntypes.CapabilityCapabilityIam}}
	for key, value := range maps.All(parameters) {
		in.Parameters = append(in.Parameters, cfntypes.Parameter{ParameterKey: &key, ParameterValue: &value})
	}
	_, err := cfn.CreateStack(t.Context(), in)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := cfn.DeleteStack(context.WithoutCancel(t.Context()), &cloudformation.DeleteStackInput{StackName: &name})
		require.NoError(t, err)
	})
	waiter := cloudformation.NewStackCreateCompleteWaiter(cfn, func(o *cloudformation.StackCreateCompleteWaiterOptions) {
		o.MinDelay, o.MaxDelay = 100*time.Millisecond, 5*time.Second
	})
	made, err := waiter.WaitForOutput(t.Context(), &cloudformation.DescribeStacksInput{StackName: &name}, 10*time.Minute)
	require.NoError(t, err)
	for _, output := range made.Stacks[0].Outputs {
		w.out[*output.OutputKey] = *output.OutputValue
	}
}

// eventually waits until something is so.
func eventually(t *testing.T, so func() bool) bool {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
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
	return w.define(t, `{"StartAt":"A","States":`+states+`}`)
}

// define makes a state machine, with outputs of the stack where <Name> stands.
func (w *world) define(t *testing.T, definition string) string {
	t.Helper()
	for name, value := range w.out {
		definition = strings.ReplaceAll(definition, "<"+name+">", value)
	}
	made, err := w.sfn.CreateStateMachine(t.Context(), &sfn.CreateStateMachineInput{
		Name: aws.String(w.name + "-" + rand.Text()), Definition: &definition, RoleArn: aws.String(w.out["Role"]),
	})
	require.NoError(t, err, definition)
	t.Cleanup(func() {
		_, err := w.sfn.DeleteStateMachine(context.WithoutCancel(t.Context()), &sfn.DeleteStateMachineInput{StateMachineArn: made.StateMachineArn})
		require.NoError(t, err)
	})
	return *made.StateMachineArn
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

// send puts a message into one of the stack's queues; a group is for a FIFO one.
func (w *world) send(t *testing.T, queue, body, group string) {
	t.Helper()
	require.NoError(t, w.put(t, w.out[queue], body, group, rand.Text()))
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

// limit says how many of a function may run at once.
func (w *world) limit(t *testing.T, function string, most int32) {
	t.Helper()
	_, err := w.lambda.PutFunctionConcurrency(t.Context(), &lambda.PutFunctionConcurrencyInput{
		FunctionName: aws.String(w.out[function]), ReservedConcurrentExecutions: &most,
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
