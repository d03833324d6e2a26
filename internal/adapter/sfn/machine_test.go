package sfn_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssfn "github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/sfn"
	"github.com/perdure/perdure/internal/host"
)

// definition is the machine as it is deployed, with its substitutions open.
func definition(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("../../../infra/asl/session.asl.json")
	require.NoError(t, err)
	return string(raw)
}

// The names that stand for functions in the definition.
const (
	driveName = "DriveFunctionArn"
	toolName  = "ToolFunctionArn"
	parkName  = "ParkFunctionArn"
)

// troupe plays the functions of one execution by a script, and keeps what they
// were asked.
type troupe struct {
	mu     sync.Mutex
	drives []host.Step
	parks  []sfn.Parking
	tools  []host.CallRef
	raw    [][]byte // all events
	faults []error
	// parked has each token, for whoever wakes it.
	parked chan string

	// What the nth invocation of drive answers, or fails with; from 1.
	drive func(n int, step host.Step) (host.Next, string)
	// What the nth invocation of park and tool fails with, if they do.
	park func(n int) string
	tool func(n int, ref host.CallRef) string
}

func (p *troupe) note(event []byte, err error) {
	p.raw = append(p.raw, event)
	if err != nil {
		p.faults = append(p.faults, fmt.Errorf("%w in %s", err, event))
	}
}

func (p *troupe) parts() map[string]part {
	return map[string]part{
		driveName: func(event []byte) (any, string) {
			step, err := sfn.DriveEvent(event)
			p.mu.Lock()
			p.note(event, err)
			p.drives = append(p.drives, step)
			n := len(p.drives)
			p.mu.Unlock()
			next, fail := p.drive(n, step)
			if fail != "" {
				return nil, fail
			}
			if next.Number == 0 {
				next.Number = step.Number + 1
			}
			answer, err := sfn.Answer(step, next, ident.Instant(time.Now().UnixMilli()))
			if err != nil {
				return nil, err.Error()
			}
			if next.Do == host.NextDone && next.Number == foreign {
				answer = bytes.Replace(answer, []byte(`"done"`), []byte(`"rest"`), 1)
			}
			return json.RawMessage(answer), ""
		},
		parkName: func(event []byte) (any, string) {
			asked, err := sfn.ParkEvent(event)
			p.mu.Lock()
			p.note(event, err)
			p.parks = append(p.parks, asked)
			n := len(p.parks)
			p.mu.Unlock()
			if p.park != nil {
				if fail := p.park(n); fail != "" {
					return nil, fail
				}
			}
			p.parked <- asked.Token
			return nil, ""
		},
		toolName: func(event []byte) (any, string) {
			_, ref, err := sfn.ToolEvent(event)
			p.mu.Lock()
			p.note(event, err)
			p.tools = append(p.tools, ref)
			n := len(p.tools)
			p.mu.Unlock()
			if p.tool != nil {
				return strings.Repeat("x", 1000), p.tool(n, ref)
			}
			return nil, ""
		},
	}
}

// foreign, as the number of a last step, makes drive say a word that the
// definition does not know.
const foreign = 999

// perform runs one activation to its end.
func (p *troupe) perform(t *testing.T, meanwhile func(s *stage, w *sfn.Waker)) (out *awssfn.DescribeExecutionOutput, states []string) {
	t.Helper()
	p.parked = make(chan string, 16)
	text := strings.ReplaceAll(definition(t), "${Partition}", "aws")
	s := newStage(t, quick(t, text), p.parts())
	w, err := sfn.NewWaker(s.cfg, s.machine)
	require.NoError(t, err)
	require.NoError(t, w.Start(t.Context(), key, inc, 3))
	if meanwhile != nil {
		meanwhile(s, w)
	}
	out = s.ended(t, inc+"-3")
	states = s.entered(t, inc+"-3")
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(t, p.faults)
	for _, event := range p.raw {
		require.NotContains(t, string(event), "secret", "the text of an error is in the data")
		require.NotContains(t, string(event), "StatusCode", "the SDK's metadata is in the data")
	}
	// Of an execution that failed the history has the cause: what functions say
	// when they fail must be fit for it.
	if out.Status == types.ExecutionStatusSucceeded {
		require.NotContains(t, aws.ToString(out.Output), "secret")
	}
	return out, states
}

