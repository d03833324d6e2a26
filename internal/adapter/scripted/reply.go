package scripted

import (
	"context"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/host"
)

const (
	messageBytes = 2 << 10 // of a fault's message
	nameBytes    = 80      // of a name in a message
)

// reply is what a model is going to say.
type reply struct {
	reasoning string
	text      string
	calls     []Call
	finish    string
	usage     *session.Usage
	// pause, if set, is waited for after the first half of the text.
	pause func(ctx context.Context) error
}

// play streams a reply word by word and returns the whole. Of a reply that is
// cut short it returns what has been said.
func (r *reply) play(ctx context.Context, req host.ModelRequest, pace time.Duration, sink func(host.Delta)) (host.ModelResult, error) {
	res := host.ModelResult{Model: req.Model.Model}

	var said strings.Builder

	cut := func(err error) (host.ModelResult, error) {
		res.Text = said.String()
		res.Usage = r.count(req, res)

		return res, stopped(err)
	}

	if r.reasoning != "" {
		sink(host.Delta{Part: "reasoning", Text: r.reasoning})
	}

	words := words(r.text)
	half := len(words) / 2

	for i, word := range words {
		if i == half && r.pause != nil {
			if err := r.pause(ctx); err != nil {
				return cut(err)
			}
		}

		if err := rest(ctx, pace); err != nil {
			return cut(err)
		}

		said.WriteString(word)
		sink(host.Delta{Part: "text", Text: word})
	}

	if len(words) == 0 && r.pause != nil {
		if err := r.pause(ctx); err != nil {
			return cut(err)
		}
	}

	res.Text = said.String()

	for i, c := range r.calls {
		if err := ctx.Err(); err != nil {
			return cut(err)
		}

		call := c.modelCall(req, i)
		if call.Arguments != "" {
			sink(host.Delta{Part: "arguments", Call: i + 1, Text: call.Arguments})
		}

		res.Calls = append(res.Calls, call)
	}

	res.Finish = r.finished()
	res.Usage = r.count(req, res)
	res.ResponseID = "scripted-" + strings.ReplaceAll(req.Attempt, "/", "-")

	return res, nil
}

func (r *reply) finished() string {
	switch {
	case r.finish != "":
		return r.finish
	case len(r.calls) > 0:
		return host.FinishTools
	}

	return host.FinishStop
}

func (r *reply) count(req host.ModelRequest, res host.ModelResult) session.Usage {
	if r.usage != nil {
		return *r.usage
	}

	return session.Usage{Input: tokens(requestBytes(req)), Output: tokens(resultBytes(res) + len(r.reasoning))}
}

// words cuts a text after each run of blanks, so that the pieces are the text.
func words(text string) []string {
	var out []string

	for text != "" {
		end := strings.IndexAny(text, " \n\t")
		if end < 0 {
			return append(out, text)
		}

		for end < len(text) && strings.IndexByte(" \n\t", text[end]) >= 0 {
			end++
		}

		out = append(out, text[:end])
		text = text[end:]
	}

	return out
}

// rest waits, or until ctx is done.
func rest(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err() //nolint:wrapcheck // the port asks for this very error
	}

	timer := time.NewTimer(d)
	defer timer.Stop()

	select {
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // the port asks for this very error
	case <-timer.C:
		return nil
	}
}

// Call is a tool call that a script makes.
type Call struct {
	// Tool is the tool's name or its wire name.
	Tool string
	// ID stands for the provider's; empty is one that is unique in the session.
	ID string
	// Arguments is JSON text, or what a model might write instead.
	Arguments string
}

func (c Call) modelCall(req host.ModelRequest, index int) host.ModelCall {
	id := c.ID
	if id == "" {
		id = "scripted_" + strconv.Itoa(turnNumber(req)) + "_" + strconv.Itoa(index+1)
	}

	return host.ModelCall{ID: id, Name: wireName(req.Tools, c.Tool), Arguments: c.Arguments}
}

// wireName is the wire name of a tool as it is offered, else what it would be.
func wireName(tools []host.ModelTool, name string) string {
	guess := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}

		return '_'
	}, name)

	for _, t := range tools {
		if t.WireName == name {
			return name
		}
	}

	return guess
}

// offered says whether a tool is among those of the request.
func offered(req host.ModelRequest, name string) bool {
	wire := wireName(req.Tools, name)
	for _, t := range req.Tools {
		if t.WireName == wire {
			return true
		}
	}

	return false
}

// turnNumber is the turn of the request, which is unique in its session; where
// the attempt does not say, the number of answers so far stands in.
func turnNumber(req host.ModelRequest) int {
	for part := range strings.SplitSeq(req.Attempt, "/") {
		if digits, ok := strings.CutPrefix(part, "turn_"); ok {
			if n, err := strconv.Atoi(digits); err == nil {
				return n
			}
		}
	}

	n := 0

	for i := range req.Messages {
		if req.Messages[i].Role == host.RoleAssistant {
			n++
		}
	}

	return n + 1
}

// attemptNumber is the last part of the attempt's id.
func attemptNumber(req host.ModelRequest) int {
	n, err := strconv.Atoi(req.Attempt[strings.LastIndexByte(req.Attempt, '/')+1:])
	if err != nil || n < 1 {
		return 1
	}

	return n
}

// tokens is an estimate that is the same everywhere.
func tokens(bytes int) int64 {
	const bytesPerToken = 4

	return int64((bytes + bytesPerToken - 1) / bytesPerToken)
}

func requestBytes(req host.ModelRequest) int {
	n := 0
	for _, s := range req.Instructions {
		n += len(s)
	}

	for _, t := range req.Tools {
		n += len(t.WireName) + len(t.Description) + len(t.Parameters)
	}

	for i := range req.Messages {
		m := &req.Messages[i]
		n += len(m.Text)

		for _, p := range m.Parts {
			n += len(p.Text) + len(p.Data)
		}

		for _, c := range m.Calls {
			n += len(c.Name) + len(c.Arguments)
		}

		for _, r := range m.Results {
			n += len(r.Text)
		}
	}

	return n
}

func resultBytes(res host.ModelResult) int {
	n := len(res.Text)
	for _, c := range res.Calls {
		n += len(c.Name) + len(c.Arguments)
	}

	return n
}

// clip cuts a text between characters.
func clip(s string, most int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= most {
		return s
	}

	const more = "…"

	cut := most - len(more)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}

	return s[:cut] + more
}
