package api_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/adapter/memory"
	"github.com/perdure/perdure/internal/adapter/scripted"
	"github.com/perdure/perdure/internal/api"
)

func key(k string) option { return header("Idempotency-Key", k) }

func TestTheFirstAnswerToAKeyIsReplayed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	first := w.call("POST", "/v1/sessions", m{"config": config(), "input": "hello"}, key("k1"))
	var s, again api.Session
	first.is(201, &s)
	w.call("GET", "/v1/sessions/"+s.ID+"/runs/run_1?wait=20", nil).is(200, nil)
	second := w.call("POST", "/v1/sessions", m{"input": "hello", "config": config()}, key("k1"))
	second.is(201, &again)
	require.Equal(t, s, again) // as it was, though the session has moved on
	require.Equal(t, "true", second.Header().Get("Idempotency-Replayed"))
	require.Equal(t, first.Header().Get("X-Content-Type-Options"), second.Header().Get("X-Content-Type-Options"))
	w.call("POST", "/v1/sessions", m{"config": config()}, key("k1")).refused(409, "submission_conflict")
	w.call("POST", "/v1/sessions", m{"config": config(), "input": "hello"}, key("k1"), as(bob)).is(201, &again)
	require.NotEqual(t, s.ID, again.ID)
	w.call("POST", "/v1/sessions", m{"config": config(), "input": "hello"}, key("k2")).is(201, &again)
	require.NotEqual(t, s.ID, again.ID)

	// What a session says is deleted with it, the answer included.
	w.call("POST", "/v1/sessions/"+s.ID+"/close", nil, key("k1")).is(200, nil)
	w.call("POST", "/v1/sessions/"+s.ID+"/close", nil, key("k1")).is(200, nil)
	w.call("POST", "/v1/sessions/"+s.ID+"/close", nil).refused(409, "session_closed")
	w.call("DELETE", "/v1/sessions/"+s.ID, nil).is(204, nil)
	w.call("POST", "/v1/sessions", m{"config": config(), "input": "hello"}, key("k1")).refused(404, "not_found")
	w.call("POST", "/v1/sessions/"+s.ID+"/close", nil, key("k1")).refused(404, "not_found")
}

func TestARefusedRequestLeavesNoTrace(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1")
	_, open := w.busy("s1")
	w.call("POST", "/v1/sessions/s1/close", nil, key("k")).refused(409, "session_busy")
	w.call("POST", "/v1/sessions/s1/close", m{"force": true}, key("k")).is(200, nil)
	open()
	w.call("POST", "/v1/sessions", m{"id": "ä"}, key("k")).refused(422, "validation_failed")
	w.call("POST", "/v1/sessions", m{"id": "a"}, key("k")).is(201, nil)
}

func TestAKeyOnAPromiseToken(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1", "t.*")
	w.model.For("s1", scripted.Step{Calls: []scripted.Call{call("t.later", `{}`)}}, scripted.Step{Text: "done"})
	w.run("s1", "go")
	path := "/v1/promises/" + <-w.tokens
	w.call("POST", path, m{"status": "resolved", "value": "v"}, bare, key("k")).is(200, nil)
	again := w.call("POST", path, m{"status": "resolved", "value": "v"}, bare, key("k")).is(200, nil)
	require.Equal(t, "true", again.Header().Get("Idempotency-Replayed"))
	w.call("POST", path, m{"status": "failed"}, bare, key("k")).refused(409, "submission_conflict")
	w.call("POST", "/v1/promises/pt_x/", m{"status": "resolved"}, key("k")).refused(404, "not_found")
	w.call("POST", "/v1/promises/pt_x", m{"status": "resolved"}, key("k")).refused(404, "not_found")
}

// TestAKeyInUse kills a process in the midst of a request with a key (T38).
// Until the lease is over another one is told to come back; then it finds what
// the first one made.
func TestAKeyInUse(t *testing.T) {
	t.Parallel()
	var stuck, crashed atomic.Bool
	entered, gate := make(chan struct{}), make(chan struct{})
	w := setup(t, func(_ *api.Deps, o *memory.Options) {
		o.Inject = func(_ context.Context, op memory.Op, when memory.When) error {
			if op.Name == "log.commit" && when == memory.After && stuck.CompareAndSwap(true, false) {
				close(entered)
				<-gate
			}
			if crashed.Load() && strings.HasPrefix(op.Name, "stash.") {
				return errors.New("the process is dead")
			}
			return nil
		}
	})
	stuck.Store(true)
	body := m{"config": config()}
	ctx, gone := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.ServeHTTP(httptest.NewRecorder(), request("POST", "/v1/sessions", body, key("k")).WithContext(ctx))
	}()
	<-entered
	res := w.call("POST", "/v1/sessions", body, key("k"))
	require.Contains(t, res.refused(503, "unavailable").Detail, "in progress")
	require.Equal(t, "1", res.Header().Get("Retry-After"))
	w.call("POST", "/v1/sessions", m{}, key("k")).refused(409, "submission_conflict")
	crashed.Store(true)
	gone()
	<-done
	close(gate)
	crashed.Store(false)
	w.call("POST", "/v1/sessions", body, key("k")).refused(503, "unavailable")

	w.later.Store(31 * ident.Second)
	var s api.Session
	w.call("POST", "/v1/sessions", body, key("k")).is(200, &s)
	var list api.Page[api.SessionSummary]
	w.call("GET", "/v1/sessions", nil).is(200, &list)
	require.Len(t, list.Items, 1)
	require.Equal(t, s.ID, list.Items[0].ID)
}

// TestAnOutcomeThatIsNotKnown gives up on a request whose effect lands later.
func TestAnOutcomeThatIsNotKnown(t *testing.T) {
	t.Parallel()
	var stuck atomic.Bool
	entered, gate := make(chan struct{}), make(chan struct{})
	w := setup(t, func(_ *api.Deps, o *memory.Options) {
		o.Inject = func(_ context.Context, op memory.Op, when memory.When) error {
			if op.Name == "log.commit" && when == memory.After && stuck.CompareAndSwap(true, false) {
				close(entered)
				<-gate
			}
			return nil
		}
	})
	stuck.Store(true)
	body := m{"config": config()}
	ctx, gone := context.WithCancel(context.Background())
	done := make(chan int)
	go func() {
		rec := httptest.NewRecorder()
		w.ServeHTTP(rec, request("POST", "/v1/sessions", body, key("k")).WithContext(ctx))
		done <- rec.Code
	}()
	<-entered
	gone()
	require.Equal(t, 503, <-done)
	close(gate)
	w.call("POST", "/v1/sessions", body, key("k")).is(200, nil)
	var list api.Page[api.SessionSummary]
	w.call("GET", "/v1/sessions", nil).is(200, &list)
	require.Len(t, list.Items, 1)
}

func TestAStashThatFails(t *testing.T) {
	t.Parallel()
	var failing atomic.Bool
	w := setup(t, func(_ *api.Deps, o *memory.Options) {
		o.Inject = func(_ context.Context, op memory.Op, when memory.When) error {
			if failing.Load() && op.Name == "stash.put" && when == memory.Before {
				return errors.New("no stash")
			}
			return nil
		}
	})
	failing.Store(true)
	w.call("POST", "/v1/sessions", m{"id": "s1"}, key("k")).refused(503, "unavailable")
	w.call("GET", "/v1/sessions/s1", nil).refused(404, "not_found")
	w.call("POST", "/v1/sessions", m{"id": "s1"}).is(201, nil)
}
