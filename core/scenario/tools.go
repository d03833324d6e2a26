package scenario

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
)

// tool is one that somebody serves. needs is the role that its calls demand.
type tool struct {
	def   session.ToolDef
	needs string
}

// verbOffer says which tools are served from now on, one a line; it writes
// nothing, because an offer becomes a fact with the next turn.
//
//	offer
//	read safe parallel
//	write ask remember ttl=1h role=owner definition=2
//	job class=joined deadline=1h lookup needs=admin
//	sleep
func verbOffer(w *world, a *args) string {
	w.tools = nil
	for _, line := range a.input() {
		name, b := a.line(line)
		d := session.ToolDef{
			Name: name, WireName: strings.ReplaceAll(name, ".", "_"), Kind: b.or("kind", "action"), Class: b.or("class", classOf(name)),
			RetrySafe: b.flag("safe"), Parallel: b.flag("parallel"), Lookup: b.flag("lookup"), DeadlineMs: b.dur("deadline", 0),
			Gate:       session.Gate{Ask: b.flag("ask"), Role: b.str("role"), TTLMs: b.dur("ttl", 0), Remember: b.flag("remember")},
			Definition: blob.Sum([]byte(name + b.str("definition"))).Hex(),
		}
		w.tools = append(w.tools, tool{def: d, needs: b.str("needs")})
		b.rest()
	}
	slices.SortFunc(w.tools, func(a, b tool) int { return strings.Compare(a.def.Name, b.def.Name) })
	return "offered\n"
}

// verbUnpriced says that nobody knows what the model costs.
func verbUnpriced(w *world, _ *args) string {
	w.unpriced = true
	return "unpriced\n"
}

func classOf(name string) string {
	switch name {
	case session.ClassSleep, session.ClassAwait, session.ClassDetach, session.ClassCancel, session.ClassAsk:
		return name
	}
	return session.ClassInline
}

func (w *world) offer() session.Offer {
	if len(w.tools) == 0 {
		return session.Offer{}
	}
	o := session.Offer{}
	var all strings.Builder
	for _, t := range w.tools {
		o.Tools = append(o.Tools, t.def)
		all.WriteString(t.def.Definition)
	}
	o.Ref, o.Size = string(blob.Sum([]byte(all.String()))), int64(40*len(o.Tools))
	return o
}

// screen is what a host finds out about a call before it proposes it, by the
// tools of the turn: known, role, JSON, and what it asks of the session.
func (w *world) screen(s *session.State, name, arguments string) session.ProposedCall {
	p := session.ProposedCall{Tool: name, WireName: strings.ReplaceAll(name, ".", "_"), Arguments: payload(arguments), Verdict: session.VerdictOK}
	d := s.Toolset.Find(name)
	if d == nil {
		p.Verdict, p.Problem = session.VerdictUnavailable, "There is no tool "+name+"."
		return p
	}
	if i := slices.IndexFunc(w.tools, func(t tool) bool { return t.def.Name == name }); i >= 0 {
		if role := w.tools[i].needs; role != "" && s.Active != nil && !slices.Contains(s.Active.Actor.Roles, role) {
			p.Verdict, p.Problem = session.VerdictForbidden, "This needs the role "+role+"."
			return p
		}
	}
	if p.Arguments.Ref == "" && !json.Valid([]byte(arguments)) {
		p.Verdict, p.Problem = session.VerdictInvalid, "The arguments are not JSON."
		return p
	}
	control, problem := control(d.Class, arguments)
	if problem != "" {
		p.Verdict, p.Problem = session.VerdictInvalid, problem
		return p
	}
	p.Control = control
	return p
}

// control reads what a call of one of the session's own tools asks for.
func control(class, arguments string) (*session.Control, string) {
	var in struct {
		Seconds        int64                  `json:"seconds"`
		Promises       []string               `json:"promises"`
		Mode           string                 `json:"mode"`
		TimeoutSeconds *int64                 `json:"timeoutSeconds"`
		Items          []session.QuestionItem `json:"items"`
	}
	if classOf(class) == session.ClassInline {
		return nil, ""
	}
	if err := json.Unmarshal([]byte(arguments), &in); err != nil {
		return nil, "The arguments are not what the tool takes."
	}
	c := &session.Control{SleepMs: in.Seconds * ident.Second, Any: in.Mode == "any", Items: in.Items}
	if in.TimeoutSeconds != nil {
		c.Timed, c.TimeoutMs = true, *in.TimeoutSeconds*ident.Second
	}
	for _, p := range in.Promises {
		id, err := ident.ParsePromiseID(p)
		if err != nil {
			return nil, "That is no promise: " + p + "."
		}
		c.Promises = append(c.Promises, id)
	}
	if class == session.ClassAsk {
		if err := session.ValidateItems(in.Items); err != nil {
			return nil, "The questions are not good: " + err.Error() + "."
		}
	}
	return c, ""
}
