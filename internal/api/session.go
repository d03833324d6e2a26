package api

import "github.com/danielgtaylor/huma/v2"

// Session is one durable conversation.
type Session struct {
	ID                   string            `json:"id"`
	Name                 string            `json:"name,omitempty"`
	Title                string            `json:"title" doc:"The name, else the beginning of the first run's text."`
	Status               string            `json:"status" enum:"open,closed"`
	Activity             string            `json:"activity" enum:"quarantined,cancelling,running,waiting,compacting,idle"`
	CreatedAt            Time              `json:"createdAt"`
	UpdatedAt            Time              `json:"updatedAt"`
	ClosedAt             Time              `json:"closedAt,omitzero"`
	Metadata             map[string]string `json:"metadata"`
	Config               Config            `json:"config"`
	ConfigRevision       int64             `json:"configRevision"`
	Head                 uint64            `json:"head" doc:"Position of the last event."`
	ActiveRun            *Run              `json:"activeRun,omitempty"`
	QueuedRuns           []Run             `json:"queuedRuns"`
	Remembered           []Remembered      `json:"remembered"`
	Workspaces           []Workspace       `json:"workspaces"`
	Context              ContextSummary    `json:"context"`
	DeleteAfterCloseDays *int64            `json:"deleteAfterCloseDays,omitempty"`
	DeleteAt             Time              `json:"deleteAt,omitzero"`
	Quarantine           *Quarantine       `json:"quarantine,omitempty"`
	StreamURL            string            `json:"streamUrl" doc:"Where the session can be followed: absolute, and perhaps of another origin."`
	Usage                SessionUsage      `json:"usage"`
}

// SessionSummary is a session as lists show it.
type SessionSummary struct {
	ID                   string            `json:"id"`
	Name                 string            `json:"name,omitempty"`
	Title                string            `json:"title"`
	Status               string            `json:"status" enum:"open,closed"`
	Activity             string            `json:"activity" enum:"quarantined,cancelling,running,waiting,compacting,idle"`
	CreatedAt            Time              `json:"createdAt"`
	UpdatedAt            Time              `json:"updatedAt"`
	ClosedAt             Time              `json:"closedAt,omitzero"`
	Metadata             map[string]string `json:"metadata"`
	Model                string            `json:"model,omitempty"`
	Head                 uint64            `json:"head"`
	DeleteAfterCloseDays *int64            `json:"deleteAfterCloseDays,omitempty"`
	DeleteAt             Time              `json:"deleteAt,omitzero"`
	Quarantine           *Quarantine       `json:"quarantine,omitempty"`
}

// Remembered lets calls of one definition of a tool run unasked.
type Remembered struct {
	Tool       string `json:"tool"`
	Definition string `json:"definition"`
	By         string `json:"by"`
	At         Time   `json:"at"`
}

