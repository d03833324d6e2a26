// Package e2e asks a real server over HTTP, as its clients do, and looks at
// what it answers, at what reaches the model's server and outside tools, and at
// what is left after the server was killed.
//
// The suite knows a server by its base URL, a key and what can be done to it
// (restarted, killed, given files): here it builds the program and starts it,
// elsewhere the same tests run against what has been deployed
// (go test ./e2e -args -deployed, with PERDURE_URL and PERDURE_KEY, on a machine
// that the server can reach; the server knows the secret E2E_TOOL_SECRET).
//
// It has no code but tests. They may import any package of this module: for
// types, for the strict servers that stand in for the outside, and to read what
// a server keeps. What they claim, they see from outside.
package e2e
