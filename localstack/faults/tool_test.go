package faults

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/lambda/lambdatest"
	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/env"
)

// customer is a tool that is a customer's function, by the function's name. Its
// calls sleep until Lambda has enough of them, which leaves time to find them and
// their caller.
func (w *world) customer(retrySafe bool) (tool, function string) {
	w.Helper()
	function, _ = lambdatest.Deploy(w.T, w.stack.Config.Copy(), w.stack.Can.Arch)
	w.limit(function, 20)
	tool = "c" + strings.ReplaceAll(function, "-", "")
	require.NoError(w, w.api.PutTool(w.Context(), tool, object{
		"target": "lambda", "function": function, "completion": "joined", "description": "Sleeps.", "parameters": object{"type": "object"},
		"kind": "action", "retrySafe": retrySafe, "parallel": true,
	}))
	return tool, function
}

// limit says how many seconds a customer's function may take.
func (w *world) limit(function string, seconds int32) {
	w.Helper()
	c := lambda.NewFromConfig(w.stack.Config.Copy())
	_, err := c.UpdateFunctionConfiguration(w.Context(), &lambda.UpdateFunctionConfigurationInput{FunctionName: &function, Timeout: &seconds})
	require.NoError(w, err)
	require.NoError(w, lambda.NewFunctionUpdatedV2Waiter(c).Wait(w.Context(), &lambda.GetFunctionInput{FunctionName: &function}, hang))
}

func sleeps(tool string) openaitest.Call {
	return openaitest.Call{ID: tool[:20], Name: tool, Arguments: `{"do":"sleep"}`}
}

// processes are those of a function, by its name.
func processes(t *testing.T, function string) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	for _, file := range files {
		variables, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(append([]byte{0}, variables...), []byte("\x00"+env.AWSFunction+"="+function+"\x00")) {
			continue // another's, or gone
		}
		if pid, err := strconv.Atoi(strings.Split(file, "/")[2]); err == nil && descends(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// The machine's call of the function tool is made twice, and the function is
// killed while a customer's works: a call that must not be made twice is not, and
// is unknown; one that may be is made again.
func TestAToolIsAskedTwiceAndKilled(t *testing.T) {
	t.Parallel()
	w := visit(t)
	w.mortal()
	once, function := w.customer(false)
	safe, again := w.customer(true)
	w.open(once, safe)
	w.model.Enqueue(openaitest.Calls(sleeps(once), sleeps(safe)), openaitest.Text("Nobody knows.", 1))
	seen := map[string]map[int]bool{function: {}, again: {}}
	note := func() {
		for name, pids := range seen {
			for _, pid := range processes(t, name) {
				pids[pid] = true
			}
		}
	}
	run := w.run("Sleep, both.")
	w.eventually(func() bool {
		note()
		return len(seen[function]) > 0 && len(seen[again]) > 0
	}, "they are not asked")
	data := bytes.TrimSuffix(bytes.Replace(w.input(1), []byte(`"step":1`), []byte(`"step":2`), 1), []byte("}"))
	_, err := w.invoke(t.Context(), env.FunctionTool, fmt.Appendf(nil, `%s,"call":{"run":1,"call":"call_1_1","attempt":1}}`, data))
	require.NoError(t, err)
	for _, pid := range processes(t, w.function(env.FunctionTool)) {
		require.NoError(t, kill(pid))
	}
	w.limit(again, lambdatest.Timeout) // nobody has to find those that come now
	w.eventually(func() bool {
		note()
		calls := w.calls(run)
		return len(calls) == 2 && !strings.HasPrefix(calls[0], "running") && !strings.HasPrefix(calls[1], "running")
	}, "the calls do not end")

	require.Equal(t, "Nobody knows.", w.until(run, "completed").Output.Text)
	w.sound()
	require.Equal(t, "unknown 1", w.calls(run)[0])
	require.Len(t, seen[function], 1, "it was made twice")
	require.Greater(t, len(seen[again]), 1)
	require.GreaterOrEqual(t, w.count("tool.started", `"reason":"interrupted"`), 1)
	require.Zero(t, w.count("tool.late", ""))
}
