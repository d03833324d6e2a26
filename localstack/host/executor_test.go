package host_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/localstack/target"
)

var ofInvocations = map[string]func(*testing.T, *aWorld){
	"one process serves one invocation after the other":      warm,
	"as many processes as invocations at once":               parallel,
	"an exit fails its invocation and the next starts anew":  exits,
	"a panic is the function's own answer":                   panics,
	"a start that fails is tried again":                      startFails,
	"a start that hangs times out":                           startHangs,
	"a timeout ends the process and what it has started":     timesOut,
	"an answer has six megabytes and a little":               answerSize,
	"a request has six megabytes":                            requestSize,
	"the log has what was printed":                           logs,
	"each environment has a log stream":                      logStreams,
	"a log may be JSON and elsewhere":                        jsonLogs,
	"a function sees what is on AWS and nothing of this one": environment,
	"the runtime interface refuses what it must":             statuses,
	"an update lets what runs finish":                        update,
	"a version keeps its code":                               versions,
	"reserved concurrency throttles":                         reserved,
	"provisioned concurrency starts before it is asked":      provisioned,
	"invocations and errors are counted":                     counts,
	"an event is invoked":                                    asynchronous,
}

// What AWS does with a function's process is done here: the words are AWS's.
func TestFunctionsRunAsOnAWS(t *testing.T) {
	t.Parallel()
	w := world(t, target.LocalStack(t))
	for _, tests := range []map[string]func(*testing.T, *aWorld){ofInvocations, ofURLs} {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, w)
			})
		}
	}
}

func warm(t *testing.T, w *aWorld) {
	f := w.function(t, settings{})
	first := f.answer(t, event{})
	for i := range 200 {
		next := f.answer(t, event{})
		require.Equal(t, first.PID, next.PID)
		require.Equal(t, i+2, next.Count)
	}
}

func parallel(t *testing.T, w *aWorld) {
	const many = 30
	f, g := w.function(t, settings{timeout: 120}), newGate(t)
	different := map[int]bool{}
	for _, one := range f.together(t, g, many) {
		different[one.parsed(t).PID] = true
	}
	require.Len(t, different, many)
}

// together has some invocations wait for each other.
func (f *function) together(t *testing.T, g *gate, many int) []outcome {
	t.Helper()
	var all []*running
	for range many {
		all = append(all, f.begin(t, event{"get": g.url}))
	}
	for range many {
		g.arrived(t)
	}
	g.open()
	var outcomes []outcome
	for _, one := range all {
		outcomes = append(outcomes, one.end(t))
	}
	return outcomes
}

func exits(t *testing.T, w *aWorld) {
	f := w.function(t, settings{})
	for _, one := range []struct {
		event event
		words string
	}{
		{event{"exit": 3}, "Error: Runtime exited with error: exit status 3"},
		{event{"exit": 0}, "Error: Runtime exited without providing a reason"},
		{event{"signal": syscall.SIGKILL}, "Error: Runtime exited with error: signal: killed"},
	} {
		before := f.answer(t, event{})
		got := f.invoke(t, one.event)
		require.Equal(t, "Unhandled", got.failed)
		failure := got.failure(t)
		require.Equal(t, "Runtime.ExitError", failure.Type)
		require.Equal(t, "RequestId: "+got.id+" "+one.words, failure.Message)
		require.Contains(t, got.log, failure.Message+"\nRuntime.ExitError\nEND RequestId: "+got.id)
		require.Contains(t, got.log, "\tStatus: error\tError Type: Runtime.ExitError")
		after := f.answer(t, event{})
		require.NotEqual(t, before.PID, after.PID)
		require.Equal(t, 1, after.Count)
	}
}

func panics(t *testing.T, w *aWorld) {
	f := w.function(t, settings{})
	before := f.answer(t, event{})
	got := f.invoke(t, event{"panic": "oh no"})
	require.Equal(t, "Unhandled", got.failed)
	require.Equal(t, "oh no", got.failure(t).Message)
	require.NotEqual(t, before.PID, f.answer(t, event{}).PID, "aws-lambda-go exits after it has said so")
	got = f.invoke(t, event{"fail": "not today"})
	require.Equal(t, "Unhandled", got.failed)
	require.Equal(t, failure{Type: "errorString", Message: "not today"}, got.failure(t))
	require.Equal(t, 3, f.answer(t, event{}).Count, "an error does not end the process")
}

