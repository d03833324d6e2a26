package scenario

import (
	"fmt"
	"strings"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/session"
)

// request is the model request that a state comes to, one line a message: what
// a host renders, without its bytes.
func request(s *session.State) []string {
	var out []string
	if !s.Config.Instructions.IsZero() {
		out = append(out, "instructions: "+show(s.Config.Instructions))
	}
	for _, e := range s.Context.Instructions {
		out = append(out, "instructions "+e.Key+": "+parts(e.Parts))
	}
	if s.Toolset.Revision > 0 {
		names := make([]string, 0, len(s.Toolset.Tools))
		for _, d := range s.Toolset.Tools {
			names = append(names, d.WireName)
		}
		out = append(out, fmt.Sprintf("tools %d: %s", s.Toolset.Revision, strings.Join(names, " ")))
	}
	for _, es := range [...][]session.ContextEntry{s.Context.Lead, s.Context.Entries} {
		for i := range es {
			out = append(out, message(&es[i])...)
		}
	}
	return out
}

func message(e *session.ContextEntry) []string {
	switch e.Role {
	case session.RoleAssistant:
		line := "assistant: " + show(e.Text)
		if e.Partial {
			line += " (partial)"
		}
		if e.Item != nil {
			line += " [" + e.Item.Kind + " of " + e.Item.Family + ": " + show(e.Item.Data) + "]"
		}
		out := []string{line}
		for _, c := range e.Calls {
			out = append(out, fmt.Sprintf("  call %d %s %s", c.Index, c.WireName, show(c.Arguments)))
		}
		return out
	case session.RoleResults:
		out := []string{"results:"}
		for _, r := range e.Results {
			line := fmt.Sprintf("  result %d %s", r.Index, r.Status)
			if r.Error {
				line += " (error)"
			}
			line += ": " + show(r.Text)
			if !r.Edited.IsZero() {
				line += " [a person changed the arguments to " + show(r.Edited) + "]"
			}
			out = append(out, line)
		}
		return out
	}
	line := "user: " + parts(e.Parts)
	if e.Source != session.FromInput {
		line += " (" + e.Source + ")"
	}
	return []string{line}
}

func parts(ps []session.Part) string {
	texts := make([]string, 0, len(ps))
	for _, p := range ps {
		if p.Blob != "" {
			texts = append(texts, p.MediaType)
			continue
		}
		texts = append(texts, show(p.Text))
	}
	return strings.Join(texts, " | ")
}

func show(p blob.Payload) string {
	if p.Ref != "" {
		return fmt.Sprintf("(%d bytes)", p.Size)
	}
	return strings.ReplaceAll(p.Text, "\n", " / ")
}

// wellFormed says what is wrong with the window as a request: a user message
// first, and after each message with calls one result per call, in order.
func wellFormed(c *session.Context) string {
	es := append(append([]session.ContextEntry(nil), c.Lead...), c.Entries...)
	if len(es) > 0 && es[0].Role != session.RoleUser {
		return "the window begins with " + es[0].Role
	}
	for i := range es {
		e := &es[i]
		if e.Role != session.RoleAssistant || len(e.Calls) == 0 {
			if i+1 < len(es) && es[i+1].Role == session.RoleResults {
				return fmt.Sprintf("%s has results after it and no calls", e.ID)
			}
			continue
		}
		if i+1 == len(es) {
			return fmt.Sprintf("%s has calls and no results", e.ID)
		}
		r := &es[i+1]
		if r.Role != session.RoleResults || len(r.Results) != len(e.Calls) {
			return fmt.Sprintf("%s has %d calls and %d results directly after it", e.ID, len(e.Calls), len(r.Results))
		}
		for k := range e.Calls {
			if r.Results[k].Index != e.Calls[k].Index || r.Results[k].Status == "" {
				return fmt.Sprintf("result %d of %s is not that of its call", k+1, e.ID)
			}
		}
	}
	return ""
}
