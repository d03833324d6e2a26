package shows

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	awssfn "github.com/aws/aws-sdk-go-v2/service/sfn"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/adapter/dynamo"
	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/cloud"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/localstack/target"
)

// hang is how long anything may take before a test is given up. It is no
// measure of anything.
const hang = 2 * time.Minute

// world is one test's view of the stack: a session of its own, whose model is
// played by a server of its own.
type world struct {
	*testing.T
	*target.Stack

	model   *openaitest.Server
	session string

	table  *dynamo.Store
	sfn    *awssfn.Client
	lambda *lambda.Client
	queues *awssqs.Client
	bucket *awss3.Client
}

// object is JSON in the making.
type object = map[string]any

func setup(t *testing.T) *world {
	t.Helper()
	stack := deployed(t)
	cfg := stack.Config
	w := &world{
		T: t, Stack: stack, model: openaitest.New(t), session: "shows-" + strings.ToLower(rand.Text()),
		table: dynamo.New(dynamo.NewClient(cfg), stack.Outputs["Table"], dynamo.Options{}),
		sfn:   awssfn.NewFromConfig(cfg), lambda: lambda.NewFromConfig(cfg), queues: awssqs.NewFromConfig(cfg),
		bucket: awss3.NewFromConfig(cfg, func(o *awss3.Options) { o.UsePathStyle = true }),
	}
	w.model.Rules.Keyless = true
	return w
}

// another is one more session on the same stack.
func (w *world) another() *world {
	v := *w
	v.session, v.model = "shows-"+strings.ToLower(rand.Text()), openaitest.New(w.T)
	return &v
}

func (w *world) key() host.Key {
	return host.Key{Tenant: cloud.Tenant, Session: ident.SessionID(w.session)}
}

// answer is what came back.
type answer struct {
	testing.TB

	asked  string
	status int
	body   []byte
}

// ask sends a request to the API. Headers come in pairs; an empty value leaves
// one out.
func (w *world) ask(method, url string, body any, headers ...string) answer {
	w.Helper()
	var data []byte
	if body != nil {
		var err error
		data, err = json.Marshal(body)
		require.NoError(w, err)
	}
	if strings.HasPrefix(url, "/") {
		url = w.API + url
	}
	r, err := http.NewRequestWithContext(w.Context(), method, url, bytes.NewReader(data))
	require.NoError(w, err)
	r.Header.Set("Authorization", "Bearer "+w.Key)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i+1] == "" {
			r.Header.Del(headers[i])
		}
	}
	resp, err := w.HTTP.Do(r)
	require.NoError(w, err, "%s %s", method, url)
	defer func() { require.NoError(w, resp.Body.Close()) }()
	a := answer{TB: w, asked: method + " " + url, status: resp.StatusCode}
	a.body, err = io.ReadAll(resp.Body)
	require.NoError(w, err, a.asked)
	return a
}

// is holds the status.
func (a answer) is(status int) answer {
	a.Helper()
	require.Equal(a, status, a.status, "%s: %.2000s", a.asked, a.body)
	return a
}

// read decodes an answer.
func read[T any](a answer) (out T) {
	a.Helper()
	require.NoError(a, json.Unmarshal(a.body, &out), "%s: %.2000s", a.asked, a.body)
	return out
}

// path is one below the session.
func (w *world) path(rest string) string { return "/v1/sessions/" + w.session + rest }

// get reads a path below the session.
func (w *world) get(path string) answer {
	w.Helper()
	return w.ask(http.MethodGet, w.path(path), nil)
}

// post sends a body to a path below the session.
func (w *world) post(path string, body any, headers ...string) answer {
	w.Helper()
	return w.ask(http.MethodPost, w.path(path), body, headers...)
}

// open makes the session, with tools granted and changes laid over its config.
func (w *world) open(tools []string, changes ...object) {
	w.Helper()
	config := object{"model": object{"provider": "openai-compatible", "model": "test-model", "baseUrl": w.model.URL}, "tools": append([]string{}, tools...)}
	for _, change := range changes {
		maps.Copy(config, change)
	}
	w.ask(http.MethodPost, "/v1/sessions", object{"id": w.session, "config": config}).is(http.StatusCreated)
}

