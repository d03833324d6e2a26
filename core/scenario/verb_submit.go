package scenario

import (
	"github.com/perdure/perdure/core/session"
)

// verbSubmit asks for a run.
//
//	submit text=(hello there) mode=interrupt id=s1 maxTurns=2
func verbSubmit(w *world, a *args) string {
	return w.step(a.taker(), &session.RequestRun{
		Input: a.parts(), Mode: a.str("mode"), Asked: a.asked(),
		Config: session.RunConfig{Provider: a.str("provider"), Model: a.str("model"), Params: a.str("params"), Limits: a.limits()},
	})
}

// parts are the input: text=, or several= parts; none without either.
func (a *args) parts() []session.Part {
	if n := a.num("several", 0); n > 0 {
		ps := make([]session.Part, n)
		for i := range ps {
			ps[i].Text = payload("part")
		}
		return ps
	}
	text, ok := a.find("text")
	if !ok {
		return nil
	}
	return []session.Part{{Text: payload(text)}}
}
