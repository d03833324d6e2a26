// Package scripted is a model without a model: it needs no key, no network and
// no luck. The model "demo" shows the product to somebody who has configured
// nothing yet; "script" does what its params say, for tests from outside; and a
// Script answers tests within one process, step by step.
//
// Demo and script are pure functions of the request: they decide from the
// messages alone and keep nothing, so a restart changes nothing. All three
// refuse a request that a real provider would refuse.
//
// It may import the standard library, the host's ports and core.
package scripted
