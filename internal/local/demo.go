package local

import (
	"context"
	_ "embed" // the demo's file
	"errors"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/client"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/wiring"
)

// DemoSession is the session that a server without a model to call makes at its
// first start.
const DemoSession = "demo"

//go:embed demo/changes.md
var demoChanges []byte

const (
	demoFile = "changes.md"
	demoName = "Release editor"
	demoText = "Read changes.md and write the release notes to release-notes.md."
	demoRole = "You are the release editor. You read changes.md, draft release notes from it, and write them to release-notes.md."
	// demoDone is the name under which it is kept that the demo was made: a
	// person who has deleted it does not want it back.
	demoDone = "demo"
)

// DefaultTools are granted to sessions that are made without a config.
func DefaultTools() []string { return wiring.DefaultTools() }

// makeDemo makes the demo session, once in the life of a data folder. It may be
// cut off anywhere and begun again: every step leaves alone what is there.
func (s *Server) makeDemo(ctx context.Context) error {
	if s.defaultModel().Provider != wiring.KindScripted {
		return nil
	}
	_, err := s.store.GetStash(ctx, host.Key{Tenant: Tenant}, demoDone, s.now())
	if err == nil || !errors.Is(err, host.ErrNotFound) {
		return err
	}
	c := client.New(s.URL(), s.key)
	// Whatever has that name already is somebody's.
	if _, err = c.Session(ctx, DemoSession); client.Code(err) == "not_found" {
		err = s.seedDemo(ctx, c)
	}
	if err != nil {
		return err
	}
	_, err = s.store.PutStash(ctx, host.Key{Tenant: Tenant}, demoDone, []byte("1"), wiring.Forever, false)
	return err
}

// seedDemo puts the file where the session will look for it, then makes the
// session with its first run.
func (s *Server) seedDemo(ctx context.Context, c *client.Client) error {
	none := blob.Ref("")
	if _, _, err := s.workspaces.WriteFile(ctx, host.Key{Tenant: Tenant, Session: DemoSession}, "", demoFile, demoChanges, &none, ""); err != nil {
		return err
	}
	cfg := s.defaultConfig()
	cfg.Instructions = demoRole
	_, err := c.CreateSession(ctx, api.CreateSession{
		ID: DemoSession, Name: demoName, Config: &cfg, Input: &api.Input{{Type: "text", Text: api.Text{Text: demoText}}},
	})
	return err
}
