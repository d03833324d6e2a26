package tool

import (
	"context"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/host"
)

// Kinds of tool.
const (
	KindRead   = "read"   // changes nothing
	KindAction = "action" // asks first, unless policy says otherwise
	KindAgent  = "agent"  // delegates
)

// Spec is one tool as its family defines it.
type Spec struct {
	Name        string
	Kind        string
	Class       string // session.Class…; empty is inline
	Description string // for the model: what it does, what the arguments mean
	Parameters  string // JSON Schema text of an object
	RetrySafe   bool   // running twice does what running once does
	Parallel    bool   // may overlap other calls of its batch
	DeadlineMs  int64
	MaxOutput   int64
	// RequiresRole, if set, is a role that the actor must have.
	RequiresRole string
	// Invalid, if set, says why the tool must not be offered.
	Invalid error
	// Target says what the tool acts on. It is part of what an approval binds:
	// a tool that is pointed elsewhere is another tool.
	Target string
	// TargetFor adds to Target what the session's config decides.
	TargetFor func(cfg session.Config) string
	// Control reads the arguments of one of the session's own tools. Such a
	// tool has no Run.
	Control func(arguments map[string]any) (*session.Control, error)
	// Run does the work. See host.Tools.
	Run func(ctx context.Context, call host.ToolCall) (host.ToolResult, error)
	// Lookup says what became of an operation; nil when the tool cannot tell.
	Lookup func(ctx context.Context, call host.ToolCall) (host.ToolResult, bool, error)
}

// Outside knows the tools that a tenant has set up. It is asked for every
// offer and every call, so an implementation answers from memory.
type Outside interface {
	OutsideTools(ctx context.Context, tenant ident.TenantID) ([]Spec, error)
}

// Quarantined is a tool that is left out of every offer, and why. The others
// of its tenant are not affected.
type Quarantined struct {
	Name   string
	Reason string
}

// isControl says whether the session itself does what a class asks for.
func isControl(class string) bool {
	switch class {
	case session.ClassSleep, session.ClassAwait, session.ClassDetach, session.ClassCancel, session.ClassAsk:
		return true
	}
	return false
}

// Failed is the result of a tool that did not do what was asked, with the text
// that the model reads.
func Failed(text string) host.ToolResult { return host.ToolResult{Text: text, Error: true} }
