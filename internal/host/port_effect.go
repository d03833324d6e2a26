package host

import (
	"context"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
)

// Classes of model and tool faults. Rate limit, server, timeout and network
// are retried; the others are final.
const (
	ClassAuthentication = "authentication"
	ClassAccess         = "access_denied"
	ClassNotFound       = "not_found"
	ClassInvalid        = "invalid_request"
	ClassRateLimit      = "rate_limit"
	ClassServer         = "server"
	ClassContentFilter  = "content_filter"
	ClassContextLength  = "context_length"
	ClassQuota          = "quota"
	ClassTimeout        = "timeout"
	ClassNetwork        = "network"
	ClassOther          = "other"
	ClassStopped        = "stopped" // this process is going down; not a failure
)

// Fault is a failed call of a provider or tool. Message is for people and
// carries no secret. RetryAfterMs is what the other side asked for (0: nothing).
// Sent is false when it is certain that nothing reached the other side.
type Fault struct {
	Class        string
	Message      string
	RetryAfterMs int64
	Sent         bool
	Usage        session.Usage
	Err          error
}

func (f *Fault) Error() string { return f.Class + ": " + f.Message }

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

// Message roles.
const (
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleTool      = "tool" // Results holds one result per call of the assistant message before it
)

// ModelPart is one resolved piece of a user message: text, or bytes with a
// media type.
type ModelPart struct {
	Text      string
	Data      []byte
	MediaType string
	Name      string
}

// ModelCall is a tool call that the model made, as it made it.
type ModelCall struct {
	ID        string // the provider's id, or ours (ident.CallID.String()) where it gave none
	Name      string // wire name
	Arguments string // JSON text as the model wrote it; not always valid JSON
}

// ModelToolResult answers one call.
type ModelToolResult struct {
	ID    string // of the ModelCall
	Name  string // wire name
	Text  string
	Error bool
}

// ModelItem is the provider's own form of an assistant message.
type ModelItem struct {
	Kind   string // adapter's name for the form, e.g. openai.chat
	Family string // models that accept it
	Data   string
}

// ModelMessage is one message of a request.
type ModelMessage struct {
	Role    string
	Parts   []ModelPart       // user
	Text    string            // assistant
	Calls   []ModelCall       // assistant
	Item    *ModelItem        // assistant; only when its family fits the request's model
	Results []ModelToolResult // tool
}

// ModelTool is an offered tool, in the order of the published definitions.
type ModelTool struct {
	WireName    string
	Description string
	Parameters  string // JSON Schema text
}

// ModelRequest is one model call. Rendering it must be a pure function of it:
// between two recorded cuts each request extends the one before byte for byte.
type ModelRequest struct {
	Tenant       ident.TenantID
	Session      ident.SessionID // cache key for providers that take one
	Attempt      string          // stable id of this attempt: run/turn/attempt, or compact/entry/attempt
	Model        session.Model
	Instructions []string
	Messages     []ModelMessage
	Tools        []ModelTool
	// NoTools keeps the definitions in the request and asks for none to be
	// called, where the provider can say so (the closing turn must not change
	// the prefix).
	NoTools bool
}

// Finish reasons of a model call.
const (
	FinishStop          = "stop"
	FinishTools         = "tools"
	FinishLength        = "length"
	FinishContentFilter = "content_filter"
)

// ModelResult is what a model answered.
type ModelResult struct {
	Text       string
	Calls      []ModelCall
	Item       *ModelItem
	Finish     string
	Model      string // as the provider reports it
	ResponseID string
	Usage      session.Usage
}

// Delta is a piece of an answer while it is made. Part is text, reasoning or
// arguments; Call is the index (from 1) for arguments.
type Delta struct {
	Part string
	Call int
	Text string
}

// ModelInfo is what is known of a model; zero fields are unknown.
type ModelInfo struct {
	InputLimit  int64 // tokens
	OutputLimit int64
	Family      string // items of this family may be sent back
	// Prices in millionths of a dollar per million tokens; Priced says that
	// they are known.
	Priced                          bool
	InputPrice, OutputPrice         int64
	CacheReadPrice, CacheWritePrice int64
}

// ModelPort calls models. One value serves one provider.
type ModelPort interface {
	// Info says what is known of a model, without a call.
	Info(m session.Model) ModelInfo
	// Generate makes one call. It streams what comes to sink (never nil), in
	// order, from one goroutine, and returns the whole. Tools are never run by
	// it. It returns a *Fault for whatever went wrong; a cancelled ctx gives
	// ctx.Err(). It retries nothing by itself.
	Generate(ctx context.Context, req ModelRequest, sink func(Delta)) (ModelResult, error)
}

