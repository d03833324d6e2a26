// Package dynamotest makes what an emulator of DynamoDB does not: conflicts of
// transactions, each reason of a cancellation, throttling, answers that are
// lost, requests that come twice, and indexes that lag.
//
// A Transport stands between the SDK and an endpoint, and lets through what no
// fault is planned for. It knows the wire, and nothing of sessions. Table makes
// a table for a test. The package is for tests alone, and may import the
// standard library, testify, the AWS SDK and the adapter.
package dynamotest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// Transport is the transport of an HTTP client for DynamoDB. Its methods may be
// called at any time.
type Transport struct {
	base http.RoundTripper

	mu       sync.Mutex
	plan     []*planned
	requests map[string]int
	kept     []*Call
	forget   bool
	tokens   int
	items    items
	lagging  items // nil: indexes are as the endpoint has them
}

// planned is a fault for the next requests of an operation.
type planned struct {
	op    string
	times int
	fault Fault
}

// New makes a transport over another.
func New(base http.RoundTripper) *Transport {
	return &Transport{base: base, requests: map[string]int{}, items: items{}}
}

// Call is one request on its way.
type Call struct {
	Op      string // as in "PutItem"
	Body    []byte
	request *http.Request
	t       *Transport
}

// Perform makes the request.
func (c *Call) Perform(ctx context.Context) (*http.Response, error) {
	request := c.request.Clone(ctx)
	request.Body = io.NopCloser(bytes.NewReader(c.Body))
	request.ContentLength = int64(len(c.Body))
	response, err := c.t.base.RoundTrip(request)
	if err == nil && response.StatusCode == http.StatusOK {
		c.t.follow(c)
	}
	return response, err //nolint:wrapcheck // a transport hands on
}

// Fault answers a request in place of the endpoint.
type Fault func(ctx context.Context, c *Call) (*http.Response, error)

// Inject plans a fault for the next so many requests of an operation, or of
// any, if op is empty. What is planned first comes first.
func (t *Transport) Inject(op string, times int, fault Fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.plan = append(t.plan, &planned{op, times, fault})
}

// Left is how many planned faults have not been met.
func (t *Transport) Left() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, p := range t.plan {
		n += p.times
	}
	return n
}

// Clear takes out what is planned.
func (t *Transport) Clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.plan = nil
}

// Requests is how many of an operation have been made, faults included.
func (t *Transport) Requests(op string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.requests[op]
}

// ForgetTokens has each transaction come under a token of its own, as if ten
// minutes lay between them. It changes what is signed, and so it is not for AWS
// itself.
func (t *Transport) ForgetTokens() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget = true
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	_, op, _ := strings.Cut(request.Header.Get("X-Amz-Target"), ".")
	c := &Call{Op: op, request: request, t: t}
	if request.Body != nil {
		var err error
		if c.Body, err = io.ReadAll(request.Body); err != nil {
			return nil, fmt.Errorf("request: %w", err)
		}
		if err := request.Body.Close(); err != nil {
			return nil, fmt.Errorf("request: %w", err)
		}
	}
	if fault := t.next(c); fault != nil {
		return fault(request.Context(), c)
	}
	if response := t.lag(c); response != nil {
		return response, nil
	}
	return c.Perform(request.Context())
}

// next counts a call, and takes the fault that is planned for it.
func (t *Transport) next(c *Call) Fault {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requests[c.Op]++
	if t.forget && c.Op == "TransactWriteItems" {
		t.tokens++
		var body map[string]json.RawMessage
		if json.Unmarshal(c.Body, &body) == nil {
			body["ClientRequestToken"] = fmt.Appendf(nil, `"forgotten-%p-%d"`, t, t.tokens)
			c.Body, _ = json.Marshal(body) // it was just read
		}
	}
	for _, p := range t.plan {
		if p.times > 0 && (p.op == "" || p.op == c.Op) {
			p.times--
			return p.fault
		}
	}
	return nil
}

