package api

import (
	"encoding/json"

	"github.com/danielgtaylor/huma/v2"
)

// Input is what a run, a steer or a context entry says: parts. Its JSON may be
// a bare string, which is one part of text.
type Input []Part

// Part is one piece of an input: a text, or a blob of the session.
type Part struct {
	Type      string `json:"type"`
	Text      Text   `json:"text,omitzero"`
	Ref       string `json:"ref,omitempty"`
	MediaType string `json:"mediaType,omitempty"`
	Name      string `json:"name,omitempty"`
}

// UnmarshalJSON reads either form.
func (in *Input) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		var s string
		if err := json.Unmarshal(data, &s); err != nil {
			return err
		}
		*in = Input{{Type: "text", Text: Text{Text: s}}}
		return nil
	}
	type plain []Part
	return json.Unmarshal(data, (*plain)(in))
}

// Schema implements huma.SchemaProvider.
func (Input) Schema(huma.Registry) *huma.Schema {
	one, short, long := 1, 128, 256
	text := object(map[string]*huma.Schema{"type": {Type: huma.TypeString, Enum: []any{"text"}}, "text": {Type: huma.TypeString}}, "type", "text")
	ref := object(map[string]*huma.Schema{
		"type": {Type: huma.TypeString, Enum: []any{"blob"}},
		"ref":  {Type: huma.TypeString, Pattern: `^sha256:[0-9a-f]{64}$`}, "mediaType": {Type: huma.TypeString, MinLength: &one, MaxLength: &short},
		"name": {Type: huma.TypeString, MaxLength: &long},
	}, "type", "ref", "mediaType")
	return &huma.Schema{
		Description: "A string, or 1 to 16 parts.",
		OneOf: []*huma.Schema{
			{Type: huma.TypeString, MinLength: &one},
			{Type: huma.TypeArray, MinItems: &one, Items: &huma.Schema{OneOf: []*huma.Schema{text, ref}}},
		},
	}
}

// Run is one accepted request, until it is terminal.
type Run struct {
	ID           string      `json:"id"`
	SessionID    string      `json:"sessionId"`
	Status       string      `json:"status" enum:"queued,running,waiting,cancelling,completed,failed,cancelled"`
	Mode         string      `json:"mode,omitempty"`
	Input        []Part      `json:"input"`
	Output       *Output     `json:"output,omitempty"`
	Failure      *Failure    `json:"failure,omitempty"`
	SubmissionID string      `json:"submissionId,omitempty"`
	SteeringID   string      `json:"steeringId,omitempty" doc:"In the answer to a run of mode steer that was taken as a steer."`
	AcceptedAt   Time        `json:"acceptedAt"`
	StartedAt    Time        `json:"startedAt,omitzero"`
	CompletedAt  Time        `json:"completedAt,omitzero"`
	WaitingOn    []WaitingOn `json:"waitingOn"`
	Approvals    []Approval  `json:"approvals"`
	Questions    []Question  `json:"questions"`
	Steering     []Steering  `json:"steering"`
	RequestedBy  string      `json:"requestedBy"`
	Via          string      `json:"via"`
	CancelledBy  string      `json:"cancelledBy,omitempty"`
	Usage        RunUsage    `json:"usage"`
}

// Output is a run's answer. With a reference the text is its beginning.
type Output struct {
	Text string `json:"text"`
	Ref  string `json:"ref,omitempty"`
}

// Failure is why a run failed. Limit, value and used are set for limits.
type Failure struct {
	Kind    string `json:"kind" enum:"model,model_rejected,tool,context,limit_exceeded,quota_exceeded,internal"`
	Message string `json:"message"`
	Limit   string `json:"limit,omitempty"`
	Value   Value  `json:"value,omitempty"`
	Used    Value  `json:"used,omitempty"`
}

// WaitingOn is one thing that a run waits for.
type WaitingOn struct {
	Kind  string `json:"kind" enum:"approval,question,promise,timer,child,tool,retry"`
	ID    string `json:"id"`
	Since Time   `json:"since"`
	Until Time   `json:"until,omitzero"`
}

// Steering is an instruction that was added to a run in progress.
type Steering struct {
	ID     string `json:"id"`
	Text   string `json:"text"`
	Status string `json:"status" enum:"pending,delivered,requeued,undelivered"`
	Turn   string `json:"turn,omitempty" doc:"The turn that carried it."`
	Run    string `json:"run,omitempty" doc:"The run that it became."`
}

