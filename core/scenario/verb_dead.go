package scenario

import (
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
)

// verbDead notes a command of a queue that is given up.
//
//	dead message=m1 id=k1 command=(POST /runs) code=unavailable detail=(HTTP 503)
func verbDead(w *world, a *args) string {
	by := a.taker()
	c := &session.NoteDead{
		Source: a.or("source", "inbox"), ID: a.or("message", "m1"), Command: a.str("command"), Submission: ident.SubmissionID(a.str("id")),
		Receives: a.num("receives", 3), Code: a.or("code", "unavailable"), Detail: a.str("detail"),
		Who: session.Who{By: a.or("as", "ada"), Via: a.or("via", "slack")},
	}
	before := w.state()
	out := w.step(by, c)
	after := w.state()
	if after.Seq == before.Seq+1 {
		// It is a note and nothing else: but for it, the session is as it was.
		after.Seq, after.At = before.Seq, before.At
		require.Equal(w.t, wire.StateSum(before), wire.StateSum(after), "a dead command moves the state")
	}
	return out
}
