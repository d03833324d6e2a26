package host_test

import (
	"context"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/memory"
	"github.com/perdure/perdure/internal/adapter/simsched"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool"
)

// laterTools are t.later (its promise is the model's) and t.joined (its result
// is the promise's); what they are handed is kept by operation.
func laterTools(given map[string]host.ToolCall, times map[string]int) func(*simsched.Sim) []tool.Spec {
	return func(sim *simsched.Sim) []tool.Spec {
		run := func(ctx context.Context, c host.ToolCall) (host.ToolResult, error) {
			given[c.Operation], times[c.Operation] = c, times[c.Operation]+1
			return host.ToolResult{Accepted: true}, sim.Sleep(ctx, 10)
		}
		return []tool.Spec{
			{Name: "t.later", Kind: tool.KindRead, Class: session.ClassPromise, Parallel: true, RetrySafe: true, Description: "answers later", Parameters: anything, Run: run},
			{Name: "t.joined", Kind: tool.KindRead, Class: session.ClassJoined, Parallel: true, RetrySafe: true, Description: "answers later", Parameters: anything, Run: run},
		}
	}
}

func settle(id ident.PromiseID, value string) *session.SettlePromise {
	return &session.SettlePromise{Promise: id, Status: session.Resolved, Value: blob.Inline(value), Asked: asked("")}
}

// engine 10.59: an await of any wakes with the first, of all with the last; its
// time limit is a timer, not a question asked again and again.
func TestAwaitAnyAndAll(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		await string
		after int // settlements that end it
		want  string
	}{
		"all":   {`{"promises":["promise_1","promise_2"]}`, 2, "promise_1: resolved one\npromise_2: resolved two"},
		"any":   {`{"promises":["promise_1","promise_2"],"mode":"any"}`, 1, "promise_1: resolved one\npromise_2: pending"},
		"timed": {`{"promises":["promise_1","promise_2"],"timeoutSeconds":7200}`, 0, "The time is up; what is pending can be awaited again.\npromise_1: pending\npromise_2: pending"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen []host.ModelRequest
			ops := counts{}
			lab{
				inject: ops.inject, specs: laterTools(map[string]host.ToolCall{}, map[string]int{}),
				model: script(10, &seen, calling(call("a", "t.later", `{"x":"1"}`), call("b", "t.later", `{"x":"2"}`)), calling(call("c", "await", c.await))),
			}.play(t, func(ctx context.Context, w *labWorld) {
				k := key("s")
				w.open(ctx, k, config("t.*", "await"))
				id := w.submit(ctx, k, "go")
				w.untilWaiting(ctx, k)
				w.sleep(ctx, ident.Minute)
				require.Equal(t, "promise", w.run(ctx, k, id).WaitingOn[0].Kind)
				asked := w.sim.Now()
				if c.after == 0 {
					commits, reads := ops["log.commit"], ops["log.read"]
					w.sleep(ctx, ident.Hour)
					require.Equal(t, commits, ops["log.commit"], "nothing is written while it waits")
					require.Equal(t, reads, ops["log.read"], "and nothing is read")
				}
				if c.after > 0 {
					w.must(ctx, k, settle(1, "one"))
				}
				if c.after > 1 {
					w.sleep(ctx, ident.Minute)
					require.Len(t, seen, 2)
					w.must(ctx, k, settle(2, "two"))
				}
				w.untilIdle(ctx, k)
				v := w.run(ctx, k, id)
				require.Equal(t, session.RunDone, v.Status)
				require.Equal(t, c.want, resultsOf(seen[2])[0].Text)
				if c.after == 0 {
					require.InDelta(t, 7200_000-ident.Minute, int64(v.CompletedAt-asked), 1500)
				}
			})
		})
	}
}

