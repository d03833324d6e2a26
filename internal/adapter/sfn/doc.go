// Package sfn starts, wakes and ends activations as executions of an AWS Step
// Functions state machine, and owns the data that moves in it: references and
// numbers, with a version, under 4 KB.
//
// It decides nothing: what an activation does next is the host's to say, and
// the machine itself is infra/asl/session.asl.json. It knows no functions and
// no Lambda types; a function hands it the event's bytes. It may import the AWS
// SDK, core/ident, core/session for its errors, and the host's ports.
package sfn
