package sfn_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awssfn "github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/sfn"
	"github.com/perdure/perdure/internal/host"
)

const machineARN = "arn:aws:states:eu-west-1:123456789012:stateMachine:session"

// reply is one answer of the engine: an error's code, or a body; broken is a
// connection that ends without one.
type reply struct {
	code   string
	body   map[string]any
	broken bool
}

// engine answers as Step Functions does, by a script: each operation's replies
// in order, the last for ever.
type engine struct {
	mu      sync.Mutex
	replies map[string][]reply
	asked   map[string]int
}

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	e.mu.Lock()
	list := e.replies[op]
	e.asked[op]++
	now := reply{code: "NoSuchOperationInTheScript"}
	if len(list) > 0 {
		now = list[min(e.asked[op], len(list))-1]
	}
	e.mu.Unlock()
	if now.broken {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	if now.code != "" {
		w.WriteHeader(http.StatusBadRequest)
		now.body = map[string]any{"__type": "com.amazonaws.swf.service.v2.model#" + now.code, "message": "no"}
	}
	_ = json.NewEncoder(w).Encode(now.body)
}

// times is how often an operation was asked for.
func (e *engine) times(op string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked[op]
}

func scripted(t *testing.T, replies map[string][]reply) (*sfn.Waker, *engine) {
	t.Helper()
	e := &engine{replies: replies, asked: map[string]int{}}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	w, err := sfn.NewWaker(aws.Config{
		Region: "us-east-1", BaseEndpoint: &server.URL, HTTPClient: server.Client(),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}, machineARN, func(o *awssfn.Options) {
		o.Retryer = retry.AddWithMaxBackoffDelay(o.Retryer, time.Microsecond)
	})
	require.NoError(t, err)
	return w, e
}

// begun is an answer of StartExecution.
func begun() reply { return reply{body: map[string]any{"executionArn": "a", "startDate": 1.0}} }

func description(status, input string) reply {
	return reply{body: map[string]any{"executionArn": "a", "stateMachineArn": machineARN, "startDate": 1.0, "status": status, "input": input}}
}

func TestWhatPassesIsTriedAgainAndThenUnavailable(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"ThrottlingException", "ExecutionLimitExceeded", "ServiceUnavailable", "broken"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			bad := reply{code: code}
			if code == "broken" {
				bad = reply{broken: true}
			}
			if code == "ServiceUnavailable" {
				bad.code = "RequestTimeoutException"
			}
			w, e := scripted(t, map[string][]reply{"StartExecution": {bad, bad, begun()}})
			require.NoError(t, w.Start(t.Context(), key, inc, 3))
			require.Equal(t, 3, e.times("StartExecution"))

			w, e = scripted(t, map[string][]reply{"StartExecution": {bad}})
			require.ErrorIs(t, w.Start(t.Context(), key, inc, 3), host.ErrUnavailable)
			require.Equal(t, 5, e.times("StartExecution"), "it does not try for ever")
		})
	}
}

func TestWhatIsSetUpWrongSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"AccessDeniedException":       "not allowed to call states:StartExecution on " + machineARN + "; add it to the role",
		"StateMachineDoesNotExist":    "does not exist; deploy the stack",
		"StateMachineDeleting":        "deploy the stack again",
		"UnrecognizedClientException": "does not accept the credentials",
		"ExpiredTokenException":       "does not accept the credentials",
		"InvalidExecutionInput":       "InvalidExecutionInput",
	} {
		w, e := scripted(t, map[string][]reply{"StartExecution": {{code: code}}})
		err := w.Start(t.Context(), key, inc, 3)
		require.ErrorContains(t, err, want, code)
		require.NotErrorIs(t, err, host.ErrUnavailable, code)
		require.Equal(t, 1, e.times("StartExecution"), "trying again does not help: %s", code)
	}
	for _, arn := range []string{
		"", "session", "arn:aws:lambda:eu-west-1:123456789012:function:drive", "arn:aws:states:eu-west-1:123456789012:execution:session:a",
		"arn:aws:states:eu-west-1:123456789012:stateMachine:", "arn:aws:states:eu-west-1:123456789012:stateMachine:session:alias",
	} {
		_, err := sfn.NewWaker(aws.Config{}, arn)
		require.ErrorContains(t, err, "is not the ARN of a state machine", arn)
	}
}

