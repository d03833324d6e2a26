package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// ServeRequest serves one request of the API. request is the id of the
// invocation.
func (f *Function) ServeRequest(w http.ResponseWriter, r *http.Request, request string) {
	sent := &begun{ResponseWriter: w}
	err := f.invoke(r.Context(), request, func(ctx context.Context, p *parts) error {
		p.handler.ServeHTTP(sent, r.WithContext(ctx))
		return nil
	})
	if err != nil && !sent.yet {
		unavailable(w, err)
	}
}

// reserve ends a context so long before its deadline.
func reserve(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	until, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, until.Add(-d))
}

// begun knows whether an answer has begun.
type begun struct {
	http.ResponseWriter

	yet bool
}

// WriteHeader implements http.ResponseWriter.
func (b *begun) WriteHeader(status int) {
	b.yet = true
	b.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (b *begun) Write(p []byte) (int, error) {
	b.yet = true
	return b.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (b *begun) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// unavailable is the answer of a function that cannot ask its API: what is wrong
// is the operator's to know, and the log has told them.
func unavailable(w http.ResponseWriter, err error) {
	p := problem{
		Type: "urn:perdure:problem:" + FailedUnavailable, Title: "Not available now", Status: http.StatusServiceUnavailable, Code: FailedUnavailable,
		Detail:            "the service is not set up, or cannot reach what it works with; its operator finds the reason in the log of the function",
		RetryAfterSeconds: 1,
	}
	if f, ok := errors.AsType[*InvocationError](err); ok && f.Code == FailedInternal {
		p = problem{Type: "urn:perdure:problem:" + FailedInternal, Title: "Something went wrong here", Status: http.StatusInternalServerError, Code: FailedInternal}
	}
	answer(w, p)
}

// answer sends a problem.
func answer(w http.ResponseWriter, p problem) {
	body, err := json.Marshal(p)
	if err != nil {
		http.Error(w, p.Title, p.Status) // every field is a plain one: this cannot be
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	if p.RetryAfterSeconds > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfterSeconds))
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // who is gone needs no answer
}

// problem is an answer as the API gives them (RFC 9457), where there is no API.
type problem struct {
	Type              string `json:"type"`
	Title             string `json:"title"`
	Status            int    `json:"status"`
	Detail            string `json:"detail,omitempty"`
	Code              string `json:"code"`
	RetryAfterSeconds int    `json:"retryAfterSeconds,omitempty"`
}
