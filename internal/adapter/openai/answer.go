package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/host"
)

// callsMax bounds the calls of one answer that are kept; the engine runs far
// fewer and says so for each of the others.
const callsMax = 256

var errEnded = errors.New("the stream ended without an end")

// answer is what has come of an answer so far. It hands each piece to the sink
// as it comes and keeps the whole; the two are the same bytes.
type answer struct {
	sink      func(host.Delta)
	family    string
	id, model string
	text      strings.Builder
	unseen    int // bytes of reasoning
	calls     []*call
	thoughts  thoughts
	finish    string // as the server said it
	ended     bool   // the server said that this is all
	usage     session.Usage
	reported  bool
}

func newAnswer(sink func(host.Delta), family string) *answer {
	return &answer{sink: sink, family: family}
}

// read reads a successful response to its end. It returns a *host.Fault for
// what the server said is wrong, and what reading returned for what broke.
func (a *answer) read(ctx context.Context, res *http.Response) error {
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))

	var err error
	if media == "application/json" {
		err = a.readWhole(ctx, res.Body)
	} else {
		err = a.readEvents(ctx, res.Body)
	}

	switch {
	case a.finish != "":
		// All that matters has come: that the connection then broke, or never
		// said [DONE], changes nothing.
		return a.trouble()
	case err != nil:
		return err
	case !a.ended:
		return errEnded
	}

	return nil
}

// readWhole reads the answer of a server that does not stream, or that says so.
func (a *answer) readWhole(ctx context.Context, body io.Reader) error {
	data, err := io.ReadAll(body)
	if err != nil {
		return err //nolint:wrapcheck // the caller sorts it
	}

	if data = bytes.TrimSpace(data); len(data) == 0 || data[0] != '{' {
		return a.readEvents(ctx, io.NopCloser(bytes.NewReader(data)))
	}

	a.ended = true

	return a.event("", data)
}

func (a *answer) readEvents(ctx context.Context, body io.ReadCloser) error {
	decoder := events(body)
	for decoder.Next() {
		if err := ctx.Err(); err != nil {
			return err //nolint:wrapcheck // what is buffered would be handed on after the cancel
		}

		event := decoder.Event()

		data := bytes.TrimSpace(event.Data)
		if bytes.HasPrefix(data, []byte("[DONE]")) {
			a.ended = true

			return nil
		}

		if len(data) == 0 {
			continue
		}

		if err := a.event(event.Type, data); err != nil {
			return err
		}
	}

	return decoder.Err() //nolint:wrapcheck // the caller sorts it
}

func (a *answer) event(kind string, data []byte) error {
	var c chunk
	if data[0] != '{' || lenient(data, &c) != nil {
		return &host.Fault{Class: host.ClassServer, Message: "the stream has an event that is not a JSON object", Sent: true}
	}

	if isSet(c.Error) || kind == "error" || str(c.Object) == "error" {
		var object errorObject
		if lenient(data, &object) == nil {
			return reported(object.said())
		}
	}

	a.id = cmp.Or(a.id, short(str(c.ID)))
	a.model = cmp.Or(a.model, short(str(c.Model)))
	a.count(c.Usage)

	for i := range c.Choices {
		if c.Choices[i].Index != 0 {
			continue // one was asked for
		}

		if err := a.choice(&c.Choices[i]); err != nil {
			return err
		}
	}

	return nil
}

func (a *answer) choice(c *choice) error {
	a.count(c.Usage)

	d := c.Delta
	if d == nil {
		d = c.Message
	}

	if d != nil {
		if err := a.delta(d); err != nil {
			return err
		}
	}

	a.finish = cmp.Or(a.finish, short(str(c.FinishReason)))

	return nil
}

func (a *answer) delta(d *delta) error {
	text, thought := plain(d.Content)

	a.say("reasoning", a.thoughts.add(d)+thought, 0)
	a.say("text", text, 0)
	// A refusal is the model's words too, in a field of their own.
	a.say("text", str(d.Refusal), 0)

	for i := range d.ToolCalls {
		if err := a.callDelta(&d.ToolCalls[i]); err != nil {
			return err
		}
	}

	if d.FunctionCall != nil {
		first := 0

		return a.callDelta(&callDelta{Index: &first, Function: *d.FunctionCall})
	}

	return nil
}

