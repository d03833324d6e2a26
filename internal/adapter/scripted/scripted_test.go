package scripted_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/scripted"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/host/porttest"
)

func quiet(host.Delta) {}

func user(text string) host.ModelMessage {
	return host.ModelMessage{Role: host.RoleUser, Parts: []host.ModelPart{{Text: text}}}
}

func fault(t *testing.T, err error) *host.Fault {
	t.Helper()

	var f *host.Fault

	require.ErrorAs(t, err, &f)

	return f
}

func TestModelPortOfAScript(t *testing.T) {
	t.Parallel()

	porttest.Model(t, func(t *testing.T, replies ...porttest.ModelReply) porttest.ModelSetup {
		t.Helper()

		var s *scripted.Script

		steps := make([]scripted.Step, 0, len(replies))

		for _, r := range replies {
			step := scripted.Step{Text: r.Text}
			if r.Class != "" {
				step.Fault = &host.Fault{Class: r.Class, Message: "no", Sent: true}
			}

			if r.Hold {
				step.Gate = make(chan struct{})
			}

			for _, c := range r.Calls {
				step.Calls = append(step.Calls, scripted.Call{Tool: c.Name, ID: c.ID, Arguments: c.Arguments})
			}

			steps = append(steps, step)
		}

		s = scripted.NewScript(steps...)
		t.Cleanup(func() { require.Empty(t, s.Violations()) })

		return porttest.ModelSetup{
			Port: s, Model: session.Model{Provider: "test", Model: "m"}, Requests: func() int { return len(s.Requests()) },
		}
	})
}

// counting counts what reaches a port that keeps nothing.
type counting struct {
	host.ModelPort
	mu sync.Mutex
	n  int
}

func (c *counting) Generate(ctx context.Context, req host.ModelRequest, sink func(host.Delta)) (host.ModelResult, error) {
	if ctx.Err() == nil {
		c.mu.Lock()
		c.n++
		c.mu.Unlock()
	}

	return c.ModelPort.Generate(ctx, req, sink)
}

func (c *counting) requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.n
}

func TestModelPortByParams(t *testing.T) {
	t.Parallel()

	porttest.Model(t, func(t *testing.T, replies ...porttest.ModelReply) porttest.ModelSetup {
		t.Helper()

		steps := make([]map[string]any, 0, len(replies))

		for _, r := range replies {
			step := map[string]any{"text": r.Text}
			if r.Class != "" {
				step["fault"] = map[string]any{"class": r.Class}
			}

			if r.Hold {
				step["delayMs"] = int64(24 * time.Hour / time.Millisecond)
			}

			calls := []any{}
			for _, c := range r.Calls {
				calls = append(calls, map[string]any{"tool": c.Name, "id": c.ID, "arguments": c.Arguments})
			}

			step["calls"] = calls
			steps = append(steps, step)
		}

		params, err := json.Marshal(map[string]any{"steps": steps})
		require.NoError(t, err)

		c := &counting{ModelPort: scripted.New(scripted.Config{})}

		return porttest.ModelSetup{
			Port: c, Model: session.Model{Provider: "scripted", Model: scripted.ByParam, Params: string(params)}, Requests: c.requests,
		}
	})
}

// script asks the model ByParam.
func script(t *testing.T, params, attempt string, messages ...host.ModelMessage) (host.ModelResult, error) {
	t.Helper()

	return scripted.New(scripted.Config{}).Generate(t.Context(), host.ModelRequest{
		Attempt: attempt, Model: session.Model{Model: scripted.ByParam, Params: params}, Messages: messages,
		Tools: []host.ModelTool{{WireName: "files_list"}},
	}, quiet)
}

func TestStepsFollowTheConversation(t *testing.T) {
	t.Parallel()

	const params = `{"temperature":0.5,"steersContinue":%v,"steps":[
		{"calls":[{"tool":"files.list","arguments":{"path":"a"}},{"tool":"no.such","arguments":"{not json"}]},
		{"text":"I was asked {{input}} and saw {{results}}.","usage":{"input":7,"output":3}}]}`

	for _, steers := range []bool{false, true} {
		p := fmt.Sprintf(params, steers)
		messages := []host.ModelMessage{user("hello")}

		res, err := script(t, p, "run_1/turn_4/1", messages...)
		require.NoError(t, err)
		require.Equal(t, []host.ModelCall{
			{ID: "scripted_4_1", Name: "files_list", Arguments: `{"path":"a"}`}, {ID: "scripted_4_2", Name: "no_such", Arguments: `{not json`},
		}, res.Calls)

		messages = append(messages, host.ModelMessage{Role: host.RoleAssistant, Calls: res.Calls},
			host.ModelMessage{Role: host.RoleTool, Results: []host.ModelToolResult{{ID: "scripted_4_1", Text: "a.md"}, {ID: "scripted_4_2", Text: "no"}}})

		res, err = script(t, p, "run_1/turn_5/1", messages...)
		require.NoError(t, err)
		require.Equal(t, "I was asked hello and saw a.md\nno.", res.Text)
		require.Equal(t, session.Usage{Input: 7, Output: 3}, res.Usage)

		// A steer begins anew, or not.
		steered, err := script(t, p, "run_1/turn_5/1", append(messages[:3:3], user("wait"))...)
		require.NoError(t, err)
		require.Equal(t, steers, len(steered.Calls) == 0)

		// The next run begins anew.
		messages = append(messages, host.ModelMessage{Role: host.RoleAssistant, Text: res.Text}, user("again"))
		res, err = script(t, p, "run_2/turn_6/1", messages...)
		require.NoError(t, err)
		require.Len(t, res.Calls, 2)
	}

	_, err := script(t, `{"steps":[]}`, "", user("hello"))
	require.Equal(t, host.ClassInvalid, fault(t, err).Class)
	require.Contains(t, fault(t, err).Message, "step 1 is due")
}

