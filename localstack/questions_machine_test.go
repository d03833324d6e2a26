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
	stepFunctions    = "https://docs.aws.amazon.com/step-functions/latest/dg/"
	stepFunctionsAPI = "https://docs.aws.amazon.com/step-functions/latest/apireference/"
	errorNames       = stepFunctions + "concepts-error-handling.html#error-handling-error-representation"
	retries          = stepFunctions + "concepts-error-handling.html#error-handling-retrying-after-an-error"
	dataLimit        = "States.DataLimitExceeded"
)

// machineQuestions are about what a machine does with its states.
var machineQuestions = []question{
	{
		name: "state-sizes", gap: "state-sizes", source: errorNames,
		aws: "What a state or a task returns has at most 256 KiB, else it fails with States.DataLimitExceeded.",
		ask: func(t *testing.T, w *world) bool {
			twice := w.machine(t, `{"A":{"Type":"Pass","Parameters":{"a.$":"$.a","b.$":"$.a"},"End":true}}`)
			_, first := w.end(t, w.start(t, twice, `{"a":"`+strings.Repeat("x", 200_000)+`"}`))
			_, second := w.end(t, w.start(t, w.machine(t, call("invoke", "Does", `{"n":300000}`, "")), "{}"))
			return first == dataLimit && second == dataLimit
		},
	},
	{
		name: "size-caught", gap: "state-sizes", source: errorNames,
		aws:     "States.ALL does not catch States.DataLimitExceeded.",
		differs: map[string]string{target.NameLocalStack: "States.ALL catches it"},
		ask: func(t *testing.T, w *world) bool {
			machine := w.machine(t, then(call("invoke", "Does", `{"n":300000}`, `"Catch":[{"ErrorEquals":["States.ALL"],"ResultPath":null,"Next":"B"}],`), `{"Type":"Succeed"}`))
			_, failure := w.end(t, w.start(t, machine, "{}"))
			return failure == dataLimit
		},
	},
	{
		name: "attempts-have-tokens", gap: "task-attempts", source: stepFunctions + "connect-to-resource.html#connect-wait-token",
		aws:     "Each attempt of a task has a token of its own.",
		differs: map[string]string{target.NameLocalStack: "a retry has the token of the attempt before it, and fails as that one did"},
		ask: func(t *testing.T, w *world) bool {
			first, second, _ := w.twice(t, `{"ErrorEquals":["Again"],"IntervalSeconds":1,"MaxAttempts":1}`)
			return first != second && w.complete(t, second, "{}") == ""
		},
	},
	{
		name: "retry-delay", gap: "task-attempts", source: retries,
		aws: "A retry waits for at most MaxDelaySeconds.",
		ask: func(t *testing.T, w *world) bool {
			_, _, soon := w.twice(t, `{"ErrorEquals":["Again"],"IntervalSeconds":40,"MaxDelaySeconds":1,"MaxAttempts":1}`)
			return soon
		},
	},
	{
		name: "task-retry", ask: taskRetry, source: retries,
		aws: "A task that fails is tried again up to MaxAttempts times; then it fails with its own error.",
	},
	{
		name: "aborted-for-good", gap: "aborted-for-good", ask: abortedForGood,
		aws:     "A stopped execution is ABORTED, whatever becomes of the task that it was in.",
		differs: map[string]string{target.NameLocalStack: "it is FAILED if that task fails afterwards, or its time passes"},
		source:  stepFunctionsAPI + "API_StopExecution.html",
	},
	{
		name: "aborted-at-once", source: stepFunctionsAPI + "API_StopExecution.html",
		aws:     "A stopped execution is ABORTED, though its task waits for a token.",
		differs: map[string]string{target.NameLocalStack: "it runs until the token comes back or its time has passed"},
		ask: func(t *testing.T, w *world) bool {
			execution, _ := w.parked(t, "")
			w.stop(t.Context(), execution)
			clock, _ := w.parked(t, `"TimeoutSeconds":5,`)
			w.end(t, clock)
			status, _ := w.status(t, execution)
			return status == sfntypes.ExecutionStatusAborted
		},
	},
	{
		name: "machine-timeout", ask: machineTimeout, source: stepFunctions + "statemachine-structure.html",
		aws:     "An execution that runs longer than its machine's TimeoutSeconds is TIMED_OUT, and an event says so.",
		differs: map[string]string{target.NameEmulator: "a machine's TimeoutSeconds is ignored"},
	},
	{
		name: "time-limits-by-reference", gap: "time-limits-by-reference", ask: timeLimits,
		aws:    "TimeoutSecondsPath, and TimeoutSeconds as JSONata, are read from the state's input.",
		source: stepFunctions + "state-task.html#task-state-fields",
	},
	{
		name: "function-timeout", source: errorNames,
		aws: "A task with a function that runs longer than TimeoutSeconds fails with States.Timeout.",
		ask: func(t *testing.T, w *world) bool {
			_, failure := w.end(t, w.start(t, w.machine(t, call("invoke", "Does", `{"seconds":10}`, `"TimeoutSeconds":1,`)), "{}"))
			return failure == "States.Timeout"
		},
	},
	{
		name: "timeout-is-no-failure", source: errorNames,
		aws: "States.TaskFailed catches every error of a task but States.Timeout.",
		ask: func(t *testing.T, w *world) bool {
			machine := w.machine(t, then(waits(rand.Text(), `"TimeoutSeconds":1,"Catch":[{"ErrorEquals":["States.TaskFailed"],"Next":"B"}],`), `{"Type":"Succeed"}`))
			_, failure := w.end(t, w.start(t, machine, "{}"))
			return failure == "States.Timeout"
		},
	},
	{
		name: "choice-unmatched", source: errorNames,
		aws:     "A Choice without a default whose input matches no rule fails the execution with States.NoChoiceMatched.",
		differs: map[string]string{target.NameLocalStack: "it fails with States.Runtime"},
		ask: func(t *testing.T, w *world) bool {
			machine := w.machine(t, `{"A":{"Type":"Choice","Choices":[{"Variable":"$.next","StringEquals":"done","Next":"B"}]},"B":{"Type":"Succeed"}}`)
			known, _ := w.end(t, w.start(t, machine, `{"next":"done"}`))
			_, failure := w.end(t, w.start(t, machine, `{"next":"newer"}`))
			return known == sfntypes.ExecutionStatusSucceeded && failure == "States.NoChoiceMatched"
		},
	},
	{
		name: "jsonata-functions", ask: jsonataFunctions,
		aws:    "JSONata has $hash and $uuid, which Step Functions adds.",
		source: stepFunctions + "transforming-data.html#jsonata-functions-provided-by-sfn",
	},
	{
		name: "status-events", ask: statusEvents,
		aws:    "An execution that ends as FAILED or ABORTED is an event that a rule brings to a function.",
		source: stepFunctions + "eventbridge-integration.html",
	},
	{
		name: "definition-refused", ask: definitionRefused,
		aws: "A definition whose StartAt names no state is refused with InvalidDefinition.",
		differs: map[string]string{
			target.NameEmulator:   "it accepts any definition",
			target.NameLocalStack: "it accepts it, and executions fail with States.Runtime",
		},
		source: stepFunctionsAPI + "API_CreateStateMachine.html#API_CreateStateMachine_Errors",
	},
	{
		name: "definition-checked", source: stepFunctionsAPI + "API_ValidateStateMachineDefinition.html",
		aws:     "ValidateStateMachineDefinition answers FAIL to a task without a resource.",
		differs: map[string]string{target.NameEmulator: "it answers OK to any definition"},
		ask: func(t *testing.T, w *world) bool {
			return w.checked(t, `{"StartAt":"A","States":{"A":{"Type":"Task","End":true}}}`) == sfntypes.ValidateStateMachineDefinitionResultCodeFail
		},
	},
	{
		name: "transitions-checked", source: stepFunctionsAPI + "API_ValidateStateMachineDefinition.html",
		aws: "ValidateStateMachineDefinition answers FAIL to a transition to a state that is not there.",
		differs: map[string]string{
			target.NameEmulator:   "it answers OK to any definition",
			target.NameLocalStack: "it looks at each state alone, and answers OK",
		},
		ask: func(t *testing.T, w *world) bool {
			return w.checked(t, `{"StartAt":"A","States":{"A":{"Type":"Pass","Next":"Nowhere"}}}`) == sfntypes.ValidateStateMachineDefinitionResultCodeFail
		},
	},
}

