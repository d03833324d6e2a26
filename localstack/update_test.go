package localstack_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/stretchr/testify/require"
)

// old is a function that says that it began, and takes its time.
const old = `
import os, time
import botocore.session
def handler(event, context):
    botocore.session.get_session().create_client("sqs").send_message(QueueUrl=os.environ["VERDICTS"], MessageBody=event["say"])
    time.sleep(3)
    return "old"
`

// updateInFlight replaces a function's code while the function runs: the
// invocation ends as it began, and the next one is the new code's.
func updateInFlight(t *testing.T, w *world) bool {
	name, word := aws.String("perdure-probe-"+rand.Text()), rand.Text()
	_, err := w.lambda.CreateFunction(t.Context(), &lambda.CreateFunctionInput{
		FunctionName: name, Runtime: types.RuntimePython312, Handler: aws.String("index.handler"), Role: aws.String(w.out["Role"]), Timeout: aws.Int32(30),
		Environment: &types.Environment{Variables: map[string]string{"VERDICTS": w.out["Verdicts"]}}, Code: &types.FunctionCode{ZipFile: zipped(t, "index.py", []byte(old))},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := w.lambda.DeleteFunction(context.WithoutCancel(t.Context()), &lambda.DeleteFunctionInput{FunctionName: name})
		require.NoError(t, err)
	})
	ready := lambda.NewFunctionActiveV2Waiter(w.lambda, func(o *lambda.FunctionActiveV2WaiterOptions) { o.MinDelay = 100 * time.Millisecond })
	require.NoError(t, ready.Wait(t.Context(), &lambda.GetFunctionInput{FunctionName: name}, ceiling))

	call := func() string {
		got, err := w.lambda.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: name, Payload: []byte(`{"say":"` + word + `"}`)})
		if err != nil {
			return err.Error()
		}
		return string(got.Payload)
	}
	first := make(chan string, 1)
	go func() { first <- call() }()
	w.hears(t, word)
	_, err = w.lambda.UpdateFunctionCode(t.Context(), &lambda.UpdateFunctionCodeInput{
		FunctionName: name, ZipFile: zipped(t, "index.py", []byte("def handler(event, context):\n    return 'new'\n")),
	})
	require.NoError(t, err)
	require.True(t, eventually(t, func() bool { return call() == `"new"` }))
	return <-first == `"old"`
}
