package api

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/perdure/perdure/core/ident"
)

// A ticket lets its bearer follow one session for a short while. It is signed
// and not stored, so it may be used again until it runs out: a browser that
// lost its connection opens the same address again.

const (
	ticketFor    = 60 * ident.Second
	ticketPrefix = "st_"
)

// ticket is what a ticket says, under the server's signature.
type ticket struct {
	Tenant  ident.TenantID  `json:"t"`
	Session ident.SessionID `json:"s"`
	Actor   string          `json:"a"`
	Key     string          `json:"k,omitempty"`
	Until   ident.Instant   `json:"u"`
}

// StreamTicket lets a client follow a session that can send no header.
type StreamTicket struct {
	Ticket    string `json:"ticket"`
	URL       string `json:"url" doc:"The session's streamUrl with the ticket."`
	ExpiresAt Time   `json:"expiresAt" doc:"After this no stream can be opened with it; one that is open goes on."`
}

type ticketInput struct {
	SessionPath
	Body *Empty
}

func (s *server) createTicket(ctx context.Context, in *ticketInput) (*reply[StreamTicket], error) {
	key, err := in.key(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := s.Engine.View(ctx, key); err != nil {
		return nil, err
	}
	r := requestOf(ctx)
	t := ticket{Tenant: key.Tenant, Session: key.Session, Actor: r.who.Actor, Key: r.who.Key, Until: s.Engine.Now().Add(ticketFor)}
	data, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	text := ticketPrefix + base64.RawURLEncoding.EncodeToString(append(s.ticketMac(data), data...))
	return answer(http.StatusCreated, StreamTicket{
		Ticket: text, URL: s.streamURL(r.Request, key.Session) + "?ticket=" + url.QueryEscape(text), ExpiresAt: Time(t.Until),
	}), nil
}

func (s *server) ticketMac(data []byte) []byte {
	mac := hmac.New(sha256.New, s.Secret)
	mac.Write([]byte("perdure.ticket.1\n"))
	mac.Write(data)
	return mac.Sum(nil)
}

// byTicket is whoever a ticket was given to. It reads the session that the path
// names and nothing else.
func (s *server) byTicket(r *http.Request) (Principal, *Problem) {
	refused := problem(codeUnauthenticated, "the ticket is not one for this session, or has run out: POST …/stream-tickets gives another")
	if len(r.Header.Values("Authorization")) > 0 {
		return Principal{}, invalidAt("query.ticket", "the header Authorization is there as well: send one of them")
	}
	encoded, found := strings.CutPrefix(r.URL.Query().Get("ticket"), ticketPrefix)
	raw, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if !found || err != nil || len(raw) <= sha256.Size || !hmac.Equal(s.ticketMac(raw[sha256.Size:]), raw[:sha256.Size]) {
		return Principal{}, refused
	}
	var t ticket
	if json.Unmarshal(raw[sha256.Size:], &t) != nil || s.Engine.Now() >= t.Until {
		return Principal{}, refused
	}
	rest, _ := strings.CutPrefix(r.URL.Path, "/v1/sessions/")
	if id, _, _ := strings.Cut(rest, "/"); id != string(t.Session) {
		return Principal{}, refused
	}
	return Principal{Tenant: t.Tenant, Actor: t.Actor, Key: t.Key, Scopes: []string{ScopeRead}}, nil
}
