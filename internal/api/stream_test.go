package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/adapter/gosched"
	"github.com/perdure/perdure/internal/adapter/memory"
	"github.com/perdure/perdure/internal/adapter/scripted"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/host"
)

// sse is a frame as it came.
type sse struct {
	name, id, data string
}

// follower is a client of a stream.
type follower struct {
	t      *testing.T
	body   io.ReadCloser
	lines  *bufio.Scanner
	cancel context.CancelFunc
	// What it has put together.
	events []api.Event
	turn   string
	parts  map[string]string
	names  []string
}

// listening serves the world over TCP, as streams need it.
func (w *world) listening() string {
	w.t.Helper()
	server := httptest.NewUnstartedServer(w)
	server.Config.BaseContext = func(net.Listener) context.Context { return context.Background() }
	server.Listener = narrow{server.Listener}
	server.Start()
	w.t.Cleanup(server.Close)
	return server.URL
}

// narrow makes connections that hold little on their way.
type narrow struct{ net.Listener }

func (l narrow) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		err = tcp.SetWriteBuffer(32 << 10)
	}
	return c, err
}

// follow opens a stream.
func (w *world) follow(url, path string, opts ...option) *follower {
	w.t.Helper()
	res, cancel := w.dial(url, path, opts...)
	require.Equal(w.t, http.StatusOK, res.StatusCode)
	require.Equal(w.t, "text/event-stream; charset=utf-8", res.Header.Get("Content-Type"))
	f := &follower{t: w.t, body: res.Body, lines: bufio.NewScanner(res.Body), cancel: cancel, parts: map[string]string{}}
	f.lines.Buffer(nil, 4<<20)
	return f
}

func (w *world) dial(url, path string, opts ...option) (*http.Response, context.CancelFunc) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	r := request("GET", path, nil, opts...).WithContext(ctx)
	r.RequestURI, r.URL.Host = "", strings.TrimPrefix(url, "http://")
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		if tcp, ok := c.(*net.TCPConn); ok {
			err = tcp.SetReadBuffer(32 << 10)
		}
		return c, err
	}}
	res, err := transport.RoundTrip(r)
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		cancel()
		_ = res.Body.Close()
		transport.CloseIdleConnections()
	})
	return res, cancel
}

// next reads one frame; false is the end of the stream.
func (f *follower) next() (sse, bool) {
	f.t.Helper()
	var got sse
	for f.lines.Scan() {
		name, value, _ := strings.Cut(f.lines.Text(), ": ")
		switch name {
		case "event":
			got.name = value
		case "id":
			got.id = value
		case "data":
			got.data = value
		case "":
			if got.name != "" {
				f.take(got)
				return got, true
			}
		}
	}
	require.NoError(f.t, f.lines.Err())
	return sse{}, false
}

type piece struct {
	Run, Turn, Part, Call, Text string
	Attempt                     int
	Offset                      int
	Parts                       []piece
}

// take holds every frame to the contract, and puts it to what came before.
func (f *follower) take(got sse) {
	f.t.Helper()
	f.names = append(f.names, got.name)
	require.Equal(f.t, got.name == "event", got.id != "", "%+v", got)
	require.True(f.t, json.Valid([]byte(got.data)), got.data)
	var p piece
	switch got.name {
	case "event":
		var e api.Event
		require.NoError(f.t, json.Unmarshal([]byte(got.data), &e))
		require.Equal(f.t, got.id, strconv.FormatUint(e.Seq, 10))
		f.events = append(f.events, e)
	case "partial":
		require.NoError(f.t, json.Unmarshal([]byte(got.data), &p))
		f.turn, f.parts = p.Turn+"/"+strconv.Itoa(p.Attempt), map[string]string{}
		for _, x := range p.Parts {
			require.Zero(f.t, x.Offset)
			f.parts[x.Part+x.Call] = x.Text
		}
	case "delta":
		require.NoError(f.t, json.Unmarshal([]byte(got.data), &p))
		if turn := p.Turn + "/" + strconv.Itoa(p.Attempt); turn != f.turn {
			f.turn, f.parts = turn, map[string]string{}
		}
		require.Equal(f.t, len(f.parts[p.Part+p.Call]), p.Offset, "a piece is missing, or there twice")
		require.True(f.t, utf8.ValidString(p.Text))
		require.NotContains(f.t, p.Text, "\uFFFD")
		f.parts[p.Part+p.Call] += p.Text
	}
}

