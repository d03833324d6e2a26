package e2e

import (
	"encoding/json"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/api"
)

// failures are what a session's events say of attempts that came to nothing.
func (w *world) failures() []failure {
	w.Helper()
	var out []failure
	for _, e := range w.events() {
		if e.Kind == "turn.failed" {
			f := failure{at: int64(e.At)}
			require.NoError(w, json.Unmarshal(e.Data, &f))
			out = append(out, f)
		}
	}
	return out
}

type failure struct {
	Class, Message string
	RetryAt        int64

	at int64
}

// engine 10.39: trouble that passes is no part of the conversation.
func TestTwoFailuresThenAnAnswer(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played(nil))
	broken := openaitest.Refuse(500, "server_error", "", "The server had an error.")
	w.model.Enqueue(broken, broken, openaitest.Text("Here I am.", 1), openaitest.Text("Still here.", 1))
	run := w.ends(w.run("Are you there?").ID, "completed")
	require.Equal(t, "Here I am.", run.Output.Text)
	require.Len(t, w.failures(), 2)
	require.Equal(t, "server", w.failures()[0].Class)
	require.Equal(t, 1, w.count("turn.completed"))
	w.ends(w.run("And now?").ID, "completed")
	require.Equal(t, []string{"user", "assistant", "user"}, w.asked(4).roles())
	for i := range 3 {
		require.JSONEq(t, w.model.Requests()[0].Messages(), w.model.Requests()[i].Messages(), "each attempt asks the same")
	}
}

// engine 10.42: a rate is waited for as long as the provider wants, and it shows.
func TestARateIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played(nil))
	busy := openaitest.Refuse(429, "requests", "rate_limit_exceeded", "Rate limit reached.")
	busy.Header = map[string]string{"Retry-After": "6"}
	w.model.Enqueue(busy, openaitest.Text("Now.", 1))
	run := w.run("Soon?")
	waiting, on := w.waits(run.ID, "retry")
	require.Equal(t, "waiting", waiting.Status)
	require.NotZero(t, on.Until)
	f := w.failures()[0]
	require.Equal(t, "rate_limit", f.Class)
	require.Equal(t, f.at+6000, f.RetryAt)
	require.Equal(t, "Now.", w.ends(run.ID, "completed").Output.Text)
}

