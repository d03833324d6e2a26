package session

import (
	"slices"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
)

// Lifecycle of a session.
const (
	New    = ""
	Open   = "open"
	Closed = "closed"
)

// State is a session reduced to what decides its next step. It is bounded by
// the work in hand and the window, not by age: finished runs and submissions
// are rows beside the log.
//
// A State is copied by assignment and its copies share structure. Slices that
// grow with the window (Context.Entries) are append-only; everything else is
// small and copied before it is changed. So a copy taken before a step is
// still good after it, and a dropped step leaves no mark.
type State struct {
	Seq            ident.Seq     `json:"seq"`
	At             ident.Instant `json:"at"`
	Inc            string        `json:"inc"`
	Status         string        `json:"status"`
	OpenedAt       ident.Instant `json:"openedAt"`
	ClosedAt       ident.Instant `json:"closedAt,omitempty"`
	Config         Config        `json:"config"`
	ConfigRevision int64         `json:"configRevision"`
	Answered       bool          `json:"answered,omitempty"` // the model has answered once
	Cursors        Cursors       `json:"cursors"`
	Active         *Run          `json:"active,omitempty"`
	Queue          []*Run        `json:"queue,omitempty"` // a queued run is never changed
	Context        Context       `json:"context"`
	Toolset        Toolset       `json:"toolset"`
	Promises       []Promise     `json:"promises,omitempty"`
	Remembered     []Remembered  `json:"remembered,omitempty"`
	Totals         Totals        `json:"totals"`

	// gen numbers the step that owns this copy: what carries another number is
	// shared, and copied before it is changed.
	gen uint64
}

// Cursors are the last numeric ids given out.
type Cursors struct {
	Run      ident.RunID      `json:"run,omitempty"`
	Turn     ident.TurnID     `json:"turn,omitempty"`
	Steering ident.SteeringID `json:"steering,omitempty"`
	Approval ident.ApprovalID `json:"approval,omitempty"`
	Question ident.QuestionID `json:"question,omitempty"`
	Promise  ident.PromiseID  `json:"promise,omitempty"`
	Entry    ident.EntryID    `json:"entry,omitempty"`
}

// Totals count over the session's life.
type Totals struct {
	Usage      Usage `json:"usage"`
	Runs       int64 `json:"runs,omitempty"`
	ModelCalls int64 `json:"modelCalls,omitempty"`
	ToolCalls  int64 `json:"toolCalls,omitempty"`
}

// Run statuses, as clients see them.
const (
	RunQueued     = "queued"
	RunRunning    = "running"
	RunWaits      = "waiting"
	RunCancelling = "cancelling"
	RunDone       = "completed"
	RunFails      = "failed"
	RunStopped    = "cancelled"
)

// Run is one accepted request, queued or active.
type Run struct {
	ID         ident.RunID      `json:"id"`
	Mode       string           `json:"mode,omitempty"`
	Front      bool             `json:"front,omitempty"`
	Input      []Part           `json:"input"`
	Config     RunConfig        `json:"config,omitzero"`
	Submission Submission       `json:"submission,omitzero"`
	Steering   ident.SteeringID `json:"steering,omitempty"`
	Promise    ident.PromiseID  `json:"promise,omitempty"`
	Actor      Actor            `json:"actor"`
	Via        string           `json:"via,omitempty"`
	FirstSeq   ident.Seq        `json:"firstSeq"`
	AcceptedAt ident.Instant    `json:"acceptedAt"`
	StartedAt  ident.Instant    `json:"startedAt,omitempty"`

	// What follows is set while it is active.
	Model      Model         `json:"model,omitzero"`
	Limits     Limits        `json:"limits,omitzero"`
	FirstEntry ident.EntryID `json:"firstEntry,omitempty"`
	FirstTurn  ident.TurnID  `json:"firstTurn,omitempty"`
	Wait       Wait          `json:"wait,omitzero"`
	Ending     *Ending       `json:"ending,omitempty"`
	Steers     []Steer       `json:"steers,omitempty"` // not yet delivered
	Turn       Turn          `json:"turn,omitzero"`
	Batch      *Batch        `json:"batch,omitempty"`
	Staged     *ContextEntry `json:"staged,omitempty"` // the assistant message of an open turn
	Turns      int64         `json:"turns,omitempty"`
	Rounds     int64         `json:"rounds,omitempty"`
	Approvals  []Approval    `json:"approvals,omitempty"` // pending, and decided ones of the open batch
	Questions  []Question    `json:"questions,omitempty"` // pending
	Intake     string        `json:"intake,omitempty"`    // asked or done
	Repeats    []Repeat      `json:"repeats,omitempty"`
	BadTurns   int64         `json:"badTurns,omitempty"` // in a row, whose calls were all invalid
	Unknowns   []Repeat      `json:"unknowns,omitempty"`
	Closing    *Failure      `json:"closing,omitempty"` // what the closing turn ends the run with
	Noted      bool          `json:"noted,omitempty"`   // the closing turn's note is in the window
	CutTries   int64         `json:"cutTries,omitempty"`
	Output     blob.Payload  `json:"output,omitzero"`
	Usage      RunUsage      `json:"usage,omitzero"`

	gen uint64
}

