package scenario

import (
	"strings"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/session"
)

// verbTool is how a call ends: the one pending, or the one named.
//
//	tool 1.2 text=(42)
//	tool error=(no such file)
//	tool accepted
//	tool fault=network notsent
//	tool refused=forbidden text=(not you)
//	tool aborted
//	tool lookup found text=(it was sent)
//	tool 1.2 attempt=1 text=(late)
func verbTool(w *world, a *args) string {
	lookup := a.flag("lookup")
	kind := session.ClaimTool
	if lookup {
		kind = session.ClaimLookup
	}
	o := &session.ToolOutcome{
		Call: a.call(w, kind), Text: a.text("text"), Accepted: a.flag("accepted"), Refused: a.str("refused"), Fault: a.fault(),
		Aborted: a.flag("aborted"), Lookup: lookup, Found: a.flag("found"), Truncated: a.flag("truncated"), OutputBytes: a.num("bytes", 0),
	}
	if text, ok := a.find("error"); ok {
		o.Error, o.Text = true, payload(text)
	}
	if n := a.num("long", 0); n > 0 {
		o.Text = blob.Inline(strings.Repeat("t", int(n)))
	}
	if e := a.str("effect"); e != "" {
		kind, subject, _ := strings.Cut(e, " ")
		o.Effects = append(o.Effects, session.ToolEffect{Kind: kind, Subject: subject})
	}
	o.Attempt = int(a.num("attempt", int64(w.attempt(o))))
	w.done(session.Claim{Kind: kind, Turn: o.Call.Turn, Call: o.Call.Index, Attempt: o.Attempt})
	return w.step(a.taker(), o)
}

// attempt is the newest one of a call that somebody performs, else the first.
func (w *world) attempt(o *session.ToolOutcome) int {
	n := 1
	for _, p := range w.pending {
		if (p.claim.Kind == session.ClaimTool || p.claim.Kind == session.ClaimLookup) && p.claim.Turn == o.Call.Turn && p.claim.Call == o.Call.Index {
			n = max(n, p.claim.Attempt)
		}
	}
	return n
}
