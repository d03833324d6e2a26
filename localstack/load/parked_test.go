package load

import (
	"fmt"
	"strings"
	"testing"
	"time"

	awssfn "github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/adapter/sfn"
	"github.com/perdure/perdure/internal/client"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/localstack/target"
)

// parked is how many sessions wait at once.
const parked = 200

// TestManySessionsParkAndResume: each waits for a decision, its execution for the
// task token that the head holds, and nothing of it runs. When all are decided, all
// go on, each in the execution that waited.
func TestManySessionsParkAndResume(t *testing.T) {
	t.Parallel()
	began := time.Now()
	p := park(t)
	parking := time.Since(began)
	p.decide()
	t.Logf("parked after %v, resumed after %v more", parking, time.Since(began)-parking)
	p.done()
}

// BenchmarkParked is the same with a clock: from the first session's request until
// all are parked, and from the first decision until all runs have completed.
func BenchmarkParked(b *testing.B) {
	var parking, resuming time.Duration
	var at memory
	target.Deployed(b) // which is not measured
	for b.Loop() {
		began := time.Now()
		p := park(b)
		parking += time.Since(began)
		at = footprint(b, p.stack.Endpoint)
		began = time.Now()
		p.decide()
		resuming += time.Since(began)
		p.done()
	}
	b.ReportMetric(parking.Seconds()/float64(b.N), "park-s/op")
	b.ReportMetric(resuming.Seconds()/float64(b.N), "resume-s/op")
	at.report(b)
}

// parking are sessions that are parked.
type parking struct {
	*world

	heads []host.Head
}

// park opens all sessions and waits until all are parked at once.
func park(tb testing.TB) *parking {
	tb.Helper()
	p := &parking{heads: make([]host.Head, parked), world: visit(tb, func(r openaitest.Request) openaitest.Reply {
		if lastRole(r) == "tool" {
			return openaitest.Text("Written.", 1)
		}
		return asks()
	})}
	p.each(parked, func(door *client.Client, i int) error { return p.open(door, p.id(i), "Write.") })
	for i := range parked {
		p.eventually(p.id(i)+" is not parked", func() bool {
			var err error
			p.heads[i], err = p.head(p.id(i))
			require.NoError(tb, err)
			return p.heads[i].Drive.Status == host.DriveParked
		})
	}
	p.each(parked, func(_ *client.Client, i int) error { return p.waits(i) })
	return p
}

// waits holds a session to what a wait is: its execution runs, in the state Wait,
// and its head has not moved.
func (p *parking) waits(i int) error {
	execution, err := p.execution(i)
	if err != nil {
		return err
	}
	out, err := p.sfn.DescribeExecution(p.Context(), &awssfn.DescribeExecutionInput{ExecutionArn: &execution})
	if err != nil {
		return err
	}
	states, err := p.states(execution)
	if err != nil {
		return err
	}
	head, err := p.head(p.id(i))
	if err == nil && (out.Status != types.ExecutionStatusRunning || states[len(states)-1] != "Wait" || head != p.heads[i]) {
		err = fmt.Errorf("%s does not wait: its execution is %s and was in %v, its head %+v", p.id(i), out.Status, states, head)
	}
	return err
}

// execution is the one of the session's activation.
func (p *parking) execution(i int) (arn string, err error) {
	name, err := sfn.ExecutionName(p.heads[i].Inc, p.heads[i].Drive.Epoch)
	return strings.Replace(p.stack.Outputs["Machine"], ":stateMachine:", ":execution:", 1) + ":" + name, err
}

// states are those that an execution has entered.
func (p *parking) states(execution string) (names []string, err error) {
	pages := awssfn.NewGetExecutionHistoryPaginator(p.sfn, &awssfn.GetExecutionHistoryInput{ExecutionArn: &execution})
	for pages.HasMorePages() {
		page, err := pages.NextPage(p.Context())
		if err != nil {
			return nil, err
		}
		for _, e := range page.Events {
			if e.StateEnteredEventDetails != nil {
				names = append(names, *e.StateEnteredEventDetails.Name)
			}
		}
	}
	return names, nil
}

// decide approves what all wait for, and waits until all runs have completed.
func (p *parking) decide() {
	p.Helper()
	p.each(parked, func(door *client.Client, i int) error {
		return p.approve(door, p.id(i))
	})
	p.each(parked, func(door *client.Client, i int) error {
		r, err := p.until(door, p.id(i), firstRun, "completed")
		if err == nil && r.Output.Text != "Written." {
			err = fmt.Errorf("%s ended with %q", p.id(i), r.Output.Text)
		}
		return err
	})
}

// done holds that each session went on where it waited: the execution that was
// parked has ended well, the tool ran once, and nothing is owed any more.
func (p *parking) done() {
	p.Helper()
	for i := range parked {
		execution, err := p.execution(i)
		require.NoError(p, err)
		p.eventually(p.id(i)+" is not idle", func() bool {
			head, err := p.head(p.id(i))
			require.NoError(p, err)
			require.Equal(p, p.heads[i].Drive.Epoch, head.Drive.Epoch, "%s has another execution", p.id(i))
			return head.Drive.Status == host.DriveIdle
		})
		p.eventually(p.id(i)+": its execution does not end", func() bool {
			out, err := p.sfn.DescribeExecution(p.Context(), &awssfn.DescribeExecutionInput{ExecutionArn: &execution})
			require.NoError(p, err)
			require.Contains(p, []types.ExecutionStatus{types.ExecutionStatusRunning, types.ExecutionStatusSucceeded}, out.Status)
			return out.Status == types.ExecutionStatusSucceeded
		})
	}
	p.each(parked, func(door *client.Client, i int) error {
		calls, err := door.Calls(p.Context(), p.id(i), firstRun)
		if err == nil && (len(calls.Items) != 1 || calls.Items[0].Status != "completed" || calls.Items[0].Attempts > 1) {
			err = fmt.Errorf("%s: %+v", p.id(i), calls.Items)
		}
		return err
	})
}
