package cloud

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/host"
)

// own knows what of AWS is the stack itself. Its functions and queues believe
// what they are sent, whoever the event says that it is of: none of them is a
// tool, whatever rights the roles were given.
type own struct {
	stack string
	work  string // URL of the queue that tools may send to
}

// ownOf is that of a function's stack: its functions are called after the two.
func ownOf(set env.Function, role string) own {
	stack, _ := strings.CutSuffix(set.Name, "-"+role)
	return own{stack: stack, work: set.Work}
}

// function says whether a name or an ARN, with or without a version, is that of
// a function of the stack. The account and region are not looked at: a stack of
// the same name elsewhere is no tool either.
func (o own) function(text string) bool {
	if _, name, long := strings.Cut(text, ":function:"); long {
		text = name
	}
	name, _, _ := strings.Cut(text, ":")
	role, of := strings.CutPrefix(name, o.stack+"-")
	return of && slices.Contains(env.FunctionNames(), role)
}

const (
	refusedFunction = "function is one of Perdure's own, which no tool is"
	refusedQueue    = "queue is not the stack's work queue, which is the only one that calls are sent to: leave it out"
)

// ownStore is the api.ToolStore that takes no such tool.
type ownStore struct {
	api.ToolStore

	own own
}

// PutTool implements api.ToolStore.
func (s ownStore) PutTool(ctx context.Context, tenant ident.TenantID, t api.Tool) (created bool, err error) {
	switch {
	case s.own.function(t.Function):
		return false, &host.Rejection{Code: host.CodeValidation, Message: refusedFunction}
	case t.Queue != "" && t.Queue != s.own.work:
		return false, &host.Rejection{Code: host.CodeValidation, Message: refusedQueue}
	}
	return s.ToolStore.PutTool(ctx, tenant, t)
}

// ownFunctions invokes none of them either: a definition may be older than the
// name of the stack.
type ownFunctions struct {
	Functions

	own own
}

// Invoke implements Functions.
func (f ownFunctions) Invoke(ctx context.Context, function string, payload []byte) (answer []byte, failed bool, err error) {
	if f.own.function(function) {
		return nil, false, &host.Fault{Class: host.ClassAccess, Message: refusedFunction}
	}
	return f.Functions.Invoke(ctx, function, payload)
}

// readsOnly lets a function that has no right to write answer so. Without it a
// command that was sent to the wrong address might be taken as far as the rights
// go, and wait for the sweep to be carried out. public is where commands go, empty
// if the function does not know: that of streams does not where URLs are the
// front door.
func readsOnly(next http.Handler, public string) http.Handler {
	to := "the API's own"
	if public != "" {
		to = public
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Allow", "GET, HEAD")
		answer(w, problem{
			Type: "urn:perdure:problem:" + string(host.CodeInvalid), Title: "Method not allowed", Status: http.StatusMethodNotAllowed,
			Code: string(host.CodeInvalid), Detail: "this address is for reading: send commands to " + to,
		})
	})
}

// readyFor is how long an answer that all is well is good. The question takes no
// key, and each time that it is asked of AWS costs.
const readyFor = 5 * ident.Second

// emulated says that all of AWS's services are at a loopback address: that of one
// alone may be any proxy, on a machine that is AWS's.
func emulated(set env.Function, lookup env.Lookup) bool {
	if !set.Emulated {
		return false
	}
	for _, service := range []string{"DYNAMODB", "S3", "SFN", "SQS", "SECRETS_MANAGER", "LAMBDA"} {
		if at, there := lookup(env.AWSEndpointURL + "_" + service); there && at != "" {
			return false
		}
	}
	text, _ := lookup("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")
	ignored, err := strconv.ParseBool(text)
	return !ignored && (err == nil || text == "")
}
