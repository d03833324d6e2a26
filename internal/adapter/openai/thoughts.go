package openai

import (
	"encoding/json"
	"strings"

	"github.com/perdure/perdure/internal/host"
)

// thoughts collects reasoning: text to show, and the fields to send back.
type thoughts struct {
	content, plain strings.Builder // reasoning_content, reasoning
	details        []*detail
}

// detail is one object of reasoning_details. Its text comes in pieces; what
// signs it comes whole.
type detail struct {
	fields        map[string]json.RawMessage
	text, summary strings.Builder
}

// add returns the text of this piece.
func (t *thoughts) add(d *delta) string {
	content, reasoning := str(d.ReasoningContent), str(d.Reasoning)
	t.content.WriteString(content)
	t.plain.WriteString(reasoning)

	var detailed strings.Builder

	for _, raw := range d.ReasoningDetails {
		var fields map[string]json.RawMessage
		if json.Unmarshal(raw, &fields) == nil && fields != nil {
			detailed.WriteString(str(fields["text"]) + str(fields["summary"]))
			t.merge(fields)
		}
	}

	// Servers that send several fields send the same words in each.
	if content != "" {
		return content
	}

	if reasoning != "" {
		return reasoning
	}

	return detailed.String()
}

// merge joins a piece to the detail that it goes on with: the last one, if it
// has the same type and index and neither is sealed.
func (t *thoughts) merge(fields map[string]json.RawMessage) {
	var to *detail

	if n := len(t.details); n > 0 {
		last := t.details[n-1]
		if string(last.fields["type"]) == string(fields["type"]) && string(last.fields["index"]) == string(fields["index"]) &&
			!isSet(last.fields["data"]) && !isSet(fields["data"]) {
			to = last
		}
	}

	if to == nil {
		to = &detail{fields: map[string]json.RawMessage{}}
		t.details = append(t.details, to)
	}

	to.text.WriteString(str(fields["text"]))
	to.summary.WriteString(str(fields["summary"]))

	for key, value := range fields {
		if isSet(value) || to.fields[key] == nil {
			to.fields[key] = value
		}
	}
}

// encoded is the details as one JSON array.
func (t *thoughts) encoded() json.RawMessage {
	all := make([]map[string]json.RawMessage, 0, len(t.details))

	for _, d := range t.details {
		if d.text.Len() > 0 {
			d.fields["text"] = quote(d.text.String())
		}

		if d.summary.Len() > 0 {
			d.fields["summary"] = quote(d.summary.String())
		}

		all = append(all, d.fields)
	}

	out, err := encode(all) // maps are encoded by sorted keys
	if err != nil {
		return nil
	}

	return out
}

// item holds what the neutral form of the answer lacks and the server wants
// back, for the calls that were kept.
func (a *answer) item(kept []*call) *host.ModelItem {
	var extra extras

	switch t := &a.thoughts; {
	case len(t.details) > 0:
		extra.ReasoningDetails = t.encoded()
	case t.content.Len() > 0:
		extra.ReasoningContent = quote(t.content.String())
	case t.plain.Len() > 0:
		extra.Reasoning = quote(t.plain.String())
	}

	calls, some := make([]callExtras, len(kept)), false
	for i, c := range kept {
		calls[i].ExtraContent = c.extra
		some = some || c.extra != nil
	}

	if some {
		extra.Calls = calls
	}

	if extra.empty() {
		return nil
	}

	data, err := encode(extra)
	if err != nil {
		return nil
	}

	return &host.ModelItem{Kind: ItemKind, Family: a.family, Data: cleanJSON(string(data))}
}
