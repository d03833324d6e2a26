package scenario

import (
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
)

// rows are what a host keeps beside the log: what finished things came to, and
// what idempotency keys were used for. They outlive every crash.
type rows struct {
	subs      map[ident.SubmissionID]session.Prior
	approvals map[ident.ApprovalID]session.SettledApproval
	questions map[ident.QuestionID]session.Decided
	promises  map[ident.PromiseID]session.Promise
	dead      map[string]bool
}

func newRows() rows {
	return rows{
		subs:      map[ident.SubmissionID]session.Prior{},
		approvals: map[ident.ApprovalID]session.SettledApproval{},
		questions: map[ident.QuestionID]session.Decided{},
		promises:  map[ident.PromiseID]session.Promise{},
		dead:      map[string]bool{},
	}
}

// complete adds to a command what the rows know of it.
func (r rows) complete(c session.Command) {
	switch c := c.(type) {
	case *session.RequestRun:
		r.asked(c, &c.Asked)
	case *session.SteerRun:
		r.asked(c, &c.Asked)
	case *session.CancelRun:
		r.asked(c, &c.Asked)
	case *session.DecideApprovals:
		r.asked(c, &c.Asked)
		for i := range c.Decisions {
			if row, ok := r.approvals[c.Decisions[i].Approval]; ok {
				c.Decisions[i].Settled = &row
			}
		}
	case *session.AnswerQuestion:
		r.asked(c, &c.Asked)
		if row, ok := r.questions[c.Question]; ok {
			c.Settled = &row
		}
	case *session.SettlePromise:
		if row, ok := r.promises[c.Promise]; ok {
			c.Settled = &row
		}
	case *session.NoteDead:
		c.Noted = r.dead[c.ID]
	}
}

// rowKey names the row that tells whether a command came before; it is empty for
// one that may come as often as it likes.
func rowKey(c session.Command) string {
	var id ident.SubmissionID
	switch c := c.(type) {
	case *session.RequestRun:
		id = c.Submission.ID
	case *session.SteerRun:
		id = c.Submission.ID
	case *session.CancelRun:
		id = c.Submission.ID
	case *session.DecideApprovals:
		id = c.Submission.ID
	case *session.AnswerQuestion:
		id = c.Submission.ID
	case *session.NoteDead:
		return "message " + c.ID
	}
	if id == "" {
		return ""
	}
	return "submission " + string(id)
}

func (r rows) asked(c session.Command, a *session.Asked) {
	if a.Submission.ID == "" {
		return
	}
	a.Submission.Digest = wire.SubmissionDigest(c)
	if prior, ok := r.subs[a.Submission.ID]; ok {
		a.Prior = &prior
	}
}

// observe writes the rows that an entry implies.
func (r rows) observe(before *session.State, en session.Entry, _ *session.State) {
	sub := func(s session.Submission, p session.Prior) {
		if !s.IsZero() {
			p.Digest = s.Digest
			r.subs[s.ID] = p
		}
	}
	switch e := en.Event.(type) {
	case *session.RunAccepted:
		sub(e.Submission, session.Prior{Run: e.Run})
	case *session.RunSteered:
		sub(e.Submission, session.Prior{Run: e.Run, Steering: e.Steering})
	case *session.RunCancelRequested:
		sub(e.Submission, session.Prior{Run: e.Run})
	case *session.RunCancelled:
		sub(e.Submission, session.Prior{Run: e.Run})
	case *session.ApprovalDecided:
		sub(e.Submission, session.Prior{Run: e.Run})
		row := session.SettledApproval{Run: e.Run, Status: e.Decision, By: e.By, At: en.At}
		if !e.Edited.IsZero() {
			row.Edited = e.Edited.Content()
		}
		r.approvals[e.Approval] = row
	case *session.QuestionAnswered:
		sub(e.Submission, session.Prior{Run: e.Run})
		r.questions[e.Question] = session.Decided{Status: e.Status, By: e.By, At: en.At}
	case *session.PromiseSettled:
		for _, p := range before.Promises {
			if p.ID == e.Promise {
				p.Status, p.Value, p.Error = e.Status, e.Value, e.Error
				r.promises[e.Promise] = p
			}
		}
	case *session.CommandDead:
		r.dead[e.ID] = true
	}
}
