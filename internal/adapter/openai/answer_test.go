package openai

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/host"
)

// decode reads a body as if a server had answered with it.
func decode(tb testing.TB, contentType, body string) (host.ModelResult, []host.Delta, error) {
	tb.Helper()

	var deltas []host.Delta

	a := newAnswer(func(d host.Delta) { deltas = append(deltas, d) }, "fam")
	res := &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(strings.NewReader(body)),
	}
	res.Body = newGuard(res, DefaultIdleTimeout, func(error) {})

	if err := a.read(tb.Context(), res); err != nil {
		return a.partial(), deltas, err
	}

	return a.result(), deltas, nil
}

func stream(t *testing.T, body string) (host.ModelResult, error) {
	t.Helper()

	res, _, err := decode(t, "text/event-stream", body)

	return res, err
}

func TestStreamsOfManyServers(t *testing.T) {
	t.Parallel()

	list := []host.ModelCall{{ID: "c1", Name: "files_list", Arguments: `{"path":"a"}`}}
	two := []host.ModelCall{list[0], {ID: "c2", Name: "files_read", Arguments: `{"path":"b"}`}}

	for name, c := range map[string]struct {
		events []string
		raw    string
		want   host.ModelResult
	}{
		"a call in fragments": {
			events: []string{
				openaitest.Delta(`{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"files_list","arguments":""}}]}`, ""),
				openaitest.Delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":"}}]}`, ""),
				openaitest.Delta(`{"tool_calls":[{"index":0,"function":{"arguments":"\"a\"}"}}]}`, ""),
				openaitest.Delta(`{}`, "tool_calls"),
			},
			want: host.ModelResult{Calls: list, Finish: host.FinishTools},
		},
		"whole calls without an index, ended with stop": {
			events: []string{
				openaitest.Delta(`{"tool_calls":[{"id":"c1","function":{"name":"files_list","arguments":"{\"path\":\"a\"}"}},{"id":"c2","function":{"name":"files_read","arguments":"{\"path\":\"b\"}"}}]}`, "stop"),
			},
			want: host.ModelResult{Calls: two, Finish: host.FinishTools},
		},
		"all calls with the same index": {
			events: []string{
				openaitest.Delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"files_list","arguments":"{\"path\":\"a\"}"}}]}`, ""),
				openaitest.Delta(`{"tool_calls":[{"index":0,"id":"c2","function":{"name":"files_read","arguments":"{\"path\":\"b\"}"}}]}`, "tool_calls"),
			},
			want: host.ModelResult{Calls: two, Finish: host.FinishTools},
		},
		"id and name in every fragment": {
			events: []string{
				openaitest.Delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"files_list","arguments":"{\"path\""}}]}`, ""),
				openaitest.Delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"files_list","arguments":":\"a\"}"}}]}`, "tool_calls"),
			},
			want: host.ModelResult{Calls: list, Finish: host.FinishTools},
		},
		"fragments without an index": {
			events: []string{
				openaitest.Delta(`{"tool_calls":[{"id":"c1","function":{"name":"files_list","arguments":"{\"path\""}}]}`, ""),
				openaitest.Delta(`{"tool_calls":[{"function":{"arguments":":\"a\"}"}}]}`, "tool_calls"),
			},
			want: host.ModelResult{Calls: list, Finish: host.FinishTools},
		},
		"no id, arguments as an object": {
			events: []string{openaitest.Delta(`{"tool_calls":[{"index":0,"function":{"name":"files_list","arguments":{"path":"a"}}}]}`, "tool_calls")},
			want:   host.ModelResult{Calls: []host.ModelCall{{Name: "files_list", Arguments: `{"path":"a"}`}}, Finish: host.FinishTools},
		},
		"the same id twice": {
			events: []string{openaitest.Delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"x"}},{"index":1,"id":"c1","function":{"name":"y"}}]}`, "tool_calls")},
			want:   host.ModelResult{Calls: []host.ModelCall{{ID: "c1", Name: "x", Arguments: "{}"}, {Name: "y", Arguments: "{}"}}, Finish: host.FinishTools},
		},
		"the form before tools": {
			events: []string{openaitest.Delta(`{"function_call":{"name":"x","arguments":"{}"}}`, "function_call")},
			want:   host.ModelResult{Calls: []host.ModelCall{{Name: "x", Arguments: "{}"}}, Finish: host.FinishTools},
		},
		"half surrogates in arguments": {
			events: []string{openaitest.Delta(`{"tool_calls":[{"index":0,"id":"c","function":{"name":"x","arguments":"{\"a\":\"\\ud83d\\u0000\\\\ud800\"}"}}]}`, "tool_calls")},
			want:   host.ModelResult{Calls: []host.ModelCall{{ID: "c", Name: "x", Arguments: `{"a":"\ufffd\u0000\\ud800"}`}}, Finish: host.FinishTools},
		},
		"a call cut by the length": {
			events: []string{openaitest.Delta(`{"content":"so","tool_calls":[{"index":0,"id":"c","function":{"name":"x","arguments":"{\"a\":"}}]}`, "length")},
			want:   host.ModelResult{Text: "so", Finish: host.FinishLength},
		},
		"no finish but an end": {
			events: []string{openaitest.Delta(`{"content":"hi"}`, "")},
			want:   host.ModelResult{Text: "hi", Finish: host.FinishStop},
		},
		"a finish but no end": {
			raw:  "data: " + openaitest.Delta(`{"content":"hi"}`, "stop"),
			want: host.ModelResult{Text: "hi", Finish: host.FinishStop},
		},
		"usage in the last choice, carriage returns, comments, event names": {
			raw: ": hello\r\n\r\nevent: message\r\nid: 1\r\nretry: 5\r\ndata: " +
				`{"id":"r1","model":"m1","choices":[{"delta":{"content":"hi"},"finish_reason":"stop","usage":{"prompt_tokens":7,"completion_tokens":2}}]}` +
				"\r\n\r\ndata: [DONE]\r\n\r\n",
			want: host.ModelResult{Text: "hi", Finish: host.FinishStop, ResponseID: "r1", Model: "m1", Usage: session.Usage{Input: 7, Output: 2}},
		},
		"usage by gateways": {
			events: []string{
				openaitest.Delta(`{"content":"hi"}`, "stop"),
				`{"choices":[],"usage":{"prompt_tokens":70,"completion_tokens":2,"prompt_cache_hit_tokens":64,"cost":0.00123,"prompt_tokens_details":{"cached_tokens":64,"cache_write_tokens":900}}}`,
			},
			want: host.ModelResult{Text: "hi", Finish: host.FinishStop, Usage: session.Usage{Input: 70, Output: 2, CacheRead: 64, CacheWrite: 6, CostMicros: 1230, Priced: true}},
		},
		"nonsense in fields that do not matter": {
			events: []string{`{"id":5,"model":[],"error":null,"choices":[{"index":0,"delta":{"content":"hi","refusal":null},"finish_reason":"stop"}],"usage":{"prompt_tokens":-3,"completion_tokens":"x","cost":"free"}}`},
			want:   host.ModelResult{Text: "hi", Finish: host.FinishStop},
		},
		"content in parts": {
			events: []string{openaitest.Delta(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"hi"}]}`, "stop")},
			want:   host.ModelResult{Text: "hi", Finish: host.FinishStop},
		},
		"a refusal": {
			events: []string{openaitest.Delta(`{"refusal":"I cannot "}`, ""), openaitest.Delta(`{"refusal":"do that."}`, "stop")},
			want:   host.ModelResult{Text: "I cannot do that.", Finish: host.FinishStop},
		},
		"another choice": {
			events: []string{`{"choices":[{"index":1,"delta":{"content":"no"},"finish_reason":"stop"},{"index":0,"delta":{"content":"yes"}}]}`},
			want:   host.ModelResult{Text: "yes", Finish: host.FinishStop},
		},
		"filtered": {
			events: []string{openaitest.Delta(`{"content":"h"}`, "content_filter")},
			want:   host.ModelResult{Text: "h", Finish: host.FinishContentFilter},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			body := c.raw
			if body == "" {
				body = openaitest.Stream(c.events...)
			}

			res, err := stream(t, body)
			require.NoError(t, err)

			if c.want.ResponseID == "" {
				res.ResponseID = ""
			}

			require.Equal(t, c.want, res)
		})
	}
}

