package openaitest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

// T is what New needs of a test.
type T interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
}

// Server is a Handler that listens on this machine while a test runs.
type Server struct {
	*Handler

	// URL is the base URL for clients.
	URL string
}

// New starts a server. At the end of the test it reports the requests that were
// refused for their shape, unless AllowRefused was called, and replies that
// nobody asked for.
func New(t T) *Server {
	t.Helper()

	h := NewHandler()
	listening := httptest.NewServer(h)

	t.Cleanup(func() {
		h.Release()
		listening.Close()

		h.mu.Lock()
		defer h.mu.Unlock()

		if !h.refusedOK {
			for _, r := range h.requests {
				if r.Refused != "" {
					t.Errorf("openaitest: a request was refused: %s\n%s", r.Refused, r.Body)
				}
			}
		}

		if len(h.replies) > 0 {
			t.Errorf("openaitest: %d replies were not asked for", len(h.replies))
		}
	})

	return &Server{Handler: h, URL: listening.URL + "/v1"}
}

// Request is one request as it came.
type Request struct {
	Header http.Header
	Path   string
	Body   []byte
	// Refused says what is wrong with its shape; empty is nothing.
	Refused string
	// Gone is closed when the client's connection has closed, or the answer is
	// out.
	Gone <-chan struct{}
	// Aborted says, once Gone is closed, that the client went first.
	aborted *bool
	mu      *sync.Mutex
}

// Aborted says, once Gone is closed, that the client went away before the
// answer was out.
func (r Request) Aborted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	return *r.aborted
}

// Messages is the raw JSON of the request's messages, array included.
func (r Request) Messages() string {
	var body struct {
		Messages json.RawMessage `json:"messages"`
	}

	if json.Unmarshal(r.Body, &body) != nil {
		return ""
	}

	return string(body.Messages)
}

// Handler is the server as an http.Handler. Beside the protocol it serves, for
// whoever runs it in a process of its own, POST /control/replies (a JSON array
// of replies to enqueue) and GET /control/requests (the bodies so far).
type Handler struct {
	// Rules say how strict it is; set them before the first request.
	Rules Rules
	// Fallback answers when no reply is left; nil is an error.
	Fallback func(Request) Reply

	mu        sync.Mutex
	replies   []Reply
	requests  []Request
	refusedOK bool
	released  chan struct{}
	release   sync.Once
	watching  []watch
}

// watch is somebody who waits for the nth request.
type watch struct {
	n    int
	seen chan struct{}
}

// NewHandler makes a Handler with the rules of the real server.
func NewHandler() *Handler { return &Handler{released: make(chan struct{})} }

// Enqueue adds replies, given in order.
func (h *Handler) Enqueue(replies ...Reply) {
	h.mu.Lock()
	defer h.mu.Unlock()

	h.replies = append(h.replies, replies...)
}

// AllowRefused keeps refused requests from failing the test.
func (h *Handler) AllowRefused() {
	h.mu.Lock()
	defer h.mu.Unlock()

	h.refusedOK = true
}

// Requests are all requests so far, in the order in which they came.
func (h *Handler) Requests() []Request {
	h.mu.Lock()
	defer h.mu.Unlock()

	return append([]Request(nil), h.requests...)
}

// Seen is closed when the nth request (from 1) has come, or the test is over.
func (h *Handler) Seen(n int) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()

	seen := make(chan struct{})
	if len(h.requests) >= n {
		close(seen)
	} else {
		h.watching = append(h.watching, watch{n, seen})
	}

	return seen
}

// Release ends every hold.
func (h *Handler) Release() {
	h.release.Do(func() { close(h.released) })

	h.mu.Lock()
	defer h.mu.Unlock()

	for _, w := range h.watching {
		close(w.seen)
	}

	h.watching = nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}

	switch {
	case r.URL.Path == "/control/replies" && r.Method == http.MethodPost:
		h.control(w, body)
	case r.URL.Path == "/control/requests" && r.Method == http.MethodGet:
		h.report(w)
	default:
		h.complete(w, r, body)
	}
}

func (h *Handler) control(w http.ResponseWriter, body []byte) {
	var replies []Reply
	if err := json.Unmarshal(body, &replies); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)

		return
	}

	h.Enqueue(replies...)
	w.WriteHeader(http.StatusNoContent)
}

func (h *Handler) report(w http.ResponseWriter) {
	bodies := []json.RawMessage{}

	for _, r := range h.Requests() {
		if json.Valid(r.Body) {
			bodies = append(bodies, r.Body)
		}
	}

	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(bodies) // the client may have gone
}

