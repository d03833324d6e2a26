// Package wire is the stored form of what a session is made of: the envelope of
// an event, the frame of a checkpoint, and the canonical form that is hashed.
// README.md beside this file describes each of them by the byte.
//
// It encodes, decodes, brings older versions of an event up to the current one,
// and hashes. It stores nothing, folds nothing and decides nothing. It may
// import core/ident, core/blob and core/session, and the standard library's
// allow-list of the core.
package wire

//go:generate go test -count=1 ./internal/gen -update
//go:generate go test -count=1 -run "TestFixtures|TestSchemas" . -update