// engine 10.62: a detached promise that is settled on an idle session begins
// exactly one run, also when it is settled twice, and after a restart.
func TestADetachedPromiseBeginsOneRun(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		var seen []host.ModelRequest
		lab{
			specs: laterTools(map[string]host.ToolCall{}, map[string]int{}),
			model: script(10, &seen, calling(call("a", "t.later", `{}`)), calling(call("b", "detach", `{"promises":["promise_1"]}`)), saying("it will come")),
		}.play(t, func(ctx context.Context, w *labWorld) {
			k := key("s")
			w.open(ctx, k, config("t.*", "detach"))
			id := w.submit(ctx, k, "go")
			w.untilIdle(ctx, k)
			require.Equal(t, session.RunDone, w.run(ctx, k, id).Status)
			if restart {
				w.crash(ctx)
				w.start(w.group(ctx))
			}
			w.sleep(ctx, ident.Hour)
			w.must(ctx, k, settle(1, "the result"))
			d := w.must(ctx, k, settle(1, "the result"))
			require.True(t, d.Replies[0].Same)
			if restart {
				w.crash(ctx)
				w.start(w.group(ctx))
			}
			d = w.must(ctx, k, settle(1, "the result"))
			require.True(t, d.Replies[0].Same)
			_, err := w.do(ctx, k, settle(1, "another"))
			requireCode(t, err, session.CodeAlreadyDecided)
			w.untilIdle(ctx, k)
			require.Equal(t, 2, w.count(ctx, k, session.KindRunAccepted))
			last := seen[len(seen)-1].Messages
			parts := last[len(last)-1].Parts
			require.Equal(t, "promise_1 of t.later resolved:", parts[0].Text)
			require.Equal(t, "the result", parts[1].Text)
		})
	}
}

// engine 10.64: a call whose work was accepted stays what it is when that work
// fails later, and its promise carries the failure; a joined call fails with
// its promise. One that could not be begun fails together with its promise.
func TestAcceptedWorkThatFails(t *testing.T) {
	t.Parallel()
	var seen []host.ModelRequest
	lab{
		specs: func(sim *simsched.Sim) []tool.Spec {
			specs := laterTools(map[string]host.ToolCall{}, map[string]int{})(sim)
			return append(specs, tool.Spec{
				Name: "t.refused", Kind: tool.KindRead, Class: session.ClassPromise, Parallel: true, Description: "is refused", Parameters: anything,
				Run: func(context.Context, host.ToolCall) (host.ToolResult, error) {
					return host.ToolResult{}, &host.Fault{Class: host.ClassInvalid, Message: "no such queue", Sent: true}
				},
			})
		},
		model: script(10, &seen, calling(call("a", "t.later", `{}`), call("b", "t.joined", `{}`), call("c", "t.refused", `{}`))),
	}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config("t.*"))
		id := w.submit(ctx, k, "go")
		w.untilWaiting(ctx, k)
		fail := func(p ident.PromiseID) {
			w.must(ctx, k, &session.SettlePromise{Promise: p, Status: session.Failed, Error: blob.Inline("lost on the way"), Asked: asked("")})
		}
		fail(1)
		fail(2)
		w.untilIdle(ctx, k)
		rs := resultsOf(seen[1])
		require.False(t, rs[0].Error)
		require.Contains(t, rs[0].Text, "promise_1")
		require.True(t, rs[1].Error)
		require.Equal(t, "lost on the way", rs[1].Text)
		require.True(t, rs[2].Error)
		ps, err := w.engine.Promises(ctx, k, 0, 10)
		require.NoError(t, err)
		require.Len(t, ps, 3)
		for _, p := range ps {
			require.Equal(t, session.Failed, p.Status)
		}
		require.Equal(t, session.RunDone, w.run(ctx, k, id).Status)
		// The refused call and its promise ended in one commit.
		en := w.entries(ctx, k)
		for i := range en {
			if e, ok := en[i].Event.(*session.ToolCompleted); ok && e.Call == 3 {
				require.Equal(t, session.KindPromiseSettled, en[i+1].Event.Kind())
				require.Equal(t, en[i].At, en[i+1].At)
			}
		}
	})
}

// engine 10.66: the start of a call and its promise are one commit, and the
// start is found again after a restart: the other side sees the same operation
// and the same token, so that "begun already" is success.
func TestAStartIsFoundAgain(t *testing.T) {
	t.Parallel()
	for at := range int64(60) {
		given, times := map[string]host.ToolCall{}, map[string]int{}
		tokens := map[string]bool{}
		lab{seed: uint64(at), specs: laterTools(given, times), model: func(sim *simsched.Sim) generate {
			return asks(sim, 10, "go", call("a", "t.joined", `{}`))
		}}.play(t, func(ctx context.Context, w *labWorld) {
			k := key("s")
			w.open(ctx, k, config("t.*"))
			id := w.submit(ctx, k, "go")
			w.sleep(ctx, at)
			for _, c := range given {
				tokens[c.Token] = true
			}
			w.crash(ctx)
			w.start(w.group(ctx))
			w.untilWaiting(ctx, k)
			for _, c := range given {
				tokens[c.Token] = true
			}
			require.Len(t, given, 1)
			require.Len(t, tokens, 1)
			started, created := -1, -1
			for i, en := range w.entries(ctx, k) {
				switch e := en.Event.(type) {
				case *session.ToolStarted:
					if e.Attempt == 1 && started < 0 {
						started = i
					}
				case *session.PromiseCreated:
					created = i
				}
			}
			require.Equal(t, started+1, created)
			w.must(ctx, k, settle(1, "done"))
			w.untilIdle(ctx, k)
			require.Equal(t, session.RunDone, w.run(ctx, k, id).Status)
		})
	}
}

