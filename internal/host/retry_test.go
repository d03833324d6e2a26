package host_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/simsched"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool"
)

// engine 10.39: transient errors leave no trace in the transcript, and pauses
// double from two seconds.
func TestTransientErrorsAreRetried(t *testing.T) {
	t.Parallel()
	var seen []host.ModelRequest
	bad := failing(host.Fault{Class: host.ClassServer, Message: "503", Sent: true})
	lab{model: script(10, &seen, bad, bad, saying("at last"))}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config())
		id := w.submit(ctx, k, "hi")
		w.untilIdle(ctx, k)
		v := w.run(ctx, k, id)
		require.Equal(t, session.RunDone, v.Status)
		require.Equal(t, "at last", v.Output.Text)
		require.Equal(t, 1, w.count(ctx, k, session.KindTurnCompleted))
		require.Len(t, stateOfLab(ctx, w, k).Context.Entries, 2)
		require.InDelta(t, 2000+4000+30, int64(v.CompletedAt-v.AcceptedAt), 50)
		require.NotEqual(t, seen[0].Attempt, seen[1].Attempt)
		require.Equal(t, seen[0].Messages, seen[2].Messages)
	})
}

// engine 10.40 and 10.41: retries that are exhausted, by errors or by timeouts
// alone, fail the run after its budget of a quarter of an hour; the next run of
// the session completes.
func TestRetriesAreExhausted(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]func(sim *simsched.Sim) generate{
		"errors": func(sim *simsched.Sim) generate {
			return func(ctx context.Context, _ host.ModelRequest, _ func(host.Delta)) (host.ModelResult, error) {
				check(sim.Sleep(ctx, 100))
				return host.ModelResult{}, &host.Fault{Class: host.ClassNetwork, Message: "connection refused"}
			}
		},
		"timeouts": func(sim *simsched.Sim) generate {
			return func(ctx context.Context, _ host.ModelRequest, _ func(host.Delta)) (host.ModelResult, error) {
				return host.ModelResult{}, sim.Sleep(ctx, ident.Day)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			down := true
			lab{model: func(sim *simsched.Sim) generate {
				bad := outage(sim)
				return func(ctx context.Context, req host.ModelRequest, sink func(host.Delta)) (host.ModelResult, error) {
					if down {
						return bad(ctx, req, sink)
					}
					return said("ok")
				}
			}}.play(t, func(ctx context.Context, w *labWorld) {
				k := key("s")
				w.open(ctx, k, config())
				id := w.submit(ctx, k, "hi")
				w.until(ctx, k, "the end of the run", func(s *session.State) bool { return s.Active == nil })
				v := w.run(ctx, k, id)
				require.Equal(t, session.RunFails, v.Status)
				require.Equal(t, session.FailModel, v.Failure.Kind)
				require.LessOrEqual(t, w.calls, session.FailuresMax)
				took := int64(v.CompletedAt - v.AcceptedAt)
				require.LessOrEqual(t, took, session.TryingMax+6*ident.Minute)
				require.Greater(t, took, 7*ident.Minute)
				down = false
				id = w.submit(ctx, k, "again")
				w.untilIdle(ctx, k)
				require.Equal(t, session.RunDone, w.run(ctx, k, id).Status)
			})
		})
	}
}

// engine 10.42: a quota that is used up is final; a rate limit is retried, after
// what the provider asks for, at most a minute. A pause over five seconds is a
// wait, and costs no task its patience.
func TestRateLimits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault  host.Fault
		status string
		after  int64
	}{
		"quota":         {host.Fault{Class: host.ClassQuota, Message: "insufficient_quota", Sent: true}, session.RunFails, 0},
		"no wish":       {host.Fault{Class: host.ClassRateLimit, Sent: true}, session.RunDone, 2000},
		"ten seconds":   {host.Fault{Class: host.ClassRateLimit, RetryAfterMs: 10_000, Sent: true}, session.RunDone, 10_000},
		"half a second": {host.Fault{Class: host.ClassRateLimit, RetryAfterMs: 500, Sent: true}, session.RunDone, 2000},
		"an hour":       {host.Fault{Class: host.ClassRateLimit, RetryAfterMs: ident.Hour, Sent: true}, session.RunDone, 60_000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lab{model: script(10, nil, failing(c.fault))}.play(t, func(ctx context.Context, w *labWorld) {
				k := key("s")
				w.open(ctx, k, config())
				id := w.submit(ctx, k, "hi")
				w.sleep(ctx, 100)
				if c.after > session.ShortWait {
					v := w.run(ctx, k, id)
					require.Equal(t, session.RunWaits, v.Status)
					require.Equal(t, "retry", v.WaitingOn[0].Kind)
				}
				w.untilIdle(ctx, k)
				v := w.run(ctx, k, id)
				require.Equal(t, c.status, v.Status)
				require.InDelta(t, c.after+20, int64(v.CompletedAt-v.AcceptedAt), 30)
			})
		})
	}
}

