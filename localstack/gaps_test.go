package localstack_test

import (
	"bytes"
	"crypto/rand"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	sfntypes "github.com/aws/aws-sdk-go-v2/service/sfn/types"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/localstack/target"
)

type sqsAttribute = sqstypes.QueueAttributeName

// question asks one thing of a target; AWS's own answer is true.
type question struct {
	name string // that of the gap in localstack/gaps, if it is one
	ask  func(t *testing.T, w *world) bool
}

// A gap that nobody asks about might be closed wrongly, or long be gone.
func TestEveryGapIsAskedAbout(t *testing.T) {
	t.Parallel()
	target.Get(t)
	root, err := target.Root()
	require.NoError(t, err)
	said, err := exec.CommandContext(t.Context(), "python3", filepath.Join(root, "localstack", "emulator.py"), "gaps").Output()
	require.NoError(t, err)
	var known, asked []string
	for line := range strings.Lines(string(said)) {
		if !strings.HasPrefix(line, " ") {
			known = append(known, strings.TrimSpace(line))
		}
	}
	for _, q := range gaps() {
		asked = append(asked, q.name)
	}
	require.ElementsMatch(t, known, asked)
}

// TestGapsAreStillOpenUpstream puts the questions to MiniStack as it comes. One
// that it answers as AWS does is no gap any more: take it out of localstack/gaps,
// and move its question to those that are relied on.
func TestGapsAreStillOpenUpstream(t *testing.T) {
	t.Parallel()
	w := newWorld(t, target.Emulator(t, "all"))
	atOnce(t, gaps(), func(t *testing.T, q question) {
		require.False(t, q.ask(t, w), "MiniStack answers this as AWS does: the gap is closed without us")
	})
}

// TestT80TargetsAnswerAsAWS puts the same questions to the target, whichever it
// is: with PERDURE_AWS_ENDPOINT=aws to AWS itself, which is what the answers are
// held against.
func TestT80TargetsAnswerAsAWS(t *testing.T) {
	t.Parallel()
	w := newWorld(t, target.Get(t))
	atOnce(t, append(gaps(), reliedOn()...), func(t *testing.T, q question) {
		require.True(t, q.ask(t, w))
	})
}

// atOnce puts all questions at the same time, however few processors there are:
// what they do is wait.
func atOnce(t *testing.T, questions []question, put func(*testing.T, question)) {
	t.Helper()
	var all sync.WaitGroup
	for _, q := range questions {
		all.Go(func() {
			t.Run(q.name, func(t *testing.T) { put(t, q) })
		})
	}
	all.Wait()
}

// waits is a task that sends its token to the verdicts, with a word in front. The
// rest of the state is the caller's.
func waits(word, rest string) string {
	return `{"A":{"Type":"Task","Resource":"arn:aws:states:::sqs:sendMessage.waitForTaskToken","Parameters":{"QueueUrl":"<Verdicts>",
		"MessageBody.$":"States.Format('` + word + ` {}', $$.Task.Token)"},` + rest + `"End":true}}`
}

func call(resource, function, payload, rest string) string {
	return `{"A":{"Type":"Task","Resource":"arn:aws:states:::lambda:` + resource + `","Parameters":{"FunctionName":"<` + function + `>","Payload":` + payload + `},` + rest + `"End":true}}`
}

