package api

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/perdure/perdure/internal/host"
)

// Codes of problems that no rejection of the core carries.
const (
	codeUnauthenticated host.Code = "unauthenticated"
	codeUnavailable     host.Code = "unavailable"
	codeInternal        host.Code = "internal"
)

// kind is what all problems of one code have in common.
type kind struct {
	status int
	title  string
}

// kinds is every code that this build answers with. docs/ERRORS.md says the
// same for people; a test compares the two.
var kinds = map[host.Code]kind{
	host.CodeInvalid:            {http.StatusBadRequest, "The request is malformed"},
	codeUnauthenticated:         {http.StatusUnauthorized, "No valid credential"},
	host.CodeForbidden:          {http.StatusForbidden, "Not allowed"},
	host.CodeNotFound:           {http.StatusNotFound, "Not found"},
	host.CodeRevisionConflict:   {http.StatusConflict, "Changed meanwhile"},
	host.CodeSubmissionConflict: {http.StatusConflict, "The idempotency key was used for something else"},
	host.CodeSessionClosed:      {http.StatusConflict, "The session is closed"},
	host.CodeSessionOpen:        {http.StatusConflict, "The session is open"},
	host.CodeSessionBusy:        {http.StatusConflict, "The session is busy"},
	host.CodeQuarantined:        {http.StatusConflict, "The session is quarantined"},
	host.CodeRunNotActive:       {http.StatusConflict, "The run is not active"},
	host.CodeAlreadyDecided:     {http.StatusConflict, "Decided already"},
	host.CodeExpired:            {http.StatusConflict, "Expired"},
	host.CodeAlreadyExists:      {http.StatusConflict, "Exists already"},
	host.CodeLimitReached:       {http.StatusConflict, "A limit is reached"},
	host.CodeTooLarge:           {http.StatusRequestEntityTooLarge, "Too large"},
	host.CodeValidation:         {http.StatusUnprocessableEntity, "The request is not valid"},
	codeInternal:                {http.StatusInternalServerError, "Something went wrong here"},
	codeUnavailable:             {http.StatusServiceUnavailable, "Not available now"},
}

// problemType begins the type of every problem; the code follows.
const problemType = "urn:perdure:problem:"

// Problem is the answer to a request that was not carried out (RFC 9457).
type Problem struct { //nolint:errname // RFC 9457 calls it so, and so do clients
	Type   string       `json:"type"`
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Detail string       `json:"detail,omitempty"`
	Code   string       `json:"code"`
	Errors []FieldError `json:"errors,omitempty" doc:"Where the request is wrong. Never repeats what was sent."`
	// Limit, Actual and Max say which bound was met.
	Limit string `json:"limit,omitempty"`
	// Expected and Actual are revisions; Actual alone is what was decided.
	Expected          Value  `json:"expected,omitempty"`
	Actual            Value  `json:"actual,omitempty"`
	Max               Value  `json:"max,omitempty"`
	DecidedBy         string `json:"decidedBy,omitempty"`
	DecidedAt         Time   `json:"decidedAt,omitzero"`
	RetryAfterSeconds int    `json:"retryAfterSeconds,omitempty"`

	allow string // of a 405
}

// FieldError is one thing that is wrong with a request.
type FieldError struct {
	Location string `json:"location"`
	Message  string `json:"message"`
}

// Error implements error.
func (p *Problem) Error() string { return p.Code + ": " + p.Detail }

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType implements huma.ContentTypeFilter.
func (p *Problem) ContentType(string) string { return problemMedia }

const problemMedia = "application/problem+json"

// GetHeaders implements huma.HeadersError.
func (p *Problem) GetHeaders() http.Header {
	h := http.Header{}
	if p.RetryAfterSeconds > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfterSeconds))
	}
	if p.Code == string(codeUnauthenticated) {
		h.Set("WWW-Authenticate", `Bearer realm="perdure"`)
	}
	if p.allow != "" {
		h.Set("Allow", p.allow)
	}
	return h
}

// write answers with the problem, outside huma.
func (p *Problem) write(w http.ResponseWriter) {
	body, err := encode(p)
	if err != nil {
		http.Error(w, p.Title, p.Status) // every field is a plain one: this cannot be
		return
	}
	h := w.Header()
	maps.Copy(h, p.GetHeaders())
	h.Set("Content-Type", problemMedia)
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	w.WriteHeader(p.Status)
	// Who is gone needs no answer.
	_, _ = w.Write(append(body, '\n'))
}

