package host_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/simsched"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool"
)

// track records what tools do, in order.
type track struct{ did []string }

func (r *track) say(s string) { r.did = append(r.did, s) }

// turn 7.33: two reads of which each waits for the other to have started
// finish, which proves that they overlap.
func TestParallelReadsOverlap(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		lab{
			seed: seed, model: script(10, nil, calling(call("a", "t.a", `{}`), call("b", "t.b", `{}`))),
			specs: func(sim *simsched.Sim) []tool.Spec {
				var a, b host.Signal
				meet := func(mine, other *host.Signal) func(context.Context, host.ToolCall) (host.ToolResult, error) {
					return func(ctx context.Context, _ host.ToolCall) (host.ToolResult, error) {
						if *mine == nil {
							*mine = sim.NewSignal()
						}
						(*mine).Fire()
						for *other == nil {
							check(sim.Sleep(ctx, 1))
						}
						_, err := sim.WaitAny(ctx, -1, *other)
						return host.ToolResult{Text: "met"}, err
					}
				}
				return []tool.Spec{
					{Name: "t.a", Kind: tool.KindRead, Parallel: true, RetrySafe: true, Description: "meets b", Parameters: anything, Run: meet(&a, &b)},
					{Name: "t.b", Kind: tool.KindRead, Parallel: true, RetrySafe: true, Description: "meets a", Parameters: anything, Run: meet(&b, &a)},
				}
			},
		}.play(t, func(ctx context.Context, w *labWorld) {
			k := key("s")
			w.open(ctx, k, config("t.*"))
			id := w.submit(ctx, k, "go")
			w.untilIdle(ctx, k)
			v := w.run(ctx, k, id)
			require.Equal(t, session.RunDone, v.Status)
			require.Less(t, int64(v.CompletedAt-v.AcceptedAt), ident.Second)
		})
	}
}

// turn 7.34, 7.35 and 7.39: parallel calls all start before any is waited for,
// each ends on its own, and the model reads their results in the order of the
// calls; one that goes wrong is a result beside the others.
func TestParallelResultsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	var seen []host.ModelRequest
	r := &track{}
	lab{
		model: script(10, &seen, calling(call("a", "t.slow", `{}`), call("b", "t.bad", `{}`), call("c", "t.fast", `{}`))),
		specs: func(sim *simsched.Sim) []tool.Spec {
			spec := func(name string, ms int64, err error) tool.Spec {
				return tool.Spec{
					Name: name, Kind: tool.KindRead, Parallel: true, RetrySafe: true, Description: "takes a while", Parameters: anything,
					Run: func(ctx context.Context, _ host.ToolCall) (host.ToolResult, error) {
						r.say("start " + name)
						check(sim.Sleep(ctx, ms))
						r.say("end " + name)
						return host.ToolResult{Text: name}, err
					},
				}
			}
			return []tool.Spec{spec("t.slow", 900, nil), spec("t.bad", 500, &host.Fault{Class: host.ClassInvalid, Message: "no such thing", Sent: true}), spec("t.fast", 100, nil)}
		},
	}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config("t.*"))
		id := w.submit(ctx, k, "go")
		w.untilIdle(ctx, k)
		require.Equal(t, session.RunDone, w.run(ctx, k, id).Status)
		slices.Sort(r.did[:3])
		require.Equal(t, []string{"start t.bad", "start t.fast", "start t.slow", "end t.fast", "end t.bad", "end t.slow"}, r.did)
		var ended []int
		for _, en := range w.entries(ctx, k) {
			if e, ok := en.Event.(*session.ToolCompleted); ok {
				ended = append(ended, e.Call)
			}
		}
		require.Equal(t, []int{3, 2, 1}, ended, "each is recorded as it comes")
		rs := resultsOf(seen[1])
		require.Equal(t, "t.slow", rs[0].Text)
		require.Equal(t, "no such thing", rs[1].Text)
		require.True(t, rs[1].Error)
		require.Equal(t, "t.fast", rs[2].Text)
	})
}

