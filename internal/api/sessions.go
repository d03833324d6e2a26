package api

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

func (s *server) addSessions() {
	create := on(http.MethodPost, "/v1/sessions", "createSession", "Create a session, or find that it is there", http.StatusCreated, ScopeWrite)
	create.also = []int{http.StatusOK}
	add(s, create, s.createSession)
	list := on(http.MethodGet, "/v1/sessions", "listSessions", "List sessions, newest update first", http.StatusOK, ScopeRead)
	list.prefixes = []string{metadataPrefix}
	list.op.Description = "Filters besides: metadata.<key>=<value>; an empty value asks that the key is there."
	add(s, list, s.listSessions)
	add(s, on(http.MethodGet, "/v1/sessions/{id}", "getSession", "Read a session", http.StatusOK, ScopeRead), s.getSession)
	add(s, on(http.MethodPatch, "/v1/sessions/{id}", "patchSession", "Change what lists show of a session", http.StatusOK, ScopeWrite), s.patchSession)
	add(s, on(http.MethodPut, "/v1/sessions/{id}/config", "putConfig", "Replace a session's config", http.StatusOK, ScopeWrite), s.putConfig)
	add(s, on(http.MethodPost, "/v1/sessions/{id}/close", "closeSession", "Close a session", http.StatusOK, ScopeWrite), s.closeSession)
	add(s, on(http.MethodDelete, "/v1/sessions/{id}", "deleteSession", "Delete a closed session", http.StatusNoContent, ScopeWrite), s.deleteSession)
	add(s, on(http.MethodPost, "/v1/sessions/{id}/release", "releaseSession", "Let a quarantined session go on", http.StatusOK, ScopeAdmin), s.releaseSession)
}

// SessionPath names a session in a path.
type SessionPath struct {
	ID string `path:"id" pattern:"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$" patternDescription:"letters, digits and, after the first, _ . : -; at most 128" doc:"Id of the session."`
}

// key is the session of the caller's tenant, whatever the path says: nothing
// crosses a tenant.
func (p SessionPath) key(ctx context.Context) (host.Key, error) {
	id, err := ident.ParseSessionID(p.ID)
	if err != nil {
		return host.Key{}, invalidAt("path.id", "letters, digits and, after the first, _ . : -; at most 128")
	}
	return host.Key{Tenant: requestOf(ctx).who.Tenant, Session: id}, nil
}

// asked is what every command carries of the request.
func (s *server) asked(r *request, submission string) (host.Asked, error) {
	a := host.Asked{Actor: host.Actor{ID: r.who.Actor, Roles: r.who.Roles}, Via: r.via}
	switch {
	case submission == "":
		submission = r.submission
	case r.submission != "" && r.submission != submission:
		return a, invalidAt("body.submissionId", "it is not the Idempotency-Key: send one of them, or both the same")
	}
	if submission == "" {
		return a, nil
	}
	id, err := ident.ParseSubmissionID(submission)
	if err != nil {
		return a, unfit("body.submissionId", "1 to 128 visible ASCII characters")
	}
	a.Submission.ID = id
	return a, nil
}

type createInput struct {
	Body *CreateSession
}

// created is the answer to a request for a session. Where it is, is said of a
// new one alone.
type created struct {
	Status   int
	Location string `header:"Location" doc:"Path of the session, where it is new."`
	Body     Session
}

func (s *server) createSession(ctx context.Context, in *createInput) (*created, error) {
	r := requestOf(ctx)
	b := in.Body
	if b == nil {
		b = &CreateSession{}
	}
	key, made, err := s.newKey(r, b.ID)
	if err != nil {
		return nil, err
	}
	if !made {
		d, err := s.Engine.View(ctx, key)
		if err == nil {
			return s.created(ctx, key, &d, http.StatusOK)
		}
		if !notFound(err) {
			return nil, err
		}
	}
	cmds, err := s.opening(ctx, r, key, b)
	if err != nil {
		return nil, err
	}
	cmds[0].Meta = describe(b)
	d, err := s.Engine.Do(ctx, key, cmds...)
	if err != nil {
		return nil, err
	}
	if d.Replies[0].Same {
		return s.created(ctx, key, &d, http.StatusOK)
	}
	return s.created(ctx, key, &d, http.StatusCreated)
}

