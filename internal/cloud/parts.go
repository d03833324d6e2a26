package cloud

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/gosched"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/cloud/inbox"
	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/wiring"
)

// Tenant is whom the stack's own key belongs to, and Admin who has it.
const (
	Tenant = "default"
	Admin  = "admin"
)

// parts are what a function works with.
type parts struct {
	set      env.Function
	ports    Ports
	secrets  *cachedSecrets
	signing  signing
	admin    string // the whole token
	adminID  string
	sched    *gosched.Sched
	settings *wiring.Settings
	tools    *wiring.Tools
	models   *models
	engine   *host.Engine
	handler  http.Handler
	inbox    *inbox.Inbox
	own      own

	// readyUntil is how long the last answer that all is well is good.
	readyUntil atomic.Int64
}

// role is what a function needs of its surroundings.
type role struct {
	needs []string
	// key: it asks callers for the admin's key. signs: it makes or opens promise
	// tokens, or cursors. serves: it has the API. engine: it has sessions.
	key, signs, serves, engine bool
}

func roleOf(name string) (role, error) {
	store := []string{env.Table, env.Bucket, env.Machine}
	switch name {
	case env.FunctionAPI, env.FunctionRead, env.FunctionStream:
		return role{needs: append(store, env.KeySecret, env.SigningSecret), key: true, signs: true, serves: true, engine: true}, nil
	case env.FunctionInbox:
		return role{needs: append(store, env.SigningSecret), signs: true, serves: true, engine: true}, nil
	case env.FunctionDrive, env.FunctionTool:
		return role{needs: append(store, env.SigningSecret), signs: true, engine: true}, nil
	case env.FunctionPark, env.FunctionSweep:
		return role{needs: store, engine: true}, nil
	case env.FunctionDeliver:
		return role{needs: []string{env.Work}}, nil
	}
	return role{}, errors.New("there is no function of this name")
}

// assemble opens all that the function's role needs.
func (f *Function) assemble(ctx context.Context) (*parts, error) {
	r, err := roleOf(f.cfg.Role)
	if err != nil {
		return nil, err
	}
	p := &parts{sched: gosched.New()}
	if p.set, err = env.ParseFunction(f.cfg.Lookup, r.needs...); err != nil {
		return nil, err
	}
	p.set.Emulated, p.own = emulated(p.set, f.cfg.Lookup), ownOf(p.set, f.cfg.Role)
	if p.ports, err = f.cfg.Connect(ctx, p.set); err != nil {
		return nil, err
	}
	p.secrets = newCachedSecrets(p.ports.Secrets, p.sched.Now)
	p.settings = wiring.NewSettings(p.ports.Stash, p.sched, true)
	if err := p.readSecrets(ctx, r); err != nil {
		return nil, err
	}
	if !r.engine {
		return p, nil
	}
	if err := f.assembleEngine(p); err != nil {
		return nil, err
	}
	if r.serves {
		f.assembleAPI(p, r)
	}
	return p, nil
}

