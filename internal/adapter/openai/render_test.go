package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/host"
)

func rendered(t *testing.T, messages ...host.ModelMessage) string {
	t.Helper()

	body, err := render(host.ModelRequest{Messages: messages}, renderOptions{family: "fam"})
	require.NoError(t, err)

	var out struct{ Messages json.RawMessage }

	require.NoError(t, json.Unmarshal(body, &out))

	return strings.TrimSuffix(strings.TrimPrefix(string(out.Messages), "["), "]")
}

func TestARequestIsTheseBytes(t *testing.T) {
	t.Parallel()

	req := host.ModelRequest{
		Tenant: "default", Session: "s1",
		Model:        session.Model{Model: "m", Params: `{"temperature": 1, "max_tokens": 5}`},
		Instructions: []string{"One.", " ", "Two."},
		Tools: []host.ModelTool{
			{WireName: "a", Description: "Does <a> & b.", Parameters: `{"type": "object"}`}, {WireName: "b"},
		},
		NoTools:  true,
		Messages: []host.ModelMessage{{Role: host.RoleUser, Parts: []host.ModelPart{{Text: "hi <b>"}}}},
	}

	body, err := render(req, renderOptions{countUsage: true, cacheKey: true})
	require.NoError(t, err)
	require.Equal(t, `{"model":"m","max_tokens":5,"prompt_cache_key":"d3f3a3afe5024465dc629724633fe4fd","temperature":1,"tool_choice":"none",`+
		`"tools":[{"type":"function","function":{"name":"a","description":"Does <a> & b.","parameters":{"type":"object"}}},`+
		`{"type":"function","function":{"name":"b","parameters":{"type":"object","properties":{}}}}],`+
		`"stream":true,"stream_options":{"include_usage":true},`+
		`"messages":[{"role":"system","content":"One.\n\nTwo."},{"role":"user","content":"hi <b>"}]}`, string(body))
}

func TestMessages(t *testing.T) {
	t.Parallel()

	long := strings.Repeat("toolu_", 20)

	for name, c := range map[string]struct {
		message host.ModelMessage
		want    string
	}{
		"no parts":      {host.ModelMessage{Role: host.RoleUser}, `{"role":"user","content":""}`},
		"broken text":   {host.ModelMessage{Role: host.RoleUser, Parts: []host.ModelPart{{Text: "a\xffb\x00"}}}, `{"role":"user","content":"a\ufffdb\u0000"}`},
		"text document": {host.ModelMessage{Role: host.RoleUser, Parts: []host.ModelPart{{Data: []byte("# hi"), MediaType: "text/markdown; charset=utf-8", Name: "a.md"}}}, `{"role":"user","content":"File a.md (text/markdown):\n# hi"}`},
		"text and image": {
			host.ModelMessage{Role: host.RoleUser, Parts: []host.ModelPart{{Text: "look"}, {Data: []byte{1, 2}, MediaType: "image/jpg"}}},
			`{"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:image/jpeg;base64,AQI="}}]}`,
		},
		"a drawing":       {host.ModelMessage{Role: host.RoleUser, Parts: []host.ModelPart{{Data: []byte("<svg/>"), MediaType: "image/svg+xml", Name: "d.svg"}}}, `{"role":"user","content":"File d.svg (image/svg+xml):\n<svg/>"}`},
		"any other bytes": {host.ModelMessage{Role: host.RoleUser, Parts: []host.ModelPart{{Data: []byte{1}, MediaType: "application/pdf"}}}, `{"role":"user","content":"[File unnamed (application/pdf, 1 bytes) is attached, but files of this type cannot be shown to this model.]"}`},
		"empty answer":    {host.ModelMessage{Role: host.RoleAssistant}, `{"role":"assistant","content":""}`},
		"calls alone": {
			host.ModelMessage{Role: host.RoleAssistant, Calls: []host.ModelCall{{ID: "c", Name: "x", Arguments: ` {"a": 1}`}}},
			`{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"x","arguments":" {\"a\": 1}"}}]}`,
		},
		"calls that nobody would take": {
			host.ModelMessage{Role: host.RoleAssistant, Text: "t", Calls: []host.ModelCall{{ID: long, Name: "files.read it", Arguments: `{"a":`}, {ID: "d", Name: "", Arguments: `{"a":"\ud800"}`}}},
			`{"role":"assistant","content":"t","tool_calls":[{"id":"` + wireID(long) + `","type":"function","function":{"name":"files_read_it","arguments":"{\"unparsedArguments\":\"{\\\"a\\\":\"}"}},` +
				`{"id":"d","type":"function","function":{"name":"_","arguments":"{\"a\":\"\\ufffd\"}"}}]}`,
		},
		"results": {
			host.ModelMessage{Role: host.RoleTool, Results: []host.ModelToolResult{{ID: long, Text: "ok"}, {ID: "d", Text: "no", Error: true}}},
			`{"role":"tool","content":"ok","tool_call_id":"` + wireID(long) + `"},{"role":"tool","content":"Error: no","tool_call_id":"d"}`,
		},
		"an item": {
			host.ModelMessage{
				Role: host.RoleAssistant, Calls: []host.ModelCall{{ID: "c", Name: "x", Arguments: `{}`}},
				Item: &host.ModelItem{Kind: ItemKind, Family: "fam", Data: `{"reasoning_content":"so <it> \ud800","content":"no","role":"user","calls":[{"extra_content":{"b":1,"a":2}}]}`},
			},
			`{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"x","arguments":"{}"},"extra_content":{"b":1,"a":2}}],"reasoning_content":"so <it> \ufffd"}`,
		},
		"an item of others": {
			host.ModelMessage{Role: host.RoleAssistant, Text: "t", Item: &host.ModelItem{Kind: ItemKind, Family: "other", Data: `{"reasoning_content":"x"}`}},
			`{"role":"assistant","content":"t"}`,
		},
		"an item that is damaged": {
			host.ModelMessage{Role: host.RoleAssistant, Text: "t", Item: &host.ModelItem{Kind: ItemKind, Family: "fam", Data: `{"reasoning_`}},
			`{"role":"assistant","content":"t"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, rendered(t, c.message))
			require.LessOrEqual(t, len(wireID(long)), idBytesMax)
		})
	}
}

func TestHalfSurrogates(t *testing.T) {
	t.Parallel()

	for in, want := range map[string]string{
		``:                          ``,
		`\ud83d\ude00`:              `\ud83d\ude00`,
		`\uD83D\uDE00\u00e9`:        `\uD83D\uDE00\u00e9`,
		`\ud83d`:                    `\ufffd`,
		`\ude00\ud83d`:              `\ufffd\ufffd`,
		`\ud83d\ud83d\ude00`:        `\ufffd\ud83d\ude00`,
		`\\ud83d`:                   `\\ud83d`,
		`\\\ud83dx`:                 `\\\ufffdx`,
		`\ud83`:                     `\ud83`,
		`\u`:                        `\u`,
		`\`:                         `\`,
		`\ud83d` + "é" + `\n\ude00`: `\ufffd` + "é" + `\n\ufffd`,
	} {
		require.Equal(t, want, wholeSurrogates(in), in)
	}
}
