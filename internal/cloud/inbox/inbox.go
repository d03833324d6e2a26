// Package inbox performs the commands of the inbox queue: each is a request on
// the API's own handler, in process, as the actor that the message names.
//
// What it answers decides what the queue does: a message that is done is
// deleted, one that failed comes again, and after the last time goes to the
// dead-letter queue. Before that the session that it was for is told
// (command.dead), so that whoever waits for it can see why nothing comes.
//
// It knows no queue and no Lambda: who receives messages hands them over and
// reports which failed. It may import the host's vocabulary, the API's handler
// and core/ident, core/blob.
package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/host"
)

// Message is one delivery of a message. ID is the queue's, and the same for
// every delivery.
type Message struct {
	ID       string
	Group    string
	Body     string
	Receives int // this one included
}

// Sessions is what the inbox asks of the engine.
type Sessions interface {
	// View returns the state of a session.
	View(ctx context.Context, key host.Key) (host.Done, error)
	// Do hands commands to a session.
	Do(ctx context.Context, key host.Key, cmds ...host.Prepared) (host.Done, error)
}

// Deps are what an Inbox works with. API and Sessions are required.
type Deps struct {
	// API is the handler of the whole API.
	API http.Handler
	// Sessions is the engine behind it.
	Sessions Sessions
	// Body fetches a body that was too large for its message; nil has none.
	Body func(ctx context.Context, key host.Key, ref blob.Ref) ([]byte, error)
	// MaxReceives is after how many receives the queue gives a message up;
	// 0 is DefaultReceives.
	MaxReceives int
	// Log is told codes and ids, never texts; nil discards.
	Log *slog.Logger
}

// DefaultReceives is how often a message is tried.
const DefaultReceives = 3

// Inbox performs commands. It is safe for concurrent use.
type Inbox struct{ Deps }

