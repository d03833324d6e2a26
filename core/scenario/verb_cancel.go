package scenario

import "github.com/perdure/perdure/core/session"

// verbCancel cancels a run: the active one, unless run= names another.
//
//	cancel run=2 force id=s3
func verbCancel(w *world, a *args) string {
	return w.step(a.taker(), &session.CancelRun{Run: a.run(w), Force: a.flag("force"), Asked: a.asked()})
}
