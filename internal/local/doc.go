// Package local is the server that one person runs: every port of the host on
// this machine (SQLite, folders, goroutines), the HTTP API over it, and what a
// first minute needs (a key that the commands find, a demo session).
//
// It is a program as a type: a main starts it, a test starts it on a free port.
// It decides nothing about sessions, reads no variable of the environment (its
// Config says it all) and prints nothing but through the logger that it is
// given. It may import everything but mains.
package local
