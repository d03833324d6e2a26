package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure/internal/host"
)

const (
	messageBytesMax  = 2 << 10
	retryAfterMaxMs  = 60_000
	statusOverloaded = 529 // what some providers answer when they are
	statusGatewayOut = 524 // a proxy's "the origin did not answer in time"
)

// refusedError is an answer that is no success, kept as the fault's cause.
type refusedError struct {
	status int
	body   string
}

func (e *refusedError) Error() string { return "status " + strconv.Itoa(e.status) }

func (e *refusedError) mentions(words ...string) bool {
	body := strings.ToLower(e.body)
	for _, w := range words {
		if strings.Contains(body, w) {
			return true
		}
	}

	return false
}

// unsent is a fault of the request's own: nothing has left.
func (m *Model) unsent(class, message string) *host.Fault {
	return &host.Fault{Class: class, Message: clip(m.cfg.Name + ": " + message)}
}

// stopped is the end of a call whose ctx is done. That a deadline has passed is
// a timeout that may be tried again; a cancel is nobody's fault.
func (m *Model) stopped(err error, sent bool) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}

	return &host.Fault{
		Class: host.ClassTimeout, Message: m.cfg.Name + ": no whole answer before the deadline of the call", Sent: sent, Err: err,
	}
}

// broken is the fault for an exchange that did not come to its end.
func (m *Model) broken(cause, err error, sent bool) error {
	if known, ok := errors.AsType[*host.Fault](err); ok {
		// A dialer that refuses an address, or the decoder.
		fault := *known
		fault.Sent = fault.Sent || sent
		fault.Message = m.clean(fault.Message)

		return &fault
	}

	fault := &host.Fault{Class: host.ClassNetwork, Sent: sent, Err: err}

	switch {
	case errors.Is(cause, errIdle) || errors.Is(err, errIdle):
		fault.Class, fault.Err = host.ClassTimeout, errIdle
		fault.Message = fmt.Sprintf("nothing came for %s in the middle of an answer", m.cfg.IdleTimeout)
	case errors.Is(err, errAnswer) || errors.Is(err, errLine):
		fault.Class = host.ClassOther
		fault.Message = err.Error()
	case errors.Is(err, errEnded), errors.Is(err, io.ErrUnexpectedEOF):
		fault.Message = "the connection ended before the answer did"
	default:
		fault.Message = inner(err).Error()
		if isTimeout(err) {
			fault.Class = host.ClassTimeout
		}
	}

	fault.Message = m.clean(fault.Message)

	return fault
}

// inner strips what repeats the method and address of the request.
func inner(err error) error {
	if outer, ok := errors.AsType[*url.Error](err); ok && outer.Err != nil {
		return outer.Err
	}

	return err
}

func isTimeout(err error) bool {
	type timeout interface {
		error
		Timeout() bool
	}

	t, ok := errors.AsType[timeout](err)

	return ok && t.Timeout()
}

// isPage says that a success is one for people: whatever answered is no model's
// server. Other wrong types are let pass, since servers differ in what they call
// a stream.
func isPage(res *http.Response) bool {
	media, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))

	return err == nil && media == "text/html"
}

// page is the fault for that. Another try would meet the same page.
func (m *Model) page() error {
	return &host.Fault{
		Class: host.ClassNotFound, Sent: true,
		Message: m.clean("the server answered with a page for people, not as a model: does the base URL lead to its API?"),
	}
}

// keyHint says what to do where a key is not accepted, or is missing.
func (m *Model) keyHint(to target) string {
	switch {
	case to.key != "" && m.cfg.KeyName != "":
		return " (the key is that of " + m.cfg.KeyName + ")"
	case to.key == "" && to.own:
		return " (no key is sent to a base URL that a session names: set the server up as a provider)"
	case to.key == "" && m.cfg.KeyName != "":
		return " (set one as " + m.cfg.KeyName + ")"
	}

	return ""
}

