package local

import (
	"context"
	"errors"
	"net/http"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/netguard"
	"github.com/perdure/perdure/internal/tool"
	"github.com/perdure/perdure/internal/tool/control"
	"github.com/perdure/perdure/internal/tool/files"
	toolhttp "github.com/perdure/perdure/internal/tool/http"
)

// wire puts the engine together.
func (s *Server) wire() (err error) {
	s.settings = newSettings(s.store, s.now)
	if s.models, err = newModels(s.cfg); err != nil {
		return err
	}
	guard := netguard.Guard{AllowPrivate: s.cfg.AllowPrivate}
	s.builtin = [][]tool.Spec{files.Tools(s.workspaces), control.Tools()}
	s.tools, err = tool.New(
		&outside{settings: s.settings, caller: &toolhttp.Caller{
			Transport: guard.Transport(http.ProxyFromEnvironment), Secret: s.secret, Now: s.now,
			SettleURL: func(token string) string { return s.URL() + "/v1/promises/" + token },
		}},
		s.builtin...,
	)
	if err != nil {
		return err
	}
	s.tools.OnPanic = func(tool string, value any, stack []byte) {
		s.log.Error("a tool panicked", "tool", tool, "panic", value, "stack", string(stack))
	}
	log := host.Log(s.store)
	if s.cfg.WrapLog != nil {
		log = s.cfg.WrapLog(log)
	}
	s.engine = host.New(host.Deps{
		Log: log, Blobs: s.store, Checkpoints: s.store, Stash: s.store,
		Models: s.models, Tools: s.tools, Sched: s.sched, Keys: s.secrets.keyring(),
		Purge:  func(ctx context.Context, key host.Key) error { return s.workspaces.DropWorkspace(ctx, key, "") },
		Report: (&reporter{log: s.log}).report,
	}, s.cfg.Engine)
	return nil
}

func (s *Server) secret(_ context.Context, _ ident.TenantID, name string) (string, error) {
	value, found := s.cfg.Secret(name)
	if !found {
		return "", errors.New("not set in the server's environment")
	}
	return value, nil
}
