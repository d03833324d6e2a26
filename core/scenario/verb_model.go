package scenario

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
)

// verbModel is how the model call in flight ends; calls stand below, a tool
// and its arguments a line. turn= and attempt= name another call, for an
// outcome that comes late.
//
//	model text=(let me see) usage=100/20
//	read {"path":"a"}
//	write {"path":"b"}
//
//	model fault=rate_limit retryAfter=30s
//	model aborted text=(half an ans)
//	model fault=quota refused=(maxCostUsd 1000 950)
func verbModel(w *world, a *args) string {
	s := w.state()
	o := &session.ModelOutcome{
		Text: a.text("text"), Finish: a.str("finish"), Usage: a.usage(), Aborted: a.flag("aborted"), Fault: a.fault(), Model: a.str("reported"),
		Turn: ident.TurnID(a.num("turn", 0)), Attempt: int(a.num("attempt", 0)),
	}
	if item := a.str("item"); item != "" {
		o.Item = &session.Item{Kind: "raw", Family: "m", Data: payload(item)}
	}
	if o.Turn == 0 {
		o.Turn, o.Attempt = w.modelCall(a)
	}
	for _, line := range a.input() {
		name, arguments, _ := strings.Cut(strings.TrimSpace(line), " ")
		o.Calls = append(o.Calls, w.screen(&s, name, arguments))
	}
	if o.Finish == "" {
		o.Finish = "stop"
		if len(o.Calls) > 0 {
			o.Finish = "tools"
		}
	}
	w.done(session.Claim{Kind: session.ClaimModel, Turn: o.Turn, Attempt: o.Attempt})
	return w.step(a.taker(), o)
}

// modelCall is the one that is pending.
func (w *world) modelCall(a *args) (ident.TurnID, int) {
	a.t.Helper()
	for _, p := range w.pending {
		if p.claim.Kind == session.ClaimModel {
			return p.claim.Turn, p.claim.Attempt
		}
	}
	require.Fail(a.t, "no model call", "%s: nobody calls the model", a.at)
	return 0, 0
}

// usage is input/output tokens; usage=none is a provider that says nothing.
func (a *args) usage() session.Usage {
	text := a.or("usage", "none")
	if text == "none" {
		return session.Usage{}
	}
	in, out := a.marks("usage")
	cost := a.num("cost", 0)
	return session.Usage{Input: in, Output: out, CostMicros: cost, Priced: cost > 0, Estimated: a.flag("estimated")}
}

func (a *args) fault() *session.FaultInfo {
	class, ok := a.find("fault")
	if !ok {
		return nil
	}
	f := &session.FaultInfo{Class: class, Message: a.or("message", class), RetryAfterMs: a.dur("retryAfter", 0), NotSent: a.flag("notsent")}
	if limit := a.str("refused"); limit != "" {
		r := &session.Failure{Kind: session.FailLimit, Message: f.Message}
		_, err := fmt.Sscanf(limit, "%s %d %d", &r.Limit, &r.Value, &r.Used)
		require.NoError(a.t, err, a.at)
		if a.flag("quota") {
			r.Kind = session.FailQuota
		}
		f.Refused = r
	}
	return f
}

// verbSummary is how the call that makes a summary ends.
//
//	summary text=(what was said) usage=500/50
//	summary fault=server
func verbSummary(w *world, a *args) string {
	s := w.state()
	c := s.Context.Compaction
	o := &session.CompactionOutcome{
		Through: c.Through, Attempt: int(a.num("attempt", int64(c.Attempt))),
		Summary: a.text("text"), Usage: a.usage(), Fault: a.fault(), Aborted: a.flag("aborted"),
	}
	w.done(session.Claim{Kind: session.ClaimCompact, Through: o.Through, Attempt: o.Attempt})
	return w.step(a.taker(), o)
}
