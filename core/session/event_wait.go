package session

import (
	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
)

// Approvals.
type (
	// ApprovalRequested asks a person about one call. It binds the call, the
	// tool's definition and the argument bytes.
	ApprovalRequested struct {
		Approval   ident.ApprovalID `json:"approval"`
		Run        ident.RunID      `json:"run"`
		Turn       ident.TurnID     `json:"turn"`
		Call       int              `json:"call"`
		Why        string           `json:"why"` // tool or repeat_of_unknown
		Definition string           `json:"definition"`
		Arguments  blob.Ref         `json:"arguments"` // content of the argument bytes
		Role       string           `json:"role,omitempty"`
		ExpiresAt  ident.Instant    `json:"expiresAt,omitempty"`
		Remember   bool             `json:"remember,omitempty"` // the policy allows it
	}
	// ApprovalDecided ends the question. Edited is what the tool gets instead
	// of the model's arguments.
	ApprovalDecided struct {
		Approval   ident.ApprovalID `json:"approval"`
		Run        ident.RunID      `json:"run"`
		Decision   string           `json:"decision"` // approved, rejected, expired, cancelled
		Decided    string           `json:"decided"`  // person, remembered, deadline, policy
		Note       string           `json:"note,omitempty"`
		Edited     blob.Payload     `json:"edited,omitzero"`
		Control    *Control         `json:"control,omitempty"` // of the edit
		Submission Submission       `json:"submission,omitzero"`
		Who
	}
	// ApprovalRemembered lets later calls of that definition run unasked.
	ApprovalRemembered struct {
		Tool       string           `json:"tool"`
		Definition string           `json:"definition"`
		Approval   ident.ApprovalID `json:"approval"`
		Who
	}
	// ApprovalForgotten takes that back.
	ApprovalForgotten struct {
		Tool string `json:"tool"`
		Who
	}
)

// Decisions and statuses of an approval.
const (
	Pending   = "pending"
	Approved  = "approved"
	Rejected  = "rejected"
	Expired   = "expired"
	Cancelled = "cancelled"
)

// Questions.
type (
	// QuestionAsked asks a person; a call or the intake waits for the answer.
	QuestionAsked struct {
		Question  ident.QuestionID `json:"question"`
		Run       ident.RunID      `json:"run"`
		Turn      ident.TurnID     `json:"turn,omitempty"`
		Call      int              `json:"call,omitempty"`
		Source    string           `json:"source"` // ask or intake
		Items     []QuestionItem   `json:"items"`
		ExpiresAt ident.Instant    `json:"expiresAt,omitempty"`
	}
	// QuestionAnswered ends it, for every item with its values.
	QuestionAnswered struct {
		Question   ident.QuestionID `json:"question"`
		Run        ident.RunID      `json:"run"`
		Status     string           `json:"status"` // answered, skipped, expired, cancelled
		Answers    []Answer         `json:"answers,omitempty"`
		Submission Submission       `json:"submission,omitzero"`
		Who
	}
)

// Answer is the values of one item. Defaulted says that nobody chose them.
type Answer struct {
	Item      string   `json:"item"`
	Values    []string `json:"values"`
	Defaulted bool     `json:"defaulted,omitempty"`
}

// Statuses of a question beside Pending, Expired and Cancelled.
const (
	Answered = "answered"
	Skipped  = "skipped"
)

// Promises.
type (
	// PromiseCreated rides in the commit that starts the call that answers by
	// it. The token is computed from the id, never stored.
	PromiseCreated struct {
		Promise  ident.PromiseID `json:"promise"`
		Run      ident.RunID     `json:"run"`
		Turn     ident.TurnID    `json:"turn"`
		Call     int             `json:"call"`
		Source   string          `json:"source"`           // timer, outside, session
		Joined   bool            `json:"joined,omitempty"` // the runtime owns it; its value is the call's result
		Tool     string          `json:"tool"`
		Deadline ident.Instant   `json:"deadline"`
	}
	// PromiseSettled ends it; the first one counts.
	PromiseSettled struct {
		Promise ident.PromiseID `json:"promise"`
		Run     ident.RunID     `json:"run,omitempty"`
		Status  string          `json:"status"` // resolved, failed, cancelled, expired
		Value   blob.Payload    `json:"value,omitzero"`
		Error   blob.Payload    `json:"error,omitzero"`
		Usage   Usage           `json:"usage,omitzero"` // of the session that answered
		Who
	}
	// PromiseDetached lets it outlive its run.
	PromiseDetached struct {
		Promise ident.PromiseID `json:"promise"`
		Run     ident.RunID     `json:"run"`
	}
)

// Statuses of a promise beside Pending, Cancelled and Expired, and sources.
const (
	Resolved      = "resolved"
	Failed        = "failed"
	SourceTimer   = "timer"
	SourceOutside = "outside"
	SourceSession = "session"
)

