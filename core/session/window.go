package session

import (
	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
)

// Context is what the model sees of the session.
type Context struct {
	Revision     int64          `json:"revision"`
	Instructions []ContextEntry `json:"instructions,omitempty"` // keyed, sorted by key
	Lead         []ContextEntry `json:"lead,omitempty"`         // the summary, and a repeated input, after a cut
	Entries      []ContextEntry `json:"entries,omitempty"`      // append-only
	Tokens       int64          `json:"tokens,omitempty"`       // estimate over Lead and Entries
	Observed     Observed       `json:"observed,omitzero"`
	Compaction   CompactionPlan `json:"compaction,omitzero"`
}

// Observed is what a provider counted for a prompt, at an entry: the estimate
// of a later prompt starts from it.
type Observed struct {
	Through  ident.EntryID `json:"through,omitempty"`
	At       ident.Instant `json:"at,omitempty"`       // or of a cut since: the prefix is new anyway
	Tokens   int64         `json:"tokens,omitempty"`   // as counted
	Estimate int64         `json:"estimate,omitempty"` // ours of the same prompt, uncorrected
}

// Compaction phases.
const (
	CompactionIdle    = ""
	CompactionPending = "pending"
	CompactionRuns    = "running"
	CompactionFails   = "failed"
)

// CompactionPlan is a summary wanted, being made, or given up.
type CompactionPlan struct {
	Phase   string        `json:"phase,omitempty"`
	Reason  string        `json:"reason,omitempty"`
	Through ident.EntryID `json:"through,omitempty"`
	// Attempt counts on, through whatever entries, while one of those is left in
	// the window: a claim that was given up must not come again after another
	// entry was tried, or had its summary, in between.
	Attempt int `json:"attempt,omitempty"`
	// Tried is the newest entry that a summary was tried through.
	Tried    ident.EntryID `json:"tried,omitempty"`
	Failures int           `json:"failures,omitempty"`
	FirstAt  ident.Instant `json:"firstAt,omitempty"`
	RetryAt  ident.Instant `json:"retryAt,omitempty"`
	Class    string        `json:"class,omitempty"`
	// FailedAt is the newest turn when it was given up: not tried again before
	// the model has been asked since.
	FailedAt ident.TurnID `json:"failedAt,omitempty"`
	Refused  *Failure     `json:"refused,omitempty"`
	Model    Model        `json:"model,omitzero"`
	// Interrupts counts attempts that ended without a word.
	Interrupts int `json:"interrupts,omitempty"`
}

// Roles of an entry.
const (
	RoleUser         = "user"
	RoleAssistant    = "assistant"
	RoleResults      = "results"
	RoleInstructions = "instructions"
)

// Sources of an entry.
const (
	FromInput   = "input"
	FromSteer   = "steer"
	FromModel   = "model"
	FromRuntime = "runtime"
	FromIntake  = "intake"
	FromEdit    = "edit"
	FromSummary = "summary"
)

// ContextEntry is one message of the window. It is never changed: an edit puts
// another in its place.
type ContextEntry struct {
	ID       ident.EntryID `json:"id"`
	Key      string        `json:"key,omitempty"`
	Role     string        `json:"role"`
	Source   string        `json:"source"`
	Run      ident.RunID   `json:"run,omitempty"`
	Turn     ident.TurnID  `json:"turn,omitempty"`
	Parts    []Part        `json:"parts,omitempty"`   // user, instructions
	Text     blob.Payload  `json:"text,omitzero"`     // assistant
	Item     *Item         `json:"item,omitempty"`    // assistant
	Calls    []EntryCall   `json:"calls,omitempty"`   // assistant
	Results  []EntryResult `json:"results,omitempty"` // results: one per call, in order
	Partial  bool          `json:"partial,omitempty"`
	Redacted bool          `json:"redacted,omitempty"`
	Tokens   int64         `json:"tokens"`
}

// EntryCall is a call as the model made it.
type EntryCall struct {
	Index      int          `json:"index"`
	ProviderID string       `json:"providerId,omitempty"`
	Tool       string       `json:"tool"`
	WireName   string       `json:"wireName"`
	Arguments  blob.Payload `json:"arguments,omitzero"`
}

// EntryResult is what the model reads as the result of a call. Edited is what
// a person made of the arguments, which the result then says.
type EntryResult struct {
	Index  int          `json:"index"`
	Status string       `json:"status"`
	Text   blob.Payload `json:"text,omitzero"`
	Error  bool         `json:"error,omitempty"`
	Edited blob.Payload `json:"edited,omitzero"`
}

// last is the newest entry's id.
func (c *Context) last() ident.EntryID {
	if n := len(c.Entries); n > 0 {
		return c.Entries[n-1].ID
	}
	return 0
}

// add appends an entry and counts it.
func (c *Context) add(e ContextEntry) {
	e.Tokens = estimateEntry(&e)
	c.Entries = append(c.Entries, e)
	c.Tokens += e.Tokens
	c.Revision++
}

// Token estimates are bytes over four plus a constant per message: crude, the
// same everywhere, and corrected by what the provider counts.
const (
	bytesPerToken   = 4
	tokensPerEntry  = 4
	tokensPerImage  = 1500
	tokensPerResult = 4
)

func estimateBytes(n int64) int64 { return (n + bytesPerToken - 1) / bytesPerToken }

func estimateParts(parts []Part) int64 {
	var n int64
	for _, p := range parts {
		if p.Blob != "" {
			n += max(tokensPerImage, estimateBytes(p.Size)/8)
			continue
		}
		n += estimateBytes(p.Text.Bytes())
	}
	return n
}

func estimateEntry(e *ContextEntry) int64 {
	n := tokensPerEntry + estimateParts(e.Parts) + estimateBytes(e.Text.Bytes())
	for _, c := range e.Calls {
		n += tokensPerResult + estimateBytes(int64(len(c.WireName))+c.Arguments.Bytes())
	}
	for _, r := range e.Results {
		n += tokensPerResult + estimateBytes(r.Text.Bytes()+r.Edited.Bytes())
	}
	return n
}

// PromptTokens estimates the whole prompt of the next request: instructions,
// tools and window, starting from what the provider last counted.
func (s *State) PromptTokens() int64 {
	c := &s.Context
	n := s.rawTokens()
	if o := c.Observed; o.Tokens > 0 && o.Through >= c.firstKept() {
		// The provider's own count replaces our estimate of the same prefix.
		n += o.Tokens - o.Estimate
	}
	return max(n, 0)
}

// rawTokens is the estimate without what a provider has counted.
func (s *State) rawTokens() int64 {
	c := &s.Context
	n := estimateBytes(s.Config.Instructions.Bytes()) + estimateBytes(s.Toolset.Size) + c.Tokens
	for i := range c.Instructions {
		n += c.Instructions[i].Tokens
	}
	return n
}

func (c *Context) firstKept() ident.EntryID {
	if len(c.Entries) > 0 {
		return c.Entries[0].ID
	}
	return 0
}