// mapQuestions are about the iterations of a Map.
var mapQuestions = []question{
	{
		name: "map-concurrency", ask: mapConcurrency, source: stepFunctions + "state-map-inline.html",
		aws: "As many iterations run at once as MaxConcurrency says, and no more.",
	},
	{
		name: "map-catch", source: stepFunctions + "state-map-inline.html",
		aws: "A Catch within an iteration ends that one alone: the Map succeeds.",
		ask: func(t *testing.T, w *world) bool {
			machine := w.machine(t, failingMap(`"Catch":[{"ErrorEquals":["States.ALL"],"ResultPath":null,"Next":"L"}],`, `"End":true`))
			status, _ := w.end(t, w.start(t, machine, `{"items":[1,2,3]}`))
			return status == sfntypes.ExecutionStatusSucceeded
		},
	},
	{
		name: "map-fails", source: stepFunctions + "concepts-error-handling.html#error-handling-fallback-states",
		aws: "An iteration that fails fails the Map with its error, which the Map's own Catch gets.",
		ask: func(t *testing.T, w *world) bool {
			machine := w.machine(t, then(failingMap("", `"Catch":[{"ErrorEquals":["Stranger"],"Next":"B"}],"End":true`), `{"Type":"Succeed"}`))
			status, _ := w.end(t, w.start(t, machine, `{"items":[1]}`))
			return status == sfntypes.ExecutionStatusSucceeded
		},
	},
	{
		name: "map-history", source: stepFunctionsAPI + "API_HistoryEvent.html",
		aws:     "The history has MapIterationStarted and MapIterationSucceeded of each iteration.",
		differs: map[string]string{target.NameEmulator: "the history has the Map alone"},
		ask: func(t *testing.T, w *world) bool {
			execution := w.start(t, w.machine(t, `{"A":{"Type":"Map","ItemProcessor":{"StartAt":"I","States":{"I":{"Type":"Pass","End":true}}},"End":true}}`), `[1,2]`)
			w.end(t, execution)
			return w.happened(t, execution, sfntypes.HistoryEventTypeMapIterationStarted) == 2 && w.happened(t, execution, sfntypes.HistoryEventTypeMapIterationSucceeded) == 2
		},
	},
}

