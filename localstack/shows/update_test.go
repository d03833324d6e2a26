package shows

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/localstack/target"
)

// build tells the code of one of the stack's functions from that of another
// build.
func (w *world) build(role string) string {
	w.Helper()
	name := w.function(role)
	out, err := w.lambda.GetFunction(w.Context(), &lambda.GetFunctionInput{FunctionName: &name})
	require.NoError(w, err)
	return *out.Configuration.CodeSha256
}

// T30: the stack is deployed again with another build while one session is
// parked and another in a model call. What the first build began the second one
// finishes, or the first one does: nobody is started anew. This test is alone on
// the stack while it is replaced, and the other tests run on what it leaves.
//
//nolint:paralleltest // see above
func TestT30AnUpdateInMidRun(t *testing.T) {
	parked := setup(t)
	if given() {
		t.Skip("the stack that was given is not ours to deploy again")
	}
	calling := parked.another()
	before := map[string]string{}
	for _, role := range env.FunctionNames() {
		before[role] = parked.build(role)
	}
	parked.asking()
	waiting := parked.run("Write.")
	on := parked.waits(waiting.ID, "approval")
	parked.rests()
	calling.open(nil)
	slow, release := gated(openaitest.Text("It took a while.", 1))
	calling.model.Enqueue(slow, openaitest.Text("At once.", 1))
	running := calling.run("Take your time.")
	soon(t, calling.model.Seen(1))

	again := deployment()
	again.LDFlags = "-X main.build=another"
	require.Equal(t, parked.Outputs, target.Deploy(t, parked.Target, again).Outputs, "an update keeps what there is")
	for _, role := range env.FunctionNames() {
		require.NotEqual(t, before[role], parked.build(role), "%s is the same build", role)
	}

	release()
	require.Equal(t, "It took a while.", calling.ends(running.ID))
	require.Len(t, calling.model.Requests(), 1, "the call was made once")
	require.Equal(t, "At once.", calling.ends(calling.run("And now?").ID))

	parked.approve(on.ID)
	require.Equal(t, "Written.", parked.ends(waiting.ID))
	require.Equal(t, 1, parked.count("tool.started"))
	require.EqualValues(t, 1, parked.driven(host.DriveIdle).Drive.Epoch, "the execution that waited goes on")
	parked.succeeds(parked.execution(1))
}
