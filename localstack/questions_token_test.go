package localstack_test

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	sfntypes "github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/localstack/target"
)

const (
	tokenErrors = stepFunctionsAPI + "API_SendTaskSuccess.html#API_SendTaskSuccess_Errors"
	startErrors = stepFunctionsAPI + "API_StartExecution.html"
	exists      = "ExecutionAlreadyExists"
)

// startQuestions are about names and inputs of executions.
var startQuestions = []question{
	{
		name: "start-again", gap: "start-again", ask: startAgain, source: startErrors,
		aws: "StartExecution with the name and input of an execution that still runs answers with that execution.",
	},
	{
		name: "name-of-another-input", source: startErrors,
		aws: "StartExecution with the name of an execution that runs with another input is refused with ExecutionAlreadyExists.",
		ask: func(t *testing.T, w *world) bool {
			machine, name := w.machine(t, waits(rand.Text(), `"TimeoutSeconds":60,`)), aws.String(rand.Text())
			made, err := w.sfn.StartExecution(t.Context(), &sfn.StartExecutionInput{StateMachineArn: &machine, Name: name, Input: aws.String(`{"k":1}`)})
			require.NoError(t, err)
			_, err = w.sfn.StartExecution(t.Context(), &sfn.StartExecutionInput{StateMachineArn: &machine, Name: name, Input: aws.String(`{"k":2}`)})
			w.stop(t.Context(), *made.ExecutionArn)
			return code(err) == exists
		},
	},
	{
		name: "closed-name", source: startErrors,
		aws: "StartExecution with the name of an execution that has ended is refused with ExecutionAlreadyExists, for 90 days.",
		ask: func(t *testing.T, w *world) bool {
			machine, name := w.machine(t, `{"A":{"Type":"Succeed"}}`), aws.String(rand.Text())
			made, err := w.sfn.StartExecution(t.Context(), &sfn.StartExecutionInput{StateMachineArn: &machine, Name: name, Input: aws.String("{}")})
			require.NoError(t, err)
			w.end(t, *made.ExecutionArn)
			_, err = w.sfn.StartExecution(t.Context(), &sfn.StartExecutionInput{StateMachineArn: &machine, Name: name, Input: aws.String("{}")})
			return code(err) == exists
		},
	},
	{
		name: "execution-names", gap: "execution-names", ask: executionNames,
		aws:     "A name has 1 to 80 characters and none of: whitespace, brackets, wildcards, \" # % \\ ^ | ~ ` $ & , ; : / and control characters.",
		source:  startErrors + "#API_StartExecution_RequestParameters",
		differs: map[string]string{target.NameLocalStack: "it accepts names with a colon, and of more than 80 characters"},
	},
	{
		name: "input-sizes", gap: "input-sizes", source: stepFunctions + "service-quotas.html#service-limits-task-executions",
		aws:     "The input of an execution has at most 256 KiB.",
		differs: map[string]string{target.NameLocalStack: "it accepts an input of any size"},
		ask: func(t *testing.T, w *world) bool {
			machine, big := w.machine(t, `{"A":{"Type":"Succeed"}}`), `{"a":"`+strings.Repeat("x", 300_000)+`"}`
			_, err := w.sfn.StartExecution(t.Context(), &sfn.StartExecutionInput{StateMachineArn: &machine, Input: &big})
			return err != nil
		},
	},
}