func (s *server) created(ctx context.Context, key host.Key, d *host.Done, status int) (*created, error) {
	shown, err := s.session(ctx, key, d, status)
	if err != nil {
		return nil, err
	}
	out := &created{Status: shown.Status, Body: shown.Body}
	if status == http.StatusCreated {
		out.Location = "/v1/sessions/" + shown.Body.ID
	}
	return out, nil
}

// newKey is the id that the client wants, or one of ours: made says that
// nobody can have it yet. Under an idempotency key every try makes the same.
func (s *server) newKey(r *request, id string) (key host.Key, made bool, err error) {
	key.Tenant = r.who.Tenant
	if id != "" {
		if key.Session, err = ident.ParseSessionID(id); err != nil {
			return key, false, unfit("body.id", "letters, digits and, after the first, _ . : -; at most 128")
		}
		return key, false, nil
	}
	if r.nonce != "" {
		key.Session = ident.SessionID("ses_" + r.nonce)
		return key, false, nil
	}
	key.Session = ident.SessionID("ses_" + strings.ToLower(rand.Text()))
	return key, true, nil
}

// opening is the commands that make a session: with input, its first run in
// the same commit.
func (s *server) opening(ctx context.Context, r *request, key host.Key, b *CreateSession) ([]host.Prepared, error) {
	if err := checkDescription(b); err != nil {
		return nil, err
	}
	cfg := Config{}
	if s.DefaultConfig != nil {
		cfg = s.DefaultConfig(ctx, key.Tenant)
	}
	if b.Config != nil {
		if m := cfg.Model; b.Config.Model.Provider == "" {
			b.Config.Model = m
		}
		cfg = *b.Config
	}
	if len(b.Workspaces) > 0 {
		if len(cfg.Workspaces) > 0 {
			return nil, unfit("body.workspaces", "config.workspaces is there as well: send one of them")
		}
		cfg.Workspaces = b.Workspaces
	}
	inc, err := ulid.New(uint64(s.Engine.Now()), rand.Reader)
	if err != nil {
		return nil, err
	}
	asked, err := s.asked(r, "")
	if err != nil {
		return nil, err
	}
	open := &host.OpenSession{Inc: inc.String(), Asked: asked}
	sp := &host.Spill{}
	if err := s.readConfig(ctx, key.Tenant, &cfg, sp, &open.Config); err != nil {
		return nil, err
	}
	cmds := []host.Prepared{sp.Prepare(open)}
	if b.Input == nil {
		if b.SubmissionID != "" {
			return nil, unfit("body.submissionId", "there is no input that it could belong to")
		}
		return cmds, nil
	}
	run, err := s.runCommand(ctx, r, key, &RequestRun{Input: *b.Input, SubmissionID: b.SubmissionID})
	if err != nil {
		return nil, err
	}
	return append(cmds, run), nil
}

// readConfig reads a config whole and checks what only this server knows: its
// providers.
func (s *server) readConfig(ctx context.Context, tenant ident.TenantID, c *Config, sp *host.Spill, to *host.Config) error {
	if c.Model.Provider == "" {
		return unfit("body.config.model", "a provider and a model are wanted")
	}
	if err := c.toHost(sp, to); err != nil {
		return err
	}
	return s.Engine.CheckModel(ctx, tenant, to.Model)
}

// session answers with a session whole.
func (s *server) session(ctx context.Context, key host.Key, d *host.Done, status int) (*reply[Session], error) {
	out, err := s.view(ctx, key).session(d)
	if err != nil {
		return nil, err
	}
	return answer(status, out), nil
}

func notFound(err error) bool {
	var rej *host.Rejection
	return errors.As(err, &rej) && rej.Code == host.CodeNotFound
}

func (s *server) getSession(ctx context.Context, in *SessionPath) (*reply[Session], error) {
	key, err := in.key(ctx)
	if err != nil {
		return nil, err
	}
	d, err := s.Engine.View(ctx, key)
	if err != nil {
		return nil, err
	}
	return s.session(ctx, key, &d, http.StatusOK)
}