func TestAnAnswerThatIsNoStream(t *testing.T) {
	t.Parallel()

	const body = `{"id":"r","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi",
		"tool_calls":[{"id":"c","type":"function","function":{"name":"x","arguments":"{}"}}]},"finish_reason":"tool_calls"}],
		"usage":{"prompt_tokens":3,"completion_tokens":1}}`

	res, _, err := decode(t, "application/json; charset=utf-8", body)
	require.NoError(t, err)
	require.Equal(t, host.ModelResult{
		Text: "hi", Calls: []host.ModelCall{{ID: "c", Name: "x", Arguments: "{}"}}, Finish: host.FinishTools, Model: "m", ResponseID: "r",
		Usage: session.Usage{Input: 3, Output: 1},
	}, res)

	res, _, err = decode(t, "application/json", openaitest.Stream(openaitest.Delta(`{"content":"mislabelled"}`, "stop")))
	require.NoError(t, err)
	require.Equal(t, "mislabelled", res.Text)

	_, _, err = decode(t, "application/json", "")
	require.ErrorIs(t, err, errEnded)
}

func TestStreamsThatBreak(t *testing.T) {
	t.Parallel()

	hello := "data: " + openaitest.Delta(`{"content":"hi"}`, "") + "\n\n"

	for name, c := range map[string]struct{ body, class, message string }{
		"cut":                         {hello, "", ""},
		"empty":                       {"", "", ""},
		"a page":                      {"<html>not for you</html>", "", ""},
		"no JSON":                     {"data: {\"choices\":[\n\n", host.ClassServer, "JSON"},
		"no object":                   {"data: [1]\n\n", host.ClassServer, "JSON"},
		"an error object":             {hello + `data: {"error":{"message":"The server had an error","type":"server_error","code":null}}` + "\n\n", host.ClassServer, "had an error"},
		"an error of the rate":        {hello + `data: {"error":{"message":"slow down","code":429}}` + "\n\n", host.ClassRateLimit, "slow down"},
		"an error of the money":       {hello + `data: {"error":{"message":"You exceeded your current quota","type":"insufficient_quota"}}` + "\n\n", host.ClassQuota, "quota"},
		"an error of the length":      {hello + `data: {"error":{"message":"maximum context length is 8192 tokens","code":400}}` + "\n\n", host.ClassContextLength, "8192"},
		"an error event":              {"event: error\n" + `data: {"message":"model runner has crashed"}` + "\n\n", host.ClassServer, "crashed"},
		"an error in a string":        {`data: {"error":"overloaded"}` + "\n\n", host.ClassServer, "overloaded"},
		"an object of kind error":     {`data: {"object":"error","message":"bad","type":"BadRequestError","code":400}` + "\n\n", host.ClassInvalid, "bad"},
		"an error with a finish":      {`data: {"error":{"code":502,"message":"upstream"},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}` + "\n\n", host.ClassServer, "upstream"},
		"a finish that is an error":   {openaitest.Stream(openaitest.Delta(`{}`, "error")), host.ClassServer, "error"},
		"a finish for want of means":  {openaitest.Stream(openaitest.Delta(`{}`, "insufficient_system_resource")), host.ClassServer, "insufficient"},
		"a line that does not end":    {"data: " + strings.Repeat("x", lineBytesMax+1), "", ""},
		"an answer that does not end": {strings.Repeat(":"+strings.Repeat("x", 1<<20)+"\n", 17), "", ""},
		"more calls than can be":      {"data: " + openaitest.Delta(`{"tool_calls":[`+strings.TrimSuffix(strings.Repeat(`{"function":{"name":"x"}},`, callsMax+1), ",")+`]}`, "") + "\n\n", host.ClassOther, "too many"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, err := stream(t, c.body)
			require.Error(t, err)

			m, newErr := New(Config{Name: "p", APIKey: "k"})
			require.NoError(t, newErr)

			var f *host.Fault

			require.ErrorAs(t, m.broken(nil, err, true), &f)
			require.True(t, f.Sent)

			switch {
			case c.class != "":
				require.Equal(t, c.class, f.Class)
				require.Contains(t, f.Message, c.message)
			case errors.Is(err, errLine) || errors.Is(err, errAnswer):
				require.Equal(t, host.ClassOther, f.Class)
			default:
				require.Equal(t, host.ClassNetwork, f.Class)
				require.ErrorIs(t, err, errEnded)
			}
		})
	}
}

