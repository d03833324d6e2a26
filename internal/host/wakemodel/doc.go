// Package wakemodel is a model of how a session on AWS never loses a wake-up
// (DESIGN §4, I9): the head's drive status, the executions of the state
// machine, processes that admit, park and sweep, and whatever may go wrong
// between them. It explores every interleaving within its bounds and says, with
// a trace, where a protocol fails.
//
// The model keeps what the protocol decides by and nothing else. A rev, an epoch,
// a step's number and an attempt are compared with the head's only, so each is
// kept as the outcome of that comparison, and no number has to be cut off: a
// snapshot of the head is fresh until anybody writes it, a claim is whoever's
// claimed last, a step is the head's own or one ahead, and who knows an older
// epoch can do no more than find that out, so it is left out. What bounds the
// states is how many commands come in and how much goes wrong, and within that
// all of them are looked at.
//
// What stands for what in package host:
//
//	Head                 Head.Drive, Head.DueAt, and the row "park"
//	admitter.go          driver.command and owe, then discharge, call, complete
//	drive.go             Engine.Drive: Step.fence, driver.begin, the commits, conclude
//	mover.supersede      Engine.supersede: recovery, rollover, closed names, sweeps
//	mover.park           Engine.Park
//	tools                Engine.RunCall
//	sweeper.go           Engine.SweepOwed: tend, startAgain, lookAfter, giveUp
//	machine.go           infra/asl/session.asl.json: Model, Tools, Wait, Recover
//
// Time is not in it: whatever may happen may happen at once, so a sweep comes as
// early as it likes. Neither are quarantine, deletion, nor what is in the log.
//
// It does not touch the host, so the host may be held against it: Protocol.Moves
// says what may follow from a state. It may import the standard library only.
package wakemodel