// RunUsage counts over one run. Complete says that every call's usage is known.
type RunUsage struct {
	InputTokens      int64 `json:"inputTokens"`
	OutputTokens     int64 `json:"outputTokens"`
	CacheReadTokens  int64 `json:"cacheReadTokens"`
	CacheWriteTokens int64 `json:"cacheWriteTokens"`
	CostUSD          *USD  `json:"costUsd,omitempty"`
	ModelCalls       int64 `json:"modelCalls"`
	ToolCalls        int64 `json:"toolCalls"`
	ContextTokens    int64 `json:"contextTokens,omitempty"`
	DurationMs       int64 `json:"durationMs,omitempty"`
	Complete         bool  `json:"complete"`
}

// ToolCall is one requested tool use.
type ToolCall struct {
	ID              string       `json:"id"`
	RunID           string       `json:"runId"`
	Turn            string       `json:"turn"`
	Tool            string       `json:"tool"`
	Kind            string       `json:"kind,omitempty" doc:"read, action or agent; left out for a tool that is not known any more."`
	Arguments       Value        `json:"arguments,omitempty" doc:"The object; a string where it is no JSON; above 64 KiB a reference."`
	EditedArguments Value        `json:"editedArguments,omitempty"`
	Status          string       `json:"status" enum:"running,waiting,completed,failed,rejected,expired,invalid,forbidden,unavailable,not_run,cancelled,unknown"`
	Result          Text         `json:"result,omitzero"`
	Error           Text         `json:"error,omitzero"`
	Effects         []ToolEffect `json:"effects"`
	Attempts        int          `json:"attempts,omitempty"`
	ApprovalID      string       `json:"approvalId,omitempty"`
	QuestionID      string       `json:"questionId,omitempty"`
	PromiseID       string       `json:"promiseId,omitempty"`
	StartedAt       Time         `json:"startedAt,omitzero"`
	CompletedAt     Time         `json:"completedAt,omitzero"`
	DurationMs      int64        `json:"durationMs,omitempty"`
	OutputBytes     int64        `json:"outputBytes,omitempty"`
	Truncated       bool         `json:"truncated,omitempty"`
}

// ToolEffect is what a call did outside, as the tool reports it.
type ToolEffect struct {
	Kind    string `json:"kind"`
	Subject string `json:"subject"`
	Detail  string `json:"detail,omitempty"`
}

// Approval is a person's decision on one call, wanted or made.
type Approval struct {
	ID              string `json:"id"`
	SessionID       string `json:"sessionId"`
	RunID           string `json:"runId"`
	CallID          string `json:"callId"`
	Tool            string `json:"tool"`
	Kind            string `json:"kind" enum:"tool,repeat_of_unknown"`
	Arguments       Value  `json:"arguments,omitempty"`
	Status          string `json:"status" enum:"pending,approved,rejected,expired,cancelled"`
	RequestedAt     Time   `json:"requestedAt"`
	ExpiresAt       Time   `json:"expiresAt,omitzero"`
	Role            string `json:"role,omitempty"`
	Remember        bool   `json:"remember,omitempty" doc:"The policy lets the decision be remembered."`
	DecidedAt       Time   `json:"decidedAt,omitzero"`
	DecidedBy       string `json:"decidedBy,omitempty"`
	DecidedVia      string `json:"decidedVia,omitempty" enum:"person,remembered,deadline,policy"`
	Via             string `json:"via,omitempty"`
	Note            string `json:"note,omitempty"`
	EditedArguments Value  `json:"editedArguments,omitempty"`
}

// Question is something asked of a person.
type Question struct {
	ID          string              `json:"id"`
	SessionID   string              `json:"sessionId"`
	RunID       string              `json:"runId"`
	CallID      string              `json:"callId,omitempty"`
	Source      string              `json:"source" enum:"ask,intake"`
	Items       []QuestionItem      `json:"items"`
	Status      string              `json:"status" enum:"pending,answered,skipped,expired,cancelled"`
	RequestedAt Time                `json:"requestedAt"`
	ExpiresAt   Time                `json:"expiresAt,omitzero"`
	AnsweredAt  Time                `json:"answeredAt,omitzero"`
	Answers     map[string][]string `json:"answers,omitempty"`
	Defaulted   []string            `json:"defaulted,omitempty" doc:"Items whose values nobody chose."`
	AnsweredBy  string              `json:"answeredBy,omitempty"`
	Via         string              `json:"via,omitempty"`
}

// Promise is a result that arrives later.
type Promise struct {
	ID        string `json:"id"`
	RunID     string `json:"runId,omitempty" doc:"Left out once it is detached from its run."`
	CallID    string `json:"callId"`
	Tool      string `json:"tool"`
	Source    string `json:"source" enum:"timer,outside,session"`
	Status    string `json:"status" enum:"pending,resolved,failed,cancelled,expired"`
	CreatedAt Time   `json:"createdAt"`
	Deadline  Time   `json:"deadline,omitzero"`
	Value     Text   `json:"value,omitzero"`
	Error     Text   `json:"error,omitzero"`
}

