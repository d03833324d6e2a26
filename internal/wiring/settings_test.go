package wiring_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/adapter/dir"
	"github.com/perdure/perdure/internal/adapter/gosched"
	"github.com/perdure/perdure/internal/adapter/memory"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/wiring"
)

// process is a server's tools and settings, over a stash that others share.
type process struct {
	settings *wiring.Settings
	*wiring.Tools
}

func start(t *testing.T, stash host.Stash, workspaces *dir.Workspaces, shared bool) process {
	t.Helper()
	sched := gosched.New()
	settings := wiring.NewSettings(stash, sched, shared)
	tools, err := wiring.NewTools(wiring.ToolsConfig{
		Settings: settings, Workspaces: workspaces, Now: sched.Now, URL: func() string { return "" },
		Proxy:  func(*http.Request) (*url.URL, error) { return nil, nil }, //nolint:nilnil // no proxy
		Secret: func(context.Context, ident.TenantID, string) (string, error) { return "", host.ErrNotFound },
	})
	require.NoError(t, err)
	return process{settings, tools}
}

func named(name string) api.Tool {
	return api.Tool{Name: name, ToolDefinition: api.ToolDefinition{
		Target: "http", URL: "https://t.example", Description: "T.", Parameters: api.Object(`{"type":"object"}`), Kind: "read", Completion: "joined",
	}}
}

// TestNoChangeIsLostBetweenProcesses lets several processes change one document
// at once.
func TestNoChangeIsLostBetweenProcesses(t *testing.T) {
	t.Parallel()
	stash := memory.New(memory.Options{Now: gosched.New().Now})
	workspaces, err := dir.Open(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, workspaces.Close()) })
	const processes, each = 3, 3
	var wg sync.WaitGroup
	for p := range processes {
		own := start(t, stash, workspaces, true)
		wg.Go(func() {
			for n := range each {
				created, err := own.Store.PutTool(t.Context(), "default", named(fmt.Sprintf("t%d-%d", p, n)))
				if err != nil || !created {
					t.Error(created, err)
				}
			}
		})
	}
	wg.Wait()
	all, err := start(t, stash, workspaces, true).Store.Tools(t.Context(), "default", "", 100)
	require.NoError(t, err)
	require.Len(t, all, processes*each)
	_, err = stash.GetStash(t.Context(), host.Key{Tenant: "default"}, "settings-lease", gosched.New().Now())
	require.ErrorIs(t, err, host.ErrNotFound, "the lease is given back")
}

func TestSettingsOfOthersAreSeenWhenToldToForget(t *testing.T) {
	t.Parallel()
	stash := memory.New(memory.Options{Now: gosched.New().Now})
	workspaces, err := dir.Open(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, workspaces.Close()) })
	for _, shared := range []bool{true, false} {
		a, b := start(t, stash, workspaces, shared), start(t, stash, workspaces, true)
		name := fmt.Sprintf("t-%t", shared)
		_, err = a.Store.Tool(t.Context(), "default", name)
		require.ErrorIs(t, err, host.ErrNotFound)
		_, err = b.Store.PutTool(t.Context(), "default", named(name))
		require.NoError(t, err)
		_, err = a.Store.Tool(t.Context(), "default", name)
		require.ErrorIs(t, err, host.ErrNotFound, "it answers from memory")
		a.settings.Forget()
		_, err = a.Store.Tool(t.Context(), "default", name)
		if shared {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, host.ErrNotFound, "who is alone has nothing to forget")
		}
	}
}

func TestALeaseOfTheDeadLapses(t *testing.T) {
	t.Parallel()
	sched := gosched.New()
	stash := memory.New(memory.Options{Now: sched.Now})
	workspaces, err := dir.Open(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, workspaces.Close()) })
	_, err = stash.PutStash(t.Context(), host.Key{Tenant: "default"}, "settings-lease", []byte("dead"), sched.Now().Add(100), true)
	require.NoError(t, err)
	_, err = start(t, stash, workspaces, true).Store.PutTool(t.Context(), "default", named("t"))
	require.NoError(t, err)
}