// Row 10: a promise's token is computed, never stored; it opens again after a
// restart and a change of keys; what is tampered with, of another key or of
// another incarnation does not.
func TestPromiseTokens(t *testing.T) {
	t.Parallel()
	given := map[string]host.ToolCall{}
	var stored strings.Builder
	lab{
		specs: laterTools(given, map[string]int{}), model: script(10, nil, calling(call("a", "t.joined", `{}`))),
		inject: func(*simsched.Sim) memory.Injector {
			return func(_ context.Context, op memory.Op, when memory.When) error {
				if op.Commit != nil && when == memory.Before {
					for _, r := range op.Commit.Rows {
						stored.Write(r.Data)
					}
					for _, e := range op.Commit.Entries {
						stored.Write(e.Data)
					}
				}
				return nil
			}
		},
	}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config("t.*"))
		w.submit(ctx, k, "go")
		w.untilWaiting(ctx, k)
		w.crash(ctx)
		w.deps.Keys = append(host.Keyring{{ID: "k2", Key: []byte(strings.Repeat("n", 32))}}, w.deps.Keys...)
		w.start(w.group(ctx))
		var token string
		for _, c := range given {
			token = c.Token
		}
		require.True(t, strings.HasPrefix(token, "pt_k1."))
		require.NotContains(t, stored.String(), token)
		require.NotContains(t, stored.String(), strings.Split(token, ".")[2])

		claim, ok := w.deps.Keys.Open(token)
		require.True(t, ok)
		require.Equal(t, host.PromiseClaim{Key: k, Inc: "i-s", Promise: 1}, claim)
		for name, bad := range tampered(token) {
			_, ok := w.deps.Keys.Open(bad)
			require.False(t, ok, name)
		}
		_, ok = host.Keyring{{ID: "k1", Key: []byte(strings.Repeat("x", 32))}}.Open(token)
		require.False(t, ok, "another key of the same name")
		_, ok = w.deps.Keys[:1].Open(token)
		require.False(t, ok, "a key that is gone")
		require.NotEqual(t, token, w.deps.Keys.Token(k, "i-s", 1), "new tokens are of the new key")

		// Another incarnation of the same id is another session.
		w.must(ctx, k, &session.CloseSession{Force: true, Asked: asked("")})
		require.NoError(t, w.engine.Delete(ctx, k))
		d := w.must(ctx, k, &session.OpenSession{Inc: "i-2", Config: config(), Asked: asked("")})
		require.NotEqual(t, claim.Inc, d.State.Inc)
	})
}

func tampered(token string) map[string]string {
	parts := strings.Split(token, ".")
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	check(err)
	other := base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(body), "promise_1", "promise_2", 1)))
	return map[string]string{
		"nothing":          "",
		"no signature":     parts[0] + "." + parts[1],
		"another promise":  parts[0] + "." + other + "." + parts[2],
		"another key":      "pt_k2." + parts[1] + "." + parts[2],
		"a shorter mac":    token[:len(token)-1],
		"a longer mac":     token + "A",
		"another prefix":   "px_" + token[3:],
		"padding":          token + "=",
		"endless":          token + strings.Repeat("A", 5000),
		"a dot more":       token + ".",
		"upper case of it": strings.ToUpper(token),
	}
}

// A joined promise that nobody settles fails at its tool's deadline, by a timer
// of the session alone, with no task in memory.
func TestAPromiseThatNobodySettles(t *testing.T) {
	t.Parallel()
	var seen []host.ModelRequest
	lab{
		options: host.Options{IdleMs: 100}, model: script(10, &seen, calling(call("a", "t.joined", `{}`))),
		specs: laterTools(map[string]host.ToolCall{}, map[string]int{}),
	}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config("t.*"))
		id := w.submit(ctx, k, "go")
		w.sleep(ctx, ident.Day+2*ident.Second)
		v := w.run(ctx, k, id)
		require.Equal(t, session.RunDone, v.Status)
		require.True(t, resultsOf(seen[1])[0].Error)
		require.Contains(t, resultsOf(seen[1])[0].Text, "deadline")
		require.InDelta(t, ident.Day, int64(v.CompletedAt-v.AcceptedAt), 2000)
	})
}
