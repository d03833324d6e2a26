package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/openai"
	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/host"
)

const testKey = "sk-test-0123456789abcdef"

// hang is how long a test waits for what must come; it only bounds a failure.
const hang = 30 * time.Second

func setup(t *testing.T, change func(*openai.Config)) (*openai.Model, *openaitest.Server) {
	t.Helper()

	server := openaitest.New(t)
	server.Rules.Key = testKey

	cfg := openai.Config{Name: "test", BaseURL: server.URL, APIKey: testKey}
	if change != nil {
		change(&cfg)
	}

	if cfg.APIKey == "" {
		server.Rules.Key, server.Rules.Keyless = "", true
	}

	m, err := openai.New(cfg)
	require.NoError(t, err)

	return m, server
}

func ask(text string) host.ModelRequest {
	return host.ModelRequest{
		Tenant: "default", Session: "s1", Attempt: "run_1/turn_1/1",
		Model:        session.Model{Provider: "test", Model: "gpt-test"},
		Instructions: []string{"Be brief."},
		Messages:     []host.ModelMessage{{Role: host.RoleUser, Parts: []host.ModelPart{{Text: text}}}},
	}
}

var listTool = host.ModelTool{
	WireName: "files_list", Description: "Lists files.", Parameters: `{"type":"object","properties":{"path":{"type":"string"}}}`,
}

// heard collects deltas.
type heard struct{ deltas []host.Delta }

func (h *heard) sink(d host.Delta) { h.deltas = append(h.deltas, d) }

func (h *heard) part(part string, call int) string {
	var b strings.Builder

	for _, d := range h.deltas {
		if d.Part == part && d.Call == call {
			b.WriteString(d.Text)
		}
	}

	return b.String()
}

func fault(t *testing.T, err error) *host.Fault {
	t.Helper()

	var f *host.Fault

	require.ErrorAs(t, err, &f)

	return f
}

func TestTextStreamsInOrderAndReturnsWhole(t *testing.T) {
	t.Parallel()

	m, server := setup(t, nil)
	server.Enqueue(openaitest.Reply{
		Text: "Grüße from the 🌊 model", Chunks: 7, Reasoning: "hm", Comments: true,
		Usage: &openaitest.Usage{Input: 120, Output: 9, CacheRead: 64},
	})

	var h heard

	res, err := m.Generate(t.Context(), ask("hello"), h.sink)
	require.NoError(t, err)
	require.Equal(t, host.ModelResult{
		Text: "Grüße from the 🌊 model", Finish: host.FinishStop, Model: "gpt-test", ResponseID: "chatcmpl-test",
		Usage: session.Usage{Input: 120, Output: 9, CacheRead: 64},
	}, res)
	require.Equal(t, res.Text, h.part("text", 0))
	require.Equal(t, "hm", h.part("reasoning", 0))
	require.Len(t, h.deltas, 8)
	require.Equal(t, "reasoning", h.deltas[0].Part)

	require.Len(t, server.Requests(), 1)
	require.Equal(t, "text/event-stream", server.Requests()[0].Header.Get("Accept"))
	require.JSONEq(t, `[{"role":"system","content":"Be brief."},{"role":"user","content":"hello"}]`, server.Requests()[0].Messages())
}

func TestCallsAndTheirResultsGoRound(t *testing.T) {
	t.Parallel()

	m, server := setup(t, nil)
	server.Enqueue(
		openaitest.Reply{Text: "Looking.", Calls: []openaitest.Call{
			{ID: "call_a", Name: "files_list", Arguments: `{"path":"docs"}`, Fragments: 4},
			{ID: "call_b", Name: "files_list", Arguments: `{}`},
		}},
		openaitest.Text("Done.", 1),
	)

	req := ask("list")
	req.Tools = []host.ModelTool{listTool}

	var h heard

	res, err := m.Generate(t.Context(), req, h.sink)
	require.NoError(t, err)
	require.Equal(t, host.FinishTools, res.Finish)
	require.Equal(t, []host.ModelCall{
		{ID: "call_a", Name: "files_list", Arguments: `{"path":"docs"}`},
		{ID: "call_b", Name: "files_list", Arguments: `{}`},
	}, res.Calls)
	require.Equal(t, `{"path":"docs"}`, h.part("arguments", 1))
	require.Equal(t, `{}`, h.part("arguments", 2))

	req.Messages = append(req.Messages,
		host.ModelMessage{Role: host.RoleAssistant, Text: res.Text, Calls: res.Calls},
		host.ModelMessage{Role: host.RoleTool, Results: []host.ModelToolResult{
			{ID: "call_a", Name: "files_list", Text: "a.md"}, {ID: "call_b", Name: "files_list", Text: "no such folder", Error: true},
		}})
	req.NoTools = true

	_, err = m.Generate(t.Context(), req, h.sink)
	require.NoError(t, err)

	requests := server.Requests()
	require.Contains(t, string(requests[1].Body), `"tool_choice":"none"`)
	require.Contains(t, string(requests[1].Body), `{"role":"tool","content":"Error: no such folder","tool_call_id":"call_b"}`)
	require.NotContains(t, string(requests[0].Body), "tool_choice")
}

