package sfn

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awssfn "github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/perdure/perdure/internal/host"
)

// nameBytesMax is the longest name of an execution.
const nameBytesMax = 80

// Bounds of a call's tries: full jitter between 0 and 2^n seconds, at most
// backoffMax, which together stay under what an admission waits for its wake.
const (
	triesMax   = 5
	backoffMax = 2 * time.Second
)

// stopCause is what the history of a stopped execution says.
const stopCause = "ended by the session's host"

// Waker implements host.Waker: an activation is an execution of one state
// machine, named by incarnation and epoch.
type Waker struct {
	client *awssfn.Client
	arn    string // of the state machine
	prefix string // of the ARN of its executions
}

var _ host.Waker = (*Waker)(nil)

// NewWaker makes a Waker of a state machine. It asks AWS nothing yet.
//
// The configuration's own retries are replaced: they are set here, once, for
// what a wake can wait.
func NewWaker(cfg aws.Config, machine string, options ...func(*awssfn.Options)) (*Waker, error) {
	parsed, err := arn.Parse(machine)
	name, ok := strings.CutPrefix(parsed.Resource, "stateMachine:")
	if err != nil || !ok || parsed.Service != "states" || name == "" || strings.Contains(name, ":") {
		return nil, fmt.Errorf("%q is not the ARN of a state machine; it looks like arn:aws:states:eu-west-1:123456789012:stateMachine:name, and is an output of the stack", clip(machine))
	}
	parsed.Resource = "execution:" + name + ":"
	options = append([]func(*awssfn.Options){func(o *awssfn.Options) {
		o.Region = parsed.Region
		o.Retryer = retry.NewStandard(func(s *retry.StandardOptions) {
			s.MaxAttempts, s.MaxBackoff = triesMax, backoffMax
			s.Retryables = append(s.Retryables, retry.RetryableErrorCode{Codes: map[string]struct{}{
				(&types.ExecutionLimitExceeded{}).ErrorCode(): {},
			}})
		})
	}}, options...)
	return &Waker{client: awssfn.NewFromConfig(cfg, options...), arn: machine, prefix: parsed.String()}, nil
}

// ExecutionName is the name of the execution that is an activation: it is part
// of an ARN, so few characters are good, and it is at most 80 bytes.
func ExecutionName(inc string, epoch uint64) (string, error) {
	name := inc + "-" + strconv.FormatUint(epoch, 10)
	if inc == "" || len(name) > nameBytesMax {
		return "", fmt.Errorf("%w: the incarnation has %d bytes, and with the epoch %d; allowed are 1 and %d", ErrData, len(inc), len(name), nameBytesMax)
	}
	for i := range len(inc) {
		c := inc[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '_' {
			return "", fmt.Errorf("%w: the incarnation has byte 0x%02x at %d, allowed are letters, digits and _", ErrData, c, i)
		}
	}
	return name, nil
}

// Start implements host.Waker. A crash or a lost answer after it is harmless:
// the same name with the same input is the same execution while that runs.
func (w *Waker) Start(ctx context.Context, key host.Key, inc string, epoch uint64) error {
	if err := ctx.Err(); err != nil {
		return err //nolint:wrapcheck // the caller compares it with its own
	}
	input, err := Input(key, inc, epoch)
	if err != nil {
		return err
	}
	name, err := ExecutionName(inc, epoch)
	if err != nil {
		return err
	}
	_, err = w.client.StartExecution(ctx, &awssfn.StartExecutionInput{
		StateMachineArn: &w.arn, Name: &name, Input: aws.String(string(input)),
	})
	if _, ok := errors.AsType[*types.ExecutionAlreadyExists](err); ok {
		return w.existing(ctx, key, name)
	}
	return w.explain(ctx, "states:StartExecution", err)
}

// existing says what it means that a name is taken. Its input may be of an
// older build, so what it is about is compared, not the bytes.
func (w *Waker) existing(ctx context.Context, key host.Key, name string) error {
	out, err := w.describe(ctx, name)
	if errors.Is(err, host.ErrNotFound) {
		// Descriptions lag behind: it is there, and nothing is known of it yet.
		return fmt.Errorf("%w: execution %s is taken and not found yet", host.ErrUnavailable, name)
	}
	if err != nil {
		return err
	}
	// What has ended has ended, whoever's it was. A description that lags says
	// that it runs: then the sweeper asks again.
	if out.Status != types.ExecutionStatusRunning {
		return host.ErrEnded
	}
	if d, err := Decode([]byte(aws.ToString(out.Input))); err == nil && (d.Tenant != string(key.Tenant) || d.Session != string(key.Session)) {
		return fmt.Errorf("%w: execution %s is another session's", ErrData, name)
	}
	return nil
}

// Complete implements host.Waker. Step Functions says one and the same of a
// token that was used and of one that ran out, and sometimes that there is no
// such: none of them is a failure, the head says what became of the session.
func (w *Waker) Complete(ctx context.Context, token string) error {
	if err := ctx.Err(); err != nil {
		return err //nolint:wrapcheck // the caller compares it with its own
	}
	if token == "" || len(token) > tokenBytesMax {
		return host.ErrTokenLost
	}
	_, err := w.client.SendTaskSuccess(ctx, &awssfn.SendTaskSuccessInput{TaskToken: &token, Output: aws.String("{}")})
	if _, ok := errors.AsType[*types.TaskTimedOut](err); ok {
		return host.ErrTokenTimedOut
	}
	if _, ok := errors.AsType[*types.TaskDoesNotExist](err); ok {
		return host.ErrTokenLost
	}
	if _, ok := errors.AsType[*types.InvalidToken](err); ok {
		return host.ErrTokenLost
	}
	return w.explain(ctx, "states:SendTaskSuccess", err)
}

// Alive implements host.Waker. An execution that started a moment ago may not
// be found yet: whoever asks does so long after that.
func (w *Waker) Alive(ctx context.Context, key host.Key, inc string, epoch uint64) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err //nolint:wrapcheck // the caller compares it with its own
	}
	name, err := ExecutionName(inc, epoch)
	if err != nil {
		return false, err
	}
	out, err := w.describe(ctx, name)
	if err != nil {
		return false, err
	}
	return out.Status == types.ExecutionStatusRunning, nil
}

// End implements host.Waker.
func (w *Waker) End(ctx context.Context, key host.Key, inc string, epoch uint64) error {
	if err := ctx.Err(); err != nil {
		return err //nolint:wrapcheck // the caller compares it with its own
	}
	name, err := ExecutionName(inc, epoch)
	if err != nil {
		return err
	}
	_, err = w.client.StopExecution(ctx, &awssfn.StopExecutionInput{
		ExecutionArn: aws.String(w.prefix + name), Cause: aws.String(stopCause),
	})
	if _, ok := errors.AsType[*types.ExecutionDoesNotExist](err); ok {
		return nil
	}
	return w.explain(ctx, "states:StopExecution", err)
}

func (w *Waker) describe(ctx context.Context, name string) (*awssfn.DescribeExecutionOutput, error) {
	out, err := w.client.DescribeExecution(ctx, &awssfn.DescribeExecutionInput{ExecutionArn: aws.String(w.prefix + name)})
	if _, ok := errors.AsType[*types.ExecutionDoesNotExist](err); ok {
		return nil, host.ErrNotFound
	}
	return out, w.explain(ctx, "states:DescribeExecution", err)
}
