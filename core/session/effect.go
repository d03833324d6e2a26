package session

import (
	"strconv"

	"github.com/perdure/perdure/core/ident"
)

// Effect is a description of outside work, to be done AFTER the commit that
// claims it. Its outcome returns as a command. The set is closed.
type Effect interface {
	// Claim names the effect: its outcome, and its cancellation, carry it.
	Claim() Claim
	effect()
}

// Claim kinds.
const (
	ClaimModel   = "model"
	ClaimTool    = "tool"
	ClaimLookup  = "lookup"
	ClaimCompact = "compact"
)

// Claim identifies one attempt of one effect.
type Claim struct {
	Kind    string
	Turn    ident.TurnID
	Call    int
	Through ident.EntryID
	Attempt int
}

func (c Claim) String() string {
	n := strconv.Itoa(c.Attempt)
	switch c.Kind {
	case ClaimModel:
		return "model " + c.Turn.String() + " attempt " + n
	case ClaimCompact:
		return "compact " + c.Through.String() + " attempt " + n
	}
	return c.Kind + " " + ident.CallID{Turn: c.Turn, Index: c.Call}.String() + " attempt " + n
}

type (
	// CallModel asks for a turn's answer. The request is rendered from state.
	CallModel struct {
		Run     ident.RunID
		Turn    ident.TurnID
		Attempt int
	}
	// RunTool runs one call. NotBefore delays it (a retry's back-off).
	RunTool struct {
		Run       ident.RunID
		Call      ident.CallID
		Attempt   int
		NotBefore ident.Instant
	}
	// LookupTool asks what became of a call.
	LookupTool struct {
		Run     ident.RunID
		Call    ident.CallID
		Attempt int
	}
	// Compact asks a model for a summary of the window through an entry.
	Compact struct {
		Through ident.EntryID
		Attempt int
	}
)

// Claim implements Effect.
func (e *CallModel) Claim() Claim {
	return Claim{Kind: ClaimModel, Turn: e.Turn, Attempt: e.Attempt}
}

// Claim implements Effect.
func (e *RunTool) Claim() Claim {
	return Claim{Kind: ClaimTool, Turn: e.Call.Turn, Call: e.Call.Index, Attempt: e.Attempt}
}

// Claim implements Effect.
func (e *LookupTool) Claim() Claim {
	return Claim{Kind: ClaimLookup, Turn: e.Call.Turn, Call: e.Call.Index, Attempt: e.Attempt}
}

// Claim implements Effect.
func (e *Compact) Claim() Claim {
	return Claim{Kind: ClaimCompact, Through: e.Through, Attempt: e.Attempt}
}

func (*CallModel) effect()  {}
func (*RunTool) effect()    {}
func (*LookupTool) effect() {}
func (*Compact) effect()    {}

// ClaimOf is the effect whose end a command tells, if it does.
func ClaimOf(c Command) (Claim, bool) {
	switch c := c.(type) {
	case *ModelOutcome:
		return Claim{Kind: ClaimModel, Turn: c.Turn, Attempt: c.Attempt}, true
	case *ToolOutcome:
		kind := ClaimTool
		if c.Lookup {
			kind = ClaimLookup
		}
		return Claim{Kind: kind, Turn: c.Call.Turn, Call: c.Call.Index, Attempt: c.Attempt}, true
	case *CompactionOutcome:
		return Claim{Kind: ClaimCompact, Through: c.Through, Attempt: c.Attempt}, true
	}
	return Claim{}, false
}

// InFlight lists the effects that state says are under way.
func (s *State) InFlight() []Effect {
	var out []Effect
	if r := s.Active; r != nil {
		if r.Turn.Status == TurnInFlight {
			out = append(out, &CallModel{Run: r.ID, Turn: r.Turn.ID, Attempt: r.Turn.Attempt})
		}
		if r.openBatch() {
			for i := range r.Batch.Calls {
				if e := r.Batch.Calls[i].inFlight(r); e != nil {
					out = append(out, e)
				}
			}
		}
	}
	if c := &s.Context.Compaction; c.Phase == CompactionRuns && c.RetryAt == 0 {
		out = append(out, &Compact{Through: c.Through, Attempt: c.Attempt})
	}
	return out
}

func (c *Call) inFlight(r *Run) Effect {
	if c.Status != CallRunning {
		return nil
	}
	id := ident.CallID{Turn: r.Batch.Turn, Index: c.Index}
	if c.LookingUp {
		return &LookupTool{Run: r.ID, Call: id, Attempt: c.Attempt}
	}
	return &RunTool{Run: r.ID, Call: id, Attempt: c.Attempt, NotBefore: c.NotBefore}
}

// Env is what a step is given beside state and input: the instant, whether the
// session's driver takes it, and what the driver's world offers now.
type Env struct {
	At ident.Instant
	// Driver allows events that claim an effect.
	Driver bool
	// Offer is what tools are served now; only a driver needs it.
	Offer Offer
	// InputLimit is the model's, in tokens; 0 is unknown.
	InputLimit int64
	// Priced says that the run's model has a price.
	Priced bool
	// InputPrice and OutputPrice are the model's, in millionths of a dollar
	// per million tokens: what a call may cost at worst is held against the
	// run's limit before it is made.
	InputPrice, OutputPrice int64
}

// Offer is the tools that are served now, sorted by name, with the reference
// of their rendered definitions.
type Offer struct {
	Tools []ToolDef
	Ref   string
	Size  int64
}

func (o *Offer) find(name string) *ToolDef {
	for i := range o.Tools {
		if o.Tools[i].Name == name {
			return &o.Tools[i]
		}
	}
	return nil
}
