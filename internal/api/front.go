package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/api/strict"
	"github.com/perdure/perdure/internal/host"
)

// BodyMax bounds a JSON body, in bytes.
const BodyMax = 2 << 20

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	tw := &tracked{ResponseWriter: w}
	defer s.recovered(tw, r)
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if p := s.front(tw, r); p != nil {
		p.write(tw)
	}
}

// front is all that stands before a handler: what it returns is the answer.
func (s *server) front(w *tracked, r *http.Request) *Problem {
	known, isKnown := trustedOf(r)
	if !isKnown {
		if p := s.Guard.check(r); p != nil {
			return p
		}
	}
	rt, p := s.match(r)
	if p != nil {
		return p
	}
	w.route = rt.op.Path
	req := &request{via: via(r)}
	if isKnown {
		req.via = known.via
	}
	if !rt.public {
		if req.who, p = s.authenticate(r, rt); p != nil {
			return p
		}
	}
	if req.query, p = rt.readQuery(r.URL.RawQuery); p != nil {
		return p
	}
	// The reader of the body tells the server's own writer when it is too large.
	body, p := s.readBody(w.ResponseWriter, r, rt)
	if p != nil {
		return p
	}
	key, p := idempotencyKey(r)
	if p != nil {
		return p
	}
	ctx := context.WithValue(r.Context(), requestKey{}, req)
	r = r.WithContext(ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	req.Request = r
	switch {
	case key == "":
	case rt.submission:
		req.submission = key
	case rt.op.Method == http.MethodPost:
		return s.once(ctx, w, req, rt, key, body)
	}
	s.mux.ServeHTTP(w, r)
	return nil
}

// match finds the route, without serving it. A path that would be redirected
// to its clean form is no path of ours.
func (s *server) match(r *http.Request) (*route, *Problem) {
	clean := path.Clean("/" + r.URL.Path)
	h, pattern := s.mux.Handler(r)
	if rt := s.routes[method(r)+strings.TrimPrefix(pattern, strings.SplitN(pattern, " ", 2)[0])]; rt != nil && pattern != "" && clean == r.URL.Path {
		return rt, nil
	}
	if pattern == "" && clean == r.URL.Path {
		// What the mux would answer says whether the path is there for other
		// methods.
		probe := &probe{header: http.Header{}}
		h.ServeHTTP(probe, r)
		if probe.status == http.StatusMethodNotAllowed {
			p := invalid("this path is not for the method " + method(r))
			p.Status, p.Title, p.allow = probe.status, "Method not allowed", probe.header.Get("Allow")
			return nil, p
		}
	}
	return nil, problem(host.CodeNotFound, "there is nothing at this path")
}

// method is the request's, where HEAD asks what GET would answer.
func method(r *http.Request) string {
	if r.Method == http.MethodHead {
		return http.MethodGet
	}
	return r.Method
}

// probe takes an answer that nobody gets.
type probe struct {
	header http.Header
	status int
}

func (p *probe) Header() http.Header         { return p.header }
func (p *probe) Write(b []byte) (int, error) { return len(b), nil }
func (p *probe) WriteHeader(status int)      { p.status = status }

// readQuery checks the query: names that the route knows, each once.
func (rt *route) readQuery(raw string) (map[string]string, *Problem) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, invalid("the query cannot be read")
	}
	out := make(map[string]string, len(values))
	for name, vs := range values {
		switch {
		case !utf8.ValidString(name) || !utf8.ValidString(vs[0]):
			return nil, invalid("the query is not UTF-8")
		case !rt.takes(name):
			return nil, invalidAt("query", "a parameter is not known here; known are: "+rt.known())
		case len(vs) > 1:
			return nil, invalidAt("query", "a parameter is there twice")
		}
		out[name] = vs[0]
	}
	return out, nil
}

func (rt *route) known() string {
	if len(rt.query)+len(rt.prefixes) == 0 {
		return "none"
	}
	names := slices.Clone(rt.query)
	for _, p := range rt.prefixes {
		names = append(names, p+"…")
	}
	return strings.Join(names, ", ")
}

// readBody reads a body whole, within its bound, and checks that it can be
// read in one way only. Nothing is parsed before the size is known.
func (s *server) readBody(w http.ResponseWriter, r *http.Request, rt *route) ([]byte, *Problem) {
	if rt.body == nil {
		return nil, nil
	}
	if r.ContentLength > BodyMax {
		return nil, tooLarge()
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, BodyMax))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, tooLarge()
	case err != nil:
		return nil, invalid("the body could not be read whole")
	case len(body) == 0 && rt.must:
		return nil, invalid("a body is missing")
	case len(body) == 0:
		return nil, nil
	}
	if p := checkMedia(r.Header); p != nil {
		return nil, p
	}
	// What huma compares byte by byte.
	r.Header.Set("Content-Type", "application/json")
	if err := strict.Check(body); err != nil {
		return nil, invalidAt("body", err.Error())
	}
	return body, s.checkNames(rt.body, body)
}

func tooLarge() *Problem {
	return problem(host.CodeTooLarge, "a JSON body has at most 2 MiB")
}

func checkMedia(h http.Header) *Problem {
	media, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	charset := params["charset"]
	switch {
	case err != nil || media != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8"):
		return invalidAt("header.Content-Type", "the body must be application/json")
	case h.Get("Content-Encoding") != "" && !strings.EqualFold(h.Get("Content-Encoding"), "identity"):
		return invalidAt("header.Content-Encoding", "the body must not be encoded")
	}
	return nil
}

func idempotencyKey(r *http.Request) (string, *Problem) {
	values := r.Header.Values("Idempotency-Key")
	if len(values) == 0 || r.Method != http.MethodPost {
		return "", nil
	}
	if _, err := ident.ParseSubmissionID(values[0]); err != nil || len(values) > 1 {
		return "", invalidAt("header.Idempotency-Key", "one key of 1 to 128 visible ASCII characters")
	}
	return values[0], nil
}

// recovered ends a request whose handler has panicked: the log is told where and
// of what kind, the client nothing. The value itself may be a session's text.
func (s *server) recovered(w *tracked, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler { //nolint:errorlint,err113 // the very value is what net/http panics with
		panic(v)
	}
	s.Log.ErrorContext(r.Context(), "panic", "method", r.Method, "route", w.route, "value", host.PanicText(v), "stack", string(debug.Stack()))
	if w.began {
		// What was sent is half an answer: it must not look like a whole one.
		panic(http.ErrAbortHandler)
	}
	problem(codeInternal, "").write(w)
}

// tracked knows whether an answer has begun, and of which route: the path
// itself may hold a promise token, which no log line may.
type tracked struct {
	http.ResponseWriter
	began bool
	route string
}

// WriteHeader implements http.ResponseWriter.
func (t *tracked) WriteHeader(status int) {
	t.began = true
	t.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (t *tracked) Write(b []byte) (int, error) {
	t.began = true
	return t.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (t *tracked) Unwrap() http.ResponseWriter { return t.ResponseWriter }
