//go:build race

package host_test

// What is played by chance is played less often where each step costs ten times
// as much: one task runs at a time in the simulation, and races are not its point.
const (
	stormsPlayed = 40
	slicesPlayed = 1000
)