// readSecrets reads what the stack's own entries hold, all at once: the process
// is coming up, and somebody waits.
func (p *parts) readSecrets(ctx context.Context, r role) error {
	var key, root stackSecret
	var errs [2]error
	var wg sync.WaitGroup
	if r.key {
		wg.Go(func() { key, errs[0] = readStackSecret(ctx, p.secrets, env.KeySecret, p.set.KeySecret) })
	}
	if r.signs {
		wg.Go(func() { root, errs[1] = readStackSecret(ctx, p.secrets, env.SigningSecret, p.set.SigningSecret) })
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	if r.key {
		p.admin, p.adminID = key.token(), key.ID
	}
	if !r.signs {
		return nil
	}
	var err error
	p.signing, err = root.signing()
	return err
}

// Times of the engine in a function.
const (
	// watchMs is between looks at the head while an effect runs: a cancel is
	// heard of within a second.
	watchMs = 500
	// lookMs is between looks for a tool that a call waits for. Each is a park
	// and a wake, which cost.
	lookMs = 60 * ident.Second
)

// streamFor is how long a stream lasts before its client is asked to come again:
// less than a function may run.
const streamFor = 14 * time.Minute

// options are the engine's, by role.
func (f *Function) options(p *parts) host.Options {
	o := host.Options{
		LookMs: lookMs, SliceTurns: p.set.SliceTurns, RolloverSteps: p.set.RolloverSteps, PurgeAgainMs: p.set.PurgeAgainMs, Elsewhere: p.elsewhere,
	}
	if f.cfg.Role == env.FunctionDrive {
		o.Sliced, o.WatchMs = true, watchMs
	} else {
		o.AdmitOnly = true
	}
	return o
}

// elsewhere says that a tool's calls run in the function tool: those of
// customers' functions that the model waits for, which may take long.
// The server's own tools are expected to answer within seconds, whatever their
// deadline is, and a step of the machine costs more than they do.
func (p *parts) elsewhere(def session.ToolDef) bool {
	return def.Class == session.ClassInline && !p.tools.Builtin(def.Name)
}

func (f *Function) assembleEngine(p *parts) (err error) {
	p.models = &models{set: p.set, secrets: p.secrets, log: f.log, calls: f.cfg.Role == env.FunctionDrive}
	p.tools, err = wiring.NewTools(wiring.ToolsConfig{
		Settings: p.settings, Workspaces: p.ports.Workspaces, Guard: guard(p.set), Secret: p.secret, Now: p.sched.Now,
		URL: func() string { return p.set.PublicURL }, Functions: ownFunctions{p.ports.Functions, p.own}, Queues: outbox{p}, WorkQueue: p.set.Work,
		OnPanic: func(tool string, value any, stack []byte) {
			f.panicked(f.life, "a tool panicked", value, stack, "tool", tool)
		},
	})
	if err != nil {
		return err
	}
	p.engine = host.New(host.Deps{
		Log: p.ports.Log, Blobs: p.ports.Blobs, Checkpoints: p.ports.Checkpoints, Stash: p.ports.Stash, Frames: p.ports.Frames,
		Models: p.models, Tools: p.tools.Registry, Sched: p.sched, Waker: p.ports.Waker, Keys: p.signing.promises,
		Purge: p.purge, Report: f.report(wiring.NewReporter(f.log).Report),
	}, f.options(p))
	// The engine's tasks outlive the invocation that started them: the next one
	// finds the session in hand.
	return p.engine.Start(f.life)
}

// purge removes what a deleted session has outside the table.
func (p *parts) purge(ctx context.Context, key host.Key, inc string) error {
	if err := p.ports.Workspaces.DropWorkspace(ctx, key, ""); err != nil {
		return err
	}
	if p.ports.Purge == nil {
		return nil
	}
	return p.ports.Purge(ctx, key, inc)
}

// secret finds a tool's secret: an entry under the stack's prefix and the
// tenant, so that no tenant names another's.
func (p *parts) secret(ctx context.Context, tenant ident.TenantID, name string) (string, error) {
	if p.set.Secrets == "" {
		return "", errors.New(env.Secrets + " is not set, so tools have no secrets")
	}
	if _, err := ident.ParseName("secret", name); err != nil {
		return "", err
	}
	return p.secrets.Secret(ctx, p.set.Secrets+string(tenant)+"/"+name)
}

// nobody is the api.Authenticator of a function that is not asked by clients.
type nobody struct{}

// Authenticate implements api.Authenticator.
func (nobody) Authenticate(context.Context, string) (api.Principal, error) {
	return api.Principal{}, api.ErrUnauthenticated
}

func (f *Function) assembleAPI(p *parts, r role) {
	auth := api.Authenticator(nobody{})
	if r.key {
		auth = wiring.NewOneKey(api.Principal{Tenant: Tenant, Actor: Admin}, p.adminID, p.admin, false)
	}
	model := wiring.DefaultModel(p.set.OpenAISecret != "", p.set.OpenAIBaseURL, p.set.OpenAIModel)
	p.handler = api.New(api.Deps{
		Engine: p.engine, Stash: p.ports.Stash, Auth: auth, Keys: p.signing.promises, Secret: p.signing.cursors,
		Tools: ownStore{p.tools.Store, p.own}, DefaultConfig: func(context.Context, ident.TenantID) api.Config { return wiring.DefaultConfig(model) },
		// The gateway has a guard of its own, and knows its names.
		Guard: api.Guard{Hosts: []string{"*"}}, Ready: p.ready,
		KeyHint: "the admin's key is in the Secrets Manager entry that the stack's outputs name",
		Version: f.cfg.Version, Log: f.log,
		Streams: api.Streams{Live: p.ports.Live, URL: p.set.StreamURL, For: streamFor},
	})
	switch f.cfg.Role {
	case env.FunctionRead, env.FunctionStream:
		p.handler = readsOnly(p.handler, p.set.PublicURL)
	case env.FunctionInbox:
		p.inbox = inbox.New(inbox.Deps{API: p.handler, Sessions: p.engine, Body: p.ports.Blobs.GetBlob, Log: f.log})
	}
}

// readySession is a session that nobody has: its name is none.
const readySession = "readyz"

// ready asks the table and the bucket for what is not there: one that answers so
// is there, and may be read.
func (p *parts) ready(ctx context.Context) error {
	now := p.sched.Now()
	if int64(now) < p.readyUntil.Load() {
		return nil
	}
	key := host.Key{Tenant: Tenant, Session: readySession}
	_, err := p.ports.Log.Head(ctx, key)
	if err != nil && !errors.Is(err, host.ErrNotFound) {
		return err
	}
	if _, err = p.ports.Workspaces.ListFiles(ctx, key, "", "", "", true, 1); err != nil {
		return err
	}
	p.readyUntil.Store(int64(now.Add(readyFor)))
	return nil
}
