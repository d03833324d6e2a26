package wiring

import (
	"context"
	"maps"
	"slices"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/netguard"
	"github.com/perdure/perdure/internal/tool"
	"github.com/perdure/perdure/internal/tool/control"
	"github.com/perdure/perdure/internal/tool/files"
	toolhttp "github.com/perdure/perdure/internal/tool/http"
	"github.com/perdure/perdure/internal/tool/lambda"
	"github.com/perdure/perdure/internal/tool/outside"
	"github.com/perdure/perdure/internal/tool/queue"
)

// ToolsConfig is what the tools of a server are made of.
type ToolsConfig struct {
	Settings   *Settings
	Workspaces files.Workspaces
	// Guard says which addresses a tool may have, Proxy what stands before them;
	// nil is none.
	Guard netguard.Guard
	Proxy Proxy
	// Secret returns the value of a tenant's secret by its name.
	Secret func(ctx context.Context, tenant ident.TenantID, name string) (string, error)
	Now    func() ident.Instant
	// URL is where clients find the server, without a slash at its end; empty
	// if it does not know.
	URL func() string
	// Functions and Queues reach tools of target lambda and queue; nil serves
	// none. WorkQueue is the URL of the queue of those that name none.
	Functions lambda.Invoker
	Queues    queue.Sender
	WorkQueue string
	// OnPanic is told of a tool that panicked.
	OnPanic func(tool string, value any, stack []byte)
}

// Tools are the tools of a server: built-in ones, and those outside that its
// tenants have set up.
type Tools struct {
	// Registry offers, screens and runs them.
	Registry *tool.Registry
	// Store keeps the definitions of those outside.
	Store api.ToolStore

	builtin []tool.Spec
}

// Builtin says whether a tool is the server's own.
func (t *Tools) Builtin(name string) bool {
	return slices.ContainsFunc(t.builtin, func(s tool.Spec) bool { return s.Name == name })
}

// NewTools puts them together.
func NewTools(cfg ToolsConfig) (*Tools, error) {
	builtin := [][]tool.Spec{files.Tools(cfg.Workspaces), control.Tools()}
	reached := reach(cfg)
	registry, err := tool.New(&outsideTools{settings: cfg.Settings, reach: reached}, builtin...)
	if err != nil {
		return nil, err
	}
	registry.OnPanic = cfg.OnPanic
	store := &toolStore{settings: cfg.Settings, builtin: slices.Concat(builtin...), serves: slices.Sorted(maps.Keys(reached))}
	return &Tools{Registry: registry, Store: store, builtin: store.builtin}, nil
}

// reach is what makes the tools of a definition, by its target. Only what a
// server can reach is there.
func reach(cfg ToolsConfig) map[string]func(outside.Definition) tool.Spec {
	settle := func(token string) string {
		base := cfg.URL()
		if base == "" {
			return ""
		}
		return base + "/v1/promises/" + token
	}
	web := &toolhttp.Caller{Transport: cfg.Guard.Transport(cfg.Proxy), Secret: cfg.Secret, Now: cfg.Now, SettleURL: settle}
	by := map[string]func(outside.Definition) tool.Spec{outside.HTTP: web.Spec}
	if cfg.Functions != nil {
		functions := &lambda.Caller{Invoker: cfg.Functions, SettleURL: settle}
		by[outside.Lambda] = functions.Spec
	}
	if cfg.Queues != nil {
		queues := &queue.Caller{Sender: cfg.Queues, Queue: cfg.WorkQueue, SettleURL: settle}
		by[outside.Queue] = queues.Spec
	}
	return by
}

// outsideTools is tool.Outside over the settings.
type outsideTools struct {
	settings *Settings
	reach    map[string]func(outside.Definition) tool.Spec
}

var _ tool.Outside = (*outsideTools)(nil)

// OutsideTools implements tool.Outside.
func (o *outsideTools) OutsideTools(ctx context.Context, tenant ident.TenantID) ([]tool.Spec, error) {
	d, err := o.settings.of(ctx, tenant)
	if err != nil {
		return nil, err
	}
	specs := make([]tool.Spec, 0, len(d.Tools))
	for _, def := range d.Tools {
		if spec, served := o.reach[def.By()]; served {
			specs = append(specs, spec(def))
		} else {
			specs = append(specs, def.Unserved(slices.Collect(maps.Keys(o.reach))))
		}
	}
	return specs, nil
}

