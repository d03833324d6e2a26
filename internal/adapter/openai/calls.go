package openai

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/perdure/perdure/internal/host"
)

// call is a tool call that is being put together.
type call struct {
	index    int // the server's, -1 without one
	id, name string
	args     strings.Builder
	extra    json.RawMessage // what the server wants back with the call
}

func (c *call) empty() bool { return c.name == "" && c.id == "" && c.args.Len() == 0 }

// arguments is the JSON text as the model wrote it; nothing written means no
// arguments. Escapes of half a surrogate pair, which no strict parser takes,
// are replaced here, so that what is stored, shown, approved and sent is one.
func (c *call) arguments() string {
	text := wholeSurrogates(c.args.String())
	if strings.TrimSpace(text) == "" {
		return "{}"
	}

	return text
}

func (a *answer) callDelta(d *callDelta) error {
	id, name := str(d.ID), str(d.Function.Name)

	index := a.find(d, id, name)
	if index < 0 {
		if len(a.calls) >= callsMax {
			return &host.Fault{Class: host.ClassOther, Message: "the answer has too many tool calls", Sent: true}
		}

		a.calls = append(a.calls, &call{index: indexOf(d)})
		index = len(a.calls) - 1
	}

	c := a.calls[index]

	if len(id) <= keptBytesMax {
		c.id = cmp.Or(c.id, id)
	}

	if name != c.name && len(c.name) < keptBytesMax {
		// Names come whole, whole each time, or in pieces.
		c.name = short(c.name + name)
	}

	if isSet(d.ExtraContent) {
		c.extra = d.ExtraContent
	}

	text := argumentText(d.Function.Arguments)
	c.args.WriteString(text)
	a.say("arguments", text, index+1)

	return nil
}

func indexOf(d *callDelta) int {
	if d.Index == nil || *d.Index < 0 {
		return -1
	}

	return *d.Index
}

// find returns the position of the call that a fragment goes on with, or -1
// for a new one. Servers number the calls, or give each an id, or send each
// whole; some give all of them the same number.
func (a *answer) find(d *callDelta, id, name string) int {
	index := indexOf(d)

	for i, c := range slices.Backward(a.calls) {
		switch {
		case id != "" && c.id == id && (index < 0 || c.index == index):
			return i
		case index < 0 || c.index != index:
		case name != "" && id != "" && c.id != "" && c.id != id:
			return -1 // the same number, another call
		default:
			return i
		}
	}

	if index < 0 && id == "" && name == "" {
		return len(a.calls) - 1
	}

	return -1
}
