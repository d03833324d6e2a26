package host_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/simsched"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool"
)

// summarising answers a request for a summary with one, and hands the rest on.
func summarising(sim *simsched.Sim, summaries *[]host.ModelRequest, summary func() (host.ModelResult, error), rest generate) generate {
	return func(ctx context.Context, req host.ModelRequest, sink func(host.Delta)) (host.ModelResult, error) {
		if !strings.HasPrefix(req.Attempt, "compact/") {
			return rest(ctx, req, sink)
		}
		*summaries = append(*summaries, req)
		if err := sim.Sleep(ctx, 50); err != nil {
			return host.ModelResult{}, err
		}
		return summary()
	}
}

func (w *labWorld) chat(ctx context.Context, k host.Key, n int) {
	for i := range n {
		w.submit(ctx, k, fmt.Sprint("message ", i))
		w.untilIdle(ctx, k)
	}
}

// engine 10.91: a summary asked for by hand replaces the older entries and
// leaves the instructions; edits are refused while it is made, runs queue; one
// that fails leaves the window as it was.
func TestACompactionByHand(t *testing.T) {
	t.Parallel()
	var summaries, seen []host.ModelRequest
	fails := true
	lab{model: func(sim *simsched.Sim) generate {
		return summarising(sim, &summaries, func() (host.ModelResult, error) {
			if fails {
				return host.ModelResult{}, &host.Fault{Class: host.ClassInvalid, Message: "no", Sent: true}
			}
			return said("what was said")
		}, script(10, &seen)(sim))
	}}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		c := config()
		c.Instructions = blob.Inline("be brief")
		w.open(ctx, k, c)
		w.chat(ctx, k, 6)
		before := stateOfLab(ctx, w, k).Context
		w.must(ctx, k, &session.CompactContext{Asked: asked("")})
		w.sleep(ctx, 200)
		s := stateOfLab(ctx, w, k)
		require.Equal(t, session.CompactionFails, s.Context.Compaction.Phase)
		require.Equal(t, before.Entries, s.Context.Entries)

		fails = false
		w.must(ctx, k, &session.CompactContext{Asked: asked("")})
		_, err := w.do(ctx, k, &session.EditContext{IfRevision: -1, Put: []session.EditPut{{Key: "note", Role: session.RoleUser, Parts: text("x")}}, Asked: asked("")})
		requireCode(t, err, session.CodeSessionBusy)
		id := w.submit(ctx, k, "meanwhile")
		require.Equal(t, session.RunQueued, w.run(ctx, k, id).Status)
		w.until(ctx, k, "the run", func(s *session.State) bool { return s.Active == nil && len(s.Queue) == 0 })
		last := seen[len(seen)-1]
		require.Equal(t, []string{"be brief"}, last.Instructions)
		require.Contains(t, last.Messages[0].Parts[0].Text, "what was said")
		require.Equal(t, "message 4", last.Messages[1].Parts[0].Text, "the last two answers stay")
		require.Less(t, len(last.Messages), 8)
		require.True(t, summaries[1].NoTools)
		require.EqualValues(t, 6+1+1, stateOfLab(ctx, w, k).Totals.ModelCalls)
	})
}

// engine 10.92: the high mark starts a summary once, from what the provider
// counted; one that fails is not tried again before the model was asked again.
func TestTheHighMark(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{false, true} {
		var summaries []host.ModelRequest
		lab{info: host.ModelInfo{InputLimit: 10_000}, model: func(sim *simsched.Sim) generate {
			return summarising(sim, &summaries, func() (host.ModelResult, error) {
				if fails {
					return host.ModelResult{}, &host.Fault{Class: host.ClassInvalid, Message: "no", Sent: true}
				}
				return said("short")
			}, func(_ context.Context, req host.ModelRequest, _ func(host.Delta)) (host.ModelResult, error) {
				// What it counts grows by a thousand with each message.
				return host.ModelResult{Text: "ok", Finish: host.FinishStop, Usage: session.Usage{Input: int64(len(req.Messages)) * 1000, Output: 1}}, nil
			})
		}}.play(t, func(ctx context.Context, w *labWorld) {
			k := key("s")
			w.open(ctx, k, config())
			w.chat(ctx, k, 5)
			require.Empty(t, summaries, "9,000 of 8,000, which the next turn finds")
			w.chat(ctx, k, 1)
			if !fails {
				require.Len(t, summaries, 1)
				w.chat(ctx, k, 1)
				require.Len(t, summaries, 1, "once")
				return
			}
			w.chat(ctx, k, 2)
			s := stateOfLab(ctx, w, k)
			require.Nil(t, s.Active, "the runs went on without it")
			require.LessOrEqual(t, len(summaries), 3, "once before each turn")
		})
	}
}