func TestFaultsGoByTheAttempt(t *testing.T) {
	t.Parallel()

	const params = `{"steps":[{"text":"ok","faults":2,"fault":{"class":"rate_limit","retryAfterMs":5,"message":"slow"}}]}`

	for _, attempt := range []string{"run_1/turn_1/1", "run_1/turn_1/2"} {
		_, err := script(t, params, attempt, user("hello"))
		require.Equal(t, &host.Fault{Class: host.ClassRateLimit, Message: "scripted: slow", RetryAfterMs: 5, Sent: true}, fault(t, err))
	}

	res, err := script(t, params, "run_1/turn_1/3", user("hello"))
	require.NoError(t, err)
	require.Equal(t, "ok", res.Text)

	_, err = script(t, `{"steps":[{"faults":1}]}`, "run_1/turn_1/1", user("hello"))
	require.Equal(t, host.ClassServer, fault(t, err).Class)
}

func TestAScriptThatCannotBeReadSaysSo(t *testing.T) {
	t.Parallel()

	for params, says := range map[string]string{
		`[]`:                        "no JSON object",
		`{"steps":[{"texxt":"x"}]}`: "texxt",
		`{"steps":[{"fault":{"class":"bad luck"}}]}`: "bad luck",
		`{"steps":[{"finish":"never"}]}`:             "never",
		`{"steps":[{"text":1}]}`:                     "cannot be read",
	} {
		_, err := script(t, params, "", user("hello"))
		require.Equal(t, host.ClassInvalid, fault(t, err).Class)
		require.Contains(t, fault(t, err).Message, says)
	}
}

func TestInfoAndCompactionAndLimits(t *testing.T) {
	t.Parallel()

	m := scripted.New(scripted.Config{})
	require.Equal(t, host.ModelInfo{InputLimit: 128_000, Family: "scripted", Priced: true}, m.Info(session.Model{Model: scripted.Demo, Params: `{"inputLimit":5}`}))
	require.Equal(t, host.ModelInfo{InputLimit: 500, OutputLimit: 50, Family: "scripted", Priced: true, InputPrice: 3, OutputPrice: 4},
		m.Info(session.Model{Model: scripted.ByParam, Params: `{"inputLimit":500,"outputLimit":50,"prices":{"input":3,"output":4}}`}))

	res, err := script(t, `{"steps":[{"calls":[{"tool":"x"}]}],"summary":"short"}`, "compact/entry_1/1", user("hello"), user("Summarise"))
	require.NoError(t, err)
	require.Equal(t, "short", res.Text)

	req := host.ModelRequest{Attempt: "compact/entry_1/1", Model: session.Model{Model: scripted.Demo}, Messages: []host.ModelMessage{user("write\nnotes"), user("Summarise")}}
	res, err = m.Generate(t.Context(), req, quiet)
	require.NoError(t, err)
	require.Equal(t, "So far the person asked:\n- write notes", res.Text)

	req = host.ModelRequest{
		Model: session.Model{Model: scripted.ByParam, Params: `{"steps":[{"calls":[{"tool":"files.list"}]}]}`}, Messages: []host.ModelMessage{user("x")}, NoTools: true,
	}
	res, err = m.Generate(t.Context(), req, quiet)
	require.NoError(t, err)
	require.Empty(t, res.Calls)
	require.NotEmpty(t, res.Text)

	req.Model.Model = "gpt"
	_, err = m.Generate(t.Context(), req, quiet)
	require.Equal(t, host.ClassNotFound, fault(t, err).Class)
}