// until reads up to a frame of this name, or an event of this kind.
func (f *follower) until(name string) sse {
	f.t.Helper()
	for {
		got, ok := f.next()
		require.True(f.t, ok, "the stream ends before %s: %v", name, f.names)
		if got.name == name || got.name == "event" && f.events[len(f.events)-1].Kind == name {
			return got
		}
	}
}

func (f *follower) ends() {
	f.t.Helper()
	_, more := f.next()
	require.False(f.t, more)
}

func (f *follower) seqs() []uint64 {
	out := make([]uint64, len(f.events))
	for i, e := range f.events {
		out[i] = e.Seq
	}
	return out
}

func upTo(n uint64) []uint64 {
	out := make([]uint64, n)
	for i := range out {
		out[i] = uint64(i + 1)
	}
	return out
}

// T77: whoever loses the connection after any event, and comes again with what
// the last one was called, has every event once.
func TestT77AStreamGoesOnAfterAnyEvent(t *testing.T) {
	t.Parallel()
	w := setup(t)
	url := w.listening()
	w.create("s1", "t.*")
	w.model.For("s1", scripted.Step{Reasoning: "I wonder", Calls: []scripted.Call{call("t.read", `{"x":"1"}`)}}, scripted.Step{Text: "it is so"})
	w.run("s1", "go")
	head := w.session("s1").Head
	var want api.Events
	w.call("GET", "/v1/sessions/s1/events?limit=512", nil).is(200, &want)

	var all []api.Event
	for after := range head {
		opts := []option{}
		if after > 0 {
			opts = append(opts, header("Last-Event-ID", strconv.FormatUint(after, 10)))
		}
		f := w.follow(url, "/v1/sessions/s1/stream?after=0", opts...)
		f.until("event")
		f.cancel()
		all = append(all, f.events[0])
		// The rest is what is left.
		f = w.follow(url, "/v1/sessions/s1/stream?after="+strconv.FormatUint(after, 10))
		for range head - after {
			f.until("event")
		}
		require.Equal(t, want.Events[after:], f.events)
		f.cancel()
	}
	require.Equal(t, want.Events, all)
}

func TestAStreamBeginsWithTheTurnInFlight(t *testing.T) {
	t.Parallel()
	w := setup(t)
	url := w.listening()
	w.create("s1")
	early := w.follow(url, "/v1/sessions/s1/stream")
	early.until("session.opened")
	begun, open := w.gated("s1", scripted.Step{Reasoning: "hm", Text: "one two three four", Calls: []scripted.Call{}})
	w.call("POST", "/v1/sessions/s1/runs", m{"input": "count"}).is(202, nil)
	<-begun
	late := w.follow(url, "/v1/sessions/s1/stream?after=head")
	first, _ := late.next()
	require.Equal(t, "partial", first.name)
	require.Equal(t, "turn_1/1", late.turn)
	require.Equal(t, map[string]string{"reasoning": "hm", "text": "one two "}, late.parts)
	require.Contains(t, first.data, `"run":"run_1"`)
	open()
	for _, f := range []*follower{early, late} {
		f.until("turn.completed")
		require.Equal(t, map[string]string{"reasoning": "hm", "text": "one two three four"}, f.parts)
		f.until("run.completed")
		require.True(t, slices.IsSorted(f.seqs()))
	}
	require.Equal(t, upTo(w.session("s1").Head), early.seqs())
	// Its end is known: nothing of it is kept, and nothing is said of it again.
	f := w.follow(url, "/v1/sessions/s1/stream")
	f.until("run.completed")
	require.NotContains(t, f.names, "partial")
	require.NotContains(t, f.names, "delta")
}

