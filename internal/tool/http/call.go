package http

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool/outside"
)

const (
	// requestMost is how long one exchange may take; what takes longer answers
	// through its promise.
	requestMost = 60 * time.Second
	answerMax   = 1 << 20 // bytes of an answer that is read
)

// Headers of a call. The signature is that of webhooks: t=<unix seconds>,
// v1=<hex HMAC-SHA-256 of "<t>.<body>">. A GET has no body; there the operation
// id stands in for it.
const (
	SignatureHeader   = "X-Perdure-Signature"
	IdempotencyHeader = "Idempotency-Key"
)

// Caller makes the calls of all outside tools.
type Caller struct {
	// Transport makes the connections. It must not follow what it is not meant
	// to reach: see internal/netguard.
	Transport http.RoundTripper
	// Secret returns the value of a tenant's secret by its name.
	Secret func(ctx context.Context, tenant ident.TenantID, name string) (string, error)
	// Now is the time, for signatures.
	Now func() ident.Instant
	// SettleURL is where a promise's token is settled, if this server knows
	// its own address; may be nil.
	SettleURL func(token string) string
}

// outsideTool is one tool.
type outsideTool struct {
	*Caller
	outside.Definition

	answers outside.Answers
}

func (t *outsideTool) run(ctx context.Context, call host.ToolCall) (host.ToolResult, error) {
	c := outside.NewCall(call, t.SettleURL)
	body, err := c.JSON()
	if err != nil {
		return host.ToolResult{}, err
	}
	resp, err := t.exchange(ctx, call, http.MethodPost, t.URL, body, string(body))
	if err != nil {
		return host.ToolResult{}, err
	}
	return t.answered(resp)
}

// lookup asks what became of an operation: 200 is its result, 202 says that it
// is still being worked on, 404 that the other side cannot tell.
func (t *outsideTool) lookup(ctx context.Context, call host.ToolCall) (host.ToolResult, bool, error) {
	u, err := url.Parse(t.URL)
	if err != nil {
		return host.ToolResult{}, false, &host.Fault{Class: host.ClassInvalid, Message: "the tool's url cannot be read"}
	}
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += "operation=" + url.QueryEscape(call.Operation)
	resp, err := t.exchange(ctx, call, http.MethodGet, u.String(), nil, call.Operation)
	if err != nil {
		return host.ToolResult{}, false, err
	}
	switch resp.status {
	case http.StatusOK, http.StatusAccepted:
		res, err := t.answered(resp)
		return res, err == nil, err
	case http.StatusNotFound:
		return host.ToolResult{}, false, nil
	}
	if _, err := t.answered(resp); err != nil {
		return host.ToolResult{}, false, err
	}
	// Any other refusal is of the question, and says nothing of the operation.
	return host.ToolResult{}, false, nil
}

// response is an answer that has been read.
type response struct {
	status int
	header http.Header
	body   []byte
	over   bool // the body was longer than what is read
}

// exchange makes one request. Its error is always a *host.Fault.
func (t *outsideTool) exchange(ctx context.Context, call host.ToolCall, method, to string, body []byte, signed string) (*response, error) {
	limited, cancel := context.WithTimeout(ctx, t.patience())
	defer cancel()
	// From the moment there is a connection, bytes may be on their way.
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(limited, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	req, err := http.NewRequestWithContext(traced, method, to, bytes.NewReader(body))
	if err != nil {
		return nil, &host.Fault{Class: host.ClassInvalid, Message: "the tool's url cannot be used"}
	}
	// With GetBody the transport may send a request again by itself when a
	// connection breaks. Whether a call may be sent twice is not for it to say.
	req.GetBody = nil
	// A connection kept from an earlier call may be closing just now: a fresh
	// one leaves less that is unknown.
	req.Close = true
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set(IdempotencyHeader, call.Operation)
	if err := t.sign(ctx, call, req, signed); err != nil {
		return nil, err
	}
	resp, err := t.Transport.RoundTrip(req)
	if err != nil {
		return nil, failure(ctx, limited, sent.Load(), err)
	}
	defer func() { _ = resp.Body.Close() }() // read whole or given up; nothing is lost by it
	data, err := io.ReadAll(io.LimitReader(resp.Body, answerMax+1))
	if err != nil && resp.StatusCode < http.StatusBadRequest {
		return nil, failure(ctx, limited, true, err)
	}
	return &response{
		status: resp.StatusCode, header: resp.Header, body: data[:min(len(data), answerMax)], over: len(data) > answerMax,
	}, nil
}

// patience is how long one exchange may take.
func (t *outsideTool) patience() time.Duration {
	if own := time.Duration(t.TimeoutSeconds) * time.Second; own > 0 && own < requestMost {
		return own
	}
	return requestMost
}

func (t *outsideTool) sign(ctx context.Context, call host.ToolCall, req *http.Request, text string) error {
	if t.Definition.Secret == "" {
		return nil
	}
	secret, err := t.Caller.Secret(ctx, call.Key.Tenant, t.Definition.Secret)
	if err != nil || secret == "" {
		// Not unsigned instead: the other side takes the signature for proof.
		return &host.Fault{Class: host.ClassAuthentication, Message: "the secret " + t.Definition.Secret + " of the tool is not there", Err: err}
	}
	req.Header.Set(SignatureHeader, Sign(secret, t.Now(), text))
	return nil
}

// Sign is the value of the signature header for a text at a time.
func Sign(secret string, at ident.Instant, text string) string {
	unix := strconv.FormatInt(int64(at)/ident.Second, 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(unix + "." + text))
	return "t=" + unix + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// failure says what kept an exchange from coming to an end, and whether the
// other side may have got the request.
func failure(ctx, limited context.Context, sent bool, err error) *host.Fault {
	f := &host.Fault{Class: host.ClassNetwork, Message: "the tool's server could not be reached", Sent: sent, Err: err}
	var refused interface{ Permanent() bool }
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		f.Class, f.Message = host.ClassStopped, "the call was stopped"
	case limited.Err() != nil:
		f.Class, f.Message = host.ClassTimeout, "the tool's server did not answer in time"
	case errors.As(err, &refused) && refused.Permanent():
		f.Class, f.Message, f.Sent = host.ClassAccess, "the address of the tool's server may not be reached", false
	case sent:
		f.Message = "the connection to the tool's server was lost"
	}
	return f
}
