package lambda

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool"
	"github.com/perdure/perdure/internal/tool/outside"
)

// callVersion is the form of the payload.
const callVersion = 1

// joinedMs is how long a joined call may take whose definition does not say.
const joinedMs = 90 * ident.Second

// Invoker invokes functions. Implementations are safe for concurrent use.
type Invoker interface {
	// Invoke makes one invocation and waits for its answer. failed says that
	// the function failed; answer is then its error object. What kept the
	// invocation from coming to an end is a *host.Fault. It repeats nothing.
	Invoke(ctx context.Context, function string, payload []byte) (answer []byte, failed bool, err error)
}

// Caller makes the calls of all tools that are functions.
type Caller struct {
	Invoker Invoker
	// SettleURL is where a promise's token is settled, empty where the server
	// does not know its own address.
	SettleURL func(token string) string
}

// function is one tool.
type function struct {
	*Caller
	outside.Definition

	answers outside.Answers
}

// Spec is the tool of a definition. A joined call has no promise: the
// invocation is the wait, and its deadline the tool's.
func (c *Caller) Spec(d outside.Definition) tool.Spec {
	spec, result := d.Spec()
	f := &function{Caller: c, Definition: d, answers: outside.Answers{Who: "the tool's function", Result: result}}
	spec.Target, spec.Run = "lambda "+d.Function, f.run
	if d.Completion == outside.Joined {
		spec.Class = session.ClassInline
		if spec.DeadlineMs == 0 {
			spec.DeadlineMs = joinedMs
		}
	}
	return spec
}

func (f *function) run(ctx context.Context, call host.ToolCall) (host.ToolResult, error) {
	c := outside.NewCall(call, f.SettleURL)
	c.V, c.Tenant = callVersion, call.Key.Tenant
	payload, err := c.JSON()
	if err != nil {
		return host.ToolResult{}, err
	}
	answer, failed, err := f.Invoker.Invoke(ctx, f.Function, payload)
	switch {
	case err != nil:
		return host.ToolResult{}, err
	case failed:
		return broken(answer)
	}
	return f.answered(call, answer), nil
}

// members are those that make an object an answer in our form. One with any
// other is the result itself.
var members = []string{"accepted", "effects", "error", "result", "text"}

func (f *function) answered(call host.ToolCall, answer []byte) host.ToolResult {
	v, err := tool.ParseJSON(string(answer))
	if err != nil {
		return f.answers.Bad("with " + err.Error())
	}
	o, ok := v.(map[string]any)
	if !ok || len(o) == 0 {
		return f.result(v, nil)
	}
	said := 0
	for name := range o {
		if !slices.Contains(members, name) {
			return f.result(v, nil)
		}
		if name != "effects" {
			said++
		}
	}
	if said != 1 {
		return f.answers.Bad(`not with one of "result", "text", "error" and "accepted"`)
	}
	if problem, there := o["error"]; there {
		return f.answers.Problem(problem, o["effects"])
	}
	if accepted, there := o["accepted"]; there {
		switch {
		case accepted != true:
			return f.answers.Bad(`its "accepted" is not true`)
		case call.Token == "":
			return f.answers.Bad(`that it was accepted, which only a tool whose completion is promise may answer`)
		}
		return host.ToolResult{Accepted: true}
	}
	value, there := o["result"]
	if !there {
		if value, ok = o["text"].(string); !ok {
			return f.answers.Bad(`its "text" is no text`)
		}
	}
	return f.result(value, o["effects"])
}

// result is one, with the effect that an action has by itself.
func (f *function) result(value, effects any) host.ToolResult {
	res := f.answers.Value(value, effects)
	if !res.Error && f.Kind == tool.KindAction {
		res.Effects = slices.Insert(res.Effects, 0, session.ToolEffect{Kind: "lambda.invoked", Subject: f.Function})
	}
	return res
}

// failure is what Lambda says of a function that failed. The stack trace is the
// owner's to read, in the function's log.
type failure struct {
	Message string `json:"errorMessage"`
	Type    string `json:"errorType"`
}

// cutOff are the types of failure in which the function did not come to say
// anything: how far it got is not known.
var cutOff = []string{"Runtime.ExitError", "Runtime.OutOfMemory", "Runtime.Unknown", "Sandbox.Failure", "Extension.Crash"}

// timedOut is the message of a function that ran into its own timeout, which
// older runtimes give no type.
const timedOut = `Task timed out after [0-9]+(\.[0-9]+)? seconds$`

// broken is the result of a function that failed. What it has said itself is a
// result; where it was cut off nobody knows what it did.
func broken(answer []byte) (host.ToolResult, error) {
	var f failure
	// An error object that cannot be read has no message.
	_ = json.Unmarshal(answer, &f)
	late, err := regexp.MatchString(timedOut, f.Message)
	switch {
	case f.Type == "Sandbox.Timedout" || err == nil && late:
		return host.ToolResult{}, &host.Fault{Class: host.ClassTimeout, Message: "the tool's function ran into its timeout", Sent: true}
	case slices.Contains(cutOff, f.Type):
		return host.ToolResult{}, &host.Fault{Class: host.ClassServer, Message: "the tool's function ended without an answer (" + f.Type + ")", Sent: true}
	}
	text := "the tool's function failed"
	if said := strings.TrimSpace(f.Message); said != "" {
		text += ": " + said
	} else if f.Type != "" {
		text += fmt.Sprintf(" (%s)", f.Type)
	}
	return tool.Failed(blob.Cut(text, session.ErrorTextMax)), nil
}