// engine 10.93, T85: a request that is too long for the model after a call has
// done its work: the window is summarised, in the midst of the run, and the run
// goes on; the call does not run again. When that was to no avail twice the run
// fails for its context, and the session takes the next.
func TestTheContextLimitInTheMidstOfARun(t *testing.T) {
	t.Parallel()
	for limits, want := range map[int]string{1: session.RunDone, 2: session.RunDone, 3: session.RunFails} {
		t.Run(strconv.Itoa(limits), func(t *testing.T) {
			t.Parallel()
			var summaries []host.ModelRequest
			ran := map[string]int{}
			left := 0
			lab{specs: slowTools(10, ran), model: func(sim *simsched.Sim) generate {
				return summarising(sim, &summaries, func() (host.ModelResult, error) { return said("short") },
					func(ctx context.Context, req host.ModelRequest, _ func(host.Delta)) (host.ModelResult, error) {
						check(sim.Sleep(ctx, 10))
						last := req.Messages[len(req.Messages)-1]
						if last.Role == host.RoleUser && last.Parts[0].Text == "write" && left > 0 && len(ran) == 0 {
							return said("", call("a", "t.write", `{}`))
						}
						if len(ran) > 0 && left > 0 {
							left--
							return host.ModelResult{}, &host.Fault{Class: host.ClassContextLength, Message: "too long", Sent: true}
						}
						return said("written")
					})
			}}.play(t, func(ctx context.Context, w *labWorld) {
				k := key("s")
				w.open(ctx, k, never("t.*"))
				w.chat(ctx, k, 6)
				left = limits
				id := w.submit(ctx, k, "write")
				w.untilIdle(ctx, k)
				v := w.run(ctx, k, id)
				require.Equal(t, want, v.Status)
				require.Len(t, ran, 1)
				for _, n := range ran {
					require.Equal(t, 1, n, "the write is not repeated")
				}
				require.Len(t, summaries, min(limits, 2))
				if want == session.RunFails {
					require.Equal(t, session.FailContext, v.Failure.Kind)
					calls, err := w.engine.Calls(ctx, k, id)
					require.NoError(t, err)
					require.Equal(t, session.CallCompleted, calls[0].Status, "what it did is in its history")
				}
				left = 0
				next := w.submit(ctx, k, "smaller")
				w.untilIdle(ctx, k)
				require.Equal(t, session.RunDone, w.run(ctx, k, next).Status)
			})
		})
	}
}

// I11, row-01, for summaries too: one whose commit did not go through before a
// crash is not made again.
func TestASummaryIsStashed(t *testing.T) {
	t.Parallel()
	var summaries []host.ModelRequest
	bad := &commits{}
	lab{reports: true, inject: bad.inject, model: func(sim *simsched.Sim) generate {
		return summarising(sim, &summaries, func() (host.ModelResult, error) { return said("short") }, script(10, nil)(sim))
	}}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config())
		w.chat(ctx, k, 6)
		w.must(ctx, k, &session.CompactContext{Asked: asked("")})
		w.until(ctx, k, "a summary in the making", func(s *session.State) bool { return s.Context.Compaction.Phase == session.CompactionRuns })
		bad.err = host.ErrFull
		w.sleep(ctx, 500)
		w.crash(ctx)
		bad.err = nil
		w.start(w.group(ctx))
		w.until(ctx, k, "the summary", func(s *session.State) bool { return s.Context.Compaction.Phase == "" })
		require.Len(t, summaries, 1)
		require.NotEmpty(t, stateOfLab(ctx, w, k).Context.Lead)
	})
}

