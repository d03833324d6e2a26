package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
	toolhttp "github.com/perdure/perdure/internal/tool/http"
)

// settings keeps what an admin sets up: outside tools, one document a tenant, in
// the database. They are asked for at every turn and call, so they are answered
// from memory; this process alone writes them.
type settings struct {
	stash host.Stash
	now   func() ident.Instant

	mu      sync.Mutex
	tenants map[ident.TenantID]document
}

// document is what is stored. Its map is never changed, but replaced, so that a
// reader may keep one.
type document struct {
	Tools map[string]toolhttp.Definition `json:"tools,omitempty"`
}

const settingsName = "settings"

// forever is the last instant that has four digits of a year. What is stashed
// until then is kept.
const forever ident.Instant = 253402300799000

func newSettings(stash host.Stash, now func() ident.Instant) *settings {
	return &settings{stash: stash, now: now, tenants: map[ident.TenantID]document{}}
}

// of returns a tenant's document, for reading.
func (s *settings) of(ctx context.Context, tenant ident.TenantID) (document, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.load(ctx, tenant)
}

func (s *settings) load(ctx context.Context, tenant ident.TenantID) (document, error) {
	if d, there := s.tenants[tenant]; there {
		return d, nil
	}
	var d document
	data, err := s.stash.GetStash(ctx, host.Key{Tenant: tenant}, settingsName, s.now())
	if err != nil && !errors.Is(err, host.ErrNotFound) {
		return d, fmt.Errorf("settings: %w", err)
	}
	if err == nil {
		if err := json.Unmarshal(data, &d); err != nil {
			return d, fmt.Errorf("settings: %w", err)
		}
	}
	s.tenants[tenant] = d
	return d, nil
}

// change replaces a tenant's document, unless edit refuses. It is durable when
// it returns.
func (s *settings) change(ctx context.Context, tenant ident.TenantID, edit func(d *document) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, err := s.load(ctx, tenant)
	if err != nil {
		return err
	}
	d := document{Tools: maps.Clone(old.Tools)}
	if d.Tools == nil {
		d.Tools = map[string]toolhttp.Definition{}
	}
	if err := edit(&d); err != nil {
		return err
	}
	data, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	if _, err := s.stash.PutStash(ctx, host.Key{Tenant: tenant}, settingsName, data, forever, false); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	s.tenants[tenant] = d
	return nil
}