func TestADelayStandsInTheMiddle(t *testing.T) {
	t.Parallel()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	req := host.ModelRequest{
		Model:    session.Model{Model: scripted.ByParam, Params: `{"steps":[{"text":"one two three four","delayMs":86400000}]}`},
		Messages: []host.ModelMessage{user("x")},
	}

	words := 0
	res, err := scripted.New(scripted.Config{}).Generate(ctx, req, func(host.Delta) {
		if words++; words == 2 {
			cancel()
		}
	})
	require.Equal(t, context.Canceled, err)
	require.Equal(t, "one two ", res.Text)
	require.Positive(t, res.Usage.Output)
}

func TestWhatProvidersRefuse(t *testing.T) {
	t.Parallel()

	call := host.ModelMessage{Role: host.RoleAssistant, Calls: []host.ModelCall{{ID: "a"}, {ID: "b"}}}
	results := func(ids ...string) host.ModelMessage {
		m := host.ModelMessage{Role: host.RoleTool}
		for _, id := range ids {
			m.Results = append(m.Results, host.ModelToolResult{ID: id})
		}

		return m
	}

	for name, c := range map[string]struct {
		messages []host.ModelMessage
		says     string
	}{
		"nothing":               {nil, "no messages"},
		"begins with an answer": {[]host.ModelMessage{{Role: host.RoleAssistant, Text: "x"}, user("y")}, "not the user's"},
		"ends with an answer":   {[]host.ModelMessage{user("y"), {Role: host.RoleAssistant, Text: "x"}}, "nothing to answer"},
		"empty answer":          {[]host.ModelMessage{user("y"), {Role: host.RoleAssistant}, user("z")}, "message 2 is empty"},
		"empty input":           {[]host.ModelMessage{user(" ")}, "message 1 is empty"},
		"no results":            {[]host.ModelMessage{user("y"), call, user("z")}, "results of the calls before it are due"},
		"no results at the end": {[]host.ModelMessage{user("y"), call}, "no results"},
		"too few results":       {[]host.ModelMessage{user("y"), call, results("a")}, "1 results for 2 calls"},
		"results out of order":  {[]host.ModelMessage{user("y"), call, results("b", "a")}, `answers "b"`},
		"results twice":         {[]host.ModelMessage{user("y"), call, results("a", "b"), results("a", "b")}, "no calls directly before"},
		"results of nothing":    {[]host.ModelMessage{user("y"), results("a")}, "no calls directly before"},
		"the same id":           {[]host.ModelMessage{user("y"), {Role: host.RoleAssistant, Calls: []host.ModelCall{{ID: "a"}, {ID: "a"}}}, results("a", "a")}, "there twice"},
		"another role":          {[]host.ModelMessage{user("y"), {Role: "system"}, user("x")}, `"system"`},
		"broken text":           {[]host.ModelMessage{user("\xff")}, "UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := scripted.NewScript(scripted.Step{Text: "x"})
			_, err := s.Generate(t.Context(), host.ModelRequest{Messages: c.messages}, quiet)
			require.Equal(t, host.ClassInvalid, fault(t, err).Class)
			require.Contains(t, strings.Join(s.Violations(), "\n"), c.says)
		})
	}

	require.Empty(t, scripted.Violations(host.ModelRequest{Messages: []host.ModelMessage{user("y"), call, results("a", "b"), user("z"), user("z")}}))
	require.Len(t, scripted.Violations(host.ModelRequest{Messages: []host.ModelMessage{user("y")}, Tools: []host.ModelTool{{WireName: "a.b"}, {WireName: "x"}, {WireName: "x"}}}), 2)
}

func TestAScriptGoesByTheSession(t *testing.T) {
	t.Parallel()

	begun, gate := make(chan struct{}), make(chan struct{})
	s := scripted.NewScript(scripted.Step{Text: "first"})
	s.Add(scripted.Step{Text: "second"})
	s.For("own", scripted.Step{Text: "mine own", Begun: func() { close(begun) }, Gate: gate})

	ask := func(id string) (host.ModelResult, error) {
		req := host.ModelRequest{Messages: []host.ModelMessage{user("x")}}
		req.Session = session1(id)

		return s.Generate(t.Context(), req, quiet)
	}

	answered := make(chan string)

	go func() {
		res, err := ask("own")
		answered <- fmt.Sprint(res.Text, err)
	}()

	<-begun

	for _, id := range []string{"a", "b"} {
		for _, want := range []string{"first", "second"} {
			res, err := ask(id)
			require.NoError(t, err)
			require.Equal(t, want, res.Text)
		}
	}

	close(gate)
	require.Equal(t, "mine own<nil>", <-answered)
	require.Len(t, s.Requests(), 5)
	require.Empty(t, s.Violations())

	_, err := ask("a")
	require.Equal(t, host.ClassInvalid, fault(t, err).Class)
	require.Len(t, s.Violations(), 1)

	port, err := s.Model(t.Context(), "", session.Model{})
	require.NoError(t, err)
	require.Equal(t, host.ModelPort(s), port)
}
