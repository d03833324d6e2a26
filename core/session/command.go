package session

import (
	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
)

// Command is a request to change a session, or an outcome of an effect. It may
// be refused. The set is closed.
type Command interface{ command() }

// Prior is what an idempotency key was used for before, from its row.
type Prior struct {
	Digest   string           `json:"digest"`
	Run      ident.RunID      `json:"run,omitempty"`
	Steering ident.SteeringID `json:"steering,omitempty"`
}

// Asked is what every command of a person carries: who, through what, and its
// idempotency key with what that key was used for before.
type Asked struct {
	Actor      Actor
	Via        string
	Submission Submission
	Prior      *Prior
}

func (a Asked) who() Who { return Who{By: a.Actor.ID, Via: a.Via} }

// Modes of a run on a busy session.
const (
	ModeQueue     = "queue"
	ModeSteer     = "steer"
	ModeInterrupt = "interrupt"
	ModeReject    = "reject"
)

// Commands of people.
type (
	// OpenSession begins the log.
	OpenSession struct {
		Inc    string
		Config Config
		Asked
	}
	// Configure replaces the config of an idle session. IfRevision is -1 for
	// whatever revision is there.
	Configure struct {
		Config     Config
		IfRevision int64
		Asked
	}
	// CloseSession ends an idle session; with Force whatever it is doing.
	CloseSession struct {
		Force bool
		Asked
	}
	// ReleaseSession lets a quarantined session go on.
	ReleaseSession struct{ Asked }
	// RequestRun asks for a run.
	RequestRun struct {
		Input  []Part
		Mode   string
		Config RunConfig
		Asked
	}
	// SteerRun adds an instruction for a running or waiting run.
	SteerRun struct {
		Run  ident.RunID
		Text []Part
		Asked
	}
	// CancelRun stops a run, or takes it out of the queue.
	CancelRun struct {
		Run   ident.RunID
		Force bool
		Asked
	}
	// DecideApprovals decides each of the listed approvals, or refuses it.
	// Run 0 means whatever run it belongs to.
	DecideApprovals struct {
		Run       ident.RunID
		Decisions []Decision
		Asked
	}
	// AnswerQuestion answers or skips a question.
	AnswerQuestion struct {
		Run      ident.RunID
		Question ident.QuestionID
		Answers  []Answer
		Skip     bool
		Settled  *Decided // from its row, when it is no longer pending
		Asked
	}
	// ForgetRemembered takes remembered approvals of a tool back.
	ForgetRemembered struct {
		Tool string
		Asked
	}
	// SettlePromise brings a promise's result. Settled is the promise's row,
	// when state no longer has it.
	SettlePromise struct {
		Promise ident.PromiseID
		Status  string // resolved or failed
		Value   blob.Payload
		Error   blob.Payload
		Usage   Usage // of a child session, for its parent's totals
		Settled *Promise
		Asked
	}
	// EditContext changes entries. IfRevision is -1 for whatever is there.
	EditContext struct {
		IfRevision int64
		Put        []EditPut
		Remove     []string
		Replace    []EditReplace
		Asked
	}
	// CompactContext asks for a summary of the oldest entries.
	CompactContext struct{ Asked }
	// NoteDead notes a command that came through a queue and is given up. Noted
	// says that this message was noted before, from its row. Who is whose
	// command it was.
	NoteDead struct {
		Source     string
		ID         string
		Command    string
		Submission ident.SubmissionID
		Receives   int64
		Code       string
		Detail     string
		Noted      bool
		Who
	}
)

// Decision is one decision of a person. Edited replaces the arguments of the
// call; EditProblem is what screening found wrong with it. Settled is the
// approval's row, when state no longer has it.
type Decision struct {
	Approval    ident.ApprovalID
	Approve     bool
	Note        string
	Edited      *blob.Payload
	EditProblem string
	EditControl *Control
	Remember    bool
	Settled     *SettledApproval
}

// SettledApproval is what the row of a decided approval says.
type SettledApproval struct {
	Run    ident.RunID
	Status string
	By     string
	At     ident.Instant
	Edited blob.Ref
}

// EditPut puts an entry under a key.
type EditPut struct {
	Key   string
	Role  string // user or instructions
	Parts []Part
}