// Models finds the port of a provider by the name that a config uses.
type Models interface {
	// Model returns ErrNotFound for a provider that the tenant does not have.
	Model(ctx context.Context, tenant ident.TenantID, m session.Model) (ModelPort, error)
}

// Tool is one offered tool: what the session records of it, and what the
// model reads.
type Tool struct {
	Def         session.ToolDef
	Description string
	Parameters  string // JSON Schema text
	// MaxOutput bounds the text that the model reads; 0 is
	// session.ToolTextMax.
	MaxOutput int64
	// RequiresRole, if set, is a role that the actor of the run must have.
	RequiresRole string
}

// ToolCall is what a tool gets.
type ToolCall struct {
	Key   Key
	Run   ident.RunID
	Call  ident.CallID
	Tool  string // name
	Actor session.Actor
	// Operation is the same for every attempt of this call: the idempotency
	// key for the other side.
	Operation string
	Attempt   int
	Arguments string // JSON, valid by the tool's schema
	// Token settles the call's promise from outside; empty if it has none.
	Token string
	// Deadline of the attempt; the ctx has it too.
	Deadline   ident.Instant
	Workspaces []session.Workspace
	Options    string // of the grant, JSON
}

// ToolResult is what a tool returns. A failure of the tool's own is Error set,
// with a text that the model reads; Go errors are for what kept it from
// running to an end.
type ToolResult struct {
	Text    string
	Error   bool
	Effects []session.ToolEffect
	// Accepted says that the other side took the work and will settle the
	// promise; Text is then empty.
	Accepted bool
}

// Screened is the verdict on one call, before anyone is asked.
type Screened struct {
	Tool    string // name, where the wire name is known
	Verdict string // session.Verdict…
	Problem string // what the model reads when it is not ok
	Control *session.Control
}

// Tools offers, screens and runs tools. Implementations are safe for
// concurrent use. Offer and Screen are asked in the midst of a session's work
// and answer from memory: they wait for nobody.
type Tools interface {
	// Offer returns the tools that a config grants and that are served now,
	// sorted by name, gates decided by the config's policy.
	Offer(ctx context.Context, key Key, cfg session.Config) ([]Tool, error)
	// Screen judges a call: granted, role, JSON, schema. offered is the offer
	// of the turn. It runs nothing.
	Screen(ctx context.Context, key Key, actor session.Actor, offered []session.ToolDef, wireName, arguments string) Screened
	// Run runs a call of class inline, joined or promise. A *Fault with a
	// retryable class may be retried if the tool is retry-safe; any other
	// error leaves the outcome unknown unless Sent is false.
	Run(ctx context.Context, call ToolCall) (ToolResult, error)
	// Lookup asks what became of an operation; found false means that the tool
	// cannot tell.
	Lookup(ctx context.Context, call ToolCall) (res ToolResult, found bool, err error)
}

// Frame is a live piece of a turn in flight: best effort, never stored.
type Frame struct {
	Run     ident.RunID
	Turn    ident.TurnID
	Attempt int
	Delta
	Offset int64 // bytes of the part before this piece
}

// Before says that f is of a lower turn or attempt than o.
func (f Frame) Before(o Frame) bool {
	return f.Turn < o.Turn || f.Turn == o.Turn && f.Attempt < o.Attempt
}

// Frames carries live deltas to whoever watches. Implementations never block:
// what they have to wait for, they do beside the call. Frames of a lower attempt
// than one seen before are dropped.
type Frames interface {
	PublishFrame(key Key, f Frame)
	// TurnOver says that an attempt has ended, and that the log says how: what
	// it said so far may be forgotten.
	TurnOver(key Key, turn ident.TurnID, attempt int)
}

// LiveFrames is the other end of Frames: what serves those who watch.
type LiveFrames interface {
	// WatchFrames begins to gather a session's frames. wake is called, from any
	// goroutine and perhaps for nothing, when there is something to take; it
	// must not block. Whoever watches closes.
	WatchFrames(ctx context.Context, key Key, wake func()) FrameWatch
}

// FrameWatch gathers the frames of one session, within bounds.
type FrameWatch interface {
	// Take returns what has come since it was last called, in order. whole says
	// that it is all that is known of the attempt in flight, a frame a part, in
	// the place of what came before: so it is at first, and after frames were
	// lost.
	Take() (frames []Frame, whole bool)
	// Close ends the watch. Closing again does nothing.
	Close()
}

// BlobText is a convenience for what a payload resolves to.
type BlobText struct {
	Text    string
	Ref     blob.Ref
	Size    int64
	Preview string
}