// Quarantine says why a session is frozen.
type Quarantine struct {
	Seq    uint64 `json:"seq"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// ContextSummary says how large the context is.
type ContextSummary struct {
	Revision   int64  `json:"revision"`
	Tokens     int64  `json:"tokens,omitempty" doc:"An estimate."`
	Entries    int    `json:"entries"`
	Compaction string `json:"compaction" enum:"idle,pending,running,failed"`
}

// SessionUsage counts over a session's life.
type SessionUsage struct {
	InputTokens  int64 `json:"inputTokens"`
	OutputTokens int64 `json:"outputTokens"`
	CostUSD      *USD  `json:"costUsd,omitempty"`
	Runs         int64 `json:"runs"`
	ModelCalls   int64 `json:"modelCalls"`
	ToolCalls    int64 `json:"toolCalls"`
}

// CreateSession asks for a session, and for its first run if there is input.
type CreateSession struct {
	ID                   string            `json:"id,omitempty" pattern:"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$" patternDescription:"letters, digits and, after the first, _ . : -; at most 128" doc:"The server makes one if it is left out."`
	Name                 string            `json:"name,omitempty" maxLength:"200"`
	Config               *Config           `json:"config,omitempty"`
	Metadata             map[string]string `json:"metadata,omitempty"`
	DeleteAfterCloseDays *int64            `json:"deleteAfterCloseDays,omitempty" minimum:"0" maximum:"36500"`
	Workspaces           []Workspace       `json:"workspaces,omitempty" maxItems:"16" doc:"Short for config.workspaces."`
	Input                *Input            `json:"input,omitempty"`
	SubmissionID         string            `json:"submissionId,omitempty" minLength:"1" maxLength:"128" pattern:"^[!-~]+$" patternDescription:"1 to 128 visible ASCII characters" doc:"Of the first run."`
}

// PatchSession changes what lists show of a session.
type PatchSession struct {
	Name                 Maybe[string] `json:"name,omitzero" doc:"null takes the name away."`
	Metadata             MetadataPatch `json:"metadata,omitempty" doc:"Merged; null removes a key."`
	DeleteAfterCloseDays Maybe[int64]  `json:"deleteAfterCloseDays,omitzero" doc:"null keeps the session."`
}

// MetadataPatch is merged into a session's metadata; nil removes a key.
type MetadataPatch map[string]*string

// Schema implements huma.SchemaProvider.
func (MetadataPatch) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: &huma.Schema{Type: huma.TypeString, Nullable: true}}
}

// Context is what the model sees of a session.
type Context struct {
	Revision   int64          `json:"revision"`
	Entries    []ContextEntry `json:"entries"`
	Tokens     int64          `json:"tokens,omitempty" doc:"An estimate."`
	Compaction string         `json:"compaction" enum:"idle,pending,running,failed"`
}

// ContextEntry is one message of the context.
type ContextEntry struct {
	ID       string          `json:"id"`
	Key      string          `json:"key,omitempty"`
	Role     string          `json:"role" enum:"instructions,user,assistant,results"`
	Source   string          `json:"source"`
	RunID    string          `json:"runId,omitempty"`
	TurnID   string          `json:"turnId,omitempty"`
	Parts    []Part          `json:"parts,omitempty"`
	Text     Text            `json:"text,omitzero"`
	Calls    []ContextCall   `json:"calls,omitempty"`
	Results  []ContextResult `json:"results,omitempty"`
	Partial  bool            `json:"partial,omitempty"`
	Redacted bool            `json:"redacted,omitempty"`
	Tokens   int64           `json:"tokens" doc:"An estimate."`
}

// ContextCall is a call as the model made it.
type ContextCall struct {
	ID        string `json:"id"`
	Tool      string `json:"tool"`
	Arguments Value  `json:"arguments,omitempty"`
}

// ContextResult is what the model reads as the result of a call.
type ContextResult struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Text   Text   `json:"text,omitzero"`
	Error  bool   `json:"error,omitempty"`
}

// PatchContext edits the context between turns.
type PatchContext struct {
	Put     []ContextPut     `json:"put,omitempty" maxItems:"64"`
	Remove  []string         `json:"remove,omitempty" maxItems:"64"`
	Replace []ContextReplace `json:"replace,omitempty" maxItems:"64"`
}

// ContextPut puts an entry under a key.
type ContextPut struct {
	Key   string `json:"key" doc:"Under instructions. for instructions, and nowhere near it for anything else."`
	Role  string `json:"role" enum:"user,instructions"`
	Input Input  `json:"input"`
}

// ContextReplace gives an entry another text; null redacts it.
type ContextReplace struct {
	Entry string        `json:"entry"`
	Text  Maybe[string] `json:"text" required:"true"`
}

// ContextPatched is what became of each edit, in the order put, remove,
// replace.
type ContextPatched struct {
	Revision int64        `json:"revision"`
	Results  []EditResult `json:"results"`
}

// EditResult is what became of one edit.
type EditResult struct {
	Key    string `json:"key,omitempty"`
	Entry  string `json:"entry,omitempty"`
	Status string `json:"status" enum:"applied,unchanged,removed,absent,failed"`
	Code   string `json:"code,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// CloseSession ends a session; with force whatever it is doing.
type CloseSession struct {
	Force bool `json:"force,omitempty"`
}

// Empty is a body that says nothing.
type Empty struct{}
