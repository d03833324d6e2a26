package local_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/client"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/local"
)

// log keeps what a server says.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// running is a server of a test.
type running struct {
	*local.Server
	c    *client.Client
	log  *log
	data string
	stop func()
}

func start(t *testing.T, data string, change func(c *local.Config)) *running {
	t.Helper()
	r := &running{log: &log{}, data: data}
	cfg := local.Config{Addr: "127.0.0.1:0", Data: data, AllowPrivate: true, Instant: true, OpenAIModel: "m", Log: slog.New(slog.NewTextHandler(r.log, nil))}
	if change != nil {
		change(&cfg)
	}
	var err error
	r.Server, err = local.Open(t.Context(), cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- r.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-served, r.Close()); err != nil {
			t.Errorf("the server: %s", err)
		}
	})
	t.Cleanup(r.stop)
	<-r.Ready()
	r.c = client.New(r.URL(), r.Key())
	return r
}

// run waits for a run to end or to wait.
func (r *running) run(t *testing.T, session, run string) api.Run {
	t.Helper()
	for {
		got, err := r.c.Run(t.Context(), session, run, 20)
		require.NoError(t, err)
		if got.Status != "queued" && got.Status != "running" && got.Status != "cancelling" {
			return got
		}
	}
}

func text(s string) api.RequestRun {
	return api.RequestRun{Input: api.Input{{Type: "text", Text: api.Text{Text: s}}}}
}

func scripted(steps string) map[string]any {
	return map[string]any{"provider": "scripted", "model": "script", "params": json.RawMessage(`{"steps":` + steps + `}`)}
}

func TestOnlyTheOwnerMayReadTheSecrets(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	key := r.Key()
	for _, name := range []string{"local.key", "secrets.json"} {
		path := filepath.Join(r.data, name)
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), name)
		require.NoError(t, os.Chmod(path, 0o644))
	}
	read, err := local.ReadKey(r.data)
	require.NoError(t, err)
	require.Equal(t, key, read)
	require.Regexp(t, `^pk_local_[a-z0-9]{52}$`, key)
	r.stop()

	// The next start keeps them, and closes them again.
	r = start(t, r.data, nil)
	require.Equal(t, key, r.Key())
	for _, name := range []string{"local.key", "secrets.json"} {
		info, err := os.Stat(filepath.Join(r.data, name))
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), name)
	}
	left, err := filepath.Glob(filepath.Join(r.data, ".*"))
	require.NoError(t, err)
	require.Empty(t, left, "nothing half made is left")
}

func TestDamagedSecretsAreNotReplaced(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"local.key": "pk_other\n", "secrets.json": `{"promises":[]}`} {
		data := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(data, name), []byte(content), 0o600))
		_, err := local.Open(t.Context(), local.Config{Addr: "127.0.0.1:0", Data: data})
		require.ErrorContains(t, err, name)
		got, err := os.ReadFile(filepath.Join(data, name))
		require.NoError(t, err)
		require.Equal(t, content, string(got))
	}
}

func TestAFailedStartLetsGoOfEverything(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	data := t.TempDir()
	_, err := local.Open(t.Context(), local.Config{Addr: r.Addr(), Data: data})
	require.ErrorIs(t, err, local.ErrAddressInUse)
	_, err = local.Open(t.Context(), local.Config{Addr: "127.0.0.1:0", Data: r.data})
	require.ErrorIs(t, err, local.ErrFolderInUse)
	start(t, data, nil)
}

func TestTheKeyOpensAndNothingElse(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	for _, key := range []string{"", "pk_local_", "pk_local_x", r.Key() + "x", strings.ToUpper(r.Key())} {
		_, err := client.New(r.URL(), key).Session(t.Context(), "demo")
		require.Equal(t, "unauthenticated", client.Code(err), key)
	}
	open := start(t, t.TempDir(), func(c *local.Config) { c.Open = true })
	_, err := client.New(open.URL(), "").Session(t.Context(), "demo")
	require.NoError(t, err)
	// A credential that is sent is checked, also where none is needed.
	_, err = client.New(open.URL(), "pk_local_x").Session(t.Context(), "demo")
	require.Equal(t, "unauthenticated", client.Code(err))
}

func TestDefaultModelFollowsTheEnvironment(t *testing.T) {
	t.Parallel()
	secret := func(name string) (string, bool) { return map[string]string{"KEY": "sk"}[name], name == "KEY" }
	for _, c := range []struct {
		change func(c *local.Config)
		want   string
		line   string
	}{
		{func(*local.Config) {}, "scripted/demo", "needs no key"},
		{func(c *local.Config) { c.OpenAIKeyName, c.Secret = "NONE", secret }, "scripted/demo", "needs no key"},
		{func(c *local.Config) { c.OpenAIKeyName, c.Secret = "KEY", secret }, "openai/m", "OPENAI_MODEL"},
		{func(c *local.Config) { c.OpenAIBaseURL = "http://127.0.0.1:1/v1" }, "openai-compatible/m", "at http://127.0.0.1:1/v1"},
		{func(c *local.Config) {
			c.OpenAIBaseURL, c.OpenAIKeyName, c.Secret = "http://127.0.0.1:1/v1", "KEY", secret
		}, "openai/m", "at http://127.0.0.1:1/v1"},
	} {
		r := start(t, t.TempDir(), c.change)
		s, err := r.c.CreateSession(t.Context(), map[string]any{})
		require.NoError(t, err)
		require.Equal(t, c.want, s.Config.Model.Provider+"/"+s.Config.Model.Model)
		require.Len(t, s.Config.Tools, len(local.DefaultTools()))
		require.Contains(t, r.ModelLine(), c.line)
		_, err = r.c.Session(t.Context(), local.DemoSession)
		require.Equal(t, c.want == "scripted/demo", err == nil, "the demo is there where its model answers")
	}
}