func TestEveryRequestExtendsTheOneBefore(t *testing.T) {
	t.Parallel()

	m, server := setup(t, nil)
	req := ask("begin")
	req.Tools = []host.ModelTool{listTool}

	for range 20 {
		server.Enqueue(openaitest.Reply{Text: "t", Reasoning: "because", Calls: []openaitest.Call{
			{ID: "a", Name: "files_list", Arguments: `{"path": "x"}`}, {Name: "made up!", Arguments: `{"path":`},
		}})
	}

	server.Rules.MessageFields = []string{"reasoning_content"}

	for turn := range 20 {
		res, err := m.Generate(t.Context(), req, func(host.Delta) {})
		require.NoError(t, err)
		require.NotNil(t, res.Item)

		res.Calls[1].ID = "call_" + string(rune('a'+turn)) + "_2" // what the engine gives a call without an id
		req.Messages = append(req.Messages,
			host.ModelMessage{Role: host.RoleAssistant, Text: res.Text, Calls: res.Calls, Item: res.Item},
			host.ModelMessage{Role: host.RoleTool, Results: []host.ModelToolResult{
				{ID: "a", Name: "files_list", Text: "<nothing> & more"}, {ID: res.Calls[1].ID, Text: "no such tool", Error: true},
			}},
			host.ModelMessage{Role: host.RoleUser, Parts: []host.ModelPart{{Text: "more"}, {Data: []byte{1}, MediaType: "image/png"}}})
	}

	requests := server.Requests()
	require.Len(t, requests, 20)

	for i := 1; i < len(requests); i++ {
		before := strings.TrimSuffix(string(requests[i-1].Body), "]}")
		require.True(t, strings.HasPrefix(string(requests[i].Body), before), "request %d is no continuation", i+1)
		require.Greater(t, len(requests[i].Body), len(requests[i-1].Body))
	}

	require.Equal(t, 19, strings.Count(string(requests[19].Body), `"reasoning_content":"because"`))
}

//nolint:paralleltest // it sets the environment
func TestNoCredentialWithoutAKey(t *testing.T) {
	for name, value := range map[string]string{
		"OPENAI_API_KEY": "sk-env-0123456789abcdef", "OPENAI_ADMIN_KEY": "sk-admin", "OPENAI_ORG_ID": "org", "OPENAI_PROJECT_ID": "proj",
		"OPENAI_BASE_URL": "http://127.0.0.1:1", "OPENAI_CUSTOM_HEADERS": "Authorization: Bearer leak",
	} {
		t.Setenv(name, value)
	}

	t.Run("of the provider", func(t *testing.T) {
		m, server := setup(t, func(c *openai.Config) { c.APIKey, c.Compatible = "", true })
		server.Enqueue(openaitest.Text("hi", 1))

		_, err := m.Generate(t.Context(), ask("hello"), func(host.Delta) {})
		require.NoError(t, err)
		require.NotContains(t, string(server.Requests()[0].Body), "prompt_cache_key", "only OpenAI is known to take it")
	})

	t.Run("to the address of a request", func(t *testing.T) {
		other := openaitest.New(t)
		other.Rules.Keyless = true
		other.Enqueue(openaitest.Text("hi", 1))

		m, server := setup(t, func(c *openai.Config) { c.Compatible = true })

		req := ask("hello")
		req.Model.BaseURL = other.URL + "/chat/completions"

		_, err := m.Generate(t.Context(), req, func(host.Delta) {})
		require.NoError(t, err)
		require.Empty(t, server.Requests())
		require.NotEqual(t, m.Info(req.Model).Family, m.Info(ask("").Model).Family)
	})
}

