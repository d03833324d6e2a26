package target

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"testing"
)

// Capability is something that AWS shows and that another target may not. What
// it is called is what a skipped test says, and docs/TARGETS.md.
type Capability string

// Of DynamoDB.
const (
	Conflicts    Capability = "TransactionConflict between transactions at once"
	Throttling   Capability = "requests refused for their rate"
	StaleIndexes Capability = "a global index that lags behind its table"
	Expiry       Capability = "items removed by their TTL attribute"
)

// Of Step Functions.
const (
	HistoryLimits Capability = "25,000 events an execution"
	MapHistory    Capability = "events of each iteration of a Map"
	// Stopping is what StopExecution is documented to do, with no word of its
	// task's end: the history has TaskStateAborted and ExecutionAborted, and a token
	// is good no more.
	// https://docs.aws.amazon.com/step-functions/latest/apireference/API_StopExecution.html
	Stopping Capability = "executions that end as soon as they are stopped"
	// DeadTokens are documented to be refused with TaskTimedOut.
	// https://docs.aws.amazon.com/step-functions/latest/apireference/API_SendTaskSuccess.html#API_SendTaskSuccess_Errors
	DeadTokens Capability = "a task token that is refused once its task is over, while its execution goes on"
)

// Of S3.
const (
	// ConditionalDeletes are documented for general purpose buckets.
	// https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-deletes.html
	ConditionalDeletes Capability = "DeleteObject with If-Match"
	// KeyOrder is documented to be that of keys in UTF-8, and StartAfter to be a
	// key; EncodingType is about how keys are written in the answer.
	// https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html
	KeyOrder Capability = "a listing with EncodingType that goes on after a key"
)

// Of Lambda, SQS and HTTP.
const (
	HTTPAPI        Capability = "an HTTP API (API Gateway v2)"
	ReservedDeploy Capability = "reserved concurrency from a template"
)

// Of what is round a service.
const (
	Permissions Capability = "IAM policies that are enforced"
	Reach       Capability = "functions that reach servers and files of the test's machine"
)

// Capabilities says what a target shows as AWS does.
type Capabilities struct {
	// Name is the target's, for messages: AWS, the emulator, LocalStack.
	Name string
	// Arch is the architecture of functions that it runs, as in GOARCH.
	Arch string
	// cannot has what the target does not show, and why not.
	cannot map[Capability]string
}

// Shows says whether the target shows something as AWS does.
func (c Capabilities) Shows(what Capability) bool {
	_, not := c.cannot[what]
	return !not
}

// Why says why the target does not show something, empty if it does.
func (c Capabilities) Why(what Capability) string { return c.cannot[what] }

// Lacks lists what the target does not show, sorted.
func (c Capabilities) Lacks() []Capability { return slices.Sorted(maps.Keys(c.cannot)) }

// Need skips a test that wants to see what the target cannot show.
func (t Target) Need(tb testing.TB, what Capability) {
	tb.Helper()
	if !t.Can.Shows(what) {
		tb.Skip(t.Can.refusal(what))
	}
}

func (c Capabilities) refusal(what Capability) string {
	return fmt.Sprintf("%s cannot show %s: %s", c.Name, what, c.cannot[what])
}

// Names of targets, as questions and tables use them.
const (
	NameAWS        = "AWS"
	NameEmulator   = "the emulator"
	NameLocalStack = "LocalStack"
)

// Known lists what is known of each kind of target; docs/TARGETS.md is made
// from it.
func Known() []Capabilities { return []Capabilities{amazon, emulated, localstack} }

// What is known of each kind of target. localstack/README.md says how it was
// found out.
var (
	amazon = Capabilities{Name: NameAWS, Arch: "arm64", cannot: map[Capability]string{ //nolint:exhaustive // the rest can be seen
		Reach: "a function there reaches nothing on the machine of whoever runs the tests",
	}}
	emulated = Capabilities{Name: NameEmulator, Arch: runtime.GOARCH, cannot: map[Capability]string{ //nolint:exhaustive // the rest can be seen
		Conflicts:     "it carries out one transaction after the other",
		Throttling:    "it takes whatever comes",
		StaleIndexes:  "an index is the table itself",
		Expiry:        "it removes nothing by itself",
		HistoryLimits: "it does not count",
		MapHistory:    "the history has the Map alone",
		Permissions:   "it looks at no policy",
	}}
	// LocalStack's free edition, of which 4.14.0 is the last.
	localstack = Capabilities{Name: NameLocalStack, Arch: runtime.GOARCH, cannot: map[Capability]string{ //nolint:exhaustive // the rest can be seen
		Conflicts:          "DynamoDB Local carries out one transaction after the other",
		Throttling:         "it takes whatever comes, unless it is told to fail at random",
		StaleIndexes:       "DynamoDB Local's indexes are written with the table",
		Expiry:             "it removes expired items only when it is told to, for which AWS has no request",
		HistoryLimits:      "it does not count",
		Stopping:           "a stopped execution goes on until its task has ended, a wait for a token until that is used or its time is over",
		DeadTokens:         "it takes a token as long as its execution runs, to no effect",
		ConditionalDeletes: "it answers 501 NotImplemented",
		KeyOrder:           "it compares keys as they are encoded: one beyond ASCII, as %C3%A9, comes before all letters",
		HTTPAPI:            "the free edition has no API Gateway v2",
		ReservedDeploy:     "its CloudFormation drops ReservedConcurrentExecutions; the request of Lambda's own works",
		Permissions:        "the free edition looks at no policy",
	}}
	// Of others nothing is taken for granted that one of the two above does not
	// show: MiniStack as it comes, and LocalStack's other editions.
	other = Capabilities{Name: "the endpoint", Arch: runtime.GOARCH, cannot: neither()}
)

func neither() map[Capability]string {
	unknown := make(map[Capability]string)
	for _, known := range []Capabilities{emulated, localstack} {
		for _, what := range known.Lacks() {
			if what != HTTPAPI { // for which the stack is deployed otherwise
				unknown[what] = "nobody has asked it"
			}
		}
	}
	return unknown
}