func startFails(t *testing.T, w *aWorld) {
	for start, status := range map[string]int{"exit": 7, "panic": 2} {
		f := w.function(t, settings{environ: map[string]string{"START": start}})
		got := f.invoke(t, event{})
		require.Equal(t, "Unhandled", got.failed)
		words := fmt.Sprintf("RequestId: %s Error: Runtime exited with error: exit status %d", got.id, status)
		require.Equal(t, failure{Type: "Runtime.ExitError", Message: words}, got.failure(t))
		require.Equal(t, 2, strings.Count(got.log, "starting\n"), "once before the invocation and once in it: %s", got.log)
		require.Contains(t, got.log, "\tPhase: init\tStatus: error\tError Type: Runtime.ExitError")
		w.logged(t, f.group(), "END RequestId: "+got.id)
	}
	f := w.function(t, settings{file: "elsewhere"})
	require.Equal(t, "Runtime.InvalidEntrypoint", f.invoke(t, event{}).failure(t).Type)
}

func startHangs(t *testing.T, w *aWorld) {
	f := w.function(t, settings{timeout: 1, environ: map[string]string{"START": "hang"}})
	got := f.invoke(t, event{})
	require.Equal(t, failure{Type: "Sandbox.Timedout", Message: "RequestId: " + got.id + " Error: Task timed out after 1.00 seconds"}, got.failure(t))
	require.Contains(t, got.log, "\tPhase: init\tStatus: timeout")
}

func timesOut(t *testing.T, w *aWorld) {
	f := w.function(t, settings{timeout: 3})
	before := f.answer(t, event{"fork": true})
	got := f.invoke(t, event{"lines": []string{"about to hang"}, "hang": true})
	require.Equal(t, "Unhandled", got.failed)
	require.Equal(t, failure{Type: "Sandbox.Timedout", Message: "RequestId: " + got.id + " Error: Task timed out after 3.00 seconds"}, got.failure(t))
	require.Contains(t, got.log, "about to hang\n")
	require.Contains(t, got.log, got.id+" Task timed out after 3.00 seconds\nEND RequestId: "+got.id)
	require.Contains(t, got.log, "\tStatus: timeout")
	ended(t, before.PID, before.Child)
	require.Equal(t, 1, f.answer(t, event{}).Count)
}

func answerSize(t *testing.T, w *aWorld) {
	const most = 6*1024*1024 + 100
	f := w.function(t, settings{timeout: 60})
	got := f.invoke(t, event{"size": most})
	require.Empty(t, got.failed)
	require.Len(t, got.payload, most)
	got = f.invoke(t, event{"size": most + 1})
	require.Equal(t, "Unhandled", got.failed)
	require.Equal(t, failure{Type: "Function.ResponseSizeTooLarge", Message: "Response payload size exceeded maximum allowed payload size (6291556 bytes)."}, got.failure(t))
	require.Positive(t, f.answer(t, event{}).Count)
}

func requestSize(t *testing.T, w *aWorld) {
	const most = 6 * 1024 * 1024
	f := w.function(t, settings{timeout: 60})
	send := func(size int, kind types.InvocationType) error {
		payload := []byte(`{"x":"` + strings.Repeat("y", size-len(`{"x":""}`)) + `"}`)
		_, err := w.lambda.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: &f.name, Payload: payload, InvocationType: kind})
		return err
	}
	require.NoError(t, send(most, types.InvocationTypeRequestResponse))
	var large *types.RequestTooLargeException
	require.ErrorAs(t, send(most+1, types.InvocationTypeRequestResponse), &large)
	require.ErrorAs(t, send(1024*1024+1, types.InvocationTypeEvent), &large)
}

