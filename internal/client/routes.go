package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/perdure/perdure/internal/api"
)

const idempotencyKey = "Idempotency-Key"

func (c *Client) get(ctx context.Context, path string, query url.Values, out any) error {
	return c.call(ctx, request{method: http.MethodGet, path: path, query: query}, out)
}

// post sends a request under an idempotency key, the caller's or one made up
// for it: so it can be sent again when it is not known what became of it.
func (c *Client) post(ctx context.Context, path, key string, query url.Values, body, out any) error {
	if key == "" {
		key = rand.Text()
	}
	return c.call(ctx, request{method: http.MethodPost, path: path, query: query, body: body, header: http.Header{idempotencyKey: {key}}}, out)
}

func sessionPath(id, rest string) string { return "/v1/sessions/" + segment(id) + rest }

func runPath(session, run, rest string) string {
	return sessionPath(session, "/runs/"+segment(run)+rest)
}

// waiting is the query that asks the server to answer later.
func waiting(seconds int) url.Values {
	if seconds <= 0 {
		return nil
	}
	return url.Values{"wait": {strconv.Itoa(seconds)}}
}

// CreateSession makes a session, or finds that it is there. The body is an
// api.CreateSession, or JSON of one that leaves to the server what api.Config
// cannot leave out.
func (c *Client) CreateSession(ctx context.Context, body any) (out api.Session, err error) {
	return out, c.post(ctx, "/v1/sessions", "", nil, body, &out)
}

// Session reads one session.
func (c *Client) Session(ctx context.Context, id string) (out api.Session, err error) {
	return out, c.get(ctx, sessionPath(id, ""), nil, &out)
}

// Sessions lists sessions, newest update first.
func (c *Client) Sessions(ctx context.Context, query url.Values) (out api.Page[api.SessionSummary], err error) {
	return out, c.get(ctx, "/v1/sessions", query, &out)
}

// PatchSession changes what lists show of a session.
func (c *Client) PatchSession(ctx context.Context, id string, p api.PatchSession) (out api.Session, err error) {
	return out, c.call(ctx, request{method: http.MethodPatch, path: sessionPath(id, ""), body: p}, &out)
}

// Configure replaces a session's config, a JSON document.
func (c *Client) Configure(ctx context.Context, id string, config json.RawMessage) (out api.Session, err error) {
	return out, c.call(ctx, request{method: http.MethodPut, path: sessionPath(id, "/config"), body: config}, &out)
}

// CloseSession ends a session for good.
func (c *Client) CloseSession(ctx context.Context, id string, force bool) (out api.Session, err error) {
	return out, c.post(ctx, sessionPath(id, "/close"), "", nil, api.CloseSession{Force: force}, &out)
}

// DeleteSession removes a closed session.
func (c *Client) DeleteSession(ctx context.Context, id string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: sessionPath(id, "")}, nil)
}

// Context reads what the model sees of a session.
func (c *Client) Context(ctx context.Context, id string) (out api.Context, err error) {
	return out, c.get(ctx, sessionPath(id, "/context"), nil, &out)
}

