package scenario

import (
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
)

// verbSteer steers a run: the active one, unless run= names another.
//
//	steer text=(in English) run=2 id=s2
func verbSteer(w *world, a *args) string {
	return w.step(a.taker(), &session.SteerRun{Run: a.run(w), Text: a.parts(), Asked: a.asked()})
}

// run is the run named, else the active one, else the last one.
func (a *args) run(w *world) ident.RunID {
	if n := a.num("run", 0); n > 0 {
		return ident.RunID(n)
	}
	s := w.state()
	if s.Active != nil {
		return s.Active.ID
	}
	return s.Cursors.Run
}
