package session

import "github.com/perdure/perdure/core/ident"

// Bounds. Everything that a session holds has one; what happens at a bound is
// said with it. "Refused" is the rejection limit_reached.
const (
	QueueMax        = 32   // queued runs; refused
	SteersMax       = 16   // steers not yet delivered, per run; refused
	CallsMax        = 32   // tool calls of one turn; the others get not_run
	CallsKept       = 40   // tool calls of one turn that are recorded at all; of a model that has run wild the rest is dropped
	InFlightMax     = 8    // calls running at once; the others wait
	PromisesMax     = 32   // pending promises; the call fails
	ApprovalsMax    = 32   // pending approvals (a batch has at most CallsMax)
	QuestionsMax    = 32   // pending questions; the call fails
	SettledMax      = 64   // settled promises an await may still read; oldest forgotten
	PartsMax        = 16   // parts of an input; refused
	AwaitMax        = 32   // promises of one await, detach or cancel; the call is invalid
	ItemsMax        = 5    // items of a question; the call is invalid
	QuestionTextMax = 2800 // bytes of a question's prompts, options and defaults; the call is invalid
	FreeTextMax     = 1000 // bytes of free text in one answer, so that a model reads all of question and answer inline; refused
	EffectsMax      = 16   // effects that one call reports; the others are dropped
	KeyedMax        = 64   // keyed context entries of a session; refused
	RememberedMax   = 64   // remembered grants; refused
	UnknownsMax     = 32   // unknown calls a run guards against repeating; oldest forgotten
	RepeatsTracked  = 64   // tool-and-argument pairs whose failures are counted; oldest forgotten
	PlanRounds      = 64   // rounds of Plan in one step; more is a Divergence
	BatchEventsMax  = 256
	ToolTextMax     = 64 << 10 // bytes of a tool's text that the model reads
	ErrorTextMax    = 16 << 10 // bytes of an error text
	NoteMax         = 2000     // bytes of a decision's note; refused
	DeadTextMax     = 200      // bytes of what is noted of a dead command; cut
	SleepMax        = 365 * ident.Day
	PromiseMax      = 365 * ident.Day
	PromiseDefault  = ident.Day
	CancelWatchdog  = 60 * ident.Second // from the cancel event until it is forced
	ToolAbsentMax   = 10 * ident.Minute // a call waits this long for a tool that nobody serves
	ShortWait       = 5 * ident.Second  // a longer pause is a wait, not a sleep in the slice
	FailuresMax     = 15                // failed attempts of one model call
	TryingMax       = 15 * ident.Minute // since the first attempt of one model call
	InterruptsMax   = 5                 // attempts of one effect that ended without a word
	RetryFirst      = 2 * ident.Second  // doubles
	RetryMost       = 60 * ident.Second
	ToolAttemptsMax = 3
	ToolRetryFirst  = ident.Second // doubles
	ContextTriesMax = 2            // compactions after a context-limit answer, per run
	DefaultTurns    = 50
	DefaultRepeats  = 3
	DefaultOutput   = 4096 // tokens a model call may answer with when nothing says otherwise
)