// I15: between two recorded cuts each request extends the one before it, in one
// process, after a restart from the log, and from a checkpoint.
func TestRequestsExtendOneAnother(t *testing.T) {
	t.Parallel()
	for _, at := range []int64{1, 1 << 40} {
		var seen []host.ModelRequest
		lab{specs: plain, options: host.Options{CheckpointAt: at}, model: func(sim *simsched.Sim) generate {
			return func(_ context.Context, req host.ModelRequest, _ func(host.Delta)) (host.ModelResult, error) {
				req.Messages = append([]host.ModelMessage(nil), req.Messages...)
				seen = append(seen, req)
				res, err := said("text", call("c", "t.read", `{}`))
				if last := req.Messages[len(req.Messages)-1]; last.Role == host.RoleTool {
					res.Calls = nil
				}
				res.Item = &host.ModelItem{Kind: "test.item", Family: "f", Data: fmt.Sprintf(`{"signed":%d}`, len(seen))}
				return res, err
			}
		}, info: host.ModelInfo{Family: "f"}}.play(t, func(ctx context.Context, w *labWorld) {
			k := key("s")
			w.open(ctx, k, config("t.*"))
			for i := range 6 {
				w.submit(ctx, k, fmt.Sprint("message ", i))
				w.untilIdle(ctx, k)
				if i%2 == 1 {
					w.crash(ctx)
					w.start(w.group(ctx))
				}
			}
			require.Len(t, seen, 12)
			for i := 1; i < len(seen); i++ {
				n := len(seen[i-1].Messages)
				require.Equal(t, seen[i-1].Messages, seen[i].Messages[:n], "request %d", i)
				require.Equal(t, seen[i-1].Tools, seen[i].Tools)
				require.Greater(t, len(seen[i].Messages), n)
			}
		})
	}
}

// T66: a parked run goes on under a build that describes its tools otherwise
// and in another order: what was decided comes from the log. A tool whose
// schema changed is another tool, and is asked about again.
func TestToolsThatChangeWhileARunIsParked(t *testing.T) {
	t.Parallel()
	ran := map[string]int{}
	lab{specs: slowTools(10, ran), model: gated}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config("t.*"))
		id := w.submit(ctx, k, "go")
		w.untilWaiting(ctx, k)
		w.crash(ctx)
		rebuild := func(change func(*tool.Spec)) {
			specs := slowTools(10, ran)(w.sim)
			specs[0], specs[1] = specs[1], specs[0]
			for i := range specs {
				specs[i].Description = "described anew"
				if specs[i].Name == "t.write" {
					change(&specs[i])
				}
			}
			specs = append(specs, tool.Spec{Name: "t.another", Kind: tool.KindRead, RetrySafe: true, Description: "new", Parameters: anything, Run: specs[0].Run})
			var err error
			w.deps.Tools, err = tool.New(nil, specs)
			require.NoError(t, err)
			w.start(w.group(ctx))
		}
		rebuild(func(s *tool.Spec) {
			s.Parameters = `{"type":"object","properties":{"x":{"type":"string"},"y":{"type":"string"}},"additionalProperties":false}`
		})
		w.must(ctx, k, decide(true, "", 1))
		w.untilWaiting(ctx, k)
		require.Empty(t, ran)
		require.Len(t, w.run(ctx, k, id).Approvals, 2)
		w.crash(ctx)
		rebuild(func(s *tool.Spec) {
			s.Parameters = `{"type":"object","properties":{"x":{"type":"string"},"y":{"type":"string"}},"additionalProperties":false}`
		})
		w.must(ctx, k, decide(true, "", 2))
		w.untilIdle(ctx, k)
		require.Len(t, ran, 1)
		require.Equal(t, session.RunDone, w.run(ctx, k, id).Status)
		require.Nil(t, w.head(ctx, k).Quarantine)
		require.Less(t, int64(w.sim.Now()), int64(w.head(ctx, k).At)+ident.Minute)
	})
}