func TestItemsHoldWhatServersWantBack(t *testing.T) {
	t.Parallel()

	call := `"tool_calls":[{"index":0,"id":"c","function":{"name":"x","arguments":"{}"}}]`

	for name, c := range map[string]struct {
		deltas []string
		want   string
	}{
		"reasoning_content": {[]string{`{"reasoning_content":"so "}`, `{"reasoning_content":"what"}`, `{` + call + `}`}, `{"reasoning_content":"so what"}`},
		"reasoning":         {[]string{`{"reasoning":"so what"}`, `{` + call + `}`}, `{"reasoning":"so what"}`},
		"details": {
			[]string{
				`{"reasoning":"a","reasoning_details":[{"type":"reasoning.text","index":0,"text":"a","format":"f"}]}`,
				`{"reasoning":"b","reasoning_details":[{"type":"reasoning.text","index":0,"text":"b","signature":"sig"},{"type":"reasoning.encrypted","index":1,"data":"x"}]}`,
				`{"reasoning_details":[{"type":"reasoning.encrypted","index":1,"data":"y\ud800"}],` + call + `}`,
			},
			`{"reasoning_details":[{"format":"f","index":0,"signature":"sig","text":"ab","type":"reasoning.text"},` +
				`{"data":"x","index":1,"type":"reasoning.encrypted"},{"data":"y\ufffd","index":1,"type":"reasoning.encrypted"}]}`,
		},
		"a signature on a call": {
			[]string{`{"tool_calls":[{"index":0,"id":"c","function":{"name":"x"},"extra_content":{"google":{"thought_signature":"s"}}},{"index":1,"id":"d","function":{"name":"y"}}]}`},
			`{"calls":[{"extra_content":{"google":{"thought_signature":"s"}}},{}]}`,
		},
		"nothing but a call":     {[]string{`{"content":"hi",` + call + `}`}, ""},
		"thoughts without calls": {[]string{`{"reasoning_content":"hm"}`, `{"content":"hi"}`}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			events := make([]string, 0, len(c.deltas))
			for _, d := range c.deltas {
				events = append(events, openaitest.Delta(d, ""))
			}

			res, err := stream(t, openaitest.Stream(events...))
			require.NoError(t, err)

			if c.want == "" {
				require.Nil(t, res.Item)

				return
			}

			require.Equal(t, &host.ModelItem{Kind: ItemKind, Family: "fam", Data: c.want}, res.Item)
		})
	}
}

