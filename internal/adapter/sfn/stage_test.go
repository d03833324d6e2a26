package sfn_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	awssfn "github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/localstack/target"
)

// patience is how long a test waits for what must come; it is no measure.
const patience = 2 * time.Minute

// role is nobody's on targets that check none.
const role = "arn:aws:iam::000000000000:role/stand-in"

// standIn is a function that asks the test what to do. It speaks to Lambda by
// itself, so that its errors have the names that the test gives them.
const standIn = `#!/usr/bin/env python3
import json, os, urllib.request

def post(url, value):
    with urllib.request.urlopen(urllib.request.Request(url, data=json.dumps(value).encode())) as response:
        return json.load(response) if url == os.environ["STAGE"] else None

base = "http://" + os.environ["AWS_LAMBDA_RUNTIME_API"] + "/2018-06-01/runtime/invocation/"
while True:
    with urllib.request.urlopen(base + "next") as event:
        at, body = base + event.headers["Lambda-Runtime-Aws-Request-Id"], json.load(event)
    said = post(os.environ["STAGE"], body)
    if "error" in said:
        post(at + "/error", {"errorType": said["error"], "errorMessage": "told to fail with a secret"})
    else:
        post(at + "/response", said["answer"])
`

// part is what a stand-in plays: it answers an event, or fails with the name of
// an error. It may be asked by several at once.
type part func(event []byte) (answer any, fail string)

// stage has a state machine whose functions are played by the test.
type stage struct {
	client  *awssfn.Client
	cfg     aws.Config
	machine string
}

// newStage makes a machine of a definition in which ${<part>} stands for the
// function that plays it.
func newStage(t *testing.T, definition string, parts map[string]part) *stage {
	t.Helper()
	place := target.Get(t)
	place.Need(t, target.Reach)
	server := httptest.NewServer(play(t, parts))
	t.Cleanup(server.Close)
	s := &stage{client: awssfn.NewFromConfig(place.Config), cfg: place.Config}
	functions := lambda.NewFromConfig(place.Config)
	id := strings.ToLower(ulid.Make().String())
	for name := range parts {
		definition = strings.ReplaceAll(definition, "${"+name+"}", function(t, functions, name+"-"+id, server.URL+"/"+name))
	}
	out, err := s.client.CreateStateMachine(t.Context(), &awssfn.CreateStateMachineInput{
		Name: aws.String("stage-" + id), RoleArn: aws.String(role), Definition: &definition,
	})
	require.NoError(t, err)
	s.machine = *out.StateMachineArn
	t.Cleanup(func() {
		ctx := after(t)
		list, err := s.client.ListExecutions(ctx, &awssfn.ListExecutionsInput{StateMachineArn: &s.machine, StatusFilter: types.ExecutionStatusRunning})
		require.NoError(t, err)
		for _, e := range list.Executions {
			_, err = s.client.StopExecution(ctx, &awssfn.StopExecutionInput{ExecutionArn: e.ExecutionArn})
			require.NoError(t, err)
		}
		_, err = s.client.DeleteStateMachine(ctx, &awssfn.DeleteStateMachineInput{StateMachineArn: &s.machine})
		if _, gone := errors.AsType[*types.StateMachineDoesNotExist](err); !gone {
			require.NoError(t, err)
		}
	})
	return s
}

func play(t *testing.T, parts map[string]part) http.Handler {
	t.Helper()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		event, err := io.ReadAll(r.Body)
		said, ok := map[string]any{}, false
		if act := parts[strings.TrimPrefix(r.URL.Path, "/")]; err == nil && act != nil {
			answer, fail := act(event)
			if ok = true; fail != "" {
				said["error"] = fail
			} else {
				said["answer"] = answer
			}
		}
		if !ok {
			http.Error(w, "no such part", http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(said)
	})
}

// function makes a stand-in and returns its ARN.
func function(t *testing.T, client *lambda.Client, name, url string) string {
	t.Helper()
	var code bytes.Buffer
	z := zip.NewWriter(&code)
	program := &zip.FileHeader{Name: "bootstrap", Method: zip.Deflate}
	program.SetMode(0o755)
	f, err := z.CreateHeader(program)
	require.NoError(t, err)
	_, err = f.Write([]byte(standIn))
	require.NoError(t, errors.Join(err, z.Close()))
	out, err := client.CreateFunction(t.Context(), &lambda.CreateFunctionInput{
		FunctionName: &name, Role: aws.String(role), Runtime: lambdatypes.RuntimeProvidedal2023, Handler: aws.String("bootstrap"),
		Code: &lambdatypes.FunctionCode{ZipFile: code.Bytes()}, Timeout: aws.Int32(60),
		Environment: &lambdatypes.Environment{Variables: map[string]string{"STAGE": url}},
	})
	if _, there := errors.AsType[*lambdatypes.ResourceConflictException](err); there {
		// The first answer was lost, and the client has asked again: the name is ours.
		made, getErr := client.GetFunctionConfiguration(t.Context(), &lambda.GetFunctionConfigurationInput{FunctionName: &name})
		require.NoError(t, getErr)
		out, err = &lambda.CreateFunctionOutput{FunctionArn: made.FunctionArn}, nil
	}
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := client.DeleteFunction(after(t), &lambda.DeleteFunctionInput{FunctionName: &name})
		require.NoError(t, err)
	})
	require.Eventually(t, func() bool {
		got, err := client.GetFunction(t.Context(), &lambda.GetFunctionInput{FunctionName: &name})
		return err == nil && got.Configuration.State != lambdatypes.StatePending
	}, patience, 20*time.Millisecond)
	return *out.FunctionArn
}

// execution is the ARN of one.
func (s *stage) execution(name string) string {
	return strings.Replace(s.machine, ":stateMachine:", ":execution:", 1) + ":" + name
}

// ended waits for the end of an execution.
func (s *stage) ended(t *testing.T, name string) *awssfn.DescribeExecutionOutput {
	t.Helper()
	arn := aws.String(s.execution(name))
	var last *awssfn.DescribeExecutionOutput
	require.Eventually(t, func() bool {
		out, err := s.client.DescribeExecution(t.Context(), &awssfn.DescribeExecutionInput{ExecutionArn: arn})
		last = out
		return err == nil && out.Status != types.ExecutionStatusRunning
	}, patience, 20*time.Millisecond)
	return last
}

// entered lists the states that an execution has entered, which is what AWS
// bills.
func (s *stage) entered(t *testing.T, name string) (states []string) {
	t.Helper()
	in := &awssfn.GetExecutionHistoryInput{ExecutionArn: aws.String(s.execution(name))}
	for pages := awssfn.NewGetExecutionHistoryPaginator(s.client, in); pages.HasMorePages(); {
		page, err := pages.NextPage(t.Context())
		require.NoError(t, err)
		for _, e := range page.Events {
			if e.StateEnteredEventDetails != nil {
				states = append(states, aws.ToString(e.StateEnteredEventDetails.Name))
			}
		}
	}
	return states
}
