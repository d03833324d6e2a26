package scenario

import (
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
)

// verbApprove approves approvals.
//
//	approve 1 2 note=(fine) remember edit={"to":"b"} problem=(no such key) run=1
func verbApprove(w *world, a *args) string { return decideAll(w, a, true) }

// verbReject rejects them.
func verbReject(w *world, a *args) string { return decideAll(w, a, false) }

func decideAll(w *world, a *args, approve bool) string {
	c := &session.DecideApprovals{Run: a.ofRun(), Asked: a.asked()}
	by := a.taker()
	d := a.decision(w, approve)
	for _, n := range a.bare() {
		d.Approval = a.approval(n)
		c.Decisions = append(c.Decisions, d)
	}
	return w.step(by, c)
}

// verbDecide decides several at once, each on a line.
//
//	decide id=s1
//	approve 3 edit={"to":"b"}
//	reject 1 note=(too much)
func verbDecide(w *world, a *args) string {
	c := &session.DecideApprovals{Run: a.ofRun(), Asked: a.asked()}
	by := a.taker()
	for _, line := range a.input() {
		verb, b := a.line(line)
		d := b.decision(w, verb == "approve")
		for _, n := range b.bare() {
			d.Approval = b.approval(n)
			c.Decisions = append(c.Decisions, d)
		}
		b.rest()
	}
	return w.step(by, c)
}

func (a *args) ofRun() ident.RunID { return ident.RunID(a.num("run", 0)) }

func (a *args) approval(n string) ident.ApprovalID {
	a.t.Helper()
	id, err := ident.ParseApprovalID("approval_" + n)
	require.NoError(a.t, err, a.at)
	return id
}

func (a *args) decision(w *world, approve bool) session.Decision {
	d := session.Decision{Approve: approve, Note: a.str("note"), Remember: a.flag("remember"), EditProblem: a.str("problem")}
	if n := a.num("longNote", 0); n > 0 {
		d.Note = strings.Repeat("n", int(n))
	}
	if edit, ok := a.find("edit"); ok {
		p := payload(edit)
		d.Edited = &p
		d.EditControl = w.editControl(a, edit)
	}
	return d
}

// editControl reads the edit of a call of one of the session's own tools.
func (w *world) editControl(a *args, edit string) *session.Control {
	s := w.state()
	if s.Active == nil || s.Active.Batch == nil {
		return nil
	}
	for _, n := range a.bare() {
		for i := range s.Active.Batch.Calls {
			if c := &s.Active.Batch.Calls[i]; c.Approval == a.approval(n) {
				if d := s.Toolset.Find(c.Tool); d != nil {
					ctl, _ := control(d.Class, edit)
					return ctl
				}
			}
		}
	}
	return nil
}
