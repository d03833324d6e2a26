package sqs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// CommandVersion is the version of a command's message that this build writes.
// It is raised one release after the next one can be read.
const CommandVersion = 1

// InlineBytesMax is the longest body, escaped, that rides in its message. Longer
// ones are put beside their session and named: queues and what stands behind
// them carry references (T56).
const InlineBytesMax = 200 << 10

// Command is a request to one session that a queue carries.
type Command struct {
	Key host.Key
	// Inc is the session's incarnation where the sender knows it: the command is
	// then dropped if the session was deleted and made again meanwhile.
	Inc string
	// Path is that of the API, below the session or the one that makes it.
	Path string
	// Idempotency is the command's key: what comes twice takes effect once.
	Idempotency ident.SubmissionID
	Actor       string
	Roles       []string
	// Via is the surface that it came through: slack or webhook.
	Via string
	// Body is JSON.
	Body []byte
}

// message is a command as its queue has it.
type message struct {
	V       int      `json:"v"`
	Tenant  string   `json:"tenant"`
	Session string   `json:"session"`
	Inc     string   `json:"inc,omitempty"`
	Method  string   `json:"method"`
	Path    string   `json:"path"`
	Key     string   `json:"key"`
	Actor   actor    `json:"actor"`
	Via     string   `json:"via"`
	Body    string   `json:"body,omitempty"`
	Ref     blob.Ref `json:"ref,omitempty"`
}

type actor struct {
	ID    string   `json:"id"`
	Roles []string `json:"roles"`
}

// Bodies keeps bodies that are too long for a message, under the session's own
// prefix, so that its deletion takes them along. host.Blobs is one.
type Bodies interface {
	// PutBlob is durable when it returns; putting again is harmless.
	PutBlob(ctx context.Context, key host.Key, b host.Blob) error
}

// Inbox is the FIFO queue of commands: those of a session are performed in the
// order in which they were sent.
type Inbox struct {
	client *awssqs.Client
	url    string
	bodies Bodies
}

// NewInbox makes an Inbox of a queue's URL. It asks nothing of AWS yet.
func NewInbox(cfg aws.Config, url string, bodies Bodies, options ...func(*awssqs.Options)) *Inbox {
	return &Inbox{client: open(cfg, options), url: url, bodies: bodies}
}

// Send puts a command into the queue. Sending it again is harmless: within five
// minutes the queue drops it, and later the session knows its key.
//
// A body that is too long for the message is kept beside its session first, so
// the session must be there: host.ErrNotFound otherwise.
func (x *Inbox) Send(ctx context.Context, c Command) error {
	m, err := c.message()
	if err != nil {
		return err
	}
	body, err := Portable(m.Body)
	if err != nil {
		return err
	}
	if len(body) > InlineBytesMax {
		m.Body, m.Ref = "", blob.Sum(c.Body)
		if err := x.bodies.PutBlob(ctx, c.Key, host.Blob{Ref: m.Ref, Data: c.Body}); err != nil {
			return fmt.Errorf("keep a command's body: %w", err)
		}
	}
	text, err := m.encode()
	if err != nil {
		return err
	}
	return send(ctx, x.client, &awssqs.SendMessageInput{
		QueueUrl: &x.url, MessageBody: &text,
		MessageGroupId: aws.String(GroupID(c.Key)), MessageDeduplicationId: aws.String(DedupID(c.Key, c.Idempotency)),
	})
}

// message holds a command to what a message can say. What a command may ask is
// for the one who performs it.
func (c *Command) message() (message, error) {
	if _, err := ident.ParseTenantID(string(c.Key.Tenant)); err != nil {
		return message{}, fmt.Errorf("%w: %w", ErrMessage, err)
	}
	if _, err := ident.ParseSessionID(string(c.Key.Session)); err != nil {
		return message{}, fmt.Errorf("%w: %w", ErrMessage, err)
	}
	if _, err := ident.ParseSubmissionID(string(c.Idempotency)); err != nil {
		return message{}, fmt.Errorf("%w: %w", ErrMessage, err)
	}
	if len(c.Body) > 0 && !json.Valid(c.Body) || !utf8.Valid(c.Body) {
		return message{}, fmt.Errorf("%w: the body is no JSON", ErrMessage)
	}
	roles := c.Roles
	if roles == nil {
		roles = []string{}
	}
	return message{
		V: CommandVersion, Tenant: string(c.Key.Tenant), Session: string(c.Key.Session), Inc: c.Inc, Method: http.MethodPost, Path: c.Path,
		Key: string(c.Idempotency), Actor: actor{ID: c.Actor, Roles: roles}, Via: c.Via, Body: string(c.Body),
	}, nil
}

func (m *message) encode() (string, error) {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	// Or a body of nothing but "<" would be six times as long.
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m); err != nil {
		return "", fmt.Errorf("%w: %w", ErrMessage, err)
	}
	return Portable(strings.TrimSuffix(out.String(), "\n"))
}

// GroupID is the message group of a session: a hash, because a group's name has
// fewer characters than ids may have, and no more than 128 of them (T60).
func GroupID(key host.Key) string { return digest(string(key.Tenant), string(key.Session))[:32] }

// DedupID names a command within its queue.
func DedupID(key host.Key, idempotency ident.SubmissionID) string {
	return digest(string(key.Tenant), string(key.Session), string(idempotency))
}

// digest hashes parts that hold no NUL, so that no two lists of them are one.
func digest(parts ...string) string {
	h := sha256.New()
	for i, p := range parts {
		if i > 0 {
			h.Write([]byte{0})
		}
		h.Write([]byte(p))
	}
	return hex.EncodeToString(h.Sum(nil))
}
