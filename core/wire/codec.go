package wire

import (
	"fmt"

	"github.com/perdure/perdure/core/session"
)

// Codec encodes and decodes envelopes. The zero Codec knows the kinds of this
// build, and there is no other outside the tests of this package, which give it
// kinds with a past.
type Codec struct {
	forms []form
}

// form is one version of one kind: a type, the walk over it, and the step to
// the type of the next version. The latest version of a kind has no step, and
// its type is the event.
type form struct {
	kind    session.Kind
	version int
	blank   func() any
	walk    func(visitor, any) bool
	up      func(any) any
}

// older are the versions before the latest one, of every kind that has any.
// When a kind's meaning changes, its type as it was moves into this package
// under a name with its version, and gets a row here; the fixture of that
// version stays and keeps the row honest.
func older() []form { return nil }

// version is the latest version of a kind of this build: the one written.
func version(session.Kind) int {
	// A kind that has a second version becomes a case here.
	return 1
}

// current is the latest form of a kind and a zero event of it.
func (c Codec) current(kind session.Kind) (form, any, bool) {
	for _, f := range c.forms {
		if f.kind == kind && f.up == nil {
			return f, f.blank(), true
		}
	}
	if event := blank(kind); event != nil {
		return form{kind: kind, version: version(kind), walk: walkCurrent}, event, true
	}
	return form{}, nil, false
}

// form is one version of a kind and a zero value of it; false when it is newer
// than this build.
func (c Codec) form(kind session.Kind, v int) (form, any, bool) {
	f, event, ok := c.current(kind)
	if !ok || v > f.version {
		return form{}, nil, false
	}
	if v == f.version {
		return f, event, true
	}
	return c.past(kind, v)
}

func (c Codec) past(kind session.Kind, v int) (form, any, bool) {
	for _, forms := range [...][]form{c.forms, older()} {
		for _, f := range forms {
			if f.kind == kind && f.version == v {
				return f, f.blank(), true
			}
		}
	}
	return form{}, nil, false
}

// upcast brings what was read as a form up to the latest version, one version
// at a time.
func (c Codec) upcast(f form, value any) (session.Event, error) {
	for f.up != nil {
		value = f.up(value)
		next, _, ok := c.form(f.kind, f.version+1)
		if !ok {
			return nil, fmt.Errorf("%w: kind %s stops at version %d", ErrMalformed, f.kind, f.version)
		}
		f = next
	}
	event, ok := value.(session.Event)
	if !ok {
		return nil, fmt.Errorf("%w: kind %s, version %d is no event", ErrMalformed, f.kind, f.version)
	}
	return event, nil
}

func walkCurrent(v visitor, value any) bool {
	event, ok := value.(session.Event)
	return ok && walkEvent(v, event)
}
