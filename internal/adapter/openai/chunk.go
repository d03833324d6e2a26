package openai

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/perdure/perdure/core/session"
)

// chunk is one event of a stream, or the whole of an answer that is none. What
// servers disagree about is kept raw.
type chunk struct {
	ID      json.RawMessage `json:"id"`
	Object  json.RawMessage `json:"object"`
	Model   json.RawMessage `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   *usage          `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type choice struct {
	Index        int             `json:"index"`
	Delta        *delta          `json:"delta"`
	Message      *delta          `json:"message"` // of an answer that is not streamed
	FinishReason json.RawMessage `json:"finish_reason"`
	Usage        *usage          `json:"usage"`
}

type delta struct {
	Content          json.RawMessage   `json:"content"`
	Refusal          json.RawMessage   `json:"refusal"`
	ReasoningContent json.RawMessage   `json:"reasoning_content"`
	Reasoning        json.RawMessage   `json:"reasoning"`
	ReasoningDetails []json.RawMessage `json:"reasoning_details"`
	ToolCalls        []callDelta       `json:"tool_calls"`
	FunctionCall     *functionDelta    `json:"function_call"` // the form before tools
}

type callDelta struct {
	Index        *int            `json:"index"`
	ID           json.RawMessage `json:"id"`
	Function     functionDelta   `json:"function"`
	ExtraContent json.RawMessage `json:"extra_content"`
}

type functionDelta struct {
	Name      json.RawMessage `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

type usage struct {
	Prompt     json.RawMessage `json:"prompt_tokens"`
	Completion json.RawMessage `json:"completion_tokens"`
	CacheHit   json.RawMessage `json:"prompt_cache_hit_tokens"`
	Details    struct {
		Cached  json.RawMessage `json:"cached_tokens"`
		Written json.RawMessage `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	Cost json.RawMessage `json:"cost"` // US dollars, where a gateway reports its price
}

// lenient decodes and puts up with single fields of an unexpected type: they
// stay zero.
func lenient(data []byte, to any) error {
	err := json.Unmarshal(data, to)

	if _, mistyped := errors.AsType[*json.UnmarshalTypeError](err); mistyped {
		return nil
	}

	return err //nolint:wrapcheck // the callers only ask whether there is one
}

// plain is the text of a content field: a string, or parts of which some are
// text and some are thoughts.
func plain(raw json.RawMessage) (text, thought string) {
	if !isSet(raw) {
		return "", ""
	}

	if json.Unmarshal(raw, &text) == nil {
		return text, ""
	}

	var parts []struct {
		Type     string          `json:"type"`
		Text     string          `json:"text"`
		Thinking json.RawMessage `json:"thinking"`
	}
	if lenient(raw, &parts) != nil {
		return "", ""
	}

	var texts, thoughts strings.Builder

	for _, p := range parts {
		if !isSet(p.Thinking) {
			texts.WriteString(p.Text)

			continue
		}

		var inside []struct {
			Text string `json:"text"`
		}
		if lenient(p.Thinking, &inside) == nil && inside != nil {
			for _, t := range inside {
				thoughts.WriteString(t.Text)
			}
		} else {
			thoughts.WriteString(str(p.Thinking))
		}
	}

	return texts.String(), thoughts.String()
}

// str is a string's content; anything else is none.
func str(raw json.RawMessage) string {
	var s string
	if isSet(raw) && json.Unmarshal(raw, &s) != nil {
		return ""
	}

	return s
}

// argumentText is a fragment of arguments: a piece of JSON text in a string,
// or, from servers that parse it for us, the value itself.
func argumentText(raw json.RawMessage) string {
	if !isSet(raw) {
		return ""
	}

	if raw[0] == '"' {
		return str(raw)
	}

	return strings.ToValidUTF8(string(raw), "\uFFFD")
}

func (u *usage) usage() session.Usage {
	out := session.Usage{
		Input:      count(u.Prompt),
		Output:     count(u.Completion),
		CacheRead:  max(count(u.Details.Cached), count(u.CacheHit)),
		CacheWrite: count(u.Details.Written),
	}
	// Both are said to be parts of the input; a server that counts them beside
	// it must not make them more than the whole.
	out.CacheRead = min(out.CacheRead, out.Input)
	out.CacheWrite = min(out.CacheWrite, out.Input-out.CacheRead)

	if cost, err := strconv.ParseFloat(string(u.Cost), 64); err == nil && cost >= 0 && cost < math.MaxInt32 {
		out.CostMicros = int64(math.Ceil(cost * 1e6))
		out.Priced = true
	}

	return out
}

// count is a number of tokens; nonsense counts as none.
func count(raw json.RawMessage) int64 {
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.IsNaN(n) || n < 0 || n > math.MaxInt32 {
		return 0
	}

	return int64(n)
}
