package openaitest

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Reply is one answer. The zero value is an empty text.
type Reply struct {
	// Status other than 0 and 200 refuses, with Error as the body.
	Status int               `json:"status,omitempty"`
	Header map[string]string `json:"header,omitempty"`
	Error  *APIError         `json:"error,omitempty"`
	// Body, if set, is the whole body as it is, of ContentType (by default that
	// of a stream).
	Body        string `json:"body,omitempty"`
	ContentType string `json:"contentType,omitempty"`

	// Text comes in Chunks pieces (0: one), Reasoning before it.
	Text      string `json:"text,omitempty"`
	Chunks    int    `json:"chunks,omitempty"`
	Reasoning string `json:"reasoning,omitempty"`
	Calls     []Call `json:"calls,omitempty"`
	// Finish is the finish reason; empty is what fits, "-" none.
	Finish string `json:"finish,omitempty"`
	// Usage is sent if the request asks for it; nil is made-up figures.
	Usage   *Usage `json:"usage,omitempty"`
	NoUsage bool   `json:"noUsage,omitempty"`
	// StreamError is sent as an event after the text, and ends the stream.
	StreamError *APIError `json:"streamError,omitempty"`
	// NoDone leaves [DONE] out. Cut drops the connection after the text.
	NoDone bool `json:"noDone,omitempty"`
	Cut    bool `json:"cut,omitempty"`
	// Comments puts a keep-alive before every event.
	Comments bool `json:"comments,omitempty"`

	// Hold waits after the first piece until the client goes away; HoldBefore
	// waits so before the headers. HoldMs bounds both.
	Hold       bool  `json:"hold,omitempty"`
	HoldBefore bool  `json:"holdBefore,omitempty"`
	HoldMs     int64 `json:"holdMs,omitempty"`
	// Gate ends a hold when it is closed.
	Gate <-chan struct{} `json:"-"`
}

// APIError is the body of a refusal.
type APIError struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Param   string `json:"param,omitempty"`
	Code    string `json:"code,omitempty"`
}

// Call is a tool call in a Reply, sent in Fragments pieces (0: one).
type Call struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Fragments int    `json:"fragments,omitempty"`
}

// Usage is the figures of a Reply.
type Usage struct {
	Input     int64 `json:"prompt_tokens"`
	Output    int64 `json:"completion_tokens"`
	CacheRead int64 `json:"-"`
}

// Text is a Reply of a text in n pieces.
func Text(text string, n int) Reply { return Reply{Text: text, Chunks: n} }

// Calls is a Reply of tool calls.
func Calls(calls ...Call) Reply { return Reply{Calls: calls} }

// Refuse is a Reply with an error.
func Refuse(status int, kind, code, message string) Reply {
	return Reply{Status: status, Error: &APIError{Message: message, Type: kind, Code: code}}
}

// events are the data of the stream's events before its end, in order.
func (r *Reply) events(model string) []string {
	var out []string

	add := func(delta map[string]any) {
		out = append(out, event(model, delta, nil))
	}

	add(map[string]any{"role": "assistant", "content": ""})

	if r.Reasoning != "" {
		add(map[string]any{"reasoning_content": r.Reasoning})
	}

	for _, piece := range split(r.Text, r.Chunks) {
		add(map[string]any{"content": piece})
	}

	for i, c := range r.Calls {
		pieces := split(c.Arguments, c.Fragments)

		function := map[string]any{"name": c.Name, "arguments": ""}
		if c.Fragments == 0 && len(pieces) > 0 {
			function["arguments"], pieces = pieces[0], nil
		}

		first := map[string]any{"index": i, "type": "function", "function": function}
		if c.ID != "" {
			first["id"] = c.ID
		}

		add(map[string]any{"tool_calls": []any{first}})

		for _, piece := range pieces {
			add(map[string]any{"tool_calls": []any{
				map[string]any{"index": i, "function": map[string]any{"arguments": piece}},
			}})
		}
	}

	return out
}

// end is the event with the finish reason, if there is to be one.
func (r *Reply) end(model string) (string, bool) {
	finish := r.Finish

	switch {
	case finish == "-":
		return "", false
	case finish == "" && len(r.Calls) > 0:
		finish = "tool_calls"
	case finish == "":
		finish = "stop"
	}

	return event(model, map[string]any{}, finish), true
}

func (r *Reply) usage(model string) string {
	u := Usage{Input: 100, Output: 10}
	if r.Usage != nil {
		u = *r.Usage
	}

	return text(map[string]any{
		"id": completionID, "object": "chat.completion.chunk", "created": 1, "model": model, "choices": []any{},
		"usage": map[string]any{
			"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
			"prompt_tokens_details": map[string]any{"cached_tokens": u.CacheRead},
		},
	})
}

const completionID = "chatcmpl-test"

func event(model string, delta map[string]any, finish any) string {
	return text(map[string]any{
		"id": completionID, "object": "chat.completion.chunk", "created": 1, "model": model,
		"choices": []any{map[string]any{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}},
		"usage":   nil,
	})
}

func text(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		return "{}" // maps of plain values: it cannot fail
	}

	return string(out)
}

// split cuts a text into n pieces between characters.
func split(s string, n int) []string {
	if s == "" {
		return nil
	}

	var out []string

	for n = max(n, 1); n > 1 && len(s) > 1; n-- {
		cut := max(len(s)/n, 1)
		for cut < len(s) && !utf8.RuneStart(s[cut]) {
			cut++
		}

		if cut == len(s) {
			break
		}

		out = append(out, s[:cut])
		s = s[cut:]
	}

	return append(out, s)
}

// Stream is the body of a stream of these events, [DONE] included: for a Reply
// with a Body.
func Stream(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		b.WriteString("data: " + e + "\n\n")
	}

	return b.String() + "data: [DONE]\n\n"
}

// Delta is one event with this JSON as its delta, and the finish reason if it
// is not empty.
func Delta(delta, finish string) string {
	end := "null"
	if finish != "" {
		end = strconv.Quote(finish)
	}

	return `{"id":"` + completionID + `","object":"chat.completion.chunk","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + end + `}]}`
}
