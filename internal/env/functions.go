package env

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Names of variables that are AWS's, and are there in every function.
const (
	AWSFunction = "AWS_LAMBDA_FUNCTION_NAME"
	// AWSEndpointURL is where the services of AWS are, if not at their own
	// addresses: an emulator. The SDK reads it too.
	AWSEndpointURL = "AWS_ENDPOINT_URL"
)

// Function is what a function takes from the environment.
type Function struct {
	// Name is the whole name under which it is deployed.
	Name string

	Table, Bucket, Machine                 string
	Inbox, Outbox, Work                    string
	KeySecret, SigningSecret, OpenAISecret string

	OpenAIBaseURL, OpenAIModel string
	// PublicURL is where clients find the API, without a slash at its end.
	PublicURL string
	// StreamURL is where clients find streams, without a slash at its end.
	StreamURL string
	// Secrets is the prefix of entries that tools may name.
	Secrets string

	RolloverSteps uint64 // 0: the engine's own
	SliceTurns    int    // 0: the engine's own
	PurgeAgainMs  int64  // 0: the engine's own

	AllowPrivate bool
	// Emulated says that AWS's services are at a loopback address.
	Emulated bool
}

// ParseFunction reads a function's settings. needs are the names of the
// variables that it cannot do without. An error names each variable that is
// wrong and says what to do.
func ParseFunction(lookup Lookup, needs ...string) (Function, error) {
	f := Function{
		Name:  lookup.get(AWSFunction, "perdure"),
		Table: lookup.get(Table, ""), Bucket: lookup.get(Bucket, ""), Machine: lookup.get(Machine, ""),
		Inbox: lookup.get(Inbox, ""), Outbox: lookup.get(Outbox, ""), Work: lookup.get(Work, ""),
		KeySecret: lookup.get(KeySecret, ""), SigningSecret: lookup.get(SigningSecret, ""), OpenAISecret: lookup.get(OpenAISecret, ""),
		OpenAIBaseURL: lookup.get(OpenAIBaseURL, ""), OpenAIModel: lookup.get(OpenAIModel, DefaultModel),
		PublicURL: strings.TrimRight(lookup.get(PublicURL, ""), "/"), StreamURL: strings.TrimRight(lookup.get(StreamURL, ""), "/"),
		Secrets:  lookup.get(Secrets, ""),
		Emulated: isLoopbackURL(lookup.get(AWSEndpointURL, "")),
	}
	var errs []error
	for _, name := range needs {
		if lookup.get(name, "") == "" {
			errs = append(errs, fmt.Errorf("%s is not set: the stack sets it, so deploy it again, or set it yourself (%s)", name, purposeOf(name)))
		}
	}
	f.RolloverSteps = whole[uint64](lookup, RolloverSteps, &errs)
	f.SliceTurns = whole[int](lookup, SliceTurns, &errs)
	f.PurgeAgainMs = whole[int64](lookup, PurgeAgain, &errs) * 1000
	var err error
	f.AllowPrivate, _, err = lookup.flag(AllowPrivate)
	errs = append(errs, err, checkURL(OpenAIBaseURL, f.OpenAIBaseURL), checkURL(PublicURL, f.PublicURL), checkURL(StreamURL, f.StreamURL))
	return f, errors.Join(errs...)
}

// purposeOf is what a variable is for, in brackets.
func purposeOf(name string) string {
	for _, v := range functionVariables() {
		if v.Name == name {
			purpose, _, _ := strings.Cut(v.Purpose, ":")
			return strings.TrimSuffix(purpose, ".")
		}
	}
	return "docs/VARIABLES.md says to what"
}

// wholeMost is above every number that makes sense here, and small enough to be
// multiplied.
const wholeMost = 1e9

// whole reads a whole number above 0; 0 if it is not there.
func whole[T int | int64 | uint64](lookup Lookup, name string, errs *[]error) T {
	text := lookup.get(name, "")
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || n == 0 || n > wholeMost {
		*errs = append(*errs, fmt.Errorf("%s is %q: write a whole number from 1 to %d, or leave it out", name, text, int(wholeMost)))
		return 0
	}
	return T(n)
}

// isLoopbackURL says whether an address is on this machine.
func isLoopbackURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return false
	}
	name := u.Hostname()
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.Unmap().IsLoopback()
}
