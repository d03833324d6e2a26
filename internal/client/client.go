// Package client speaks the HTTP API: one method a route, typed by the
// contract's own types, with problems as *ProblemError.
//
// It keeps no state of sessions and decides nothing. It sends again only what
// cannot do harm twice, reads and writes that carry an idempotency key, and that
// only while nobody has decided it: the server was not ready (503), there were
// too many requests (429), or no answer came. It may import the standard library
// and internal/api for its types.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/api"
)

// Bounds of trying again.
const (
	triesMost     = 6
	pauseFirst    = 200 * time.Millisecond // doubles
	pauseMost     = 5 * time.Second
	answerMax     = 64 << 20 // bytes of an answer; a log is streamed and may be longer
	connectWithin = 5 * time.Second
	// A long poll takes 20 s, and a commit that meets others 10 s.
	answerWithin = 60 * time.Second
)

// Client calls one server. It is safe for concurrent use.
type Client struct {
	base string
	key  string
	http *http.Client
	// Tap, if set before use, is shown the JSON of each answer as it came.
	Tap func(raw json.RawMessage)
	// pause waits between tries; tests replace it.
	pause func(ctx context.Context, d time.Duration) error
}

// userAgent says that a person's command asks: the record shows it.
const userAgent = "perdure-cli"

// New makes a client of the server at a base URL. An empty key sends none.
func New(base, key string) *Client {
	transport := &http.Transport{
		Proxy:                 proxy,
		DialContext:           atHome((&net.Dialer{Timeout: connectWithin}).DialContext),
		ResponseHeaderTimeout: answerWithin,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       90 * time.Second,
		ForceAttemptHTTP2:     true,
	}
	return &Client{
		base: strings.TrimRight(base, "/"), key: key, pause: pause,
		// The key goes to the server that was named, and nowhere that it sends
		// us to.
		http: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
}

// Base is the server's URL.
func (c *Client) Base() string { return c.base }

// ProblemError is what the server answered instead (RFC 9457).
type ProblemError struct {
	api.Problem
	// Raw is the whole answer, empty if it was none of this API's.
	Raw json.RawMessage
}

// Error is title, detail and code on one line.
func (p *ProblemError) Error() string {
	var b strings.Builder
	b.WriteString(p.Title)
	if p.Detail != "" && p.Detail != p.Title {
		b.WriteString(": " + p.Detail)
	}
	for _, e := range p.Errors {
		b.WriteString("; " + e.Location + ": " + e.Message)
	}
	b.WriteString(" (" + p.Code + ")")
	return b.String()
}

// Code is the problem's code, empty if the error is none.
func Code(err error) string {
	if p, ok := errors.AsType[*ProblemError](err); ok {
		return p.Code
	}
	return ""
}

// UnreachableError says that nobody answered.
type UnreachableError struct {
	Base string
	Err  error
}

func (e *UnreachableError) Error() string { return "no answer from " + e.Base + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// request is one call of the API.
type request struct {
	method string
	path   string
	query  url.Values
	body   any // JSON
	header http.Header
}

// segment makes an id part of a path.
func segment(id string) string { return url.PathEscape(id) }

// call sends a request and decodes the answer into out, which may be nil.
func (c *Client) call(ctx context.Context, r request, out any) error {
	resp, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // read whole or given up
	data, err := io.ReadAll(io.LimitReader(resp.Body, answerMax))
	if err != nil {
		return &UnreachableError{c.base, err}
	}
	if c.Tap != nil && len(data) > 0 {
		c.Tap(data)
	}
	if out == nil || len(data) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("the answer of %s %s cannot be read: %w", r.method, r.path, err)
	}
	return nil
}

// send returns an answer of success. What may be repeated it tries again while
// the server says that it is not ready or has too much to do, or nobody answers.
func (c *Client) send(ctx context.Context, r request) (*http.Response, error) {
	body, err := r.payload()
	if err != nil {
		return nil, err
	}
	repeatable := r.method == http.MethodGet || r.method == http.MethodPut || r.header.Get(idempotencyKey) != ""
	for try := 1; ; try++ {
		resp, err := c.once(ctx, r, body)
		if err == nil || ctx.Err() != nil || try == triesMost || !again(err, repeatable) {
			return resp, err
		}
		if waited := c.pause(ctx, retryAfter(err, try)); waited != nil {
			return nil, err
		}
	}
}

// again says whether an error is worth another try. A refused connection is
// not: nobody is there, and a person waits. Nor is a budget that is used up.
func again(err error, repeatable bool) bool {
	if p, ok := errors.AsType[*ProblemError](err); ok {
		busy := p.Status == http.StatusTooManyRequests && p.Code != codeQuota
		return repeatable && (busy || p.Status == http.StatusServiceUnavailable)
	}
	op, ok := errors.AsType[*net.OpError](err)
	refused := ok && op.Op == "dial"
	return repeatable && !refused
}

func retryAfter(err error, try int) time.Duration {
	d := min(pauseFirst<<(try-1), pauseMost)
	if p, ok := errors.AsType[*ProblemError](err); ok && p.RetryAfterSeconds > 0 {
		d = min(time.Duration(p.RetryAfterSeconds)*time.Second, pauseMost)
	}
	return d
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r request) payload() ([]byte, error) {
	if r.body == nil {
		return nil, nil
	}
	if raw, ok := r.body.(json.RawMessage); ok {
		return raw, nil
	}
	data, err := json.Marshal(r.body)
	if err != nil {
		return nil, fmt.Errorf("the request cannot be written: %w", err)
	}
	return data, nil
}

func (c *Client) once(ctx context.Context, r request, body []byte) (*http.Response, error) {
	to := c.base + r.path
	if len(r.query) > 0 {
		to += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, to, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("the request cannot be made: %w", err)
	}
	maps.Copy(req.Header, r.header)
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", userAgent)
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		// The library's own error repeats the URL; the cause says it all.
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		return nil, &UnreachableError{c.base, err}
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return nil, problem(resp)
	}
	return resp, nil
}

