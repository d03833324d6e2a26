package openai

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"strings"

	"github.com/perdure/perdure/internal/host"
)

// wireMessage is one message. The order of the fields is the order of the
// bytes, which must not change.
type wireMessage struct {
	Role       string     `json:"role"`
	Content    any        `json:"content"` // a string, parts, or null
	ToolCalls  []wireCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
	extras
}

type wireCall struct {
	ID       string           `json:"id"`
	Type     string           `json:"type"`
	Function wireCallFunction `json:"function"`
	callExtras
}

type wireCallFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// extras are the fields that some servers add to an assistant message and want
// back as they were. They are all that an item of kind ItemKind holds: text and
// calls stay in their neutral form, once.
type extras struct {
	ReasoningContent json.RawMessage `json:"reasoning_content,omitempty"`
	Reasoning        json.RawMessage `json:"reasoning,omitempty"`
	ReasoningDetails json.RawMessage `json:"reasoning_details,omitempty"`
	Calls            []callExtras    `json:"calls,omitempty"` // in items only: beside each call
}

// callExtras is the same for one call.
type callExtras struct {
	ExtraContent json.RawMessage `json:"extra_content,omitempty"`
}

func (e *extras) empty() bool {
	return e.ReasoningContent == nil && e.Reasoning == nil && e.ReasoningDetails == nil && e.Calls == nil
}

type wirePart struct {
	Type     string        `json:"type"`
	Text     *string       `json:"text,omitempty"`
	ImageURL *wireImageURL `json:"image_url,omitempty"`
}

type wireImageURL struct {
	URL string `json:"url"`
}

// renderMessages writes the messages, separated by commas. What one is rendered
// to depends on it alone.
func renderMessages(b *bytes.Buffer, req host.ModelRequest, family string) error {
	first := true

	add := func(m wireMessage) error {
		data, err := encode(m)
		if err != nil {
			return fmt.Errorf("render a message: %w", err)
		}

		if !first {
			b.WriteByte(',')
		}

		first = false
		b.Write(data)

		return nil
	}

	if text := joinBlocks(req.Instructions); text != "" {
		if err := add(wireMessage{Role: "system", Content: text}); err != nil {
			return err
		}
	}

	for i := range req.Messages {
		for _, m := range wireMessages(&req.Messages[i], family) {
			if err := add(m); err != nil {
				return err
			}
		}
	}

	return nil
}

func joinBlocks(blocks []string) string {
	kept := make([]string, 0, len(blocks))

	for _, s := range blocks {
		if strings.TrimSpace(s) != "" {
			kept = append(kept, s)
		}
	}

	return strings.Join(kept, "\n\n")
}

func wireMessages(m *host.ModelMessage, family string) []wireMessage {
	switch m.Role {
	case host.RoleAssistant:
		return []wireMessage{assistantMessage(m, family)}
	case host.RoleTool:
		out := make([]wireMessage, 0, len(m.Results))
		for _, r := range m.Results {
			out = append(out, wireMessage{Role: "tool", Content: resultText(r), ToolCallID: wireID(r.ID)})
		}

		return out
	}

	return []wireMessage{{Role: "user", Content: userContent(m.Parts)}}
}

func assistantMessage(m *host.ModelMessage, family string) wireMessage {
	out := wireMessage{Role: "assistant"}
	if m.Text != "" || len(m.Calls) == 0 {
		out.Content = m.Text
	}

	if m.Item != nil && m.Item.Kind == ItemKind && m.Item.Family == family {
		var extra extras
		if lenient([]byte(cleanJSON(m.Item.Data)), &extra) == nil {
			out.extras = extra
		}
	}

	for i, c := range m.Calls {
		call := wireCall{ID: wireID(c.ID), Type: "function", Function: wireCallFunction{
			Name: wireName(c.Name), Arguments: wireArguments(c.Arguments),
		}}
		if len(out.Calls) == len(m.Calls) {
			call.callExtras = out.Calls[i]
		}

		out.ToolCalls = append(out.ToolCalls, call)
	}

	out.Calls = nil

	return out
}

// resultText marks errors in words: the protocol has no flag for them.
func resultText(r host.ModelToolResult) string {
	if r.Error {
		return "Error: " + r.Text
	}

	return r.Text
}

// userContent is a string where one text is all there is, which every server
// takes, and parts otherwise.
func userContent(parts []host.ModelPart) any {
	if len(parts) == 0 {
		return ""
	}

	out := make([]wirePart, 0, len(parts))

	for _, p := range parts {
		if len(p.Data) > 0 && isImage(p) {
			out = append(out, wirePart{Type: "image_url", ImageURL: &wireImageURL{
				URL: "data:" + mediaType(p) + ";base64," + base64.StdEncoding.EncodeToString(p.Data),
			}})

			continue
		}

		text := partText(p)
		out = append(out, wirePart{Type: "text", Text: &text})
	}

	if len(out) == 1 && out[0].Text != nil {
		return *out[0].Text
	}

	return out
}

// partText is a text, a text document under its name, or a word on what the
// model cannot be shown.
func partText(p host.ModelPart) string {
	if len(p.Data) == 0 && p.MediaType == "" {
		return p.Text
	}

	name := p.Name
	if name == "" {
		name = "unnamed"
	}

	media := mediaType(p)
	if isText(media) {
		return fmt.Sprintf("File %s (%s):\n%s%s", name, media, p.Text, p.Data)
	}

	return fmt.Sprintf("[File %s (%s, %d bytes) is attached, but files of this type cannot be shown to this model.]",
		name, media, len(p.Data))
}

// mediaType is the type without its parameters, in lower case.
func mediaType(p host.ModelPart) string {
	media, _, err := mime.ParseMediaType(p.MediaType)
	if err != nil || media == "" {
		return "application/octet-stream"
	}

	if media == "image/jpg" {
		return "image/jpeg" // what many call it and no server knows
	}

	return media
}

// isImage leaves out drawings that are text: a model reads them as such.
func isImage(p host.ModelPart) bool {
	media := mediaType(p)

	return strings.HasPrefix(media, "image/") && !isText(media)
}

func isText(media string) bool {
	switch media {
	case "application/json", "application/xml", "application/yaml", "application/x-yaml", "application/toml",
		"application/javascript", "application/x-ndjson", "application/sql", "application/x-sh":
		return true
	}

	return strings.HasPrefix(media, "text/") || strings.HasSuffix(media, "+json") || strings.HasSuffix(media, "+xml") ||
		strings.HasSuffix(media, "+yaml")
}
