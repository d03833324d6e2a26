package tool_test

import (
	"testing"

	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/host/porttest"
	"github.com/perdure/perdure/internal/tool"
	"github.com/perdure/perdure/internal/tool/control"
)

func TestRegistryKeepsThePort(t *testing.T) {
	t.Parallel()
	porttest.Tools(t, func(t *testing.T) porttest.ToolsSetup {
		t.Helper()
		admin := echo("admin.wipe", tool.KindAction)
		admin.RequiresRole = "admin"
		later := echo("later", tool.KindAction)
		later.Class = session.ClassPromise
		r := registry(t, outside{"acme": {echo("crm.find", tool.KindRead)}}, echo("web.fetch", tool.KindRead), admin, later)
		calls := map[string]string{
			"admin.wipe": `{"text":"x"}`, "later": `{"text":"x"}`, "crm.find": `{"text":"x"}`, "web.fetch": `{"text":"x"}`,
			"sleep": `{"seconds":1}`, "await": `{"promises":["promise_1"]}`, "detach": `{"promises":["promise_1"]}`, "cancel": `{"promises":["promise_1"]}`,
			"ask": `{"questions":[{"id":"a","prompt":"?","defaults":["x"]}]}`,
		}
		cfg := grants("admin.*", "later", "crm.find", "web.*")
		for _, s := range control.Tools() {
			cfg.Tools = append(cfg.Tools, session.ToolGrant{Name: s.Name})
		}
		return porttest.ToolsSetup{
			Tools: r, Key: key, Config: cfg, Actor: session.Actor{ID: "ann", Roles: []string{"admin"}}, Calls: calls,
		}
	})
}
