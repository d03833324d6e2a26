package porttest

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/host"
)

// ToolsSetup is an implementation of the port Tools with what to ask it.
type ToolsSetup struct {
	Tools host.Tools
	Key   host.Key
	// Config grants the tools of Calls, and these only.
	Config session.Config
	// Actor may call each of them.
	Actor session.Actor
	// Calls are valid arguments by the tools' names. Running one must succeed
	// and do no harm.
	Calls map[string]string
}

// problemMax is the longest text about a refused call, in bytes.
const problemMax = 4 << 10

// Tools checks an implementation of the port Tools.
func Tools(t *testing.T, open func(t *testing.T) ToolsSetup) {
	t.Helper()
	cases := []struct {
		name string
		run  func(t *testing.T, s ToolsSetup)
	}{
		{"what is granted is offered, sorted and named for providers", toolsOffer},
		{"what is not granted is not offered", toolsGrants},
		{"a policy gates", toolsGate},
		{"valid calls are ok", toolsValid},
		{"other calls are refused with a reason that repeats nothing", toolsRefused},
		{"names that were not offered are refused", toolsUnknown},
		{"calls run", toolsRun},
		{"what nobody serves is not sent", toolsAbsent},
		{"many may ask at once", toolsMany},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, open(t))
		})
	}
}

func (s ToolsSetup) offer(t *testing.T) []host.Tool {
	t.Helper()
	offer, err := s.Tools.Offer(t.Context(), s.Key, s.Config)
	require.NoError(t, err)
	return offer
}

func (s ToolsSetup) defs(t *testing.T) []session.ToolDef {
	t.Helper()
	var defs []session.ToolDef
	for _, o := range s.offer(t) {
		defs = append(defs, o.Def)
	}
	return defs
}

func (s ToolsSetup) call(name, arguments string) host.ToolCall {
	return host.ToolCall{
		Key: s.Key, Run: 1, Call: ident.CallID{Turn: 1, Index: 1}, Tool: name, Actor: s.Actor,
		Operation: "operation", Attempt: 1, Arguments: arguments, Deadline: epoch, Workspaces: s.Config.Workspaces,
	}
}

func toolsOffer(t *testing.T, s ToolsSetup) {
	t.Helper()
	offer := s.offer(t)
	require.Len(t, offer, len(s.Calls))
	wires := map[string]bool{}
	for i, o := range offer {
		d := o.Def
		require.Contains(t, s.Calls, d.Name)
		if i > 0 {
			require.Less(t, offer[i-1].Def.Name, d.Name)
		}
		require.Regexp(t, `^[A-Za-z0-9_-]{1,64}$`, d.WireName)
		require.False(t, wires[d.WireName], "%s is there twice", d.WireName)
		wires[d.WireName] = true
		require.Regexp(t, `^[0-9a-f]{64}$`, d.Definition)
		require.Contains(t, []string{"read", "action", "agent"}, d.Kind)
		require.NotEmpty(t, d.Class)
		require.NotEmpty(t, o.Description)
		var schema struct {
			Type string `json:"type"`
		}
		require.NoError(t, json.Unmarshal([]byte(o.Parameters), &schema), d.Name)
		require.Equal(t, "object", schema.Type, d.Name)
	}
	require.Equal(t, offer, s.offer(t), "the same question has the same answer")
}

func toolsGrants(t *testing.T, s ToolsSetup) {
	t.Helper()
	all := s.Config.Tools
	s.Config.Tools = nil
	require.Empty(t, s.offer(t))
	s.Config.Tools = []session.ToolGrant{{Name: "nobody.serves.this"}, {Name: "*"}, {Name: ""}}
	require.Empty(t, s.offer(t))
	for name := range s.Calls {
		s.Config.Tools = []session.ToolGrant{{Name: name}, {Name: "nobody.serves.this"}}
		offer := s.offer(t)
		require.Len(t, offer, 1)
		require.Equal(t, name, offer[0].Def.Name)
	}
	s.Config.Tools = all
	require.Len(t, s.offer(t), len(s.Calls))
}

func toolsGate(t *testing.T, s ToolsSetup) {
	t.Helper()
	s.Config.Approvals = session.ApprovalPolicy{Default: "action"}
	for _, d := range s.defs(t) {
		require.Equal(t, d.Kind == "action", d.Gate.Ask, d.Name)
	}
	s.Config.Approvals = session.ApprovalPolicy{Default: "never"}
	for _, d := range s.defs(t) {
		require.False(t, d.Gate.Ask, d.Name)
	}
	for name := range s.Calls {
		s.Config.Approvals = session.ApprovalPolicy{Default: "never", Tools: []session.ApprovalRule{
			{Tool: name, Require: "yes", Role: "chief", TTLMs: 9, Remember: true},
		}}
		for _, d := range s.defs(t) {
			if d.Name == name {
				require.Equal(t, session.Gate{Ask: true, Role: "chief", TTLMs: 9, Remember: true}, d.Gate)
			} else {
				require.False(t, d.Gate.Ask, d.Name)
			}
		}
	}
}

