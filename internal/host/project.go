package host

import (
	"encoding/json"
	"fmt"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
)

// Keys of rows. Numbers have 12 digits, so that keys sort as numbers do; an
// approval, a question and a steer stand under their run.
func rowSub(id ident.SubmissionID) string { return "sub#" + string(id) }
func rowRun(id ident.RunID) string        { return fmt.Sprintf("run#%012d", uint64(id)) }
func rowPromise(id ident.PromiseID) string {
	return fmt.Sprintf("prm#%012d", uint64(id))
}

func rowApproval(run ident.RunID, id ident.ApprovalID) string {
	return fmt.Sprintf("apr#%012d#%012d", uint64(run), uint64(id))
}

// rowApprovalRun says which run an approval is of.
func rowApprovalRun(id ident.ApprovalID) string { return fmt.Sprintf("apx#%012d", uint64(id)) }

func rowQuestion(run ident.RunID, id ident.QuestionID) string {
	return fmt.Sprintf("qst#%012d#%012d", uint64(run), uint64(id))
}

func rowSteer(run ident.RunID, id ident.SteeringID) string {
	return fmt.Sprintf("str#%012d#%012d", uint64(run), uint64(id))
}

// RunRecord is a run as its row and the API know it.
type RunRecord struct {
	ID          ident.RunID        `json:"id"`
	Status      string             `json:"status"`
	Mode        string             `json:"mode,omitempty"`
	Input       []session.Part     `json:"input"`
	Output      blob.Payload       `json:"output,omitzero"`
	Failure     *session.Failure   `json:"failure,omitempty"`
	Submission  ident.SubmissionID `json:"submission,omitempty"`
	FirstSeq    ident.Seq          `json:"firstSeq"`
	LastSeq     ident.Seq          `json:"lastSeq,omitempty"`
	AcceptedAt  ident.Instant      `json:"acceptedAt"`
	StartedAt   ident.Instant      `json:"startedAt,omitempty"`
	CompletedAt ident.Instant      `json:"completedAt,omitempty"`
	Actor       session.Actor      `json:"actor"`
	Via         string             `json:"via,omitempty"`
	CancelledBy string             `json:"cancelledBy,omitempty"`
	Usage       session.RunUsage   `json:"usage,omitzero"`
}

// ApprovalRecord is an approval as its row and the API know it.
type ApprovalRecord struct {
	ID          ident.ApprovalID `json:"id"`
	Run         ident.RunID      `json:"run"`
	Call        ident.CallID     `json:"call"`
	Tool        string           `json:"tool"`
	Why         string           `json:"why"`
	Arguments   blob.Payload     `json:"arguments,omitzero"`
	Edited      blob.Payload     `json:"edited,omitzero"`
	Status      string           `json:"status"`
	RequestedAt ident.Instant    `json:"requestedAt"`
	ExpiresAt   ident.Instant    `json:"expiresAt,omitempty"`
	DecidedAt   ident.Instant    `json:"decidedAt,omitempty"`
	Role        string           `json:"role,omitempty"`
	By          string           `json:"by,omitempty"`
	Via         string           `json:"via,omitempty"`
	Decided     string           `json:"decided,omitempty"`
	Note        string           `json:"note,omitempty"`
	Remember    bool             `json:"remember,omitempty"`
}

// QuestionRecord is a question as its row and the API know it.
type QuestionRecord struct {
	ID          ident.QuestionID       `json:"id"`
	Run         ident.RunID            `json:"run"`
	Call        ident.CallID           `json:"call,omitzero"`
	Source      string                 `json:"source"`
	Items       []session.QuestionItem `json:"items"`
	Status      string                 `json:"status"`
	RequestedAt ident.Instant          `json:"requestedAt"`
	ExpiresAt   ident.Instant          `json:"expiresAt,omitempty"`
	SettledAt   ident.Instant          `json:"settledAt,omitempty"`
	Answers     []session.Answer       `json:"answers,omitempty"`
	By          string                 `json:"by,omitempty"`
	Via         string                 `json:"via,omitempty"`
}

// SteerRecord is a steer as its row and the API know it.
type SteerRecord struct {
	ID     ident.SteeringID `json:"id"`
	Run    ident.RunID      `json:"run"`
	Text   []session.Part   `json:"text"`
	Status string           `json:"status"`
	Turn   ident.TurnID     `json:"turn,omitempty"`
	Next   ident.RunID      `json:"next,omitempty"`
	At     ident.Instant    `json:"at"`
}

// Steer statuses.
const (
	SteerPending     = "pending"
	SteerDelivered   = "delivered"
	SteerRequeued    = "requeued"
	SteerUndelivered = "undelivered"
)