func gaps() []question {
	return []question{
		{"http-api-failures", func(t *testing.T, w *world) bool {
			w.limit(t)
			failed, text := w.get(t, "/fail", http.NoBody)
			limited, _ := w.get(t, "/limited", http.NoBody)
			return failed == http.StatusInternalServerError && limited == http.StatusServiceUnavailable && !strings.Contains(text, "stranger")
		}},
		{"http-api-time", func(t *testing.T, w *world) bool {
			status, _ := w.get(t, "/answer?seconds=3", http.NoBody)
			return status == http.StatusServiceUnavailable
		}},
		{"http-api-sizes", func(t *testing.T, w *world) bool {
			status, _ := w.get(t, "/limited", bytes.NewReader(make([]byte, 11<<20)))
			return status == http.StatusRequestEntityTooLarge
		}},
		{"answer-size", func(t *testing.T, w *world) bool {
			return w.invoke(t, "Answer", map[string]int{"n": 5_000_000}) == "" &&
				w.invoke(t, "Answer", map[string]int{"n": 7_000_000}) == "Function.ResponseSizeTooLarge"
		}},
		{"event-size", func(t *testing.T, w *world) bool {
			event := []byte(`{"x":"` + strings.Repeat("x", 7_000_000) + `"}`)
			_, err := w.lambda.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: aws.String(w.out["Answer"]), Payload: event})
			return code(err) == "RequestTooLargeException"
		}},
		{"url-address", func(t *testing.T, w *world) bool {
			made, err := w.lambda.CreateFunctionUrlConfig(t.Context(), &lambda.CreateFunctionUrlConfigInput{
				FunctionName: aws.String(w.out["Answer"]), AuthType: lambdatypes.FunctionUrlAuthTypeNone,
			})
			require.NoError(t, err)
			_, err = w.lambda.DeleteFunctionUrlConfig(t.Context(), &lambda.DeleteFunctionUrlConfigInput{FunctionName: aws.String(w.out["Answer"])})
			require.NoError(t, err)
			// Where it is found from here.
			here, err := w.Reach(*made.FunctionUrl)
			require.NoError(t, err)
			return here == strings.TrimRight(*made.FunctionUrl, "/")
		}},
		{"null-failures", nullFailures},
		{"fifo-groups", fifoGroups},
		{"state-sizes", func(t *testing.T, w *world) bool {
			twice := w.machine(t, `{"A":{"Type":"Pass","Parameters":{"a.$":"$.a","b.$":"$.a"},"End":true}}`)
			answer := w.machine(t, call("invoke", "Answer", `{"n":300000}`, `"Catch":[{"ErrorEquals":["States.ALL"],"Next":"A"}],`))
			_, first := w.end(t, w.start(t, twice, `{"a":"`+strings.Repeat("x", 200_000)+`"}`))
			_, second := w.end(t, w.start(t, answer, "{}"))
			return first == "States.DataLimitExceeded" && second == "States.DataLimitExceeded"
		}},
		{"task-attempts", taskAttempts},
		{"aborted-for-good", abortedForGood},
		{"time-limits-by-reference", timeLimits},
		{"heartbeats", func(t *testing.T, w *world) bool {
			machine := w.machine(t, waits(rand.Text(), `"HeartbeatSeconds":1,"TimeoutSeconds":5,`))
			_, failure := w.end(t, w.start(t, machine, "{}"))
			return failure == "States.HeartbeatTimeout"
		}},
		{"callback-function-fails", func(t *testing.T, w *world) bool {
			machine := w.machine(t, call("invoke.waitForTaskToken", "Fail", `{"token.$":"$$.Task.Token"}`, `"TimeoutSeconds":5,`))
			_, failure := w.end(t, w.start(t, machine, "{}"))
			return failure != "States.Timeout"
		}},
		{"token-life", tokenLife},
		{"reserved-by-template", func(t *testing.T, w *world) bool {
			got, err := w.lambda.GetFunctionConcurrency(t.Context(), &lambda.GetFunctionConcurrencyInput{FunctionName: aws.String(w.out["Never"])})
			require.NoError(t, err)
			return got.ReservedConcurrentExecutions != nil && *got.ReservedConcurrentExecutions == 0
		}},
		{"throttled-function", func(t *testing.T, w *world) bool {
			w.limit(t)
			_, failure := w.end(t, w.start(t, w.machine(t, call("invoke", "Limited", "{}", "")), "{}"))
			return failure == "Lambda.TooManyRequestsException"
		}},
		{"start-again", startAgain},
		{"url-streams", urlStreams},
		{"update-in-flight", updateInFlight},
		{"execution-names", executionNames},
		{"input-sizes", inputSizes},
	}
}

// nullFailures sends a message that a function answers with null failures for:
// it is gone, or it comes again.
func nullFailures(t *testing.T, w *world) bool {
	word := rand.Text()
	w.send(t, "Nulls", "say "+word+" once", "")
	w.hears(t, word)
	gone := false
	require.True(t, eventually(t, func() bool {
		gone = w.left(t, "Nulls") == "0+0"
		return gone || w.left(t, "Nulls") == "1+0"
	}))
	return gone
}

func fifoGroups(t *testing.T, w *world) bool {
	word := rand.Text()
	w.send(t, "Groups", "slow "+word, "one")
	require.True(t, eventually(t, func() bool { return w.left(t, "Groups") == "0+1" }))
	w.send(t, "Groups", "quick "+word, "two")
	return w.hears(t, word) == "met"
}

// taskAttempts fails the first attempt of a task and answers the second, which
// comes before a task ends that has less time than the pause without its limit.
func taskAttempts(t *testing.T, w *world) bool {
	word := rand.Text()
	machine := w.machine(t, waits(word, `"TimeoutSeconds":60,"Retry":[{"ErrorEquals":["Again"],"IntervalSeconds":10,"MaxDelaySeconds":1,"MaxAttempts":1}],`))
	execution := w.start(t, machine, "{}")
	first := w.hears(t, word)
	clock := w.start(t, w.machine(t, waits(rand.Text(), `"TimeoutSeconds":8,`)), "{}")
	_, err := w.sfn.SendTaskFailure(t.Context(), &sfn.SendTaskFailureInput{TaskToken: &first, Error: aws.String("Again")})
	require.NoError(t, err)
	second := w.hears(t, word)
	soon, _ := w.status(t, clock)
	_, err = w.sfn.SendTaskSuccess(t.Context(), &sfn.SendTaskSuccessInput{TaskToken: &second, Output: aws.String("{}")})
	require.NoError(t, err)
	status, _ := w.end(t, execution)
	return first != second && soon == sfntypes.ExecutionStatusRunning && status == sfntypes.ExecutionStatusSucceeded
}