// RunUsage counts over one run. Unreported counts calls whose usage is not
// known.
type RunUsage struct {
	Usage
	ModelCalls int64 `json:"modelCalls,omitempty"`
	ToolCalls  int64 `json:"toolCalls,omitempty"`
	Context    int64 `json:"context,omitempty"` // input tokens of the last call
	Unreported int64 `json:"unreported,omitempty"`
}

// Wait is the state of a run that waits, and how long it has waited for people.
type Wait struct {
	On       []string      `json:"on,omitempty"`
	Since    ident.Instant `json:"since,omitempty"`
	Person   bool          `json:"person,omitempty"`
	PersonMs int64         `json:"personMs,omitempty"` // finished spans
}

// Ending is a run asked to stop: cancelled, or failed for a limit.
type Ending struct {
	At      ident.Instant `json:"at"`
	Failure *Failure      `json:"failure,omitempty"`
	Force   bool          `json:"force,omitempty"`
	Who
}

// Steer is an instruction for the active run. Turn is set when a turn in
// flight carries it.
type Steer struct {
	ID   ident.SteeringID `json:"id"`
	Text []Part           `json:"text"`
	At   ident.Instant    `json:"at"`
	Turn ident.TurnID     `json:"turn,omitempty"`
	By   string           `json:"by,omitempty"`
	Via  string           `json:"via,omitempty"`
	// Roles are those of who steered: a run made of the steer has them.
	Roles []string `json:"roles,omitempty"`
}

// Turn statuses.
const (
	TurnNone     = ""
	TurnInFlight = "in_flight"
	TurnRetrying = "retrying"
	TurnDone     = "completed"
	TurnOver     = "over" // failed or cancelled
)

// Turn is one model call of a run, the newest.
type Turn struct {
	ID         ident.TurnID  `json:"id,omitempty"`
	Status     string        `json:"status,omitempty"`
	Attempt    int           `json:"attempt,omitempty"`
	Closing    bool          `json:"closing,omitempty"`
	Model      Model         `json:"model,omitzero"`
	Toolset    int64         `json:"toolset,omitempty"`
	Through    ident.EntryID `json:"through,omitempty"`
	Revision   int64         `json:"revision,omitempty"` // of the context
	Estimate   int64         `json:"estimate,omitempty"`
	Failures   int           `json:"failures,omitempty"`
	Interrupts int           `json:"interrupts,omitempty"`
	FirstAt    ident.Instant `json:"firstAt,omitempty"`
	At         ident.Instant `json:"at,omitempty"` // of the newest attempt, or of its end
	RetryAt    ident.Instant `json:"retryAt,omitempty"`
	Class      string        `json:"class,omitempty"`
	Message    string        `json:"message,omitempty"`
	Refused    *Failure      `json:"refused,omitempty"`
	Outcome    string        `json:"outcome,omitempty"`
	Finish     string        `json:"finish,omitempty"`
}