// quick shortens the pauses of a definition, and nothing else.
func quick(t *testing.T, text string) string {
	t.Helper()
	var machine map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &machine))
	walk(machine, func(o map[string]any) {
		if _, ok := o["IntervalSeconds"]; ok {
			o["IntervalSeconds"], o["BackoffRate"] = 1, 1
		}
	})
	out, err := json.Marshal(machine)
	require.NoError(t, err)
	return string(out)
}

// walk visits every object of a JSON value.
func walk(v any, visit func(o map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		visit(v)
		for _, x := range v {
			walk(x, visit)
		}
	case []any:
		for _, x := range v {
			walk(x, visit)
		}
	}
}

func (p *troupe) wake(t *testing.T, w *sfn.Waker) {
	t.Helper()
	select {
	case token := <-p.parked:
		// The token may come before the machine knows that park has returned.
		require.NoError(t, w.Complete(t.Context(), token))
	case <-time.After(patience):
		require.Fail(t, "nothing parked")
	}
}

var (
	again = host.Next{Do: host.NextAgain}
	done  = host.Next{Do: host.NextDone}
)

// inTurn answers each invocation of drive by its place.
func inTurn(nexts ...host.Next) func(n int, step host.Step) (host.Next, string) {
	return func(n int, _ host.Step) (host.Next, string) { return nexts[min(n, len(nexts))-1], "" }
}

func waitFor(ms int64) host.Next {
	return host.Next{Do: host.NextWait, Wait: host.Wait{Rev: 17, Number: 1, Attempt: 1, Until: ident.Instant(time.Now().UnixMilli() + ms)}}
}

func steps(p *troupe) (numbers []uint64, recovers []bool) {
	for _, s := range p.drives {
		numbers, recovers = append(numbers, s.Number), append(recovers, s.Recover)
	}
	return numbers, recovers
}

func TestARunOfOneSliceIsThreeTransitions(t *testing.T) {
	t.Parallel()
	p := &troupe{drive: inTurn(done)}
	out, states := p.perform(t, nil)
	require.Equal(t, types.ExecutionStatusSucceeded, out.Status)
	require.Equal(t, []string{"Model", "Next", "Done"}, states)

	want := step()
	want.Began = p.drives[0].Began
	require.Equal(t, []host.Step{want}, p.drives)
	require.Equal(t, out.StartDate.UnixMilli(), int64(p.drives[0].Began))
	d, err := sfn.Decode([]byte(aws.ToString(out.Output)))
	require.NoError(t, err, "what comes out is what drive said, and no more")
	require.Equal(t, host.NextDone, d.Next)
}

func TestSlicesFollowOneAnother(t *testing.T) {
	t.Parallel()
	p := &troupe{drive: inTurn(again, again, done)}
	out, states := p.perform(t, nil)
	require.Equal(t, types.ExecutionStatusSucceeded, out.Status)
	require.Equal(t, []string{"Model", "Next", "Model", "Next", "Model", "Next", "Done"}, states)
	numbers, _ := steps(p)
	require.Equal(t, []uint64{1, 2, 3}, numbers)
}

func TestToolsRunAndNoneOfThemFailsTheRest(t *testing.T) {
	t.Parallel()
	var calls []host.CallRef
	for i := range 8 {
		calls = append(calls, host.CallRef{Run: 1, Call: ident.CallID{Turn: 2, Index: i + 1}, Attempt: 1})
	}
	p := &troupe{
		drive: inTurn(host.Next{Do: host.NextTools, Calls: calls}, done),
		tool: func(_ int, ref host.CallRef) string {
			switch ref.Call.Index {
			case 3:
				return "Broken"
			case 5:
				return "Lambda.ServiceException"
			}
			return ""
		},
	}
	out, states := p.perform(t, nil)
	require.Equal(t, types.ExecutionStatusSucceeded, out.Status)
	require.Equal(t, []string{"Model", "Next", "Tools"}, states[:3])
	require.Equal(t, []string{"Model", "Next", "Done"}, states[len(states)-3:])
	// Each was asked for once, the failed ones too: whether to try again is not
	// the machine's to say.
	require.ElementsMatch(t, calls, p.tools)
	numbers, recovers := steps(p)
	require.Equal(t, []uint64{1, 2}, numbers)
	require.Equal(t, []bool{false, false}, recovers)
	require.Less(t, len(p.raw[len(p.raw)-1]), sfn.DataBytesMax, "what tools say goes nowhere")
}

