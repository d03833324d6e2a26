package openai

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
)

// Bounds of what a server may make this process hold.
const (
	answerBytesMax = 16 << 10 << 10 // of a whole answer
	lineBytesMax   = 4 << 20        // of one line of it
	errorBytesMax  = 64 << 10       // of the body of a refusal; the rest is not read
	refusalsMax    = 1024           // addresses remembered for what they do not take
)

var (
	errIdle   = errors.New("no byte came for too long")
	errAnswer = errors.New("the answer is too large")
	errLine   = errors.New("a line of the answer is too long")
)

// send does one HTTP exchange and reads the answer to its end.
func (m *Model) send(parent context.Context, to target, body []byte, answer *answer) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)

	var wire wire

	guard := func(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		res, err := next(req)
		if err == nil {
			res.Body = newGuard(res, m.cfg.IdleTimeout, cancel)
		}

		return res, err // the client's pipeline tells its own errors apart
	}

	var res *http.Response

	options := []option.RequestOption{
		option.WithBaseURL(to.base),
		option.WithRequestBody("application/json", body),
		option.WithMiddleware(guard),
		option.WithResponseInto(&res),
	}
	if to.key != "" {
		options = append(options, option.WithAPIKey(to.key))
	}

	stream := m.chat.NewStreaming(wire.trace(ctx), sdk.ChatCompletionNewParams{}, options...)
	defer stream.Close() //nolint:errcheck // nothing more is wanted of the connection

	// The client hands the response over also where it cannot make an error of
	// its body, which is why the status is looked at before the error.
	switch err := stream.Err(); {
	case parent.Err() != nil:
		return m.stopped(parent.Err(), wire.mayHaveSent())
	case res != nil && res.StatusCode >= http.StatusMultipleChoices:
		return m.refusal(to, res)
	case err != nil:
		return m.broken(context.Cause(ctx), err, wire.mayHaveSent())
	case isPage(res):
		return m.page()
	}

	err := answer.read(parent, res)

	switch {
	case err == nil:
		return nil // a whole answer is one, whoever has stopped waiting for it
	case parent.Err() != nil:
		return m.stopped(parent.Err(), wire.mayHaveSent())
	}

	return m.broken(context.Cause(ctx), err, true)
}

// wire watches what a transport does with a request.
type wire struct{ asked, connected atomic.Bool }

func (w *wire) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { w.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { w.connected.Store(true) },
	})
}

// mayHaveSent is false when it is certain that no byte of the request left: the
// transport looked for a connection and got none. One that reports nothing has
// to be taken for one that sent.
func (w *wire) mayHaveSent() bool { return !w.asked.Load() || w.connected.Load() }

// guard bounds a response body in bytes, in the length of a line and in
// silence. It is read by one goroutine.
type guard struct {
	body   io.ReadCloser
	left   int64
	line   int
	cut    bool // end quietly at the bound: the body of a refusal
	idle   time.Duration
	cancel context.CancelCauseFunc
}

func newGuard(res *http.Response, idle time.Duration, cancel context.CancelCauseFunc) *guard {
	g := &guard{body: res.Body, left: answerBytesMax, idle: idle, cancel: cancel}
	if res.StatusCode >= http.StatusMultipleChoices {
		g.left, g.cut = errorBytesMax, true
	}

	return g
}

// Read implements io.Reader.
func (g *guard) Read(p []byte) (int, error) {
	if g.left <= 0 {
		if g.cut {
			return 0, io.EOF
		}

		return 0, errAnswer
	}

	p = p[:min(int64(len(p)), g.left)]

	// A read of a body cannot be given a deadline; cancelling the request is
	// what ends it, and closes the connection.
	timer := time.AfterFunc(g.idle, func() { g.cancel(errIdle) })
	n, err := g.body.Read(p)
	timer.Stop()

	g.left -= int64(n)
	if !g.cut && !g.measure(p[:n]) {
		return 0, errLine
	}

	return n, err //nolint:wrapcheck // readers compare with io.EOF
}

// measure follows the length of the current line.
func (g *guard) measure(p []byte) bool {
	for _, c := range p {
		if c == '\n' {
			g.line = 0
		} else if g.line++; g.line > lineBytesMax {
			return false
		}
	}

	return true
}

// Close implements io.Closer.
func (g *guard) Close() error { return g.body.Close() } //nolint:wrapcheck // a plain hand-through

// events decodes server-sent events. The empty lines at the end are for
// servers that stop right after the last event's data.
func events(body io.ReadCloser) ssestream.Decoder {
	padded := struct {
		io.Reader
		io.Closer
	}{io.MultiReader(body, strings.NewReader("\n\n")), body}

	return ssestream.NewDecoder(&http.Response{Body: padded, Header: http.Header{"Content-Type": {"text/event-stream"}}})
}

// refusals remembers which addresses do not take stream_options. Forgetting is
// harmless: it costs one more refused request.
type refusals struct {
	mu    sync.Mutex
	bases map[string]bool
}

func (r *refusals) has(base string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.bases[base]
}

func (r *refusals) add(base string) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.bases == nil || len(r.bases) >= refusalsMax {
		r.bases = map[string]bool{}
	}

	r.bases[base] = true
}

// refusesUsage says that the server refused the request for the option that
// asks for usage, by name.
func refusesUsage(err error) bool {
	refused, ok := errors.AsType[*refusedError](err)

	return ok &&
		(refused.status == http.StatusBadRequest || refused.status == http.StatusUnprocessableEntity) &&
		refused.mentions("stream_options", "include_usage")
}