// A provider that cannot be looked up for a while is no reason to fail a run;
// one that is not there is.
func TestAProviderThatCannotBeLookedUp(t *testing.T) {
	t.Parallel()
	var err error
	lab{deps: func(_ *simsched.Sim, d *host.Deps) { d.Models = lookup{d.Models, &err} }}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config())
		err = errIO
		id := w.submit(ctx, k, "hi")
		w.sleep(ctx, 10_000)
		err = nil
		w.untilIdle(ctx, k)
		require.Equal(t, session.RunDone, w.run(ctx, k, id).Status)
		err = host.ErrNotFound
		id = w.submit(ctx, k, "hi")
		w.untilIdle(ctx, k)
		v := w.run(ctx, k, id)
		require.Equal(t, session.RunFails, v.Status)
		require.Contains(t, v.Failure.Message, "not set up")
	})
}

// engine 10.54: what a failing tool says is cut at 16 KiB; a tool that does not
// end in time has failed if it can be repeated, and of another nobody knows.
func TestHowToolsFail(t *testing.T) {
	t.Parallel()
	long := make([]byte, 40<<10)
	for i := range long {
		long[i] = "é"[i%2]
	}
	run := func(sim *simsched.Sim, what string) func(context.Context, host.ToolCall) (host.ToolResult, error) {
		return func(ctx context.Context, _ host.ToolCall) (host.ToolResult, error) {
			if what == "says so" {
				return host.ToolResult{Text: "x" + string(long), Error: true}, nil
			}
			return host.ToolResult{}, sim.Sleep(ctx, ident.Hour)
		}
	}
	var seen []host.ModelRequest
	lab{
		options: host.Options{ToolMs: 3000},
		specs: func(sim *simsched.Sim) []tool.Spec {
			return []tool.Spec{
				{Name: "t.says", Kind: tool.KindRead, Parallel: true, RetrySafe: true, Description: "fails", Parameters: anything, Run: run(sim, "says so")},
				{Name: "t.hangs", Kind: tool.KindRead, Parallel: true, RetrySafe: true, Description: "hangs", Parameters: anything, Run: run(sim, "")},
				{Name: "t.once", Kind: tool.KindRead, Parallel: true, DeadlineMs: 5000, Description: "hangs", Parameters: anything, Run: run(sim, "")},
			}
		},
		model: script(10, &seen, calling(call("a", "t.says", `{}`), call("b", "t.hangs", `{}`), call("c", "t.once", `{}`))),
	}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config("t.*"))
		id := w.submit(ctx, k, "go")
		w.untilIdle(ctx, k)
		v := w.run(ctx, k, id)
		require.Equal(t, session.RunDone, v.Status)
		rs := resultsOf(seen[1])
		require.Len(t, rs, 3)
		require.LessOrEqual(t, len(rs[0].Text), session.ErrorTextMax)
		require.Greater(t, len(rs[0].Text), session.ErrorTextMax-4)
		require.NotContains(t, rs[0].Text, "\uFFFD")
		require.Contains(t, rs[1].Text, "time allowed")
		require.Contains(t, rs[2].Text, "unknown")
		for _, r := range rs {
			require.True(t, r.Error)
		}
		calls, err := w.engine.Calls(ctx, k, id)
		require.NoError(t, err)
		require.Equal(t, session.CallFailed, calls[1].Status)
		require.Equal(t, session.ToolAttemptsMax, calls[1].Attempts)
		require.Equal(t, session.CallUnknown, calls[2].Status)
		require.Equal(t, 1, calls[2].Attempts)
	})
}

