// Package ident holds the typed names of things and the instant: what a
// session, a run, a call is called, and how such a name is checked and printed.
//
// It has no clock and mints nothing that is random: numeric ids come from
// cursors in a session's state, string ids from the caller, and time is an
// argument. It imports only the standard library's fmt, errors, strconv and
// strings, and may import nothing else of this module.
package ident

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// MaxBytes is the longest string id, in bytes.
const MaxBytes = 128

// Instant is a point in time: milliseconds since 1970-01-01T00:00:00Z.
type Instant int64

// Add returns the instant ms milliseconds later.
func (i Instant) Add(ms int64) Instant { return i + Instant(ms) }

// Millis are durations in milliseconds.
const (
	Second int64 = 1000
	Minute       = 60 * Second
	Hour         = 60 * Minute
	Day          = 24 * Hour
)

// Seq is a position in one session's log; the first event has 1.
type Seq uint64

// String ids. The zero value is "none".
type (
	// TenantID is the isolation boundary: it is part of every key.
	TenantID string
	// SessionID names a session within a tenant.
	SessionID string
	// SubmissionID is a caller's idempotency key, unique in a session.
	SubmissionID string
)

// Numeric ids come from per-session cursors and so are gapless.
type (
	// RunID is printed run_<n>.
	RunID uint64
	// TurnID is printed turn_<n>.
	TurnID uint64
	// SteeringID is printed steering_<n>.
	SteeringID uint64
	// ApprovalID is printed approval_<n>.
	ApprovalID uint64
	// QuestionID is printed question_<n>.
	QuestionID uint64
	// PromiseID is printed promise_<n>.
	PromiseID uint64
	// EntryID is printed entry_<n>.
	EntryID uint64
)

// CallID is a tool call's identity: ours, not the provider's. Index counts
// from 1 within the turn.
type CallID struct {
	Turn  TurnID `json:"turn"`
	Index int    `json:"index"`
}

// ErrID is wrapped by every failed Parse; the message names the rule and byte.
var ErrID = errors.New("bad id")

func (id RunID) String() string      { return "run_" + strconv.FormatUint(uint64(id), 10) }
func (id TurnID) String() string     { return "turn_" + strconv.FormatUint(uint64(id), 10) }
func (id SteeringID) String() string { return "steering_" + strconv.FormatUint(uint64(id), 10) }
func (id ApprovalID) String() string { return "approval_" + strconv.FormatUint(uint64(id), 10) }
func (id QuestionID) String() string { return "question_" + strconv.FormatUint(uint64(id), 10) }
func (id PromiseID) String() string  { return "promise_" + strconv.FormatUint(uint64(id), 10) }
func (id EntryID) String() string    { return "entry_" + strconv.FormatUint(uint64(id), 10) }

func (id CallID) String() string {
	return "call_" + strconv.FormatUint(uint64(id.Turn), 10) + "_" + strconv.Itoa(id.Index)
}

// ParseSessionID checks a session id: 1 to 128 bytes, the first a letter or
// digit of ASCII, the others also one of _ . : -. No slash, because ids are
// parts of paths and keys.
func ParseSessionID(s string) (SessionID, error) { return SessionID(s), check("session id", s) }

// ParseTenantID checks a tenant id by the rule of ParseSessionID.
func ParseTenantID(s string) (TenantID, error) { return TenantID(s), check("tenant id", s) }

// ParseName checks any other name that follows the rule of ParseSessionID;
// what says which name it is, for the message.
func ParseName(what, s string) (string, error) { return s, check(what, s) }

// ParseSubmissionID checks an idempotency key: 1 to 128 visible ASCII bytes.
func ParseSubmissionID(s string) (SubmissionID, error) {
	if s == "" || len(s) > MaxBytes {
		return "", fmt.Errorf("%w: submission id has %d bytes, allowed are 1 to %d", ErrID, len(s), MaxBytes)
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return "", fmt.Errorf("%w: submission id has byte 0x%02x at %d, allowed is visible ASCII", ErrID, s[i], i)
		}
	}
	return SubmissionID(s), nil
}

func check(what, s string) error {
	if s == "" || len(s) > MaxBytes {
		return fmt.Errorf("%w: %s has %d bytes, allowed are 1 to %d", ErrID, what, len(s), MaxBytes)
	}
	for i := range len(s) {
		c := s[i]
		alnum := c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
		if alnum || i > 0 && strings.IndexByte("_.:-", c) >= 0 {
			continue
		}
		return fmt.Errorf("%w: %s has byte 0x%02x at %d, allowed are letters, digits and, after the first, _ . : -", ErrID, what, c, i)
	}
	return nil
}

// ParseRunID reads what RunID.String prints.
func ParseRunID(s string) (RunID, error) {
	n, err := number("run_", s)
	return RunID(n), err
}

// ParseTurnID reads what TurnID.String prints.
func ParseTurnID(s string) (TurnID, error) {
	n, err := number("turn_", s)
	return TurnID(n), err
}

// ParseSteeringID reads what SteeringID.String prints.
func ParseSteeringID(s string) (SteeringID, error) {
	n, err := number("steering_", s)
	return SteeringID(n), err
}

// ParseApprovalID reads what ApprovalID.String prints.
func ParseApprovalID(s string) (ApprovalID, error) {
	n, err := number("approval_", s)
	return ApprovalID(n), err
}

// ParseQuestionID reads what QuestionID.String prints.
func ParseQuestionID(s string) (QuestionID, error) {
	n, err := number("question_", s)
	return QuestionID(n), err
}

// ParsePromiseID reads what PromiseID.String prints.
func ParsePromiseID(s string) (PromiseID, error) {
	n, err := number("promise_", s)
	return PromiseID(n), err
}

// ParseEntryID reads what EntryID.String prints.
func ParseEntryID(s string) (EntryID, error) {
	n, err := number("entry_", s)
	return EntryID(n), err
}

// ParseCallID reads what CallID.String prints.
func ParseCallID(s string) (CallID, error) {
	rest, ok := strings.CutPrefix(s, "call_")
	turn, index, found := strings.Cut(rest, "_")
	if !ok || !found {
		return CallID{}, fmt.Errorf("%w: %q is not call_<turn>_<index>", ErrID, clip(s))
	}
	t, err := number("", turn)
	if err != nil {
		return CallID{}, err
	}
	n, err := number("", index)
	if err != nil || n > 1<<20 {
		return CallID{}, fmt.Errorf("%w: %q is not call_<turn>_<index>", ErrID, clip(s))
	}
	return CallID{Turn: TurnID(t), Index: int(n)}, nil
}

// number accepts the canonical form only (no sign, no leading zero), so that
// one thing has one name.
func number(prefix, s string) (uint64, error) {
	digits, ok := strings.CutPrefix(s, prefix)
	if !ok || digits == "" || digits[0] < '1' || digits[0] > '9' {
		return 0, fmt.Errorf("%w: %q is not %s<number>", ErrID, clip(s), prefix)
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%w: %q is not %s<number>", ErrID, clip(s), prefix)
	}
	return n, nil
}

func clip(s string) string {
	const most = 40
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