// say keeps a piece and hands it on.
func (a *answer) say(part, text string, index int) {
	if text == "" {
		return
	}

	switch part {
	case "text":
		a.text.WriteString(text)
	case "reasoning":
		a.unseen += len(text)
	}

	a.sink(host.Delta{Part: part, Call: index, Text: text})
}

func (a *answer) count(u *usage) {
	if u == nil {
		return
	}

	if got := u.usage(); got.Input > 0 || got.Output > 0 {
		// Servers that count along the way send the sum so far each time.
		a.usage, a.reported = got, true
	}
}

// begun says that tokens have been made, and so will be charged for.
func (a *answer) begun() bool { return a.text.Len() > 0 || a.unseen > 0 || len(a.calls) > 0 }

// trouble says whether the finish reason tells of the provider's own.
func (a *answer) trouble() error {
	switch finish := strings.ToLower(a.finish); {
	case strings.Contains(finish, "error"), strings.Contains(finish, "abort"), strings.Contains(finish, "overload"),
		finish == "insufficient_system_resource", finish == "malformed_function_call", finish == "timeout", finish == "cancelled":
		return &host.Fault{
			Class: host.ClassServer, Message: "the provider ended the answer with " + finish, Sent: true, Usage: a.usage,
		}
	}

	return nil
}

// result is the whole answer.
func (a *answer) result() host.ModelResult {
	res := a.partial()
	res.Finish = a.finished()

	var kept []*call

	for _, c := range a.calls {
		if c.empty() || res.Finish != host.FinishTools && !json.Valid([]byte(c.arguments())) {
			continue // half built when the answer was cut
		}

		kept = append(kept, c)
		res.Calls = append(res.Calls, host.ModelCall{ID: c.id, Name: c.name, Arguments: c.arguments()})
	}

	distinct(res.Calls)

	if len(kept) > 0 {
		// Only within a round of tools do servers want their thoughts back, and
		// some refuse them elsewhere.
		res.Item = a.item(kept)
	}

	return res
}

// partial is what there is of an answer that did not come to its end.
func (a *answer) partial() host.ModelResult {
	return host.ModelResult{Text: a.text.String(), Model: a.model, ResponseID: a.id, Usage: a.usage}
}

// finished maps the finish reason. Servers that end with calls and say "stop",
// or nothing, mean the calls.
func (a *answer) finished() string {
	switch strings.ToLower(a.finish) {
	case "length", "max_tokens", "max_output_tokens", "model_length":
		return host.FinishLength
	case "content_filter", "safety", "recitation", "prohibited_content", "blocklist", "spii", "sensitive", "refusal":
		return host.FinishContentFilter
	}

	for _, c := range a.calls {
		if !c.empty() {
			return host.FinishTools
		}
	}

	return host.FinishStop
}

// distinct takes ids away that stand for two calls: the engine then has its
// own for the later ones.
func distinct(calls []host.ModelCall) {
	seen := make(map[string]bool, len(calls))
	for i := range calls {
		if seen[calls[i].ID] {
			calls[i].ID = ""
		}

		seen[calls[i].ID] = true
	}
}

// estimate stands in for usage that the server did not report: four bytes a
// token, an image a thousand tokens.
func estimate(req host.ModelRequest, a *answer) session.Usage {
	const (
		bytesPerToken  = 4
		bytesPerImage  = 4000
		bytesPerObject = 16
	)

	in := 0
	for _, s := range req.Instructions {
		in += len(s)
	}

	for _, t := range req.Tools {
		in += len(t.WireName) + len(t.Description) + len(t.Parameters) + bytesPerObject
	}

	for i := range req.Messages {
		msg := &req.Messages[i]
		in += len(msg.Text) + bytesPerObject

		for _, p := range msg.Parts {
			in += len(p.Text)
			if isImage(p) {
				in += bytesPerImage
			} else {
				in += len(p.Data)
			}
		}

		for _, c := range msg.Calls {
			in += len(c.Name) + len(c.Arguments) + bytesPerObject
		}

		for _, r := range msg.Results {
			in += len(r.Text) + bytesPerObject
		}
	}

	out := a.text.Len() + a.unseen
	for _, c := range a.calls {
		out += len(c.name) + c.args.Len() + bytesPerObject
	}

	tokens := func(n int) int64 { return int64((n + bytesPerToken - 1) / bytesPerToken) }

	return session.Usage{Input: tokens(in), Output: tokens(out), Estimated: true}
}