func TestAThrottledItemIsTriedAgain(t *testing.T) {
	t.Parallel()
	call := host.CallRef{Run: 1, Call: ident.CallID{Turn: 2, Index: 1}, Attempt: 1}
	p := &troupe{
		drive: inTurn(host.Next{Do: host.NextTools, Calls: []host.CallRef{call}}, done),
		tool: func(n int, _ host.CallRef) string {
			if n < 3 {
				return "Lambda.TooManyRequestsException"
			}
			return ""
		},
	}
	out, states := p.perform(t, nil)
	require.Equal(t, types.ExecutionStatusSucceeded, out.Status)
	require.NotContains(t, states, "Lost")
	require.Equal(t, []host.CallRef{call, call, call}, p.tools)
}

func TestAWaitIsWoken(t *testing.T) {
	t.Parallel()
	wait := waitFor(3_600_000)
	p := &troupe{drive: inTurn(wait, done)}
	out, states := p.perform(t, func(_ *stage, w *sfn.Waker) { p.wake(t, w) })
	require.Equal(t, types.ExecutionStatusSucceeded, out.Status)
	require.Equal(t, []string{"Model", "Next", "Wait", "Model", "Next", "Done"}, states)
	require.Len(t, p.parks, 1)
	require.Equal(t, sfn.Parking{Key: key, Inc: inc, Epoch: 3, Wait: wait.Wait, Token: p.parks[0].Token}, p.parks[0])
	numbers, recovers := steps(p)
	require.Equal(t, []uint64{1, 2}, numbers)
	require.Equal(t, []bool{false, false}, recovers)
}

func TestT27AWaitThatNobodyWakesEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	p := &troupe{drive: inTurn(waitFor(1), done)}
	out, states := p.perform(t, nil)
	require.Equal(t, types.ExecutionStatusSucceeded, out.Status)
	require.Equal(t, []string{"Model", "Next", "Wait", "Model", "Next", "Done"}, states)
	_, recovers := steps(p)
	require.Equal(t, []bool{false, false}, recovers, "a wait that ran out is not a fault")
}

func TestAParkThatFailsIsRecovered(t *testing.T) {
	t.Parallel()
	p := &troupe{drive: inTurn(waitFor(3_600_000), done), park: func(int) string { return "Broken" }}
	out, states := p.perform(t, nil)
	require.Equal(t, types.ExecutionStatusSucceeded, out.Status)
	require.Equal(t, []string{"Model", "Next", "Wait", "Recover", "Next", "Done"}, states)
	require.Len(t, p.parks, 1)
	numbers, recovers := steps(p)
	require.Equal(t, []uint64{1, 2}, numbers)
	require.Equal(t, []bool{false, true}, recovers)
}

func TestAThrottledParkIsTriedAgain(t *testing.T) {
	t.Parallel()
	p := &troupe{
		drive: inTurn(waitFor(3_600_000), done),
		park: func(n int) string {
			if n == 1 {
				return "Lambda.TooManyRequestsException"
			}
			return ""
		},
	}
	out, states := p.perform(t, func(_ *stage, w *sfn.Waker) { p.wake(t, w) })
	require.Equal(t, types.ExecutionStatusSucceeded, out.Status)
	require.Equal(t, []string{"Model", "Next", "Wait", "Model", "Next", "Done"}, states)
	require.Len(t, p.parks, 2)
}

func TestADriveThatFailsIsRecovered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		recovery host.Next
		after    []string
	}{
		{"it gives the activation up", done, []string{"Done"}},
		{"it goes on", again, []string{"Model", "Next", "Done"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := &troupe{drive: func(n int, _ host.Step) (host.Next, string) {
				return []host.Next{{}, c.recovery, done}[n-1], []string{"Broken", "", ""}[n-1]
			}}
			out, states := p.perform(t, nil)
			require.Equal(t, types.ExecutionStatusSucceeded, out.Status)
			require.Equal(t, append([]string{"Model", "Recover", "Next"}, c.after...), states)
			numbers, recovers := steps(p)
			require.Equal(t, []uint64{1, 1}, numbers[:2], "the step that was lost is the one that is recovered")
			require.Equal(t, []bool{false, true}, recovers[:2])
		})
	}
}

