package session

import (
	"errors"
	"fmt"

	"github.com/perdure/perdure/core/ident"
)

// Code is a stable name for why something was refused. The HTTP API shows it
// as it is.
type Code string

// Codes of rejections, as in the API.
const (
	CodeInvalid            Code = "invalid_request"
	CodeForbidden          Code = "forbidden"
	CodeNotFound           Code = "not_found"
	CodeRevisionConflict   Code = "revision_conflict"
	CodeSubmissionConflict Code = "submission_conflict"
	CodeSessionClosed      Code = "session_closed"
	CodeSessionOpen        Code = "session_open"
	CodeSessionBusy        Code = "session_busy"
	CodeQuarantined        Code = "session_quarantined"
	CodeRunNotActive       Code = "run_not_active"
	CodeAlreadyDecided     Code = "already_decided"
	CodeExpired            Code = "expired"
	CodeAlreadyExists      Code = "already_exists"
	CodeLimitReached       Code = "limit_reached"
	CodeTooLarge           Code = "too_large"
	CodeValidation         Code = "validation_failed"
)

// Rejection is a command refused: expected, coded, harmless. Nothing was
// written and the state is as it was.
type Rejection struct {
	Code    Code
	Message string
	// Limit, Actual and Max are set for limit_reached.
	Limit       string
	Actual, Max int64
	// Expected and Current are set for revision_conflict.
	Expected, Current int64
	// Decision is set for already_decided: what was decided, by whom and when.
	Decision *Decided
}

// Decided is what a person finds when another decided first.
type Decided struct {
	Status string
	By     string
	At     ident.Instant
}

func (r *Rejection) Error() string { return string(r.Code) + ": " + r.Message }

func reject(code Code, message string) *Rejection { return &Rejection{Code: code, Message: message} }

func rejectf(code Code, format string, args ...any) *Rejection {
	return reject(code, fmt.Sprintf(format, args...))
}

func bound(what string, actual, most int64) *Rejection {
	return &Rejection{Code: CodeLimitReached, Message: fmt.Sprintf("%s: %d, allowed are %d", what, actual, most), Limit: what, Actual: actual, Max: most}
}

func stale(what string, expected, current int64) *Rejection {
	return &Rejection{Code: CodeRevisionConflict, Message: fmt.Sprintf("%s is at revision %d, not %d", what, current, expected), Expected: expected, Current: current}
}

// Divergence is a broken invariant: this build's rules and the log disagree, or
// a planner does not come to rest. The session is quarantined with it; nothing
// loops and nothing is guessed.
type Divergence struct {
	Seq    ident.Seq
	Code   string
	Detail string
}

func (d *Divergence) Error() string {
	return fmt.Sprintf("divergence %s at %d: %s", d.Code, d.Seq, d.Detail)
}

func diverge(code, format string, args ...any) *Divergence {
	return &Divergence{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// ErrNewer is wrapped when the log holds what a newer build wrote: not damage,
// but not for this build. It writes nothing and leaves the session to a newer
// one.
var ErrNewer = errors.New("written by a newer build")
