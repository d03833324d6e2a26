package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/env"
)

// viewer follows a session as a browser does.
type viewer struct {
	*testing.T
	lines *bufio.Scanner
	close func()

	events []api.Event
	names  []string
	at     attempt
	// texts are what the turn in flight has said, by part.
	texts map[string]string
}

// attempt is one try at a turn.
type attempt struct {
	Run, Turn string
	Attempt   int
}

// piece is one of what it says, or all of it.
type piece struct {
	attempt
	Part, Call, Text string
	Offset           int
	Parts            []piece
}

// frame is what comes, as it comes.
type frame struct{ name, id, data string }

// view opens a session's stream where the session says that it is.
func (w *world) view(query string, headers ...string) *viewer {
	w.Helper()
	at := read[api.Session](w.get("").is(200)).StreamURL
	return w.viewAt(at+query, append([]string{"Authorization", "Bearer " + w.key}, headers...)...)
}

func (w *world) viewAt(url string, headers ...string) *viewer {
	w.Helper()
	if w.stack != nil {
		there, err := w.stack.Reach(url)
		require.NoError(w, err)
		url = there
	}
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	require.NoError(w, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := direct.Transport.RoundTrip(r)
	require.NoError(w, err)
	v := &viewer{T: w.T, lines: bufio.NewScanner(res.Body), texts: map[string]string{}}
	v.lines.Buffer(nil, 4<<20)
	v.close = func() {
		cancel()
		_ = res.Body.Close() // nothing more is wanted of it
	}
	w.Cleanup(v.close)
	require.Equal(w, http.StatusOK, res.StatusCode)
	require.Equal(w, "text/event-stream; charset=utf-8", res.Header.Get("Content-Type"))
	return v
}

// next is the next frame; one without a name is the end.
func (v *viewer) next() frame {
	v.Helper()
	var f frame
	for v.lines.Scan() {
		field, value, _ := strings.Cut(v.lines.Text(), ": ")
		switch field {
		case "event":
			f.name = value
		case "id":
			f.id = value
		case "data":
			f.data = value
		case "":
			if f.name != "" {
				v.take(f)
				return f
			}
		}
	}
	require.NoError(v, v.lines.Err())
	return frame{}
}

// take holds a frame to the contract.
func (v *viewer) take(f frame) {
	v.Helper()
	v.names = append(v.names, f.name)
	require.Equal(v, f.name == "event", f.id != "", "only events have ids")
	switch f.name {
	case "event":
		var e api.Event
		require.NoError(v, json.Unmarshal([]byte(f.data), &e))
		require.Equal(v, f.id, strconv.FormatUint(e.Seq, 10))
		v.events = append(v.events, e)
	case "partial", "delta":
		var p piece
		require.NoError(v, json.Unmarshal([]byte(f.data), &p))
		if f.name == "partial" || p.attempt != v.at {
			v.at, v.texts = p.attempt, map[string]string{}
		}
		if f.name == "delta" {
			p.Parts = []piece{p}
		}
		for _, x := range p.Parts {
			require.Len(v, v.texts[x.Part+x.Call], x.Offset, "a piece is missing, or there twice")
			v.texts[x.Part+x.Call] += x.Text
		}
	}
}

// until reads up to a frame of this name, or an event of this kind.
func (v *viewer) until(name string) frame {
	v.Helper()
	for {
		f := v.next()
		require.NotEmpty(v, f.name, "the stream ends before %s: %v", name, v.names)
		if f.name == name || f.name == "event" && v.events[len(v.events)-1].Kind == name {
			return f
		}
	}
}

// hears reads until the turn in flight has said this.
func (v *viewer) hears(part, text string) {
	v.Helper()
	for v.texts[part] != text {
		f := v.next()
		require.NotEmpty(v, f.name, "the stream ends before it says %q", text)
	}
}

// T77: whoever loses the connection after any event has all events once, and
// comes back into a turn in flight with what it has said, its reasoning too.
func TestT77DisconnectAtEveryEvent(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"files.*"}, unasked))
	gate := make(chan struct{})
	w.model.Enqueue(
		openaitest.Calls(call("a", "files.list", object{})),
		openaitest.Reply{Reasoning: "Nothing there 🙂.", Text: "It is empty.", Hold: true, Gate: gate},
	)
	run := w.run("What is there?")
	w.asked(2)
	early := w.view("")
	early.hears("reasoning", "Nothing there 🙂.")
	require.Equal(t, "turn_2", early.at.Turn)
	require.Equal(t, run.ID, early.at.Run)
	late := w.view("?after=head")
	require.Equal(t, "partial", late.next().name)
	late.hears("reasoning", "Nothing there 🙂.")
	close(gate)
	for _, v := range []*viewer{early, late} {
		v.until("run.completed")
	}
	w.ends(run.ID, "completed")

	want := w.events()
	require.Equal(t, want, early.events)
	var got []api.Event
	for i := range want {
		headers := []string{}
		if i > 0 {
			headers = []string{"Last-Event-ID", strconv.FormatUint(want[i-1].Seq, 10)}
		}
		v := w.view("", headers...)
		v.until("event")
		got = append(got, v.events[0])
		v.close()
	}
	require.Equal(t, want, got)
}

