package wiring

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool/outside"
)

// Settings keeps what an admin sets up: outside tools, one document a tenant, in
// the stash. They are asked for at every turn and call, so they are answered
// from memory.
type Settings struct {
	stash host.Stash
	sched host.Sched
	// shared says that other processes write the same documents: what is in
	// memory is then good until Forget, and who changes one holds its lease.
	shared bool

	mu      sync.Mutex
	tenants map[ident.TenantID]document
}

// document is what is stored. Its map is never changed, but replaced, so that a
// reader may keep one.
type document struct {
	Tools map[string]outside.Definition `json:"tools,omitempty"`
}

// Names in the stash, under the tenant.
const (
	settingsName = "settings"
	leaseName    = "settings-lease"
)

const (
	// leaseMs is how long a change may take; past it its writer is taken for
	// dead.
	leaseMs = 10 * ident.Second
	// leaseLookMs is between looks at a lease that another holds.
	leaseLookMs = 50
)

// Forever is the last instant that has four digits of a year. What is stashed
// until then is kept.
const Forever ident.Instant = 253402300799000

// NewSettings makes the settings of a process. shared says that it is not the
// only one that writes them.
func NewSettings(stash host.Stash, sched host.Sched, shared bool) *Settings {
	return &Settings{stash: stash, sched: sched, shared: shared, tenants: map[ident.TenantID]document{}}
}

// Forget drops what is in memory where other processes may have written since.
func (s *Settings) Forget() {
	if !s.shared {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tenants)
}

// of returns a tenant's document, for reading.
func (s *Settings) of(ctx context.Context, tenant ident.TenantID) (document, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.load(ctx, tenant)
}

func (s *Settings) load(ctx context.Context, tenant ident.TenantID) (document, error) {
	if d, there := s.tenants[tenant]; there {
		return d, nil
	}
	var d document
	data, err := s.stash.GetStash(ctx, host.Key{Tenant: tenant}, settingsName, s.sched.Now())
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
func (s *Settings) change(ctx context.Context, tenant ident.TenantID, edit func(d *document) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared {
		release, err := s.lease(ctx, tenant)
		if err != nil {
			return err
		}
		defer release()
		delete(s.tenants, tenant)
	}
	old, err := s.load(ctx, tenant)
	if err != nil {
		return err
	}
	d := document{Tools: maps.Clone(old.Tools)}
	if d.Tools == nil {
		d.Tools = map[string]outside.Definition{}
	}
	if err := edit(&d); err != nil {
		return err
	}
	data, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	if _, err := s.stash.PutStash(ctx, host.Key{Tenant: tenant}, settingsName, data, Forever, false); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	s.tenants[tenant] = d
	return nil
}

// lease keeps other processes from changing the document between our reading
// and our writing of it: one of two changes at once would be lost. A holder
// that dies holds it for leaseMs, and no change takes that long.
func (s *Settings) lease(ctx context.Context, tenant ident.TenantID) (release func(), err error) {
	key, mine := host.Key{Tenant: tenant}, []byte(rand.Text())
	for {
		held, err := s.stash.PutStash(ctx, key, leaseName, mine, s.sched.Now().Add(leaseMs), true)
		if err != nil {
			return nil, fmt.Errorf("settings: %w", err)
		}
		if held == nil || string(held) == string(mine) { // an answer that was lost has taken it
			break
		}
		if err := s.sched.Sleep(ctx, leaseLookMs); err != nil {
			return nil, errors.Join(host.ErrUnavailable, err)
		}
	}
	return func() {
		// It lapses by itself if this fails.
		_ = s.stash.DropStash(context.WithoutCancel(ctx), key, leaseName)
	}, nil
}