// engine 10.40, 10.42, 10.44; T40: trouble that does not pass ends the run, says
// what it is, and leaves the session.
func TestAProviderRefuses(t *testing.T) {
	t.Parallel()
	partial := openaitest.Text("The first half", 1)
	partial.Finish = "length"
	for name, c := range map[string]struct {
		reply openaitest.Reply
		kind  string
		says  string
	}{
		"key":        {openaitest.Refuse(401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided."), "model", "Incorrect API key provided. (no key is sent to a base URL that a session names: set the server up as a provider)"},
		"quota":      {openaitest.Refuse(429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota."), "model", "quota"},
		"no model":   {openaitest.Refuse(404, "invalid_request_error", "model_not_found", "The model does not exist."), "model", "does not exist"},
		"bad":        {openaitest.Refuse(400, "invalid_request_error", "invalid_value", "Invalid image."), "model_rejected", "Invalid image"},
		"redirected": {openaitest.Reply{Status: 302, Header: map[string]string{"Location": "http://example.com/"}}, "model", "base URL"},
		"a page":     {openaitest.Reply{Body: "<html><body>" + strings.Repeat("Welcome! ", 10000) + "</body></html>", ContentType: "text/html"}, "model", "base URL"},
		"length":     {partial, "model", "longest output"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.open(w.played(nil))
			w.model.Enqueue(c.reply, openaitest.Text("Better.", 1))
			run := w.ends(w.run("Go.").ID, "failed")
			require.Equal(t, c.kind, run.Failure.Kind)
			require.Contains(t, run.Failure.Message, c.says)
			require.Len(t, w.model.Requests(), 1)
			if name == "length" {
				require.Equal(t, "The first half", run.Output.Text)
			}
			require.Equal(t, "Better.", w.ends(w.run("Again.").ID, "completed").Output.Text)
			if c.kind == "model_rejected" {
				require.Len(t, w.asked(2).Messages, 1, "what was rejected is not sent again")
			}
		})
	}
}

// A provider that says nonsense, or breaks off, is asked again.
func TestAnAnswerBreaksOff(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]openaitest.Reply{
		"cut":             {Text: "The answer is fo", Chunks: 4, Cut: true},
		"without an end":  {Text: "The answer is fo", Chunks: 4, NoDone: true, Finish: "-"},
		"error in stream": {Text: "The answer is fo", StreamError: &openaitest.APIError{Message: "overloaded", Type: "server_error"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.open(w.played(nil))
			w.model.Enqueue(reply, openaitest.Text("The answer is forty-two.", 3), openaitest.Text("Yes.", 1))
			require.Equal(t, "The answer is forty-two.", w.ends(w.run("What?").ID, "completed").Output.Text)
			w.ends(w.run("Sure?").ID, "completed")
			require.Equal(t, []string{"user", "assistant", "user"}, w.asked(3).roles())
			require.Equal(t, "The answer is forty-two.", w.asked(3).Messages[1].text())
		})
	}
}

// What is no answer at all says so, and says it without a page of it.
func TestAStreamOfGarbage(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]openaitest.Reply{
		"no JSON":       {Body: "data: {nonsense\n\n" + strings.Repeat("data: \x00\xff\n\n", 100)},
		"another shape": {Body: openaitest.Stream(`{"hello":"world"}`, `[1,2,3]`, `7`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.open(w.played(nil))
			w.model.Enqueue(reply)
			run := w.run("Go.")
			w.happens("turn.failed", 1)
			f := w.failures()[0]
			require.NotEmpty(t, f.Message)
			require.Less(t, len(f.Message), 3000)
			t.Logf("%s: %s", f.Class, f.Message)
			w.post("/runs/"+run.ID+"/cancel", nil)
			w.until(run.ID, "cancelled", "failed")
			w.model.Enqueue(openaitest.Text("Fine.", 1))
			require.Equal(t, "Fine.", w.ends(w.run("Again.").ID, "completed").Output.Text)
		})
	}
}

// Nobody is at the provider's address: the run waits, says so, and can be
// stopped.
func TestNobodyAtTheProvidersAddress(t *testing.T) {
	t.Parallel()
	w := setup(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	c := w.played(nil)
	c["model"].(object)["baseUrl"] = "http://" + closed.Addr().String() + "/v1"
	w.open(c)
	run := w.run("Hello?")
	w.happens("turn.failed", 1)
	f := w.failures()[0]
	require.Equal(t, "network", f.Class)
	require.Contains(t, f.Message, "refused")
	require.NotZero(t, f.RetryAt)
	w.post("/runs/"+run.ID+"/cancel", nil).is(202)
	w.ends(run.ID, "cancelled")
}

// What can be known before is refused before.
func TestAProviderThatIsNone(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, model := range []object{
		{"provider": "nobody", "model": "m"},
		{"provider": "openai-compatible", "model": "m", "baseUrl": "ftp://x"},
		{"provider": "openai-compatible", "model": "m", "baseUrl": "http://user:word@x/v1"},
		{"provider": "scripted", "model": "demo", "baseUrl": "http://x/v1"},
		{"provider": "openai", "model": "m", "baseUrl": "http://x/v1"},
	} {
		a := w.ask("POST", "/v1/sessions", object{"config": object{"model": model}})
		require.NotContains(t, string(a.body), "word")
		a.refused(422, "validation_failed")
	}
	w.open(w.played(nil))
	w.post("/runs", object{"input": "x", "config": object{"model": object{"provider": "nobody", "model": "m"}}}).refused(422, "validation_failed")
	require.Empty(t, read[api.Page[api.Run]](w.get("/runs").is(200)).Items)
}
