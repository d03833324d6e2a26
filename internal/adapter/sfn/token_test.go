package sfn_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssfn "github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/sfn"
	"github.com/perdure/perdure/internal/host"
)

// noGood says whether an error is one of a token, all of which the host takes
// alike: it looks at the head.
func noGood(err error) bool {
	return errors.Is(err, host.ErrTokenDone) || errors.Is(err, host.ErrTokenTimedOut) || errors.Is(err, host.ErrTokenLost)
}

// T28: which of its three errors an engine has for a token that is no good is a
// matter of taste. AWS documents TaskTimedOut for one that was used; others say
// InvalidToken or TaskDoesNotExist of it. Nobody tries again, nobody fails.
func TestT28EveryErrorOfATokenEndsAlike(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"TaskTimedOut", "TaskDoesNotExist", "InvalidToken"} {
		for name, before := range map[string][]reply{
			"at once": nil, "after an answer was lost": {{broken: true}}, "after a pause": {{code: "ThrottlingException"}, {code: "ThrottlingException"}},
		} {
			w, e := scripted(t, map[string][]reply{"SendTaskSuccess": append(before, reply{code: code})})
			err := w.Complete(t.Context(), "AAAA")
			require.True(t, noGood(err), "%s %s: %v", code, name, err)
			require.NotErrorIs(t, err, host.ErrUnavailable, "%s %s", code, name)
			require.Equal(t, len(before)+1, e.times("SendTaskSuccess"), "%s %s", code, name)
		}
	}
}

// twoWaits parks twice, the first time for a second at most where the input says
// so.
const twoWaits = `{"StartAt": "First", "States": {
	"First": {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken", "TimeoutSecondsPath": "$.seconds",
		"Parameters": {"FunctionName": "${say}", "Payload": {"state": "First", "token.$": "$$.Task.Token"}},
		"Catch": [{"ErrorEquals": ["States.Timeout"], "ResultPath": null, "Next": "Last"}], "ResultPath": null, "Next": "Last"},
	"Last": {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken", "TimeoutSeconds": 600,
		"Parameters": {"FunctionName": "${say}", "Payload": {"state": "Last", "token.$": "$$.Task.Token"}}, "End": true}
}}`

// T28 on an engine: whatever it says of a token that is over, it is no failure,
// and wakes nobody.
func TestT28ATokenThatIsOverWakesNobody(t *testing.T) {
	t.Parallel()
	for name, seconds := range map[string]int{"it was used": 600, "its time is over": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tokens := map[string]chan string{"First": make(chan string, 1), "Last": make(chan string, 1)}
			s := newStage(t, twoWaits, map[string]part{"say": func(event []byte) (any, string) {
				var said struct{ State, Token string }
				if err := json.Unmarshal(event, &said); err != nil {
					return nil, "Bad"
				}
				tokens[said.State] <- said.Token
				return nil, ""
			}})
			w, err := sfn.NewWaker(s.cfg, s.machine)
			require.NoError(t, err)
			input, err := json.Marshal(map[string]int{"seconds": seconds})
			require.NoError(t, err)
			execution := ulid.Make().String()
			_, err = s.client.StartExecution(t.Context(), &awssfn.StartExecutionInput{StateMachineArn: &s.machine, Name: &execution, Input: aws.String(string(input))})
			require.NoError(t, err)

			first := heard(t, tokens["First"])
			if seconds > 1 {
				require.NoError(t, w.Complete(t.Context(), first))
			}
			last := heard(t, tokens["Last"])
			require.NotEqual(t, first, last)
			for range 2 {
				requireHarmless(t, w, first)
			}
			requireHarmless(t, w, "nobody gave this")
			out, err := s.client.DescribeExecution(t.Context(), &awssfn.DescribeExecutionInput{ExecutionArn: aws.String(s.execution(execution))})
			require.NoError(t, err)
			require.Equal(t, types.ExecutionStatusRunning, out.Status)

			require.NoError(t, w.Complete(t.Context(), last))
			require.Equal(t, types.ExecutionStatusSucceeded, s.ended(t, execution).Status)
			requireHarmless(t, w, last)
		})
	}
}

// requireHarmless completes a token that is over. Not every engine says so.
func requireHarmless(t *testing.T, w *sfn.Waker, token string) {
	t.Helper()
	if err := w.Complete(t.Context(), token); err != nil {
		require.True(t, noGood(err), "%v", err)
	}
}

func heard(t *testing.T, tokens <-chan string) string {
	t.Helper()
	select {
	case token := <-tokens:
		return token
	case <-time.After(patience):
		require.Fail(t, "nobody parks")
		return ""
	}
}