func TestWhatIsRefusedBeforeItIsSent(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		cfg   openai.Config
		model session.Model
		class string
	}{
		"no key for OpenAI":          {cfg: openai.Config{}, class: host.ClassAuthentication},
		"an address of its own":      {cfg: openai.Config{APIKey: "k"}, model: session.Model{BaseURL: "http://127.0.0.1:1/v1"}, class: host.ClassInvalid},
		"no address":                 {cfg: openai.Config{Compatible: true}, class: host.ClassInvalid},
		"an address with a password": {cfg: openai.Config{Compatible: true}, model: session.Model{BaseURL: "http://u:secret@127.0.0.1:1/v1"}, class: host.ClassInvalid},
		"an address of files":        {cfg: openai.Config{Compatible: true}, model: session.Model{BaseURL: "file:///etc/passwd"}, class: host.ClassInvalid},
		"an address with a query":    {cfg: openai.Config{Compatible: true}, model: session.Model{BaseURL: "http://127.0.0.1:1/v1?key=secret"}, class: host.ClassInvalid},
		"params that are no object":  {cfg: openai.Config{BaseURL: "http://127.0.0.1:1"}, model: session.Model{Params: "[]"}, class: host.ClassInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			m, err := openai.New(c.cfg)
			require.NoError(t, err)

			req := ask("hello")
			c.model.Model = "m"
			req.Model = c.model

			_, err = m.Generate(t.Context(), req, func(host.Delta) {})
			f := fault(t, err)
			require.Equal(t, c.class, f.Class)
			require.False(t, f.Sent)
			require.NotContains(t, f.Message, "secret")
		})
	}

	_, err := openai.New(openai.Config{BaseURL: "localhost:11434"})
	require.Error(t, err)
}

func TestAServerWithoutStreamOptionsIsRemembered(t *testing.T) {
	t.Parallel()

	m, server := setup(t, func(c *openai.Config) { c.APIKey, c.Compatible = "", true })
	server.Rules.NoStreamOptions = true
	server.Enqueue(openaitest.Text("one", 1), openaitest.Text("two", 1))

	for _, want := range []string{"one", "two"} {
		res, err := m.Generate(t.Context(), ask("hello"), func(host.Delta) {})
		require.NoError(t, err)
		require.Equal(t, want, res.Text)
		require.True(t, res.Usage.Estimated)
		require.Positive(t, res.Usage.Input)
		require.Positive(t, res.Usage.Output)
	}

	require.Len(t, server.Requests(), 3, "refused once, then twice without")
}

func TestParamsAreMergedButDecideNothing(t *testing.T) {
	t.Parallel()

	m, server := setup(t, nil)
	server.Enqueue(openaitest.Text("ok", 1))

	req := ask("hello")
	req.Model.Params = `{ "temperature": 0.20, "max_completion_tokens": 64, "stop": ["\ud83d\ude00"], "model": "other", "messages": [],
		"stream": false, "n": 4, "tools": [], "tool_choice": "required", "stream_options": {}, "seed": null }`

	_, err := m.Generate(t.Context(), req, func(host.Delta) {})
	require.NoError(t, err)

	var body map[string]json.RawMessage

	require.NoError(t, json.Unmarshal(server.Requests()[0].Body, &body))
	require.Equal(t, "0.20", string(body["temperature"]))
	require.Equal(t, "64", string(body["max_completion_tokens"]))
	require.Equal(t, `"gpt-test"`, string(body["model"]))
	require.Equal(t, "true", string(body["stream"]))

	for _, name := range []string{"n", "tools", "tool_choice", "seed"} {
		require.NotContains(t, body, name)
	}
}

func TestCancelAbortsTheCallAtOnce(t *testing.T) {
	t.Parallel()

	for name, reply := range map[string]openaitest.Reply{
		"in the middle of an answer": {Text: "slow answer", Chunks: 2, Hold: true},
		"before the first byte":      {HoldBefore: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			m, server := setup(t, nil)
			server.Enqueue(reply)

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()

			if reply.HoldBefore {
				go func() {
					<-server.Seen(1)
					cancel()
				}()
			}

			res, err := m.Generate(ctx, ask("hello"), func(host.Delta) { cancel() })
			require.Equal(t, context.Canceled, err)

			if reply.Hold {
				require.Equal(t, "slow ", res.Text)
				require.True(t, res.Usage.Estimated)
			}

			wait(t, server.Requests()[0].Gone)
			require.True(t, server.Requests()[0].Aborted())
		})
	}
}

