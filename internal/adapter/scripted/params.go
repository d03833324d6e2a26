package scripted

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/host"
)

// params are what the model ByParam reads of a model's params. What else is in
// them is left alone, as other providers do.
type params struct {
	// Steps are the answers of a run: the first to the input, the second to the
	// results of the first, and so on. A user message begins anew, a steer
	// included, unless SteersContinue.
	Steps          []step `json:"steps"`
	SteersContinue bool   `json:"steersContinue"`
	// Summary answers a compaction; empty is a made-up one.
	Summary     string `json:"summary"`
	InputLimit  int64  `json:"inputLimit"`
	OutputLimit int64  `json:"outputLimit"`
	// Prices are in millionths of a dollar per million tokens.
	Prices struct {
		Input  int64 `json:"input"`
		Output int64 `json:"output"`
	} `json:"prices"`
}

// step is one answer. Its text may have {{input}}, the last user message, and
// {{results}}, the texts of the results directly before it.
type step struct {
	Text      string     `json:"text"`
	Reasoning string     `json:"reasoning"`
	Calls     []stepCall `json:"calls"`
	Fault     *stepFault `json:"fault"`
	// Faults is how many attempts fail before the step is answered; without it
	// a step with a fault always fails.
	Faults int `json:"faults"`
	// DelayMs is waited for in the middle of the text.
	DelayMs int64      `json:"delayMs"`
	Finish  string     `json:"finish"`
	Usage   *stepUsage `json:"usage"`
}

// stepCall is a call. Arguments that are a JSON string are sent as what the
// string says, which need not be JSON.
type stepCall struct {
	Tool      string          `json:"tool"`
	ID        string          `json:"id"`
	Arguments json.RawMessage `json:"arguments"`
}

type stepFault struct {
	Class        string `json:"class"`
	Message      string `json:"message"`
	RetryAfterMs int64  `json:"retryAfterMs"`
	Unsent       bool   `json:"unsent"`
}

type stepUsage struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cacheRead"`
	CacheWrite int64 `json:"cacheWrite"`
}

var (
	classes = []string{
		host.ClassAuthentication, host.ClassAccess, host.ClassNotFound, host.ClassInvalid, host.ClassRateLimit, host.ClassServer,
		host.ClassContentFilter, host.ClassContextLength, host.ClassQuota, host.ClassTimeout, host.ClassNetwork, host.ClassOther,
	}
	finishes = []string{"", host.FinishStop, host.FinishTools, host.FinishLength, host.FinishContentFilter}
)

func parseParams(text string) (params, error) {
	var p params

	if text == "" {
		return p, nil
	}

	var loose struct {
		Steps json.RawMessage `json:"steps"`
	}
	if err := json.Unmarshal([]byte(text), &loose); err != nil {
		return p, fmt.Errorf("the params are no JSON object: %w", err)
	}

	// A word misspelt in a step would otherwise be a step that does nothing.
	if loose.Steps != nil {
		var steps []step

		d := json.NewDecoder(bytes.NewReader(loose.Steps))
		d.DisallowUnknownFields()

		if err := d.Decode(&steps); err != nil {
			return p, fmt.Errorf("the steps cannot be read: %w", err)
		}
	}

	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return p, fmt.Errorf("the params cannot be read: %w", err)
	}

	for i, s := range p.Steps {
		switch {
		case s.Fault != nil && !slices.Contains(classes, s.Fault.Class):
			return p, fmt.Errorf("step %d: there is no class of faults %q", i+1, s.Fault.Class)
		case !slices.Contains(finishes, s.Finish):
			return p, fmt.Errorf("step %d: there is no finish %q", i+1, s.Finish)
		}
	}

	return p, nil
}

