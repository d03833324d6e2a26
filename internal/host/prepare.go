package host

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
)

// prepare gives a person's commands what admitting them needs from rows: what
// an idempotency key was used for, and what was decided long ago. A row that
// says pending of what state does not know is of a later state, and is no use.
//
// A first try is blind to idempotency keys: most are new, and one that is not
// shows by its row, which the commit puts in if absent.
func (d *driver) prepare(ctx context.Context, c *choice) error {
	s := d.m.State()
	for _, cmd := range c.commands {
		var err error
		prior := func(cmd session.Command, a *session.Asked) error { return d.prior(ctx, c, cmd, a) }
		switch c := cmd.(type) {
		case *session.RequestRun:
			err = prior(c, &c.Asked)
		case *session.SteerRun:
			err = prior(c, &c.Asked)
		case *session.CancelRun:
			err = prior(c, &c.Asked)
		case *session.DecideApprovals:
			if err = prior(c, &c.Asked); err == nil {
				err = d.decided(ctx, s, c)
			}
		case *session.AnswerQuestion:
			if err = prior(c, &c.Asked); err == nil {
				err = d.answeredBefore(ctx, s, c)
			}
		case *session.NoteDead:
			err = d.noted(ctx, c)
		case *session.SettlePromise:
			if s.Promise(c.Promise) == nil {
				var p session.Promise
				c.Settled = nil
				if err = d.row(ctx, rowPromise(c.Promise), &p); err == nil && p.ID != 0 && p.Status != session.Pending {
					c.Settled = &p
				}
			}
		}
		if err != nil {
			return errors.Join(ErrUnavailable, err)
		}
	}
	return nil
}

// row reads a document; one that is not there leaves doc as it is.
func (d *driver) row(ctx context.Context, key string, doc any) error {
	r, err := d.e.d.Log.Row(ctx, d.key, key)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(r.Data, doc)
}

func (d *driver) prior(ctx context.Context, c *choice, cmd session.Command, a *session.Asked) error {
	a.Prior = nil
	if a.Submission.IsZero() {
		return nil
	}
	a.Submission.Digest = wire.SubmissionDigest(cmd)
	if d.head.Rev == 0 {
		return nil
	}
	if c.blind {
		c.unseen = true
		return nil
	}
	var p session.Prior
	if err := d.row(ctx, rowSub(a.Submission.ID), &p); err != nil {
		return err
	}
	if p.Digest != "" {
		a.Prior = &p
	}
	return nil
}

// decided looks up approvals that state no longer has.
func (d *driver) decided(ctx context.Context, s session.State, c *session.DecideApprovals) error {
	for i := range c.Decisions {
		dec := &c.Decisions[i]
		dec.Settled = nil
		if _, ok := approvalOf(&s, dec.Approval); ok {
			continue
		}
		rec, err := d.e.Approval(ctx, d.key, dec.Approval)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if rec.Status == session.Pending {
			continue // others have moved the session on; the refusal finds out
		}
		dec.Settled = &session.SettledApproval{Run: rec.Run, Status: rec.Status, By: rec.By, At: rec.DecidedAt}
		if !rec.Edited.IsZero() {
			dec.Settled.Edited = rec.Edited.Content()
		}
	}
	return nil
}

func (d *driver) answeredBefore(ctx context.Context, s session.State, c *session.AnswerQuestion) error {
	c.Settled = nil
	if r := s.Active; r != nil && r.ID == c.Run {
		for _, q := range r.Questions {
			if q.ID == c.Question {
				return nil
			}
		}
	}
	var rec QuestionRecord
	if err := d.row(ctx, rowQuestion(c.Run, c.Question), &rec); err != nil || rec.ID == 0 || rec.Status == session.Pending {
		return err
	}
	c.Settled = &session.Decided{Status: rec.Status, By: rec.By, At: rec.SettledAt}
	return nil
}

// Approval finds an approval by its id alone. An interrupting run starts before
// older ones, so ids do not grow with runs: a row of its own says which run an
// approval is of.
func (e *Engine) Approval(ctx context.Context, key Key, id ident.ApprovalID) (ApprovalRecord, error) {
	var rec ApprovalRecord
	var run ident.RunID
	row, err := e.d.Log.Row(ctx, key, rowApprovalRun(id))
	if err == nil {
		err = json.Unmarshal(row.Data, &run)
	}
	if err == nil {
		row, err = e.d.Log.Row(ctx, key, rowApproval(run, id))
	}
	if err == nil {
		err = json.Unmarshal(row.Data, &rec)
	}
	return rec, err
}