// tokenQuestions are about tasks that wait for their token.
var tokenQuestions = []question{
	{
		name: "token-success", source: stepFunctions + "connect-to-resource.html#connect-wait-token",
		aws: "A task waits for its token, and what SendTaskSuccess says is its result.",
		ask: func(t *testing.T, w *world) bool {
			execution, token := w.parked(t, "")
			said := w.complete(t, token, `{"v":1}`)
			w.end(t, execution)
			got, err := w.sfn.DescribeExecution(t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: &execution})
			require.NoError(t, err)
			return said == "" && got.Status == sfntypes.ExecutionStatusSucceeded && strings.ReplaceAll(aws.ToString(got.Output), " ", "") == `{"v":1}`
		},
	},
	{
		name: "token-failure", source: stepFunctionsAPI + "API_SendTaskFailure.html",
		aws: "SendTaskFailure fails the task with the error that it names.",
		ask: func(t *testing.T, w *world) bool {
			execution, token := w.parked(t, "")
			said := w.fail(t, token, "Stranger")
			_, failure := w.end(t, execution)
			return said == "" && failure == "Stranger"
		},
	},
	{
		name: "token-timeout", source: errorNames,
		aws: "A task whose token does not come back within TimeoutSeconds fails with States.Timeout.",
		ask: func(t *testing.T, w *world) bool {
			execution, _ := w.parked(t, `"TimeoutSeconds":1,`)
			_, failure := w.end(t, execution)
			return failure == "States.Timeout"
		},
	},
	{
		name: "heartbeats", gap: "heartbeats", source: errorNames,
		aws:     "A task under a token that does not report within HeartbeatSeconds fails with States.HeartbeatTimeout.",
		differs: map[string]string{target.NameLocalStack: "it fails with States.Timeout"},
		ask: func(t *testing.T, w *world) bool {
			execution, _ := w.parked(t, `"HeartbeatSeconds":1,"TimeoutSeconds":20,`)
			_, failure := w.end(t, execution)
			return failure == "States.HeartbeatTimeout"
		},
	},
	{
		name: "callback-function-fails", gap: "callback-function-fails", source: stepFunctions + "connect-to-resource.html#connect-wait-token",
		aws: "A function that fails when it is handed a token fails the task at once.",
		ask: func(t *testing.T, w *world) bool {
			machine := w.machine(t, call("invoke.waitForTaskToken", "Does", `{"fail":"Stranger","token.$":"$$.Task.Token"}`, `"TimeoutSeconds":20,`))
			_, failure := w.end(t, w.start(t, machine, "{}"))
			return failure == "Stranger"
		},
	},
	{
		name: "token-used", gap: "token-life", source: tokenErrors,
		aws:     "A token that was used is answered TaskTimedOut.",
		differs: map[string]string{target.NameLocalStack: "InvalidToken"},
		ask: func(t *testing.T, w *world) bool {
			execution, token := w.parked(t, "")
			require.Empty(t, w.complete(t, token, "{}"))
			w.end(t, execution)
			return w.complete(t, token, "{}") == timedOut
		},
	},
	{
		name: "token-expired", gap: "token-life", source: tokenErrors,
		aws:     "A token whose task has timed out is answered TaskTimedOut.",
		differs: map[string]string{target.NameLocalStack: "InvalidToken"},
		ask: func(t *testing.T, w *world) bool {
			execution, token := w.parked(t, `"TimeoutSeconds":1,`)
			w.end(t, execution)
			return w.complete(t, token, "{}") == timedOut
		},
	},
	{
		name: "token-stopped", gap: "token-life", source: tokenErrors,
		aws:     "A token of an execution that was stopped is answered TaskTimedOut.",
		differs: map[string]string{target.NameLocalStack: "it is accepted, and the execution ends only then"},
		ask: func(t *testing.T, w *world) bool {
			execution, token := w.parked(t, "")
			w.stop(t.Context(), execution)
			return w.complete(t, token, "{}") == timedOut
		},
	},
	{
		name: "token-before-last", gap: "token-life", source: tokenErrors,
		aws:     "A token that was used is answered TaskTimedOut while its execution goes on, too.",
		differs: map[string]string{target.NameLocalStack: "it is accepted, to no effect"},
		ask: func(t *testing.T, w *world) bool {
			first, second := rand.Text(), rand.Text()
			w.start(t, w.machine(t, strings.Replace(then(waits(first, ""), waiting(tokenAfter(second), "")), `"End":true}`, `"Next":"B"}`, 1)), "{}")
			token := w.hears(t, first)
			require.Empty(t, w.complete(t, token, "{}"))
			w.hears(t, second)
			return w.complete(t, token, "{}") == timedOut
		},
	},
	{
		name: "token-unknown", source: tokenErrors,
		aws:     "What is no token is answered InvalidToken.",
		differs: map[string]string{target.NameEmulator: "TaskDoesNotExist"},
		ask:     func(t *testing.T, w *world) bool { return w.complete(t, "nobody gave this", "{}") == "InvalidToken" },
	},
	{
		name: "output-sizes", gap: "input-sizes", source: stepFunctions + "service-quotas.html#service-limits-task-executions",
		aws:     "The output that SendTaskSuccess gives a task has at most 256 KiB.",
		differs: map[string]string{target.NameLocalStack: "it accepts more, and the task fails with States.DataLimitExceeded"},
		ask: func(t *testing.T, w *world) bool {
			_, token := w.parked(t, "")
			return w.complete(t, token, `{"a":"`+strings.Repeat("x", 300_000)+`"}`) != ""
		},
	},
}

const timedOut = "TaskTimedOut"

// parked starts an execution that waits for its token.
func (w *world) parked(t *testing.T, rest string) (execution, token string) {
	t.Helper()
	word := rand.Text()
	execution = w.start(t, w.machine(t, waits(word, rest)), "{}")
	return execution, w.hears(t, word)
}

// complete gives a token back, and says what AWS calls the error, if it is one.
func (w *world) complete(t *testing.T, token, output string) string {
	t.Helper()
	_, err := w.sfn.SendTaskSuccess(t.Context(), &sfn.SendTaskSuccessInput{TaskToken: &token, Output: &output})
	return code(err)
}

// fail is complete for a task that has failed.
func (w *world) fail(t *testing.T, token, name string) string {
	t.Helper()
	_, err := w.sfn.SendTaskFailure(t.Context(), &sfn.SendTaskFailureInput{TaskToken: &token, Error: &name})
	return code(err)
}

func startAgain(t *testing.T, w *world) bool {
	machine, name := w.machine(t, waits(rand.Text(), `"TimeoutSeconds":60,`)), rand.Text()
	var arns [2]string
	for i := range arns {
		made, err := w.sfn.StartExecution(t.Context(), &sfn.StartExecutionInput{StateMachineArn: &machine, Name: &name, Input: aws.String(`{"k":1}`)})
		if code(err) == exists {
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
