package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// How long a first answer is kept, and how long a request that carries a key
// may take before another with the same key is let through.
const (
	keptFor  = ident.Day
	leaseFor = 30 * ident.Second
)

// kept is what is remembered of an idempotency key on routes whose commands do
// not take it themselves: first that it is in use, then the answer.
type kept struct {
	Digest string `json:"digest"`
	// Nonce is the same for every try, so that what one made the next finds.
	Nonce string `json:"nonce"`
	// Lease ends when the request that holds the key must be gone.
	Lease  ident.Instant `json:"lease,omitempty"`
	Status int           `json:"status,omitempty"` // 0: no answer yet
	Media  string        `json:"media,omitempty"`
	// Location is the header of a new session's answer.
	Location string `json:"location,omitempty"`
	Body     []byte `json:"body,omitempty"`
	// Session is where the body is kept instead, for the answer that shows a
	// new session: what a session says is deleted with it.
	Session ident.SessionID `json:"session,omitempty"`
}

// once carries out a request with an idempotency key at most once at a time,
// and answers a repetition with the first answer.
func (s *server) once(ctx context.Context, w http.ResponseWriter, req *request, rt *route, key string, body []byte) *Problem {
	at, ok := s.keyScope(req, rt)
	if !ok {
		s.mux.ServeHTTP(w, req.Request)
		return nil
	}
	name := replyName(req, key)
	mine := kept{Digest: digest(body), Nonce: strings.ToLower(rand.Text()), Lease: s.Engine.Now().Add(leaseFor)}
	old, err := s.reserve(ctx, at, name, &mine)
	if err != nil {
		return s.problemOf(ctx, errors.Join(host.ErrUnavailable, err))
	}
	switch {
	case old == nil:
	case old.Digest != mine.Digest:
		return problem(host.CodeSubmissionConflict, "this key came with another body before: take another key")
	case old.Status != 0:
		return s.replay(ctx, w, at, name, old)
	default:
		return problem(codeUnavailable, "a request with this key is in progress")
	}
	req.nonce = mine.Nonce
	rec := &recorder{header: http.Header{}, status: http.StatusOK}
	s.mux.ServeHTTP(rec, req.Request)
	// The client may be gone by now; what became of its request stays.
	s.settle(context.WithoutCancel(ctx), at, name, mine, rec)
	rec.copyTo(w)
	return nil
}

// keyScope is where a key is unique: in the session that the path names, else
// in the tenant. The promise token stands for both.
func (s *server) keyScope(req *request, rt *route) (host.Key, bool) {
	if rt.public {
		claim, ok := s.Keys.Open(req.URL.Path[strings.LastIndexByte(req.URL.Path, '/')+1:])
		return claim.Key, ok
	}
	at := host.Key{Tenant: req.who.Tenant}
	if rest, ok := strings.CutPrefix(req.URL.Path, "/v1/sessions/"); ok {
		id, _, _ := strings.Cut(rest, "/")
		session, err := ident.ParseSessionID(id)
		at.Session = session
		return at, err == nil
	}
	return at, true
}

func replyName(req *request, key string) string {
	h := sha256.Sum256([]byte(req.Method + "\n" + req.URL.Path + "\n" + key))
	return "reply/" + hex.EncodeToString(h[:])
}

// digest is of the body as it means, not as it is laid out.
func digest(body []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, body) == nil {
		body = b.Bytes()
	}
	h := sha256.Sum256(body)
	return hex.EncodeToString(h[:])
}

// reserve takes the key, or returns what it was taken for. A request that has
// outlived its lease is gone: its key is taken over, with its nonce.
func (s *server) reserve(ctx context.Context, at host.Key, name string, mine *kept) (*kept, error) {
	data, err := json.Marshal(mine)
	if err != nil {
		return nil, err
	}
	now := s.Engine.Now()
	existing, err := s.Stash.PutStash(ctx, at, name, data, now.Add(keptFor), true)
	if err != nil || existing == nil {
		return nil, err
	}
	old := new(kept)
	if err := json.Unmarshal(existing, old); err != nil {
		return nil, err
	}
	if old.Digest != mine.Digest || old.Status != 0 || now < old.Lease {
		return old, nil
	}
	mine.Nonce = old.Nonce
	if data, err = json.Marshal(mine); err != nil {
		return nil, err
	}
	_, err = s.Stash.PutStash(ctx, at, name, data, now.Add(keptFor), false)
	return nil, err
}

// settle keeps the answer of a request that was carried out. One that was
// refused leaves no trace; one whose outcome is not known leaves its nonce.
func (s *server) settle(ctx context.Context, at host.Key, name string, mine kept, rec *recorder) {
	var err error
	mine.Lease = 0
	switch {
	case rec.status >= http.StatusInternalServerError:
		err = s.keep(ctx, at, name, mine)
	case rec.status >= http.StatusBadRequest:
		err = s.Stash.DropStash(ctx, at, name)
	default:
		mine.Status, mine.Media, mine.Location, mine.Body = rec.status, rec.header.Get("Content-Type"), rec.header.Get("Location"), rec.body.Bytes()
		var made struct {
			ID ident.SessionID `json:"id"`
		}
		if at.Session == "" && json.Unmarshal(mine.Body, &made) == nil && made.ID != "" {
			err = s.keep(ctx, host.Key{Tenant: at.Tenant, Session: made.ID}, name, mine)
			mine.Session, mine.Body = made.ID, nil
		}
		err = errors.Join(err, s.keep(ctx, at, name, mine))
	}
	if err != nil {
		s.Log.WarnContext(ctx, "the answer to an idempotency key was not kept", "error", err)
	}
}

func (s *server) keep(ctx context.Context, at host.Key, name string, k kept) error {
	data, err := json.Marshal(k)
	if err != nil {
		return err
	}
	_, err = s.Stash.PutStash(ctx, at, name, data, s.Engine.Now().Add(keptFor), false)
	return err
}

// replay answers with the first answer.
func (s *server) replay(ctx context.Context, w http.ResponseWriter, at host.Key, name string, old *kept) *Problem {
	if old.Session != "" {
		data, err := s.Stash.GetStash(ctx, host.Key{Tenant: at.Tenant, Session: old.Session}, name, s.Engine.Now())
		switch {
		case errors.Is(err, host.ErrNotFound):
			return problem(host.CodeNotFound, "the session that this key made is deleted")
		case err != nil:
			return s.problemOf(ctx, errors.Join(host.ErrUnavailable, err))
		}
		if err := json.Unmarshal(data, old); err != nil {
			return s.problemOf(ctx, err)
		}
	}
	if old.Media != "" {
		w.Header().Set("Content-Type", old.Media)
	}
	if old.Location != "" {
		w.Header().Set("Location", old.Location)
	}
	w.Header().Set("Idempotency-Replayed", "true")
	w.WriteHeader(old.Status)
	_, _ = w.Write(old.Body) // who is gone needs no answer
	return nil
}

// recorder holds an answer back until it is kept.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) { r.status = status }

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

func (r *recorder) copyTo(w http.ResponseWriter) {
	maps.Copy(w.Header(), r.header)
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body.Bytes()) // who is gone needs no answer
}