// refusal is the fault for a status that is no success.
func (m *Model) refusal(to target, res *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(res.Body, errorBytesMax)) // as much as there is

	said := parseSaid(body)
	refused := &refusedError{status: res.StatusCode, body: string(body)}
	fault := &host.Fault{Class: classify(res.StatusCode, said), Sent: true, Err: refused}

	text := said.message
	if text == "" {
		text = http.StatusText(res.StatusCode)
	}

	if res.StatusCode < http.StatusBadRequest {
		text = "the server redirects, which is not followed: set the base URL to where it points"
	}

	fault.Message = m.clean(fmt.Sprintf("status %d: %s", res.StatusCode, text))
	if fault.Class == host.ClassAuthentication {
		fault.Message = clip(fault.Message + m.keyHint(to))
	}

	fault.RetryAfterMs = retryAfter(res.Header)

	return fault
}

// said is what a provider says of an error.
type said struct{ message, kind, code string }

// reported is the fault for an error object inside a stream.
func reported(e said) *host.Fault {
	status, err := strconv.Atoi(e.code)
	if err != nil || status < http.StatusBadRequest || status > 599 {
		status = 0
	}

	text := e.message
	if text == "" {
		text = strings.TrimSpace(e.kind + " " + e.code)
	}

	return &host.Fault{Class: classify(status, e), Message: "error in the stream: " + text, Sent: true}
}

// classify sorts an error by what it says and by its status; 0 is an error
// inside a stream. What is not known is final, but for an error inside a
// stream: the request had been accepted, so the trouble is the provider's.
func classify(status int, e said) string {
	tag := strings.ToLower(e.kind + " " + e.code)
	text := strings.ToLower(e.message)

	if status != http.StatusUnauthorized && status != http.StatusForbidden {
		switch {
		case tooLong(status, tag, text):
			return host.ClassContextLength
		case status < http.StatusInternalServerError && filtered(tag, text):
			return host.ClassContentFilter
		}
	}

	if outOfQuota(status, tag, text) {
		return host.ClassQuota
	}

	if status == 0 {
		return classifyTag(tag)
	}

	return classifyStatus(status)
}

func classifyStatus(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return host.ClassAuthentication
	case http.StatusForbidden:
		return host.ClassAccess
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone:
		return host.ClassNotFound
	case http.StatusTooManyRequests:
		return host.ClassRateLimit
	case http.StatusRequestTimeout, http.StatusGatewayTimeout, statusGatewayOut:
		return host.ClassTimeout
	case http.StatusConflict, http.StatusTooEarly:
		return host.ClassServer
	}

	switch {
	case status >= http.StatusInternalServerError && status <= 599:
		return host.ClassServer
	case status >= http.StatusBadRequest && status < http.StatusInternalServerError:
		return host.ClassInvalid
	}

	return host.ClassOther
}

// classifyTag goes by the type and code alone, most telling word first.
func classifyTag(tag string) string {
	for _, rule := range [...]struct{ word, class string }{
		{"rate_limit", host.ClassRateLimit},
		{"too_many_requests", host.ClassRateLimit},
		{"authentication", host.ClassAuthentication},
		{"invalid_api_key", host.ClassAuthentication},
		{"permission", host.ClassAccess},
		{"access_denied", host.ClassAccess},
		{"not_found", host.ClassNotFound},
		{"timeout", host.ClassTimeout},
		{"server_error", host.ClassServer},
		{"overloaded", host.ClassServer},
		{"invalid_request", host.ClassInvalid},
		{"badrequest", host.ClassInvalid},
	} {
		if strings.Contains(tag, rule.word) {
			return rule.class
		}
	}

	return host.ClassServer
}

