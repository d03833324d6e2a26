// Package maps walks maps: each marked line is one finding.
package maps

import (
	"iter"
	"maps"
	"slices"
)

type index map[string]int

func plain(m map[string]int) (keys []string) {
	for k := range m { // want map-order
		keys = append(keys, k)
	}

	return keys
}

func named(m index) {
	for range m { // want map-order
	}
}

func generic[M ~map[string]int](m M) {
	for range m { // want map-order
	}
}

type bound interface{ ~map[string]int }

func bounded[M bound](m M) {
	for range m { // want map-order
	}

	for range maps.Keys[M](m) { // want map-order
	}
}

func keys(m map[string]int) {
	for range maps.Keys(m) { // want map-order
	}

	for range own(m) { // want map-order
	}
}

func own(m map[string]int) iter.Seq[string] {
	return maps.Keys(m)
}

func marked(m map[string]int) (sum int) {
	//core:unordered addition does not care
	for _, v := range m {
		sum += v
	}

	for _, v := range m { //core:unordered addition does not care
		sum += v
	}

	return sum
}

func markedWithoutReason(m map[string]int) (sum int) {
	//core:unordered
	for _, v := range m { // want^ mark
		sum += v
	}

	return sum
}

func markedInVain(s []int) (sum int) {
	//core:unordered a slice has an order of its own
	for _, v := range s { // want^ mark
		sum += v
	}

	return sum
}

func fine(m map[string][]int, s []string) {
	for range m["one"] {
	}

	for range slices.Values(s) {
	}

	for range len(m) {
	}
}