// Log streams the stored log after a position. The caller closes it.
func (c *Client) Log(ctx context.Context, id string, after uint64) (io.ReadCloser, error) {
	query := url.Values{}
	if after > 0 {
		query.Set("after", strconv.FormatUint(after, 10))
	}
	resp, err := c.send(ctx, request{method: http.MethodGet, path: sessionPath(id, "/log"), query: query})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// StartRun asks for a run. With wait it is answered when the run is terminal or
// waits, or so many seconds later.
func (c *Client) StartRun(ctx context.Context, session string, r api.RequestRun, wait int) (out api.Run, err error) {
	return out, c.post(ctx, sessionPath(session, "/runs"), r.SubmissionID, waiting(wait), r, &out)
}

// Run reads one run. For wait see StartRun.
func (c *Client) Run(ctx context.Context, session, run string, wait int) (out api.Run, err error) {
	return out, c.get(ctx, runPath(session, run, ""), waiting(wait), &out)
}

// Runs lists a session's runs, newest first.
func (c *Client) Runs(ctx context.Context, session string, query url.Values) (out api.Page[api.Run], err error) {
	return out, c.get(ctx, sessionPath(session, "/runs"), query, &out)
}

// Calls lists a run's tool calls.
func (c *Client) Calls(ctx context.Context, session, run string) (out api.Page[api.ToolCall], err error) {
	return out, c.get(ctx, runPath(session, run, "/calls"), nil, &out)
}

// CancelRun stops a run.
func (c *Client) CancelRun(ctx context.Context, session, run string, r api.CancelRun) (out api.Run, err error) {
	return out, c.post(ctx, runPath(session, run, "/cancel"), r.SubmissionID, nil, r, &out)
}

// SteerRun adds an instruction to a run in progress.
func (c *Client) SteerRun(ctx context.Context, session, run string, r api.SteerRun) (out api.Steered, err error) {
	return out, c.post(ctx, runPath(session, run, "/steer"), r.SubmissionID, nil, r, &out)
}

// Decide decides one approval.
func (c *Client) Decide(ctx context.Context, session, approval string, d api.DecideApproval) (out api.Approval, err error) {
	return out, c.post(ctx, sessionPath(session, "/approvals/"+segment(approval)), d.SubmissionID, nil, d, &out)
}

// Answer answers or skips a question.
func (c *Client) Answer(ctx context.Context, session, run string, a api.AnswerQuestion) (out api.Run, err error) {
	return out, c.post(ctx, runPath(session, run, "/answers"), a.SubmissionID, nil, a, &out)
}

// Approvals lists what waits for a decision, over all sessions.
func (c *Client) Approvals(ctx context.Context, query url.Values) (out api.Page[api.Approval], err error) {
	return out, c.get(ctx, "/v1/approvals", query, &out)
}

// Questions lists what waits for an answer, over all sessions.
func (c *Client) Questions(ctx context.Context, query url.Values) (out api.Page[api.Question], err error) {
	return out, c.get(ctx, "/v1/questions", query, &out)
}

// PutTool sets an outside tool up.
func (c *Client) PutTool(ctx context.Context, name string, document any) error {
	return c.call(ctx, request{method: http.MethodPut, path: "/v1/tools/" + segment(name), body: document}, nil)
}

// Ready says whether the server serves.
func (c *Client) Ready(ctx context.Context) error { return c.get(ctx, "/readyz", nil, nil) }

// Me says who the server takes the client for.
func (c *Client) Me(ctx context.Context) (out api.Me, err error) {
	return out, c.get(ctx, "/v1/me", nil, &out)
}

// About says what answers.
func (c *Client) About(ctx context.Context) (out api.Root, err error) {
	return out, c.get(ctx, "/", nil, &out)
}

// Events reads one page of a session's events after a position, waiting for
// one if there is none.
func (c *Client) Events(ctx context.Context, session string, after uint64, limit, wait int) (out api.Events, err error) {
	query := waiting(wait)
	if query == nil {
		query = url.Values{}
	}
	query.Set("after", strconv.FormatUint(after, 10))
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	return out, c.get(ctx, sessionPath(session, "/events"), query, &out)
}

// EventsBefore reads the page of events just below a position; 0 is the end.
func (c *Client) EventsBefore(ctx context.Context, session string, before uint64, limit int) (out api.Events, err error) {
	at := "head"
	if before > 0 {
		at = strconv.FormatUint(before, 10)
	}
	query := url.Values{"before": {at}}
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	return out, c.get(ctx, sessionPath(session, "/events"), query, &out)
}

// pollSeconds is how long one poll waits: the longest that the server takes.
const pollSeconds = 20

// Follow yields the events after a position: those that are there, and with
// follow those that come, until ctx is done. An error ends it.
func (c *Client) Follow(ctx context.Context, session string, after uint64, follow bool) iter.Seq2[api.Event, error] {
	return func(yield func(api.Event, error) bool) {
		wait := 0
		for {
			page, err := c.Events(ctx, session, after, 0, wait)
			if err != nil {
				if ctx.Err() == nil {
					yield(api.Event{}, err)
				}
				return
			}
			for _, e := range page.Events {
				if !yield(e, nil) {
					return
				}
				after = e.Seq
			}
			switch {
			case !page.Complete:
				wait = 0
			case follow:
				wait = pollSeconds
			default:
				return
			}
		}
	}
}
