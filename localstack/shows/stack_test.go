package shows

import (
	"flag"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/localstack/target"
)

func TestMain(m *testing.M) {
	// Most of a test's time is waiting for the machine and its functions.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err) // it is there
	}
	os.Exit(m.Run())
}

// What the stack of these tests has of its own: an execution gives its work to
// the next one after this many steps, and a deleted session's content is looked
// for again after this many seconds.
const (
	rolloverSteps = "3"
	purgeAgain    = "1"
)

func deployment() target.Deployment {
	return target.Deployment{Context: map[string]string{"stack": "perdure-shows", "rolloverSteps": rolloverSteps, "purgeAgainSeconds": purgeAgain}}
}

// shared is the stack of this test binary. It is kept here because a deployment
// takes longer than all tests on it.
var shared struct {
	sync.Mutex

	asked bool
	stack *target.Stack
}

// deployed returns that stack; the first test to come deploys it. If
// PERDURE_STACK_OUTPUTS names a stack, it is that one.
func deployed(t *testing.T) *target.Stack {
	t.Helper()
	at := target.Get(t)
	at.Need(t, target.Reach)
	shared.Lock()
	defer shared.Unlock()
	if shared.stack != nil {
		return shared.stack
	}
	require.False(t, shared.asked, "there is no stack; the first test that wanted one says why")
	if given() {
		shared.stack = target.Deployed(t)
		return shared.stack
	}
	shared.asked = true
	defer func() {
		// A machine that lacks something skips this test, and so the others.
		shared.asked = !t.Skipped()
	}()
	shared.stack = target.Deploy(t, at, deployment())
	return shared.stack
}

// given says that the stack is somebody's, and not ours to deploy again.
func given() bool { return os.Getenv(env.StackOutputs) != "" }

// function is the whole name of one of the stack's functions.
func (w *world) function(role string) string {
	machine := w.Outputs["Machine"]
	return strings.TrimSuffix(machine[strings.LastIndexByte(machine, ':')+1:], "session") + role
}

// set skips the test if the stack was not deployed with a setting.
func (w *world) set(variable, value string) {
	w.Helper()
	name := w.function(env.FunctionDrive)
	out, err := w.lambda.GetFunctionConfiguration(w.Context(), &lambda.GetFunctionConfigurationInput{FunctionName: &name})
	require.NoError(w, err)
	if out.Environment.Variables[variable] != value {
		w.Skipf("the stack that was given does not have %s=%s", variable, value)
	}
}
