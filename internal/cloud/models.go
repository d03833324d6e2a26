package cloud

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/netguard"
	"github.com/perdure/perdure/internal/wiring"
)

// demoPace is the time between two words of the demo's model.
const demoPace = 15 * time.Millisecond

// guard is what tools and providers may be reached at. On AWS no setting opens
// loopback, link-local or metadata addresses: they are the runtime's own. Where
// AWS's services themselves are at a loopback address this is not AWS but an
// emulator on a developer's machine, and so may tools and models be.
func guard(set env.Function) netguard.Guard {
	return netguard.Guard{Rented: true, AllowPrivate: set.AllowPrivate, AllowLoopback: set.Emulated}
}

// models is host.Models over the providers of a process: they are made when
// the first is asked for, and again when OpenAI's key is another one.
type models struct {
	set     env.Function
	secrets Secrets
	log     *slog.Logger
	// calls says that this function calls models: one that only looks whether
	// they are there has no right to read the key.
	calls bool

	mu   sync.Mutex
	key  string
	made *wiring.Models
}

var _ host.Models = (*models)(nil)

// Model implements host.Models.
func (m *models) Model(ctx context.Context, tenant ident.TenantID, model session.Model) (host.ModelPort, error) {
	key := ""
	if m.calls && model.Provider == wiring.KindOpenAI && m.set.OpenAISecret != "" {
		text, err := m.secrets.Secret(ctx, m.set.OpenAISecret)
		if err != nil {
			return nil, m.keyless(ctx, err)
		}
		key = strings.TrimSpace(text)
	}
	made, err := m.providers(key)
	if err != nil {
		return nil, err
	}
	return made.Model(ctx, tenant, model)
}

func (m *models) providers(key string) (*wiring.Models, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.made != nil && (m.key == key || key == "") {
		return m.made, nil
	}
	made, err := wiring.NewModels(wiring.ModelsConfig{
		Guard: guard(m.set), OpenAIKey: key, OpenAIKeyName: env.OpenAISecret, OpenAIBaseURL: m.set.OpenAIBaseURL, Pace: demoPace,
	})
	if err != nil {
		return nil, err
	}
	m.key, m.made = key, made
	return made, nil
}

// keyless is the fault of a call without a key. What may pass is tried again.
func (m *models) keyless(ctx context.Context, err error) error {
	m.log.ErrorContext(ctx, "the key of the provider "+wiring.KindOpenAI+" cannot be read", "error", secretProblem(env.OpenAISecret, err))
	f := &host.Fault{Class: host.ClassServer, Message: "the key of the provider " + wiring.KindOpenAI + " cannot be read now; the server's log says why", Err: err}
	if errors.Is(err, host.ErrNotFound) || refused(err) {
		f.Class = host.ClassAuthentication
	}
	return f
}
