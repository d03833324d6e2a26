package tool_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool"
	"github.com/perdure/perdure/internal/tool/control"
)

var key = host.Key{Tenant: "acme", Session: "s1"}

// echo is a tool that answers with what it was called with.
func echo(name, kind string) tool.Spec {
	return tool.Spec{
		Name: name, Kind: kind, Description: "echo", Target: "test",
		Parameters: `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`,
		Run: func(_ context.Context, call host.ToolCall) (host.ToolResult, error) {
			return host.ToolResult{Text: call.Arguments}, nil
		},
	}
}

// outside is what tenants have set up.
type outside map[ident.TenantID][]tool.Spec

func (o outside) OutsideTools(_ context.Context, tenant ident.TenantID) ([]tool.Spec, error) {
	if tenant == "broken" {
		return nil, errors.New("the store is down")
	}
	return o[tenant], nil
}

func registry(t *testing.T, o tool.Outside, specs ...tool.Spec) *tool.Registry {
	t.Helper()
	r, err := tool.New(o, specs, control.Tools())
	require.NoError(t, err)
	return r
}

func grants(names ...string) session.Config {
	cfg := session.Config{Approvals: session.ApprovalPolicy{Default: "action"}}
	for _, n := range names {
		cfg.Tools = append(cfg.Tools, session.ToolGrant{Name: n})
	}
	return cfg
}

func offer(t *testing.T, r *tool.Registry, cfg session.Config) []host.Tool {
	t.Helper()
	tools, err := r.Offer(t.Context(), key, cfg)
	require.NoError(t, err)
	return tools
}

func defs(tools []host.Tool) []session.ToolDef {
	out := make([]session.ToolDef, 0, len(tools))
	for _, o := range tools {
		out = append(out, o.Def)
	}
	return out
}

func names(tools []host.Tool) []string {
	out := make([]string, 0, len(tools))
	for _, o := range tools {
		out = append(out, o.Def.Name)
	}
	return out
}

func TestNothingIsOfferedThatIsNotNamed(t *testing.T) {
	t.Parallel()
	r := registry(t, nil, echo("web.fetch", tool.KindRead), echo("web.post", tool.KindAction), echo("web", tool.KindRead), echo("webx.fetch", tool.KindRead))
	for _, c := range []struct{ grants, want []string }{
		{nil, []string{}},
		{[]string{"web.fetch"}, []string{"web.fetch"}},
		{[]string{"web.*"}, []string{"web.fetch", "web.post"}},
		{[]string{"web.*", "web.fetch", "web"}, []string{"web", "web.fetch", "web.post"}},
		{[]string{"none", "none.*", "WEB.FETCH"}, []string{}},
		{[]string{"*", ".*", "web*", "w.*", ""}, []string{}},
		{[]string{"sleep", "ask"}, []string{"ask", "sleep"}},
	} {
		require.Equal(t, c.want, names(offer(t, r, grants(c.grants...))), "%v", c.grants)
	}
}

func TestThePolicyDecidesWhoIsAsked(t *testing.T) {
	t.Parallel()
	r := registry(t, nil, echo("a.read", tool.KindRead), echo("a.act", tool.KindAction), echo("a.b.act", tool.KindAction))
	cfg := grants("a.*", "sleep", "await", "ask", "cancel", "detach")
	asks := func(policy session.ApprovalPolicy) []string {
		cfg.Approvals = policy
		var out []string
		for _, d := range defs(offer(t, r, cfg)) {
			if d.Gate.Ask {
				out = append(out, d.Name)
			}
		}
		return out
	}
	require.Equal(t, []string{"a.act", "a.b.act"}, asks(session.ApprovalPolicy{}))
	require.Equal(t, []string{"a.act", "a.b.act"}, asks(session.ApprovalPolicy{Default: "action"}))
	require.Equal(t, []string{"a.act", "a.b.act", "a.read"}, asks(session.ApprovalPolicy{Default: "always"}))
	require.Empty(t, asks(session.ApprovalPolicy{Default: "never"}))
	require.Equal(t, []string{"a.act", "a.b.act", "a.read", "ask"}, asks(session.ApprovalPolicy{
		Default: "always", Tools: []session.ApprovalRule{{Tool: "ask", Require: "yes"}},
	}), "a rule that names one is obeyed")

	rules := []session.ApprovalRule{
		{Tool: "a.*", Require: "yes", Role: "any"},
		{Tool: "a.b.*", Require: "no", Role: "b"},
		{Tool: "a.act", Role: "exact", TTLMs: 5, Remember: true},
		{Tool: "a.act.*", Require: "no"},
	}
	for range 2 {
		require.Equal(t, []string{"a.act", "a.read"}, asks(session.ApprovalPolicy{Default: "action", Tools: rules}))
		require.Equal(t, []string{"a.read"}, asks(session.ApprovalPolicy{Default: "never", Tools: rules}))
		slices.Reverse(rules) // the order of rules means nothing
	}
	for _, d := range defs(offer(t, r, cfg)) {
		switch d.Name {
		case "a.act":
			require.Equal(t, session.Gate{Role: "exact", TTLMs: 5, Remember: true}, d.Gate)
		case "a.b.act":
			require.Equal(t, session.Gate{Role: "b"}, d.Gate)
		case "a.read":
			require.Equal(t, session.Gate{Ask: true, Role: "any"}, d.Gate)
		}
	}
}