// A turn whose pieces nobody keeps is in flight all the same.
func TestAStreamWithoutFramesHasEvents(t *testing.T) {
	t.Parallel()
	w := setup(t)
	d := w.deps
	d.Engine, d.Stash = w.engine, w.store
	w.Handler = api.New(d)
	url := w.listening()
	w.create("s1")
	_, open := w.busy("s1")
	f := w.follow(url, "/v1/sessions/s1/stream")
	first, _ := f.next()
	require.Equal(t, "partial", first.name)
	require.JSONEq(t, `{"run":"run_1","turn":"turn_1","attempt":1,"parts":[]}`, first.data)
	open()
	f.until("run.completed")
	require.NotContains(t, f.names, "delta")
}

// A process that only serves hears of what another one drives.
func TestAStreamOfWhatIsDrivenElsewhere(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1")
	engine := host.New(host.Deps{Log: w.store, Blobs: w.store, Checkpoints: w.store, Stash: w.store, Sched: gosched.New(), Keys: w.deps.Keys}, host.Options{AdmitOnly: true})
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	require.NoError(t, engine.Start(ctx))
	d := w.deps
	d.Engine, d.Stash, d.Streams.Live = engine, w.store, w.hub
	serves := &world{t: t, Handler: api.New(d)}
	f := serves.follow(serves.listening(), "/v1/sessions/s1/stream")
	f.until("session.opened")
	begun, open := w.gated("s1", scripted.Step{Text: "one two three four"})
	w.call("POST", "/v1/sessions/s1/runs", m{"input": "count"}).is(202, nil)
	<-begun
	for f.parts["text"] != "one two " {
		_, ok := f.next()
		require.True(t, ok)
	}
	require.Equal(t, "turn.requested", f.events[len(f.events)-1].Kind, "a delta before its turn")
	open()
	f.until("run.completed")
	require.Equal(t, upTo(w.session("s1").Head), f.seqs())
}

func TestArgumentsAreStreamedByCall(t *testing.T) {
	t.Parallel()
	w := setup(t)
	url := w.listening()
	w.create("s1", "t.*")
	f := w.follow(url, "/v1/sessions/s1/stream?after=head")
	w.model.For("s1", scripted.Step{Calls: []scripted.Call{call("t.read", `{"x":"1"}`), call("t.read", `{"x":"2"}`)}}, scripted.Step{Text: "done"})
	w.run("s1", "go")
	f.until("turn.completed")
	require.Equal(t, map[string]string{"argumentscall_1_1": `{"x":"1"}`, "argumentscall_1_2": `{"x":"2"}`}, f.parts)
}

// Pieces are cut where a character ends, and offsets count bytes.
func TestPiecesCutNoCharacter(t *testing.T) {
	t.Parallel()
	w := setup(t)
	url := w.listening()
	w.create("s1")
	f := w.follow(url, "/v1/sessions/s1/stream?after=head")
	text := "a" + strings.Repeat("🙂é", 20_000) // one word: the host cuts it
	w.model.For("s1", scripted.Step{Text: text})
	w.run("s1", "go")
	f.until("turn.completed")
	require.Equal(t, text, f.parts["text"])
	require.Contains(t, f.names, "delta")
}