func FuzzStream(f *testing.F) {
	for _, seed := range []string{
		"", "data: [DONE]\n\n", "data:\n\n", "data: {}\n\n", ":\n\n", "event: error\ndata: {}\n\n", "data: {\"choices\":[{\"delta\":",
		openaitest.Stream(openaitest.Delta(`{"role":"assistant","content":"hi"}`, "stop")),
		openaitest.Stream(openaitest.Delta(`{"tool_calls":[{"index":0,"id":"c","function":{"name":"x","arguments":"{\"a\":\"\\ud83d\"}"}}]}`, "tool_calls")),
		openaitest.Stream(openaitest.Delta(`{"tool_calls":[{"index":-1,"id":7,"function":{"name":null,"arguments":[1,"`+"\xff"+`"]}}]}`, "")),
		openaitest.Stream(openaitest.Delta(`{"reasoning_details":[{"type":"reasoning.text","text":"a"},null,7],"tool_calls":[null,{}]}`, "length")),
		openaitest.Stream(openaitest.Delta(`{"content":[{"type":"thinking","thinking":"x"},{"text":"y"}],"refusal":"z"}`, "error")),
		openaitest.Stream(`{"choices":[],"usage":{"prompt_tokens":1e400,"completion_tokens":NaN}}`),
		"data: {\"error\":{\"error\":{\"message\":[\"x\"]}}}\n\n", "data: {\"choices\":[{\"delta\":{\"content\":\"\xff\xfe\\ud800\"}}]}\r\n\r\n",
	} {
		f.Add("text/event-stream", seed)
	}

	f.Add("application/json", `{"choices":[{"message":{"content":"hi"}}]}`)
	f.Add("application/json", " [] ")

	f.Fuzz(func(t *testing.T, contentType, body string) {
		res, deltas, err := decode(t, contentType, body)

		var text strings.Builder

		for _, d := range deltas {
			if d.Text == "" || !utf8.ValidString(d.Text) {
				t.Fatalf("a delta with the text %q", d.Text)
			}

			if (d.Part == "arguments") != (d.Call > 0) {
				t.Fatalf("a delta of %s has the call %d", d.Part, d.Call)
			}

			if d.Part == "text" {
				text.WriteString(d.Text)
			}
		}

		if res.Text != text.String() {
			t.Fatalf("the text %q is not that of the deltas %q", res.Text, text.String())
		}

		checkFuzzed(t, res, err)
	})
}

