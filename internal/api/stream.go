package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// Streams says how live streams are served. The zero value serves events.
type Streams struct {
	// Live has what is said by turns in flight; without it there are events
	// alone.
	Live host.LiveFrames
	// URL is where streams are served, if that is not where the API is: scheme
	// and host. Who asks for one under another name is sent there.
	URL string
	// For is how long a stream lasts before its client is asked to come again; 0
	// is as long as both sides are there.
	For time.Duration
	// Ping is how long a stream may be silent (15 s).
	Ping time.Duration
}

const (
	pingEvery = 15 * time.Second
	// limitReserve is what is left of a request's own time when its stream ends.
	limitReserve = 10 * time.Second
)

func (s *server) addStreams() {
	r := on(http.MethodGet, "/v1/sessions/{id}/stream", "streamSession", "Follow a session as Server-Sent Events", http.StatusOK, ScopeRead)
	r.ticket = true
	r.op.Description = "Begins with the first event if neither after nor Last-Event-ID is there. Frames by name: " +
		"event (its id is the seq, its data that of the feed), delta {run, turn, attempt, part, call?, offset, text} with the offset in UTF-8 bytes of the part, " +
		"partial {run, turn, attempt, parts} while a turn is in flight: what it has said so far, first on every connect and again after deltas were lost, " +
		"ping, reconnect {after} when the server wants the client to come again, end {reason} when nothing more will come. " +
		"A higher attempt discards a lower one, and turn.completed replaces deltas. Deltas are best effort, events are not."
	r.op.Responses = map[string]*huma.Response{
		"200": {
			Description: "The stream.", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}},
		},
	}
	add(s, r, s.openStream)
	s.operation(r.op.Method, r.op.Path).Responses["307"] = &huma.Response{
		Description: "Streams are served elsewhere, as the session's streamUrl says. A client that leaves its key behind opens one by ticket.",
	}
	tickets := on(http.MethodPost, "/v1/sessions/{id}/stream-tickets", "createStreamTicket", "Get a ticket for a stream, for clients that can send no header", http.StatusCreated, ScopeRead)
	// Every ticket is a new one, whatever key it is asked for with: an answer
	// that is kept would be a ticket that has run out.
	tickets.submission = true
	add(s, tickets, s.createTicket)
}

// elsewhere is where a request for a stream belongs that came to a server which
// serves none; empty if it is right here. Whoever stands before such a server
// may keep an answer until it is whole.
func (s *server) elsewhere(r *http.Request, id ident.SessionID) string {
	base, err := url.Parse(s.Streams.URL)
	if err != nil || base.Host == "" || strings.EqualFold(base.Host, r.Host) {
		return ""
	}
	to := s.streamURL(r, id)
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	return to
}

// streamURL is where a session's stream is: on the server's own address as the
// client knows it, unless streams have another.
func (s *server) streamURL(r *http.Request, id ident.SessionID) string {
	base := strings.TrimSuffix(s.Streams.URL, "/")
	if base == "" {
		scheme := "http"
		if r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") {
			scheme = "https"
		}
		base = scheme + "://" + r.Host
	}
	return base + "/v1/sessions/" + string(id) + "/stream"
}

type streamInput struct {
	SessionPath
	After       string `query:"after" doc:"Events after this seq, or head."`
	Ticket      string `query:"ticket" doc:"In the place of the header Authorization."`
	LastEventID string `header:"Last-Event-ID" doc:"The seq of the last event that the client has; beats after."` //nolint:tagliatelle // the standard's name
}

// position is where the stream begins.
func (in *streamInput) position(head ident.Seq) (ident.Seq, error) {
	if in.LastEventID != "" {
		return parseSeq("header.Last-Event-ID", in.LastEventID, head)
	}
	if in.After == "head" {
		return head, nil
	}
	return seqParam("after", in.After, head)
}

// streaming is a stream that is written while it lives.
type streaming struct {
	Body func(huma.Context)
}

// openStream checks all that can be wrong: once the stream has begun, no problem
// can be told.
func (s *server) openStream(ctx context.Context, in *streamInput) (*streaming, error) {
	key, err := in.key(ctx)
	if err != nil {
		return nil, err
	}
	d, err := s.Engine.View(ctx, key)
	if err != nil {
		return nil, err
	}
	after, err := in.position(d.Head.Seq)
	if err != nil {
		return nil, err
	}
	if to := s.elsewhere(requestOf(ctx).Request, key.Session); to != "" {
		return &streaming{Body: func(hctx huma.Context) {
			hctx.SetHeader("Location", to)
			hctx.SetStatus(http.StatusTemporaryRedirect)
		}}, nil
	}
	return &streaming{Body: func(hctx huma.Context) {
		r, w := humago.Unwrap(hctx)
		h := w.Header()
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("X-Accel-Buffering", "no")
		w.WriteHeader(http.StatusOK)
		if r.Method == http.MethodHead {
			return
		}
		st := &stream{s: s, key: key, out: newSSE(ctx, w), live: silent{}, inc: d.Head.Inc, sent: after}
		defer st.out.close()
		if s.Streams.Live != nil {
			st.live = s.Streams.Live.WatchFrames(ctx, key, st.bell.ring)
		}
		defer st.live.Close()
		st.serve(ctx)
	}}, nil
}

// bell fires the signal that its owner waits for.
type bell struct {
	mu     sync.Mutex
	signal host.Signal
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.signal != nil {
		b.signal.Fire()
	}
}

// hang puts a signal there for the next ring.
func (b *bell) hang(s host.Signal) host.Signal {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.signal = s
	return s
}

// silent is a watch where nobody says anything.
type silent struct{}

// Take implements host.FrameWatch.
func (silent) Take() ([]host.Frame, bool) { return nil, false }

// Close implements host.FrameWatch.
func (silent) Close() {}

// parseSeq reads a position, at most the given one.
func parseSeq(at, text string, most ident.Seq) (ident.Seq, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || text[0] == '+' {
		return 0, invalidAt(at, "a seq: a number from 0")
	}
	if ident.Seq(n) > most {
		return 0, invalidAt(at, "it is beyond the head of the session")
	}
	return ident.Seq(n), nil
}