// A client that does not read loses pieces and no event; it goes on from what
// the turn has said so far.
func TestASlowClientLosesNoEvent(t *testing.T) {
	t.Parallel()
	w := setup(t)
	url := w.listening()
	w.create("s1")
	w.busy("s1")
	f := w.follow(url, "/v1/sessions/s1/stream")
	f.until("turn.requested")
	key, said := host.Key{Tenant: "t1", Session: "s1"}, len("done ")
	piece := strings.Repeat("0123456789", 20)
	for range 4000 {
		w.hub.PublishFrame(key, host.Frame{Run: 1, Turn: 1, Attempt: 1, Delta: host.Delta{Part: "text", Text: piece}, Offset: int64(said)})
		said += len(piece)
	}
	for len(f.parts["text"]) < said {
		_, ok := f.next()
		require.True(t, ok)
	}
	require.Equal(t, "done "+strings.Repeat(piece, 4000), f.parts["text"])
	require.GreaterOrEqual(t, strings.Count(strings.Join(f.names, " "), "partial"), 2, "all pieces went through: the test shows nothing")
	// The model knows nothing of what was said in its name.
	w.call("POST", "/v1/sessions/s1/runs/run_1/cancel", nil).is(202, nil)
	f.until("run.cancelled")
	require.Equal(t, upTo(w.session("s1").Head), f.seqs())
}

func TestWhereAStreamCannotBegin(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1")
	for _, query := range []string{"after=2", "after=-1", "after=x", "after=%2B1", "after=tail", "follow=1", "after=0&after=0", "before=1", "wait=1"} {
		w.call("GET", "/v1/sessions/s1/stream?"+query, nil).refused(400, "invalid_request")
	}
	for _, id := range []string{"2", "x", "-1", "head"} {
		w.call("GET", "/v1/sessions/s1/stream?after=0", nil, header("Last-Event-ID", id)).refused(400, "invalid_request")
	}
	w.call("GET", "/v1/sessions/none/stream", nil).refused(404, "not_found")
	w.call("GET", "/v1/sessions/s1/stream", nil, as(bob)).refused(404, "not_found")
	w.call("GET", "/v1/sessions/s1/stream", nil, as("pk_x_y")).refused(401, "unauthenticated")
	w.call("GET", "/v1/sessions/s1/stream", nil, as(decider)).refused(403, "forbidden")
	w.call("GET", "/v1/sessions/s1/stream", nil, as(broken)).refused(503, "unavailable")
	require.False(t, w.hub.Watched(host.Key{Tenant: "t1", Session: "s1"}), "a stream that did not begin is watched")
	head := w.call("HEAD", "/v1/sessions/s1/stream", nil)
	require.Equal(t, 200, head.Code)
	require.Equal(t, "text/event-stream; charset=utf-8", head.Header().Get("Content-Type"))
}

func TestLastEventIDBeatsAfter(t *testing.T) {
	t.Parallel()
	w := setup(t)
	url := w.listening()
	w.create("s1")
	w.run("s1", "go")
	f := w.follow(url, "/v1/sessions/s1/stream?after=99999", header("Last-Event-ID", "1"))
	f.until("event")
	require.Equal(t, uint64(2), f.events[0].Seq)
}