func checkFuzzed(t *testing.T, res host.ModelResult, err error) {
	t.Helper()

	var known *host.Fault
	if err != nil && !errors.As(err, &known) && !errors.Is(err, errEnded) && !errors.Is(err, errLine) && !errors.Is(err, errAnswer) {
		t.Fatalf("an error of no known kind: %v", err)
	}

	if err == nil && res.Finish == "" {
		t.Fatal("no finish")
	}

	// What came is sent back with the next request.
	msg := host.ModelMessage{Role: host.RoleAssistant, Text: res.Text, Calls: res.Calls, Item: res.Item}
	results := host.ModelMessage{Role: host.RoleTool}

	for i := range msg.Calls {
		if msg.Calls[i].ID == "" {
			msg.Calls[i].ID = "ours_" + strings.Repeat("x", i)
		}

		results.Results = append(results.Results, host.ModelToolResult{ID: msg.Calls[i].ID})
	}

	body, err := render(host.ModelRequest{Messages: []host.ModelMessage{msg, results}}, renderOptions{family: "fam"})
	if err != nil {
		t.Fatalf("the answer cannot be sent back: %v", err)
	}

	if !json.Valid(body) || !utf8.Valid(body) || string(body) != cleanJSON(string(body)) {
		t.Fatalf("the answer goes back as %q", body)
	}
}

func TestNothingIsHandedOnAfterACancel(t *testing.T) {
	t.Parallel()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	heard := 0
	a := newAnswer(func(host.Delta) {
		heard++

		cancel()
	}, "fam")

	body := openaitest.Stream(openaitest.Delta(`{"content":"one"}`, ""), openaitest.Delta(`{"content":"two"}`, "stop"))
	err := a.read(ctx, &http.Response{Body: io.NopCloser(strings.NewReader(body))})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, heard)
}
