package host

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
)

// WaitingOn is one thing that a run waits for.
type WaitingOn struct {
	Kind  string
	ID    string
	Since ident.Instant
	Until ident.Instant
}

// RunView is a run with what belongs to it.
type RunView struct {
	RunRecord
	WaitingOn []WaitingOn
	Approvals []ApprovalRecord
	Questions []QuestionRecord
	Steering  []SteerRecord
}

// rowsOf decodes all rows under a prefix, in order of keys, at most limit.
func rowsOf[T any](ctx context.Context, e *Engine, key Key, prefix string, limit int) ([]T, error) {
	rows, err := e.d.Log.Rows(ctx, key, prefix, "", false, limit)
	if err != nil {
		return nil, err
	}
	out := make([]T, len(rows))
	for i, r := range rows {
		if err := json.Unmarshal(r.Data, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// runRows bounds what one run view lists of each kind.
const runRows = 200

// Run returns a run: from state while it is queued or active, else its row.
func (e *Engine) Run(ctx context.Context, key Key, id ident.RunID) (RunView, error) {
	d, err := e.View(ctx, key)
	if err != nil {
		return RunView{}, err
	}
	return e.RunOf(ctx, key, d, id)
}

// RunOf is Run on a view at hand.
func (e *Engine) RunOf(ctx context.Context, key Key, d Done, id ident.RunID) (RunView, error) {
	s := &d.State
	var v RunView
	if rec := liveRun(&d, id); rec != nil {
		v.RunRecord = *rec
		if s.Active != nil && s.Active.ID == id {
			v.WaitingOn = waitingOn(&d)
		}
	} else {
		row, err := e.d.Log.Row(ctx, key, rowRun(id))
		if errors.Is(err, ErrNotFound) {
			return v, &session.Rejection{Code: session.CodeNotFound, Message: "there is no " + id.String() + " in this session"}
		}
		if err == nil {
			err = json.Unmarshal(row.Data, &v.RunRecord)
		}
		if err != nil {
			return v, errors.Join(ErrUnavailable, err)
		}
	}
	var err error
	run := rowRun(id)[len("run#"):] + "#"
	if v.Approvals, err = rowsOf[ApprovalRecord](ctx, e, key, "apr#"+run, runRows); err != nil {
		return v, errors.Join(ErrUnavailable, err)
	}
	if v.Questions, err = rowsOf[QuestionRecord](ctx, e, key, "qst#"+run, runRows); err != nil {
		return v, errors.Join(ErrUnavailable, err)
	}
	if v.Steering, err = rowsOf[SteerRecord](ctx, e, key, "str#"+run, runRows); err != nil {
		return v, errors.Join(ErrUnavailable, err)
	}
	return v, nil
}

// LiveRuns returns the active run, or nil, and the queued ones, from state. A run
// that waits for nothing any more goes on as soon as a driver has it: to who
// looks it runs.
func LiveRuns(d *Done) (active *RunRecord, queued []RunRecord) {
	s := &d.State
	if s.Active != nil {
		rec := recordOf(s.Active)
		if rec.Status == session.RunWaits && len(waitingOn(d)) == 0 {
			rec.Status = session.RunRunning
		}
		active = &rec
	}
	for _, q := range s.Queue {
		queued = append(queued, recordOf(q))
	}
	return active, queued
}

// Activity is what the session is doing, by the same rule.
func (d *Done) Activity() string {
	a := d.State.Activity()
	if a == session.RunWaits && len(waitingOn(d)) == 0 {
		return session.RunRunning
	}
	return a
}

func liveRun(d *Done, id ident.RunID) *RunRecord {
	active, queued := LiveRuns(d)
	if active != nil && active.ID == id {
		return active
	}
	for i := range queued {
		if queued[i].ID == id {
			return &queued[i]
		}
	}
	return nil
}

// waitingOn names each thing that the active run waits for.
func waitingOn(d *Done) []WaitingOn {
	s, r := &d.State, d.State.Active
	if r.RunStatus() != session.RunWaits {
		return nil
	}
	var out []WaitingOn
	for _, a := range r.Approvals {
		if a.Status == session.Pending {
			out = append(out, WaitingOn{"approval", a.ID.String(), a.At, a.ExpiresAt})
		}
	}
	for _, q := range r.Questions {
		out = append(out, WaitingOn{"question", q.ID.String(), q.At, q.ExpiresAt})
	}
	if r.Turn.Status == session.TurnRetrying {
		out = append(out, WaitingOn{"retry", r.Turn.ID.String(), r.Turn.At, r.Turn.RetryAt})
	}
	if r.Batch == nil {
		return out
	}
	kinds := map[string]string{session.SourceTimer: "timer", session.SourceOutside: "promise", session.SourceSession: "child"}
	for i := range r.Batch.Calls {
		c := &r.Batch.Calls[i]
		id := ident.CallID{Turn: r.Batch.Turn, Index: c.Index}
		switch {
		case c.Status == session.CallWaiting && c.Promise != 0:
			if p := s.Promise(c.Promise); p != nil {
				out = append(out, WaitingOn{kinds[p.Source], p.ID.String(), p.At, p.Deadline})
			}
		case c.Status == session.CallWaiting && c.Control != nil:
			for _, pid := range c.Control.Promises {
				if p := s.Promise(pid); p != nil && p.Status == session.Pending {
					out = append(out, WaitingOn{"promise", pid.String(), c.StartedAt, c.AwaitUntil})
				}
			}
		case c.Status == session.CallCalled && c.Attempt > 0:
			out = append(out, WaitingOn{"retry", id.String(), r.Wait.Since, c.NotBefore})
		case c.Status == session.CallCalled && s.Ready(c) && d.Head.Drive.Status == DriveParked:
			// A driver has looked, and could not start it.
			out = append(out, WaitingOn{"tool", id.String(), r.Wait.Since, 0})
		}
	}
	return out
}

// Runs lists runs, newest first, below before (0: from the newest).
func (e *Engine) Runs(ctx context.Context, key Key, before ident.RunID, limit int) ([]RunRecord, error) {
	d, err := e.View(ctx, key)
	if err != nil {
		return nil, err
	}
	after := ""
	if before != 0 {
		after = rowRun(before)
	}
	rows, err := e.d.Log.Rows(ctx, key, "run#", after, true, limit)
	if err != nil {
		return nil, errors.Join(ErrUnavailable, err)
	}
	out := make([]RunRecord, len(rows))
	for i, r := range rows {
		if err := json.Unmarshal(r.Data, &out[i]); err != nil {
			return nil, errors.Join(ErrUnavailable, err)
		}
		if live := liveRun(&d, out[i].ID); live != nil {
			out[i] = *live
		}
	}
	return out, nil
}

// Promises lists a session's promises by id, after one.
func (e *Engine) Promises(ctx context.Context, key Key, after ident.PromiseID, limit int) ([]session.Promise, error) {
	if _, err := e.View(ctx, key); err != nil {
		return nil, err
	}
	from := ""
	if after != 0 {
		from = rowPromise(after)
	}
	rows, err := e.d.Log.Rows(ctx, key, "prm#", from, false, limit)
	if err != nil {
		return nil, errors.Join(ErrUnavailable, err)
	}
	out := make([]session.Promise, len(rows))
	for i, r := range rows {
		if err := json.Unmarshal(r.Data, &out[i]); err != nil {
			return nil, errors.Join(ErrUnavailable, err)
		}
	}
	return out, nil
}

// Todo is something that waits for a person, in one of a tenant's sessions.
type Todo struct {
	Session  ident.SessionID
	Row      TodoRow
	Approval *ApprovalRecord
	Question *QuestionRecord
}

// TodoList returns pending approvals (kind apr) or questions (kind qst) of a
// tenant, oldest first.
func (e *Engine) TodoList(ctx context.Context, tenant ident.TenantID, kind string, after *TodoRow, limit int) ([]Todo, error) {
	rows, err := e.d.Log.Todo(ctx, tenant, kind+"#", after, limit)
	if err != nil {
		return nil, errors.Join(ErrUnavailable, err)
	}
	out := make([]Todo, 0, len(rows))
	for _, r := range rows {
		t := Todo{Session: r.Session, Row: r}
		if kind == "apr" {
			t.Approval = new(ApprovalRecord)
			err = json.Unmarshal(r.Row.Data, t.Approval)
		} else {
			t.Question = new(QuestionRecord)
			err = json.Unmarshal(r.Row.Data, t.Question)
		}
		if err != nil {
			return nil, errors.Join(ErrUnavailable, err)
		}
		out = append(out, t)
	}
	return out, nil
}

// Sessions lists a tenant's sessions, newest update first.
func (e *Engine) Sessions(ctx context.Context, q ListQuery) ([]Listed, error) {
	l, err := e.d.Log.List(ctx, q)
	if err != nil {
		return nil, errors.Join(ErrUnavailable, err)
	}
	return l, nil
}

// CallView is a tool call as the API knows it, from the run's events.
type CallView struct {
	ID          ident.CallID
	Run         ident.RunID
	Called      *session.ToolCalled
	Approval    ident.ApprovalID
	Edited      *session.ApprovalDecided
	Promise     ident.PromiseID
	Question    ident.QuestionID
	Status      string
	Attempts    int
	StartedAt   ident.Instant
	CompletedAt ident.Instant
	Completed   *session.ToolCompleted
}

// Calls folds a run's events into its tool calls, in order.
func (e *Engine) Calls(ctx context.Context, key Key, id ident.RunID) ([]CallView, error) {
	v, err := e.Run(ctx, key, id)
	if err != nil {
		return nil, err
	}
	upTo := v.LastSeq
	if upTo == 0 {
		d, err := e.View(ctx, key)
		if err != nil {
			return nil, err
		}
		upTo = d.State.Seq
	}
	c := callFold{run: id, at: map[ident.CallID]int{}, byApproval: map[ident.ApprovalID]ident.CallID{}}
	for seq := v.FirstSeq - 1; seq < upTo; {
		page, err := e.d.Log.Read(ctx, key, seq, upTo, pageEvents, pageBytes)
		if err != nil {
			return nil, errors.Join(ErrUnavailable, err)
		}
		for _, st := range page {
			en, err := wire.Decode(st.Data)
			if err == nil {
				c.take(en)
			}
			seq = st.Seq
		}
		if len(page) == 0 {
			break
		}
	}
	return c.out, nil
}

type callFold struct {
	run        ident.RunID
	out        []CallView
	at         map[ident.CallID]int
	byApproval map[ident.ApprovalID]ident.CallID
}

func (c *callFold) find(run ident.RunID, turn ident.TurnID, index int) *CallView {
	i, ok := c.at[ident.CallID{Turn: turn, Index: index}]
	if run != c.run || !ok {
		return nil
	}
	return &c.out[i]
}

func (c *callFold) take(en session.Entry) {
	switch e := en.Event.(type) {
	case *session.ToolCalled:
		if e.Run == c.run {
			id := ident.CallID{Turn: e.Turn, Index: e.Call}
			c.at[id] = len(c.out)
			c.out = append(c.out, CallView{ID: id, Run: e.Run, Called: e, Status: session.CallWaiting})
		}
	case *session.ToolStarted:
		if v := c.find(e.Run, e.Turn, e.Call); v != nil {
			v.Attempts = e.Attempt
			v.Status = session.CallRunning
			if e.Reason == "accepted" || e.Reason == "later" {
				v.Status = session.CallWaiting
			}
			if v.StartedAt == 0 {
				v.StartedAt = en.At
			}
		}
	case *session.ToolCompleted:
		if v := c.find(e.Run, e.Turn, e.Call); v != nil {
			v.Status, v.Completed, v.CompletedAt = e.Status, e, en.At
		}
	case *session.ApprovalRequested:
		if v := c.find(e.Run, e.Turn, e.Call); v != nil {
			v.Approval = e.Approval
			c.byApproval[e.Approval] = v.ID
		}
	case *session.ApprovalDecided:
		if id, ok := c.byApproval[e.Approval]; ok && !e.Edited.IsZero() {
			c.out[c.at[id]].Edited = e
		}
	case *session.PromiseCreated:
		if v := c.find(e.Run, e.Turn, e.Call); v != nil {
			v.Promise = e.Promise
		}
	case *session.QuestionAsked:
		if v := c.find(e.Run, e.Turn, e.Call); v != nil {
			v.Question = e.Question
		}
	}
}
