package api

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

func (s *server) addMeta() {
	add(s, on(http.MethodGet, "/v1/me", "getMe", "Who the server takes you for", http.StatusOK, AllScopes()...), s.getMe)
	add(s, on(http.MethodGet, "/healthz", "health", "Whether the process is alive", http.StatusOK), s.health)
	add(s, on(http.MethodGet, "/readyz", "ready", "Whether requests would be served", http.StatusOK), s.ready)
	add(s, on(http.MethodGet, "/{$}", "root", "What this is", http.StatusOK), s.root)
	spec := on(http.MethodGet, "/v1/openapi.json", "openapi", "This document", http.StatusOK)
	spec.op.Responses = map[string]*huma.Response{"200": {
		Description: "OpenAPI 3.1.", Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}}},
	}}
	add(s, spec, s.spec)
}

// Me is who the server takes a request's sender for.
type Me struct {
	Tenant string   `json:"tenant"`
	Actor  string   `json:"actor"`
	Roles  []string `json:"roles"`
	Scopes []string `json:"scopes"`
	Key    string   `json:"key,omitempty"`
}

func (s *server) getMe(ctx context.Context, _ *struct{}) (*reply[Me], error) {
	who := requestOf(ctx).who
	return answer(http.StatusOK, Me{
		Tenant: string(who.Tenant), Actor: who.Actor, Roles: append([]string{}, who.Roles...), Scopes: append([]string{}, who.Scopes...), Key: who.Key,
	}), nil
}

// State says how the server is.
type State struct {
	Status string `json:"status"`
}

func (s *server) health(context.Context, *struct{}) (*reply[State], error) {
	return answer(http.StatusOK, State{"ok"}), nil
}

func (s *server) ready(ctx context.Context, _ *struct{}) (*reply[State], error) {
	if s.Ready != nil {
		if err := s.Ready(ctx); err != nil {
			s.Log.WarnContext(ctx, "not ready", "error", err)
			return nil, problem(codeUnavailable, "not ready to serve")
		}
	}
	return answer(http.StatusOK, State{"ready"}), nil
}

// Root says what answers here.
type Root struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	About   string `json:"about"`
	OpenAPI string `json:"openapi"`
	Key     string `json:"key,omitempty" doc:"Where the key lies."`
}

func (s *server) root(context.Context, *struct{}) (*reply[Root], error) {
	return answer(http.StatusOK, Root{
		Name: "Perdure", Version: s.Version, About: "Durable AI agent sessions over HTTP. Send Authorization: Bearer pk_<id>_<secret>.",
		OpenAPI: "/v1/openapi.json", Key: s.KeyHint,
	}), nil
}

// written is a body that is written as it is.
type written struct {
	ContentType string `header:"Content-Type"`
	Body        []byte
}

func (s *server) spec(context.Context, *struct{}) (*written, error) {
	return &written{ContentType: "application/json", Body: s.openapi}, nil
}

// describe renders the OpenAPI document once: the routes are fixed by then.
func (s *server) describe() {
	doc := s.api.OpenAPI()
	// The mux's mark of "this path alone" is none of OpenAPI's.
	doc.Paths["/"] = doc.Paths["/{$}"]
	delete(doc.Paths, "/{$}")
	s.openAnswers(doc)
	body, err := json.Marshal(doc)
	if err != nil {
		panic("api: the OpenAPI document cannot be written: " + err.Error()) // a mistake in this package, at start
	}
	s.openapi = body
}

// openAnswers lets schemas that only answers have grow: a client that holds
// answers against this document must not break when a later build says more.
func (s *server) openAnswers(doc *huma.OpenAPI) {
	asked := map[*huma.Schema]bool{}
	for _, rt := range s.routes {
		s.reach(rt.body, asked)
	}
	for _, schema := range doc.Components.Schemas.Map() {
		if !asked[schema] && schema.AdditionalProperties == false {
			schema.AdditionalProperties = nil
		}
	}
}

// reach marks all that a schema is made of.
func (s *server) reach(schema *huma.Schema, seen map[*huma.Schema]bool) {
	if schema = resolveRef(s.api.OpenAPI().Components.Schemas, schema); schema == nil || seen[schema] {
		return
	}
	seen[schema] = true
	s.reach(schema.Items, seen)
	for _, field := range schema.Properties {
		s.reach(field, seen)
	}
	for _, branch := range schema.OneOf {
		s.reach(branch, seen)
	}
	if more, ok := schema.AdditionalProperties.(*huma.Schema); ok {
		s.reach(more, seen)
	}
}
