package openaitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

// Rules say what a Handler demands beyond the protocol.
type Rules struct {
	// Key is the one that is let in. Empty lets everyone in.
	Key string
	// Keyless refuses a request with any header that could carry a credential
	// or an account.
	Keyless bool
	// NoStreamOptions refuses stream_options, as older servers do.
	NoStreamOptions bool
	// Fields are top-level fields allowed besides OpenAI's.
	Fields []string
	// MessageFields are fields of messages allowed besides OpenAI's.
	MessageFields []string
	// ParseArguments refuses past calls whose arguments are no JSON object, as
	// servers do that hand them to a template.
	ParseArguments bool
}

// problem is a refusal. shape marks what no client should ever send.
type problem struct {
	APIError

	status int
	shape  bool
}

func bad(param, format string, args ...any) *problem {
	return &problem{
		APIError: APIError{Message: fmt.Sprintf(format, args...), Type: "invalid_request_error", Param: param, Code: "invalid_value"},
		status:   http.StatusBadRequest, shape: true,
	}
}

func (s *Rules) check(r *http.Request, body []byte) *problem {
	switch {
	case r.Method != http.MethodPost || !isCompletion(r.URL.Path):
		return &problem{
			APIError: APIError{Message: "Invalid URL (" + r.Method + " " + r.URL.Path + ")", Type: "invalid_request_error"},
			status:   http.StatusNotFound, shape: true,
		}
	case s.Key != "" && r.Header.Get("Authorization") != "Bearer "+s.Key:
		return &problem{
			APIError: APIError{Message: "Incorrect API key provided: " + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), Type: "invalid_request_error", Code: "invalid_api_key"},
			status:   http.StatusUnauthorized,
		}
	}

	if s.Keyless {
		for _, name := range []string{"Authorization", "Api-Key", "X-Api-Key", "Openai-Organization", "Openai-Project", "Cookie"} {
			if _, there := r.Header[name]; there {
				return bad("", "the header %s must not be sent to a server without keys", name)
			}
		}
	}

	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return bad("", "the content type must be application/json")
	}

	return s.checkBody(body)
}

func (s *Rules) checkBody(body []byte) *problem {
	if !utf8.Valid(body) {
		return bad("", "the body is not valid UTF-8")
	}

	if loneSurrogate(string(body)) {
		return bad("", "the body has an escape of half a surrogate pair")
	}

	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return bad("", "we could not parse the JSON body of your request: %v", err)
	}

	for name := range fields {
		if !slices.Contains(topFields, name) && !slices.Contains(s.Fields, name) {
			return bad(name, "Unrecognized request argument supplied: %s", name)
		}
	}

	if _, there := fields["stream_options"]; there && s.NoStreamOptions {
		p := bad("stream_options", "Unrecognized request argument supplied: stream_options")
		p.shape = false

		return p
	}

	if p := s.checkTop(fields); p != nil {
		return p
	}

	return s.checkMessages(fields["messages"])
}

var topFields = []string{
	"audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens",
	"messages", "metadata", "modalities", "model", "n", "parallel_tool_calls", "prediction", "presence_penalty", "prompt_cache_key",
	"prompt_cache_retention", "reasoning_effort", "response_format", "safety_identifier", "seed", "service_tier", "stop", "store",
	"stream", "stream_options", "temperature", "tool_choice", "tools", "top_logprobs", "top_p", "user", "verbosity",
	"web_search_options",
}

func (s *Rules) checkTop(fields map[string]json.RawMessage) *problem {
	var model string
	if json.Unmarshal(fields["model"], &model) != nil || model == "" {
		return bad("model", "you must provide a model parameter")
	}

	if string(fields["stream"]) != "true" {
		return bad("stream", "this server only answers streams")
	}

	if raw, there := fields["stream_options"]; there {
		var options map[string]bool
		if json.Unmarshal(raw, &options) != nil || len(options) != 1 || !options["include_usage"] {
			return bad("stream_options", "invalid stream_options")
		}
	}

	for _, name := range []string{"max_tokens", "max_completion_tokens"} {
		var n int
		if raw, there := fields[name]; there && (json.Unmarshal(raw, &n) != nil || n < 1) {
			return bad(name, "invalid %s: expected a positive integer", name)
		}
	}

	tools, there := fields["tools"]
	if !there {
		for _, name := range []string{"tool_choice", "parallel_tool_calls"} {
			if _, there := fields[name]; there {
				return bad(name, "%s is only allowed when tools are specified", name)
			}
		}

		return nil
	}

	return checkTools(tools)
}

func checkTools(raw json.RawMessage) *problem {
	var tools []struct {
		Type     string `json:"type"`
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
			Strict      *bool           `json:"strict"`
		} `json:"function"`
	}

	if err := strict(raw, &tools); err != nil {
		return bad("tools", "invalid tools: %v", err)
	}

	if len(tools) == 0 {
		return bad("tools", "[] is too short - 'tools'")
	}

	seen := map[string]bool{}

	for i, t := range tools {
		var schema map[string]json.RawMessage

		switch {
		case t.Type != "function":
			return bad("tools", "tools[%d].type is %q", i, t.Type)
		case !validName(t.Function.Name):
			return bad("tools", "tools[%d].function.name %q does not match ^[a-zA-Z0-9_-]{1,64}$", i, t.Function.Name)
		case seen[t.Function.Name]:
			return bad("tools", "tools[%d].function.name %q is there twice", i, t.Function.Name)
		case json.Unmarshal(t.Function.Parameters, &schema) != nil:
			return bad("tools", "tools[%d].function.parameters is no schema of an object", i)
		}

		if kind, there := schema["type"]; there && string(kind) != `"object"` {
			return bad("tools", "tools[%d].function.parameters is no schema of an object: type is %s", i, kind)
		}

		seen[t.Function.Name] = true
	}

	return nil
}

// strict decodes and refuses fields that it does not know.
func strict(raw json.RawMessage, to any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()

	return d.Decode(to) //nolint:wrapcheck // it becomes part of a message
}

func validName(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}

	for _, c := range []byte(s) {
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}

	return true
}

// loneSurrogate says that JSON text has an escape of half a surrogate pair.
func loneSurrogate(s string) bool {
	for i := 0; i+1 < len(s); i++ {
		if s[i] != '\\' {
			continue
		}

		if s[i+1] != 'u' {
			i++ // another escape, a quoted backslash among them

			continue
		}

		switch unit := hex4(s, i); {
		case unit >= 0xDC00 && unit < 0xE000:
			return true
		case unit >= 0xD800 && unit < 0xDC00:
			if low := hex4(s, i+6); low < 0xDC00 || low >= 0xE000 {
				return true
			}

			i += 11
		}
	}

	return false
}

// hex4 reads the \uXXXX at i; -1 is none.
func hex4(s string, i int) int {
	if i+6 > len(s) || s[i] != '\\' || s[i+1] != 'u' {
		return -1
	}

	var unit int
	if _, err := fmt.Sscanf(s[i+2:i+6], "%04x", &unit); err != nil {
		return -1
	}

	return unit
}