// shortStreams has the streams of the stack end soon, for the rest of a test that
// runs by itself: a stream ends in time before its function would be ended.
func (w *world) shortStreams() {
	w.callsBack()
	functions, name := lambda.NewFromConfig(w.stack.Config), nameOf(w.stack)+"-"+env.FunctionStream
	last := func(ctx context.Context, seconds *int32) {
		_, err := functions.UpdateFunctionConfiguration(ctx, &lambda.UpdateFunctionConfigurationInput{FunctionName: &name, Timeout: seconds})
		require.NoError(w, err)
		require.NoError(w, lambda.NewFunctionUpdatedV2Waiter(functions).Wait(ctx, &lambda.GetFunctionInput{FunctionName: &name}, hang))
	}
	before, err := functions.GetFunctionConfiguration(w.Context(), &lambda.GetFunctionConfigurationInput{FunctionName: &name})
	require.NoError(w, err)
	w.Cleanup(func() { last(context.Background(), before.Timeout) })
	last(w.Context(), new(int32(30)))
}

// T78: the first bytes come while nothing else does, so nobody on the way keeps
// them; and the stream ends before whatever carries it would end it, with where
// to go on. A server that is only named says by its own variable after how long.
//
//nolint:paralleltest // alone where it changes what all tests share
func TestT78FirstBytesAndTheLimit(t *testing.T) {
	var w *world
	limited := true
	switch {
	case !*deployed:
		t.Parallel()
		w = alone(t, env.StreamSeconds+"=1")
	case os.Getenv(env.URL) == "":
		w = setup(t)
		w.shortStreams()
	default:
		w = setup(t)
		limited = os.Getenv(env.StreamSeconds) != ""
	}
	w.open(w.played(nil))
	gate := make(chan struct{})
	w.model.Enqueue(openaitest.Reply{Text: "Done.", HoldBefore: true, Gate: gate})
	run := w.run("Wait.")
	w.asked(1)
	v := w.view("")
	require.Equal(t, "partial", v.next().name)
	v.until("turn.requested")
	if !limited {
		close(gate)
		t.Skip("a stream of this server lasts as long as " + env.StreamSeconds + " says, which is not set here: its end is not waited for")
	}
	var again struct{ After uint64 }
	require.NoError(t, json.Unmarshal([]byte(v.until("reconnect").data), &again))
	require.Empty(t, v.next().name)
	require.Equal(t, v.events[len(v.events)-1].Seq, again.After)
	close(gate)
	next := w.view("?after=" + strconv.FormatUint(again.After, 10))
	next.until("run.completed")
	w.ends(run.ID, "completed")
	require.Equal(t, w.events(), append(v.events, next.events...))
}

// A graceful stop tells those who watch to come again.
func TestAStopSendsViewersAway(t *testing.T) {
	t.Parallel()
	w := alone(t)
	s := w.open(w.played(nil))
	v := w.view("")
	v.until("session.opened")
	w.stop(t)
	require.JSONEq(t, `{"after":`+strconv.FormatUint(s.Head, 10)+`}`, v.until("reconnect").data)
	w.start(t)
	w.view("", "Last-Event-ID", strconv.FormatUint(s.Head, 10))
}

// A browser, which can send no header, opens a stream by ticket.
func TestAStreamByTicket(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played(nil))
	ticket := read[api.StreamTicket](w.post("/stream-tickets", nil).is(201))
	v := w.viewAt(ticket.URL)
	v.until("session.opened")
	w.post("/close", nil).is(200)
	require.JSONEq(t, `{"reason":"closed"}`, v.until("end").data)
	require.Empty(t, v.next().name)

	other := w.beside()
	other.open(other.played(nil))
	other.ask("GET", other.path("/stream?ticket="+ticket.Ticket), nil, "Authorization", "").refused(401, "unauthenticated")
	w.ask("GET", w.path("/stream?after=999"), nil).refused(400, "invalid_request")
	w.ask("GET", "/v1/sessions/nobody-"+w.session+"/stream", nil).refused(404, "not_found")
}