func logs(t *testing.T, w *aWorld) {
	f := w.function(t, settings{memory: 512})
	for i := range 20 {
		lines := []string{"first " + strconv.Itoa(i), "second", "third\nof two"}
		got := f.invoke(t, event{"lines": lines})
		require.Empty(t, got.failed)
		start := "START RequestId: " + got.id + " Version: $LATEST\n"
		if i == 0 {
			start += "starting\n"
			require.Contains(t, got.log, "\tInit Duration: ")
		}
		require.Contains(t, got.log, start+strings.Join(lines, "\n")+"\nEND RequestId: "+got.id+"\nREPORT RequestId: "+got.id+"\tDuration: ")
		require.Contains(t, got.log, "\tMemory Size: 512 MB\tMax Memory Used: ")
	}
	w.logged(t, f.group(), "first 19\n")
	require.Len(t, w.find(t, f.group(), "START RequestId"), 20)
}

func jsonLogs(t *testing.T, w *aWorld) {
	f := w.function(t, settings{timeout: 3, logging: &types.LoggingConfig{LogFormat: types.LogFormatJson, LogGroup: aws.String("/own/" + rand.Text())}})
	group := *f.logging.LogGroup
	good := f.invoke(t, event{"lines": []string{"{\"own\":true}"}})
	require.Empty(t, good.failed)
	bad := f.invoke(t, event{"hang": true})
	w.logged(t, group, "platform.report\",\"record\":{\"requestId\":\""+bad.id)
	type entry struct {
		Own    bool
		Type   string
		Record struct{ RequestID, Version, Status string }
	}
	var got []entry
	for _, line := range w.find(t, group, "{") {
		var e entry
		require.NoError(t, json.Unmarshal([]byte(line), &e), line)
		got = append(got, e)
	}
	start := func(id string) entry {
		e := entry{Type: "platform.start"}
		e.Record.RequestID, e.Record.Version = id, "$LATEST"
		return e
	}
	end := func(id, status string) entry {
		e := entry{Type: "platform.report"}
		e.Record.RequestID, e.Record.Status = id, status
		return e
	}
	require.Equal(t, []entry{start(good.id), {Own: true}, end(good.id, "success"), start(bad.id), end(bad.id, "timeout")}, got)
	require.Empty(t, w.find(t, f.group(), ""))
}

func logStreams(t *testing.T, w *aWorld) {
	f, g := w.function(t, settings{timeout: 120}), newGate(t)
	for _, one := range f.together(t, g, 3) {
		require.Empty(t, one.failed)
	}
	require.Eventually(t, func() bool {
		var got struct {
			LogStreams []struct{ LogStreamName string }
		}
		return w.ask(t, "DescribeLogStreams", event{"logGroupName": f.group()}, &got) && len(got.LogStreams) == 3
	}, ceiling, pause)
}

func environment(t *testing.T, w *aWorld) {
	f := w.function(t, settings{memory: 192, timeout: 33, environ: map[string]string{"OWN": "value", "AWS_RETRY_MODE": "adaptive"}})
	got := f.answer(t, event{})
	has := map[string]string{}
	for _, entry := range got.Env {
		name, value, _ := strings.Cut(entry, "=")
		has[name] = value
	}
	for name, value := range map[string]string{
		"OWN": "value", "AWS_RETRY_MODE": "adaptive", "_HANDLER": "bootstrap", "TZ": ":UTC",
		"AWS_REGION": target.Region, "AWS_DEFAULT_REGION": target.Region, "AWS_ENDPOINT_URL": w.Endpoint,
		"AWS_LAMBDA_FUNCTION_NAME": f.name, "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "192",
		"AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand", "AWS_LAMBDA_LOG_GROUP_NAME": f.group(), "LAMBDA_TASK_ROOT": got.Dir,
	} {
		require.Equal(t, value, has[name], name)
	}
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_LAMBDA_LOG_STREAM_NAME", "AWS_LAMBDA_RUNTIME_API"} {
		require.NotEmpty(t, has[name], name)
	}
	require.Equal(t, "arn:aws:lambda:"+target.Region+":000000000000:function:"+f.name, got.ARN)
	require.InDelta(t, 33_000, got.Left, 33_000)
	require.NotEqual(t, os.Getenv("HOME"), has["HOME"])
	require.Contains(t, has["TMPDIR"], ".cache/localstack/data-")
	// The rest is nothing of this machine's.
	for name := range has {
		known := strings.HasPrefix(name, "AWS_") || strings.HasPrefix(name, "_AWS_") || strings.HasPrefix(name, "LAMBDA_")
		known = known || slices.Contains([]string{"PATH", "LANG", "HOME", "TMPDIR", "TZ", "OWN", "_HANDLER", "_X_AMZN_TRACE_ID"}, name)
		require.True(t, known, "a function sees %s", name)
	}
}

