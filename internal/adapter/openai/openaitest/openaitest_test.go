package openaitest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
)

// post sends a body as a client would, and returns the status and the answer.
func post(t *testing.T, url, body string, header ...string) (int, string) {
	t.Helper()

	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")

	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}

	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)

	defer res.Body.Close()

	out, err := io.ReadAll(res.Body)
	require.NoError(t, err)

	return res.StatusCode, string(out)
}

// with is a request whose messages are these, between a question and its
// answer.
func with(messages string) string {
	return `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"},` + messages + `]}`
}

const (
	calls = `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"x","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"x","arguments":"not JSON"}}]}`
	tools = `"tools":[{"type":"function","function":{"name":"x","parameters":{"type":"object"}}}]`
)

func TestTheServerRefusesWhatTheRealOneDoes(t *testing.T) {
	t.Parallel()

	server := openaitest.New(t)
	server.AllowRefused()

	for name, c := range map[string]struct{ body, says string }{
		"no JSON":                        {`{`, "could not parse"},
		"broken text":                    {with("{\"role\":\"user\",\"content\":\"\xff\"}"), "UTF-8"},
		"half a surrogate":               {with(`{"role":"user","content":"\ud83d"}`), "surrogate"},
		"the other half":                 {with(`{"role":"user","content":"\ude00\ud83d"}`), "surrogate"},
		"unknown field":                  {`{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}],"temprature":1}`, "temprature"},
		"no model":                       {`{"stream":true,"messages":[{"role":"user","content":"x"}]}`, "model"},
		"no messages":                    {`{"model":"m","stream":true,"messages":[]}`, "too short"},
		"no stream":                      {`{"model":"m","messages":[{"role":"user","content":"x"}]}`, "stream"},
		"bad options":                    {`{"model":"m","stream":true,"stream_options":{"x":true},"messages":[{"role":"user","content":"x"}]}`, "stream_options"},
		"no room":                        {`{"model":"m","stream":true,"max_tokens":0,"messages":[{"role":"user","content":"x"}]}`, "max_tokens"},
		"a choice of no tools":           {`{"model":"m","stream":true,"tool_choice":"none","messages":[{"role":"user","content":"x"}]}`, "tool_choice"},
		"empty tools":                    {`{"model":"m","stream":true,"tools":[],"messages":[{"role":"user","content":"x"}]}`, "too short"},
		"a tool with a dot":              {`{"model":"m","stream":true,` + strings.Replace(tools, `"x"`, `"x.y"`, 1) + `,"messages":[{"role":"user","content":"x"}]}`, "does not match"},
		"a schema of a string":           {`{"model":"m","stream":true,` + strings.Replace(tools, `"object"`, `"string"`, 1) + `,"messages":[{"role":"user","content":"x"}]}`, "schema"},
		"wrong role":                     {with(`{"role":"function","content":"x"}`), "role"},
		"unknown field of a message":     {with(`{"role":"user","content":"x","reasoning_content":"y"}`), "reasoning_content"},
		"no content of a user":           {with(`{"role":"user","content":null}`), "content"},
		"an empty list of parts":         {with(`{"role":"user","content":[]}`), "parts"},
		"an unknown part":                {with(`{"role":"user","content":[{"type":"video"}]}`), "video"},
		"an image that is none":          {with(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,!"}}]}`), "image"},
		"an answer of nothing":           {with(`{"role":"assistant","content":null},{"role":"user","content":"x"}`), "expected a string"},
		"an answer without content":      {with(`{"role":"assistant"},{"role":"user","content":"x"}`), "expected a string"},
		"empty calls":                    {with(`{"role":"assistant","content":"x","tool_calls":[]}`), "too short"},
		"calls without results":          {with(calls + `,{"role":"user","content":"x"}`), "must be followed by tool messages"},
		"calls at the end":               {with(calls), "no response"},
		"one result of two":              {with(calls + `,{"role":"tool","content":"x","tool_call_id":"a"},{"role":"user","content":"x"}`), "must be followed"},
		"results out of order":           {with(calls + `,{"role":"tool","content":"x","tool_call_id":"b"},{"role":"tool","content":"x","tool_call_id":"a"}`), "is due"},
		"a result too many":              {with(calls + `,{"role":"tool","content":"x","tool_call_id":"a"},{"role":"tool","content":"x","tool_call_id":"b"},{"role":"tool","content":"x","tool_call_id":"b"}`), "must be a response"},
		"a result of nothing":            {with(`{"role":"tool","content":"x","tool_call_id":"a"}`), "must be a response"},
		"the same id twice":              {with(strings.Replace(calls, `"b"`, `"a"`, 1)), "twice"},
		"an empty id":                    {with(strings.Replace(calls, `"a"`, `""`, 1)), "allowed are 1 to 40"},
		"a long id":                      {with(strings.Replace(calls, `"a"`, `"`+strings.Repeat("a", 41)+`"`, 1)), "allowed are 1 to 40"},
		"a name made up":                 {with(strings.Replace(calls, `"x"`, `"x y"`, 1)), "does not match"},
		"half a surrogate in arguments":  {with(strings.Replace(calls, `"{}"`, `"{\"a\":\"\\ud83d\"}"`, 1)), "surrogate"},
		"a result id on a user message":  {with(`{"role":"user","content":"x","tool_call_id":"a"}`), "not for role"},
		"calls in the mouth of the user": {with(strings.Replace(calls, "assistant", "user", 1)), "not for role"},
	} {
		status, body := post(t, server.URL+"/chat/completions", c.body)
		require.Equal(t, http.StatusBadRequest, status, name)
		require.Contains(t, body, c.says, name)
		require.Contains(t, body, `"type":"invalid_request_error"`, name)
	}

	// What is next to it is fine.
	server.Enqueue(openaitest.Text("ok", 1))

	status, body := post(t, server.URL+"/chat/completions", with(calls+
		`,{"role":"tool","content":"x","tool_call_id":"a"},{"role":"tool","content":"x","tool_call_id":"b"},{"role":"user","content":"\ud83d\ude00 \\ud83d"}`))
	require.Equal(t, http.StatusOK, status, body)
	require.True(t, strings.HasSuffix(body, "data: [DONE]\n\n"))

	status, _ = post(t, server.URL+"/completions", with(calls))
	require.Equal(t, http.StatusNotFound, status)
}

func TestRulesOfOtherServers(t *testing.T) {
	t.Parallel()

	server := openaitest.New(t)
	server.AllowRefused()
	server.Rules = openaitest.Rules{Keyless: true, ParseArguments: true, MessageFields: []string{"reasoning_content"}, Fields: []string{"top_k"}}

	status, body := post(t, server.URL+"/chat/completions", with(`{"role":"user","content":"x"}`), "Authorization", "")
	require.Equal(t, http.StatusBadRequest, status, "an empty header is one")
	require.Contains(t, body, "Authorization")

	results := `,{"role":"tool","content":"x","tool_call_id":"a"},{"role":"tool","content":"x","tool_call_id":"b"}`
	status, body = post(t, server.URL+"/chat/completions", with(calls+results))
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, body, "no JSON object")

	server.Enqueue(openaitest.Text("ok", 1))

	status, body = post(t, server.URL+"/chat/completions", `{"model":"m","stream":true,"top_k":1,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"x","reasoning_content":"y"},{"role":"user","content":"x"}]}`)
	require.Equal(t, http.StatusOK, status, body)
}

// failing takes what a server reports at the end of a test.
type failing struct {
	cleanups []func()
	errors   []string
}

func (f *failing) Helper()                   {}
func (f *failing) Cleanup(c func())          { f.cleanups = append(f.cleanups, c) }
func (f *failing) Errorf(s string, _ ...any) { f.errors = append(f.errors, s) }

func TestRefusedRequestsAndUnusedRepliesFailTheTest(t *testing.T) {
	t.Parallel()

	var f failing

	server := openaitest.New(&f)
	server.Enqueue(openaitest.Text("nobody asks", 1))
	post(t, server.URL+"/chat/completions", `{}`)

	for _, c := range f.cleanups {
		c()
	}

	require.Len(t, f.errors, 2)
}

func TestAProcessOfItsOwnIsControlledOverHTTP(t *testing.T) {
	t.Parallel()

	server := openaitest.New(t)
	root := strings.TrimSuffix(server.URL, "/v1")

	status, body := post(t, root+"/control/replies", `[{"text":"hello you","chunks":2},{"status":429,"error":{"message":"slow","type":"requests"},"header":{"Retry-After":"1"}}]`)
	require.Equal(t, http.StatusNoContent, status, body)

	question := `{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`

	status, body = post(t, server.URL+"/chat/completions", question)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, `"content":"hell"`)

	status, body = post(t, server.URL+"/chat/completions", question)
	require.Equal(t, http.StatusTooManyRequests, status)
	require.JSONEq(t, `{"error":{"message":"slow","type":"requests","param":null,"code":null}}`, body)

	res, err := http.Get(root + "/control/requests")
	require.NoError(t, err)

	defer res.Body.Close()

	out, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.JSONEq(t, "["+question+","+question+"]", string(out))
}
