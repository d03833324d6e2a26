package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/openai"
	"github.com/perdure/perdure/internal/adapter/scripted"
	"github.com/perdure/perdure/internal/env"
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

// models is host.Models: the providers that exist by themselves.
type models struct {
	made map[string]host.ModelPort
	// compatible has an address of its own; without one each model names its.
	compatible bool
}

var _ host.Models = (*models)(nil)

// newModels makes the providers. They are the same for the whole life of the
// process: what they are made of is its environment.
func newModels(cfg Config) (*models, error) {
	client := &http.Client{Transport: providerTransport(netguard.Guard{AllowPrivate: cfg.AllowPrivate})}
	key := ""
	if cfg.OpenAIKeyName != "" {
		key, _ = cfg.Secret(cfg.OpenAIKeyName)
	}
	m := &models{
		made:       map[string]host.ModelPort{kindScripted: scripted.New(scripted.Config{Pace: cfg.pace()})},
		compatible: cfg.OpenAIBaseURL != "",
	}
	for _, c := range []openai.Config{
		{Name: kindOpenAI, BaseURL: cfg.OpenAIBaseURL, APIKey: key, KeyName: cfg.OpenAIKeyName},
		{Name: kindCompatible, BaseURL: cfg.OpenAIBaseURL, Compatible: true},
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

func providerTransport(guard netguard.Guard) *http.Transport {
	transport := guard.Transport(http.ProxyFromEnvironment)
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
func (m *models) Model(_ context.Context, _ ident.TenantID, model session.Model) (host.ModelPort, error) {
	port := m.made[model.Provider]
	if port == nil {
		return nil, fmt.Errorf("provider %q: %w", model.Provider, host.ErrNotFound)
	}
	switch {
	case model.BaseURL != "" && model.Provider != kindCompatible:
		return nil, misplaced("config.model.baseUrl is for the provider " + kindCompatible + " only")
	case model.BaseURL == "" && model.Provider == kindCompatible && !m.compatible:
		return nil, misplaced("the provider " + kindCompatible + " has no address: config.model.baseUrl is wanted, or " + env.OpenAIBaseURL + " on the server")
	}
	return port, nil
}

// misplaced says why a config's model is none: who writes the config is told
// when it is written, and a run that has it all the same fails at once.
func misplaced(why string) error {
	return errors.Join(&host.Fault{Class: host.ClassNotFound, Message: why}, &host.Rejection{Code: host.CodeValidation, Message: why})
}
