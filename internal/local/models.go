package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/openai"
	"github.com/perdure/perdure/internal/adapter/scripted"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/netguard"
)

// Kinds of provider that this server can speak to. A provider that is named
// after its kind exists without being set up.
const (
	kindOpenAI     = "openai"
	kindCompatible = "openai-compatible"
	kindScripted   = "scripted"
)

// demoPace is the time between two words of the demo's model.
const demoPace = 15 * time.Millisecond

// models is host.Models: the providers that a tenant has set up, and those that
// exist by themselves.
type models struct {
	cfg      Config
	settings *settings
	client   *http.Client
	scripted *scripted.Model

	mu   sync.Mutex
	made map[madeModel]host.ModelPort
}

// madeModel is all that a port was made of: a provider set up anew is another.
type madeModel struct {
	tenant ident.TenantID
	name   string
	provider
	secret string
}

var _ host.Models = (*models)(nil)

// madeMost bounds the ports that are kept; past it they are made anew.
const madeMost = 256

func newModels(cfg Config, s *settings) *models {
	guard := netguard.Guard{AllowPrivate: cfg.AllowPrivate}
	transport := guard.Transport(http.ProxyFromEnvironment)
	transport.DialContext = refusing(transport.DialContext)
	// A model on a small machine reads a long prompt before it says a word.
	transport.ResponseHeaderTimeout = 10 * time.Minute
	transport.MaxIdleConnsPerHost = 16
	return &models{
		cfg: cfg, settings: s, client: &http.Client{Transport: transport},
		scripted: scripted.New(scripted.Config{Pace: cfg.pace()}), made: map[madeModel]host.ModelPort{},
	}
}

type dialContext = func(ctx context.Context, network, address string) (net.Conn, error)

// refusing turns the guard's refusal into a fault that is not tried again.
func refusing(dial dialContext) dialContext {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if refused, ok := errors.AsType[*netguard.RefusedError](err); ok {
			return nil, &host.Fault{Class: host.ClassAccess, Message: "the model's server may not be reached: " + refused.Error(), Err: err}
		}
		return conn, err
	}
}

// Model implements host.Models.
func (m *models) Model(ctx context.Context, tenant ident.TenantID, model session.Model) (host.ModelPort, error) {
	p, err := m.find(ctx, tenant, model.Provider)
	if err != nil {
		return nil, err
	}
	key := madeModel{tenant: tenant, name: model.Provider, provider: p}
	if p.Secret != "" {
		key.secret, _ = m.cfg.Secret(p.Secret)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if port := m.made[key]; port != nil {
		return port, nil
	}
	port, err := m.make(key)
	if err != nil {
		return nil, err
	}
	if len(m.made) >= madeMost {
		clear(m.made)
	}
	m.made[key] = port
	return port, nil
}

// find returns a provider: the tenant's own of that name, else the one that
// exists by itself.
func (m *models) find(ctx context.Context, tenant ident.TenantID, name string) (provider, error) {
	set, err := m.settings.of(ctx, tenant)
	if err != nil {
		return provider{}, err
	}
	if p, ok := set.Providers[name]; ok {
		return p, nil
	}
	if p, ok := m.builtin(name); ok {
		return p, nil
	}
	return provider{}, fmt.Errorf("provider %q: %w", name, host.ErrNotFound)
}

// builtin are the providers that exist by themselves.
func (m *models) builtin(name string) (provider, bool) {
	switch name {
	case kindScripted:
		return provider{Kind: kindScripted}, true
	case kindOpenAI:
		return provider{Kind: kindOpenAI, BaseURL: m.cfg.OpenAIBaseURL, Secret: m.cfg.OpenAIKeyName}, true
	case kindCompatible:
		return provider{Kind: kindCompatible, BaseURL: m.cfg.OpenAIBaseURL}, true
	}
	return provider{}, false
}

func (m *models) make(k madeModel) (host.ModelPort, error) {
	switch k.Kind {
	case kindScripted:
		return m.scripted, nil
	case kindOpenAI, kindCompatible:
		return openai.New(openai.Config{
			Name: k.name, BaseURL: k.BaseURL, APIKey: k.secret, Compatible: k.Kind == kindCompatible, HTTPClient: m.client,
		})
	}
	return nil, fmt.Errorf("provider %q is of kind %s, which this version does not speak: %w", k.name, k.Kind, host.ErrNotFound)
}