// Batch is the tool calls of one turn.
type Batch struct {
	Turn  ident.TurnID  `json:"turn"`
	At    ident.Instant `json:"at"` // when the calls were recorded, or the last of them ended
	Calls []Call        `json:"calls"`
	Open  int           `json:"open"` // calls without a result

	gen uint64
}

// Call statuses. The empty one is recorded and not started.
const (
	CallCalled      = ""
	CallRunning     = "running"
	CallWaiting     = "waiting"
	CallCompleted   = "completed"
	CallFailed      = "failed"
	CallRejected    = "rejected"
	CallExpired     = "expired"
	CallInvalid     = "invalid"
	CallForbidden   = "forbidden"
	CallUnavailable = "unavailable"
	CallNotRun      = "not_run"
	CallCancelled   = "cancelled"
	CallUnknown     = "unknown"
)

// Call is one requested tool use.
type Call struct {
	Index      int              `json:"index"`
	ProviderID string           `json:"providerId,omitempty"`
	Tool       string           `json:"tool"`
	WireName   string           `json:"wireName,omitempty"`
	Arguments  blob.Payload     `json:"arguments,omitzero"`
	Verdict    string           `json:"verdict"`
	Problem    string           `json:"problem,omitempty"`
	Control    *Control         `json:"control,omitempty"`
	Status     string           `json:"status,omitempty"`
	Attempt    int              `json:"attempt,omitempty"`
	Failures   int              `json:"failures,omitempty"`
	Interrupts int              `json:"interrupts,omitempty"`
	LookingUp  bool             `json:"lookingUp,omitempty"`
	Accepted   bool             `json:"accepted,omitempty"` // the other side took it
	NotBefore  ident.Instant    `json:"notBefore,omitempty"`
	StartedAt  ident.Instant    `json:"startedAt,omitempty"`
	Approval   ident.ApprovalID `json:"approval,omitempty"`
	Edited     blob.Payload     `json:"edited,omitzero"`
	Promise    ident.PromiseID  `json:"promise,omitempty"`
	Question   ident.QuestionID `json:"question,omitempty"`
	AwaitUntil ident.Instant    `json:"awaitUntil,omitempty"`
	Result     blob.Payload     `json:"result,omitzero"`
	Error      blob.Payload     `json:"error,omitzero"`
}

func (c *Call) terminal() bool {
	return c.Status != CallCalled && c.Status != CallRunning && c.Status != CallWaiting
}

// Approval is a person's decision on one call, wanted or made.
type Approval struct {
	ID         ident.ApprovalID `json:"id"`
	Call       int              `json:"call"`
	Why        string           `json:"why"`
	Definition string           `json:"definition"`
	Arguments  blob.Ref         `json:"arguments"`
	Role       string           `json:"role,omitempty"`
	Remember   bool             `json:"remember,omitempty"`
	Status     string           `json:"status"`
	At         ident.Instant    `json:"at"`
	ExpiresAt  ident.Instant    `json:"expiresAt,omitempty"`
	DecidedAt  ident.Instant    `json:"decidedAt,omitempty"`
	Note       string           `json:"note,omitempty"`
	Edited     blob.Ref         `json:"edited,omitempty"`
	By         string           `json:"by,omitempty"`
}

// Question is a pending question.
type Question struct {
	ID        ident.QuestionID `json:"id"`
	Call      int              `json:"call,omitempty"`
	Source    string           `json:"source"`
	Items     []QuestionItem   `json:"items"`
	At        ident.Instant    `json:"at"`
	ExpiresAt ident.Instant    `json:"expiresAt,omitempty"`
}

// Promise is a result that arrives later. Run is its run while it is
// run-scoped, 0 once it is detached. Settled ones stay for a while, for an
// await that comes after.
type Promise struct {
	ID       ident.PromiseID `json:"id"`
	Run      ident.RunID     `json:"run,omitempty"`
	Turn     ident.TurnID    `json:"turn"`
	Call     int             `json:"call"`
	Tool     string          `json:"tool"`
	Source   string          `json:"source"`
	Joined   bool            `json:"joined,omitempty"`
	Status   string          `json:"status"`
	At       ident.Instant   `json:"at"`
	Deadline ident.Instant   `json:"deadline"`
	Value    blob.Payload    `json:"value,omitzero"`
	Error    blob.Payload    `json:"error,omitzero"`
	// Actor is who the run of a detached one is for: whose roles count, and
	// who is charged.
	Actor Actor `json:"actor,omitzero"`
}