// Codes of the contract that the client knows by name.
const (
	codeQuota       = "quota_exceeded"
	codeRate        = "rate_limited"
	codeTooLarge    = "too_large"
	codeUnavailable = "unavailable"
)

// problem reads a refusal. Not all come from the server itself: what stands
// between may answer in words of its own.
func problem(resp *http.Response) error {
	defer func() { _ = resp.Body.Close() }() // read whole or given up
	const most = 1 << 20
	data, _ := io.ReadAll(io.LimitReader(resp.Body, most)) // what there is will do
	p := &ProblemError{Raw: data}
	if json.Unmarshal(data, &p.Problem) != nil || p.Code == "" {
		p = &ProblemError{Problem: wordless(resp.StatusCode)}
	}
	p.Status = resp.StatusCode
	if p.Title == "" {
		p.Title = resp.Status
	}
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && p.RetryAfterSeconds == 0 {
		p.RetryAfterSeconds = n
	}
	return p
}

// wordless is a refusal that is none of this API's. Some statuses are what stands
// before the right server says for it: a function without free concurrency behind
// a URL of its own answers 429 with AWS's words and no Retry-After
// (https://docs.aws.amazon.com/lambda/latest/dg/urls-configuration.html#urls-throttling),
// a gateway 413, 429 and 503.
func wordless(status int) api.Problem {
	switch status {
	case http.StatusTooManyRequests:
		return api.Problem{Code: codeRate, Detail: "the server has as many requests as it may take at once: try again later"}
	case http.StatusServiceUnavailable:
		return api.Problem{Code: codeUnavailable, Detail: "the server does not answer for now: try again later"}
	case http.StatusRequestEntityTooLarge:
		return api.Problem{Code: codeTooLarge, Detail: "the request is larger than what is before the server takes"}
	default:
		return api.Problem{Code: "unknown", Detail: "the answer is none of this API's: is this the right server?"}
	}
}