// RequestRun asks for a run.
type RequestRun struct {
	Input        Input      `json:"input"`
	SubmissionID string     `json:"submissionId,omitempty" minLength:"1" maxLength:"128" pattern:"^[!-~]+$" patternDescription:"1 to 128 visible ASCII characters"`
	Mode         string     `json:"mode,omitempty" enum:"queue,steer,interrupt,reject" doc:"What to do when the session is busy; queue if left out."`
	Config       *RunConfig `json:"config,omitempty"`
}

// SteerRun adds an instruction to a run in progress.
type SteerRun struct {
	Input        Input  `json:"input"`
	SubmissionID string `json:"submissionId,omitempty" minLength:"1" maxLength:"128" pattern:"^[!-~]+$" patternDescription:"1 to 128 visible ASCII characters"`
}

// Steered says what became of a steer.
type Steered struct {
	SteeringID string `json:"steeringId"`
	Run        Run    `json:"run"`
}

// CancelRun stops a run.
type CancelRun struct {
	SubmissionID string `json:"submissionId,omitempty" minLength:"1" maxLength:"128" pattern:"^[!-~]+$" patternDescription:"1 to 128 visible ASCII characters"`
	Force        bool   `json:"force,omitempty" doc:"Do not wait for what is under way."`
}

// Decision is one decision of a person.
type Decision struct {
	ApprovalID string `json:"approvalId"`
	Verdict
}

// Verdict is what a person decides on a call.
type Verdict struct {
	Decision  string `json:"decision" enum:"approve,reject"`
	Note      string `json:"note,omitempty"`
	Arguments Object `json:"arguments,omitempty" doc:"What the tool gets instead of the model's arguments."`
	Remember  bool   `json:"remember,omitempty" doc:"Let later calls of this definition run unasked, where policy allows."`
}

// DecideApprovals decides the listed approvals, each alone.
type DecideApprovals struct {
	Decisions    []Decision `json:"decisions" minItems:"1"`
	SubmissionID string     `json:"submissionId,omitempty" minLength:"1" maxLength:"128" pattern:"^[!-~]+$" patternDescription:"1 to 128 visible ASCII characters"`
}

// DecideApproval decides one approval.
type DecideApproval struct {
	Verdict
	SubmissionID string `json:"submissionId,omitempty" minLength:"1" maxLength:"128" pattern:"^[!-~]+$" patternDescription:"1 to 128 visible ASCII characters"`
}

// ApprovalsDecided says what became of each decision.
type ApprovalsDecided struct {
	Results []DecisionResult `json:"results"`
	Run     Run              `json:"run"`
}

// DecisionResult is what became of one decision. Code says why it was refused.
type DecisionResult struct {
	ApprovalID string `json:"approvalId"`
	Status     string `json:"status,omitempty" doc:"Of the approval, after the decision."`
	Code       string `json:"code,omitempty"`
	Detail     string `json:"detail,omitempty"`
}

// AnswerQuestion answers or skips a question.
type AnswerQuestion struct {
	QuestionID   string              `json:"questionId" pattern:"^question_[1-9][0-9]*$" patternDescription:"question_<n>"`
	Answers      map[string][]string `json:"answers,omitempty" doc:"Values by item; an item left out takes its defaults."`
	Skip         bool                `json:"skip,omitempty"`
	SubmissionID string              `json:"submissionId,omitempty" minLength:"1" maxLength:"128" pattern:"^[!-~]+$" patternDescription:"1 to 128 visible ASCII characters"`
}

// SettlePromise brings a promise's result.
type SettlePromise struct {
	Status string `json:"status" enum:"resolved,failed"`
	Value  Value  `json:"value,omitempty" doc:"The model reads a string as it is, anything else as JSON."`
	Error  Value  `json:"error,omitempty"`
}

// Event is one stored event of the feed, under its own kind and seq.
type Event struct {
	Seq  uint64 `json:"seq"`
	At   Time   `json:"at"`
	Kind string `json:"kind"`
	Run  string `json:"run,omitempty"`
	Turn string `json:"turn,omitempty"`
	Call string `json:"call,omitempty"`
	Data Value  `json:"data"`
}

// Events is a page of the feed. Next is what to pass as after (or before, when
// reading backwards); complete says that the head (or the beginning) is reached.
type Events struct {
	Events   []Event `json:"events"`
	Next     uint64  `json:"next"`
	Head     uint64  `json:"head"`
	Complete bool    `json:"complete"`
}

// Page is one page of a list. An empty next is the end.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"`
}
