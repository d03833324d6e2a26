// Package lambda is the family of outside tools that are a customer's functions
// on AWS Lambda.
//
// A call is one synchronous invocation, never repeated here: whether a call may
// be made twice is for the session to say. The payload is the call as
// internal/tool/outside describes it; that the caller may invoke the function is
// proof enough of who calls, so it carries no signature. The answer is the
// result as JSON, or an object of nothing but result, text, error, effects and
// accepted.
//
// It makes no connection: an Invoker does. It may import the standard library,
// core, the host's ports and internal/tool.
package lambda