func answer(status int, body any) (*http.Response, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}, "X-Amzn-Requestid": {"INJECTED"}},
		Body:   io.NopCloser(bytes.NewReader(data)), ContentLength: int64(len(data)),
	}, nil
}

const namespace = "com.amazonaws.dynamodb.v20120810#"

// Error refuses a request with a code, as in "ThrottlingException". Nothing is
// done.
func Error(code string) Fault {
	return func(context.Context, *Call) (*http.Response, error) {
		return answer(http.StatusBadRequest, map[string]string{"__type": namespace + code, "message": "injected"})
	}
}

// Status refuses a request with a status. Nothing is done.
func Status(status int) Fault {
	return func(context.Context, *Call) (*http.Response, error) {
		return answer(status, map[string]string{"__type": namespace + "InternalServerError", "message": "injected"})
	}
}

// Cancelled cancels a transaction for a reason an item, as in
// "TransactionConflict"; an empty one is none. Nothing is done.
func Cancelled(reasons ...string) Fault {
	return func(context.Context, *Call) (*http.Response, error) {
		list := make([]map[string]string, len(reasons))
		for i, code := range reasons {
			list[i] = map[string]string{"Code": "None"}
			if code != "" {
				list[i] = map[string]string{"Code": code, "Message": "injected"}
			}
		}
		return answer(http.StatusBadRequest, map[string]any{
			"__type": namespace + "TransactionCanceledException", "message": "Transaction cancelled", "CancellationReasons": list,
		})
	}
}

// LostRequest cuts the connection before anything is done.
func LostRequest() Fault {
	return func(context.Context, *Call) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }
}

// LostResponse does what was asked for, lets meanwhile run, and cuts the
// connection instead of an answer.
func LostResponse(meanwhile func()) Fault {
	return func(ctx context.Context, c *Call) (*http.Response, error) {
		response, err := c.Perform(ctx)
		if err != nil {
			return nil, err
		}
		if err := response.Body.Close(); err != nil {
			return nil, fmt.Errorf("response: %w", err)
		}
		if meanwhile != nil {
			meanwhile()
		}
		return nil, io.ErrUnexpectedEOF
	}
}

// Slow does nothing, and answers when the caller has given up.
func Slow() Fault {
	return func(ctx context.Context, _ *Call) (*http.Response, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
}

// Kept does what was asked for, and keeps the request for Replay.
func Kept() Fault {
	return func(ctx context.Context, c *Call) (*http.Response, error) {
		c.t.mu.Lock()
		c.t.kept = append(c.t.kept, c)
		c.t.mu.Unlock()
		return c.Perform(ctx)
	}
}

// Replay makes the kept requests again, as a network does that delivers twice,
// and returns their answers.
func (t *Transport) Replay(ctx context.Context) (answers []string, err error) {
	t.mu.Lock()
	kept := t.kept
	t.kept = nil
	t.mu.Unlock()
	for _, c := range kept {
		response, err := c.Perform(ctx)
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return nil, fmt.Errorf("response: %w", err)
		}
		if err := response.Body.Close(); err != nil {
			return nil, fmt.Errorf("response: %w", err)
		}
		answers = append(answers, string(body))
	}
	return answers, nil
}

// Unprocessed answers a batch with all of it left to do.
func Unprocessed() Fault {
	return func(_ context.Context, c *Call) (*http.Response, error) {
		var body struct {
			RequestItems json.RawMessage `json:"RequestItems"`
		}
		if err := json.Unmarshal(c.Body, &body); err != nil {
			return nil, fmt.Errorf("batch: %w", err)
		}
		if c.Op == "BatchGetItem" {
			return answer(http.StatusOK, map[string]any{"Responses": map[string]any{}, "UnprocessedKeys": body.RequestItems})
		}
		return answer(http.StatusOK, map[string]any{"UnprocessedItems": body.RequestItems})
	}
}
