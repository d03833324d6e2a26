package wire

import "github.com/perdure/perdure/core/blob"

// A walk is a function that shows a visitor the fields of one type in their
// declared order. The walks (zz_*.go) are generated from the types, so that
// reading, writing and hashing can neither forget a field nor disagree on its
// place. Each of the three is a visitor: reader, writer, canon.
//
// A key is the bytes that stand before a value, `"run":`; it is empty for the
// values of a list.
type visitor interface {
	str(key string, p *string, optional bool)
	boolean(key string, p *bool, optional bool)
	uint64(key string, p *uint64, optional bool)
	int64(key string, p *int64, optional bool)
	int(key string, p *int, optional bool)
	payload(key string, p *blob.Payload, optional bool)

	// open begins a struct and reports whether its fields are to be walked;
	// then end follows, told whether an optional one came out empty.
	open(key string, optional, empty bool) bool
	end(optional, empty bool)
	// present is open for a pointer.
	present(key string, isSet bool) bool
	// openList begins a list of n values and reports whether they are to be
	// walked; then more says if there is a next one after i, and endList
	// follows.
	openList(key string, n int, optional bool) bool
	more(i, n int) bool
	endList(n int, optional bool)
}

const (
	must = false // the field is always written
	opt  = true  // the field is left out when it is empty
)

// object walks a struct that is always written.
func object[T any](v visitor, key string, p *T, walk func(visitor, *T)) {
	if v.open(key, must, false) {
		walk(v, p)
		v.end(must, false)
	}
}

// omitzero walks a struct that is left out when it is zero.
func omitzero[T any](v visitor, key string, p *T, zero func(*T) bool, walk func(visitor, *T)) {
	if v.open(key, opt, zero(p)) {
		walk(v, p)
		v.end(opt, zero(p))
	}
}

// pointer walks a struct that is left out when the pointer is nil.
func pointer[T any](v visitor, key string, p **T, walk func(visitor, *T)) {
	if v.present(key, *p != nil) {
		if *p == nil {
			*p = new(T)
		}
		walk(v, *p)
		v.end(must, false)
	}
}

// list walks a list of structs.
func list[T any](v visitor, key string, p *[]T, optional bool, walk func(visitor, *T)) {
	if !v.openList(key, len(*p), optional) {
		return
	}
	for i := 0; v.more(i, len(*p)); i++ {
		object(v, "", slot(p, i), walk)
	}
	v.endList(len(*p), optional)
}

// pointers walks a list of pointers to structs, none of them nil.
func pointers[T any](v visitor, key string, p *[]*T, optional bool, walk func(visitor, *T)) {
	if !v.openList(key, len(*p), optional) {
		return
	}
	for i := 0; v.more(i, len(*p)); i++ {
		if i == len(*p) {
			*p = append(*p, new(T))
		}
		at := (*p)[i]
		if at == nil {
			at = new(T)
		}
		object(v, "", at, walk)
	}
	v.endList(len(*p), optional)
}

// values walks a list of anything else.
func values[T any](v visitor, key string, p *[]T, optional bool, walk func(visitor, *T)) {
	if !v.openList(key, len(*p), optional) {
		return
	}
	for i := 0; v.more(i, len(*p)); i++ {
		walk(v, slot(p, i))
	}
	v.endList(len(*p), optional)
}

// slot is element i, made when a reader is about to fill it.
func slot[T any](p *[]T, i int) *T {
	if i == len(*p) {
		var zero T
		*p = append(*p, zero)
	}
	return &(*p)[i]
}

func isZero[T comparable](p *T) bool {
	var zero T
	return *p == zero
}

// hollow reports a struct in which nothing is set.
func hollow[T any](p *T, walk func(visitor, *T)) bool {
	var v prober
	walk(&v, p)
	return !v.found
}

// prober is the visitor that looks for anything that is set.
type prober struct{ found bool }

func (v *prober) see(set bool) { v.found = v.found || set }

func (v *prober) str(_ string, p *string, _ bool)           { v.see(*p != "") }
func (v *prober) boolean(_ string, p *bool, _ bool)         { v.see(*p) }
func (v *prober) uint64(_ string, p *uint64, _ bool)        { v.see(*p != 0) }
func (v *prober) int64(_ string, p *int64, _ bool)          { v.see(*p != 0) }
func (v *prober) int(_ string, p *int, _ bool)              { v.see(*p != 0) }
func (v *prober) payload(_ string, p *blob.Payload, _ bool) { v.see(*p != blob.Payload{}) }
func (v *prober) open(string, bool, bool) bool              { return true }
func (v *prober) end(bool, bool)                            {}
func (v *prober) openList(_ string, n int, _ bool) bool     { v.see(n > 0); return false }
func (v *prober) more(int, int) bool                        { return false }
func (v *prober) endList(int, bool)                         {}

func (v *prober) present(_ string, isSet bool) bool {
	v.see(isSet)
	return false
}
