package scenario

import (
	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
)

// verbSettle brings the result of a promise from outside.
//
//	settle 1 value=(done)
//	settle 1 error=(no) usage=100/20
func verbSettle(w *world, a *args) string {
	c := &session.SettlePromise{Promise: ident.PromiseID(a.number()), Status: session.Resolved, Value: a.text("value"), Usage: a.usage(), Asked: a.asked()}
	if text, ok := a.find("error"); ok {
		c.Status, c.Value, c.Error = session.Failed, blob.Payload{}, payload(text)
	}
	if status, ok := a.find("status"); ok {
		c.Status = status
	}
	return w.step(a.taker(), c)
}
