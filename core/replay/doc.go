// Package replay reads a history, the stored envelopes of one session as NDJSON:
// it folds one, prints its events a line each, and explains the first
// difference between two histories or two states.
//
// It fetches nothing and writes nothing; it decides nothing that the reducer
// does not. It may import core/ident, core/blob, core/session, core/wire and
// core/machine, and the standard library's allow-list of the core.
package replay