func toolsValid(t *testing.T, s ToolsSetup) {
	t.Helper()
	defs := s.defs(t)
	for _, d := range defs {
		got := s.Tools.Screen(t.Context(), s.Key, s.Actor, defs, d.WireName, s.Calls[d.Name])
		require.Equal(t, session.VerdictOK, got.Verdict, "%s: %s", d.Name, got.Problem)
		require.Equal(t, d.Name, got.Tool)
		require.Empty(t, got.Problem)
		require.Equal(t, runs(d.Class), got.Control == nil, "%s: control is what the session's own tools ask for", d.Name)
	}
}

// runs says whether calls of a class are run, and not the session's own.
func runs(class string) bool {
	return slices.Contains([]string{session.ClassInline, session.ClassJoined, session.ClassPromise}, class)
}

func toolsRefused(t *testing.T, s ToolsSetup) {
	t.Helper()
	const marker = "do-not-repeat"
	defs := s.defs(t)
	for _, d := range defs {
		for _, arguments := range []string{
			"", "null", "[]", `"` + marker + `"`, "{", `{"` + marker + `":1`, `{"a":"` + marker + `","a":1}`, "{\"a\":\"\xff" + marker + "\"}",
			`{"a":"\ud800` + marker + `"}`, `{} "` + marker + `"`, strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100),
			`{"a":"` + strings.Repeat(marker, 30_000) + `"}`,
		} {
			got := s.Tools.Screen(t.Context(), s.Key, s.Actor, defs, d.WireName, arguments)
			require.Equal(t, session.VerdictInvalid, got.Verdict, "%s %.60q", d.Name, arguments)
			require.Equal(t, d.Name, got.Tool)
			require.NotEmpty(t, got.Problem)
			require.LessOrEqual(t, len(got.Problem), problemMax)
			require.NotContains(t, got.Problem, marker)
			require.Nil(t, got.Control)
		}
	}
}

func toolsUnknown(t *testing.T, s ToolsSetup) {
	t.Helper()
	defs := s.defs(t)
	got := s.Tools.Screen(t.Context(), s.Key, s.Actor, defs, "nobody_serves_this", "{}")
	require.Equal(t, session.VerdictUnavailable, got.Verdict)
	for _, d := range defs {
		require.Contains(t, got.Problem, d.WireName)
	}
	for _, d := range defs {
		got := s.Tools.Screen(t.Context(), s.Key, s.Actor, nil, d.WireName, s.Calls[d.Name])
		require.Contains(t, []string{session.VerdictForbidden, session.VerdictUnavailable}, got.Verdict, d.Name)
		require.NotEmpty(t, got.Problem)
	}
}

func toolsRun(t *testing.T, s ToolsSetup) {
	t.Helper()
	for _, d := range s.defs(t) {
		res, err := s.Tools.Run(t.Context(), s.call(d.Name, s.Calls[d.Name]))
		if !runs(d.Class) {
			require.Error(t, err, "%s is the session's own", d.Name)
			continue
		}
		require.NoError(t, err, d.Name)
		require.False(t, res.Error, "%s: %s", d.Name, res.Text)
		require.False(t, res.Accepted && res.Text != "")
		if d.Class == session.ClassInline {
			require.False(t, res.Accepted, d.Name)
		}
		// What was never screened is not run either.
		res, err = s.Tools.Run(t.Context(), s.call(d.Name, `{"a":1,"a":2}`))
		require.True(t, err != nil || res.Error, d.Name)
	}
}

func toolsAbsent(t *testing.T, s ToolsSetup) {
	t.Helper()
	_, err := s.Tools.Run(t.Context(), s.call("nobody.serves.this", "{}"))
	var fault *host.Fault
	require.ErrorAs(t, err, &fault)
	require.False(t, fault.Sent, "it is certain that nothing ran")
	_, found, _ := s.Tools.Lookup(t.Context(), s.call("nobody.serves.this", "{}"))
	require.False(t, found)
	for _, d := range s.defs(t) {
		if d.Lookup {
			continue
		}
		_, found, err := s.Tools.Lookup(t.Context(), s.call(d.Name, s.Calls[d.Name]))
		require.NoError(t, err, d.Name)
		require.False(t, found, "%s cannot tell", d.Name)
	}
}

func toolsMany(t *testing.T, s ToolsSetup) {
	t.Helper()
	want := s.offer(t)
	defs := s.defs(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			got, err := s.Tools.Offer(t.Context(), s.Key, s.Config)
			if err != nil || len(got) != len(want) {
				t.Errorf("offered %d tools, want %d: %v", len(got), len(want), err)
			}
			for _, d := range defs {
				verdict := s.Tools.Screen(t.Context(), s.Key, s.Actor, defs, d.WireName, s.Calls[d.Name])
				if verdict.Verdict != session.VerdictOK {
					t.Errorf("%s: %s", d.Name, verdict.Problem)
				}
			}
		})
	}
	all.Wait()
}
