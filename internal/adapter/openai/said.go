package openai

import (
	"encoding/json"
	"strings"
)

// parseSaid finds the words in the body of a refusal. The protocol has one
// form; servers have many.
func parseSaid(body []byte) said {
	text := strings.TrimSpace(string(body))

	switch {
	case text == "" || text[0] == '<':
		return said{} // a proxy's page says less than its status
	case text[0] == '[':
		var list []json.RawMessage
		if json.Unmarshal(body, &list) == nil && len(list) > 0 && list[0][0] == '{' {
			return parseSaid(list[0])
		}
	case text[0] == '{':
		var object errorObject
		if lenient(body, &object) == nil {
			return object.said()
		}
	}

	return said{message: text}
}

// errorObject is an error on its own or wrapped, in the spellings that are
// about.
type errorObject struct {
	Error    json.RawMessage `json:"error"`
	Object   json.RawMessage `json:"object"`
	Message  json.RawMessage `json:"message"`
	Type     json.RawMessage `json:"type"`
	Code     json.RawMessage `json:"code"`
	Status   json.RawMessage `json:"status"`
	Detail   json.RawMessage `json:"detail"`
	Metadata struct {
		Raw json.RawMessage `json:"raw"` // what the provider behind a gateway said
	} `json:"metadata"`
}

func (o errorObject) said() said {
	if isSet(o.Error) {
		var wrapped errorObject
		if o.Error[0] == '{' && lenient(o.Error, &wrapped) == nil {
			wrapped.Error = nil // one wrapping: who nests more only wants it parsed again and again

			return wrapped.said()
		}

		return said{message: word(o.Error), kind: word(o.Type), code: word(o.Code)}
	}

	e := said{message: word(o.Message), kind: word(o.Type), code: word(o.Code)}

	switch {
	case e.message == "" && isSet(o.Detail):
		e.message = word(o.Detail)
	case isSet(o.Metadata.Raw):
		e.message += ": " + word(o.Metadata.Raw)
	}

	if e.kind == "" {
		e.kind = word(o.Status)
	}

	return e
}

// word is a string's content, and any other value as it is written.
func word(raw json.RawMessage) string {
	if !isSet(raw) {
		return ""
	}

	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}

	return string(raw)
}

func isSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
