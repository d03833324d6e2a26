package scenario

import (
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
)

// probe takes from the state that a world is in what may come next, each alone,
// and commits nothing. So a state in which something cannot be taken is found
// when it is met, and not only when chance also draws that very thing there.
func (w *world) probe() {
	w.t.Helper()
	s := w.state()
	day := w.at.Add(ident.Day)
	for _, by := range [...]who{driver, api} {
		w.try(by, w.at.Add(30*ident.Second), &session.Wake{})
		w.try(by, day, &session.Wake{})
		w.try(by, w.at, &session.CompactContext{})
		w.try(by, w.at, &session.CloseSession{Force: true})
		w.try(by, w.at, &session.RequestRun{Input: []session.Part{{Text: payload("now")}}, Mode: session.ModeInterrupt})
		if s.Active == nil {
			continue
		}
		w.try(by, w.at, &session.CancelRun{Run: s.Active.ID})
		w.try(by, w.at, &session.CancelRun{Run: s.Active.ID, Force: true})
		for i := range s.Promises {
			w.try(by, w.at, &session.SettlePromise{Promise: s.Promises[i].ID, Status: session.Failed, Error: payload("no")})
		}
	}
	w.try(driver, w.at, &session.Resume{})
	w.try(driver, day, &session.Resume{}, &session.Wake{}, &session.CloseSession{Force: true})
	for _, e := range s.InFlight() {
		for _, o := range outcomes(e.Claim()) {
			w.try(driver, w.at, o)
			w.try(driver, w.at, o, &session.CancelRun{Run: s.Cursors.Run}, &session.CompactContext{})
			w.try(driver, w.at, o, &session.CloseSession{Force: true})
		}
	}
}

// try takes a step at an instant and drops it. Refused it may be; it must come
// to rest, and claim nothing that was claimed before.
func (w *world) try(by who, at ident.Instant, inputs ...session.Command) {
	w.t.Helper()
	now := w.at
	w.at = at
	env := w.env(by)
	w.at = now
	for _, in := range inputs {
		w.rows.complete(in)
	}
	rd, err := w.m.Step(env, nil, inputs...)
	require.NoError(w.t, err, "%T %+v", inputs[0], inputs[0])
	w.m.Drop()
	for _, e := range rd.Effects {
		c := e.Claim()
		require.True(w.t, c.Kind == session.ClaimLookup || !w.laws.facts.claims[c], "%s would be started again by %T %+v", c, inputs[0], inputs[0])
	}
}

// outcomes are ways in which an effect may end.
func outcomes(c session.Claim) []session.Command {
	var out []session.Command
	for _, f := range []*session.FaultInfo{nil, {Class: "server"}, {Class: "context_length"}, {Class: "network", NotSent: true}, {Class: "invalid_request"}} {
		switch c.Kind {
		case session.ClaimModel:
			out = append(out, &session.ModelOutcome{Turn: c.Turn, Attempt: c.Attempt, Text: payload("said"), Finish: "stop", Fault: f})
		case session.ClaimCompact:
			out = append(out, &session.CompactionOutcome{Through: c.Through, Attempt: c.Attempt, Summary: payload("sum"), Fault: f})
		default:
			out = append(out, &session.ToolOutcome{
				Call: ident.CallID{Turn: c.Turn, Index: c.Call}, Attempt: c.Attempt, Lookup: c.Kind == session.ClaimLookup,
				Text: payload("done"), Accepted: c.Kind == session.ClaimTool, Fault: f,
			})
		}
	}
	switch c.Kind {
	case session.ClaimModel:
		return append(out, &session.ModelOutcome{Turn: c.Turn, Attempt: c.Attempt, Text: payload("sa"), Aborted: true})
	case session.ClaimCompact:
		return append(out, &session.CompactionOutcome{Through: c.Through, Attempt: c.Attempt, Aborted: true})
	}
	return append(out, &session.ToolOutcome{
		Call: ident.CallID{Turn: c.Turn, Index: c.Call}, Attempt: c.Attempt, Lookup: c.Kind == session.ClaimLookup, Aborted: true,
	})
}
