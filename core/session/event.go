package session

import (
	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
)

// Kind is the stored name of an event's type. It is for ever.
type Kind string

// Event is a fact: past tense, never refused, never edited. The set is closed;
// every type of it is in this file, with its stored version in core/wire.
type Event interface {
	Kind() Kind
	// apply folds the event into a state that the step owns. An error is a
	// Divergence: a rule of this build is broken, never a user's mistake.
	apply(s *State, en *Entry) error
}

// Entry is an event at its position in the log, with the time its writer saw.
type Entry struct {
	Seq   ident.Seq
	At    ident.Instant
	Event Event
}

// Actor is who asked. Roles are what the actor may decide.
type Actor struct {
	ID    string   `json:"id"`
	Roles []string `json:"roles,omitempty"`
}

// System actors decide in a person's stead.
const (
	ActorDeadline = "system:deadline"
	ActorSystem   = "system"
)

// Who is an actor as it stands in an event: the id and the surface.
type Who struct {
	By  string `json:"by,omitempty"`
	Via string `json:"via,omitempty"` // key, console, cli, slack, webhook, system
}

// Submission is an idempotency key with the digest of what it was used for.
type Submission struct {
	ID     ident.SubmissionID `json:"id,omitempty"`
	Digest string             `json:"digest,omitempty"` // hex SHA-256 of the canonical command
}

// IsZero reports that there is none.
func (s Submission) IsZero() bool { return s.ID == "" }

// Part is one piece of an input: text, or a blob with its media type.
type Part struct {
	Text      blob.Payload `json:"text,omitzero"`
	Blob      blob.Ref     `json:"blob,omitempty"`
	Size      int64        `json:"size,omitempty"`
	MediaType string       `json:"mediaType,omitempty"`
	Name      string       `json:"name,omitempty"`
}

// Usage counts tokens and money of model calls. Estimated marks figures that
// the provider did not report.
type Usage struct {
	Input      int64 `json:"input,omitempty"`
	Output     int64 `json:"output,omitempty"`
	CacheRead  int64 `json:"cacheRead,omitempty"`  // subset of Input
	CacheWrite int64 `json:"cacheWrite,omitempty"` // subset of Input
	CostMicros int64 `json:"costMicros,omitempty"`
	Priced     bool  `json:"priced,omitempty"`
	Estimated  bool  `json:"estimated,omitempty"`
}

// IsZero reports that nothing was counted.
func (u Usage) IsZero() bool { return u == Usage{} }

// Lifecycle.
type (
	// SessionOpened begins a log. Inc is the incarnation: an id deleted and
	// made anew never meets what was left of its predecessor.
	SessionOpened struct {
		Inc    string `json:"inc"`
		Config Config `json:"config"`
		Who
	}
	// SessionConfigured replaces the config.
	SessionConfigured struct {
		Revision int64  `json:"revision"`
		Config   Config `json:"config"`
		Who
	}
	// SessionClosed ends the session; nothing reopens it.
	SessionClosed struct {
		Force bool `json:"force,omitempty"`
		Who
	}
	// SessionQuarantined notes that this build could not fold the log at At.
	// It folds as nothing, so that a build that can goes on.
	SessionQuarantined struct {
		Failed ident.Seq `json:"failed"`
		Code   string    `json:"code"`
		Detail string    `json:"detail"`
	}
	// SessionReleased notes that a person let the session go on.
	SessionReleased struct {
		Who
	}
)

