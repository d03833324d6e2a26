package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/env"
)

func say(text string) api.RequestRun {
	return api.RequestRun{Input: api.Input{{Type: "text", Text: api.Text{Text: text}}}}
}

// within waits for what must come.
func within[T any](tb testing.TB, from <-chan T) {
	tb.Helper()
	select {
	case <-from:
	case <-time.After(hang):
		require.Fail(tb, "it does not come")
	}
}

// once runs the command to its end.
func once(t *testing.T, data string, environ []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := command(t, data, environ, args...)
	var out, err strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &err
	_ = cmd.Run() // the code says it
	return out.String(), err.String(), cmd.ProcessState.ExitCode()
}

// hanging is an outside tool that does not answer before it is let go.
func hanging(t *testing.T) (url string, called <-chan struct{}) {
	t.Helper()
	calls, letGo := make(chan struct{}, 100), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls <- struct{}{}
		<-letGo
		fmt.Fprint(w, `{"result":"done"}`)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(letGo) })
	return server.URL, calls
}

func TestTheSecondInterruptDoesNotWait(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	server := startChild(t, data)
	cl := server.client(t, data)
	url, called := hanging(t)
	require.NoError(t, cl.PutTool(t.Context(), "slow", map[string]any{
		"target": "http", "url": url, "description": "Slow.", "kind": "read", "completion": "joined", "parameters": map[string]any{"type": "object"},
	}))
	_, err := cl.CreateSession(t.Context(), map[string]any{"id": "s", "config": map[string]any{
		"model": map[string]any{"provider": "scripted", "model": "script", "params": map[string]any{"steps": []any{
			map[string]any{"calls": []any{map[string]any{"tool": "slow", "arguments": map[string]any{}}}}, map[string]any{"text": "checked"},
		}}},
		"tools": []string{"slow"},
	}})
	require.NoError(t, err)
	_, err = cl.StartRun(t.Context(), "s", say("go on"), 0)
	require.NoError(t, err)
	within(t, called)
	server.signal(t, os.Interrupt)
	server.log.says(t, "stopping")
	server.signal(t, os.Interrupt)
	require.Error(t, server.wait(t))
	require.Contains(t, server.log.String(), "stopped at once")
	require.Equal(t, exitFailed, server.cmd.ProcessState.ExitCode())

	// The call was under way, and is not safe to repeat: it is unknown now, and
	// the run goes on.
	server = startChild(t, data)
	run, err := server.client(t, data).Run(t.Context(), "s", "run_1", 20)
	require.NoError(t, err)
	require.Equal(t, "completed", run.Status)
	calls, err := server.client(t, data).Calls(t.Context(), "s", "run_1")
	require.NoError(t, err)
	require.Equal(t, "unknown", calls.Items[0].Status)
	require.Empty(t, called, "it ran twice")
}

func TestANewerDatabaseIsLeftAlone(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	server := startChild(t, data)
	server.signal(t, syscall.SIGTERM)
	require.NoError(t, server.wait(t))
	path := filepath.Join(data, "perdure.db")
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	const userVersionAt = 60
	file[userVersionAt+3] = 99
	require.NoError(t, os.WriteFile(path, file, 0o600))

	_, stderr, code := once(t, data, []string{env.Addr + "=127.0.0.1:0"}, "serve")
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, "newer version of this program")
	require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, file, after)
}

func TestMisspeltVariablesAreNamed(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	server := startChild(t, data, "PERDURE_ADDR_=:1")
	server.log.says(t, "PERDURE_ADDR_")
	server.signal(t, syscall.SIGTERM)
	require.NoError(t, server.wait(t))
}

// TestNoSecretIsLogged runs a server with a key, lets it fail to use it, and
// looks at all that it says.
func TestNoSecretIsLogged(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"message":"bad key"}}`, http.StatusUnauthorized)
	}))
	t.Cleanup(provider.Close)
	server := startChild(t, data, env.OpenAIKey+"=sk-very-secret", env.OpenAIBaseURL+"="+provider.URL, env.Log+"=json")
	cl := server.client(t, data)
	_, err := cl.CreateSession(t.Context(), map[string]any{"id": "s"})
	require.NoError(t, err)
	run, err := cl.StartRun(t.Context(), "s", say("go on"), 20)
	require.NoError(t, err)
	require.Equal(t, "failed", run.Status)
	require.Equal(t, "model", run.Failure.Kind)
	server.signal(t, syscall.SIGTERM)
	require.NoError(t, server.wait(t))
	require.NotContains(t, server.log.String(), "very-secret")
	require.NotContains(t, server.log.String(), "pk_local_")
	require.NotContains(t, run.Failure.Message, "very-secret")
}

// BenchmarkRestart measures the time from the start of a process on a data
// folder with unfinished work to the first effect of it.
func BenchmarkRestart(b *testing.B) {
	data := b.TempDir()
	began := make(chan struct{}, 1000)
	provider := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		<-r.Context().Done()
	}))
	b.Cleanup(provider.CloseClientConnections)
	environ := []string{env.OpenAIBaseURL + "=" + provider.URL}
	server := startChild(b, data, environ...)
	const sessions = 20
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		// New runs each time: one that is interrupted again and again is given
		// up.
		for i := range sessions {
			id := fmt.Sprintf("s%d-%d", n, i)
			_, err := server.client(b, data).CreateSession(b.Context(), map[string]any{"id": id})
			require.NoError(b, err)
			_, err = server.client(b, data).StartRun(b.Context(), id, say("go on"), 0)
			require.NoError(b, err)
			within(b, began)
		}
		server.kill()
		for len(began) > 0 {
			<-began
		}
		b.StartTimer()
		server = startChild(b, data, environ...)
		within(b, began)
	}
}
