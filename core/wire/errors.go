package wire

import (
	"errors"
	"fmt"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
)

// Errors of encoding and decoding. The third, session.ErrNewer, is wrapped when
// a line is of a kind or version that only a newer build knows.
var (
	// ErrMalformed is wrapped by every *MalformedError.
	ErrMalformed = errors.New("malformed envelope")
	// ErrUnencodable is wrapped when an event has no stored form: text that is
	// not UTF-8, a broken reference, a position or time out of range.
	ErrUnencodable = errors.New("event cannot be stored")
	// ErrTooLarge is wrapped when a line would be longer than LineMax.
	ErrTooLarge = errors.New("envelope is too large")
)

// CodeMalformed is the Divergence code of a line that this build should
// understand and cannot.
const CodeMalformed = "malformed_event"

// MalformedError says where stored bytes are not what this package writes. It
// matches ErrMalformed, and is a *session.Divergence to errors.As, so that a
// host quarantines a session for it as for any other log that it cannot fold.
type MalformedError struct {
	Seq    ident.Seq // 0 when the damage comes before it is known
	Offset int       // byte of the line, from 0
	Detail string
}

func (e *MalformedError) Error() string {
	return fmt.Sprintf("%s: byte %d: %s", ErrMalformed, e.Offset, e.Detail)
}

// Unwrap makes it match.
func (e *MalformedError) Unwrap() []error {
	return []error{ErrMalformed, &session.Divergence{
		Seq: e.Seq, Code: CodeMalformed, Detail: fmt.Sprintf("byte %d: %s", e.Offset, e.Detail),
	}}
}