// tooLong says that the prompt does not fit the model, in the words of the many.
func tooLong(status int, tag, text string) bool {
	if status == http.StatusRequestEntityTooLarge || containsAny(tag, "context_length", "exceed_context_size", "string_above_max_length") {
		return true
	}

	if status == http.StatusTooManyRequests {
		// More than a whole minute's allowance: waiting cannot help, a shorter
		// prompt can.
		return strings.Contains(text, "request too large")
	}

	return containsAny(text,
		"maximum context length", "context window", "context length", "available context size", "context_length_exceeded",
		"prompt is too long", "input is too long", "prompt too long", "exceeds the maximum number of tokens", "too many input tokens",
	)
}

func filtered(tag, text string) bool {
	return containsAny(tag, "content_filter", "content_policy", "responsibleaipolicy", "safety") ||
		containsAny(text, "content management policy", "content filter", "safety system", "flagged by")
}

// outOfQuota tells money that is spent from a rate that will recover.
func outOfQuota(status int, tag, text string) bool {
	switch status {
	case http.StatusPaymentRequired:
		return true
	case http.StatusTooManyRequests, http.StatusForbidden, 0:
	default:
		return false
	}

	if containsAny(tag, "insufficient_quota", "billing", "insufficient_balance", "insufficient_credit") {
		return true
	}

	// The usual text for a rate names the page for billing too; its code is
	// what tells them apart.
	return !strings.Contains(tag, "rate_limit") &&
		containsAny(text, "quota", "insufficient credit", "insufficient balance", "insufficient funds", "billing hard limit", "credit balance")
}

func containsAny(s string, words ...string) bool {
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}

	return false
}

// retryAfter reads what the server asks for: seconds or a date, at most a
// minute.
func retryAfter(h http.Header) int64 {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return clampMs(ms)
	}

	v := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(v, 64); err == nil {
		return clampMs(s * 1000)
	}

	if at, err := http.ParseTime(v); err == nil {
		return clampMs(float64(time.Until(at).Milliseconds()))
	}

	return 0
}

func clampMs(ms float64) int64 {
	if math.IsNaN(ms) || ms <= 0 {
		return 0
	}

	return int64(math.Ceil(min(ms, retryAfterMaxMs)))
}

// clean makes a provider's words fit to be shown and stored: no credential, no
// broken text, not too long, and who said it.
func (m *Model) clean(text string) string {
	// Words like "ollama" stand in for keys where none is needed.
	if len(m.cfg.APIKey) >= secretBytesMin {
		text = strings.ReplaceAll(text, m.cfg.APIKey, redacted)
	}

	return clip(m.cfg.Name + ": " + redact(strings.ToValidUTF8(text, "\uFFFD")))
}

// clip cuts at the bound, between characters.
func clip(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= messageBytesMax {
		return s
	}

	const more = "…"

	cut := messageBytesMax - len(more)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}

	return s[:cut] + more
}

const (
	redacted       = "[redacted]"
	secretBytesMin = 12 // shorter ones are words
)

// redact takes out what looks like a key: some providers quote the one that
// they refuse.
func redact(s string) string {
	var b strings.Builder

	for s != "" {
		word := tokenLen(s)
		if word == 0 {
			b.WriteByte(s[0])
			s = s[1:]

			continue
		}

		token, rest := s[:word], s[word:]
		s = rest

		if looksSecret(token) {
			b.WriteString(redacted)

			continue
		}

		b.WriteString(token)

		if strings.EqualFold(token, "bearer") && rest != "" && rest[0] == ' ' {
			if n := tokenLen(rest[1:]); n > 0 {
				b.WriteString(" " + redacted)
				s = rest[1+n:]
			}
		}
	}

	return b.String()
}

// tokenLen is the length of the run of bytes that keys are made of.
func tokenLen(s string) int {
	for i := range len(s) {
		c := s[i]
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && strings.IndexByte("-_.*", c) < 0 {
			return i
		}
	}

	return len(s)
}

func looksSecret(token string) bool {
	for _, prefix := range [...]string{"sk-", "pk-", "rk-", "gsk_", "xai-", "hf_", "AIza", "eyJ"} {
		if len(token) >= secretBytesMin && strings.HasPrefix(token, prefix) {
			return true
		}
	}

	return false
}