// projector turns the entries of a step into the rows that its commit writes.
type projector struct {
	blobs    []Blob // of the commit
	rows     []Row
	list     bool // the listing document changes
	touch    bool // and with it updatedAt
	progress bool // an effect's result, or the end of a run
	title    string
	err      error // the first; the step is then not committed
}

func (p *projector) put(key string, todo ident.Instant, doc any) {
	data, err := json.Marshal(doc)
	if err != nil {
		p.err = fmt.Errorf("row %s: %w", key, err)
		return
	}
	for i := range p.rows {
		if p.rows[i].Key == key {
			p.rows[i].Data, p.rows[i].Todo = data, todo
			return
		}
	}
	p.rows = append(p.rows, Row{Key: key, Data: data, Todo: todo})
}

func (p *projector) submission(s session.Submission, run ident.RunID, steer ident.SteeringID) {
	if s.IsZero() {
		return
	}
	p.put(rowSub(s.ID), 0, session.Prior{Digest: s.Digest, Run: run, Steering: steer})
	for i := range p.rows {
		if p.rows[i].Key == rowSub(s.ID) {
			p.rows[i].IfAbsent = true
		}
	}
}

// observe is told of each entry of a step with the state before and after.
func (p *projector) observe(before *session.State, en session.Entry, after *session.State) {
	switch e := en.Event.(type) {
	case *session.SessionOpened, *session.SessionClosed:
		p.list, p.touch = true, true
	case *session.RunAccepted:
		p.accepted(e, after)
	case *session.RunStarted, *session.RunWaiting, *session.RunResumed, *session.RunCancelRequested,
		*session.CompactionStarted, *session.CompactionFailed, *session.SessionReleased:
		p.list = true
		if c, ok := e.(*session.RunCancelRequested); ok {
			p.submission(c.Submission, c.Run, 0)
		}
	case *session.RunSteered:
		p.submission(e.Submission, e.Run, e.Steering)
		p.put(rowSteer(e.Run, e.Steering), 0, SteerRecord{ID: e.Steering, Run: e.Run, Text: e.Text, Status: SteerPending, At: en.At})
	case *session.RunSteerDelivered:
		p.steer(before, e.Run, e.Steering, SteerDelivered, e.Turn, 0)
	case *session.RunSteerRequeued:
		p.steer(before, e.Run, e.Steering, SteerRequeued, 0, e.Next)
	case *session.RunSteerUndelivered:
		p.steer(before, e.Run, e.Steering, SteerUndelivered, 0, 0)
	case *session.RunCompleted:
		p.ended(before, en, e.Run, session.RunDone, e.Output, nil, "")
	case *session.RunFailed:
		p.ended(before, en, e.Run, session.RunFails, e.Output, &e.Failure, "")
	case *session.RunCancelled:
		p.submission(e.Submission, e.Run, 0)
		p.ended(before, en, e.Run, session.RunStopped, e.Output, nil, e.By)
	case *session.TurnCompleted, *session.ToolCompleted, *session.ContextCut:
		p.progress = true
	default:
		p.observeWaits(before, en, after)
	}
}

// observeWaits projects what a person or the outside answers.
func (p *projector) observeWaits(before *session.State, en session.Entry, after *session.State) {
	switch e := en.Event.(type) {
	case *session.ApprovalRequested:
		p.approval(after, e.Approval, en.At, nil)
	case *session.ApprovalDecided:
		p.submission(e.Submission, e.Run, 0)
		p.approval(after, e.Approval, 0, e)
	case *session.QuestionAsked:
		p.put(rowQuestion(e.Run, e.Question), en.At, QuestionRecord{
			ID: e.Question, Run: e.Run, Call: ident.CallID{Turn: e.Turn, Index: e.Call}, Source: e.Source, Items: e.Items,
			Status: session.Pending, RequestedAt: en.At, ExpiresAt: e.ExpiresAt,
		})
	case *session.QuestionAnswered:
		p.submission(e.Submission, e.Run, 0)
		p.answered(before, en, e)
	case *session.PromiseCreated, *session.PromiseDetached:
		p.promise(after, e)
	case *session.PromiseSettled:
		if pr := before.Promise(e.Promise); pr != nil {
			pr.Status, pr.Value, pr.Error = e.Status, e.Value, e.Error
			p.put(rowPromise(e.Promise), 0, *pr)
		}
	case *session.CommandDead:
		p.dead(e)
	}
}

func (p *projector) promise(after *session.State, ev session.Event) {
	var id ident.PromiseID
	switch e := ev.(type) {
	case *session.PromiseCreated:
		id = e.Promise
	case *session.PromiseDetached:
		id = e.Promise
	}
	if pr := after.Promise(id); pr != nil {
		p.put(rowPromise(id), 0, *pr)
	}
}

