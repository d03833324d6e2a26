package e2e

import (
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/api"
	aws "github.com/perdure/perdure/localstack/target"
)

// world is one test's view of a server: a session of its own, whose model is
// played by a server of its own.
type world struct {
	*testing.T
	*target

	model   *openaitest.Server
	session string
}

// object is JSON in the making.
type object = map[string]any

// setup is a world on the server that all tests share.
func setup(t *testing.T) *world {
	t.Helper()
	return on(t, shared(t))
}

// alone is a world on a server of its own.
func alone(t *testing.T, environ ...string) *world {
	t.Helper()
	return on(t, own(t, environ...))
}

// ratherAlone is a world on a server of its own where that can be had; else
// what would be done to the server is left out.
func ratherAlone(t *testing.T) *world {
	t.Helper()
	if *deployed {
		return setup(t)
	}
	return alone(t)
}

func on(t *testing.T, at *target) *world {
	t.Helper()
	w := &world{T: t, target: at, model: openaitest.New(t), session: "e2e-" + strings.ToLower(rand.Text())}
	w.model.Rules.Keyless = true
	return w
}

// ask sends a request of this test.
func (w *world) ask(method, path string, body any, headers ...string) answer {
	w.Helper()
	return w.target.ask(w.T, method, path, body, headers...)
}

// get reads a path below the session.
func (w *world) get(path string) answer {
	w.Helper()
	return w.ask("GET", w.path(path), nil)
}

// post sends a body to a path below the session.
func (w *world) post(path string, body any, headers ...string) answer {
	w.Helper()
	return w.ask("POST", w.path(path), body, headers...)
}

func (w *world) path(rest string) string { return "/v1/sessions/" + w.session + rest }

// callsBack skips a test that has the server call this machine, where what
// is deployed cannot.
func (w *world) callsBack() {
	w.Helper()
	if w.stack != nil {
		w.stack.Need(w, aws.Reach)
	}
}

// played is a config whose model is this test's server, with tools granted and
// changes laid over it.
func (w *world) played(tools []string, changes ...object) object {
	w.callsBack()
	c := object{"model": object{"provider": "openai-compatible", "model": "test-model", "baseUrl": w.model.URL}, "tools": append([]string{}, tools...)}
	for _, change := range changes {
		maps.Copy(c, change)
	}
	return c
}

// scripted is a config whose model does what steps say.
func scripted(tools []string, steps ...object) object {
	return object{"model": object{"provider": "scripted", "model": "script", "params": object{"steps": steps}}, "tools": append([]string{}, tools...)}
}

// unasked lets every call run without a person.
var unasked = object{"approvals": object{"default": "never"}}

// open makes the session.
func (w *world) open(config object) api.Session {
	w.Helper()
	return read[api.Session](w.ask("POST", "/v1/sessions", object{"id": w.session, "config": config}).is(201))
}

// run asks for a run.
func (w *world) run(input any, more ...object) api.Run {
	w.Helper()
	body := object{"input": input}
	for _, m := range more {
		maps.Copy(body, m)
	}
	return read[api.Run](w.post("/runs", body).is(202))
}

// until waits for a run to have one of these statuses.
func (w *world) until(run string, statuses ...string) api.Run {
	w.Helper()
	var r api.Run
	w.poll(func() bool {
		r = read[api.Run](w.get("/runs/" + run + "?wait=20").is(200))
		over := slices.Contains([]string{"completed", "failed", "cancelled"}, r.Status)
		wanted := slices.Contains(statuses, r.Status)
		require.True(w, wanted || !over, "%s is %s: %+v", run, r.Status, r.Failure)
		return wanted
	})
	return r
}

// ends waits until a run has ended in this way.
func (w *world) ends(run, status string) api.Run {
	w.Helper()
	return w.until(run, status)
}