// problem makes a problem of a code.
func problem(code host.Code, detail string) *Problem {
	k, ok := kinds[code]
	if !ok {
		code, k, detail = codeInternal, kinds[codeInternal], ""
	}
	p := &Problem{Type: problemType + string(code), Title: k.title, Status: k.status, Detail: detail, Code: string(code)}
	if code == codeUnavailable {
		p.RetryAfterSeconds = 1
	}
	return p
}

func invalid(detail string) *Problem { return problem(host.CodeInvalid, detail) }

// invalidAt is a 400 that names a place.
func invalidAt(location, message string) *Problem {
	p := invalid("the request is malformed at " + location)
	p.Errors = []FieldError{{location, message}}
	return p
}

// unfit is a 422 that names a place.
func unfit(location, message string) *Problem {
	p := problem(host.CodeValidation, "the request is not valid at "+location)
	p.Errors = []FieldError{{location, message}}
	return p
}

func number(n int64) Value { return Value(strconv.FormatInt(n, 10)) }

// problemOf is the answer to an error of a handler. What nobody expected is
// told to the log and to nobody else.
func (s *server) problemOf(ctx context.Context, err error) *Problem {
	var p *Problem
	var rej *host.Rejection
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &rej):
		return refused(rej)
	case errors.Is(err, host.ErrFull):
		return problem(codeUnavailable, "the disk is full: nothing was written; it takes room on the server before this can succeed")
	case errors.Is(err, host.ErrStopping):
		return problem(codeUnavailable, "the server is stopping: send it again")
	case ctx.Err() != nil:
		return problem(codeUnavailable, "the request was given up")
	case errors.Is(err, host.ErrUnavailable):
		s.Log.WarnContext(ctx, "unavailable", "error", err)
		return problem(codeUnavailable, "not decided, or not known whether it was: send the same request again")
	case errors.Is(err, host.ErrNotFound):
		return problem(host.CodeNotFound, "")
	}
	s.Log.ErrorContext(ctx, "request failed", "error", err)
	return problem(codeInternal, "")
}

// refused is the answer to a command that was refused.
func refused(r *host.Rejection) *Problem {
	p := problem(r.Code, r.Message)
	switch r.Code { //nolint:exhaustive // the others say no more than their message
	case host.CodeLimitReached:
		p.Limit, p.Actual, p.Max = r.Limit, number(r.Actual), number(r.Max)
	case host.CodeRevisionConflict:
		p.Expected, p.Actual = number(r.Expected), number(r.Current)
	case host.CodeAlreadyDecided:
		if d := r.Decision; d != nil {
			p.Actual, p.DecidedBy, p.DecidedAt = Value(strconv.Quote(d.Status)), d.By, Time(d.At)
			p.Detail = "it is " + d.Status + " already"
			if d.By != "" {
				p.Detail += ", by " + d.By
			}
			if d.At != 0 {
				p.Detail += ", at " + Time(d.At).String()
			}
		}
	}
	return p
}

// fromHuma turns what huma found wrong with a request into a problem: 422 where
// the body is, 400 where a parameter is.
func fromHuma(hctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
	if status >= http.StatusInternalServerError {
		return problem(codeInternal, "")
	}
	code := host.CodeInvalid
	var fields []FieldError
	for _, err := range errs {
		if p, ok := errors.AsType[*Problem](err); ok {
			return p
		}
		var d huma.ErrorDetailer
		if !errors.As(err, &d) {
			continue
		}
		f := d.ErrorDetail()
		if strings.HasPrefix(f.Location, "body") && status == http.StatusUnprocessableEntity {
			code = host.CodeValidation
		}
		fields = append(fields, FieldError{location(hctx, f.Location), message(f.Message)})
	}
	p := problem(code, msg)
	if len(fields) > 0 {
		p.Detail = "the request is not as it should be at " + fields[0].Location
	}
	p.Errors = fields
	return p
}

// message is what a check said, where it says nothing of the value.
func message(m string) string {
	if strings.HasPrefix(m, "json: ") || strings.HasPrefix(m, "invalid ") || strings.HasPrefix(m, "strconv.") {
		return "the value does not have the form that this field takes"
	}
	return m
}