// Context.
type (
	// ContextEdited changes keyed entries or the text of entries. With Compact
	// it is a person's wish for a compaction, which then waits its turn; it
	// changes nothing, and Revision is the one that is there.
	ContextEdited struct {
		Revision int64           `json:"revision"`
		Put      []KeyedPut      `json:"put,omitempty"`
		Remove   []string        `json:"remove,omitempty"`
		Replace  []EntryReplaced `json:"replace,omitempty"`
		Compact  bool            `json:"compact,omitempty"`
		Who
	}
	// ContextCut moves the first kept entry forward: nothing else shortens the
	// window from the front. With mode summary the summary stands in for what
	// was cut. Reason failed_run takes a failed run's entries off the end
	// instead: From is then the first that goes.
	ContextCut struct {
		Revision int64         `json:"revision"`
		Through  ident.EntryID `json:"through"` // the last that goes
		From     ident.EntryID `json:"from,omitempty"`
		Mode     string        `json:"mode"` // drop or summary
		Reason   string        `json:"reason"`
		Summary  blob.Payload  `json:"summary,omitzero"`
		Lead     bool          `json:"lead,omitempty"` // the run's input is repeated first
		Attempt  int           `json:"attempt,omitempty"`
		Usage    Usage         `json:"usage,omitzero"`
	}
	// CompactionStarted claims the model call that makes a summary.
	CompactionStarted struct {
		Run     ident.RunID   `json:"run,omitempty"`
		Through ident.EntryID `json:"through"`
		Reason  string        `json:"reason"`
		Attempt int           `json:"attempt"`
		Model   Model         `json:"model"`
	}
	// CompactionFailed ends an attempt. With RetryAt set it goes on then.
	CompactionFailed struct {
		Class   string        `json:"class"`
		Message string        `json:"message,omitempty"`
		RetryAt ident.Instant `json:"retryAt,omitempty"`
		Refused *Failure      `json:"refused,omitempty"` // the call did not fit a limit and was not sent
		Usage   Usage         `json:"usage,omitzero"`
	}
)

// KeyedPut puts an entry under a key. Role is user or instructions.
type KeyedPut struct {
	Entry ident.EntryID `json:"entry"`
	Key   string        `json:"key"`
	Role  string        `json:"role"`
	Parts []Part        `json:"parts"`
}

// EntryReplaced gives an entry (and, with Call, that result in it) other text;
// Redacted says that it was taken out.
type EntryReplaced struct {
	Entry    ident.EntryID `json:"entry"`
	Call     int           `json:"call,omitempty"`
	Text     blob.Payload  `json:"text,omitzero"`
	Redacted bool          `json:"redacted,omitempty"`
}

// Modes and reasons of a cut.
const (
	CutDrop      = "drop"
	CutSummary   = "summary"
	CutWindow    = "window"
	CutHighWater = "high_water"
	CutContext   = "context_limit"
	CutManual    = "manual"
	CutFailedRun = "failed_run"
)

// CommandDead notes that a command which came through a queue was given up: as
// far as is known it took no effect, and nobody tries it again by himself.
// Receives says how often it came.
type CommandDead struct {
	Source     string             `json:"source"`               // of the message: inbox
	ID         string             `json:"id"`                   // of the message
	Command    string             `json:"command,omitempty"`    // method and path below the session, if the message could be read
	Submission ident.SubmissionID `json:"submission,omitempty"` // its idempotency key
	Receives   int64              `json:"receives"`
	Code       string             `json:"code"`
	Detail     string             `json:"detail,omitempty"`
	Who
}

// Kinds, in the order of the API's list.
const (
	KindSessionOpened      Kind = "session.opened"
	KindSessionConfigured  Kind = "session.configured"
	KindSessionClosed      Kind = "session.closed"
	KindSessionQuarantined Kind = "session.quarantined"
	KindSessionReleased    Kind = "session.released"
	KindRunAccepted        Kind = "run.accepted"
	KindRunStarted         Kind = "run.started"
	KindRunSteered         Kind = "run.steered"
	KindSteerDelivered     Kind = "run.steer_delivered"
	KindSteerRequeued      Kind = "run.steer_requeued"
	KindSteerUndelivered   Kind = "run.steer_undelivered"
	KindCancelRequested    Kind = "run.cancel_requested"
	KindRunWaiting         Kind = "run.waiting"
	KindRunResumed         Kind = "run.resumed"
	KindRunCompleted       Kind = "run.completed"
	KindRunFailed          Kind = "run.failed"
	KindRunCancelled       Kind = "run.cancelled"
	KindTurnRequested      Kind = "turn.requested"
	KindTurnCompleted      Kind = "turn.completed"
	KindTurnFailed         Kind = "turn.failed"
	KindTurnCancelled      Kind = "turn.cancelled"
	KindToolsPublished     Kind = "tools.published"
	KindMessageAdded       Kind = "message.added"
	KindToolCalled         Kind = "tool.called"
	KindToolStarted        Kind = "tool.started"
	KindToolCompleted      Kind = "tool.completed"
	KindToolLate           Kind = "tool.late"
	KindApprovalRequested  Kind = "approval.requested"
	KindApprovalDecided    Kind = "approval.decided"
	KindApprovalRemembered Kind = "approval.remembered"
	KindApprovalForgotten  Kind = "approval.forgotten"
	KindQuestionAsked      Kind = "question.asked"
	KindQuestionAnswered   Kind = "question.answered"
	KindPromiseCreated     Kind = "promise.created"
	KindPromiseSettled     Kind = "promise.settled"
	KindPromiseDetached    Kind = "promise.detached"
	KindContextEdited      Kind = "context.edited"
	KindContextCut         Kind = "context.cut"
	KindCompactionStarted  Kind = "context.compaction_started"
	KindCompactionFailed   Kind = "context.compaction_failed"
	KindCommandDead        Kind = "command.dead"
)

// Reserved are kinds that are named in the contract and written by no command
// of this build.
//
//nolint:gochecknoglobals // a constant table
var reserved = [...]Kind{"session.forked", "delivery.requested", "delivery.settled"}

// Reserved lists them.
func Reserved() []Kind { return append([]Kind(nil), reserved[:]...) }
