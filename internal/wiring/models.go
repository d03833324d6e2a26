package wiring

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/openai"
	"github.com/perdure/perdure/internal/adapter/scripted"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/netguard"
)

// Kinds of provider that a server can speak to. A provider that is named after
// its kind exists without being set up.
const (
	KindOpenAI     = "openai"
	KindCompatible = "openai-compatible"
	KindScripted   = "scripted"
)

// Proxy finds the proxy of a request, as http.ProxyFromEnvironment does. It is
// then the proxy's address that is checked, and nobody checks what it connects
// to.
type Proxy = func(*http.Request) (*url.URL, error)

// ModelsConfig is what providers are made of.
type ModelsConfig struct {
	// Guard says which addresses a provider may have, Proxy what stands before
	// them; nil is none.
	Guard netguard.Guard
	Proxy Proxy
	// OpenAIKey is sent to OpenAI and nowhere else; OpenAIKeyName is how the
	// operator knows it.
	OpenAIKey     string
	OpenAIKeyName string
	OpenAIBaseURL string
	// Pace is the time between two words of the scripted model.
	Pace time.Duration
}

// Models is host.Models: the providers that exist by themselves.
type Models struct {
	made map[string]host.ModelPort
	// compatible has an address of its own; without one each model names its.
	compatible bool
}

var _ host.Models = (*Models)(nil)

// NewModels makes the providers.
func NewModels(cfg ModelsConfig) (*Models, error) {
	client := &http.Client{Transport: providerTransport(cfg.Guard, cfg.Proxy)}
	m := &Models{
		made:       map[string]host.ModelPort{KindScripted: scripted.New(scripted.Config{Pace: cfg.Pace})},
		compatible: cfg.OpenAIBaseURL != "",
	}
	for _, c := range []openai.Config{
		{Name: KindOpenAI, BaseURL: cfg.OpenAIBaseURL, APIKey: cfg.OpenAIKey, KeyName: cfg.OpenAIKeyName},
		{Name: KindCompatible, BaseURL: cfg.OpenAIBaseURL, Compatible: true},
	} {
		c.HTTPClient = client
		port, err := openai.New(c)
		if err != nil {
			return nil, err
		}
		m.made[c.Name] = port
	}
	return m, nil
}

// DefaultModel answers in sessions that name no model: OpenAI's where there is
// a key, else that of the server that is named, else the demo's.
func DefaultModel(haveKey bool, baseURL, model string) api.ModelConfig {
	switch {
	case haveKey:
		return api.ModelConfig{Provider: KindOpenAI, Model: model}
	case baseURL != "":
		return api.ModelConfig{Provider: KindCompatible, Model: model}
	}
	return api.ModelConfig{Provider: KindScripted, Model: scripted.Demo}
}

// DefaultTools are granted to sessions that are made without a config.
func DefaultTools() []string { return []string{"files.*", "sleep", "await", "detach", "cancel", "ask"} }

// DefaultConfig is what a session gets that is made without one.
func DefaultConfig(model api.ModelConfig) api.Config {
	cfg := api.Config{Model: model}
	for _, name := range DefaultTools() {
		cfg.Tools = append(cfg.Tools, api.ToolGrant{Name: name})
	}
	return cfg
}

func providerTransport(guard netguard.Guard, proxy Proxy) *http.Transport {
	transport := guard.Transport(proxy)
	transport.DialContext = refusing(transport.DialContext)
	// A model on a small machine reads a long prompt before it says a word.
	transport.ResponseHeaderTimeout = 10 * time.Minute
	transport.MaxIdleConnsPerHost = 16
	return transport
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
func (m *Models) Model(_ context.Context, _ ident.TenantID, model session.Model) (host.ModelPort, error) {
	port := m.made[model.Provider]
	if port == nil {
		return nil, fmt.Errorf("provider %q: %w", model.Provider, host.ErrNotFound)
	}
	switch {
	case model.BaseURL != "" && model.Provider != KindCompatible:
		return nil, misplaced("config.model.baseUrl is for the provider " + KindCompatible + " only")
	case model.BaseURL == "" && model.Provider == KindCompatible && !m.compatible:
		return nil, misplaced("the provider " + KindCompatible + " has no address: config.model.baseUrl is wanted, or " + env.OpenAIBaseURL + " on the server")
	}
	return port, nil
}

// misplaced says why a config's model is none: who writes the config is told
// when it is written, and a run that has it all the same fails at once.
func misplaced(why string) error {
	return errors.Join(&host.Fault{Class: host.ClassNotFound, Message: why}, &host.Rejection{Code: host.CodeValidation, Message: why})
}
