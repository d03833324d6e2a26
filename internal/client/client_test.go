package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/api"
)

// serve answers with what handle says; pauses between tries are counted, and
// not made.
func serve(t *testing.T, handle http.HandlerFunc) (*Client, *[]time.Duration) {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	c := New(server.URL+"/", "pk_a_b")
	var pauses []time.Duration
	c.pause = func(ctx context.Context, d time.Duration) error {
		pauses = append(pauses, d)
		return ctx.Err()
	}
	return c, &pauses
}

func refuse(w http.ResponseWriter, status int, code string, retryAfter int) {
	w.Header().Set("Content-Type", "application/problem+json")
	if retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"title": "No", "status": status, "code": code, "detail": "because"})
}

func TestAServerThatIsNotReadyIsAskedAgain(t *testing.T) {
	t.Parallel()
	var keys []string
	c, pauses := serve(t, func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		if len(keys) < 4 {
			refuse(w, http.StatusServiceUnavailable, "unavailable", len(keys)*2)
			return
		}
		_, _ = w.Write([]byte(`{"id":"run_1"}`))
	})
	run, err := c.StartRun(t.Context(), "s", api.RequestRun{}, 0)
	require.NoError(t, err)
	require.Equal(t, "run_1", run.ID)
	require.Equal(t, []time.Duration{2 * time.Second, 4 * time.Second, 5 * time.Second}, *pauses, "as asked, and no longer than bearable")
	require.NotEmpty(t, keys[0])
	require.Equal(t, []string{keys[0], keys[0], keys[0], keys[0]}, keys, "every try is the same request")
}

func TestTryingAgainHasAnEnd(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		refuse(w, http.StatusServiceUnavailable, "unavailable", 0)
	})
	_, err := c.Session(t.Context(), "s")
	require.Equal(t, "unavailable", Code(err))
	require.EqualValues(t, triesMost, asked.Load())
}

// throttle answers as a function's URL does while no concurrency is free: in
// AWS's own words, and without Retry-After.
func throttle(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusTooManyRequests)
	_, _ = w.Write([]byte(`{"Reason":"ReservedFunctionConcurrentInvocationLimitExceeded","Type":"User","message":"Rate Exceeded."}`))
}

func TestAServerWithTooMuchToDoIsAskedAgain(t *testing.T) {
	t.Parallel()
	asked := 0
	c, pauses := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		switch asked++; asked {
		case 1, 2:
			throttle(w)
		case 3:
			refuse(w, http.StatusTooManyRequests, "rate_limited", 3)
		default:
			_, _ = w.Write([]byte(`{"id":"run_1"}`))
		}
	})
	run, err := c.StartRun(t.Context(), "s", api.RequestRun{}, 0)
	require.NoError(t, err)
	require.Equal(t, "run_1", run.ID)
	require.Equal(t, []time.Duration{pauseFirst, 2 * pauseFirst, 3 * time.Second}, *pauses, "as long as was asked, or ever longer")
}

func TestAServerThatStaysBusyIsNotTakenForAnother(t *testing.T) {
	t.Parallel()
	asked := 0
	c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		asked++
		throttle(w)
	})
	_, err := c.Session(t.Context(), "s")
	require.EqualError(t, err, "429 Too Many Requests: the server has as many requests as it may take at once: try again later (rate_limited)")
	require.Equal(t, triesMost, asked)
	// What may have been carried out is nobody's to repeat, whoever says no.
	asked = 0
	_, err = c.PatchSession(t.Context(), "s", api.PatchSession{})
	require.Equal(t, "rate_limited", Code(err))
	require.Equal(t, 1, asked)
}

