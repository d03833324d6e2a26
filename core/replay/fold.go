package replay

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
)

// Fold reduces a log, as NDJSON from its first event, to the state after the
// event at upTo; 0 is the last one. An error names the line and wraps what
// wire.Decode or session.Apply said; Code tells which it was.
func Fold(log []byte, upTo ident.Seq) (session.State, error) {
	var s session.State
	s.Own()
	err := foldInto(&s, lines(log), upTo)
	return s, err
}

// foldInto folds lines that follow on s. It stops at upTo, which must be there.
func foldInto(s *session.State, lines [][]byte, upTo ident.Seq) error {
	for i, line := range lines {
		if upTo > 0 && s.Seq >= upTo {
			break
		}
		entry, err := wire.Decode(line)
		if err != nil {
			return fmt.Errorf("line %d: %w", i+1, err)
		}
		if err := session.Apply(s, entry); err != nil {
			return fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	if s.Seq < upTo {
		return fmt.Errorf("%w: event %d is wanted, the last one is %d", ErrShort, upTo, s.Seq)
	}
	return nil
}

// ErrShort is wrapped when a log ends before the position that was asked for.
var ErrShort = errors.New("the log is too short")

// Codes of what cannot be folded, beside those of divergences.
const (
	CodeNewer = "newer"
	CodeShort = "short"
)

// Code is why a log could not be folded: the code of its divergence (with that
// of what this package cannot read, wire.CodeMalformed), CodeNewer or
// CodeShort; empty for no error and for any other.
func Code(err error) string {
	var d *session.Divergence
	switch {
	case errors.As(err, &d):
		return d.Code
	case errors.Is(err, session.ErrNewer):
		return CodeNewer
	case errors.Is(err, ErrShort):
		return CodeShort
	}
	return ""
}

// lines are the envelopes of a log. The last line feed ends the last line, and
// an empty log has none; any other empty line is there, and is malformed.
func lines(log []byte) [][]byte {
	log = bytes.TrimSuffix(log, []byte("\n"))
	if len(log) == 0 {
		return nil
	}
	return bytes.Split(log, []byte("\n"))
}

// Lines prints every event of a log with StoredLine.
func Lines(log []byte) []string {
	all := lines(log)
	out := make([]string, 0, len(all))
	for _, line := range all {
		out = append(out, StoredLine(line))
	}
	return out
}
