package openai

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/host"
)

// strange is text as it should not be.
func strange() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.String(),
		rapid.SampledFrom([]string{
			"", " ", "\xff", "a\xc3", "\x00", `\ud83d`, `\\ud83d`, `{"a":"\ud83d"}`, `{"a":"\ude00\ud83d"}`, `{"a":`, `[1]`, "null",
			"files.read", "très long", "{{", "\u2028", `"`,
		}),
		rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOfN(rapid.Byte(), 0, 80).Draw(t, "bytes")) }),
	)
}

// turn is a message of the user, or calls with their results.
func turn(t *rapid.T, n int) []host.ModelMessage {
	if rapid.Bool().Draw(t, "user") {
		parts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) host.ModelPart {
			return host.ModelPart{
				Text: strange().Draw(t, "text"), Data: rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "data"),
				MediaType: rapid.SampledFrom([]string{"", "image/png", "image/JPG", "text/plain; charset=utf-8", "application/pdf", "x"}).Draw(t, "type"),
				Name:      strange().Draw(t, "name"),
			}
		}), 0, 3).Draw(t, "parts")

		return []host.ModelMessage{
			{Role: host.RoleUser, Parts: parts}, {Role: host.RoleAssistant, Text: strange().Draw(t, "answer")},
		}
	}

	calls, results := host.ModelMessage{Role: host.RoleAssistant, Text: strange().Draw(t, "said")}, host.ModelMessage{Role: host.RoleTool}
	if rapid.Bool().Draw(t, "item") {
		calls.Item = &host.ModelItem{Kind: ItemKind, Family: "fam", Data: strange().Draw(t, "data")}
	}

	for i := range rapid.IntRange(1, 3).Draw(t, "calls") {
		id := strconv.Itoa(n) + "-" + strconv.Itoa(i) + strange().Draw(t, "id")
		calls.Calls = append(calls.Calls, host.ModelCall{ID: id, Name: strange().Draw(t, "name"), Arguments: strange().Draw(t, "arguments")})
		results.Results = append(results.Results, host.ModelToolResult{ID: id, Text: strange().Draw(t, "result"), Error: rapid.Bool().Draw(t, "error")})
	}

	return []host.ModelMessage{calls, results}
}

// Whatever a conversation holds, the strictest server takes it, and each
// request begins with the one before.
func TestAnyConversationIsAcceptable(t *testing.T) {
	t.Parallel()

	server := openaitest.NewHandler()
	server.Rules.ParseArguments = true
	server.Fallback = func(openaitest.Request) openaitest.Reply { return openaitest.Text("ok", 1) }

	rapid.Check(t, func(rt *rapid.T) {
		req := host.ModelRequest{
			Tenant: "t", Session: "s", Instructions: []string{strange().Draw(rt, "instructions")},
			Messages: []host.ModelMessage{{Role: host.RoleUser}},
			Tools:    []host.ModelTool{{WireName: "x", Description: strange().Draw(rt, "description")}},
		}
		req.Model.Model = "m"

		var before []byte

		for n := range rapid.IntRange(1, 5).Draw(rt, "turns") {
			req.Messages = append(req.Messages, turn(rt, n)...)

			body, err := render(req, renderOptions{family: "fam", countUsage: true, cacheKey: true})
			require.NoError(rt, err)
			require.True(rt, bytes.HasPrefix(body, bytes.TrimSuffix(before, []byte("]}"))))

			before = body
			answer := httptest.NewRecorder()
			request := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", bytes.NewReader(body))
			request.Header.Set("Content-Type", "application/json")
			server.ServeHTTP(answer, request)
			require.Equal(rt, http.StatusOK, answer.Code, "%s\n%s", answer.Body, body)
		}
	})
}
