// Package lambda invokes functions on AWS Lambda, and waits for what they
// answer.
//
// It never invokes again by itself, and its connection outlasts any function: a
// client that repeats what it has lost patience with starts the same work a
// second time. What a failed invocation means for a call it says as a
// host.Fault; whether to make another is for the session to decide. It knows no
// payloads. It may import the standard library, the AWS SDK, core and the
// host's ports.
package lambda