func TestWireNamesAreAcceptedByProvidersAndUnique(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("very.long.", 10)
	specs := []tool.Spec{}
	for _, n := range []string{"files.read", "files_read", "files:read", "files-read", "plain", long + "a", long + "b", strings.Repeat("x", 64), strings.Repeat("x", 65)} {
		specs = append(specs, echo(n, tool.KindRead))
	}
	all := make([]string, 0, len(specs))
	for _, s := range specs {
		all = append(all, s.Name)
	}
	wires := func() map[string]string {
		out := map[string]string{}
		for _, d := range defs(offer(t, registry(t, nil, specs...), grants(all...))) {
			out[d.Name] = d.WireName
		}
		return out
	}
	got := wires()
	seen := map[string]bool{}
	for name, wire := range got {
		require.Regexp(t, `^[A-Za-z0-9_-]{1,64}$`, wire, name)
		require.False(t, seen[wire], wire)
		seen[wire] = true
	}
	require.Equal(t, "plain", got["plain"])
	require.Equal(t, "files-read", got["files-read"])
	require.Equal(t, strings.Repeat("x", 64), got[strings.Repeat("x", 64)])
	require.Regexp(t, `^files_read_[0-9a-f]{8}$`, got["files.read"], "of names that collide each is hashed")
	require.Regexp(t, `^files_read_[0-9a-f]{8}$`, got["files_read"])
	require.Regexp(t, `^very_long_.*_[0-9a-f]{8}$`, got[long+"a"])
	slices.Reverse(specs)
	require.Equal(t, got, wires())
	require.Equal(t, "files_read", offer(t, registry(t, nil, specs...), grants("files.read"))[0].Def.WireName, "alone it needs no hash")

	// A name that looks like another's hashed form does not become it.
	specs = append(specs, echo(got["files.read"], tool.KindRead))
	all = append(all, got["files.read"])
	again := wires()
	seen = map[string]bool{}
	for _, wire := range again {
		require.False(t, seen[wire], wire)
		seen[wire] = true
	}
	require.Len(t, again, len(specs))
}

func TestADefinitionIsSchemaKindAndTarget(t *testing.T) {
	t.Parallel()
	base := echo("t", tool.KindRead)
	definition := func(change func(*tool.Spec), cfg session.Config) string {
		s := base
		change(&s)
		d := defs(offer(t, registry(t, nil, s), cfg))[0].Definition
		require.Regexp(t, `^[0-9a-f]{64}$`, d)
		return d
	}
	cfg := grants("t")
	same := definition(func(*tool.Spec) {}, cfg)
	require.Equal(t, same, definition(func(s *tool.Spec) { s.Description = "other words" }, cfg))
	require.Equal(t, same, definition(func(s *tool.Spec) { s.Parameters = " " + s.Parameters }, cfg))
	require.Equal(t, same, definition(func(s *tool.Spec) { s.RetrySafe, s.Parallel = true, true }, cfg))
	changed := map[string]bool{same: true}
	byConfig := func(s *tool.Spec) { s.TargetFor = func(c session.Config) string { return fmt.Sprint(c.Workspaces) } }
	wider := cfg
	wider.Workspaces = []session.Workspace{{Name: "w"}}
	for _, d := range []string{
		definition(func(s *tool.Spec) { s.Parameters = `{"type":"object"}` }, cfg),
		definition(func(s *tool.Spec) { s.Kind = tool.KindAction }, cfg),
		definition(func(s *tool.Spec) { s.Target = "elsewhere" }, cfg),
		definition(byConfig, cfg),
		definition(byConfig, wider),
	} {
		require.False(t, changed[d])
		changed[d] = true
	}
}