// waits waits until a run waits for a thing of this kind, and returns it.
func (w *world) waits(run, kind string) (api.Run, api.WaitingOn) {
	w.Helper()
	r := w.until(run, "waiting")
	i := slices.IndexFunc(r.WaitingOn, func(on api.WaitingOn) bool { return on.Kind == kind })
	require.GreaterOrEqual(w, i, 0, "%s does not wait for a %s: %+v", run, kind, r.WaitingOn)
	return r, r.WaitingOn[i]
}

// poll asks again until it is so. What is asked is a long poll, so this turns
// seldom.
func (w *world) poll(so func() bool) {
	w.Helper()
	for began := time.Now(); !so(); {
		require.Less(w, time.Since(began), hang, "it does not come to that")
	}
}

// happens waits for the nth event of a kind (from 1), and returns it.
func (w *world) happens(kind string, nth int) api.Event {
	w.Helper()
	after := uint64(0)
	var found *api.Event
	w.poll(func() bool {
		page := read[api.Events](w.get("/events?wait=20&after=" + strconv.FormatUint(after, 10)).is(200))
		after = page.Next
		for _, e := range page.Events {
			if e.Kind == kind {
				if nth--; nth == 0 {
					found = &e
				}
			}
		}
		return found != nil
	})
	return *found
}

// events are all events so far.
func (w *world) events() []api.Event {
	w.Helper()
	var all []api.Event
	for after := uint64(0); ; {
		page := read[api.Events](w.get("/events?limit=512&after=" + strconv.FormatUint(after, 10)).is(200))
		all = append(all, page.Events...)
		if after = page.Next; page.Complete {
			return all
		}
	}
}

// count is how many events of a kind there are.
func (w *world) count(kind string) int {
	w.Helper()
	n := 0
	for _, e := range w.events() {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// calls are a run's calls.
func (w *world) calls(run string) []api.ToolCall {
	w.Helper()
	return read[api.Page[api.ToolCall]](w.get("/runs/" + run + "/calls").is(200)).Items
}

// request is a request that reached the model's server.
type request struct {
	Model      string
	Messages   []message
	Tools      []any
	ToolChoice string `json:"tool_choice"` //nolint:tagliatelle // the protocol's name
}

// message is one of its messages.
type message struct {
	Role       string
	Content    any
	ToolCallID string        `json:"tool_call_id"` //nolint:tagliatelle // the protocol's name
	ToolCalls  []messageCall `json:"tool_calls"`   //nolint:tagliatelle // the protocol's name
}

// messageCall is a call that a message of the model's has.
type messageCall struct {
	ID       string
	Function struct{ Name, Arguments string }
}

// text is the message's content, that of its parts one after the other.
func (m message) text() string {
	if text, ok := m.Content.(string); ok {
		return text
	}
	var b strings.Builder
	parts, _ := m.Content.([]any)
	for _, p := range parts {
		part, _ := p.(map[string]any)
		text, _ := part["text"].(string)
		b.WriteString(text)
	}
	return b.String()
}

// asked is the nth request (from 1) that reached the model's server.
func (w *world) asked(n int) request {
	w.Helper()
	soon(w, w.model.Seen(n))
	all := w.model.Requests()
	require.GreaterOrEqual(w, len(all), n)
	var r request
	require.NoError(w, json.Unmarshal(all[n-1].Body, &r))
	return r
}

// roles are those of a request's messages.
func (r request) roles() []string {
	out := make([]string, len(r.Messages))
	for i, m := range r.Messages {
		out[i] = m.Role
	}
	return out
}

// last is a request's last message.
func (r request) last() message { return r.Messages[len(r.Messages)-1] }

// call is a tool call of the model's.
func call(id, tool string, arguments any) openaitest.Call {
	text, ok := arguments.(string)
	if !ok {
		data, _ := json.Marshal(arguments) // plain values
		text = string(data)
	}
	return openaitest.Call{ID: id, Name: strings.ReplaceAll(tool, ".", "_"), Arguments: text}
}
