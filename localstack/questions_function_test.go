package localstack_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/localstack/target"
)

const (
	lambdaGuide = "https://docs.aws.amazon.com/lambda/latest/dg/"
	lambdaAPI   = "https://docs.aws.amazon.com/lambda/latest/api/"
)

// functionQuestions are about functions and what calls them.
var functionQuestions = []question{
	{
		name: "answer-size", gap: "answer-size",
		aws:    "A buffered answer over 6 MB is a function error, Function.ResponseSizeTooLarge.",
		source: lambdaGuide + "gettingstarted-limits.html#function-configuration-deployment-and-execution",
		ask: func(t *testing.T, w *world) bool {
			return w.invoke(t, "Does", map[string]int{"n": 5_000_000}) == "" &&
				w.invoke(t, "Does", map[string]int{"n": 7_000_000}) == "Function.ResponseSizeTooLarge"
		},
	},
	{
		name: "event-size", gap: "event-size", source: lambdaAPI + "API_Invoke.html#API_Invoke_Errors",
		aws: "An event over 6 MB is refused with RequestTooLargeException.",
		ask: func(t *testing.T, w *world) bool {
			event := []byte(`{"x":"` + strings.Repeat("x", 7_000_000) + `"}`)
			_, err := w.lambda.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: aws.String(w.out["Does"]), Payload: event})
			return code(err) == "RequestTooLargeException"
		},
	},
	{
		name: "function-exits", source: lambdaGuide + "telemetry-schema-reference.html",
		aws: "A process that ends in the midst of an invocation is a function error, Runtime.ExitError; the next invocation has a new one.",
		ask: func(t *testing.T, w *world) bool {
			failure := w.invoke(t, "Does", map[string]bool{"exit": true})
			return failure == "Runtime.ExitError" && w.invoke(t, "Does", map[string]int{"n": 1}) == ""
		},
	},
	{
		name: "function-takes-too-long", source: stepFunctions + "concepts-error-handling.html#error-handling-error-representation",
		aws: "A function that runs longer than its own limit fails the task with Sandbox.Timedout.",
		ask: func(t *testing.T, w *world) bool {
			_, failure := w.end(t, w.start(t, w.machine(t, call("invoke", "Brief", `{"seconds":20}`, "")), "{}"))
			return failure == "Sandbox.Timedout"
		},
	},
	{
		name: "reserved-by-template", gap: "reserved-by-template",
		aws:     "ReservedConcurrentExecutions of a template is the function's limit.",
		source:  "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-lambda-function.html",
		differs: map[string]string{target.NameLocalStack: "its CloudFormation drops the property"},
		ask: func(t *testing.T, w *world) bool {
			got, err := w.lambda.GetFunctionConcurrency(t.Context(), &lambda.GetFunctionConcurrencyInput{FunctionName: aws.String(w.out["Never"])})
			require.NoError(t, err)
			return got.ReservedConcurrentExecutions != nil && *got.ReservedConcurrentExecutions == 0
		},
	},
	{
		name: "reserved-concurrency", ask: reservedConcurrency, source: lambdaGuide + "configuration-concurrency.html",
		aws: "A function at its reserved concurrency is not called: TooManyRequestsException.",
	},
	{
		name: "throttled-function", gap: "throttled-function", source: stepFunctions + "connect-lambda.html",
		aws: "A function at its limit of concurrency fails the task with Lambda.TooManyRequestsException.",
		ask: func(t *testing.T, w *world) bool {
			w.limit(t, "Limited", 0)
			_, failure := w.end(t, w.start(t, w.machine(t, call("invoke", "Limited", "{}", "")), "{}"))
			return failure == "Lambda.TooManyRequestsException"
		},
	},
	{
		name: "update-in-flight", gap: "update-in-flight", ask: updateInFlight, source: lambdaGuide + "lambda-runtime-environment.html",
		aws: "An update of a function leaves invocations in flight to end by themselves.",
	},
}

// reservedConcurrency calls a function that may run once while it runs.
func reservedConcurrency(t *testing.T, w *world) bool {
	w.limit(t, "One", 1)
	word, queue := rand.Text(), w.queue(t, "")
	first := make(chan error, 1)
	go func() {
		_, err := w.lambda.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: aws.String(w.out["One"]), Payload: []byte(`{"say":"` + word + `","wait":"` + queue + `"}`)})
		first <- err
	}()
	w.hears(t, word)
	_, err := w.lambda.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: aws.String(w.out["One"]), Payload: []byte(`{}`)}, func(o *lambda.Options) { o.Retryer = aws.NopRetryer{} })
	require.NoError(t, w.put(t, queue, "go", "", ""))
	require.NoError(t, <-first)
	return code(err) == "TooManyRequestsException"
}

// function makes one of testdata/probe for a question alone.
func (w *world) function(t *testing.T, environment map[string]string) *string {
	t.Helper()
	name := aws.String(w.name + "-" + rand.Text())
	environment["VERDICTS"] = w.out["Verdicts"]
	_, err := w.lambda.CreateFunction(t.Context(), &lambda.CreateFunctionInput{
		FunctionName: name, Runtime: types.RuntimeProvidedal2023, Handler: aws.String("bootstrap"), Role: aws.String(w.out["Role"]), Timeout: aws.Int32(60),
		Architectures: []types.Architecture{w.architecture()}, Environment: &types.Environment{Variables: environment},
		Code: &types.FunctionCode{S3Bucket: &w.code, S3Key: aws.String(codeKey)},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := w.lambda.DeleteFunction(context.WithoutCancel(t.Context()), &lambda.DeleteFunctionInput{FunctionName: name})
		require.NoError(t, err)
	})
	ready := lambda.NewFunctionActiveV2Waiter(w.lambda, func(o *lambda.FunctionActiveV2WaiterOptions) { o.MinDelay = 100 * time.Millisecond })
	require.NoError(t, ready.Wait(t.Context(), &lambda.GetFunctionInput{FunctionName: name}, ceiling))
	return name
}

// updateInFlight replaces a function's code while the function runs: the
// invocation ends as it began, and the next one is the new code's.
func updateInFlight(t *testing.T, w *world) bool {
	name, word, queue := w.function(t, map[string]string{}), rand.Text(), w.queue(t, "")
	call := func(event string) string {
		got, err := w.lambda.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: name, Payload: []byte(event)})
		if err != nil {
			return err.Error()
		}
		return string(got.Payload)
	}
	first := make(chan string, 1)
	go func() { first <- call(`{"say":"` + word + `","wait":"` + queue + `","file":true}`) }()
	w.hears(t, word)
	_, err := w.lambda.UpdateFunctionCode(t.Context(), &lambda.UpdateFunctionCodeInput{FunctionName: name, ZipFile: w.archive(t, "new")})
	require.NoError(t, err)
	require.True(t, eventually(t, func() bool { return call(`{"file":true}`) == `"new"` }))
	require.NoError(t, w.put(t, queue, "go", "", ""))
	return <-first == `"old"`
}
