// Package queue is the family of outside tools whose calls outside workers take
// from a queue. A call is one message; the answer comes through the call's
// promise, whose token is the only credential that leaves.
//
// A message holds the call as internal/tool/outside describes it, in ASCII
// alone, because queues refuse some characters. Arguments over InlineMax are
// not in it: the worker fetches them with the promise's token. Queues deliver a
// message more than once by themselves, so a worker has to know an operation id
// that it has seen; and so sending a call again is harmless, and every tool of
// this family is retry-safe.
//
// It knows no queue: a Sender does. It may import the standard library, core,
// the host's ports and internal/tool.
package queue
