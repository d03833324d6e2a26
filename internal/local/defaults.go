package local

import (
	"context"
	"net/http"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/wiring"
)

// defaultModel answers in sessions that name no model.
func (s *Server) defaultModel() api.ModelConfig {
	return wiring.DefaultModel(s.openAIKey() != "", s.cfg.OpenAIBaseURL, s.cfg.OpenAIModel)
}

// defaultConfig is what a session gets that is made without one.
func (s *Server) defaultConfig() api.Config { return wiring.DefaultConfig(s.defaultModel()) }

// ModelLine says which model answers by default, and how to get another.
func (s *Server) ModelLine() string {
	m := s.defaultModel()
	line := m.Provider + "/" + m.Model
	switch {
	case m.Provider == wiring.KindScripted:
		return line + ", a demo that needs no key; set " + env.OpenAIKey + " or " + env.OpenAIBaseURL + " for a real one"
	case s.cfg.OpenAIBaseURL != "":
		return line + " at " + s.cfg.OpenAIBaseURL + " (" + env.OpenAIModel + " names another)"
	}
	return line + " (" + env.OpenAIModel + " names another)"
}

// guard keeps other sites' pages out of a server that listens on loopback. One
// that listens elsewhere has names that it does not know; it is never open, and
// a page of another site has no key.
func (s *Server) guard() api.Guard {
	if env.IsLoopback(s.cfg.Addr) {
		return api.Guard{}
	}
	return api.Guard{Hosts: []string{"*"}}
}

// handler is the API over the engine.
func (s *Server) handler() http.Handler {
	return api.New(api.Deps{
		Engine: s.engine, Stash: s.store, Auth: wiring.NewOneKey(api.Principal{Tenant: Tenant, Actor: Actor}, "local", s.key, s.cfg.Open), Keys: s.secrets.keyring(), Secret: s.secrets.Cursors,
		Tools: s.tools.Store, DefaultConfig: func(context.Context, ident.TenantID) api.Config { return s.defaultConfig() },
		Guard: s.guard(), KeyHint: "the key of this server is in " + KeyFile(s.cfg.Data) + ", and the commands find it there",
		Version: s.cfg.Version, Log: s.log, Streams: api.Streams{Live: s.hub, For: s.cfg.StreamFor},
	})
}
