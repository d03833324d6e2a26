package host

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
)

// RunRow reads a run's row, which has who asked for it from its acceptance on.
// Its status lags behind the state of an active run.
func (e *Engine) RunRow(ctx context.Context, key Key, id ident.RunID) (RunRecord, error) {
	var rec RunRecord
	row, err := e.d.Log.Row(ctx, key, rowRun(id))
	if err == nil {
		err = json.Unmarshal(row.Data, &rec)
	}
	if errors.Is(err, ErrNotFound) {
		return rec, &session.Rejection{Code: session.CodeNotFound, Message: "there is no " + id.String() + " in this session"}
	}
	if err != nil {
		return rec, errors.Join(ErrUnavailable, err)
	}
	return rec, nil
}

// Question reads a question's row.
func (e *Engine) Question(ctx context.Context, key Key, run ident.RunID, id ident.QuestionID) (QuestionRecord, error) {
	var rec QuestionRecord
	row, err := e.d.Log.Row(ctx, key, rowQuestion(run, id))
	if err == nil {
		err = json.Unmarshal(row.Data, &rec)
	}
	if errors.Is(err, ErrNotFound) {
		return rec, &session.Rejection{Code: session.CodeNotFound, Message: "there is no " + id.String() + " in this run"}
	}
	if err != nil {
		return rec, errors.Join(ErrUnavailable, err)
	}
	return rec, nil
}

// Promise finds a promise: in state, else its row.
func (e *Engine) Promise(ctx context.Context, key Key, d *Done, id ident.PromiseID) (session.Promise, error) {
	if p := d.State.Promise(id); p != nil {
		return *p, nil
	}
	var p session.Promise
	row, err := e.d.Log.Row(ctx, key, rowPromise(id))
	if err == nil {
		err = json.Unmarshal(row.Data, &p)
	}
	if errors.Is(err, ErrNotFound) {
		return p, &session.Rejection{Code: session.CodeNotFound, Message: "there is no " + id.String() + " in this session"}
	}
	if err != nil {
		return p, errors.Join(ErrUnavailable, err)
	}
	return p, nil
}

// HasBlob says whether a session has content under a reference, and its size.
func (e *Engine) HasBlob(ctx context.Context, key Key, ref blob.Ref) (size int64, found bool, err error) {
	data, err := e.d.Blobs.GetBlob(ctx, key, ref)
	if errors.Is(err, ErrNotFound) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, errors.Join(ErrUnavailable, err)
	}
	return int64(len(data)), true, nil
}

// CheckModel says whether a tenant has the provider that a config names.
func (e *Engine) CheckModel(ctx context.Context, tenant ident.TenantID, m session.Model) error {
	_, err := e.d.Models.Model(ctx, tenant, m)
	var rej *session.Rejection
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNotFound):
		return &session.Rejection{Code: session.CodeValidation, Message: "config.model.provider is none of this tenant's providers"}
	case errors.As(err, &rej):
		return rej
	}
	return errors.Join(ErrUnavailable, err)
}

// ScreenEdit judges arguments that a person would put in the place of a
// pending call's: problem is empty when they fit. It is asked before the
// decision is admitted, and again when the call runs.
func (e *Engine) ScreenEdit(ctx context.Context, key Key, d *Done, id ident.ApprovalID, arguments string) (problem string, control *session.Control) {
	r := d.State.Active
	if r == nil || r.Batch == nil {
		return "", nil // nothing is pending: admission says so
	}
	for _, a := range r.Approvals {
		if a.ID != id || a.Call < 1 || a.Call > len(r.Batch.Calls) {
			continue
		}
		c := &r.Batch.Calls[a.Call-1]
		s := e.d.Tools.Screen(ctx, key, r.Actor, d.State.Toolset.Tools, c.WireName, arguments)
		if s.Verdict == session.VerdictOK {
			return "", s.Control
		}
		if s.Problem == "" {
			return s.Verdict, nil
		}
		return s.Problem, nil
	}
	return "", nil
}

// PromiseInput returns the arguments of the call that a promise belongs to: as
// a person edited them, if one did.
func (e *Engine) PromiseInput(ctx context.Context, key Key, d *Done, p session.Promise) (blob.Payload, error) {
	if r := d.State.Active; r != nil && r.Batch != nil && r.Batch.Turn == p.Turn && p.Call >= 1 && p.Call <= len(r.Batch.Calls) {
		c := &r.Batch.Calls[p.Call-1]
		if !c.Edited.IsZero() {
			return c.Edited, nil
		}
		return c.Arguments, nil
	}
	return e.argumentsFromLog(ctx, key, d.Head.Seq, ident.CallID{Turn: p.Turn, Index: p.Call})
}

// argumentsFromLog looks a call up in the whole log: a promise may outlive its
// run, and then no row says where its call stands.
func (e *Engine) argumentsFromLog(ctx context.Context, key Key, upTo ident.Seq, id ident.CallID) (blob.Payload, error) {
	var out blob.Payload
	var approval ident.ApprovalID
	found := false
	for seq := ident.Seq(0); seq < upTo; {
		page, err := e.d.Log.Read(ctx, key, seq, upTo, pageEvents, pageBytes)
		if err != nil {
			return out, errors.Join(ErrUnavailable, err)
		}
		if len(page) == 0 {
			break
		}
		for _, st := range page {
			seq = st.Seq
			en, err := wire.Decode(st.Data)
			if err != nil {
				return out, errors.Join(ErrUnavailable, err)
			}
			switch ev := en.Event.(type) {
			case *session.ToolCalled:
				if ev.Turn == id.Turn && ev.Call == id.Index {
					out, found = ev.Arguments, true
				}
			case *session.ApprovalRequested:
				if ev.Turn == id.Turn && ev.Call == id.Index {
					approval = ev.Approval
				}
			case *session.ApprovalDecided:
				if ev.Approval == approval && !ev.Edited.IsZero() {
					out = ev.Edited
				}
			case *session.PromiseCreated:
				if ev.Turn == id.Turn && ev.Call == id.Index {
					return out, nil // nothing changes a call's arguments after it has started
				}
			}
		}
	}
	if !found {
		return out, &session.Rejection{Code: session.CodeNotFound, Message: "the call of this promise is not in the log"}
	}
	return out, nil
}