// turn 7.6-7.8: the model that the provider reports is recorded; a cost that it
// reports counts as it is, else it is made of the prices, each kind of token at
// its own; of a model without a price the cost is not known.
func TestUsageAndCost(t *testing.T) {
	t.Parallel()
	usage := session.Usage{Input: 1000, Output: 100, CacheRead: 600, CacheWrite: 100}
	priced := host.ModelInfo{Priced: true, InputPrice: 3_000_000, OutputPrice: 15_000_000, CacheReadPrice: 300_000, CacheWritePrice: 3_750_000}
	for name, c := range map[string]struct {
		info  host.ModelInfo
		usage session.Usage
		want  session.Usage
	}{
		"no price": {host.ModelInfo{}, usage, usage},
		"priced":   {priced, usage, with(usage, 300*3+600*3/10+100*375/100+100*15)},
		"without prices for the cache": {
			host.ModelInfo{Priced: true, InputPrice: 3_000_000, OutputPrice: 15_000_000}, usage, with(usage, 1000*3+100*15),
		},
		"reported": {priced, with(usage, 4200), with(usage, 4200)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lab{info: c.info, model: script(10, nil, func(host.ModelRequest) (host.ModelResult, error) {
				return host.ModelResult{Text: "ok", Finish: host.FinishStop, Model: "test-1-2026", Usage: c.usage}, nil
			})}.play(t, func(ctx context.Context, w *labWorld) {
				k := key("s")
				w.open(ctx, k, config())
				id := w.submit(ctx, k, "hi")
				w.untilIdle(ctx, k)
				require.Equal(t, c.want, w.run(ctx, k, id).Usage.Usage)
				require.Equal(t, c.want, stateOfLab(ctx, w, k).Totals.Usage)
				for _, en := range w.entries(ctx, k) {
					if e, ok := en.Event.(*session.TurnCompleted); ok {
						require.Equal(t, "test-1-2026", e.Model)
					}
				}
			})
		})
	}
}

func with(u session.Usage, micros int64) session.Usage {
	u.CostMicros, u.Priced = micros, true
	return u
}

// What was cut off is paid for too: estimated, and at the model's price.
func TestAnAbortedCallIsPriced(t *testing.T) {
	t.Parallel()
	lab{
		info: host.ModelInfo{Priced: true, InputPrice: 3_000_000, OutputPrice: 15_000_000},
		model: func(sim *simsched.Sim) generate {
			return func(ctx context.Context, _ host.ModelRequest, sink func(host.Delta)) (host.ModelResult, error) {
				sink(host.Delta{Part: "text", Text: "some of the answer"})
				return host.ModelResult{}, sim.Sleep(ctx, ident.Minute)
			}
		},
	}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config())
		id := w.submit(ctx, k, "hi")
		w.sleep(ctx, 100)
		w.must(ctx, k, &session.CancelRun{Run: id, Asked: asked("")})
		w.untilIdle(ctx, k)
		v := w.run(ctx, k, id)
		require.True(t, v.Usage.Estimated)
		require.True(t, v.Usage.Priced)
		require.Positive(t, v.Usage.CostMicros)
	})
}

// lookup fails on demand.
type lookup struct {
	host.Models
	err *error
}

func (l lookup) Model(ctx context.Context, t ident.TenantID, m session.Model) (host.ModelPort, error) {
	if *l.err != nil {
		return nil, *l.err
	}
	return l.Models.Model(ctx, t, m)
}

// Content that a request needs and that is not there fails the run at once,
// with what it is; a fault of the store is tried again.
func TestMissingContent(t *testing.T) {
	t.Parallel()
	var err error
	long := text(string(make([]byte, 5000)))
	lab{deps: func(_ *simsched.Sim, d *host.Deps) { d.Blobs = blobs{d.Blobs, &err} }}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config())
		put := func() ident.RunID {
			var sp host.Spill
			c := &session.RequestRun{Input: long, Asked: asked("")}
			parts := append([]session.Part(nil), long...)
			sp.Text(&parts[0].Text, long[0].Text.Text)
			c.Input = parts
			d, err := w.engine.Do(ctx, k, sp.Prepare(c))
			require.NoError(t, err)
			return d.Replies[0].Run
		}
		err = errIO
		id := put()
		w.sleep(ctx, 1000)
		err = nil
		w.untilIdle(ctx, k)
		require.Equal(t, session.RunDone, w.run(ctx, k, id).Status)
		w.crash(ctx) // what was rendered is forgotten
		w.start(w.group(ctx))
		err = host.ErrNotFound
		id = w.submit(ctx, k, "next")
		w.untilIdle(ctx, k)
		v := w.run(ctx, k, id)
		require.Equal(t, session.RunFails, v.Status)
		require.Contains(t, v.Failure.Message, "missing")
		require.Less(t, int64(v.CompletedAt-v.AcceptedAt), ident.Second)
	})
}

type blobs struct {
	host.Blobs
	err *error
}

func (b blobs) GetBlob(ctx context.Context, k host.Key, ref blob.Ref) ([]byte, error) {
	if *b.err != nil {
		return nil, *b.err
	}
	return b.Blobs.GetBlob(ctx, k, ref)
}
