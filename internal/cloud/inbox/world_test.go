package inbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
	"github.com/perdure/perdure/internal/adapter/gosched"
	"github.com/perdure/perdure/internal/adapter/memory"
	"github.com/perdure/perdure/internal/adapter/scripted"
	"github.com/perdure/perdure/internal/adapter/sqlite"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/cloud/inbox"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool"
	"github.com/perdure/perdure/internal/tool/control"
)

// patience is a hang guard: far beyond what any test needs.
const patience = 30 * time.Second

// store is all that an engine keeps.
type store interface {
	host.Log
	host.Blobs
	host.Checkpoints
	host.Stash
}

// world is an inbox over a real API and engine.
type world struct {
	t       *testing.T
	store   store
	engine  *host.Engine
	model   *scripted.Script
	effects atomic.Int64 // of the tool
	fault   atomic.Pointer[http.HandlerFunc]
	said    *said
	inbox   *inbox.Inbox
	n       int
}

// nobody is known to this API: commands come in by the inbox alone.
type nobody struct{}

func (nobody) Authenticate(context.Context, string) (api.Principal, error) {
	return api.Principal{}, api.ErrUnauthenticated
}

// said is what was logged.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func setup(t *testing.T) *world {
	t.Helper()
	return over(t, memory.New(memory.Options{Now: gosched.New().Now}))
}

func overSQLite(t *testing.T) *world {
	t.Helper()
	s, err := sqlite.Open(t.TempDir(), sqlite.Options{Now: gosched.New().Now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return over(t, s)
}

func over(t *testing.T, s store) *world {
	t.Helper()
	w := &world{t: t, store: s, model: scripted.NewScript(), said: new(said)}
	for range 100 {
		w.model.Add(scripted.Step{Text: "done"})
	}
	run := func(context.Context, host.ToolCall) (host.ToolResult, error) {
		w.effects.Add(1)
		return host.ToolResult{Text: "written"}, nil
	}
	registry, err := tool.New(nil, []tool.Spec{{
		Name: "t.write", Kind: tool.KindAction, Description: "writes", Parameters: `{"type":"object","additionalProperties":false}`, Run: run,
	}}, control.Tools())
	require.NoError(t, err)
	keys := host.Keyring{{ID: "k1", Key: []byte(strings.Repeat("k", 32))}}
	sched := gosched.New()
	w.engine = host.New(host.Deps{
		Log: s, Blobs: s, Checkpoints: s, Stash: s, Models: w.model, Tools: registry, Sched: sched, Keys: keys,
	}, host.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, w.engine.Start(ctx))
	t.Cleanup(func() {
		defer cancel()
		ctx, done := context.WithTimeout(context.Background(), patience)
		defer done()
		require.NoError(t, w.engine.Stop(ctx))
		require.NoError(t, sched.Wait(ctx))
	})
	handler := api.New(api.Deps{
		Engine: w.engine, Stash: s, Auth: nobody{}, Keys: keys, Secret: []byte(strings.Repeat("s", 32)),
		DefaultConfig: func(context.Context, ident.TenantID) api.Config {
			return api.Config{Model: api.ModelConfig{Provider: "test", Model: "m"}, Tools: []api.ToolGrant{{Name: "t.write"}}}
		},
	})
	w.inbox = inbox.New(inbox.Deps{
		API: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if f := w.fault.Load(); f != nil && strings.HasPrefix(r.Header.Get("Idempotency-Key"), "poison") {
				(*f)(rw, r)
				return
			}
			handler.ServeHTTP(rw, r)
		}),
		Sessions: w.engine, Body: s.GetBlob, Log: slog.New(slog.NewJSONHandler(w.said, nil)),
	})
	return w
}

// poison makes requests under keys that begin with poison end so.
func (w *world) poison(f http.HandlerFunc) { w.fault.Store(&f) }

func unavailable(rw http.ResponseWriter, _ *http.Request) {
	rw.WriteHeader(http.StatusServiceUnavailable)
	_, _ = rw.Write([]byte(`{"code":"unavailable","detail":"sekret"}`))
}

type m = map[string]any