// abortedForGood stops an execution whose function fails afterwards.
func abortedForGood(t *testing.T, w *world) bool {
	word := rand.Text()
	machine := w.machine(t, call("invoke", "Fail", `{"say":"`+word+` began","seconds":2}`, ""))
	execution := w.start(t, machine, "{}")
	require.True(t, eventually(t, func() bool {
		history, err := w.sfn.GetExecutionHistory(t.Context(), &sfn.GetExecutionHistoryInput{ExecutionArn: &execution})
		require.NoError(t, err)
		return len(history.Events) > 2
	}))
	w.stop(t.Context(), execution)
	w.hears(t, word)
	// It is about to fail. Another one that does so afterwards gives it time.
	w.end(t, w.start(t, w.machine(t, call("invoke", "Fail", "{}", "")), "{}"))
	status, _ := w.status(t, execution)
	return status == sfntypes.ExecutionStatusAborted
}

// timeLimits has tasks of which some have their limit from the input, and one,
// a longer one, from the definition: the former end before the latter.
func timeLimits(t *testing.T, w *world) bool {
	seconds := w.machine(t, waits(rand.Text(), `"TimeoutSecondsPath":"$.seconds",`))
	jsonata := w.machine(t, `{"A":{"Type":"Task","QueryLanguage":"JSONata","Resource":"arn:aws:states:::sqs:sendMessage.waitForTaskToken",
		"Arguments":{"QueueUrl":"<Verdicts>","MessageBody":"{% $states.context.Task.Token %}"},"TimeoutSeconds":"{% $states.input.seconds %}","End":true}}`)
	defined := w.machine(t, waits(rand.Text(), `"TimeoutSeconds":5,`))
	first, second := w.start(t, seconds, `{"seconds":1}`), w.start(t, jsonata, `{"seconds":1}`)
	w.end(t, w.start(t, defined, "{}"))
	_, one := w.status(t, first)
	_, two := w.status(t, second)
	return one == "States.Timeout" && two == "States.Timeout"
}

func tokenLife(t *testing.T, w *world) bool {
	parked := func(rest string) (execution, token string) {
		word := rand.Text()
		execution = w.start(t, w.machine(t, waits(word, rest)), "{}")
		return execution, w.hears(t, word)
	}
	answer := func(token string) string {
		_, err := w.sfn.SendTaskSuccess(t.Context(), &sfn.SendTaskSuccessInput{TaskToken: &token, Output: aws.String("{}")})
		return code(err)
	}
	_, used := parked("")
	require.Empty(t, answer(used))
	ended, expired := parked(`"TimeoutSeconds":1,`)
	w.end(t, ended)
	stopped, orphan := parked("")
	w.stop(t.Context(), stopped)
	const late = "TaskTimedOut"
	return answer(used) == late && answer(expired) == late && answer(orphan) == late
}

func startAgain(t *testing.T, w *world) bool {
	machine, name := w.machine(t, waits(rand.Text(), `"TimeoutSeconds":60,`)), rand.Text()
	var arns [2]string
	for i := range arns {
		made, err := w.sfn.StartExecution(t.Context(), &sfn.StartExecutionInput{StateMachineArn: &machine, Name: &name, Input: aws.String(`{"k":1}`)})
		if code(err) == "ExecutionAlreadyExists" {
			return false
		}
		require.NoError(t, err)
		arns[i] = *made.ExecutionArn
	}
	w.stop(t.Context(), arns[0])
	return arns[0] == arns[1]
}

func executionNames(t *testing.T, w *world) bool {
	machine := w.machine(t, `{"A":{"Type":"Succeed"}}`)
	for _, name := range []string{"a:b", "a b", "a#b", "a/b", strings.Repeat("x", 81)} {
		if _, err := w.sfn.StartExecution(t.Context(), &sfn.StartExecutionInput{StateMachineArn: &machine, Name: &name}); err == nil {
			return false
		}
	}
	// The names that Perdure gives.
	_, err := w.sfn.StartExecution(t.Context(), &sfn.StartExecutionInput{StateMachineArn: &machine, Name: aws.String("01J" + rand.Text() + "-3")})
	require.NoError(t, err)
	return true
}

func inputSizes(t *testing.T, w *world) bool {
	big := `{"a":"` + strings.Repeat("x", 300_000) + `"}`
	word := rand.Text()
	machine := w.machine(t, waits(word, ""))
	_, input := w.sfn.StartExecution(t.Context(), &sfn.StartExecutionInput{StateMachineArn: &machine, Input: &big})
	w.start(t, machine, "{}")
	token := w.hears(t, word)
	if input == nil {
		return false
	}
	_, output := w.sfn.SendTaskSuccess(t.Context(), &sfn.SendTaskSuccessInput{TaskToken: &token, Output: &big})
	return output != nil
}