// complete serves one completion.
func (h *Handler) complete(w http.ResponseWriter, r *http.Request, body []byte) {
	gone, aborted := make(chan struct{}), false
	request := Request{Header: r.Header.Clone(), Path: r.URL.Path, Body: body, Gone: gone, aborted: &aborted, mu: &sync.Mutex{}}
	problem := h.Rules.check(r, body)

	if problem != nil && problem.shape {
		request.Refused = problem.Message
	}

	reply := h.take(request, problem == nil)

	defer func() {
		request.mu.Lock()
		// The context also ends when this function returns, but not before.
		aborted = r.Context().Err() != nil
		request.mu.Unlock()
		close(gone)
	}()

	if problem != nil {
		refuse(w, problem.status, &problem.APIError)

		return
	}

	h.write(w, r, body, reply)
}

func (h *Handler) take(request Request, wanted bool) Reply {
	h.mu.Lock()
	defer h.mu.Unlock()

	h.requests = append(h.requests, request)
	h.watching = slices.DeleteFunc(h.watching, func(w watch) bool {
		if len(h.requests) < w.n {
			return false
		}

		close(w.seen)

		return true
	})

	switch {
	case !wanted:
		return Reply{}
	case len(h.replies) > 0:
		reply := h.replies[0]
		h.replies = h.replies[1:]

		return reply
	case h.Fallback != nil:
		return h.Fallback(request)
	}

	return Refuse(http.StatusNotImplemented, "test_error", "no_reply", "openaitest: no reply is enqueued for this request")
}

func refuse(w http.ResponseWriter, status int, e *APIError) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)

	if e != nil {
		_, _ = fmt.Fprint(w, text(map[string]any{"error": map[string]any{
			"message": e.Message, "type": e.Type, "param": orNull(e.Param), "code": orNull(e.Code),
		}}))
	}
}

func orNull(s string) any {
	if s == "" {
		return nil
	}

	return s
}

// hold waits until the client goes away, or the reply or the test lets go. It
// says whether the client is still there.
func (h *Handler) hold(r *http.Request, reply *Reply) bool {
	var after <-chan time.Time

	if reply.HoldMs > 0 {
		timer := time.NewTimer(time.Duration(reply.HoldMs) * time.Millisecond)
		defer timer.Stop()

		after = timer.C
	}

	select {
	case <-r.Context().Done():
		return false
	case <-h.released:
	case <-reply.Gate:
	case <-after:
	}

	return true
}

func (h *Handler) write(w http.ResponseWriter, r *http.Request, body []byte, reply Reply) {
	if reply.HoldBefore && !h.hold(r, &reply) {
		return
	}

	for name, value := range reply.Header {
		w.Header().Set(name, value)
	}

	if reply.Status != 0 && reply.Status != http.StatusOK && reply.Body == "" {
		refuse(w, reply.Status, reply.Error)

		return
	}

	contentType := reply.ContentType
	if contentType == "" {
		contentType = "text/event-stream; charset=utf-8"
	}

	w.Header().Set("Content-Type", contentType)

	if reply.Status != 0 {
		w.WriteHeader(reply.Status)
	}

	flush := http.NewResponseController(w)

	send := func(text string) bool {
		_, err := io.WriteString(w, text)

		return err == nil && flush.Flush() == nil
	}

	if reply.Body != "" {
		if send(reply.Body) && reply.Hold {
			h.hold(r, &reply)
		}

		if reply.Cut {
			panic(http.ErrAbortHandler) // how net/http is told to drop a connection
		}

		return
	}

	h.stream(r, body, &reply, send)
}

// stream sends the events of a reply.
func (h *Handler) stream(r *http.Request, body []byte, reply *Reply, send func(string) bool) {
	var asked struct {
		Model   string `json:"model"`
		Options struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}

	_ = json.Unmarshal(body, &asked) // it has been checked

	data := func(event string) bool {
		if reply.Comments && !send(": keep-alive\n\n") {
			return false
		}

		return send("data: " + event + "\n\n")
	}

	for i, event := range reply.events(asked.Model) {
		if !data(event) {
			return
		}

		// The first event has only the role.
		if i == 1 && reply.Hold && !h.hold(r, reply) {
			return
		}
	}

	if reply.Cut {
		panic(http.ErrAbortHandler) // how net/http is told to drop a connection
	}

	if reply.StreamError != nil {
		data(text(map[string]any{"error": reply.StreamError}))

		return
	}

	if event, ok := reply.end(asked.Model); ok && !data(event) {
		return
	}

	if asked.Options.IncludeUsage && !reply.NoUsage && !data(reply.usage(asked.Model)) {
		return
	}

	if !reply.NoDone {
		data("[DONE]")
	}
}

// isCompletion says whether the path is that of a completion.
func isCompletion(path string) bool { return strings.HasSuffix(path, "/chat/completions") }
