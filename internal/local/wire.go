package local

import (
	"context"
	"errors"
	"net/http"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/netguard"
	"github.com/perdure/perdure/internal/wiring"
)

// wire puts the engine together.
func (s *Server) wire() error {
	guard := netguard.Guard{AllowPrivate: s.cfg.AllowPrivate}
	models, err := wiring.NewModels(wiring.ModelsConfig{
		Guard: guard, Proxy: http.ProxyFromEnvironment, OpenAIKey: s.openAIKey(), OpenAIKeyName: s.cfg.OpenAIKeyName, OpenAIBaseURL: s.cfg.OpenAIBaseURL, Pace: s.cfg.pace(),
	})
	if err != nil {
		return err
	}
	s.tools, err = wiring.NewTools(wiring.ToolsConfig{
		// This process alone writes them: the folder is its own.
		Settings:   wiring.NewSettings(s.store, s.sched, false),
		Workspaces: s.workspaces, Guard: guard, Proxy: http.ProxyFromEnvironment, Secret: s.secret, Now: s.now, URL: s.URL,
		OnPanic: func(tool string, value any, stack []byte) {
			s.log.Error("a tool panicked", "tool", tool, "panic", value, "stack", string(stack))
		},
	})
	if err != nil {
		return err
	}
	log := host.Log(s.store)
	if s.cfg.WrapLog != nil {
		log = s.cfg.WrapLog(log)
	}
	s.engine = host.New(host.Deps{
		Log: log, Blobs: s.store, Checkpoints: s.store, Stash: s.store,
		Models: models, Tools: s.tools.Registry, Sched: s.sched, Frames: s.hub, Keys: s.secrets.keyring(),
		Purge: func(ctx context.Context, key host.Key, _ string) error {
			return s.workspaces.DropWorkspace(ctx, key, "")
		},
		Report: wiring.NewReporter(s.log).Report,
	}, s.cfg.Engine)
	return nil
}

// openAIKey is OpenAI's key; empty if there is none.
func (s *Server) openAIKey() string {
	if s.cfg.OpenAIKeyName == "" {
		return ""
	}
	key, _ := s.cfg.Secret(s.cfg.OpenAIKeyName)
	return key
}

func (s *Server) secret(_ context.Context, _ ident.TenantID, name string) (string, error) {
	value, found := s.cfg.Secret(name)
	if !found {
		return "", errors.New("not set in the server's environment")
	}
	return value, nil
}