// turn 7.36: a crash in the middle of a parallel batch, at any moment, swaps no
// results and loses none.
func TestACrashInAParallelBatchSwapsNothing(t *testing.T) {
	t.Parallel()
	for at := int64(0); at < 130; at += 3 {
		var seen []host.ModelRequest
		lab{
			seed: uint64(at), model: script(10, &seen, calling(call("a", "t.echo", `{"x":"a"}`), call("b", "t.echo", `{"x":"b"}`), call("c", "t.echo", `{"x":"c"}`))),
			specs: func(sim *simsched.Sim) []tool.Spec {
				return []tool.Spec{{
					Name: "t.echo", Kind: tool.KindRead, Parallel: true, RetrySafe: true, Description: "echoes", Parameters: anything,
					Run: func(ctx context.Context, c host.ToolCall) (host.ToolResult, error) {
						check(sim.Sleep(ctx, int64(4-c.Call.Index)*30))
						return host.ToolResult{Text: c.Arguments}, nil
					},
				}}
			},
		}.play(t, func(ctx context.Context, w *labWorld) {
			k := key("s")
			w.open(ctx, k, config("t.*"))
			w.submit(ctx, k, "go")
			w.sleep(ctx, at)
			w.crash(ctx)
			w.start(w.group(ctx))
			w.untilIdle(ctx, k)
			for _, req := range seen[1:] {
				if rs := resultsOf(req); rs != nil {
					require.Equal(t, []string{`{"x":"a"}`, `{"x":"b"}`, `{"x":"c"}`}, []string{rs[0].Text, rs[1].Text, rs[2].Text})
				}
			}
		})
	}
}

// turn 7.37: beside an action that asks first the reads run at once, and the
// actions in their order, each under its own word.
func TestActionsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	r := &track{}
	lab{
		model: script(10, nil, calling(call("a", "t.read", `{"x":"1"}`), call("b", "t.write", `{"x":"2"}`), call("c", "t.write", `{"x":"3"}`), call("d", "t.read", `{"x":"4"}`))),
		specs: func(sim *simsched.Sim) []tool.Spec {
			specs := plain(sim)
			for i := range specs {
				specs[i].Run = func(ctx context.Context, c host.ToolCall) (host.ToolResult, error) {
					r.say("start " + c.Arguments)
					check(sim.Sleep(ctx, 50))
					r.say("end " + c.Arguments)
					return host.ToolResult{Text: "done"}, nil
				}
			}
			return specs
		},
	}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config("t.*"))
		id := w.submit(ctx, k, "go")
		w.untilWaiting(ctx, k)
		slices.Sort(r.did[:2])
		require.Equal(t, []string{`start {"x":"1"}`, `start {"x":"4"}`}, r.did[:2])
		require.Len(t, r.did, 4)
		w.must(ctx, k, decide(true, "", 2)) // the second first
		w.sleep(ctx, 1000)
		require.Len(t, r.did, 4, "it comes after the one before it")
		w.must(ctx, k, decide(true, "", 1))
		w.untilIdle(ctx, k)
		require.Equal(t, []string{`start {"x":"2"}`, `end {"x":"2"}`, `start {"x":"3"}`, `end {"x":"3"}`}, r.did[4:])
		require.Equal(t, session.RunDone, w.run(ctx, k, id).Status)
	})
}