func statuses(t *testing.T, w *aWorld) {
	const base = "/2018-06-01/runtime/"
	f := w.function(t, settings{})
	got := f.answer(t, event{"ask": []map[string]string{
		{"method": "GET", "path": base + "invocation/next"},
		{"method": "POST", "path": base + "invocation/another/response"},
		{"method": "POST", "path": base + "invocation/another/error"},
		{"method": "POST", "path": base + "init/error"},
		{"method": "POST", "path": base + "nothing"},
	}})
	require.Equal(t, []int{403, 400, 400, 403, 404}, got.Statuses)
	second := f.invoke(t, event{"ask": []map[string]string{
		{"method": "POST", "path": base + "invocation/%s/response"},
		{"method": "POST", "path": base + "invocation/%s/error"},
		{"method": "GET", "path": "/2020-01-01/extension/event/next"},
	}})
	require.Empty(t, second.failed)
	require.Empty(t, second.payload, "the first answer counts")
	require.Positive(t, f.answer(t, event{}).Count)
}

func update(t *testing.T, w *aWorld) {
	f, g := w.function(t, settings{timeout: 120, environ: map[string]string{"OWN": "old"}}), newGate(t)
	running := f.begin(t, event{"lines": []string{"in flight"}, "get": g.url, "fork": true})
	g.arrived(t)
	_, err := w.lambda.UpdateFunctionConfiguration(t.Context(), &lambda.UpdateFunctionConfigurationInput{
		FunctionName: &f.name, Environment: &types.Environment{Variables: map[string]string{"OWN": "new"}},
	})
	require.NoError(t, err)
	f.updated(t)
	_, err = w.lambda.UpdateFunctionCode(t.Context(), &lambda.UpdateFunctionCodeInput{FunctionName: &f.name, ZipFile: zipped(t, "bootstrap", "#!/bin/sh\necho other code\nexit 5\n")})
	require.NoError(t, err)
	f.updated(t)
	require.Contains(t, f.invoke(t, event{}).failure(t).Message, "exit status 5", "new invocations run the new code")
	select {
	case <-running.over:
		require.Fail(t, "what ran was ended")
	default:
	}
	g.open()
	old := running.end(t).parsed(t)
	require.Contains(t, old.Env, "OWN=old")
	w.logged(t, f.group(), "in flight\n")
	ended(t, old.PID, old.Child)
}

func versions(t *testing.T, w *aWorld) {
	f := w.function(t, settings{})
	version, err := w.lambda.PublishVersion(t.Context(), &lambda.PublishVersionInput{FunctionName: &f.name})
	require.NoError(t, err)
	_, err = w.lambda.CreateAlias(t.Context(), &lambda.CreateAliasInput{FunctionName: &f.name, Name: aws.String("live"), FunctionVersion: version.Version})
	require.NoError(t, err)
	_, err = w.lambda.UpdateFunctionCode(t.Context(), &lambda.UpdateFunctionCodeInput{FunctionName: &f.name, ZipFile: zipped(t, "bootstrap", "#!/bin/sh\nexit 5\n")})
	require.NoError(t, err)
	f.updated(t)
	require.Contains(t, f.invoke(t, event{}).failure(t).Message, "exit status 5")
	f.qualifier = "live"
	require.Contains(t, f.answer(t, event{}).Env, "AWS_LAMBDA_FUNCTION_VERSION=1")
}

