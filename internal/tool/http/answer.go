package http

import (
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool"
)

// retryAfterMost bounds what a server may ask us to wait.
const retryAfterMost = ident.Day

// answered turns a response into a result, or into a fault where it says that
// the call was not taken and may be sent again.
func (t *outsideTool) answered(r *response) (host.ToolResult, error) {
	switch {
	case r.status == http.StatusAccepted:
		return host.ToolResult{Accepted: true}, nil
	case r.status == http.StatusOK:
		return t.result200(r), nil
	case r.status == http.StatusRequestTimeout:
		return host.ToolResult{}, t.fault(r, host.ClassTimeout)
	case r.status == http.StatusTooManyRequests:
		return host.ToolResult{}, t.fault(r, host.ClassRateLimit)
	case r.status >= http.StatusInternalServerError:
		return host.ToolResult{}, t.fault(r, host.ClassServer)
	case r.status >= http.StatusBadRequest:
		return tool.Failed(refusal(r)), nil
	case r.status >= http.StatusMultipleChoices:
		return tool.Failed(fmt.Sprintf("the tool's server answered with a redirect (%d), which is not followed", r.status)), nil
	}
	return tool.Failed(fmt.Sprintf("the tool's server answered %d, which is neither a result (200) nor a promise of one (202); the work may have been done", r.status)), nil
}

func (t *outsideTool) fault(r *response, class string) *host.Fault {
	return &host.Fault{
		Class: class, Message: fmt.Sprintf("the tool's server answered %d", r.status), Sent: true, RetryAfterMs: t.retryAfter(r.header.Get("Retry-After")),
	}
}

// retryAfter reads seconds, or a date.
func (t *outsideTool) retryAfter(text string) int64 {
	if n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32); err == nil {
		return min(max(n, 0)*ident.Second, retryAfterMost)
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.UnixMilli()-int64(t.Now()), 0), retryAfterMost)
	}
	return 0
}

// refusal is what the model reads of a 4xx: the server's own words, bounded.
func refusal(r *response) string {
	text := fmt.Sprintf("the tool's server refused the call (%d)", r.status)
	if body := strings.TrimSpace(strings.ToValidUTF8(string(r.body), "\uFFFD")); body != "" {
		text += ": " + body
	}
	return blob.Cut(text, session.ErrorTextMax)
}

// result200 reads {result} or {error}.
func (t *outsideTool) result200(r *response) host.ToolResult {
	media, _, err := mime.ParseMediaType(r.header.Get("Content-Type"))
	if err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") {
		return t.answers.Bad("not with JSON")
	}
	if r.over {
		return t.answers.Bad(fmt.Sprintf("with more than %d bytes", answerMax))
	}
	v, err := tool.ParseJSON(string(r.body))
	if err != nil {
		return t.answers.Bad("with " + err.Error())
	}
	answer, _ := v.(map[string]any)
	value, hasResult := answer["result"]
	problem, hasError := answer["error"]
	if hasResult == hasError {
		return t.answers.Bad(`not with an object that has either "result" or "error"`)
	}
	if hasError {
		return t.answers.Problem(problem, answer["effects"])
	}
	res := t.answers.Value(value, answer["effects"])
	if !res.Error {
		res.Effects = append(t.sent(r.status), res.Effects...)
	}
	return res
}

// sent is the effect of an action by itself: somebody was told to do it.
func (t *outsideTool) sent(status int) []session.ToolEffect {
	if t.Kind != tool.KindAction {
		return nil
	}
	u, err := url.Parse(t.URL)
	if err != nil {
		return nil
	}
	// Not the query: it may hold what the admin takes for secret.
	return []session.ToolEffect{{Kind: "http.sent", Subject: u.Scheme + "://" + u.Host + u.EscapedPath(), Detail: strconv.Itoa(status)}}
}