// toolStore is api.ToolStore over the settings.
type toolStore struct {
	settings *Settings
	builtin  []tool.Spec
	serves   []string // targets
}

var _ api.ToolStore = (*toolStore)(nil)

// toolsMost bounds a tenant's outside tools: all of them are in one document,
// and each may be offered to a model.
const toolsMost = 256

// Tools implements api.ToolStore.
func (t *toolStore) Tools(ctx context.Context, tenant ident.TenantID, after string, limit int) ([]api.Tool, error) {
	d, err := t.settings.of(ctx, tenant)
	if err != nil {
		return nil, err
	}
	var out []api.Tool
	for _, name := range slices.Sorted(maps.Keys(d.Tools)) {
		if name > after && len(out) < limit {
			out = append(out, apiTool(d.Tools[name]))
		}
	}
	return out, nil
}

// Tool implements api.ToolStore.
func (t *toolStore) Tool(ctx context.Context, tenant ident.TenantID, name string) (api.Tool, error) {
	d, err := t.settings.of(ctx, tenant)
	if err != nil {
		return api.Tool{}, err
	}
	def, there := d.Tools[name]
	if !there {
		return api.Tool{}, host.ErrNotFound
	}
	return apiTool(def), nil
}

// PutTool implements api.ToolStore.
func (t *toolStore) PutTool(ctx context.Context, tenant ident.TenantID, at api.Tool) (created bool, err error) {
	def := definition(at)
	if err := def.Validate(); err != nil {
		return false, &host.Rejection{Code: host.CodeValidation, Message: err.Error()}
	}
	if !slices.Contains(t.serves, def.By()) {
		return false, &host.Rejection{Code: host.CodeValidation, Message: outside.NotServed(def.By(), t.serves).Error()}
	}
	if slices.ContainsFunc(t.builtin, func(s tool.Spec) bool { return s.Name == def.Name }) {
		return false, &host.Rejection{Code: host.CodeValidation, Message: "the name is that of a built-in tool"}
	}
	err = t.settings.change(ctx, tenant, func(d *document) error {
		_, there := d.Tools[def.Name]
		if created = !there; created && len(d.Tools) >= toolsMost {
			return &host.Rejection{
				Code: host.CodeLimitReached, Message: "a tenant has no more outside tools than that",
				Limit: "outside tools", Actual: int64(len(d.Tools)), Max: toolsMost,
			}
		}
		d.Tools[def.Name] = def
		return nil
	})
	return created, err
}

// DeleteTool implements api.ToolStore.
func (t *toolStore) DeleteTool(ctx context.Context, tenant ident.TenantID, name string) error {
	return t.settings.change(ctx, tenant, func(d *document) error {
		if _, there := d.Tools[name]; !there {
			return host.ErrNotFound
		}
		delete(d.Tools, name)
		return nil
	})
}

func definition(t api.Tool) outside.Definition {
	return outside.Definition{
		Name: t.Name, Target: t.Target, URL: t.URL, Function: t.Function, Queue: t.Queue, Secret: t.Secret,
		Description: t.Description, Parameters: string(t.Parameters), ResultSchema: string(t.ResultSchema),
		Kind: t.Kind, RetrySafe: t.RetrySafe, Parallel: t.Parallel, Completion: t.Completion, TimeoutSeconds: t.TimeoutSeconds,
		RequiresRole: t.RequiresRole, Lookup: t.Lookup,
	}
}

func apiTool(d outside.Definition) api.Tool {
	return api.Tool{Name: d.Name, ToolDefinition: api.ToolDefinition{
		Target: d.By(), URL: d.URL, Function: d.Function, Queue: d.Queue, Secret: d.Secret,
		Description: d.Description, Parameters: api.Object(d.Parameters), ResultSchema: api.Object(d.ResultSchema),
		Kind: d.Kind, RetrySafe: d.RetrySafe, Parallel: d.Parallel, Completion: d.Completion, TimeoutSeconds: d.TimeoutSeconds,
		RequiresRole: d.RequiresRole, Lookup: d.Lookup,
	}}
}
