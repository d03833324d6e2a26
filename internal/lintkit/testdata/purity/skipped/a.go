// Package skipped is linked into tests only, so it may do as it likes.
package skipped

var Count float64

func Start() { go func() { Count++ }() }