func TestABadOutsideToolLeavesTheOthers(t *testing.T) {
	t.Parallel()
	set := make([]tool.Spec, 0, 12)
	for i := range 10 {
		set = append(set, echo(fmt.Sprintf("crm.t%d", i), tool.KindRead))
	}
	set[3].Parameters = `{"type":"object","properties":{"x":{"type":"strin"}}}`
	set = append(set, echo("sleep", tool.KindAction), echo("crm.t0", tool.KindAction), tool.Spec{Name: "bad name"})
	r := registry(t, outside{"acme": set}, echo("mine", tool.KindRead))
	got := names(offer(t, r, grants("crm.*", "sleep", "mine")))
	require.Equal(t, []string{"crm.t0", "crm.t1", "crm.t2", "crm.t4", "crm.t5", "crm.t6", "crm.t7", "crm.t8", "crm.t9", "mine", "sleep"}, got)
	bad, err := r.Quarantined(t.Context(), "acme")
	require.NoError(t, err)
	require.Len(t, bad, 4)
	require.Equal(t, "crm.t3", bad[2].Name)
	require.Contains(t, bad[2].Reason, "type is none of")
	require.Equal(t, tool.Quarantined{Name: "sleep", Reason: "the name is taken by another tool"}, bad[3])

	other, err := r.Offer(t.Context(), host.Key{Tenant: "other", Session: "s1"}, grants("crm.*", "mine"))
	require.NoError(t, err)
	require.Equal(t, []string{"mine"}, names(other), "a tenant's tools are its own")
	_, err = r.Offer(t.Context(), host.Key{Tenant: "broken"}, grants("mine"))
	require.ErrorContains(t, err, "the store is down")
}

func TestBuiltInToolsMustBeWellFormed(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*tool.Spec){
		func(s *tool.Spec) { s.Name = "" },
		func(s *tool.Spec) { s.Kind = "write" },
		func(s *tool.Spec) { s.Parameters = "" },
		func(s *tool.Spec) { s.Run = nil },
		func(s *tool.Spec) { s.Class = "later" },
		func(s *tool.Spec) { s.Class = session.ClassSleep },
	} {
		s := echo("t", tool.KindRead)
		change(&s)
		_, err := tool.New(nil, []tool.Spec{s})
		require.Error(t, err)
	}
	_, err := tool.New(nil, []tool.Spec{echo("t", tool.KindRead), echo("t", tool.KindRead)})
	require.ErrorContains(t, err, "twice")
}

func TestScreeningSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	admin := echo("admin", tool.KindAction)
	admin.RequiresRole = "admin"
	set := outside{"acme": {echo("crm.find", tool.KindRead)}}
	r := registry(t, set, echo("web.fetch", tool.KindRead), echo("web.post", tool.KindAction), admin)
	offered := defs(offer(t, r, grants("web.fetch", "admin", "crm.*", "sleep")))
	screen := func(actor session.Actor, wire, arguments string) host.Screened {
		return r.Screen(t.Context(), key, actor, offered, wire, arguments)
	}
	ann, root := session.Actor{ID: "ann"}, session.Actor{ID: "root", Roles: []string{"x", "admin"}}

	require.Equal(t, host.Screened{Tool: "web.fetch", Verdict: session.VerdictOK}, screen(ann, "web_fetch", `{"text":"x"}`))
	require.Equal(t, host.Screened{Tool: "admin", Verdict: session.VerdictOK}, screen(root, "admin", `{"text":"x"}`))
	require.Equal(t, &session.Control{SleepMs: 1500}, screen(ann, "sleep", `{"seconds":1.5}`).Control)

	got := screen(ann, "nonsense", `{"text":"x"}`)
	require.Equal(t, session.VerdictUnavailable, got.Verdict)
	require.Empty(t, got.Tool)
	require.Equal(t, "there is no tool of this name. Offered are: admin, crm_find, sleep, web_fetch.", got.Problem)
	got = screen(ann, "web_post", `{"text":"x"}`)
	require.Equal(t, session.VerdictForbidden, got.Verdict)
	require.Equal(t, "web.post", got.Tool)
	require.Contains(t, got.Problem, "not granted")
	got = screen(ann, "admin", `not even JSON`)
	require.Equal(t, session.VerdictForbidden, got.Verdict, "who may not call learns nothing about the arguments")
	require.Contains(t, got.Problem, "the role admin")
	got = screen(ann, "web_fetch", `{"text":"SECRET","text":"x"}`)
	require.Equal(t, session.VerdictInvalid, got.Verdict)
	require.Equal(t, "web.fetch", got.Tool)
	require.NotContains(t, got.Problem, "SECRET")
	got = screen(ann, "web_fetch", `{"text":5}`)
	require.Equal(t, host.Screened{Tool: "web.fetch", Verdict: session.VerdictInvalid, Problem: `text: breaks type "string"`}, got)

	// Offered to the turn and gone since: the call waits for the tool.
	delete(set, "acme")
	require.Equal(t, session.VerdictOK, screen(ann, "crm_find", `{"anything":1}`).Verdict)
	require.Equal(t, session.VerdictInvalid, screen(ann, "crm_find", `{`).Verdict)
	_, err := r.Run(t.Context(), host.ToolCall{Key: key, Tool: "crm.find", Arguments: `{}`})
	var fault *host.Fault
	require.ErrorAs(t, err, &fault)
	require.Equal(t, host.ClassNotFound, fault.Class)
	require.False(t, fault.Sent)
}