func TestAModelBehindThePrivateNetworkIsForThoseWhoAllowIt(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("Authorization") != "" {
			t.Error("a credential is sent to a server that asks for none")
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"hello\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(model.Close)
	for _, allowed := range []bool{true, false} {
		r := start(t, t.TempDir(), func(c *local.Config) { c.OpenAIBaseURL, c.AllowPrivate = model.URL, allowed })
		_, err := r.c.CreateSession(t.Context(), map[string]any{"id": "s"})
		require.NoError(t, err)
		_, err = r.c.StartRun(t.Context(), "s", text("hi"), 0)
		require.NoError(t, err)
		run := r.run(t, "s", "run_1")
		if allowed {
			require.Equal(t, "completed", run.Status, "%+v", run.Failure)
			require.Equal(t, "hello", run.Output.Text)
			require.EqualValues(t, 1, asked.Load())
			continue
		}
		require.Equal(t, "failed", run.Status)
		require.Contains(t, run.Failure.Message, "loopback")
		require.EqualValues(t, 1, asked.Load(), "nothing was sent, and nothing tried again")
	}
}

func TestOutsideToolsAreKept(t *testing.T) {
	t.Parallel()
	var operations []string
	outside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		operations = append(operations, r.Header.Get("Idempotency-Key"))
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"result":"42 degrees"}`)
	}))
	t.Cleanup(outside.Close)
	r := start(t, t.TempDir(), nil)
	weather := map[string]any{
		"target": "http", "url": outside.URL, "description": "The weather.", "kind": "read", "completion": "joined",
		"parameters": map[string]any{"type": "object"},
	}
	require.NoError(t, r.c.PutTool(t.Context(), "weather", weather))
	require.Equal(t, "validation_failed", client.Code(r.c.PutTool(t.Context(), "files.read", weather)))
	weather["url"] = "ftp://x"
	require.Equal(t, "validation_failed", client.Code(r.c.PutTool(t.Context(), "weather", weather)))
	r.stop()

	r = start(t, r.data, nil)
	_, err := r.c.CreateSession(t.Context(), map[string]any{"id": "s", "config": map[string]any{
		"model": scripted(`[{"calls":[{"tool":"weather","arguments":{}}]},{"text":"it says {{results}}"}]`), "tools": []string{"weather"},
	}})
	require.NoError(t, err)
	_, err = r.c.StartRun(t.Context(), "s", text("go"), 0)
	require.NoError(t, err)
	run := r.run(t, "s", "run_1")
	require.Equal(t, "completed", run.Status, "%+v", run.Failure)
	require.Equal(t, "it says 42 degrees", run.Output.Text)
	require.Len(t, operations, 1)
	require.Regexp(t, "^op_", operations[0])
}

// fullLog stands in for a disk without room.
type fullLog struct {
	host.Log
	full *atomic.Bool
}

func (l fullLog) Commit(ctx context.Context, c host.Commit) error {
	if l.full.Load() {
		return fmt.Errorf("commit: %w", host.ErrFull)
	}
	return l.Log.Commit(ctx, c)
}

func TestAFullDiskIsSaidAndSurvived(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	asked := make(chan struct{}, 10)
	letGo := make(chan struct{})
	outside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		<-letGo
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"result":"there"}`)
	}))
	t.Cleanup(outside.Close)
	r := start(t, t.TempDir(), func(c *local.Config) {
		c.WrapLog = func(log host.Log) host.Log { return fullLog{log, &full} }
	})
	require.NoError(t, r.c.PutTool(t.Context(), "slow", map[string]any{
		"target": "http", "url": outside.URL, "description": "Slow.", "kind": "read", "completion": "joined", "parameters": map[string]any{"type": "object"},
	}))
	_, err := r.c.CreateSession(t.Context(), map[string]any{"id": "s", "config": map[string]any{
		"model": scripted(`[{"calls":[{"tool":"slow","arguments":{}}]},{"text":"it is {{results}}"}]`), "tools": []string{"slow"},
	}})
	require.NoError(t, err)
	_, err = r.c.StartRun(t.Context(), "s", text("first"), 0)
	require.NoError(t, err)
	<-asked

	// The disk is full now. A command is refused with a line that says so, and
	// what comes back from outside is kept until it can be written.
	full.Store(true)
	status, body := post(t, r, "/v1/sessions/s/runs", `{"input":"second"}`)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "the disk is full")
	close(letGo)
	status, _ = get(t, r, "/v1/sessions/s")
	require.Equal(t, http.StatusOK, status, "reading goes on")
	status, _ = get(t, r, "/healthz")
	require.Equal(t, http.StatusOK, status)

	full.Store(false)
	status, body = post(t, r, "/v1/sessions/s/runs", `{"input":"second"}`)
	require.Equal(t, http.StatusAccepted, status, body)
	first := r.run(t, "s", "run_1")
	require.Equal(t, "completed", first.Status, "%+v", first.Failure)
	require.Equal(t, "it is there", first.Output.Text)
	require.Equal(t, "completed", r.run(t, "s", "run_2").Status)
	require.Len(t, asked, 1, "each run has called the tool once")
	require.LessOrEqual(t, strings.Count(r.log.String(), "storage is full"), 2, r.log.String())
}