type patchInput struct {
	SessionPath
	Body PatchSession
}

func (s *server) patchSession(ctx context.Context, in *patchInput) (*reply[Session], error) {
	key, err := in.key(ctx)
	if err != nil {
		return nil, err
	}
	d, err := s.Engine.View(ctx, key)
	if err != nil {
		return nil, err
	}
	if _, err := in.Body.apply(d.Meta); err != nil {
		return nil, err
	}
	// What is there may have changed since it was checked: the merge is checked
	// again where it happens.
	var refused error
	d, err = s.Engine.Describe(ctx, key, func(m *host.Meta) {
		var next host.Meta
		if next, refused = in.Body.apply(*m); refused == nil {
			*m = next
		}
	})
	if err = errors.Join(refused, err); err != nil {
		return nil, err
	}
	return s.session(ctx, key, &d, http.StatusOK)
}

type putConfigInput struct {
	SessionPath
	IfMatch string `header:"If-Match" doc:"The configRevision, in quotes."`
	Body    Config
}

func (s *server) putConfig(ctx context.Context, in *putConfigInput) (*reply[Session], error) {
	key, err := in.key(ctx)
	if err != nil {
		return nil, err
	}
	rev, err := ifMatch(in.IfMatch)
	if err != nil {
		return nil, err
	}
	// Another tenant's session is not found, whatever the config says.
	if _, err := s.Engine.View(ctx, key); err != nil {
		return nil, err
	}
	asked, err := s.asked(requestOf(ctx), "")
	if err != nil {
		return nil, err
	}
	cmd := &host.Configure{IfRevision: rev, Asked: asked}
	sp := &host.Spill{}
	if err := s.readConfig(ctx, key.Tenant, &in.Body, sp, &cmd.Config); err != nil {
		return nil, err
	}
	d, err := s.Engine.Do(ctx, key, sp.Prepare(cmd))
	if err != nil {
		return nil, err
	}
	return s.session(ctx, key, &d, http.StatusOK)
}

type closeInput struct {
	SessionPath
	Body *CloseSession
}

func (s *server) closeSession(ctx context.Context, in *closeInput) (*reply[Session], error) {
	asked, err := s.asked(requestOf(ctx), "")
	if err != nil {
		return nil, err
	}
	return s.doSession(ctx, in.SessionPath, &host.CloseSession{Force: in.Body != nil && in.Body.Force, Asked: asked})
}

type releaseInput struct {
	SessionPath
	Body *Empty
}

// releaseSession refolds a session that is quarantined; another one is as it
// is.
func (s *server) releaseSession(ctx context.Context, in *releaseInput) (*reply[Session], error) {
	key, err := in.key(ctx)
	if err != nil {
		return nil, err
	}
	d, err := s.Engine.View(ctx, key)
	if err != nil {
		return nil, err
	}
	if d.Head.Quarantine == nil {
		return s.session(ctx, key, &d, http.StatusOK)
	}
	asked, err := s.asked(requestOf(ctx), "")
	if err != nil {
		return nil, err
	}
	return s.doSession(ctx, in.SessionPath, &host.ReleaseSession{Asked: asked})
}

// doSession carries out a command and answers with the session.
func (s *server) doSession(ctx context.Context, p SessionPath, cmd host.Command) (*reply[Session], error) {
	key, err := p.key(ctx)
	if err != nil {
		return nil, err
	}
	d, err := s.Engine.Do(ctx, key, host.Prepared{Command: cmd})
	if err != nil {
		return nil, err
	}
	return s.session(ctx, key, &d, http.StatusOK)
}

type deleteInput struct {
	SessionPath
	Cascade bool `query:"cascade" doc:"Delete forks and children as well."`
}

func (s *server) deleteSession(ctx context.Context, in *deleteInput) (*struct{}, error) {
	key, err := in.key(ctx)
	if err != nil {
		return nil, err
	}
	return nil, s.Engine.Delete(ctx, key)
}