// waits is a task that sends its token to the verdicts, with a word in front. The
// rest of the state is the caller's.
func waits(word, rest string) string {
	return `{"A":` + waiting(tokenAfter(word), rest) + `}`
}

// tokenAfter is a message with a word and the task's token.
func tokenAfter(word string) string { return `States.Format('` + word + ` {}', $$.Task.Token)` }

func waiting(message, rest string) string {
	return `{"Type":"Task","Resource":"arn:aws:states:::sqs:sendMessage.waitForTaskToken","Parameters":{"QueueUrl":"<Verdicts>","MessageBody.$":"` + message + `"},` + rest + `"End":true}`
}

func call(resource, function, payload, rest string) string {
	return `{"A":{"Type":"Task","Resource":"arn:aws:states:::lambda:` + resource + `","Parameters":{"FunctionName":"<` + function + `>","Payload":` + payload + `},` + rest + `"End":true}}`
}

// then adds state "B" to states.
func then(states, state string) string {
	return strings.TrimSuffix(states, "}") + `,"B":` + state + `}`
}

// failingMap calls a function that fails for each item.
func failingMap(iteration, rest string) string {
	return `{"A":{"Type":"Map","ItemsPath":"$.items","MaxConcurrency":2,"ItemSelector":{"fail":"Stranger","n.$":"$$.Map.Item.Value"},
		"ItemProcessor":{"StartAt":"I","States":{"I":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke",
		"Parameters":{"FunctionName":"<Does>","Payload.$":"$"},` + iteration + `"End":true},"L":{"Type":"Pass","Result":{},"End":true}}},"ResultPath":null,` + rest + `}}`
}

