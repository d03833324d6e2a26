// Package floats computes inexactly: each marked line is one finding.
package floats

import (
	"math"
	"strconv"
)

type price float64 // want float

type bill struct {
	total float32 // want float
	paid  int64
}

type sealed interface {
	complex128 | int // want float
}

const half = 0.5 // want float

const million = 1e6 // want float

func root(n int64) int64 {
	return int64(math.Sqrt(float64(n))) // want float
}

func parse(s string) error {
	_, err := strconv.ParseFloat(s, 64) // want float

	return err
}

func inferred(n int64) bool {
	x := math.Pi // want float

	return n > 3 && x > 3 // want float
}

func fine(n int64) int64 { return n*3/2 + math.MaxInt32 + million/1_000 } // want float
