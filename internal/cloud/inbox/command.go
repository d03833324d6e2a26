package inbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// version is the newest form of a message that this build reads.
const version = 1

// command is the body of a message.
type command struct {
	V       int    `json:"v"`
	Tenant  string `json:"tenant"`
	Session string `json:"session"`
	// Inc is the session's incarnation, where the sender knew it.
	Inc    string `json:"inc,omitempty"`
	Method string `json:"method"`
	Path   string `json:"path"`
	// Key is the idempotency key: a message that comes twice takes effect once.
	Key   string `json:"key"`
	Actor struct {
		ID    string   `json:"id"`
		Roles []string `json:"roles"`
	} `json:"actor"`
	Via  string `json:"via"`
	Body string `json:"body,omitempty"` // JSON
	Ref  string `json:"ref,omitempty"`  // of a body in the session's blobs

	key host.Key
}

const sessions = "/v1/sessions"

// decode reads a message. Of one that is not what it should be the command has
// what could be read: whose it was, if nothing else. What is wrong is said
// without a word of it.
func decode(body string) (command, *fault) {
	var c command
	// A field of a wrong type leaves the others as they are.
	err := json.Unmarshal([]byte(body), &c)
	var typed *json.UnmarshalTypeError
	if err != nil && !errors.As(err, &typed) {
		return command{}, &fault{codeMalformed, "the message is no JSON object"}
	}
	tenant, errT := ident.ParseTenantID(c.Tenant)
	session, errS := ident.ParseSessionID(c.Session)
	if errT == nil && errS == nil {
		c.key = host.Key{Tenant: tenant, Session: session}
	}
	var wrong string
	switch {
	case c.V > version:
		wrong = "the message is of a newer build"
	case err != nil:
		wrong = "a field of the message has a wrong type"
	case c.V != version:
		wrong = "the message has no known version"
	case c.key.Session == "":
		wrong = "tenant and session are names, and must be there"
	default:
		wrong = c.wrong()
	}
	if wrong == "" {
		return c, nil
	}
	// What was not checked is not noted either.
	if _, err := ident.ParseSubmissionID(c.Key); err != nil {
		c.Key = ""
	}
	if !actor(c.Actor.ID) || !surface(c.Via) {
		c.Actor.ID, c.Via = "", ""
	}
	return c, &fault{codeMalformed, wrong}
}

// wrong says what a message asks that no message may.
func (c *command) wrong() string {
	below, ok := strings.CutPrefix(c.Path, sessions+"/"+c.Session+"/")
	switch {
	case c.Method != http.MethodPost:
		return "method is POST"
	case c.Path == sessions:
		// It makes the session that the message is of, and no other.
		var made struct {
			ID string `json:"id"`
		}
		if json.Unmarshal([]byte(c.Body), &made) != nil || made.ID != c.Session {
			return "the session that it makes is not the one that it is of"
		}
	case !ok || !plain(below):
		return "path is one of a command below the message's session"
	}
	if _, err := ident.ParseSubmissionID(c.Key); err != nil {
		return "key is 1 to 128 visible ASCII characters"
	}
	if !actor(c.Actor.ID) {
		return "actor.id is 1 to 128 visible ASCII characters, and nobody is the system"
	}
	for _, role := range c.Actor.Roles {
		if _, err := ident.ParseName("role", role); err != nil {
			return "actor.roles are names"
		}
	}
	if !surface(c.Via) {
		return "via is slack or webhook"
	}
	if c.Body != "" && c.Ref != "" {
		return "there is a body or a reference to one, not both"
	}
	return ""
}

// plain says that a path needs no unescaping, has no query, and goes nowhere
// else.
func plain(path string) bool {
	for segment := range strings.SplitSeq(path, "/") {
		if _, err := ident.ParseName("segment", segment); err != nil {
			return false
		}
	}
	return true
}

func actor(id string) bool {
	_, err := ident.ParseSubmissionID(id) // the same bytes: visible ASCII
	return err == nil && id != "system" && !strings.HasPrefix(id, "system:")
}

// surface says whether a message may say that it came through it.
func surface(via string) bool { return via == "slack" || via == "webhook" }

// name is the command as its session knows it, as far as it can be told.
func (c *command) name() string {
	below, ok := strings.CutPrefix(c.Path, sessions+"/"+c.Session+"/")
	switch {
	case c.Method != http.MethodPost:
		return ""
	case c.Path == sessions:
		return "POST " + sessions
	case ok && plain(below):
		return "POST /" + below
	}
	return ""
}

func (c *command) request(ctx context.Context, body []byte) *http.Request {
	r := (&http.Request{
		Method: c.Method, URL: &url.URL{Path: c.Path}, Host: "inbox",
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {c.Key}},
		Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}).WithContext(ctx)
	return r
}

// recorder takes the answer: its status, and as much of it as holds the code of
// a refusal.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func newRecorder() *recorder { return &recorder{header: http.Header{}, status: http.StatusOK} }

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) { r.status = status }

// problemBytes bounds what is kept: no refusal is longer.
const problemBytes = 64 << 10

// Write implements http.ResponseWriter.
func (r *recorder) Write(p []byte) (int, error) {
	if r.status >= http.StatusMultipleChoices && r.body.Len()+len(p) <= problemBytes {
		r.body.Write(p)
	}
	return len(p), nil
}

// code is that of a refusal.
func (r *recorder) code() string {
	var p struct {
		Code string `json:"code"`
	}
	if r.status < http.StatusMultipleChoices {
		return ""
	}
	if json.Unmarshal(r.body.Bytes(), &p) != nil || p.Code == "" {
		return codeInternal
	}
	return p.Code
}