func TestHowAStreamEnds(t *testing.T) {
	t.Parallel()
	t.Run("TheSessionIsClosed", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		url := w.listening()
		w.create("s1")
		f := w.follow(url, "/v1/sessions/s1/stream")
		f.until("session.opened")
		w.call("POST", "/v1/sessions/s1/close", m{}).is(200, nil)
		f.until("session.closed")
		require.JSONEq(t, `{"reason":"closed"}`, f.until("end").data)
		f.ends()
		// Whoever comes later has all of it.
		f = w.follow(url, "/v1/sessions/s1/stream")
		f.until("end")
		require.Equal(t, []string{"event", "event", "end"}, f.names)
		f.ends()
	})
	deleted := func(t *testing.T, after func(w *world)) {
		t.Helper()
		// The stream is slower than both close and DELETE: it is held up where it
		// reads the events.
		reading, read := make(chan struct{}), make(chan struct{})
		var once sync.Once
		w := setup(t, func(_ *api.Deps, o *memory.Options) {
			o.Inject = func(_ context.Context, op memory.Op, when memory.When) error {
				if op.Name == "log.read" && when == memory.After {
					once.Do(func() { close(reading); <-read })
				}
				return nil
			}
		})
		url := w.listening()
		w.create("s1")
		f := w.follow(url, "/v1/sessions/s1/stream")
		<-reading
		w.call("POST", "/v1/sessions/s1/close", m{}).is(200, nil)
		w.call("DELETE", "/v1/sessions/s1", nil).is(204, nil)
		w.call("GET", "/v1/sessions/s1/stream", nil).refused(404, "not_found")
		after(w)
		close(read)
		require.JSONEq(t, `{"reason":"deleted"}`, f.until("end").data)
		f.ends()
	}
	t.Run("TheSessionIsDeleted", func(t *testing.T) { t.Parallel(); deleted(t, func(*world) {}) })
	t.Run("AnotherSessionHasItsID", func(t *testing.T) { t.Parallel(); deleted(t, func(w *world) { w.create("s1") }) })
	t.Run("TheServerStops", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		url := w.listening()
		created := w.create("s1")
		f := w.follow(url, "/v1/sessions/s1/stream")
		f.until("session.opened")
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, w.engine.Stop(ctx))
		require.JSONEq(t, `{"after":`+strconv.FormatUint(created.Head, 10)+`}`, f.until("reconnect").data)
		f.ends()
	})
	t.Run("TheClientGoes", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		url := w.listening()
		w.create("s1")
		f := w.follow(url, "/v1/sessions/s1/stream")
		f.until("session.opened")
		key := host.Key{Tenant: "t1", Session: "s1"}
		require.True(t, w.hub.Watched(key))
		f.cancel()
		require.Eventually(t, func() bool { return !w.hub.Watched(key) }, patience, time.Millisecond)
	})
}

// T78: the first bytes are there at once, with nothing that would push them out
// of a buffer, and the stream ends in time with a cursor to go on from.
func TestT78AStreamIsNotBufferedAndEndsWithACursor(t *testing.T) {
	t.Parallel()
	w := setup(t, func(d *api.Deps, _ *memory.Options) {
		d.Streams = api.Streams{For: 50 * time.Millisecond, Ping: 10 * time.Millisecond}
	})
	url := w.listening()
	w.create("s1")
	_, open := w.busy("s1")
	var seqs []uint64
	after := "0"
	for range 3 {
		f := w.follow(url, "/v1/sessions/s1/stream?after="+after)
		first, _ := f.next()
		require.Equal(t, "partial", first.name)
		var again struct{ After uint64 }
		require.NoError(t, json.Unmarshal([]byte(f.until("reconnect").data), &again))
		f.ends()
		after = strconv.FormatUint(again.After, 10)
		seqs = append(seqs, f.seqs()...)
		require.Equal(t, upTo(again.After), seqs)
	}
	open()
	for kind := ""; kind != "run.completed"; {
		f := w.follow(url, "/v1/sessions/s1/stream?after="+after)
		f.until("reconnect")
		if n := len(f.events); n > 0 {
			kind, after = f.events[n-1].Kind, strconv.FormatUint(f.events[n-1].Seq, 10)
		}
		seqs = append(seqs, f.seqs()...)
	}
	require.Equal(t, upTo(w.session("s1").Head), seqs)
}

func TestASilentStreamPings(t *testing.T) {
	t.Parallel()
	w := setup(t, func(d *api.Deps, _ *memory.Options) { d.Streams.Ping = time.Millisecond })
	url := w.listening()
	w.create("s1")
	f := w.follow(url, "/v1/sessions/s1/stream?after=head")
	for range 3 {
		got, _ := f.next()
		require.Equal(t, sse{name: "ping", data: "{}"}, got)
	}
}

