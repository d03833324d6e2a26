package host

import "github.com/perdure/perdure/core/session"

// The words of a session that its edges speak: the API names commands,
// documents and refusals by these, so that it sees neither reducer nor events.

// Documents of a session's setup.
type (
	// Config is a session's setup.
	Config = session.Config
	// Model says which model answers.
	Model = session.Model
	// ToolGrant names tools that the model may be offered.
	ToolGrant = session.ToolGrant
	// Workspace is a folder tree that the file tools see.
	Workspace = session.Workspace
	// Limits bound one run.
	Limits = session.Limits
	// ContextConfig bounds the window of a model request.
	ContextConfig = session.ContextConfig
	// Window cuts the oldest entries off.
	Window = session.Window
	// Compaction replaces the oldest entries by a summary.
	Compaction = session.Compaction
	// ApprovalPolicy decides which calls ask a person first.
	ApprovalPolicy = session.ApprovalPolicy
	// ApprovalRule is the policy for a tool name or pattern.
	ApprovalRule = session.ApprovalRule
	// Intake is a set of questions before the first model call.
	Intake = session.Intake
	// QuestionItem is one thing asked of a person.
	QuestionItem = session.QuestionItem
	// Option is one answer to pick.
	Option = session.Option
	// RunConfig is what one run may change.
	RunConfig = session.RunConfig
)

// Commands of people, and what they carry.
type (
	// Command is a request to change a session.
	Command = session.Command
	// Actor is who asks.
	Actor = session.Actor
	// Asked is what every command of a person carries.
	Asked = session.Asked
	// Submission is an idempotency key.
	Submission = session.Submission
	// Part is one piece of an input.
	Part = session.Part
	// OpenSession begins the log.
	OpenSession = session.OpenSession
	// Configure replaces the config.
	Configure = session.Configure
	// CloseSession ends a session.
	CloseSession = session.CloseSession
	// ReleaseSession lets a quarantined session go on.
	ReleaseSession = session.ReleaseSession
	// RequestRun asks for a run.
	RequestRun = session.RequestRun
	// SteerRun adds an instruction for a run in progress.
	SteerRun = session.SteerRun
	// CancelRun stops a run.
	CancelRun = session.CancelRun
	// DecideApprovals decides approvals, each alone.
	DecideApprovals = session.DecideApprovals
	// Decision is one decision of a person.
	Decision = session.Decision
	// AnswerQuestion answers or skips a question.
	AnswerQuestion = session.AnswerQuestion
	// Answer is the values of one item of a question.
	Answer = session.Answer
	// ForgetRemembered takes remembered approvals back.
	ForgetRemembered = session.ForgetRemembered
	// SettlePromise brings a promise's result.
	SettlePromise = session.SettlePromise
	// EditContext changes entries of the window.
	EditContext = session.EditContext
	// EditPut puts an entry under a key.
	EditPut = session.EditPut
	// EditReplace gives an entry another text.
	EditReplace = session.EditReplace
	// CompactContext asks for a summary.
	CompactContext = session.CompactContext
	// NoteDead notes a command of a queue that is given up.
	NoteDead = session.NoteDead
	// Who is an actor as it stands in the log.
	Who = session.Who
)

// What a session looks like, and what commands came to.
type (
	// State is a session reduced to what decides its next step.
	State = session.State
	// ContextEntry is one message of the window.
	ContextEntry = session.ContextEntry
	// PromiseRecord is a result that arrives later.
	PromiseRecord = session.Promise
	// Remembered lets calls of one definition of a tool run unasked.
	Remembered = session.Remembered
	// Usage counts tokens and money.
	Usage = session.Usage
	// RunUsage counts over one run.
	RunUsage = session.RunUsage
	// Failure is why a run failed.
	Failure = session.Failure
	// Reply is what a command came to.
	Reply = session.Reply
	// DecisionReply is what became of one decision.
	DecisionReply = session.DecisionReply
	// EditReply is what became of one edit.
	EditReply = session.EditReply
	// Rejection is a command refused.
	Rejection = session.Rejection
	// Code is a stable name for why.
	Code = session.Code
)

// Codes of rejections.
const (
	CodeInvalid            = session.CodeInvalid
	CodeForbidden          = session.CodeForbidden
	CodeNotFound           = session.CodeNotFound
	CodeRevisionConflict   = session.CodeRevisionConflict
	CodeSubmissionConflict = session.CodeSubmissionConflict
	CodeSessionClosed      = session.CodeSessionClosed
	CodeSessionOpen        = session.CodeSessionOpen
	CodeSessionBusy        = session.CodeSessionBusy
	CodeQuarantined        = session.CodeQuarantined
	CodeRunNotActive       = session.CodeRunNotActive
	CodeAlreadyDecided     = session.CodeAlreadyDecided
	CodeExpired            = session.CodeExpired
	CodeAlreadyExists      = session.CodeAlreadyExists
	CodeLimitReached       = session.CodeLimitReached
	CodeTooLarge           = session.CodeTooLarge
	CodeValidation         = session.CodeValidation
)

// Statuses of a run, and of what belongs to it, that its edges tell apart.
const (
	RunWaits         = session.RunWaits
	RunDone          = session.RunDone
	RunFails         = session.RunFails
	RunStopped       = session.RunStopped
	StatusPending    = session.Pending
	StatusCancelled  = session.Cancelled
	StatusResolved   = session.Resolved
	StatusFailed     = session.Failed
	RoleInstructions = session.RoleInstructions
	PartsMax         = session.PartsMax
	KeyedMax         = session.KeyedMax
	ApprovalsMax     = session.ApprovalsMax
	NoteMax          = session.NoteMax
)