func TestWhatStandsBeforeTheServerSpeaksForIt(t *testing.T) {
	t.Parallel()
	for status, code := range map[int]string{413: "too_large", 429: "rate_limited", 503: "unavailable"} {
		c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"message":"No"}`))
		})
		_, err := c.Session(t.Context(), "s")
		require.Equal(t, code, Code(err))
		require.NotContains(t, err.Error(), "right server")
	}
}

func TestWhatIsRefusedIsNotSentAgain(t *testing.T) {
	t.Parallel()
	for status, code := range map[int]string{400: "invalid_request", 404: "not_found", 409: "session_busy", 422: "validation_failed", 429: "quota_exceeded", 500: "internal"} {
		asked := 0
		c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			asked++
			refuse(w, status, code, 0)
		})
		_, err := c.StartRun(t.Context(), "s", api.RequestRun{}, 0)
		require.EqualError(t, err, "No: because ("+code+")")
		require.Equal(t, 1, asked)
	}
	// A PATCH that may have been carried out is nobody's to repeat.
	asked := 0
	c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		asked++
		refuse(w, http.StatusServiceUnavailable, "unavailable", 0)
	})
	_, err := c.PatchSession(t.Context(), "s", api.PatchSession{})
	require.Error(t, err)
	require.Equal(t, 1, asked)
}

func TestABrokenConnectionIsMadeAgain(t *testing.T) {
	t.Parallel()
	asked := 0
	c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked == 1 {
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write([]byte(`{"id":"s"}`))
	})
	s, err := c.Session(t.Context(), "s")
	require.NoError(t, err)
	require.Equal(t, "s", s.ID)
}

func TestNobodyThereIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	c := New(server.URL, "")
	c.pause = func(context.Context, time.Duration) error {
		t.Error("it waits")
		return nil
	}
	_, err := c.Session(t.Context(), "s")
	var gone *UnreachableError
	require.ErrorAs(t, err, &gone)
	require.Equal(t, server.URL, gone.Base)
	require.Equal(t, 1, strings.Count(err.Error(), server.URL), err.Error())
}

func TestProblemsSayWhere(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = w.Write([]byte(`{"title":"Not valid","status":422,"code":"validation_failed","detail":"it is not","errors":[{"location":"body.input","message":"too short"}],"limit":"x","max":3}`))
	})
	_, err := c.Session(t.Context(), "s")
	var p *ProblemError
	require.ErrorAs(t, err, &p)
	require.Equal(t, "Not valid: it is not; body.input: too short (validation_failed)", p.Error())
	require.Equal(t, "x", p.Limit)
	require.True(t, json.Valid(p.Raw))
}

func TestAnotherServersWordsAreTakenForWhatTheyAre(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) })
	_, err := c.Session(t.Context(), "s")
	require.ErrorContains(t, err, "502 Bad Gateway")
	require.ErrorContains(t, err, "is this the right server?")
	c, _ = serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) })
	_, err = c.Session(t.Context(), "s")
	require.ErrorContains(t, err, "cannot be read")
}

func TestTheKeyGoesNowhereElse(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	t.Cleanup(other.Close)
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer pk_a_b" || !strings.HasPrefix(r.UserAgent(), "perdure-cli") {
			t.Error("the request does not say who asks")
		}
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	_, err := c.Session(t.Context(), "s")
	require.Error(t, err)
}

func TestIdsAreParts(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.EscapedPath() != "/v1/sessions/a%2F..%2Fb" {
			t.Errorf("the path is %s", r.URL.EscapedPath())
		}
		_, _ = w.Write([]byte(`{}`))
	})
	_, err := c.Session(t.Context(), "a/../b")
	require.NoError(t, err)
}

func TestFollowReadsPageAfterPageAndThenWaits(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var asked []string
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		asked = append(asked, q.Get("after")+"/"+q.Get("wait"))
		after, _ := strconv.ParseUint(q.Get("after"), 10, 64)
		page := api.Events{Events: []api.Event{}, Next: after, Head: 4}
		for seq := after + 1; seq <= min(after+2, 4); seq++ {
			page.Events = append(page.Events, api.Event{Seq: seq, Kind: "run.started"})
			page.Next = seq
		}
		page.Complete = page.Next == 4
		if len(asked) == 4 {
			page.Head, page.Next = 5, 5
			page.Events = append(page.Events, api.Event{Seq: 5, Kind: "run.completed"})
		}
		_ = json.NewEncoder(w).Encode(page)
	})
	var seqs []uint64
	for e, err := range c.Follow(ctx, "s", 0, true) {
		require.NoError(t, err)
		seqs = append(seqs, e.Seq)
		if e.Kind == "run.completed" {
			break
		}
	}
	require.Equal(t, []uint64{1, 2, 3, 4, 5}, seqs)
	require.Equal(t, []string{"0/", "2/", "4/20", "4/20"}, asked)
	seqs = nil
	for e, err := range c.Follow(t.Context(), "s", 0, false) {
		require.NoError(t, err)
		seqs = append(seqs, e.Seq)
	}
	require.Equal(t, []uint64{1, 2, 3, 4}, seqs)
}
