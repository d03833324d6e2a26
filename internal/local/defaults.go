package local

import (
	"context"
	"net/http"
	"slices"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/adapter/scripted"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/env"
)

// defaultModel answers in sessions that name no model: OpenAI's where there is
// a key, else that of the server that is named, else the demo's.
func (s *Server) defaultModel() api.ModelConfig {
	if key, _ := s.cfg.Secret(s.cfg.OpenAIKeyName); key != "" && s.cfg.OpenAIKeyName != "" {
		return api.ModelConfig{Provider: kindOpenAI, Model: s.cfg.OpenAIModel}
	}
	if s.cfg.OpenAIBaseURL != "" {
		return api.ModelConfig{Provider: kindCompatible, Model: s.cfg.OpenAIModel}
	}
	return api.ModelConfig{Provider: kindScripted, Model: scripted.Demo}
}

// defaultConfig is what a session gets that is made without one.
func (s *Server) defaultConfig() api.Config {
	cfg := api.Config{Model: s.defaultModel()}
	for _, name := range DefaultTools() {
		cfg.Tools = append(cfg.Tools, api.ToolGrant{Name: name})
	}
	return cfg
}

// ModelLine says which model answers by default, and how to get another.
func (s *Server) ModelLine() string {
	m := s.defaultModel()
	line := m.Provider + "/" + m.Model
	switch {
	case m.Provider == kindScripted:
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
		Engine: s.engine, Stash: s.store, Auth: newKeys(s.key, s.cfg.Open), Keys: s.secrets.keyring(), Secret: s.secrets.Cursors,
		Tools: &toolStore{settings: s.settings, builtin: slices.Concat(s.builtin...)}, DefaultConfig: func(context.Context, ident.TenantID) api.Config { return s.defaultConfig() },
		Guard: s.guard(), KeyHint: "the key of this server is in " + KeyFile(s.cfg.Data) + ", and the commands find it there",
		Version: s.cfg.Version, Log: s.log,
	})
}