func post(t *testing.T, r *running, path, body string) (int, string) {
	t.Helper()
	return send(t, r, http.MethodPost, path, body)
}

func get(t *testing.T, r *running, path string) (int, string) {
	t.Helper()
	return send(t, r, http.MethodGet, path, "")
}

// send is one request, without the client's patience.
func send(t *testing.T, r *running, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.URL()+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+r.Key())
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(got)
}

func TestAStopEndsLongPolls(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	_, err := r.c.CreateSession(t.Context(), map[string]any{"id": "s"})
	require.NoError(t, err)
	s, err := r.c.Session(t.Context(), "s")
	require.NoError(t, err)
	asked := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		close(asked)
		_, _ = r.c.Events(context.WithoutCancel(t.Context()), "s", s.Head, 0, 20)
	}()
	<-asked
	r.stop()
	select {
	case <-ended:
	case <-time.After(15 * time.Second):
		require.Fail(t, "the poll goes on")
	}
}

func TestAStopWaitsForTools(t *testing.T) {
	t.Parallel()
	asked, letGo := make(chan struct{}), make(chan struct{})
	outside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-letGo
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"result":"in time"}`)
	}))
	t.Cleanup(outside.Close)
	r := start(t, t.TempDir(), nil)
	require.NoError(t, r.c.PutTool(t.Context(), "slow", map[string]any{
		"target": "http", "url": outside.URL, "description": "Slow.", "kind": "read", "completion": "joined", "parameters": map[string]any{"type": "object"},
	}))
	_, err := r.c.CreateSession(t.Context(), map[string]any{"id": "s", "config": map[string]any{
		"model": scripted(`[{"calls":[{"tool":"slow","arguments":{}}]},{"text":"it was {{results}}"}]`), "tools": []string{"slow"},
	}})
	require.NoError(t, err)
	_, err = r.c.StartRun(t.Context(), "s", text("go"), 0)
	require.NoError(t, err)
	<-asked
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		r.stop()
	}()
	// The engine refuses commands from the moment that it stops; only then is
	// the tool let go.
	for status := http.StatusAccepted; status == http.StatusAccepted; {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL()+"/v1/sessions/s/compact", nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+r.Key())
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			break
		}
		status = resp.StatusCode
		resp.Body.Close()
	}
	close(letGo)
	<-stopped
	r = start(t, r.data, nil)
	run := r.run(t, "s", "run_1")
	require.Equal(t, "completed", run.Status, "%+v", run.Failure)
	require.Equal(t, "it was in time", run.Output.Text)
}

func TestTheDemoOverwritesNothing(t *testing.T) {
	t.Parallel()
	// A crash before the session was there leaves the file; it may have been
	// changed since.
	data := t.TempDir()
	own := filepath.Join(data, "workspaces", "local", "own", "demo", "files")
	require.NoError(t, os.MkdirAll(own, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(own, "changes.md"), []byte("- Add mine\n"), 0o600))
	r := start(t, data, nil)
	run := r.run(t, "demo", "run_1")
	require.Equal(t, "waiting", run.Status)
	require.Contains(t, string(run.Approvals[0].Arguments), "Add mine")
	r.stop()

	// A session of that name that is somebody's own is left alone.
	data = t.TempDir()
	r = start(t, data, func(c *local.Config) { c.OpenAIBaseURL = "http://127.0.0.1:1" })
	_, err := r.c.CreateSession(t.Context(), map[string]any{"id": "demo", "name": "Mine"})
	require.NoError(t, err)
	r.stop()
	r = start(t, data, nil)
	s, err := r.c.Session(t.Context(), "demo")
	require.NoError(t, err)
	require.Equal(t, "Mine", s.Name)
	require.Nil(t, s.ActiveRun)
	require.NotContains(t, r.log.String(), "no demo")
}

func TestADeletedSessionTakesItsFilesAlong(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.run(t, "demo", "run_1")
	own := filepath.Join(r.data, "workspaces", "local", "own", "demo")
	require.DirExists(t, own)
	_, err := r.c.CloseSession(t.Context(), "demo", true)
	require.NoError(t, err)
	require.NoError(t, r.c.DeleteSession(t.Context(), "demo"))
	require.NoDirExists(t, own)
}