// Runs.
type (
	// RunAccepted puts a run in the queue: at its end, or (Front) behind the
	// other front runs. Steering is set when a steer outlived its run and this
	// run is made of it; Promise when a detached promise's value is the input.
	RunAccepted struct {
		Run        ident.RunID      `json:"run"`
		Mode       string           `json:"mode,omitempty"` // as asked for
		Front      bool             `json:"front,omitempty"`
		Input      []Part           `json:"input"`
		Config     RunConfig        `json:"config,omitzero"`
		Submission Submission       `json:"submission,omitzero"`
		Steering   ident.SteeringID `json:"steering,omitempty"`
		Promise    ident.PromiseID  `json:"promise,omitempty"`
		Actor      Actor            `json:"actor"`
		Via        string           `json:"via"`
	}
	// RunStarted makes the head of the queue the active run.
	RunStarted struct {
		Run ident.RunID `json:"run"`
	}
	// RunSteered adds an instruction for the active run.
	RunSteered struct {
		Run        ident.RunID      `json:"run"`
		Steering   ident.SteeringID `json:"steering"`
		Text       []Part           `json:"text"`
		Submission Submission       `json:"submission,omitzero"`
		Roles      []string         `json:"roles,omitempty"` // of who steered
		Who
	}
	// RunSteerDelivered says that a turn that carried the steer has completed.
	RunSteerDelivered struct {
		Run      ident.RunID      `json:"run"`
		Steering ident.SteeringID `json:"steering"`
		Turn     ident.TurnID     `json:"turn"`
	}
	// RunSteerRequeued says that the steer outlived its run and is Next now.
	RunSteerRequeued struct {
		Run      ident.RunID      `json:"run"`
		Steering ident.SteeringID `json:"steering"`
		Next     ident.RunID      `json:"next"`
	}
	// RunSteerUndelivered says that no turn will carry the steer.
	RunSteerUndelivered struct {
		Run      ident.RunID      `json:"run"`
		Steering ident.SteeringID `json:"steering"`
	}
	// RunCancelRequested asks the active run to stop. Failure is set when a
	// limit asks, and is what the run then ends with.
	RunCancelRequested struct {
		Run        ident.RunID `json:"run"`
		Force      bool        `json:"force,omitempty"`
		Failure    *Failure    `json:"failure,omitempty"`
		Submission Submission  `json:"submission,omitzero"`
		Who
	}
	// RunWaiting says that nothing of the run is in progress. Person says
	// whether a person is among what it waits for: that time does not count.
	RunWaiting struct {
		Run    ident.RunID `json:"run"`
		Person bool        `json:"person,omitempty"`
		On     []string    `json:"on"` // kinds: approval question promise timer child tool retry
	}
	// RunResumed says that something of the run is in progress again.
	RunResumed struct {
		Run ident.RunID `json:"run"`
	}
	// RunCompleted, RunFailed and RunCancelled are terminal.
	RunCompleted struct {
		Run    ident.RunID  `json:"run"`
		Output blob.Payload `json:"output,omitzero"`
	}
	// RunFailed may carry output: of the closing turn, or partial text.
	RunFailed struct {
		Run     ident.RunID  `json:"run"`
		Failure Failure      `json:"failure"`
		Output  blob.Payload `json:"output,omitzero"`
	}
	// RunCancelled ends the active run, or takes a queued one out.
	RunCancelled struct {
		Run        ident.RunID  `json:"run"`
		Output     blob.Payload `json:"output,omitzero"`
		Submission Submission   `json:"submission,omitzero"` // of the cancel of a queued run
		Who
	}
)

// Failure kinds.
const (
	FailModel    = "model"
	FailRejected = "model_rejected"
	FailTool     = "tool"
	FailContext  = "context"
	FailLimit    = "limit_exceeded"
	FailQuota    = "quota_exceeded"
	FailInternal = "internal"
)

// Failure is why a run failed. Limit, Value and Used are set for limits.
type Failure struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Limit   string `json:"limit,omitempty"`
	Value   int64  `json:"value,omitempty"`
	Used    int64  `json:"used,omitempty"`
}

