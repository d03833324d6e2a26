//go:build !race

package host_test

const (
	stormsPlayed = 200
	slicesPlayed = 10_000
)