// happened counts events of a kind in a history.
func (w *world) happened(t *testing.T, execution string, kind sfntypes.HistoryEventType) (n int) {
	t.Helper()
	history, err := w.sfn.GetExecutionHistory(t.Context(), &sfn.GetExecutionHistoryInput{ExecutionArn: &execution})
	require.NoError(t, err)
	for _, e := range history.Events {
		if e.Type == kind {
			n++
		}
	}
	return n
}

// twice fails the first attempt of a task: what are the tokens of that and of the
// second, and did the second come before a task ended that had half a minute?
func (w *world) twice(t *testing.T, retry string) (first, second string, soon bool) {
	t.Helper()
	word := rand.Text()
	w.start(t, w.machine(t, waits(word, `"TimeoutSeconds":300,"Retry":[`+retry+`],`)), "{}")
	first = w.hears(t, word)
	clock, _ := w.parked(t, `"TimeoutSeconds":30,`)
	require.Empty(t, w.fail(t, first, "Again"))
	second = w.hears(t, word)
	status, _ := w.status(t, clock)
	return first, second, status == sfntypes.ExecutionStatusRunning
}

func (w *world) checked(t *testing.T, definition string) sfntypes.ValidateStateMachineDefinitionResultCode {
	t.Helper()
	got, err := w.sfn.ValidateStateMachineDefinition(t.Context(), &sfn.ValidateStateMachineDefinitionInput{Definition: &definition})
	require.NoError(t, err)
	return got.Result
}

// taskRetry has functions that fail until they have been tried twice.
func taskRetry(t *testing.T, w *world) bool {
	try := func(attempts string) string {
		return w.machine(t, call("invoke", "Does", `{"fail":"Again","retries.$":"$$.State.RetryCount","enough":2}`,
			`"Retry":[{"ErrorEquals":["Again"],"IntervalSeconds":1,"BackoffRate":1,"MaxAttempts":`+attempts+`}],`))
	}
	enough, few := w.start(t, try("2"), "{}"), w.start(t, try("1"), "{}")
	status, _ := w.end(t, enough)
	_, failure := w.end(t, few)
	return status == sfntypes.ExecutionStatusSucceeded && failure == "Again"
}

// abortedForGood stops an execution whose function fails afterwards.
func abortedForGood(t *testing.T, w *world) bool {
	word, queue := rand.Text(), w.queue(t, "")
	machine := w.machine(t, call("invoke", "Does", `{"say":"`+word+`","wait":"`+queue+`","fail":"Stranger"}`, ""))
	execution := w.start(t, machine, "{}")
	w.hears(t, word)
	w.stop(t.Context(), execution)
	require.NoError(t, w.put(t, queue, "go", "", ""))
	// It is about to fail. Another one that does so afterwards gives it time.
	w.end(t, w.start(t, w.machine(t, call("invoke", "Does", `{"fail":"Stranger"}`, "")), "{}"))
	status, _ := w.end(t, execution)
	return status == sfntypes.ExecutionStatusAborted
}

