package scenario

import "github.com/perdure/perdure/core/session"

// verbClose closes the session: close force.
func verbClose(w *world, a *args) string {
	return w.step(a.taker(), &session.CloseSession{Force: a.flag("force"), Asked: a.asked()})
}

// verbForget takes remembered approvals of a tool back: forget tool=write.
func verbForget(w *world, a *args) string {
	return w.step(a.taker(), &session.ForgetRemembered{Tool: a.str("tool"), Asked: a.asked()})
}

// verbRelease lets a quarantined session go on.
func verbRelease(w *world, a *args) string {
	return w.step(a.taker(), &session.ReleaseSession{Asked: a.asked()})
}
