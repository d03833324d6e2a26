package sfn_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssfn "github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/lambda/lambdatest"
	"github.com/perdure/perdure/localstack/target"
)

// patience is how long a test waits for what must come; it is no measure.
const patience = 2 * time.Minute

// role is nobody's on targets that check none.
const role = "arn:aws:iam::000000000000:role/stand-in"

// part is what a stand-in plays: it answers an event, or fails with the name of
// an error. It may be asked by several at once.
type part func(event []byte) (answer any, fail string)

// stage has a state machine whose functions are played by the test.
type stage struct {
	client  *awssfn.Client
	cfg     aws.Config
	can     target.Capabilities
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
	s := &stage{client: awssfn.NewFromConfig(place.Config), cfg: place.Config, can: place.Can}
	id := strings.ToLower(ulid.Make().String())
	for name := range parts {
		definition = strings.ReplaceAll(definition, "${"+name+"}", lambdatest.StandIn(t, place.Config, place.Can.Arch, name+"-"+id, server.URL+"/"+name))
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