// timeLimits has tasks of which some have their limit from the input, and one,
// a longer one, from the definition: the former end before the latter.
func timeLimits(t *testing.T, w *world) bool {
	seconds := w.machine(t, waits(rand.Text(), `"TimeoutSecondsPath":"$.seconds",`))
	jsonata := w.machine(t, `{"A":{"Type":"Task","QueryLanguage":"JSONata","Resource":"arn:aws:states:::sqs:sendMessage.waitForTaskToken",
		"Arguments":{"QueueUrl":"<Verdicts>","MessageBody":"{% $states.context.Task.Token %}"},"TimeoutSeconds":"{% $states.input.seconds %}","End":true}}`)
	defined := w.machine(t, waits(rand.Text(), `"TimeoutSeconds":20,`))
	first, second := w.start(t, seconds, `{"seconds":1}`), w.start(t, jsonata, `{"seconds":1}`)
	w.end(t, w.start(t, defined, "{}"))
	_, one := w.status(t, first)
	_, two := w.status(t, second)
	return one == "States.Timeout" && two == "States.Timeout"
}

func jsonataFunctions(t *testing.T, w *world) bool {
	for _, expression := range []string{"$hash('a', 'SHA-256')", "$uuid()"} {
		machine := w.machine(t, `{"A":{"Type":"Pass","QueryLanguage":"JSONata","Output":"{% `+expression+` %}","End":true}}`)
		if status, _ := w.end(t, w.start(t, machine, "{}")); status != sfntypes.ExecutionStatusSucceeded {
			return false
		}
	}
	return true
}

func statusEvents(t *testing.T, w *world) bool {
	failed := w.start(t, w.machine(t, `{"A":{"Type":"Fail","Error":"E"}}`), "{}")
	stopped := w.start(t, w.machine(t, `{"A":{"Type":"Wait","Seconds":600,"End":true}}`), "{}")
	w.stop(t.Context(), stopped)
	return w.hears(t, failed) == "FAILED" && w.hears(t, stopped) == "ABORTED"
}

// machineTimeout has an execution that may run a second and a task with more.
func machineTimeout(t *testing.T, w *world) bool {
	late := w.start(t, w.define(t, `{"TimeoutSeconds":1,"StartAt":"A","States":`+waits(rand.Text(), "")+`}`), "{}")
	clock, _ := w.parked(t, `"TimeoutSeconds":15,`)
	w.end(t, clock)
	status, _ := w.status(t, late)
	return status == sfntypes.ExecutionStatusTimedOut && w.hears(t, late) == "TIMED_OUT"
}

func definitionRefused(t *testing.T, w *world) bool {
	made, err := w.sfn.CreateStateMachine(t.Context(), &sfn.CreateStateMachineInput{
		Name: aws.String(w.name + "-" + rand.Text()), RoleArn: aws.String(w.out["Role"]),
		Definition: aws.String(`{"StartAt":"Nowhere","States":{"A":{"Type":"Succeed"}}}`),
	})
	if err == nil {
		_, err = w.sfn.DeleteStateMachine(t.Context(), &sfn.DeleteStateMachineInput{StateMachineArn: made.StateMachineArn})
		require.NoError(t, err)
		return false
	}
	return code(err) == "InvalidDefinition"
}

// mapConcurrency has three iterations, of which two may wait at once.
func mapConcurrency(t *testing.T, w *world) bool {
	word := rand.Text()
	execution := w.start(t, w.machine(t, `{"A":{"Type":"Map","ItemsPath":"$.items","MaxConcurrency":2,"ItemSelector":{"n.$":"$$.Map.Item.Value"},
		"ItemProcessor":{"StartAt":"I","States":{"I":`+waiting(tokenAfter(word), "")+`}},"End":true}}`), `{"items":[1,2,3]}`)
	first, second := w.hears(t, word), w.hears(t, word)
	// A third one would have been started with them. Another execution that comes and
	// goes afterwards gives it time.
	other := rand.Text()
	clock := w.start(t, w.machine(t, waits(other, "")), "{}")
	require.Empty(t, w.complete(t, w.hears(t, other), "{}"))
	w.end(t, clock)
	if w.heard(word) {
		return false
	}
	require.Empty(t, w.complete(t, first, "{}"))
	third := w.hears(t, word)
	for _, token := range []string{second, third} {
		require.Empty(t, w.complete(t, token, "{}"))
	}
	status, _ := w.end(t, execution)
	return status == sfntypes.ExecutionStatusSucceeded
}