// Turns.
type (
	// TurnRequested claims one attempt of a model call, in the commit BEFORE
	// it. Closing makes it the last turn: its tools do not run. Through is the last entry that the request covers; the revisions say
	// what it was built from, and Fingerprint hashes them, so that a rebuilt
	// request is known to be the same.
	TurnRequested struct {
		Run             ident.RunID   `json:"run"`
		Turn            ident.TurnID  `json:"turn"`
		Attempt         int           `json:"attempt"`
		Reason          string        `json:"reason"` // first, interrupted, retry
		Class           string        `json:"class,omitempty"`
		Closing         *Failure      `json:"closing,omitempty"` // what the run ends with after this turn
		Model           Model         `json:"model"`
		Through         ident.EntryID `json:"through"`
		ContextRevision int64         `json:"contextRevision"`
		ConfigRevision  int64         `json:"configRevision"`
		Toolset         int64         `json:"toolset"`
		Estimate        int64         `json:"estimate,omitempty"` // input tokens
		Fingerprint     string        `json:"fingerprint"`
	}
	// TurnCompleted ends a turn with an answer. Outcome is final or tools.
	TurnCompleted struct {
		Run        ident.RunID  `json:"run"`
		Turn       ident.TurnID `json:"turn"`
		Attempt    int          `json:"attempt"`
		Outcome    string       `json:"outcome"`
		Finish     string       `json:"finish"`
		Model      string       `json:"model,omitempty"`
		ResponseID string       `json:"responseId,omitempty"`
		Usage      Usage        `json:"usage,omitzero"`
		DurationMs int64        `json:"durationMs,omitempty"`
	}
	// TurnFailed ends an attempt. With RetryAt set the turn goes on then;
	// otherwise it is over.
	TurnFailed struct {
		Run     ident.RunID   `json:"run"`
		Turn    ident.TurnID  `json:"turn"`
		Attempt int           `json:"attempt"`
		Class   string        `json:"class"`
		Message string        `json:"message,omitempty"`
		RetryAt ident.Instant `json:"retryAt,omitempty"`
		Refused *Failure      `json:"refused,omitempty"` // the call did not fit a limit and was not sent
		Usage   Usage         `json:"usage,omitzero"`
	}
	// TurnCancelled ends a turn that nobody waits for any more.
	TurnCancelled struct {
		Run     ident.RunID  `json:"run"`
		Turn    ident.TurnID `json:"turn"`
		Attempt int          `json:"attempt"`
		Usage   Usage        `json:"usage,omitzero"`
	}
	// ToolsPublished records the offer that turns are planned with from here.
	ToolsPublished struct {
		Revision int64     `json:"revision"`
		Ref      blob.Ref  `json:"ref,omitempty"` // the sorted definitions, as rendered
		Size     int64     `json:"size,omitempty"`
		Tools    []ToolDef `json:"tools"`
	}
)

// Turn outcomes.
const (
	OutcomeFinal = "final"
	OutcomeTools = "tools"
)

// Tool classes: who does the work of a call, and when it answers.
const (
	ClassInline  = "inline"  // the host runs it and its return is the result
	ClassJoined  = "joined"  // the host starts it; a promise brings the result
	ClassPromise = "promise" // the host starts it; the model gets the promise
	ClassSleep   = "sleep"   // the rest are the session's own
	ClassAwait   = "await"
	ClassDetach  = "detach"
	ClassCancel  = "cancel"
	ClassAsk     = "ask"
)

// ToolDef is what a session knows of an offered tool. Definition is the hex
// SHA-256 of schema, kind and target: what an approval binds.
type ToolDef struct {
	Name       string `json:"name"`
	WireName   string `json:"wireName"`
	Kind       string `json:"kind"` // read, action, agent
	Class      string `json:"class"`
	RetrySafe  bool   `json:"retrySafe,omitempty"`
	Parallel   bool   `json:"parallel,omitempty"`
	Lookup     bool   `json:"lookup,omitempty"` // can say what became of an operation id
	DeadlineMs int64  `json:"deadlineMs,omitempty"`
	Gate       Gate   `json:"gate,omitzero"`
	Definition string `json:"definition"`
}

// Gate says that a person is asked before a call runs, and who and how long.
type Gate struct {
	Ask      bool   `json:"ask,omitempty"`
	Role     string `json:"role,omitempty"`
	TTLMs    int64  `json:"ttlMs,omitempty"`
	Remember bool   `json:"remember,omitempty"`
}