func TestADriveThatLambdaFailsAtIsAskedAgain(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Lambda.TooManyRequestsException", "Lambda.ServiceException", "Lambda.SdkClientException"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &troupe{drive: func(n int, _ host.Step) (host.Next, string) {
				if n == 1 {
					return host.Next{}, name
				}
				return done, ""
			}}
			out, states := p.perform(t, nil)
			require.Equal(t, types.ExecutionStatusSucceeded, out.Status)
			require.Equal(t, []string{"Model", "Next", "Done"}, states)
			numbers, recovers := steps(p)
			require.Equal(t, []uint64{1, 1}, numbers)
			require.Equal(t, []bool{false, false}, recovers)
		})
	}
}

func TestARecoveryThatFailsFailsTheExecution(t *testing.T) {
	t.Parallel()
	p := &troupe{drive: func(int, host.Step) (host.Next, string) { return host.Next{}, "Broken" }}
	out, states := p.perform(t, nil)
	require.Equal(t, types.ExecutionStatusFailed, out.Status)
	require.Equal(t, []string{"Model", "Recover"}, states)
	_, recovers := steps(p)
	require.Equal(t, []bool{false, true, true, true}, recovers, "it is tried, and not for ever")
}

func TestAWordOfANewerDriveFailsTheExecution(t *testing.T) {
	t.Parallel()
	p := &troupe{drive: inTurn(host.Next{Do: host.NextDone, Number: foreign})}
	out, states := p.perform(t, nil)
	require.Equal(t, types.ExecutionStatusFailed, out.Status)
	require.Equal(t, []string{"Model", "Next"}, states)
}

func TestTheDefinitionSaysWhatItMust(t *testing.T) {
	t.Parallel()
	text := definition(t)
	var open []string
	for _, piece := range strings.Split(text, "${")[1:] {
		open = append(open, piece[:strings.IndexByte(piece, '}')])
	}
	slices.Sort(open)
	require.Equal(t, []string{driveName, parkName, "Partition", toolName}, slices.Compact(open), "infra fills these in")

	var machine map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &machine))
	require.NotZero(t, machine["TimeoutSeconds"], "T27: nothing waits without a limit")
	tasks := 0
	walk(machine, func(o map[string]any) {
		if o["Type"] == "Task" {
			tasks++
			_, fixed := o["TimeoutSeconds"]
			_, path := o["TimeoutSecondsPath"]
			require.NotEqual(t, fixed, path, "T27: every task has a limit: %v", o["Comment"])
			require.Contains(t, []any{"arn:${Partition}:states:::lambda:invoke", "arn:${Partition}:states:::lambda:invoke.waitForTaskToken"}, o["Resource"])
		}
		if errors, ok := o["ErrorEquals"]; ok && o["Next"] != nil {
			result, given := o["ResultPath"]
			require.True(t, given && result == nil, "the text of an error would enter the data: %v", errors)
		}
	})
	require.Equal(t, 4, tasks)

	type state struct {
		MaxConcurrency int
		ItemProcessor  struct {
			States map[string]struct {
				Retry []struct{ ErrorEquals []string }
			}
		}
	}
	var states struct{ States map[string]state }
	require.NoError(t, json.Unmarshal([]byte(text), &states))
	tools := states.States["Tools"]
	require.Equal(t, session.InFlightMax, tools.MaxConcurrency, "as many as the core starts at once")
	retries := tools.ItemProcessor.States["Tool"].Retry
	require.Len(t, retries, 1)
	require.Equal(t, []string{"Lambda.TooManyRequestsException"}, retries[0].ErrorEquals,
		"only what has certainly not begun is tried again: whether a call may run twice is the core's decision")
	require.NotContains(t, text, "Heartbeat", "nobody beats for a person who thinks")
}