// T67: a gated call whose arguments are not what the tool takes, or no JSON at
// all, asks nobody and runs nothing; the model reads why. Turns in a row of
// nothing but such calls end with the closing turn.
func TestMalformedCallsAskNobody(t *testing.T) {
	t.Parallel()
	var seen []host.ModelRequest
	ran := map[string]int{}
	bad := func(args string) reply { return calling(call("a", "t.write", args)) }
	lab{
		specs: slowTools(10, ran),
		model: script(10, &seen, bad(`{"x":`), bad(`{"y":1}`), bad(`[]`), saying("I give up")),
	}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config("t.*"))
		id := w.submit(ctx, k, "go")
		w.untilIdle(ctx, k)
		v := w.run(ctx, k, id)
		require.Equal(t, session.RunFails, v.Status)
		require.Equal(t, session.FailTool, v.Failure.Kind)
		require.Equal(t, "maxRepeats", v.Failure.Limit)
		require.Equal(t, "I give up", v.Output.Text)
		require.Empty(t, v.Approvals)
		require.Empty(t, ran)
		require.Len(t, seen, 4)
		require.True(t, resultsOf(seen[1])[0].Error)
		require.NotEmpty(t, resultsOf(seen[2])[0].Text)
		require.True(t, seen[3].NoTools)
	})
}

// T58: a tool's text cut for the model at any byte of whatever it holds is
// whole code points, and valid.
func TestToolTextIsCutBetweenCodePoints(t *testing.T) {
	t.Parallel()
	const tail = "👩‍👩‍👧‍👦é漢"
	for cut := range len(tail) + 1 {
		var seen []host.ModelRequest
		whole := strings.Repeat("x", session.ToolTextMax-cut) + tail + tail
		lab{
			model: script(10, &seen, calling(call("a", "t.long", `{}`))),
			specs: func(*simsched.Sim) []tool.Spec {
				return []tool.Spec{{
					Name: "t.long", Kind: tool.KindRead, RetrySafe: true, Description: "says much", Parameters: anything,
					Run: func(context.Context, host.ToolCall) (host.ToolResult, error) {
						return host.ToolResult{Text: whole}, nil
					},
				}}
			},
		}.play(t, func(ctx context.Context, w *labWorld) {
			k := key("s")
			w.open(ctx, k, config("t.*"))
			id := w.submit(ctx, k, "go")
			w.untilIdle(ctx, k)
			got := resultsOf(seen[1])[0].Text
			require.True(t, strings.HasPrefix(whole, got), "cut at %d", cut)
			require.Equal(t, got, strings.ToValidUTF8(got, "?"))
			require.LessOrEqual(t, len(got), session.ToolTextMax)
			require.Greater(t, len(got), session.ToolTextMax-4)
			// The whole stays behind the reference.
			calls, err := w.engine.Calls(ctx, k, id)
			require.NoError(t, err)
			all, err := w.engine.Resolve(ctx, k, calls[0].Completed.Result, 1<<20)
			require.NoError(t, err)
			require.Equal(t, whole, all)
			require.True(t, calls[0].Completed.Truncated)
		})
	}
}

// Text that is no UTF-8 at all is made so, from the model and from tools.
func TestBytesThatAreNoText(t *testing.T) {
	t.Parallel()
	var seen []host.ModelRequest
	lab{
		model: script(10, &seen, func(host.ModelRequest) (host.ModelResult, error) {
			return host.ModelResult{Text: "\xff\xfe", Calls: []host.ModelCall{{ID: "\xff", Name: "t_raw", Arguments: `{}`}}, Finish: "\xff", Model: "\xff", ResponseID: "\xff"}, nil
		}),
		specs: func(*simsched.Sim) []tool.Spec {
			return []tool.Spec{{
				Name: "t.raw", Kind: tool.KindRead, RetrySafe: true, Description: "says bytes", Parameters: anything,
				Run: func(context.Context, host.ToolCall) (host.ToolResult, error) {
					return host.ToolResult{Text: "\xc3", Effects: []session.ToolEffect{{Kind: "\xff", Subject: "\xff"}}}, nil
				},
			}}
		},
	}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config("t.*"))
		id := w.submit(ctx, k, "go")
		w.untilIdle(ctx, k)
		require.Equal(t, session.RunDone, w.run(ctx, k, id).Status)
		require.Equal(t, "\uFFFD", resultsOf(seen[1])[0].Text)
	})
}