// Remembered lets calls of one definition of a tool run unasked.
type Remembered struct {
	Tool       string           `json:"tool"`
	Definition string           `json:"definition"`
	Approval   ident.ApprovalID `json:"approval"`
	At         ident.Instant    `json:"at"`
	By         string           `json:"by"`
}

// Repeat counts failures of a tool with the same argument bytes.
type Repeat struct {
	Tool      string   `json:"tool"`
	Arguments blob.Ref `json:"arguments"`
	Failures  int64    `json:"failures,omitempty"`
}

// Toolset is the offer that turns are planned with.
type Toolset struct {
	Revision int64     `json:"revision,omitempty"`
	Ref      blob.Ref  `json:"ref,omitempty"`
	Size     int64     `json:"size,omitempty"`
	Tools    []ToolDef `json:"tools,omitempty"`
}

// Find returns the definition of a tool, or nil.
func (t *Toolset) Find(name string) *ToolDef {
	for i := range t.Tools {
		if t.Tools[i].Name == name {
			return &t.Tools[i]
		}
	}
	return nil
}

// run returns the active run for changing: its own copy in this step.
func (s *State) run() *Run {
	if s.Active.gen != s.gen {
		r := *s.Active
		r.gen = s.gen
		s.Active = &r
	}
	return s.Active
}

// batch returns the open batch for changing, calls included.
func (r *Run) batch() *Batch {
	if r.Batch.gen != r.gen {
		b := *r.Batch
		b.gen = r.gen
		b.Calls = slices.Clone(b.Calls)
		r.Batch = &b
	}
	return r.Batch
}

func (b *Batch) call(index int) *Call {
	if b == nil || index < 1 || index > len(b.Calls) {
		return nil
	}
	return &b.Calls[index-1]
}

// openBatch says that calls of the newest turn have no result yet.
func (r *Run) openBatch() bool { return r.Batch != nil && r.Batch.Open > 0 }

// Fork returns a copy that a step may change without touching s.
func (s *State) Fork() State {
	t := *s
	t.gen++
	return t
}

// RunStatus is the status that clients see of the active run.
func (r *Run) RunStatus() string {
	switch {
	case r.StartedAt == 0:
		return RunQueued
	case r.Ending != nil:
		return RunCancelling
	case r.Wait.Since != 0:
		return RunWaits
	}
	return RunRunning
}

// Activity is what a session is doing, as clients see it.
func (s *State) Activity() string {
	switch {
	case s.Active != nil:
		if s.Context.Compaction.Phase == CompactionRuns && s.Active.Ending == nil {
			return "compacting"
		}
		return s.Active.RunStatus()
	case s.Context.Compaction.Phase == CompactionRuns:
		return "compacting"
	}
	return "idle"
}

func (s *State) promise(id ident.PromiseID) *Promise {
	for i := range s.Promises {
		if s.Promises[i].ID == id {
			return &s.Promises[i]
		}
	}
	return nil
}

func (r *Run) approval(id ident.ApprovalID) *Approval {
	for i := range r.Approvals {
		if r.Approvals[i].ID == id {
			return &r.Approvals[i]
		}
	}
	return nil
}

func (r *Run) question(id ident.QuestionID) *Question {
	for i := range r.Questions {
		if r.Questions[i].ID == id {
			return &r.Questions[i]
		}
	}
	return nil
}

// Promise returns a copy of a promise that state still has, or nil.
func (s *State) Promise(id ident.PromiseID) *Promise {
	p := s.promise(id)
	if p == nil {
		return nil
	}
	c := *p
	return &c
}

// HasPending says that a promise is still open.
func (s *State) HasPending() bool { return s.pendingPromises() > 0 }
