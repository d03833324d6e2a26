package openai

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/perdure/perdure/internal/host"
)

// renderOptions are what a rendering depends on besides the request.
type renderOptions struct {
	family     string // of the items that may go back
	countUsage bool   // ask for usage at the end of the stream
	cacheKey   bool   // say which requests share a prefix
}

// ours are the fields of a request that its params cannot set: they are what
// the engine decides, and a second choice would be paid for and dropped.
var ours = map[string]bool{
	"model": true, "messages": true, "tools": true, "stream": true, "stream_options": true,
	"functions": true, "function_call": true, "n": true,
}

// forTools are the fields that servers refuse where no tools are offered.
var forTools = map[string]bool{"tool_choice": true, "parallel_tool_calls": true}

var errParams = errors.New("model params must be a JSON object")

// render makes the body of a request. It is a pure function of its arguments.
// The messages come last and each is rendered by itself, so that a request with
// more of them begins with the bytes of the one before.
func render(req host.ModelRequest, options renderOptions) ([]byte, error) {
	fields, err := parseParams(req.Model.Params)
	if err != nil {
		return nil, err
	}

	if len(req.Tools) == 0 {
		maps.DeleteFunc(fields, func(name string, _ json.RawMessage) bool { return forTools[name] })
	} else if req.NoTools {
		fields["tool_choice"] = json.RawMessage(`"none"`)
	}

	if options.cacheKey && fields["prompt_cache_key"] == nil && req.Session != "" {
		sum := sha256.Sum256([]byte(string(req.Tenant) + "/" + string(req.Session)))
		fields["prompt_cache_key"] = quote(hex.EncodeToString(sum[:16]))
	}

	var b bytes.Buffer

	b.WriteString(`{"model":`)
	b.Write(quote(req.Model.Model))

	for _, name := range slices.Sorted(maps.Keys(fields)) {
		b.WriteByte(',')
		b.Write(quote(name))
		b.WriteByte(':')
		b.Write(fields[name])
	}

	if len(req.Tools) > 0 {
		tools, err := renderTools(req.Tools)
		if err != nil {
			return nil, err
		}

		b.WriteString(`,"tools":`)
		b.Write(tools)
	}

	b.WriteString(`,"stream":true`)

	if options.countUsage {
		b.WriteString(`,"stream_options":{"include_usage":true}`)
	}

	b.WriteString(`,"messages":[`)

	if err := renderMessages(&b, req, options.family); err != nil {
		return nil, err
	}

	b.WriteString(`]}`)

	return b.Bytes(), nil
}

// parseParams reads the params of a model, without those that are ours.
func parseParams(text string) (map[string]json.RawMessage, error) {
	fields := map[string]json.RawMessage{}
	if text == "" {
		return fields, nil
	}

	// A copy that is compact and clean: a value is sent in the bytes it has.
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(cleanJSON(text))); err != nil {
		return nil, errParams
	}

	if err := json.Unmarshal(compact.Bytes(), &fields); err != nil || fields == nil {
		return nil, errParams
	}

	maps.DeleteFunc(fields, func(name string, value json.RawMessage) bool { return ours[name] || !isSet(value) })

	return fields, nil
}

type wireTool struct {
	Type     string       `json:"type"`
	Function wireFunction `json:"function"`
}

type wireFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

func renderTools(tools []host.ModelTool) ([]byte, error) {
	out := make([]wireTool, 0, len(tools))

	for _, t := range tools {
		schema := cleanJSON(t.Parameters)
		if schema == "" {
			schema = `{"type":"object","properties":{}}`
		}

		if !json.Valid([]byte(schema)) {
			return nil, fmt.Errorf("the schema of tool %s is not JSON", t.WireName)
		}

		out = append(out, wireTool{Type: "function", Function: wireFunction{
			Name: wireName(t.WireName), Description: t.Description, Parameters: json.RawMessage(schema),
		}})
	}

	return encode(out)
}
