package control_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool"
	"github.com/perdure/perdure/internal/tool/control"
)

// screen hands arguments to the registry as a model's call would come.
func screen(t *testing.T, name, arguments string) host.Screened {
	t.Helper()
	r, err := tool.New(nil, control.Tools())
	require.NoError(t, err)
	cfg := session.Config{Approvals: session.ApprovalPolicy{Default: "always"}}
	for _, s := range control.Tools() {
		cfg.Tools = append(cfg.Tools, session.ToolGrant{Name: s.Name})
	}
	offer, err := r.Offer(t.Context(), host.Key{Tenant: "acme", Session: "s1"}, cfg)
	require.NoError(t, err)
	require.Len(t, offer, 5)
	defs := make([]session.ToolDef, 0, len(offer))
	for _, o := range offer {
		require.False(t, o.Def.Gate.Ask, "to ask whether the session may wait would ask for nothing")
		defs = append(defs, o.Def)
	}
	return r.Screen(t.Context(), host.Key{Tenant: "acme", Session: "s1"}, session.Actor{ID: "ann"}, defs, name, arguments)
}

func TestControlArgumentsBecomeWhatTheyAskFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tool, arguments string
		want            session.Control
	}{
		{"sleep", `{"seconds":5}`, session.Control{SleepMs: 5000}},
		{"sleep", `{"seconds":0.1}`, session.Control{SleepMs: 100}},
		{"sleep", `{"seconds":1.0005}`, session.Control{SleepMs: 1001}},
		{"sleep", `{"seconds":0.0000001}`, session.Control{SleepMs: 1}},
		{"sleep", `{"seconds":4.35}`, session.Control{SleepMs: 4350}}, // 4.35*1000 is 4350.0000000000005 in floats
		{"sleep", `{"seconds":1.1e1}`, session.Control{SleepMs: 11_000}},
		{"sleep", `{"seconds":31536000}`, session.Control{SleepMs: session.SleepMax}},
		{"await", `{"promises":["promise_3"]}`, session.Control{Promises: []ident.PromiseID{3}}},
		{"await", `{"promises":["promise_3","promise_1"],"mode":"any","timeoutSeconds":0}`, session.Control{Promises: []ident.PromiseID{3, 1}, Any: true, Timed: true}},
		{"await", `{"promises":["promise_3"],"mode":"all","timeoutSeconds":2.5}`, session.Control{Promises: []ident.PromiseID{3}, Timed: true, TimeoutMs: 2500}},
		{"detach", `{"promises":["promise_9"]}`, session.Control{Promises: []ident.PromiseID{9}}},
		{"cancel", `{"promises":["promise_9"]}`, session.Control{Promises: []ident.PromiseID{9}}},
		{
			"ask", `{"questions":[{"id":"env","prompt":"Where?","options":[{"value":"prod","label":"Production"},{"value":"test"}],"defaults":["test"]}]}`,
			session.Control{Items: []session.QuestionItem{{
				ID: "env", Prompt: "Where?", Defaults: []string{"test"},
				Options: []session.Option{{Value: "prod", Label: "Production"}, {Value: "test", Label: "test"}},
			}}},
		},
		{
			"ask", `{"questions":[{"id":"why","prompt":"Why?","defaults":["no reason"]}]}`,
			session.Control{Items: []session.QuestionItem{{ID: "why", Prompt: "Why?", FreeText: true, Defaults: []string{"no reason"}}}},
		},
	} {
		got := screen(t, c.tool, c.arguments)
		require.Equal(t, session.VerdictOK, got.Verdict, "%s %s: %s", c.tool, c.arguments, got.Problem)
		require.Equal(t, &c.want, got.Control, "%s %s", c.tool, c.arguments)
	}
}

func TestControlArgumentsThatMeanNothingAreInvalid(t *testing.T) {
	t.Parallel()
	many := strings.Repeat(`"promise_1",`, 32)
	for _, c := range []struct{ tool, arguments, says string }{
		{"sleep", `{}`, "missing: seconds"},
		{"sleep", `{"seconds":0}`, "seconds"},
		{"sleep", `{"seconds":-1}`, "seconds"},
		{"sleep", `{"seconds":"5"}`, `seconds: breaks type "number"`},
		{"sleep", `{"seconds":31536001}`, "maximum"},
		{"sleep", `{"seconds":31536000.00000000001}`, "between 0 and 31536000"},
		{"sleep", `{"seconds":1e999999999}`, "out of range"},
		{"sleep", `{"seconds":1e-999999999}`, "exclusiveMinimum"},
		{"sleep", `{"seconds":1e-99}`, "between"},
		{"sleep", `{"seconds":0.` + strings.Repeat("1", 100) + `}`, "digits"},
		{"sleep", `{"seconds":null}`, "type"},
		{"await", `{"promises":[]}`, "minItems 1"},
		{"await", `{"promises":["promise_0"]}`, "pattern"},
		{"await", `{"promises":["promise_1","promise_1"]}`, "uniqueItems"},
		{"await", `{"promises":["promise_99999999999999999999"]}`, "promises[0] is not promise_<number>"},
		{"await", `{"promises":["call_1"],"mode":"some"}`, "mode: breaks enum"},
		{"await", `{"promises":["promise_1"],"timeoutSeconds":-0.5}`, "minimum"},
		{"cancel", `{"promises":[` + many + `"promise_2"]}`, "maxItems 32"},
		{"ask", `{"questions":[]}`, "minItems"},
		{"ask", `{"questions":[{"id":"a","prompt":"?","options":[{"value":"x"}],"defaults":["y"]}]}`, "default that is no option"},
		{"ask", `{"questions":[{"id":"a","prompt":"?","options":[{"value":"x"},{"value":"x"}],"defaults":["x"]}]}`, "same value"},
		{"ask", `{"questions":[{"id":"a","prompt":"?","defaults":["x"]},{"id":"a","prompt":"?","defaults":["x"]}]}`, "there twice"},
		{"ask", `{"questions":[{"id":"a b","prompt":"?","defaults":["x"]}]}`, "question item id"},
		{"ask", `{"questions":[{"prompt":"?"}]}`, "required"},
	} {
		got := screen(t, c.tool, c.arguments)
		require.Equal(t, session.VerdictInvalid, got.Verdict, "%s %s", c.tool, c.arguments)
		require.Contains(t, got.Problem, c.says, "%s %s", c.tool, c.arguments)
		require.Nil(t, got.Control)
		require.LessOrEqual(t, len(got.Problem), 2<<10)
	}
}
