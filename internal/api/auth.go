package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// Scopes of a key. None implies another.
const (
	ScopeRead   = "sessions:read"
	ScopeWrite  = "sessions:write"
	ScopeDecide = "approvals:decide"
	ScopeFiles  = "files"
	ScopeAdmin  = "admin"
	ScopeActAs  = "act-as"
)

// AllScopes are what the local key and an open server have.
func AllScopes() []string {
	return []string{ScopeRead, ScopeWrite, ScopeDecide, ScopeFiles, ScopeAdmin, ScopeActAs}
}

// Principal is who asks: a key, or whom it acts for.
type Principal struct {
	Tenant ident.TenantID
	Actor  string
	Roles  []string
	Scopes []string
	Key    string // id of the key; empty if there is none
}

// ErrUnauthenticated is what an Authenticator answers to a credential that is
// none of its own.
var ErrUnauthenticated = errors.New("no valid credential")

// Authenticator knows credentials. Implementations compare secrets in constant
// time and are safe for concurrent use.
type Authenticator interface {
	// Authenticate returns whose the bearer token is. The token is empty when
	// the request carries none: an open server lets that pass. It returns
	// ErrUnauthenticated (errors.Is) for any other; an error beside that is a
	// fault of the store.
	Authenticate(ctx context.Context, token string) (Principal, error)
}

// ParseKey takes a bearer token of the form pk_<id>_<secret> apart. The id has
// no underscore; the secret may.
func ParseKey(token string) (id, secret string, ok bool) {
	rest, ok := strings.CutPrefix(token, "pk_")
	if !ok {
		return "", "", false
	}
	id, secret, ok = strings.Cut(rest, "_")
	return id, secret, ok && id != "" && secret != ""
}

// bearer reads the credential of a request: empty if there is none.
func bearer(r *http.Request) (string, *Problem) {
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		return "", nil
	}
	scheme, token, found := strings.Cut(values[0], " ")
	if len(values) > 1 || !found || !strings.EqualFold(scheme, "Bearer") || strings.TrimSpace(token) == "" {
		return "", problem(codeUnauthenticated, "send one header Authorization: Bearer pk_<id>_<secret>")
	}
	return strings.TrimSpace(token), nil
}

// authenticate finds out who asks, for whom, and whether the route is open to
// them.
func (s *server) authenticate(r *http.Request, rt *route) (Principal, *Problem) {
	credential := s.credential
	if rt.ticket && r.URL.Query().Has("ticket") {
		credential = s.byTicket
	}
	who, p := credential(r)
	if p != nil {
		return who, p
	}
	if !slices.ContainsFunc(rt.scopes, func(scope string) bool { return slices.Contains(who.Scopes, scope) }) && len(rt.scopes) > 0 {
		return who, problem(host.CodeForbidden, "this takes the scope "+strings.Join(rt.scopes, " or "))
	}
	return actAs(r, who)
}

// credential finds out whose the request is: its context says so, or its key.
func (s *server) credential(r *http.Request) (Principal, *Problem) {
	if known, ok := trustedOf(r); ok {
		return known.who, nil
	}
	token, p := bearer(r)
	if p != nil {
		return Principal{}, p
	}
	who, err := s.Auth.Authenticate(r.Context(), token)
	switch {
	case errors.Is(err, ErrUnauthenticated):
		if token == "" {
			return who, problem(codeUnauthenticated, "send Authorization: Bearer pk_<id>_<secret>"+s.keyHint())
		}
		return who, problem(codeUnauthenticated, "the key is not known, or no longer good")
	case err != nil:
		return who, s.problemOf(r.Context(), errors.Join(host.ErrUnavailable, err))
	}
	return who, nil
}

func (s *server) keyHint() string {
	if s.KeyHint == "" {
		return ""
	}
	return "; " + s.KeyHint
}

// actAs puts an end user in the place of a key that may speak for one. Roles
// are that user's: the key's own do not pass on.
func actAs(r *http.Request, who Principal) (Principal, *Problem) {
	actors, roles := r.Header.Values("Perdure-Actor"), r.Header.Values("Perdure-Roles")
	if len(actors)+len(roles) == 0 {
		return who, nil
	}
	if !slices.Contains(who.Scopes, ScopeActAs) {
		return who, problem(host.CodeForbidden, "Perdure-Actor and Perdure-Roles take the scope "+ScopeActAs)
	}
	if len(actors) != 1 || len(roles) > 1 {
		return who, invalid("send one header Perdure-Actor, and at most one Perdure-Roles")
	}
	if !validActor(actors[0]) {
		return who, invalidAt("header.Perdure-Actor", "1 to 128 visible ASCII characters; system and system:… are reserved")
	}
	who.Actor, who.Roles = actors[0], nil
	if len(roles) == 0 || strings.TrimSpace(roles[0]) == "" {
		return who, nil
	}
	const most = 64
	for role := range strings.SplitSeq(roles[0], ",") {
		role = strings.TrimSpace(role)
		if _, err := ident.ParseName("role", role); err != nil || len(who.Roles) == most {
			return who, invalidAt("header.Perdure-Roles", "at most 64 names, with commas between them")
		}
		if !slices.Contains(who.Roles, role) {
			who.Roles = append(who.Roles, role)
		}
	}
	return who, nil
}

// validActor says whether a name can be an end user's: what the system writes
// of itself cannot.
func validActor(name string) bool {
	if _, err := ident.ParseSubmissionID(name); err != nil { // the same bytes: visible ASCII
		return false
	}
	return name != "system" && !strings.HasPrefix(name, "system:")
}

// via is the surface that a request came through, for the record. It grants
// nothing, so a client may be believed.
func via(r *http.Request) string {
	if strings.HasPrefix(r.UserAgent(), "perdure-cli") {
		return "cli"
	}
	return "key"
}
