package host

import "github.com/perdure/perdure/core/ident"

// Step asks for one slice of an activation's work: the next of its numbered
// steps. A machine that runs elsewhere counts them.
type Step struct {
	Key   Key
	Inc   string
	Epoch uint64
	// Number counts from 1 in each epoch.
	Number uint64
	// Recover says that the step before was lost: the activation is given up,
	// and the next one is started.
	Recover bool
	// Began is when the activation was started.
	Began ident.Instant
	// Until is when this process is cut off.
	Until ident.Instant
}

// What an activation does after a slice.
const (
	NextAgain = "again" // the next step, at once
	NextTools = "tools" // run Calls, each in a process of its own; then the next step
	NextWait  = "wait"  // park by Wait; when woken or timed out, the next step
	NextDone  = "done"  // end: the session rests, or another activation has it
)

// Next is what follows from a slice, as plain data.
type Next struct {
	Do     string
	Number uint64 // of the step to ask for next
	Calls  []CallRef
	Wait   Wait
}

// CallRef names one attempt of a tool call that runs in a process of its own.
// Its claim is durable.
type CallRef struct {
	Run     ident.RunID  `json:"run"`
	Call    ident.CallID `json:"call"`
	Attempt int          `json:"attempt"`
}

// Wait is what a driver planned to wait on: it may be parked as long as the
// head has this Rev and the claim (the step's epoch, Number, Attempt).
type Wait struct {
	Rev     uint64        `json:"rev"`
	Number  uint64        `json:"number"`
	Attempt int           `json:"attempt"`
	Until   ident.Instant `json:"until,omitempty"` // the session's deadline; 0: none
}
