// Package variables keeps state where no fold can see it: each marked line is
// one finding.
package variables

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"example.com/fixture/clean"
)

type rejection struct{ code string }

func (r *rejection) Error() string { return r.code }

type table struct{ hits int }

func (t *table) hit()     {}
func (t table) look() int { return t.hits }

var (
	ErrClosed = errors.New("closed")
	ErrBusy   = &rejection{code: "busy"}
	ErrLater  error // want variable

	errOld = fmt.Errorf("old: %w", ErrClosed)
)

var _ error = (*rejection)(nil)

var kinds = map[string]int{"a": 1}

var order = []string{"a", "b"}

var magic = [4]byte{1, 2, 3, 4}

var zero = table{}

var rows = [...][]int{{1}, {2}}

var Public = []string{"anyone may assign"} // want variable

var counter int // want variable

var limit = 5 // want variable

var hook = func() {} // want variable

var made = make(map[string]int) // want variable

var built = build() // want variable

var pointed = &table{} // want variable

func build() []string { return nil }

func write() {
	kinds["b"] = 2                       // want table-write
	order[0] = "z"                       // want table-write
	order = nil                          // want table-write
	zero.hits++                          // want table-write
	ErrClosed = nil                      // want table-write
	delete(kinds, "a")                   // want table-write
	clear(order)                         // want table-write
	copy(magic[:], "abcd")               // want table-write
	slices.Sort(order)                   // want table-write
	_ = append(order[:1], "x")           // want table-write
	_ = &zero                            // want table-write
	(order) = nil                        // want table-write
	clean.ErrInvalid = nil               // want table-write
	slices.Sort[[]string](order)         // want table-write
	zero.hit()                           // want table-write
	for _, order[0] = range []string{} { // want table-write
	}
}

func lend() ([]string, holder) {
	return order, // want table-lent
		holder{kinds: kinds} // want table-lent
}

func row(i int) []int {
	return rows[i] // want table-lent
}

type holder struct{ kinds names }

func (h holder) String() string { return h.kinds.String() }

type names map[string]int

func (n names) String() string { return "" }

func read(key string) (int, error) {
	order := append(order, "c")
	order[0] = "shadowed"

	if !bytes.Equal(magic[:], []byte(key)) || !slices.Contains(order, key) {
		return kinds[key], errors.Join(errOld, ErrBusy)
	}

	return zero.look() + len(rows), ErrClosed
}

func copied() []string { return slices.Clone(order) }
