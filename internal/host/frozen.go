package host

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/machine"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
)

// freeze ends a step that diverged: the session is quarantined with its
// evidence, nothing loops. What a newer build wrote is left to it.
func (d *driver) freeze(ctx context.Context, err error) error {
	d.m.Drop()
	var div *session.Divergence
	switch {
	case errors.Is(err, session.ErrNewer):
		d.broken = unavailable(err)
		d.e.ails(d.key, "step", err)
		return d.broken
	case !errors.As(err, &div):
		return unavailable(err)
	}
	d.quarantine(ctx, div)
	if d.broken != nil {
		return d.broken
	}
	return d.isFrozen()
}

// isFrozen refuses what a quarantined session does not take.
func (d *driver) isFrozen() error {
	q := d.head.Quarantine
	return &session.Rejection{
		Code:    session.CodeQuarantined,
		Message: "the session is frozen at event " + uitoa(uint64(q.Seq)) + " (" + q.Code + "): it can be read, released, closed with force or deleted",
	}
}

// quarantine freezes the session: the head says why, and the log notes it.
func (d *driver) quarantine(ctx context.Context, div *session.Divergence) {
	d.e.d.Report(d.key, "quarantine", div)
	detail := blob.Cut(div.Detail, 200)
	head := d.head
	head.Quarantine = &Quarantine{Seq: div.Seq, Code: div.Code, Detail: detail}
	head.Drive.Status, head.DueAt = DriveIdle, 0
	m := d.meta
	m.Activity = "quarantined"
	err := d.note(ctx, head, &m, nil, &session.SessionQuarantined{Failed: div.Seq, Code: div.Code, Detail: detail})
	if err != nil {
		d.broken = unavailable(err)
		d.e.ails(d.key, "quarantine", err)
	}
	for _, f := range slices.Clone(d.flights) {
		d.land(f.claim)
	}
	d.wakeAt = 0
}

// note commits one event that is not the machine's: its state is not known.
func (d *driver) note(ctx context.Context, head Head, m *Meta, rows []Row, ev session.Event) error {
	head.Rev++
	head.Write = d.writeID()
	head.Seq++
	head.At = max(d.e.Now(), head.At)
	data, err := wire.Encode(session.Entry{Seq: head.Seq, At: head.At, Event: ev})
	if err != nil {
		return err
	}
	c := Commit{Key: d.key, Expect: d.head.Rev, Head: head, Entries: []StoredEntry{{Seq: head.Seq, Data: data}}, Rows: rows, Meta: m}
	if err := d.send(ctx, c, sends); err != nil {
		return err
	}
	d.head, d.meta = head, *m
	d.watchers.tell(head.Seq)
	return nil
}

// frozen takes the two commands that a quarantined session knows.
func (d *driver) frozen(ctx context.Context, c session.Command) (Done, error) {
	switch c := c.(type) {
	case *session.ReleaseSession:
		return d.thaw(ctx, c)
	case *session.CloseSession:
		return d.closeFrozen(ctx, c)
	}
	return Done{}, d.isFrozen()
}

// thaw folds the log again, by this build's rules: if they understand it now
// the session goes on.
func (d *driver) thaw(ctx context.Context, c *session.ReleaseSession) (Done, error) {
	s, err := d.fold(ctx, session.State{}, d.head.Seq)
	var div *session.Divergence
	switch {
	case errors.As(err, &div) && !errors.Is(err, session.ErrNewer):
		return Done{}, &session.Rejection{Code: session.CodeQuarantined, Message: "this build still cannot fold the log: " + blob.Cut(div.Error(), 300)}
	case err != nil:
		return Done{}, unavailable(err)
	}
	frozen, before := d.head, d.m
	d.m = machine.New(s)
	d.head.Quarantine, d.head.Failures = nil, 0
	if _, err = d.decide(ctx, &choice{commands: []session.Command{c}, person: true}); err != nil {
		if d.head.Rev == frozen.Rev && d.unsure == nil {
			d.head, d.m = frozen, before
		}
		return Done{}, err
	}
	// What was in flight when it froze has nobody who performs it.
	d.resume(ctx)
	return d.done([]session.Reply{{}}), nil
}

// closeFrozen ends a session whose state is not known: its runs are closed in
// their rows, nothing of them waits for a person any more, and the log says
// that it was by force.
func (d *driver) closeFrozen(ctx context.Context, c *session.CloseSession) (Done, error) {
	if d.head.Status == StatusClosed {
		return d.done([]session.Reply{{Same: true}}), nil
	}
	head := d.head
	head.Status = StatusClosed
	who := session.Who{By: c.Actor.ID, Via: c.Via}
	now := max(d.e.Now(), head.At)
	rows, err := d.closedRows(ctx, func(r *RunRecord) {
		r.Status, r.CompletedAt, r.LastSeq, r.CancelledBy = session.RunStopped, now, head.Seq+1, who.By
	})
	if err != nil {
		return Done{}, unavailable(err)
	}
	m := d.meta
	m.Status, m.ClosedAt, m.UpdatedAt = StatusClosed, now, now
	if err := d.note(ctx, head, &m, rows, &session.SessionClosed{Force: true, Who: who}); err != nil {
		return Done{}, unavailable(err)
	}
	return d.done([]session.Reply{{}}), nil
}

// closedRows are the rows of what is open, closed.
func (d *driver) closedRows(ctx context.Context, end func(*RunRecord)) ([]Row, error) {
	const page = 100
	var out []Row
	put := func(key string, doc any) error {
		data, err := json.Marshal(doc)
		out = append(out, Row{Key: key, Data: data})
		return err
	}
	for after := ""; ; {
		runs, err := d.e.d.Log.Rows(ctx, d.key, "run#", after, true, page)
		if err != nil {
			return nil, err
		}
		for _, r := range runs {
			after = r.Key
			var rec RunRecord
			if json.Unmarshal(r.Data, &rec) != nil || rec.CompletedAt != 0 {
				continue
			}
			end(&rec)
			if err := put(r.Key, rec); err != nil {
				return nil, err
			}
			if err := d.closedTodos(ctx, r.Key[len("run#"):]+"#", put); err != nil {
				return nil, err
			}
		}
		if len(runs) < page {
			return out, nil
		}
	}
}

// closedTodos takes what a run asked of people off their list.
func (d *driver) closedTodos(ctx context.Context, run string, put func(string, any) error) error {
	for _, prefix := range []string{"apr#", "qst#"} {
		rows, err := d.e.d.Log.Rows(ctx, d.key, prefix+run, "", true, runRows)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if r.Todo == 0 {
				continue
			}
			var rec any
			if prefix == "apr#" {
				var a ApprovalRecord
				err = json.Unmarshal(r.Data, &a)
				a.Status, rec = session.Cancelled, &a
			} else {
				var q QuestionRecord
				err = json.Unmarshal(r.Data, &q)
				q.Status, rec = session.Cancelled, &q
			}
			if err == nil {
				err = put(r.Key, rec)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