func TestWhatWasScreenedIsCheckedAgainBeforeItRuns(t *testing.T) {
	t.Parallel()
	ran := 0
	s := echo("t", tool.KindAction)
	s.RequiresRole = "op"
	s.Run = func(_ context.Context, call host.ToolCall) (host.ToolResult, error) {
		ran++
		return host.ToolResult{Text: call.Arguments}, nil
	}
	r := registry(t, nil, s)
	run := func(arguments string, roles ...string) host.ToolResult {
		res, err := r.Run(t.Context(), host.ToolCall{Key: key, Tool: "t", Arguments: arguments, Actor: session.Actor{ID: "ann", Roles: roles}})
		require.NoError(t, err)
		return res
	}
	require.Equal(t, host.ToolResult{Text: `{"text":"x"}`}, run(`{"text":"x"}`, "op"))
	require.Equal(t, 1, ran)
	for _, res := range []host.ToolResult{run(`{"text":"x"}`), run(`{"text":1}`, "op"), run(`{"text":"x"`, "op")} {
		require.True(t, res.Error)
		require.NotEmpty(t, res.Text)
	}
	require.Equal(t, 1, ran)
	_, err := r.Run(t.Context(), host.ToolCall{Key: key, Tool: "sleep", Arguments: `{"seconds":1}`})
	require.Error(t, err)
}

func TestAPanicIsTheCallsFailure(t *testing.T) {
	t.Parallel()
	s := echo("t", tool.KindRead)
	s.Run = func(context.Context, host.ToolCall) (host.ToolResult, error) { panic("secret detail") }
	s.Lookup = func(context.Context, host.ToolCall) (host.ToolResult, bool, error) { panic("again") }
	r := registry(t, nil, s)
	var told []string
	r.OnPanic = func(name string, value any, stack []byte) {
		told = append(told, fmt.Sprint(name, ": ", value))
		require.Contains(t, string(stack), "registry_test.go")
	}
	call := host.ToolCall{Key: key, Tool: "t", Arguments: `{"text":"x"}`}
	res, err := r.Run(t.Context(), call)
	require.NoError(t, err)
	require.True(t, res.Error)
	require.NotContains(t, res.Text, "secret")
	require.NotContains(t, res.Text, "goroutine")
	_, found, err := r.Lookup(t.Context(), call)
	require.NoError(t, err)
	require.False(t, found)
	require.Equal(t, []string{"t: secret detail", "t: again"}, told)
}

func TestEffectsAreBounded(t *testing.T) {
	t.Parallel()
	s := echo("t", tool.KindRead)
	s.Run = func(context.Context, host.ToolCall) (host.ToolResult, error) {
		res := host.ToolResult{}
		for range 40 {
			res.Effects = append(res.Effects, session.ToolEffect{Kind: "k", Subject: strings.Repeat("é", 4000), Detail: "d"})
		}
		return res, nil
	}
	res, err := registry(t, nil, s).Run(t.Context(), host.ToolCall{Key: key, Tool: "t", Arguments: `{"text":"x"}`})
	require.NoError(t, err)
	require.Len(t, res.Effects, session.EffectsMax)
	require.Equal(t, strings.Repeat("é", 512), res.Effects[0].Subject)
}