// msg is a message of session s: a command by its path below the session.
func (w *world) msg(id, path, key string, body any, change ...func(m)) inbox.Message {
	w.t.Helper()
	text := ""
	if body != nil {
		data, err := json.Marshal(body)
		require.NoError(w.t, err)
		text = string(data)
	}
	full := "/v1/sessions/" + id + path
	if path == "" {
		full = "/v1/sessions"
	}
	c := m{
		"v": 1, "tenant": "t1", "session": id, "method": "POST", "path": full, "key": key,
		"actor": m{"id": "U1", "roles": []string{"lead"}}, "via": "slack", "body": text,
	}
	for _, f := range change {
		f(c)
	}
	data, err := json.Marshal(c)
	require.NoError(w.t, err)
	w.n++
	return inbox.Message{ID: "m" + strconv.Itoa(w.n), Group: "g-" + id, Body: string(data), Receives: 1}
}

func with(name string, value any) func(m) { return func(c m) { c[name] = value } }

func (w *world) open(id string) inbox.Message {
	w.t.Helper()
	return w.msg(id, "", "open-"+id, m{"id": id})
}

func (w *world) run(id, key, text string) inbox.Message {
	w.t.Helper()
	return w.msg(id, "/runs", key, m{"input": text})
}

// done takes messages that must not fail.
func (w *world) done(batch ...inbox.Message) {
	w.t.Helper()
	require.Empty(w.t, w.inbox.Take(w.t.Context(), batch), w.said)
}

func key(id string) host.Key {
	return host.Key{Tenant: "t1", Session: ident.SessionID(id)}
}

// until waits for a state of a session.
func (w *world) until(id, what string, ok func(*session.State) bool) host.Done {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	for {
		d, err := w.engine.View(ctx, key(id))
		require.NoError(w.t, err)
		if ok(&d.State) {
			return d
		}
		_, err = w.engine.WaitAny(ctx, 1000, w.engine.Watch(key(id), d.Head.Seq))
		require.NoError(w.t, err, what)
	}
}

func (w *world) idle(id string) host.Done {
	w.t.Helper()
	return w.until(id, "idle", func(s *session.State) bool { return s.Active == nil && len(s.Queue) == 0 })
}

// log are the events of a session.
func (w *world) log(id string) []session.Entry {
	w.t.Helper()
	d, err := w.engine.View(w.t.Context(), key(id))
	require.NoError(w.t, err)
	var out []session.Entry
	for after := ident.Seq(0); after < d.Head.Seq; {
		page, err := w.engine.RawLog(w.t.Context(), key(id), after, d.Head.Seq)
		require.NoError(w.t, err)
		for _, line := range page {
			en, err := wire.Decode(bytes.TrimSuffix(line.Data, []byte("\n")))
			require.NoError(w.t, err)
			out = append(out, en)
			after = en.Seq
		}
	}
	return out
}

// all are the events of one type.
func all[E session.Event](entries []session.Entry) []E {
	var out []E
	for _, en := range entries {
		if e, ok := en.Event.(E); ok {
			out = append(out, e)
		}
	}
	return out
}

// queue is a FIFO queue with a dead-letter queue: what is received and not
// deleted comes again, before all that is behind it in its group.
type queue struct {
	messages []inbox.Message
	dead     []string
	most     int // of a batch
}

func (q *queue) send(messages ...inbox.Message) {
	for _, one := range messages {
		one.Receives = 0
		q.messages = append(q.messages, one)
	}
}

// receive takes the next batch. A message that was received too often is dead
// before it would be received again.
func (q *queue) receive() []inbox.Message {
	var batch, left []inbox.Message
	for _, one := range q.messages {
		if one.Receives == inbox.DefaultReceives {
			q.dead = append(q.dead, one.ID)
			continue
		}
		if len(batch) < q.most {
			one.Receives++
			batch = append(batch, one)
		}
		left = append(left, one)
	}
	q.messages = left
	return batch
}

// drain hands batches over until there are none, and returns what was reported
// of each.
func (q *queue) drain(ctx context.Context, b *inbox.Inbox) (reports []string) {
	for batch := q.receive(); len(batch) > 0; batch = q.receive() {
		failed := b.Take(ctx, batch)
		reports = append(reports, fmt.Sprint(failed))
		var left []inbox.Message
		for i, one := range q.messages {
			taken := i < len(batch)
			if !taken || slices.Contains(failed, one.ID) {
				left = append(left, one)
			}
		}
		q.messages = left
	}
	return reports
}
