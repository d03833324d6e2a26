// Package e2e asks a real server over HTTP, as its clients do, and looks at
// what it answers, at what reaches the model's server and outside tools, and at
// what is left after the server was killed.
//
// The suite knows a server by its base URL, a key and what can be done to it
// (restarted, killed, given files): here it builds the program and starts it.
// With -args -deployed the same tests run against the stack on a target of AWS
// (localstack/target), which is deployed there first if need be; or, with
// PERDURE_URL and PERDURE_KEY, against a server that is there already, can reach
// this machine, and knows the secret E2E_TOOL_SECRET.
//
// It has no code but tests. They may import any package of this module: for
// types, for the strict servers that stand in for the outside, and to read what
// a server keeps. What they claim, they see from outside.
package e2e