func wait(t *testing.T, signal <-chan struct{}) {
	t.Helper()

	select {
	case <-signal:
	case <-time.After(hang):
		t.Error("what the test waits for did not come")
	}
}

func TestADeadlineIsATimeout(t *testing.T) {
	t.Parallel()

	m, server := setup(t, nil)
	server.Enqueue(openaitest.Reply{Text: "slow answer", Chunks: 2, Hold: true})

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()

	_, err := m.Generate(ctx, ask("hello"), func(host.Delta) {})
	require.Equal(t, host.ClassTimeout, fault(t, err).Class)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestSilenceIsATimeout(t *testing.T) {
	t.Parallel()

	m, server := setup(t, func(c *openai.Config) { c.IdleTimeout = 50 * time.Millisecond })
	server.Enqueue(openaitest.Reply{Text: "slow answer", Chunks: 2, Hold: true})

	res, err := m.Generate(t.Context(), ask("hello"), func(host.Delta) {})
	f := fault(t, err)
	require.Equal(t, host.ClassTimeout, f.Class)
	require.True(t, f.Sent)
	require.Equal(t, "slow ", res.Text)
	require.True(t, f.Usage.Estimated, "what was made before the silence is charged for")
	wait(t, server.Requests()[0].Gone)
}

func TestWhatNeverReachedTheServerIsKnown(t *testing.T) {
	t.Parallel()

	m, err := openai.New(openai.Config{Name: "local", BaseURL: "http://127.0.0.1:1/v1", Compatible: true})
	require.NoError(t, err)

	_, err = m.Generate(t.Context(), ask("hello"), func(host.Delta) {})
	f := fault(t, err)
	require.Equal(t, host.ClassNetwork, f.Class)
	require.False(t, f.Sent)
	require.Contains(t, f.Message, "refused")

	// What a guarded dialer says is handed on.
	no := &host.Fault{Class: host.ClassAccess, Message: "this address is not allowed"}
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, no }}
	m, err = openai.New(openai.Config{BaseURL: "http://10.0.0.1/v1", Compatible: true, HTTPClient: &http.Client{Transport: transport}})
	require.NoError(t, err)

	_, err = m.Generate(t.Context(), ask("hello"), func(host.Delta) {})
	f = fault(t, err)
	require.Equal(t, host.ClassAccess, f.Class)
	require.False(t, f.Sent)

	// A transport that tells nothing may have sent.
	m, err = openai.New(openai.Config{BaseURL: "http://10.0.0.1/v1", Compatible: true, HTTPClient: &http.Client{Transport: silent{}}})
	require.NoError(t, err)

	_, err = m.Generate(t.Context(), ask("hello"), func(host.Delta) {})
	require.True(t, fault(t, err).Sent)
}

type silent struct{}

func (silent) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("broken") }

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()

	other := openaitest.New(t)
	m, server := setup(t, nil)
	server.Enqueue(openaitest.Reply{Status: http.StatusTemporaryRedirect, Header: map[string]string{"Location": other.URL + "/chat/completions"}})

	_, err := m.Generate(t.Context(), ask("hello"), func(host.Delta) {})
	require.Equal(t, host.ClassOther, fault(t, err).Class)
	require.Empty(t, other.Requests())
}

func TestConcurrentCallsDoNotMeet(t *testing.T) {
	t.Parallel()

	m, server := setup(t, nil)
	server.Fallback = func(r openaitest.Request) openaitest.Reply {
		var messages []struct{ Content string }
		if json.Unmarshal([]byte(r.Messages()), &messages) != nil {
			return openaitest.Reply{}
		}

		return openaitest.Text("echo "+messages[1].Content, 3)
	}

	var all sync.WaitGroup

	for i := range 16 {
		all.Go(func() {
			text := strings.Repeat("x", i+1)

			res, err := m.Generate(t.Context(), ask(text), func(host.Delta) {})
			if err != nil || res.Text != "echo "+text {
				t.Errorf("call %d: %q, %v", i, res.Text, err)
			}
		})
	}

	all.Wait()
}