// MessageAdded adds an entry to the transcript and the window. The parts of an
// input, a steer or an intake are those of the run, steer or question that it
// names, and are not repeated here.
type MessageAdded struct {
	Entry    ident.EntryID    `json:"entry"`
	Run      ident.RunID      `json:"run,omitempty"`
	Turn     ident.TurnID     `json:"turn,omitempty"`
	Role     string           `json:"role"`   // user or assistant
	Source   string           `json:"source"` // input, steer, model, runtime, intake
	Steering ident.SteeringID `json:"steering,omitempty"`
	Text     blob.Payload     `json:"text,omitzero"`
	Item     *Item            `json:"item,omitempty"`
	Partial  bool             `json:"partial,omitempty"`
}

// Item is the provider's own form of a message, opaque here, with the family
// of models that it is good for.
type Item struct {
	Kind   string       `json:"kind"`
	Family string       `json:"family"`
	Data   blob.Payload `json:"data"`
}

// Tool calls.
type (
	// ToolCalled records a call that the model asked for, screened.
	ToolCalled struct {
		Run        ident.RunID  `json:"run"`
		Turn       ident.TurnID `json:"turn"`
		Call       int          `json:"call"`
		ProviderID string       `json:"providerId,omitempty"`
		Tool       string       `json:"tool"`
		WireName   string       `json:"wireName,omitempty"`
		Arguments  blob.Payload `json:"arguments,omitzero"`
		Verdict    string       `json:"verdict"` // ok, invalid, forbidden, unavailable
		Problem    string       `json:"problem,omitempty"`
		Control    *Control     `json:"control,omitempty"`
	}
	// ToolStarted claims an attempt in the commit BEFORE it. With the reason
	// accepted it says instead that the other side took the call and will
	// answer later, with later that the attempt failed and the next one, not
	// claimed yet, comes no earlier than NotBefore.
	ToolStarted struct {
		Run       ident.RunID   `json:"run"`
		Turn      ident.TurnID  `json:"turn"`
		Call      int           `json:"call"`
		Attempt   int           `json:"attempt"`
		Reason    string        `json:"reason"` // first, interrupted, retry, lookup, accepted, later
		Class     string        `json:"class,omitempty"`
		NotBefore ident.Instant `json:"notBefore,omitempty"`
	}
	// ToolCompleted ends a call with its result.
	ToolCompleted struct {
		Run         ident.RunID  `json:"run"`
		Turn        ident.TurnID `json:"turn"`
		Call        int          `json:"call"`
		Status      string       `json:"status"`
		Result      blob.Payload `json:"result,omitzero"`
		Error       blob.Payload `json:"error,omitzero"`
		Effects     []ToolEffect `json:"effects,omitempty"`
		DurationMs  int64        `json:"durationMs,omitempty"`
		OutputBytes int64        `json:"outputBytes,omitempty"`
		Truncated   bool         `json:"truncated,omitempty"`
	}
	// ToolLate keeps what came after a call, turn or run was terminal. It
	// changes no state but the totals of usage.
	ToolLate struct {
		Run    ident.RunID  `json:"run"`
		Turn   ident.TurnID `json:"turn,omitempty"`
		Call   int          `json:"call,omitempty"`
		Status string       `json:"status,omitempty"`
		Result blob.Payload `json:"result,omitzero"`
		Error  blob.Payload `json:"error,omitzero"`
		Usage  Usage        `json:"usage,omitzero"`
	}
)

// ToolEffect is what a call did outside, as the tool reports it.
type ToolEffect struct {
	Kind    string `json:"kind"` // file.written, file.deleted, http.sent, session.started …
	Subject string `json:"subject"`
	Detail  string `json:"detail,omitempty"`
}

// Control is what a call of one of the session's own tools asks for.
type Control struct {
	SleepMs   int64             `json:"sleepMs,omitempty"`
	Promises  []ident.PromiseID `json:"promises,omitempty"`
	Any       bool              `json:"any,omitempty"`
	Timed     bool              `json:"timed,omitempty"` // TimeoutMs counts, even when 0
	TimeoutMs int64             `json:"timeoutMs,omitempty"`
	Items     []QuestionItem    `json:"items,omitempty"`
}

// Verdicts of screening.
const (
	VerdictOK          = "ok"
	VerdictInvalid     = "invalid"
	VerdictForbidden   = "forbidden"
	VerdictUnavailable = "unavailable"
)
