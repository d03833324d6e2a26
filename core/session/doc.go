// Package session is what a session knows and decides: the events of its log,
// the state that they fold to, and the three verbs over it. Admit turns a
// command into events, a rejection or nothing; Apply folds an event; Plan says
// what follows from state alone, more events or effects to perform. Each file
// holds one sub-domain's slice of the three.
//
// It has no clock, performs nothing, stores nothing and keeps nothing between
// calls: time, ids and what the world offers are arguments, and what it was
// given it does not change. A state is copied by assignment; Own and Fork say
// who may fold into a copy.
//
// It imports the standard library's allow-list of the core, and may import
// core/ident and core/blob alone.
package session
