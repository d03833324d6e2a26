// Package lintkit reads a source tree and reports what breaks the rules of the
// house: who may import whom, what the core must not contain, what the host
// must not start, how long a file may be, what a package comment has to say.
//
// Every check is a function over a file system, so that its own test can hand
// it a miniature tree that obeys and one that does not. The checks run from
// arch_test.go, core/purity_test.go and internal/host/starts_nothing_test.go.
// They parse in process and start no subprocess: the test cache only knows of
// files that the test itself has opened, and would go on saying "ok" after a
// violation that a child process was to find.
//
// It fixes nothing, formats nothing and knows nothing of sessions. It may
// import the standard library only, and only tests may import it.
package lintkit
