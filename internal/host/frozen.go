package host

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/perdure/perdure/core/machine"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
)

// frozen takes the two commands that a quarantined session knows.
func (d *driver) frozen(ctx context.Context, c session.Command) (Done, error) {
	switch c := c.(type) {
	case *session.ReleaseSession:
		return d.thaw(ctx, c)
	case *session.CloseSession:
		return d.closeFrozen(ctx, c)
	}
	return Done{}, d.mayCommand([]Prepared{{Command: &session.Wake{}}})
}

// thaw folds the log again, by this build's rules: if they understand it now
// the session goes on.
func (d *driver) thaw(ctx context.Context, c *session.ReleaseSession) (Done, error) {
	d.ckpt, d.tail = 0, 0
	s, err := d.fold(ctx, session.State{}, d.head.Seq)
	var div *session.Divergence
	switch {
	case errors.As(err, &div) && !errors.Is(err, session.ErrNewer):
		return Done{}, &session.Rejection{Code: session.CodeQuarantined, Message: "this build still cannot fold the log: " + div.Error()}
	case err != nil:
		return Done{}, errors.Join(ErrUnavailable, err)
	}
	frozen := d.head
	d.m = machine.New(s)
	d.head.Quarantine = nil
	inputs := []session.Command{c, &session.Resume{}}
	_, err = d.decide(ctx, inputs, nil, func(context.Context) error { return nil })
	if err != nil {
		if d.head.Quarantine == nil && d.head.Rev == frozen.Rev {
			d.head = frozen
		}
		return Done{}, err
	}
	return d.done([]session.Reply{{}}), nil
}

// closeFrozen ends a session whose state is not known: its runs are closed in
// their rows, and the log says that it was by force.
func (d *driver) closeFrozen(ctx context.Context, c *session.CloseSession) (Done, error) {
	if d.head.Status == StatusClosed {
		return d.done([]session.Reply{{Same: true}}), nil
	}
	head := d.head
	head.Rev++
	head.Write = d.writeID()
	head.Seq++
	head.At = max(d.e.Now(), head.At)
	head.Status = StatusClosed
	who := session.Who{By: c.Actor.ID, Via: c.Via}
	en := session.Entry{Seq: head.Seq, At: head.At, Event: &session.SessionClosed{Force: true, Who: who}}
	data, err := wire.Encode(en)
	if err != nil {
		return Done{}, err
	}
	m := d.meta
	m.Status, m.ClosedAt, m.UpdatedAt = StatusClosed, head.At, head.At
	cm := Commit{Key: d.key, Expect: d.head.Rev, Head: head, Entries: []StoredEntry{{Seq: en.Seq, Data: data}}, Meta: &m}
	runs, err := d.e.d.Log.Rows(ctx, d.key, "run#", "", true, session.QueueMax+1)
	if err != nil {
		return Done{}, errors.Join(ErrUnavailable, err)
	}
	for _, r := range runs {
		var rec RunRecord
		if json.Unmarshal(r.Data, &rec) != nil || rec.CompletedAt != 0 {
			continue
		}
		rec.Status, rec.CompletedAt, rec.LastSeq, rec.CancelledBy = session.RunStopped, head.At, head.Seq, who.By
		doc, err := json.Marshal(rec)
		if err != nil {
			return Done{}, err
		}
		cm.Rows = append(cm.Rows, Row{Key: r.Key, Data: doc})
	}
	if err := d.send(ctx, cm); err != nil {
		return Done{}, errors.Join(ErrUnavailable, err)
	}
	d.head, d.meta = head, m
	d.tellWatchers()
	return d.done([]session.Reply{{}}), nil
}