// New makes an Inbox.
func New(d Deps) *Inbox {
	if d.MaxReceives == 0 {
		d.MaxReceives = DefaultReceives
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	return &Inbox{d}
}

// Take performs a batch, in order, and returns the ids of the messages that
// failed. After one that will be tried again the later ones of its group fail
// untried: they must not overtake it. After one that is given up they go on.
func (b *Inbox) Take(ctx context.Context, batch []Message) (failed []string) {
	stuck := map[string]bool{}
	for _, m := range batch {
		if b.take(ctx, m, stuck[m.Group]) {
			continue
		}
		failed = append(failed, m.ID)
		if m.Group != "" && !b.last(m) {
			stuck[m.Group] = true
		}
	}
	return failed
}

func (b *Inbox) last(m Message) bool { return m.Receives >= b.MaxReceives }

// fault is why a message failed: a code of docs/ERRORS.md or malformed, and a
// text of ours, without anything of the message's.
type fault struct{ code, detail string }

const (
	codeMalformed   = "malformed"
	codeUnavailable = "unavailable"
	codeInternal    = "internal"
)

// take performs one message, and says whether it is done with.
func (b *Inbox) take(ctx context.Context, m Message, stuck bool) bool {
	c, f := decode(m.Body)
	switch {
	case f != nil:
	case stuck:
		f = &fault{codeUnavailable, "not tried: the command before it failed"}
	default:
		attempt, cancel := b.attempt(ctx, m)
		defer cancel()
		f = b.perform(attempt, m, &c)
	}
	if f == nil {
		return true
	}
	log := b.logger(m, &c)
	log.WarnContext(ctx, "a command failed", "code", f.code, "detail", f.detail, "receives", m.Receives)
	if b.last(m) {
		b.bury(ctx, log, m, &c, f)
	}
	return false
}

func (b *Inbox) logger(m Message, c *command) *slog.Logger {
	return b.Log.With("message", m.ID, "tenant", string(c.key.Tenant), "session", string(c.key.Session))
}

// noteWithin is what the last try leaves of a function's time for the note.
const noteWithin = 5 * time.Second

// attempt bounds the last try of a message, so that a request that hangs does
// not take the note along with it.
func (b *Inbox) attempt(ctx context.Context, m Message) (context.Context, context.CancelFunc) {
	until, ok := ctx.Deadline()
	if !ok || !b.last(m) {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, until.Add(-noteWithin))
}

// bury notes in its session that a message is given up. That it cannot be noted
// stops nothing: the message goes to the dead-letter queue in any case, and
// that is watched.
func (b *Inbox) bury(ctx context.Context, log *slog.Logger, m Message, c *command, f *fault) {
	if c.key.Session == "" {
		return // it does not say whose it was
	}
	note := &host.NoteDead{
		Source: "inbox", ID: m.ID, Command: c.name(), Submission: ident.SubmissionID(c.Key), Receives: int64(m.Receives),
		Code: f.code, Detail: f.detail, Who: host.Who{By: c.Actor.ID, Via: c.Via},
	}
	if same, err := b.sameLife(ctx, c); err != nil || !same {
		log.WarnContext(ctx, "a dead command is not noted", "reason", reason(err))
		return
	}
	_, err := b.Sessions.Do(ctx, c.key, host.Prepared{Command: note})
	if err != nil {
		log.WarnContext(ctx, "a dead command is not noted", "reason", reason(err))
	}
}

// reason is a code: an error's text may quote what no log may.
func reason(err error) string {
	var rej *host.Rejection
	switch {
	case err == nil:
		return "another session of this id"
	case errors.As(err, &rej):
		return string(rej.Code)
	}
	return codeUnavailable
}

// sameLife says whether the session is the one that the message was for. One
// that was deleted and made anew is not. Between this look and the command
// nobody can delete, purge and make anew: a deletion takes longer.
func (b *Inbox) sameLife(ctx context.Context, c *command) (bool, error) {
	if c.Inc == "" {
		return true, nil
	}
	d, err := b.Sessions.View(ctx, c.key)
	var rej *host.Rejection
	switch {
	case errors.As(err, &rej) && rej.Code == host.CodeNotFound:
		return false, nil
	case err != nil:
		return false, err
	}
	return d.Head.Inc == c.Inc, nil
}

// perform makes the request. Nil is done: it took effect, had before, or was
// refused for good.
func (b *Inbox) perform(ctx context.Context, m Message, c *command) (f *fault) {
	log := b.logger(m, c)
	defer func() {
		if v := recover(); v != nil {
			log.ErrorContext(ctx, "a command panicked", "stack", string(debug.Stack()))
			f = &fault{codeInternal, "a fault of this server, which is in its log"}
		}
	}()
	same, err := b.sameLife(ctx, c)
	switch {
	case err != nil:
		return &fault{reason(err), "the session could not be read"}
	case !same:
		log.InfoContext(ctx, "a command is dropped: its session is gone")
		return nil
	}
	body, f := b.body(ctx, c)
	if f != nil {
		return f
	}
	who := api.Principal{Tenant: c.key.Tenant, Actor: c.Actor.ID, Roles: c.Actor.Roles, Scopes: []string{api.ScopeWrite, api.ScopeDecide}}
	rec := newRecorder()
	b.API.ServeHTTP(rec, c.request(api.WithPrincipal(ctx, who, c.Via), body))
	switch code := rec.code(); {
	case rec.status < http.StatusMultipleChoices:
		return nil
	case mayPass(rec.status, code):
		return &fault{code, fmt.Sprintf("HTTP %d", rec.status)}
	default:
		log.WarnContext(ctx, "a command is refused", "code", code, "status", rec.status)
		return nil
	}
}

// mayPass tells what another try may come to another end for. A refusal that
// stands is an answer; what waits for an operator (a frozen session) or for a
// deletion to be over is none, and is kept in the dead-letter queue until then.
func mayPass(status int, code string) bool {
	switch {
	case status >= http.StatusInternalServerError:
		return true
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests:
		return true
	case status == http.StatusConflict:
		return code == string(host.CodeRevisionConflict) || code == string(host.CodeQuarantined) || code == string(host.CodeAlreadyExists)
	}
	return false
}

func (b *Inbox) body(ctx context.Context, c *command) ([]byte, *fault) {
	switch {
	case c.Ref == "":
		return []byte(c.Body), nil
	case b.Body == nil:
		return nil, &fault{codeMalformed, "a body by reference is not taken here"}
	}
	data, err := b.Body(ctx, c.key, blob.Ref(c.Ref))
	switch {
	case errors.Is(err, host.ErrNotFound):
		return nil, &fault{codeMalformed, "the body that it refers to is not there"}
	case err != nil:
		return nil, &fault{codeUnavailable, "the body that it refers to could not be read"}
	}
	return data, nil
}
