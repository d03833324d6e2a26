// Package bars counts what sessions cost on AWS: request units of DynamoDB by
// its own rules, objects, state transitions. It drives the host as the functions
// do, with the table and the bucket of a target, and a state machine by hand.
//
// It has no code but tests. They may import any package of this module.
package bars
