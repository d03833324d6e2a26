package tool

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/host"
)

// Registry is the host's port Tools over built-in families and the outside
// tools of each tenant. It is safe for concurrent use.
type Registry struct {
	builtin map[string]*served
	outside Outside
	// OnPanic is told of a panic in a tool, with its stack. Set it before use.
	OnPanic func(tool string, value any, stack []byte)

	mu      sync.Mutex
	schemas map[string]compiled
}

// served is a tool whose schema has been read.
type served struct {
	Spec
	schema *Schema
}

type compiled struct {
	schema *Schema
	err    error
}

// schemasMax bounds the schemas kept in memory; past it they are read anew.
const schemasMax = 1024

var _ host.Tools = (*Registry)(nil)

// New makes a registry of built-in tools; outside may be nil. A built-in tool
// that is not well-formed is a mistake in the program, and the error.
func New(outside Outside, families ...[]Spec) (*Registry, error) {
	r := &Registry{builtin: map[string]*served{}, outside: outside, schemas: map[string]compiled{}}
	for _, spec := range slices.Concat(families...) {
		s, err := r.admit(spec)
		if err != nil {
			return nil, fmt.Errorf("built-in tool %s: %w", spec.Name, err)
		}
		if r.builtin[spec.Name] != nil {
			return nil, fmt.Errorf("built-in tool %s is there twice", spec.Name)
		}
		r.builtin[spec.Name] = s
	}
	return r, nil
}

// admit checks a spec.
func (r *Registry) admit(spec Spec) (*served, error) {
	if spec.Invalid != nil {
		return nil, spec.Invalid
	}
	if spec.Class == "" {
		spec.Class = session.ClassInline
	}
	if _, err := ident.ParseName("tool name", spec.Name); err != nil {
		return nil, err
	}
	switch spec.Kind {
	case KindRead, KindAction, KindAgent:
	default:
		return nil, fmt.Errorf("kind is none of %s, %s, %s", KindRead, KindAction, KindAgent)
	}
	switch spec.Class {
	case session.ClassInline, session.ClassJoined, session.ClassPromise:
		if spec.Run == nil {
			return nil, fmt.Errorf("a tool of class %s needs something to run", spec.Class)
		}
	default:
		if !isControl(spec.Class) || spec.Control == nil {
			return nil, fmt.Errorf("class %q is none, or lacks the reading of its arguments", spec.Class)
		}
	}
	schema, err := r.compile(spec.Parameters)
	if err != nil {
		return nil, err
	}
	return &served{Spec: spec, schema: schema}, nil
}

func (r *Registry) compile(text string) (*Schema, error) {
	r.mu.Lock()
	c, there := r.schemas[text]
	r.mu.Unlock()
	if there {
		return c.schema, c.err
	}
	schema, err := CompileSchema(text, true)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.schemas) >= schemasMax {
		clear(r.schemas)
	}
	r.schemas[text] = compiled{schema, err}
	return schema, err
}

// tools returns what a tenant is served now, by name, and what is left out. An
// outside tool cannot take the name of a built-in one: a grant means what it
// meant before the tool was set up.
func (r *Registry) tools(ctx context.Context, tenant ident.TenantID) (map[string]*served, []Quarantined, error) {
	if r.outside == nil {
		return r.builtin, nil, nil
	}
	specs, err := r.outside.OutsideTools(ctx, tenant)
	if err != nil {
		return nil, nil, fmt.Errorf("outside tools: %w", err)
	}
	if len(specs) == 0 {
		return r.builtin, nil, nil
	}
	all := make(map[string]*served, len(r.builtin)+len(specs))
	maps.Copy(all, r.builtin)
	var bad []Quarantined
	for _, spec := range specs {
		s, err := r.admit(spec)
		switch {
		case err != nil:
			bad = append(bad, Quarantined{Name: spec.Name, Reason: err.Error()})
		case all[spec.Name] != nil:
			bad = append(bad, Quarantined{Name: spec.Name, Reason: "the name is taken by another tool"})
		default:
			all[spec.Name] = s
		}
	}
	return all, bad, nil
}

// Quarantined lists the outside tools of a tenant that are left out of every
// offer, by name.
func (r *Registry) Quarantined(ctx context.Context, tenant ident.TenantID) ([]Quarantined, error) {
	_, bad, err := r.tools(ctx, tenant)
	slices.SortStableFunc(bad, func(a, b Quarantined) int { return strings.Compare(a.Name, b.Name) })
	return bad, err
}

