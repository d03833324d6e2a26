package tool

import (
	"strings"

	"github.com/perdure/perdure/core/session"
)

// matches says whether a pattern (a name, or prefix.*) covers a name.
func matches(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return len(prefix) > 1 && strings.HasSuffix(prefix, ".") && strings.HasPrefix(name, prefix) && len(name) > len(prefix)
	}
	return pattern == name
}

// granted finds the grant that covers a name: the exact one, else the longest
// pattern. Nothing is granted that is not named.
func granted(grants []session.ToolGrant, name string) bool {
	for _, g := range grants {
		if matches(g.Name, name) {
			return true
		}
	}
	return false
}

// rule finds the longest rule that covers a name; an exact one wins.
func rule(rules []session.ApprovalRule, name string) session.ApprovalRule {
	var best session.ApprovalRule
	for _, r := range rules {
		switch {
		case r.Tool == name:
			return r
		case matches(r.Tool, name) && len(r.Tool) > len(best.Tool):
			best = r
		}
	}
	return best
}

// gate decides whether calls of a tool ask first. Who may decide, for how long
// and whether it may be remembered come from the rule even where it does not
// ask: a call that repeats one of unknown outcome asks whatever the policy is.
func gate(policy session.ApprovalPolicy, name, kind, class string) session.Gate {
	r := rule(policy.Tools, name)
	g := session.Gate{Role: r.Role, TTLMs: r.TTLMs, Remember: r.Remember}
	switch {
	case r.Require == "yes":
		g.Ask = true
	case r.Require == "no":
	case policy.Default == "never":
	case policy.Default == "always":
		// To ask whether the session may wait, or ask, would ask for nothing.
		g.Ask = !isControl(class)
	default:
		g.Ask = kind == KindAction
	}
	return g
}
