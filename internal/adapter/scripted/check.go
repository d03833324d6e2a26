package scripted

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/perdure/perdure/internal/host"
)

// Violations says what is wrong with a request by the rules that all providers
// share: the conversation begins with a user message and does not end with an
// answer; every call has exactly one result, directly after it, in order; ids
// are there and distinct; nothing is empty; text is valid UTF-8. Empty is
// nothing.
func Violations(req host.ModelRequest) []string {
	var c checker

	if len(req.Messages) == 0 {
		return []string{"there are no messages"}
	}

	if req.Messages[0].Role != host.RoleUser {
		c.addf("message 1 is not the user's")
	}

	if req.Messages[len(req.Messages)-1].Role == host.RoleAssistant {
		c.addf("the last message is an answer: there is nothing to answer")
	}

	var due []host.ModelCall // calls whose results must come next

	for i := range req.Messages {
		due = c.message(i+1, &req.Messages[i], due)
	}

	if len(due) > 0 {
		c.addf("the last calls have no results")
	}

	c.tools(req.Tools)

	for _, s := range req.Instructions {
		c.text("the instructions", s)
	}

	return c.found
}

type checker struct{ found []string }

func (c *checker) addf(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

func (c *checker) text(where, s string) {
	if !utf8.ValidString(s) {
		c.addf("%s is not valid UTF-8", where)
	}
}

// message checks one message, and returns the calls whose results are due next.
func (c *checker) message(n int, m *host.ModelMessage, due []host.ModelCall) []host.ModelCall {
	where := fmt.Sprintf("message %d", n)

	if len(due) > 0 && m.Role != host.RoleTool {
		c.addf("%s stands where the results of the calls before it are due", where)
	}

	switch m.Role {
	case host.RoleUser:
		c.user(where, m)
	case host.RoleAssistant:
		return c.assistant(where, m)
	case host.RoleTool:
		c.results(where, m, due)
	default:
		c.addf("%s has the role %q", where, m.Role)
	}

	return nil
}

func (c *checker) user(where string, m *host.ModelMessage) {
	empty := true

	for _, p := range m.Parts {
		c.text(where, p.Text)

		empty = empty && strings.TrimSpace(p.Text) == "" && len(p.Data) == 0
	}

	if empty {
		c.addf("%s is empty", where)
	}
}

func (c *checker) assistant(where string, m *host.ModelMessage) []host.ModelCall {
	c.text(where, m.Text)

	if m.Text == "" && len(m.Calls) == 0 {
		c.addf("%s is empty", where)
	}

	seen := map[string]bool{}

	for i, call := range m.Calls {
		c.text(where, call.Name)
		c.text(where, call.Arguments)

		if call.ID == "" || seen[call.ID] {
			c.addf("%s: the id %q of call %d is empty or there twice", where, call.ID, i+1)
		}

		seen[call.ID] = true
	}

	return m.Calls
}

func (c *checker) results(where string, m *host.ModelMessage, due []host.ModelCall) {
	if len(due) == 0 {
		c.addf("%s has results and no calls directly before it", where)

		return
	}

	if len(m.Results) != len(due) {
		c.addf("%s has %d results for %d calls", where, len(m.Results), len(due))

		return
	}

	for i, r := range m.Results {
		c.text(where, r.Text)

		if r.ID != due[i].ID {
			c.addf("%s: result %d answers %q where the answer to %q is due", where, i+1, r.ID, due[i].ID)
		}
	}
}

func (c *checker) tools(tools []host.ModelTool) {
	const nameMax = 64

	seen := map[string]bool{}

	for _, t := range tools {
		if t.WireName == "" || len(t.WireName) > nameMax || wireName(nil, t.WireName) != t.WireName {
			c.addf("the tool name %q is not 1 to %d letters, digits, _ and -", clip(t.WireName, nameBytes), nameMax)
		}

		if seen[t.WireName] {
			c.addf("the tool %s is offered twice", t.WireName)
		}

		seen[t.WireName] = true
	}
}