// Offer implements host.Tools.
func (r *Registry) Offer(ctx context.Context, key host.Key, cfg session.Config) ([]host.Tool, error) {
	all, _, err := r.tools(ctx, key.Tenant)
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range all {
		if granted(cfg.Tools, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	wires := wireNames(names)
	offer := make([]host.Tool, 0, len(names))
	for _, name := range names {
		s := all[name]
		target := []string{s.Target}
		if s.TargetFor != nil {
			target = append(target, s.TargetFor(cfg))
		}
		offer = append(offer, host.Tool{
			Def: session.ToolDef{
				Name: name, WireName: wires[name], Kind: s.Kind, Class: s.Class,
				RetrySafe: s.RetrySafe, Parallel: s.Parallel, Lookup: s.Lookup != nil, DeadlineMs: s.DeadlineMs,
				Gate:       gate(cfg.Approvals, name, s.Kind, s.Class),
				Definition: definition(append([]string{name, s.schema.Text(), s.Kind}, target...)...),
			},
			Description: s.Description, Parameters: s.schema.Text(), MaxOutput: s.MaxOutput, RequiresRole: s.RequiresRole,
		})
	}
	return offer, nil
}

// definition is what an approval binds. Lengths stand before the parts, so no
// two lists of parts are the same bytes.
func definition(parts ...string) string {
	var b []byte
	for _, p := range parts {
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(p))), p...)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Run implements host.Tools. It checks again what was screened: between the
// two lie a person's edit, another build, another set of tools.
func (r *Registry) Run(ctx context.Context, call host.ToolCall) (res host.ToolResult, err error) {
	s, err := r.find(ctx, call)
	if err != nil {
		return host.ToolResult{}, err
	}
	if s.Run == nil {
		return host.ToolResult{}, &host.Fault{Class: host.ClassInvalid, Message: "a tool of class " + s.Class + " is the session's own and is not run"}
	}
	if problem := s.refuse(call.Actor); problem != "" {
		return Failed(problem), nil
	}
	if !s.schema.passed.has(call.Arguments) {
		arguments, err := ParseArguments(call.Arguments)
		if err != nil {
			return Failed("not run: " + err.Error()), nil
		}
		if bad := s.schema.Check(arguments); bad != nil {
			return Failed("not run: the arguments do not fit the schema: " + bad.Text()), nil
		}
	}
	defer func() {
		// A tool's mistake is that call's failure, not the end of the process
		// and of every other session in it.
		if p := recover(); p != nil {
			r.panicked(call.Tool, p)
			res, err = Failed("the tool "+call.Tool+" failed unexpectedly; it may have partly run"), nil
		}
	}()
	res, err = s.Run(ctx, call)
	res.Effects = boundEffects(res.Effects)
	return res, err
}

// Lookup implements host.Tools.
func (r *Registry) Lookup(ctx context.Context, call host.ToolCall) (res host.ToolResult, found bool, err error) {
	s, err := r.find(ctx, call)
	if err != nil {
		return host.ToolResult{}, false, err
	}
	if s.Lookup == nil {
		return host.ToolResult{}, false, nil
	}
	defer func() {
		if p := recover(); p != nil {
			r.panicked(call.Tool, p)
			res, found, err = host.ToolResult{}, false, nil
		}
	}()
	res, found, err = s.Lookup(ctx, call)
	res.Effects = boundEffects(res.Effects)
	return res, found, err
}

func (r *Registry) find(ctx context.Context, call host.ToolCall) (*served, error) {
	all, _, err := r.tools(ctx, call.Key.Tenant)
	if err != nil {
		return nil, &host.Fault{Class: host.ClassServer, Message: "the tenant's tools could not be read", Err: err}
	}
	s := all[call.Tool]
	if s == nil {
		return nil, &host.Fault{Class: host.ClassNotFound, Message: "nobody serves the tool " + call.Tool}
	}
	return s, nil
}

func (r *Registry) panicked(tool string, value any) {
	if r.OnPanic != nil {
		r.OnPanic(tool, value, debug.Stack())
	}
}

// Bounds of one effect's texts, in bytes.
const (
	effectKindMax = 64
	effectTextMax = 1024
)

func boundEffects(effects []session.ToolEffect) []session.ToolEffect {
	effects = effects[:min(len(effects), session.EffectsMax)]
	for i, e := range effects {
		effects[i] = session.ToolEffect{
			Kind: blob.Cut(e.Kind, effectKindMax), Subject: blob.Cut(e.Subject, effectTextMax), Detail: blob.Cut(e.Detail, effectTextMax),
		}
	}
	return effects
}