// byParams answers with the step that is due: the one after as many as there
// are answers since the last user message.
func byParams(req host.ModelRequest) (reply, error) {
	p, err := parseParams(req.Model.Params)
	if err != nil {
		return reply{}, refuse("%v", err)
	}

	if isCompaction(req) {
		return reply{text: firstText(p.Summary, summary(req))}, nil
	}

	n := due(req.Messages, p.SteersContinue)
	if n >= len(p.Steps) {
		return reply{}, refuse("the script has %d steps, and step %d is due", len(p.Steps), n+1)
	}

	s := &p.Steps[n]
	if fault := s.fault(attemptNumber(req)); fault != nil {
		return reply{}, fault
	}

	say := reply{reasoning: s.Reasoning, text: fill(s.Text, req), finish: s.Finish}

	if s.Usage != nil {
		say.usage = &session.Usage{Input: s.Usage.Input, Output: s.Usage.Output, CacheRead: s.Usage.CacheRead, CacheWrite: s.Usage.CacheWrite}
	}

	if s.DelayMs > 0 {
		say.pause = func(ctx context.Context) error { return rest(ctx, time.Duration(s.DelayMs)*time.Millisecond) }
	}

	for _, c := range s.Calls {
		say.calls = append(say.calls, Call{Tool: c.Tool, ID: c.ID, Arguments: c.arguments()})
	}

	if req.NoTools && len(say.calls) > 0 {
		// Providers hold a model to it.
		say.calls, say.text = nil, firstText(say.text, "No more tools.")
	}

	return say, nil
}

func (s *step) fault(attempt int) error {
	if s.Fault == nil && s.Faults == 0 || s.Faults > 0 && attempt > s.Faults {
		return nil
	}

	f := stepFault{Class: host.ClassServer}
	if s.Fault != nil {
		f = *s.Fault
	}

	return &host.Fault{
		Class: f.Class, Message: "scripted: " + firstText(f.Message, "this step fails"), RetryAfterMs: f.RetryAfterMs, Sent: !f.Unsent,
	}
}

func (c *stepCall) arguments() string {
	var text string
	if json.Unmarshal(c.Arguments, &text) == nil && len(c.Arguments) > 0 && c.Arguments[0] == '"' {
		return text
	}

	return firstText(string(c.Arguments), "{}")
}

// due counts the answers since the last user message. With steers a user
// message directly after results, which is what a steer looks like, does not
// begin anew.
func due(messages []host.ModelMessage, steers bool) int {
	n := 0

	for i, m := range slices.Backward(messages) {
		switch m.Role {
		case host.RoleAssistant:
			n++
		case host.RoleUser:
			if !steers || !isSteer(messages, i) {
				return n
			}
		}
	}

	return n
}

// isSteer says that a user message stands directly after results, or after
// others that do. After results of cancelled calls it is the input of another
// run.
func isSteer(messages []host.ModelMessage, i int) bool {
	for i >= 0 && messages[i].Role == host.RoleUser {
		i--
	}

	return i >= 0 && messages[i].Role == host.RoleTool &&
		!slices.ContainsFunc(messages[i].Results, func(r host.ModelToolResult) bool {
			return r.Error && strings.HasPrefix(r.Text, "Cancelled:")
		})
}

func fill(text string, req host.ModelRequest) string {
	if !strings.Contains(text, "{{") {
		return text
	}

	input, results := "", ""

	for i := range req.Messages {
		if m := &req.Messages[i]; m.Role == host.RoleUser {
			input = userText(m)
		}
	}

	if last := &req.Messages[len(req.Messages)-1]; last.Role == host.RoleTool {
		texts := make([]string, 0, len(last.Results))
		for _, r := range last.Results {
			texts = append(texts, r.Text)
		}

		results = strings.Join(texts, "\n")
	}

	return strings.NewReplacer("{{input}}", input, "{{results}}", results).Replace(text)
}

// isCompaction says that the request asks for a summary of the conversation,
// which is no turn of a run.
func isCompaction(req host.ModelRequest) bool { return strings.HasPrefix(req.Attempt, "compact/") }

// summary stands in for what a model would make of a conversation: what the
// person asked for, shortened.
func summary(req host.ModelRequest) string {
	const (
		most  = 20  // requests that are named
		bytes = 200 // of each
	)

	var asked []string

	for i := range req.Messages[:len(req.Messages)-1] {
		if m := &req.Messages[i]; m.Role == host.RoleUser {
			asked = append(asked, "- "+clip(strings.Join(strings.Fields(userText(m)), " "), bytes))
		}
	}

	asked = asked[max(len(asked)-most, 0):]

	return "So far the person asked:\n" + strings.Join(asked, "\n")
}

func userText(m *host.ModelMessage) string {
	texts := make([]string, 0, len(m.Parts))

	for _, p := range m.Parts {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}

	return strings.Join(texts, "\n")
}

func firstText(a, b string) string {
	if a != "" {
		return a
	}

	return b
}
