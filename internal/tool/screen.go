package tool

import (
	"context"
	"slices"
	"strings"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/host"
)

// Screen implements host.Tools. An edited call is screened the same way, with
// the arguments that a person wrote.
func (r *Registry) Screen(
	ctx context.Context, key host.Key, actor session.Actor, offered []session.ToolDef, wireName, arguments string,
) host.Screened {
	all, _, err := r.tools(ctx, key.Tenant)
	if err != nil {
		// Who cannot be asked is not served now; that is not the call's fault.
		all = r.builtin
	}
	i := slices.IndexFunc(offered, func(d session.ToolDef) bool { return d.WireName == wireName })
	if i < 0 {
		return unknown(all, offered, wireName)
	}
	def := offered[i]
	out := host.Screened{Tool: def.Name, Verdict: session.VerdictOK}
	s := all[def.Name]
	if s != nil {
		if problem := s.refuse(actor); problem != "" {
			out.Verdict, out.Problem = session.VerdictForbidden, problem
			return out
		}
	}
	if s != nil && s.Control == nil && s.schema.passed.has(arguments) {
		return out
	}
	parsed, err := ParseArguments(arguments)
	if err != nil {
		out.Verdict, out.Problem = session.VerdictInvalid, err.Error()
		return out
	}
	if s == nil {
		// The turn offered it and nobody serves it now. The call waits for the
		// tool, and its schema is checked before it runs.
		return out
	}
	if bad := s.schema.Check(parsed); bad != nil {
		out.Verdict, out.Problem = session.VerdictInvalid, bad.Text()
		return out
	}
	s.schema.passed.add(arguments)
	if s.Control != nil {
		if out.Control, err = s.Control(parsed); err != nil {
			out.Verdict, out.Problem, out.Control = session.VerdictInvalid, err.Error(), nil
		}
	}
	return out
}

// refuse says why an actor may not call a tool; empty if it may.
func (s *served) refuse(actor session.Actor) string {
	if s.RequiresRole == "" || slices.Contains(actor.Roles, s.RequiresRole) {
		return ""
	}
	return "forbidden: calling " + s.Name + " takes the role " + s.RequiresRole
}

// unknown is the verdict on a name that the turn did not offer.
func unknown(all map[string]*served, offered []session.ToolDef, wire string) host.Screened {
	for name := range all {
		if wireName(name) == wire {
			return host.Screened{Tool: name, Verdict: session.VerdictForbidden, Problem: "forbidden: " + name + " is not granted to this session. " + listOffered(offered)}
		}
	}
	return host.Screened{Verdict: session.VerdictUnavailable, Problem: "there is no tool of this name. " + listOffered(offered)}
}

func listOffered(offered []session.ToolDef) string {
	if len(offered) == 0 {
		return "No tools are offered."
	}
	names := make([]string, 0, len(offered))
	for _, d := range offered {
		names = append(names, d.WireName)
	}
	text := strings.Join(names, ", ")
	if len(text) > issuesMax {
		text = blob.Cut(text, issuesMax) + "…"
	}
	return "Offered are: " + text + "."
}
