package openaitest

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
)

type message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Name       string          `json:"name"`
	Refusal    json.RawMessage `json:"refusal"`
	ToolCalls  json.RawMessage `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`
}

type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string  `json:"name"`
		Arguments *string `json:"arguments"`
	} `json:"function"`
}

func (s *Rules) checkMessages(raw json.RawMessage) *problem {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 {
		return bad("messages", "[] is too short - 'messages'")
	}

	var waiting []string // ids of calls that have no result yet

	for i, raw := range list {
		m, p := s.parse(raw, i)
		if p != nil {
			return p
		}

		if len(waiting) > 0 {
			if m.Role != "tool" {
				return bad("messages", "An assistant message with 'tool_calls' must be followed by tool messages responding to each "+
					"'tool_call_id'. The following tool_call_ids did not have response messages: %s (messages[%d])",
					strings.Join(waiting, ", "), i)
			}

			if m.ToolCallID != waiting[0] {
				return bad("messages", "messages[%d] answers %q where the answer to %q is due", i, m.ToolCallID, waiting[0])
			}

			waiting = waiting[1:]
		} else if m.Role == "tool" {
			return bad("messages", "messages[%d]: messages with role 'tool' must be a response to a preceding message with 'tool_calls'", i)
		}

		calls, p := s.checkMessage(&m, i)
		if p != nil {
			return p
		}

		if m.Role == "assistant" {
			waiting = calls
		}
	}

	if len(waiting) > 0 {
		return bad("messages", "the tool_call_ids %s have no response messages", strings.Join(waiting, ", "))
	}

	return nil
}

func (s *Rules) parse(raw json.RawMessage, i int) (message, *problem) {
	var m message

	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return m, bad("messages", "messages[%d] is no object", i)
	}

	for _, name := range s.MessageFields {
		delete(fields, name)
	}

	if err := strict(json.RawMessage(text(fields)), &m); err != nil {
		return m, bad("messages", "messages[%d]: %v", i, err)
	}

	return m, nil
}

// checkMessage checks one message alone, and returns the ids of its calls.
func (s *Rules) checkMessage(m *message, i int) ([]string, *problem) {
	if m.Role != "assistant" && m.ToolCalls != nil || m.Role != "tool" && m.ToolCallID != "" {
		return nil, bad("messages", "messages[%d] has a field that is not for role %q", i, m.Role)
	}

	switch m.Role {
	case "system", "developer", "tool":
		if kind := contentKind(m.Content); kind != "string" && kind != "array" {
			return nil, bad("messages", "messages[%d]: invalid content: expected a string, got %s", i, kind)
		}
	case "user":
		return nil, checkUser(m.Content, i)
	case "assistant":
		return s.checkAssistant(m, i)
	default:
		return nil, bad("messages", "messages[%d]: invalid value %q for role", i, m.Role)
	}

	return nil, nil
}

func (s *Rules) checkAssistant(m *message, i int) ([]string, *problem) {
	kind := contentKind(m.Content)

	if m.ToolCalls == nil {
		if kind != "string" {
			return nil, bad("messages", "messages[%d]: invalid value for 'content': expected a string, got %s", i, kind)
		}

		return nil, nil
	}

	if kind != "string" && kind != "null" && kind != "nothing" {
		return nil, bad("messages", "messages[%d]: invalid content", i)
	}

	var raw []json.RawMessage
	if json.Unmarshal(m.ToolCalls, &raw) != nil || len(raw) == 0 {
		return nil, bad("messages", "[] is too short - 'messages.%d.tool_calls'", i)
	}

	ids := make([]string, 0, len(raw))

	for j, raw := range raw {
		id, p := s.checkCall(raw, i, j)
		if p != nil {
			return nil, p
		}

		if slices.Contains(ids, id) {
			return nil, bad("messages", "messages[%d].tool_calls has the id %q twice", i, id)
		}

		ids = append(ids, id)
	}

	return ids, nil
}

func (s *Rules) checkCall(raw json.RawMessage, i, j int) (string, *problem) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return "", bad("messages", "messages[%d].tool_calls[%d] is no object", i, j)
	}

	for _, name := range s.MessageFields {
		delete(fields, name)
	}

	var c toolCall
	if err := strict(json.RawMessage(text(fields)), &c); err != nil {
		return "", bad("messages", "messages[%d].tool_calls[%d]: %v", i, j, err)
	}

	switch {
	case c.ID == "" || len(c.ID) > 40:
		return "", bad("messages", "messages[%d].tool_calls[%d].id has %d bytes, allowed are 1 to 40", i, j, len(c.ID))
	case c.Type != "function":
		return "", bad("messages", "messages[%d].tool_calls[%d].type is %q", i, j, c.Type)
	case !validName(c.Function.Name):
		return "", bad("messages", "messages[%d].tool_calls[%d].function.name %q does not match ^[a-zA-Z0-9_-]{1,64}$", i, j, c.Function.Name)
	case c.Function.Arguments == nil:
		return "", bad("messages", "messages[%d].tool_calls[%d].function.arguments is missing", i, j)
	case json.Valid([]byte(*c.Function.Arguments)) && loneSurrogate(*c.Function.Arguments):
		return "", bad("messages", "messages[%d].tool_calls[%d].function.arguments has an escape of half a surrogate pair", i, j)
	}

	var object map[string]json.RawMessage
	if s.ParseArguments && json.Unmarshal([]byte(*c.Function.Arguments), &object) != nil {
		return "", bad("messages", "messages[%d].tool_calls[%d].function.arguments is no JSON object", i, j)
	}

	return c.ID, nil
}

func checkUser(content json.RawMessage, i int) *problem {
	switch contentKind(content) {
	case "string":
		return nil
	case "array":
	default:
		return bad("messages", "messages[%d]: invalid content of a user message", i)
	}

	var parts []struct {
		Type     string  `json:"type"`
		Text     *string `json:"text"`
		ImageURL *struct {
			URL    string `json:"url"`
			Detail string `json:"detail"`
		} `json:"image_url"`
	}

	if err := strict(content, &parts); err != nil || len(parts) == 0 {
		return bad("messages", "messages[%d].content: invalid parts (%v)", i, err)
	}

	for j, p := range parts {
		switch {
		case p.Type == "text" && p.Text != nil && p.ImageURL == nil:
		case p.Type == "image_url" && p.ImageURL != nil && p.Text == nil:
			if !validImage(p.ImageURL.URL) {
				return bad("messages", "messages[%d].content[%d]: invalid image URL", i, j)
			}
		default:
			return bad("messages", "messages[%d].content[%d]: invalid part of type %q", i, j, p.Type)
		}
	}

	return nil
}

func validImage(url string) bool {
	if strings.HasPrefix(url, "https://") || strings.HasPrefix(url, "http://") {
		return true
	}

	for _, kind := range []string{"png", "jpeg", "gif", "webp"} {
		if data, ok := strings.CutPrefix(url, "data:image/"+kind+";base64,"); ok {
			decoded, err := base64.StdEncoding.DecodeString(data)

			return err == nil && len(decoded) > 0
		}
	}

	return false
}

func contentKind(raw json.RawMessage) string {
	switch {
	case len(raw) == 0:
		return "nothing"
	case raw[0] == '"':
		return "string"
	case raw[0] == '[':
		return "array"
	case string(raw) == "null":
		return "null"
	}

	return "a value"
}
