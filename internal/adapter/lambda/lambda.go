package lambda

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awslambda "github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/smithy-go"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

const (
	// FunctionMost is how long a function may run.
	FunctionMost = 15 * time.Minute
	// patience is how long this client waits for one: longer than it may run,
	// so that it is never the client that gives up on a function at work.
	patience = FunctionMost + time.Minute
	// keepAlive is between signs of life on a connection on which nothing else
	// moves for minutes: what lies between, a NAT gateway say, forgets it else.
	keepAlive     = 15 * time.Second
	connectMost   = 10 * time.Second
	retryAfterMax = ident.Minute
)

// Invoker invokes functions.
type Invoker struct {
	client *awslambda.Client
}

// Open makes an Invoker. It asks nothing of AWS yet.
func Open(cfg aws.Config) *Invoker {
	return &Invoker{client: awslambda.NewFromConfig(cfg, func(o *awslambda.Options) {
		// Both: a number of attempts that all clients are set to would else be
		// put over the retryer.
		o.Retryer, o.RetryMaxAttempts = aws.NopRetryer{}, 1
		if client, ok := o.HTTPClient.(*awshttp.BuildableClient); ok {
			o.HTTPClient = patient(client)
		}
	})}
}

func patient(client *awshttp.BuildableClient) *awshttp.BuildableClient {
	return client.WithTimeout(patience).
		WithDialerOptions(func(d *net.Dialer) { d.Timeout, d.KeepAlive = connectMost, keepAlive }).
		WithTransportOptions(func(t *http.Transport) { t.ResponseHeaderTimeout = 0 })
}

// Options are those of the client, for who wants to see them.
func (i *Invoker) Options() awslambda.Options { return i.client.Options() }

// Invoke makes one invocation and waits for its answer. failed says that the
// function failed; answer is then its error object. An error is a *host.Fault.
func (i *Invoker) Invoke(ctx context.Context, function string, payload []byte) (answer []byte, failed bool, err error) {
	// From the moment there is a connection, the function may have begun.
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	out, err := i.client.Invoke(traced, &awslambda.InvokeInput{
		FunctionName: &function, InvocationType: types.InvocationTypeRequestResponse, Payload: payload,
	})
	if err != nil {
		return nil, false, fault(ctx, function, sent.Load(), err)
	}
	return out.Payload, out.FunctionError != nil, nil
}

// fault says what kept an invocation from coming to an end. Where Lambda itself
// has refused it, no function has begun.
func fault(ctx context.Context, function string, sent bool, err error) *host.Fault {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return refused(function, api, err)
	}
	f := &host.Fault{Class: host.ClassNetwork, Message: "Lambda could not be reached", Sent: sent, Err: err}
	var late net.Error
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		f.Class, f.Message = host.ClassStopped, "the call was stopped"
	case ctx.Err() != nil, errors.As(err, &late) && late.Timeout() && sent:
		f.Class, f.Message = host.ClassTimeout, "the tool's function did not answer in time"
	case sent:
		f.Message = "the connection to Lambda was lost"
	}
	return f
}

// refusal is how one of Lambda's errors is meant.
type refusal struct {
	class, message string
	sent           bool
}

func refusals() map[string]refusal {
	busy := refusal{class: host.ClassServer, message: "the function is not ready to be invoked"}
	limited := refusal{class: host.ClassRateLimit, message: "Lambda has no room for another invocation of the function"}
	return map[string]refusal{
		"TooManyRequestsException":             limited,
		"ThrottlingException":                  limited,
		"EC2ThrottledException":                limited,
		"ResourceNotFoundException":            {class: host.ClassNotFound, message: "there is no such function, version or alias in this account and region"},
		"AccessDeniedException":                {class: host.ClassAccess, message: "not allowed: deploy the stack with this function among its customer functions, or grant its role lambda:InvokeFunction on it"},
		"RequestTooLargeException":             {class: host.ClassInvalid, message: "the arguments are too large for an invocation (6 MB)"},
		"InvalidRequestContentException":       {class: host.ClassInvalid, message: "Lambda cannot read the call"},
		"ResourceConflictException":            busy,
		"ResourceNotReadyException":            busy,
		"SnapStartNotReadyException":           busy,
		"CodeArtifactUserPendingException":     busy,
		"ENILimitReachedException":             busy,
		"SubnetIPAddressLimitReachedException": busy,
		"EFSMountTimeoutException":             busy,
		"ServiceException":                     {class: host.ClassServer, message: "Lambda failed", sent: true},
	}
}

func refused(function string, api smithy.APIError, err error) *host.Fault {
	r, known := refusals()[api.ErrorCode()]
	if !known {
		// A refusal is of the caller's making, any other error may have come
		// when the function had begun.
		r = refusal{class: host.ClassInvalid, message: "Lambda refused the invocation (" + api.ErrorCode() + ")"}
		var response interface{ HTTPStatusCode() int }
		if errors.As(err, &response) && response.HTTPStatusCode() >= http.StatusInternalServerError || !errors.As(err, &response) {
			r = refusal{class: host.ClassServer, message: "Lambda failed (" + api.ErrorCode() + ")", sent: true}
		}
	}
	f := &host.Fault{Class: r.class, Message: r.message + ": " + function, Sent: r.sent, Err: err}
	if limited, ok := errors.AsType[*types.TooManyRequestsException](err); ok {
		if n, err := strconv.ParseInt(strings.TrimSpace(aws.ToString(limited.RetryAfterSeconds)), 10, 32); err == nil {
			f.RetryAfterMs = min(max(n, 0)*ident.Second, retryAfterMax)
		}
	}
	return f
}