func reserved(t *testing.T, w *aWorld) {
	f, g := w.function(t, settings{timeout: 120}), newGate(t)
	_, err := w.lambda.PutFunctionConcurrency(t.Context(), &lambda.PutFunctionConcurrencyInput{FunctionName: &f.name, ReservedConcurrentExecutions: aws.Int32(1)})
	require.NoError(t, err)
	running := f.begin(t, event{"get": g.url})
	g.arrived(t)
	_, err = w.lambda.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: &f.name}, func(o *lambda.Options) { o.Retryer = aws.NopRetryer{} })
	var throttled *types.TooManyRequestsException
	require.ErrorAs(t, err, &throttled)
	g.open()
	require.Empty(t, running.end(t).failed)
	require.Equal(t, 2, f.answer(t, event{}).Count)
}

func provisioned(t *testing.T, w *aWorld) {
	f := w.function(t, settings{})
	version, err := w.lambda.PublishVersion(t.Context(), &lambda.PublishVersionInput{FunctionName: &f.name})
	require.NoError(t, err)
	f.qualifier = *version.Version
	_, err = w.lambda.PutProvisionedConcurrencyConfig(t.Context(), &lambda.PutProvisionedConcurrencyConfigInput{
		FunctionName: &f.name, Qualifier: &f.qualifier, ProvisionedConcurrentExecutions: aws.Int32(2),
	})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		got, err := w.lambda.GetProvisionedConcurrencyConfig(t.Context(), &lambda.GetProvisionedConcurrencyConfigInput{FunctionName: &f.name, Qualifier: &f.qualifier})
		return err == nil && got.Status == types.ProvisionedConcurrencyStatusEnumReady
	}, ceiling, pause)
	got := f.invoke(t, event{})
	require.Contains(t, got.parsed(t).Env, "AWS_LAMBDA_INITIALIZATION_TYPE=provisioned-concurrency")
	require.NotContains(t, got.log, "Init Duration")
}

func asynchronous(t *testing.T, w *aWorld) {
	f := w.function(t, settings{})
	got, err := w.lambda.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: &f.name, Payload: []byte(`{"lines":["as an event"]}`), InvocationType: types.InvocationTypeEvent})
	require.NoError(t, err)
	require.EqualValues(t, 202, got.StatusCode)
	w.logged(t, f.group(), "as an event\n")
}

func counts(t *testing.T, w *aWorld) {
	f := w.function(t, settings{})
	for _, e := range []event{{}, {"fail": "no"}, {}, {"exit": 1}} {
		f.invoke(t, e)
	}
	require.Eventually(t, func() bool { return w.sum(t, "Invocations", f.name) == 4 && w.sum(t, "Errors", f.name) == 2 }, ceiling, pause)
}

// However the server ends, it leaves no process of a function: idle or in the
// midst of an invocation, nor what they have started.
func TestFunctionsEndWithTheServer(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, server int){
		"that is told to end": func(*testing.T, int) {},
		"that is killed":      func(t *testing.T, server int) { require.NoError(t, syscall.Kill(server, syscall.SIGKILL)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var idle, busy answered
			t.Run("server", func(t *testing.T) {
				w := world(t, target.LocalStack(t))
				resting, running, g := w.function(t, settings{}), w.function(t, settings{timeout: 600}), newGate(t)
				idle = resting.answer(t, event{"fork": true})
				busy = running.answer(t, event{"fork": true})
				running.begin(t, event{"get": g.url}) // its answer is lost with the server
				g.arrived(t)
				w.over = true
				end(t, idle.Server)
			})
			if idle.PID == 0 {
				return // it was skipped, and says why
			}
			ended(t, idle.PID, idle.Child, busy.PID, busy.Child)
		})
	}
}

// ended waits until processes are gone.
func ended(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		require.Positive(t, pid)
		require.Eventually(t, func() bool { return !runs(t, pid) }, ceiling, pause, "process %d", pid)
	}
}

// runs says whether there is a process. One that has ended and waits for its
// parent to look at it is none.
func runs(t *testing.T, pid int) bool {
	t.Helper()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		return syscall.Kill(pid, 0) == nil
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}

const (
	// ceiling is how long a thing may take that takes a moment.
	ceiling = 2 * time.Minute
	pause   = 50 * time.Millisecond
)