// EditReplace gives an entry another text; nil redacts it. Call picks one
// result of a results entry (0: the entry itself, or all of its results).
type EditReplace struct {
	Entry ident.EntryID
	Call  int
	Text  *blob.Payload
}

// Outcomes and wakes.
type (
	// Wake says that time has passed; the step's instant says how far.
	Wake struct{}
	// Resume says that whoever performed the effects in flight is gone.
	Resume struct{}
	// ModelOutcome is how an attempt of a model call ended: a result, a fault,
	// or aborted with the text that had reached the stream.
	ModelOutcome struct {
		Turn       ident.TurnID
		Attempt    int
		Text       blob.Payload
		Item       *Item
		Calls      []ProposedCall
		Finish     string
		Model      string
		ResponseID string
		Usage      Usage
		DurationMs int64
		Fault      *FaultInfo
		Aborted    bool
	}
	// ToolOutcome is how an attempt of a call ended.
	ToolOutcome struct {
		Call        ident.CallID
		Attempt     int
		Text        blob.Payload
		Error       bool
		Accepted    bool // the other side will answer by the promise
		Effects     []ToolEffect
		DurationMs  int64
		OutputBytes int64
		Truncated   bool
		Refused     string // a verdict other than ok at execution; Text says why
		Fault       *FaultInfo
		Aborted     bool
		// Lookup says that this answers a lookup; Found whether it was known.
		Lookup, Found bool
	}
	// CompactionOutcome is the summary, or why there is none.
	CompactionOutcome struct {
		Through    ident.EntryID
		Attempt    int
		Summary    blob.Payload
		Usage      Usage
		DurationMs int64
		Fault      *FaultInfo
		Aborted    bool
	}
)

// ProposedCall is a tool call of a model's answer, screened by the host.
type ProposedCall struct {
	ProviderID string
	Tool       string
	WireName   string
	Arguments  blob.Payload
	Verdict    string
	Problem    string
	Control    *Control
}

// FaultInfo is a fault as the core sees it.
type FaultInfo struct {
	Class        string
	Message      string
	RetryAfterMs int64
	NotSent      bool // it is certain that nothing reached the other side
	// Refused is set when the model call did not fit what the run may still
	// use, and was not sent: a failure of kind limit_exceeded or
	// quota_exceeded, with limit, value and used. The run ends with it.
	Refused *Failure
}

// Retryable says that the same call may succeed later.
func (f *FaultInfo) Retryable() bool {
	switch f.Class {
	case "rate_limit", "server", "timeout", "network", classStopped:
		return true
	}
	return false
}

// uncertain says that the call may have done its work in spite of the fault: it
// was sent, and what came back was no refusal.
func (f *FaultInfo) uncertain() bool {
	switch f.Class {
	case "server", "timeout", "network", "other", "":
		return !f.NotSent
	}
	return false
}

// classStopped is a fault of this process going down: no failure of the call.
const classStopped = "stopped"

// Reply is what a command came to.
type Reply struct {
	Run      ident.RunID
	Steering ident.SteeringID
	// Same says that it was so already: nothing was written.
	Same      bool
	Decisions []DecisionReply
	Edits     []EditReply
	Revision  int64 // of config or context, where that was changed
}

// DecisionReply is what became of one decision.
type DecisionReply struct {
	Approval ident.ApprovalID
	Status   string
	Refused  *Rejection
}

// EditReply is what became of one edit.
type EditReply struct {
	Key     string
	Entry   ident.EntryID
	Status  string // applied, unchanged, removed, absent, failed
	Refused *Rejection
}

func (*OpenSession) command()       {}
func (*Configure) command()         {}
func (*CloseSession) command()      {}
func (*ReleaseSession) command()    {}
func (*RequestRun) command()        {}
func (*SteerRun) command()          {}
func (*CancelRun) command()         {}
func (*DecideApprovals) command()   {}
func (*AnswerQuestion) command()    {}
func (*ForgetRemembered) command()  {}
func (*SettlePromise) command()     {}
func (*EditContext) command()       {}
func (*CompactContext) command()    {}
func (*NoteDead) command()          {}
func (*Wake) command()              {}
func (*Resume) command()            {}
func (*ModelOutcome) command()      {}
func (*ToolOutcome) command()       {}
func (*CompactionOutcome) command() {}