func TestATicketOpensOneStream(t *testing.T) {
	t.Parallel()
	w := setup(t)
	url := w.listening()
	w.create("s1")
	w.create("s2")
	nobody := func(r *http.Request) { r.Header.Del("Authorization") }
	var got api.StreamTicket
	w.call("POST", "/v1/sessions/s1/stream-tickets", nil, as(reader)).is(201, &got)
	require.Equal(t, "http://"+at+"/v1/sessions/s1/stream?ticket="+got.Ticket, got.URL)
	path := "/v1/sessions/s1/stream?ticket=" + got.Ticket
	for range 2 { // a browser comes again with the same address
		f := w.follow(url, path, nobody)
		f.until("session.opened")
		f.cancel()
	}
	// Another request gets another, whatever its key.
	var other api.StreamTicket
	w.later.Add(1)
	w.call("POST", "/v1/sessions/s1/stream-tickets", m{}, header("Idempotency-Key", "k")).is(201, &other)
	w.later.Add(1)
	var third api.StreamTicket
	w.call("POST", "/v1/sessions/s1/stream-tickets", m{}, header("Idempotency-Key", "k")).is(201, &third)
	require.NotEqual(t, other.Ticket, third.Ticket)

	w.call("GET", path, nil).refused(400, "invalid_request") // with a key beside it
	w.call("GET", "/v1/sessions/s2/stream?ticket="+got.Ticket, nil, nobody).refused(401, "unauthenticated")
	w.call("GET", "/v1/sessions/s1/events?ticket="+got.Ticket, nil, nobody).refused(401, "unauthenticated")
	w.call("GET", path, nil, nobody, header("Perdure-Actor", "eve")).refused(403, "forbidden")
	for _, bad := range []string{"", "x", "st_", "st_x", got.Ticket[:len(got.Ticket)-4], got.Ticket + "A", strings.Replace(got.Ticket, "st_", "st_A", 1)} {
		w.call("GET", "/v1/sessions/s1/stream?ticket="+bad, nil, nobody).refused(401, "unauthenticated")
	}
	w.call("POST", "/v1/sessions/none/stream-tickets", nil).refused(404, "not_found")
	w.call("POST", "/v1/sessions/s1/stream-tickets", nil, as(bob)).refused(404, "not_found")
	w.call("POST", "/v1/sessions/s1/stream-tickets", nil, as(decider)).refused(403, "forbidden")
	w.later.Add(61 * ident.Second)
	w.call("GET", path, nil, nobody).refused(401, "unauthenticated")
	require.NotContains(t, w.log.String(), got.Ticket)
}

func TestASessionSaysWhereItsStreamIs(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.Equal(t, "http://"+at+"/v1/sessions/s1/stream", w.create("s1").StreamURL)
	require.Equal(t, "http://"+at+"/v1/sessions/s1/stream", w.session("s1").StreamURL)
	var s api.Session
	w.call("GET", "/v1/sessions/s1", nil, header("X-Forwarded-Proto", "https")).is(200, &s)
	require.Equal(t, "https://"+at+"/v1/sessions/s1/stream", s.StreamURL)

	w = setup(t, func(d *api.Deps, _ *memory.Options) {
		d.Streams.URL, d.Guard = "https://stream.example/", api.Guard{Hosts: []string{"*"}}
	})
	require.Equal(t, "https://stream.example/v1/sessions/s1/stream", w.create("s1").StreamURL)
	// Whoever does not look there is sent there, unless there is nothing.
	moved := w.call("GET", "/v1/sessions/s1/stream?after=1", nil)
	require.Equal(t, http.StatusTemporaryRedirect, moved.Code)
	require.Equal(t, "https://stream.example/v1/sessions/s1/stream?after=1", moved.Header().Get("Location"))
	w.call("GET", "/v1/sessions/s2/stream", nil).refused(404, "not_found")
	url := w.listening()
	w.follow(url, "/v1/sessions/s1/stream", func(r *http.Request) { r.Host = "stream.example" }).until("session.opened")
}
