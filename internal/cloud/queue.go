package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/perdure/perdure/internal/cloud/inbox"
	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/host"
)

// Message is one delivery of a queue's message.
type Message = inbox.Message

// Inbox performs a batch of commands, and says which failed: those the queue
// delivers again. An error fails all of them.
func (f *Function) Inbox(ctx context.Context, request string, batch []Message) (failed []string, err error) {
	err = f.invoke(ctx, request, func(ctx context.Context, p *parts) error {
		failed = p.inbox.Take(ctx, batch)
		if dead := given(batch, failed); dead > 0 {
			f.metrics.count(env.MetricDead, dead)
		}
		return nil
	})
	return failed, err
}

// given counts the messages that have failed for the last time.
func given(batch []Message, failed []string) int {
	n := 0
	for _, m := range batch {
		for _, id := range failed {
			if m.ID == id && m.Receives >= inbox.DefaultReceives {
				n++
			}
		}
	}
	return n
}

// deliverVersion is the newest form of an item of the outbox queue that this
// build reads.
const deliverVersion = 1

// item is what the body of an outbox message says, whatever its kind.
type item struct {
	V    int    `json:"v"`
	Kind string `json:"kind"`
}

// errItem says that a message is none that this build delivers. It is kept in
// the dead-letter queue: a later build may know it.
var errItem = errors.New("not an item that this build delivers")

// deliverers are what each kind of item is done with.
func (p *parts) deliverers() map[string]func(ctx context.Context, body string) error {
	return map[string]func(context.Context, string) error{
		kindWork: p.deliverWork,
	}
}

// Deliver delivers a batch of the outbox queue, and says which failed.
func (f *Function) Deliver(ctx context.Context, request string, batch []Message) (failed []string, err error) {
	err = f.invoke(ctx, request, func(ctx context.Context, p *parts) error {
		kinds := p.deliverers()
		for _, m := range batch {
			var it item
			err := f.caught(ctx, func() error {
				if err := json.Unmarshal([]byte(m.Body), &it); err != nil {
					return fmt.Errorf("%w: no JSON object", errItem) // the error may quote it
				}
				deliver := kinds[it.Kind]
				switch {
				case it.V < 1 || it.V > deliverVersion:
					return fmt.Errorf("%w: version %d", errItem, it.V)
				case deliver == nil:
					return fmt.Errorf("%w: its kind is not known", errItem)
				}
				return deliver(ctx, m.Body)
			})
			if err != nil {
				f.log.WarnContext(ctx, "a delivery failed", "message", m.ID, "receives", m.Receives, "error", err)
				failed = append(failed, m.ID)
			}
		}
		return nil
	})
	return failed, err
}

// kindWork is a call for outside workers.
const kindWork = "work"

// work is an item for the queue that outside workers take calls from.
type work struct {
	item

	// Queue is the work queue's URL; empty is the stack's own, and there is no
	// other.
	Queue string `json:"queue,omitempty"`
	// Body is what the workers get: the text of a string, anything else as it
	// is.
	Body json.RawMessage `json:"body"`
}

// outbox is the queue.Sender of tools. A call for outside workers leaves through
// the outbox, like all that leaves a session: what cannot be delivered is tried
// again there, and then kept where an operator sees it.
type outbox struct{ *parts }

// Send implements queue.Sender.
func (o outbox) Send(ctx context.Context, url, body string) error {
	if url != o.set.Work {
		return &host.Fault{Class: host.ClassAccess, Message: "this stack sends calls to its own work queue alone: leave queue out of the tool's definition"}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	message, err := json.Marshal(work{item: item{V: deliverVersion, Kind: kindWork}, Body: text})
	if err != nil {
		return err
	}
	return o.ports.Queues.Send(ctx, o.set.Outbox, string(message))
}

func (p *parts) deliverWork(ctx context.Context, body string) error {
	var w work
	if err := json.Unmarshal([]byte(body), &w); err != nil || len(w.Body) == 0 {
		return fmt.Errorf("%w: work without a body", errItem)
	}
	if w.Queue != "" && w.Queue != p.set.Work {
		return fmt.Errorf("%w: work for a queue that the stack does not have", errItem)
	}
	text := string(w.Body)
	if w.Body[0] == '"' {
		if err := json.Unmarshal(w.Body, &text); err != nil {
			return fmt.Errorf("%w: work without a body", errItem)
		}
	}
	return p.ports.Queues.Send(ctx, p.set.Work, text)
}
