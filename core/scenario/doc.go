// Package scenario plays scripts against the core: a session in a world that
// the script makes up, with a clock that stands still unless it is moved, tools
// and a model that answer what the script says, and crashes where it says so.
//
// A script says one verb a block and what comes of it: the entries that are
// appended, the effects to start and to stop, the next wake, what was refused.
// After every step the laws of the core are checked (laws.go), and each script
// is played twice side by side: warm, on one machine, and cold, on a machine
// folded anew from the encoded log before each step. Both must say the same.
//
// It performs no effect, knows no host and stores nothing. It is linked into
// tests only; it may import the core, datadriven and testify's require.
package scenario
