// Package openaitest is a server that speaks the Chat Completions protocol for
// tests: it answers what it was told to, and refuses what the real one refuses,
// in the real one's form. A request that it refuses for its shape fails the
// test that made the server.
//
// It makes up no answers, and it does not compare one request with another. It
// may import the standard library only, so that tests of any package, and a
// process of its own, can use it.
package openaitest
