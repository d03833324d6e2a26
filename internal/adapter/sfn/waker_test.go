package sfn_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssfn "github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/adapter/sfn"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/host/porttest"
	"github.com/perdure/perdure/localstack/target"
)

// after is for what a test does after its own has ended.
func after(t *testing.T) context.Context {
	t.Helper()
	return context.WithoutCancel(t.Context())
}

// parker is a machine that does nothing but park when it is told to, for so
// many seconds. It goes back to a state by way of another: a catcher that names
// its own state is not heeded everywhere.
const parker = `{"StartAt": "Idle", "States": {
	"Idle": {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken", "TimeoutSeconds": 600,
		"Parameters": {"FunctionName": "${say}", "Payload": {"state": "Idle", "name.$": "$$.Execution.Name", "token.$": "$$.Task.Token"}},
		"ResultPath": "$.park", "Next": "Park"},
	"Park": {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken", "TimeoutSecondsPath": "$.park.seconds",
		"Parameters": {"FunctionName": "${say}", "Payload": {"state": "Park", "name.$": "$$.Execution.Name", "token.$": "$$.Task.Token"}},
		"Catch": [{"ErrorEquals": ["States.Timeout"], "ResultPath": null, "Next": "Idle"}, {"ErrorEquals": ["Again"], "ResultPath": null, "Next": "Again"}],
		"ResultPath": null, "Next": "Idle"},
	"Again": {"Type": "Pass", "Next": "Park"}
}}`

// parking is the world of a Waker: real executions of the parker.
type parking struct {
	*sfn.Waker

	stage *stage

	mu     sync.Mutex
	tokens map[string]chan string // by execution and state
	last   map[string]string      // the token that each execution last came with
	parked map[string]string      // and the one that it last parked with
	until  map[string]ident.Instant
	spent  map[string]bool // tokens that were completed
}

func newParking(t *testing.T) *parking {
	t.Helper()
	p := &parking{tokens: map[string]chan string{}, last: map[string]string{}, parked: map[string]string{}, until: map[string]ident.Instant{}, spent: map[string]bool{}}
	p.stage = newStage(t, parker, map[string]part{"say": func(event []byte) (any, string) {
		var said struct{ State, Name, Token string }
		if err := json.Unmarshal(event, &said); err != nil || said.Token == "" {
			return nil, "Bad" // what is stopped as it begins may ask with half an event
		}
		p.mu.Lock()
		p.last[said.Name] = said.Token
		p.mu.Unlock()
		p.box(said.Name, said.State) <- said.Token
		return nil, ""
	}})
	waker, err := sfn.NewWaker(p.stage.cfg, p.stage.machine)
	require.NoError(t, err)
	p.Waker = waker
	return p
}

// Complete implements host.Waker.
func (p *parking) Complete(ctx context.Context, token string) error {
	err := p.Waker.Complete(ctx, token)
	if err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.spent[token] = true
	}
	return err
}

// End implements host.Waker, and waits until the end is to be seen: what
// DescribeExecution says may be a little old. A target that ends no execution
// before its task is over is helped.
func (p *parking) End(ctx context.Context, key host.Key, inc string, epoch uint64) error {
	if err := p.Waker.End(ctx, key, inc, epoch); err != nil {
		return err
	}
	name, err := sfn.ExecutionName(inc, epoch)
	if err != nil {
		return err
	}
	limit, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		alive, err := p.Alive(limit, key, inc, epoch)
		switch {
		case errors.Is(err, host.ErrNotFound):
			return nil // it never started
		case err != nil || !alive:
			return err
		case !p.stage.can.Shows(target.Stopping):
			p.mu.Lock()
			last := p.last[name]
			p.mu.Unlock()
			_, _ = p.stage.client.SendTaskSuccess(limit, &awssfn.SendTaskSuccessInput{TaskToken: &last, Output: aws.String("{}")})
		}
		select {
		case <-tick.C:
		case <-limit.Done():
			return limit.Err()
		}
	}
}

func (p *parking) box(name, state string) chan string {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.tokens[name+state]
	if c == nil {
		c = make(chan string, 16)
		p.tokens[name+state] = c
	}
	return c
}

func (p *parking) await(ctx context.Context, name, state string) (string, error) {
	limit, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case token := <-p.box(name, state):
		return token, nil
	case <-limit.Done():
		out, err := p.stage.client.DescribeExecution(context.WithoutCancel(ctx), &awssfn.DescribeExecutionInput{ExecutionArn: aws.String(p.stage.execution(name))})
		if err != nil {
			return "", err
		}
		return "", fmt.Errorf("execution %s does not come to state %s; it is %s %s: %w", name, state, out.Status, aws.ToString(out.Error)+aws.ToString(out.Cause), limit.Err())
	}
}

func (p *parking) park(ctx context.Context, key host.Key, inc string, epoch uint64, deadline ident.Instant) (string, error) {
	alive, err := p.Alive(ctx, key, inc, epoch)
	switch {
	case err != nil:
		return "", err
	case !alive:
		return "", host.ErrEnded
	}
	name, err := sfn.ExecutionName(inc, epoch)
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	waits, parked := p.last[name], p.parked[name]
	again := waits != "" && waits == parked && !p.spent[waits]
	p.mu.Unlock()
	if again {
		// It waits with that one still, and parks again, as the machine does when it
		// tries park once more.
		_, err = p.stage.client.SendTaskFailure(ctx, &awssfn.SendTaskFailureInput{TaskToken: &waits, Error: aws.String("Again")})
	} else {
		err = p.leaveIdle(ctx, name, deadline)
	}
	if err != nil {
		return "", err
	}
	token, err := p.await(ctx, name, "Park")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parked[name], p.until[name] = token, deadline
	return token, err
}

// least is how many seconds a wait lasts at least: its token must be heard
// before it is over, also on a busy machine.
const least = 5

// leaveIdle makes an execution park that does not.
func (p *parking) leaveIdle(ctx context.Context, name string, deadline ident.Instant) error {
	idle, err := p.await(ctx, name, "Idle")
	if err != nil {
		return err
	}
	seconds := int64(3600)
	if deadline != 0 {
		seconds = max(least, int64(deadline-p.now()+999)/1000)
	}
	_, err = p.stage.client.SendTaskSuccess(ctx, &awssfn.SendTaskSuccessInput{TaskToken: &idle, Output: aws.String(fmt.Sprintf(`{"seconds":%d}`, seconds))})
	return err
}

func (p *parking) now() ident.Instant { return ident.Instant(time.Now().UnixMilli()) }

// advance waits until every execution that parked until a moment in that time
// is seen idle again.
func (p *parking) advance(t *testing.T, ms int64) {
	t.Helper()
	end := p.now().Add(ms)
	p.mu.Lock()
	var due []string
	for name, until := range p.until {
		if until != 0 && until <= end {
			due = append(due, name)
		}
	}
	p.mu.Unlock()
	for _, name := range due {
		token, err := p.await(t.Context(), name, "Idle")
		require.NoError(t, err)
		p.box(name, "Idle") <- token
	}
}

func TestWaker(t *testing.T) {
	t.Parallel()
	porttest.Waker(t, func(t *testing.T) porttest.WakerWorld {
		t.Helper()
		p := newParking(t)
		return porttest.WakerWorld{
			Waker: p, Park: p.park, Now: p.now,
			Advance:    func(ms int64) { p.advance(t, ms) },
			TokensBlur: true, IncAlone: true,
			NeedRefusals: func(tb testing.TB) {
				tb.Helper()
				target.Get(t).Need(tb, target.DeadTokens)
			},
		}
	})
}
