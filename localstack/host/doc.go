// Package host holds LocalStack itself as a target of tests, without Docker, and
// the tests of how it runs functions there.
//
// It has no code but tests; the rest is Python and Java, which serve.py starts.
// It does not test what LocalStack answers, whose questions are in the folder
// above. It imports nothing.
package host