// run asks for a run.
func (w *world) run(input string, more ...object) api.Run {
	w.Helper()
	body := object{"input": input}
	for _, m := range more {
		maps.Copy(body, m)
	}
	return read[api.Run](w.post("/runs", body).is(http.StatusAccepted))
}

// until waits for a run to have a status.
func (w *world) until(run, status string) api.Run {
	w.Helper()
	for began := time.Now(); ; {
		r := read[api.Run](w.get("/runs/" + run + "?wait=20").is(http.StatusOK))
		if r.Status == status {
			return r
		}
		over := slices.Contains([]string{"completed", "failed", "cancelled"}, r.Status)
		require.False(w, over, "%s is %s: %+v", run, r.Status, r.Failure)
		require.Less(w, time.Since(began), hang, "%s is %s, and waits for %+v; its head is %+v", run, r.Status, r.WaitingOn, w.head())
	}
}

// ends waits until a run has completed, and returns its output.
func (w *world) ends(run string) string {
	w.Helper()
	return w.until(run, "completed").Output.Text
}

// waits waits until a run waits for a thing of this kind, and returns it.
func (w *world) waits(run, kind string) api.WaitingOn {
	w.Helper()
	r := w.until(run, "waiting")
	i := slices.IndexFunc(r.WaitingOn, func(on api.WaitingOn) bool { return on.Kind == kind })
	require.GreaterOrEqual(w, i, 0, "%s does not wait for a %s: %+v", run, kind, r.WaitingOn)
	return r.WaitingOn[i]
}

// approve decides what a run waits for.
func (w *world) approve(id string) {
	w.Helper()
	w.post("/approvals/"+id, object{"decision": "approve"}).is(http.StatusOK)
}

// calls are a run's calls.
func (w *world) calls(run string) []api.ToolCall {
	w.Helper()
	return read[api.Page[api.ToolCall]](w.get("/runs/" + run + "/calls").is(http.StatusOK)).Items
}

// statuses are those of a run's calls.
func (w *world) statuses(run string) []string {
	w.Helper()
	var out []string
	for _, c := range w.calls(run) {
		out = append(out, c.Status)
	}
	return out
}

// count is how many events of a kind there are.
func (w *world) count(kind string) int {
	w.Helper()
	n := 0
	for after := uint64(0); ; {
		page := read[api.Events](w.get("/events?limit=512&after=" + strconv.FormatUint(after, 10)).is(http.StatusOK))
		for _, e := range page.Events {
			if e.Kind == kind {
				n++
			}
		}
		if after = page.Next; page.Complete {
			return n
		}
	}
}

// message is one of a request's to the model.
type message struct {
	Role    string
	Content string
}

// asked are the messages of the nth request (from 1) that reached the model.
func (w *world) asked(n int) []message {
	w.Helper()
	soon(w, w.model.Seen(n))
	var messages []message
	require.NoError(w, json.Unmarshal([]byte(w.model.Requests()[n-1].Messages()), &messages))
	return messages
}

// last is the last message's text.
func last(messages []message) string { return messages[len(messages)-1].Content }

// soon takes what must come.
func soon[T any](tb testing.TB, from <-chan T) T {
	tb.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(hang):
		require.FailNow(tb, "it does not come")
		panic("unreachable")
	}
}

// eventually looks until it is so. What is looked at has no long poll.
func eventually(tb testing.TB, what string, so func() bool) {
	tb.Helper()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(hang); !so(); <-again.C {
		require.True(tb, time.Now().Before(end), what)
	}
}

// call is a tool call of the model's.
func call(id, tool string, arguments object) openaitest.Call {
	text, _ := json.Marshal(arguments) // plain values
	return openaitest.Call{ID: id, Name: strings.ReplaceAll(tool, ".", "_"), Arguments: string(text)}
}

// gated is a reply that comes when the gate is opened.
func gated(r openaitest.Reply) (openaitest.Reply, func()) {
	gate := make(chan struct{})
	r.HoldBefore, r.Gate = true, gate
	return r, func() { close(gate) }
}
