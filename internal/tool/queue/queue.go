package queue

import (
	"context"
	"errors"
	"unicode/utf8"

	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool"
	"github.com/perdure/perdure/internal/tool/outside"
)

// InlineMax is the largest text of arguments, in bytes as they are sent, that
// is in the message itself.
const InlineMax = 64 << 10

// messageVersion is the form of the message.
const messageVersion = 1

// Sender puts messages in queues. Implementations are safe for concurrent use.
type Sender interface {
	// Send puts a message in the queue with this URL. It is there when it
	// returns. A *host.Fault says more of what went wrong than another error.
	Send(ctx context.Context, url, body string) error
}

// Caller sends the calls of all tools that are queues.
type Caller struct {
	Sender Sender
	// Queue is the URL of the queue of tools that name none.
	Queue string
	// SettleURL is where a promise's token is settled, empty where the server
	// does not know its own address.
	SettleURL func(token string) string
}

// work is one tool.
type work struct {
	*Caller

	url string
}

// Spec is the tool of a definition.
func (c *Caller) Spec(d outside.Definition) tool.Spec {
	spec, _ := d.Spec()
	w := &work{Caller: c, url: d.Queue}
	spec.Target = "queue"
	if w.url != "" {
		spec.Target += " " + w.url
	} else if w.url = c.Queue; w.url == "" && spec.Invalid == nil {
		spec.Invalid = errors.New("queue is not given, and the server has no work queue of its own")
	}
	spec.RetrySafe, spec.Run = true, w.run
	return spec
}

func (w *work) run(ctx context.Context, call host.ToolCall) (host.ToolResult, error) {
	body, err := w.message(call)
	if err != nil {
		return host.ToolResult{}, err
	}
	if err := w.Sender.Send(ctx, w.url, body); err != nil {
		return host.ToolResult{}, failure(ctx, err)
	}
	return host.ToolResult{Accepted: true}, nil
}

func (w *work) message(call host.ToolCall) (string, error) {
	if call.Token == "" {
		return "", &host.Fault{Class: host.ClassInvalid, Message: "a call for a queue has no promise that its answer could come through"}
	}
	c := outside.NewCall(call, w.settleURL)
	c.V, c.Tenant = messageVersion, call.Key.Tenant
	c.Arguments = ascii(c.Arguments)
	if len(c.Arguments) > InlineMax {
		c.Arguments, c.InputURL = nil, c.Promise.SettleURL+"/input"
	}
	body, err := c.JSON()
	return string(ascii(body)), err
}

// settleURL is where a token is settled. A server that does not know its own
// address gives the path: who takes its calls knows where it is.
func (w *work) settleURL(token string) string {
	if w.SettleURL != nil {
		if url := w.SettleURL(token); url != "" {
			return url
		}
	}
	return "/v1/promises/" + token
}

// ascii writes a JSON text with escapes for all that is not ASCII. That occurs
// within strings only, so the value stays the same.
func ascii(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case r < utf8.RuneSelf && r != 0x7f:
			out = append(out, byte(r))
		case r > 0xffff:
			r -= 0x10000
			out = escape(escape(out, 0xd800+r>>10), 0xdc00+r&0x3ff)
		default:
			out = escape(out, r)
		}
		text = text[n:]
	}
	return out
}

func escape(out []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	return append(out, '\\', 'u', digits[r>>12&0xf], digits[r>>8&0xf], digits[r>>4&0xf], digits[r&0xf])
}

// failure says what kept a message from being sent. Whether it was is not
// known, and need not be.
func failure(ctx context.Context, err error) error {
	var f *host.Fault
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(ctx.Err(), context.Canceled):
		return &host.Fault{Class: host.ClassStopped, Message: "the call was stopped", Sent: true, Err: err}
	case ctx.Err() != nil:
		return &host.Fault{Class: host.ClassTimeout, Message: "the queue did not take the call in time", Sent: true, Err: err}
	}
	return &host.Fault{Class: host.ClassServer, Message: "the call could not be put in the queue", Sent: true, Err: err}
}