func (p *projector) accepted(e *session.RunAccepted, after *session.State) {
	p.list, p.touch = true, true
	p.submission(e.Submission, e.Run, 0)
	if e.Run == 1 && len(e.Input) > 0 {
		p.title = blob.Cut(p.textOf(e.Input[0].Text), titleMax)
	}
	for _, r := range after.Queue {
		if r.ID == e.Run {
			p.put(rowRun(e.Run), 0, recordOf(r))
		}
	}
}

// titleMax is how many bytes of a session's first input its listing keeps; a
// title is cut from them between graphemes.
const titleMax = 1 << 10

// textOf is an input's text; a long one is a blob of the same commit.
func (p *projector) textOf(t blob.Payload) string {
	for _, b := range p.blobs {
		if b.Ref == t.Ref {
			return string(b.Data)
		}
	}
	return t.Text
}

func recordOf(r *session.Run) RunRecord {
	rec := RunRecord{
		ID: r.ID, Status: r.RunStatus(), Mode: r.Mode, Input: r.Input, Output: r.Output, Submission: r.Submission.ID,
		FirstSeq: r.FirstSeq, AcceptedAt: r.AcceptedAt, StartedAt: r.StartedAt, Actor: r.Actor, Via: r.Via, Usage: r.Usage,
	}
	if r.Ending != nil && r.Ending.Failure == nil {
		rec.CancelledBy = r.Ending.By
	}
	return rec
}

func (p *projector) ended(before *session.State, en session.Entry, id ident.RunID, status string, out blob.Payload, f *session.Failure, by string) {
	p.list, p.touch, p.progress = true, true, true
	r := before.Active
	if r == nil || r.ID != id {
		for _, q := range before.Queue {
			if q.ID == id {
				r = q
			}
		}
	}
	rec := recordOf(r)
	rec.Status, rec.Output, rec.Failure, rec.CompletedAt, rec.LastSeq, rec.CancelledBy = status, out, f, en.At, en.Seq, by
	p.put(rowRun(id), 0, rec)
}

func (p *projector) steer(before *session.State, run ident.RunID, id ident.SteeringID, status string, turn ident.TurnID, next ident.RunID) {
	for _, st := range before.Active.Steers {
		if st.ID == id {
			p.put(rowSteer(run, id), 0, SteerRecord{ID: id, Run: run, Text: st.Text, Status: status, Turn: turn, Next: next, At: st.At})
		}
	}
}

// approval writes an approval's row: on the list of what waits for a person
// while it is pending.
func (p *projector) approval(after *session.State, id ident.ApprovalID, todo ident.Instant, dec *session.ApprovalDecided) {
	rec, ok := approvalOf(after, id)
	if !ok {
		return
	}
	if dec != nil {
		rec.Via, rec.Decided, rec.Edited = dec.Via, dec.Decided, dec.Edited
	}
	p.put(rowApproval(rec.Run, id), todo, rec)
	if dec == nil {
		p.put(rowApprovalRun(id), 0, rec.Run)
	}
}

func approvalOf(s *session.State, id ident.ApprovalID) (ApprovalRecord, bool) {
	r := s.Active
	if r == nil || r.Batch == nil {
		return ApprovalRecord{}, false
	}
	for _, a := range r.Approvals {
		if a.ID != id {
			continue
		}
		c := r.Batch.Calls[a.Call-1]
		return ApprovalRecord{
			ID: id, Run: r.ID, Call: ident.CallID{Turn: r.Batch.Turn, Index: a.Call}, Tool: c.Tool, Why: a.Why, Arguments: c.Arguments,
			Status: a.Status, RequestedAt: a.At, ExpiresAt: a.ExpiresAt, DecidedAt: a.DecidedAt, Role: a.Role, By: a.By, Note: a.Note,
			Remember: a.Remember,
		}, true
	}
	return ApprovalRecord{}, false
}

func (p *projector) answered(before *session.State, en session.Entry, e *session.QuestionAnswered) {
	for _, q := range before.Active.Questions {
		if q.ID != e.Question {
			continue
		}
		rec := QuestionRecord{
			ID: q.ID, Run: e.Run, Source: q.Source, Items: q.Items, Status: e.Status, RequestedAt: q.At, ExpiresAt: q.ExpiresAt,
			SettledAt: en.At, Answers: e.Answers, By: e.By, Via: e.Via,
		}
		if q.Call != 0 {
			rec.Call = ident.CallID{Turn: before.Active.Batch.Turn, Index: q.Call}
		}
		p.put(rowQuestion(e.Run, q.ID), 0, rec)
	}
}

// apply brings the listing document up to date.
func (p *projector) apply(m *Meta, s *session.State) {
	m.Status, m.Activity, m.ClosedAt = s.Status, s.Activity(), s.ClosedAt
	m.CreatedAt, m.Model = s.OpenedAt, s.Config.Model.Model
	if m.Title == "" {
		m.Title = p.title
	}
	if p.touch {
		m.UpdatedAt = s.At
	}
}