func TestATakenNameIsLookedAt(t *testing.T) {
	t.Parallel()
	mine, err := sfn.Input(key, inc, 3)
	require.NoError(t, err)
	others := strings.Replace(string(mine), `"session":"s"`, `"session":"t"`, 1)
	for name, c := range map[string]struct {
		described reply
		want      error // nil: it runs
	}{
		"it runs":                       {description("RUNNING", string(mine)), nil},
		"it runs, as a newer build's":   {description("RUNNING", `{"v":2}`), nil},
		"it runs, and tells no input":   {reply{body: map[string]any{"executionArn": "a", "stateMachineArn": machineARN, "startDate": 1.0, "status": "RUNNING"}}, nil},
		"it has succeeded":              {description("SUCCEEDED", string(mine)), host.ErrEnded},
		"it has failed":                 {description("FAILED", string(mine)), host.ErrEnded},
		"it ran out of time":            {description("TIMED_OUT", string(mine)), host.ErrEnded},
		"it was stopped":                {description("ABORTED", string(mine)), host.ErrEnded},
		"it might be redriven":          {description("PENDING_REDRIVE", string(mine)), host.ErrEnded},
		"it has ended, as another's":    {description("FAILED", others), host.ErrEnded},
		"it runs for another session":   {description("RUNNING", others), sfn.ErrData},
		"its description lags behind":   {reply{code: "ExecutionDoesNotExist"}, host.ErrUnavailable},
		"its description is not to get": {reply{code: "ThrottlingException"}, host.ErrUnavailable},
	} {
		w, _ := scripted(t, map[string][]reply{"StartExecution": {{code: "ExecutionAlreadyExists"}}, "DescribeExecution": {c.described}})
		err := w.Start(t.Context(), key, inc, 3)
		if c.want == nil {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorIs(t, err, c.want, name)
	}
}

// TestT28ATokenThatIsNoGoodIsNoFailure: AWS answers the second use of a token
// with TaskTimedOut, though the first worked. Whoever completes gets one of the
// errors of a token, which say nothing but "look at the head".
func TestT28ATokenThatIsNoGoodIsNoFailure(t *testing.T) {
	t.Parallel()
	ok := reply{body: map[string]any{}}
	for name, c := range map[string]struct {
		replies []reply
		want    error
	}{
		"it was used or ran out":         {[]reply{{code: "TaskTimedOut"}}, host.ErrTokenTimedOut},
		"nobody knows it":                {[]reply{{code: "TaskDoesNotExist"}}, host.ErrTokenLost},
		"it is no token":                 {[]reply{{code: "InvalidToken"}}, host.ErrTokenLost},
		"used, and the answer was lost":  {[]reply{{broken: true}, {code: "TaskTimedOut"}}, host.ErrTokenTimedOut},
		"throttled, and then it is used": {[]reply{{code: "ThrottlingException"}, ok}, nil},
	} {
		w, _ := scripted(t, map[string][]reply{"SendTaskSuccess": c.replies})
		require.ErrorIs(t, w.Complete(t.Context(), "AAAA"), c.want, name)
	}
	w, e := scripted(t, map[string][]reply{"SendTaskSuccess": {ok}})
	for _, token := range []string{"", strings.Repeat("A", 2049)} {
		require.ErrorIs(t, w.Complete(t.Context(), token), host.ErrTokenLost)
	}
	require.Zero(t, e.times("SendTaskSuccess"))
}

func TestOnlyWhatRunsIsAlive(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]bool{
		"RUNNING": true, "SUCCEEDED": false, "FAILED": false, "TIMED_OUT": false, "ABORTED": false, "PENDING_REDRIVE": false,
	} {
		w, _ := scripted(t, map[string][]reply{"DescribeExecution": {description(status, "{}")}})
		alive, err := w.Alive(t.Context(), key, inc, 3)
		require.NoError(t, err)
		require.Equal(t, want, alive, status)
	}
	w, _ := scripted(t, map[string][]reply{"StopExecution": {{code: "ExecutionDoesNotExist"}}, "DescribeExecution": {{code: "ExecutionDoesNotExist"}}})
	require.NoError(t, w.End(t.Context(), key, inc, 3))
	_, err := w.Alive(t.Context(), key, inc, 3)
	require.ErrorIs(t, err, host.ErrNotFound)
}

func TestAnExecutionIsNamedByFewCharacters(t *testing.T) {
	t.Parallel()
	name, err := sfn.ExecutionName(inc, 3)
	require.NoError(t, err)
	require.Equal(t, inc+"-3", name)
	w, e := scripted(t, nil)
	for _, bad := range []string{"", "a b", "a:b", "a/b", "a-b", "a*", "é", strings.Repeat("I", 79)} {
		_, err := sfn.ExecutionName(bad, 3)
		require.ErrorIs(t, err, sfn.ErrData, bad)
		require.ErrorIs(t, w.Start(t.Context(), key, bad, 3), sfn.ErrData, bad)
		require.ErrorIs(t, w.End(t.Context(), key, bad, 3), sfn.ErrData, bad)
		_, err = w.Alive(t.Context(), key, bad, 3)
		require.ErrorIs(t, err, sfn.ErrData, bad)
	}
	require.ErrorIs(t, w.Start(t.Context(), key, inc, 0), sfn.ErrData)
	require.ErrorIs(t, w.Start(t.Context(), host.Key{Tenant: "t", Session: "a#b"}, inc, 1), sfn.ErrData)
	require.Empty(t, e.asked)
}

func TestACallThatIsBrokenOffSaysSo(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	asked := make(chan struct{}, 8)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		// Only a request that was read is seen to be broken off.
		_, _ = io.Copy(io.Discard, r.Body)
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	w, err := sfn.NewWaker(aws.Config{
		Region: "us-east-1", BaseEndpoint: &server.URL, HTTPClient: server.Client(),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}, machineARN)
	require.NoError(t, err)
	go func() { <-asked; cancel(errors.New("the session is gone")) }()
	err = w.Complete(ctx, "AAAA")
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, host.ErrUnavailable)
}
