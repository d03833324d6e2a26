package host_test

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
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

// scale weighs what a store is given: what it holds at the end, and the
// largest of each kind.
type scale struct {
	mu       sync.Mutex
	log      int64
	rows     map[string]int64
	blobs    map[blob.Ref]int64
	ckpt     []int64
	entry    int // the largest
	events   int // the largest batch
	batch    int // the largest batch, bytes of events
	puts     int
	payloads map[blob.Ref]int64
}

func newScale() *scale {
	return &scale{rows: map[string]int64{}, blobs: map[blob.Ref]int64{}, payloads: map[blob.Ref]int64{}}
}

func (s *scale) inject(*simsched.Sim) memory.Injector {
	return func(_ context.Context, op memory.Op, when memory.When) error {
		if op.Commit == nil || when != memory.Before {
			return nil
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		n := 0
		for _, e := range op.Commit.Entries {
			s.log += int64(len(e.Data))
			s.entry = max(s.entry, len(e.Data))
			n += len(e.Data)
		}
		s.events, s.batch = max(s.events, len(op.Commit.Entries)), max(s.batch, n)
		for _, r := range op.Commit.Rows {
			s.rows[r.Key] = int64(len(r.Data))
		}
		for _, b := range op.Commit.Blobs {
			s.blobs[b.Ref] = int64(len(b.Data))
		}
		return nil
	}
}

// paid counts a text as one that has to be stored.
func (s *scale) paid(text string) string {
	s.payloads[blob.Sum([]byte(text))] = int64(len(text))
	return text
}

func (s *scale) stored() int64 {
	n := s.log
	for _, b := range s.rows {
		n += b
	}
	for _, b := range s.blobs {
		n += b
	}
	for _, b := range s.ckpt {
		n += b
	}
	return n
}

func (s *scale) unique() int64 {
	var n int64
	for _, b := range s.payloads {
		n += b
	}
	return n
}

// weighed are checkpoints that are weighed too: the newest two stay.
type weighed struct {
	host.Checkpoints
	s *scale
}

func (w weighed) PutCheckpoint(ctx context.Context, k host.Key, c host.Checkpoint) error {
	w.s.puts++
	w.s.ckpt = append([]int64{int64(len(c.Data))}, w.s.ckpt...)
	w.s.ckpt = w.s.ckpt[:min(2, len(w.s.ckpt))]
	return w.Checkpoints.PutCheckpoint(ctx, k, c)
}

// lines is readable text of about n bytes, another for each seed.
func lines(seed, n int) string {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%d: line %d of what was found there\n", seed, i)
	}
	return b.String()[:n]
}

// T57, and the bar on stored bytes: 500 turns take at most one and a half times
// the bytes of what was said, found and answered: nothing is stored again with
// each turn.
func TestStoredBytesFollowPayloads(t *testing.T) {
	t.Parallel()
	s := newScale()
	turn := 0
	lab{
		inject: s.inject, deps: func(_ *simsched.Sim, d *host.Deps) { d.Checkpoints = weighed{d.Checkpoints, s} },
		specs: func(*simsched.Sim) []tool.Spec {
			return []tool.Spec{{
				Name: "t.find", Kind: tool.KindRead, RetrySafe: true, Description: "finds", Parameters: anything,
				Run: func(context.Context, host.ToolCall) (host.ToolResult, error) {
					return host.ToolResult{Text: s.paid(lines(turn, 3000+turn*10))}, nil
				},
			}}
		},
		model: func(*simsched.Sim) generate {
			return func(_ context.Context, req host.ModelRequest, _ func(host.Delta)) (host.ModelResult, error) {
				turn++
				said1 := s.paid(lines(-turn, 400))
				if turn%10 == 0 {
					return said(said1)
				}
				return said(said1, call("c", "t.find", s.paid(fmt.Sprintf(`{"x":"%s"}`, strings.Repeat("q", turn%50)))))
			}
		},
	}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		c := config("t.*")
		c.Limits.MaxTurns = 1000
		c.Context.Window = session.Window{MaxMessages: 80}
		w.open(ctx, k, c)
		for i := range 50 {
			w.submit(ctx, k, s.paid(lines(100_000+i, 300)))
			w.untilIdle(ctx, k)
		}
		require.Equal(t, 500, turn)
		ratio := float64(s.stored()) / float64(s.unique())
		t.Logf("stored %d bytes for %d of payloads: %.2f (log %d, %d checkpoints written)", s.stored(), s.unique(), ratio, s.log, s.puts)
		require.LessOrEqual(t, ratio, 1.5)
		require.Less(t, s.entry, 8<<10)
	})
}

// T68, T55: a request of three megabytes never stands in an item of the log: its
// texts ride by reference, and no event and no batch passes its bound.
func TestAHugeRequestIsNowhereInTheLog(t *testing.T) {
	t.Parallel()
	s := newScale()
	var size int
	big := lines(7, 1<<20)
	lab{inject: s.inject, specs: func(*simsched.Sim) []tool.Spec {
		return []tool.Spec{{
			Name: "t.big", Kind: tool.KindRead, Parallel: true, RetrySafe: true, Description: "says much", Parameters: anything,
			Run: func(_ context.Context, c host.ToolCall) (host.ToolResult, error) {
				return host.ToolResult{Text: strconv.Itoa(c.Call.Index) + big}, nil
			},
		}}
	}, model: func(*simsched.Sim) generate {
		return func(_ context.Context, req host.ModelRequest, _ func(host.Delta)) (host.ModelResult, error) {
			size = 0
			for _, m := range req.Messages {
				size += len(m.Text)
				for _, p := range m.Parts {
					size += len(p.Text)
				}
				for _, r := range m.Results {
					size += len(r.Text)
				}
			}
			if len(req.Messages) > 1 {
				return said(big)
			}
			var calls []host.ModelCall
			for i := range session.CallsMax {
				calls = append(calls, call(fmt.Sprint("c", i), "t.big", `{"x":"`+strings.Repeat("y", 4000)+`"}`))
			}
			return said(big, calls...)
		}
	}}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config("t.*"))
		var sp host.Spill
		c := &session.RequestRun{Input: make([]session.Part, 1), Asked: asked("")}
		sp.Text(&c.Input[0].Text, "u"+big)
		d, err := w.engine.Do(ctx, k, sp.Prepare(c))
		require.NoError(t, err)
		w.untilIdle(ctx, k)
		require.Equal(t, session.RunDone, w.run(ctx, k, d.Replies[0].Run).Status)
		require.Greater(t, size, 3<<20)
		require.Less(t, s.entry, 8<<10)
		require.LessOrEqual(t, s.events, session.BatchEventsMax)
		require.Less(t, s.batch, 2*blob.BatchInlineMax)
		require.Less(t, s.log, int64(200<<10))
	})
}

// T18: a decision on a session with fifty megabytes of history reads none of
// it: neither where the session is at hand nor in a new process.
func TestADecisionReadsNoHistory(t *testing.T) {
	t.Parallel()
	lab{
		specs: plain, model: gated,
	}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		c := config("t.*")
		c.Context.Window = session.Window{MaxMessages: 20}
		w.open(ctx, k, c)
		for i := range 50 {
			var sp host.Spill
			r := &session.RequestRun{Input: make([]session.Part, 1), Asked: asked("")}
			sp.Text(&r.Input[0].Text, lines(i, 1<<20))
			_, err := w.engine.Do(ctx, k, sp.Prepare(r))
			require.NoError(t, err)
			w.untilIdle(ctx, k)
		}
		for i := range 2 {
			w.submit(ctx, k, "go")
			w.untilWaiting(ctx, k)
			if i == 1 {
				w.crash(ctx)
				w.start(w.group(ctx))
			}
			before := w.store.Stats().ReadBytes
			d := w.must(ctx, k, decide(false, "", ident.ApprovalID(i+1)))
			require.Nil(t, d.Replies[0].Decisions[0].Refused)
			require.Less(t, w.store.Stats().ReadBytes-before, int64(128<<10))
			w.untilIdle(ctx, k)
		}
	})
}

// engine 10.78, with our cadence: a tail of more than 64 KB writes a checkpoint,
// less does not, and the newest two stay.
func TestWhenCheckpointsAreWritten(t *testing.T) {
	t.Parallel()
	s := newScale()
	lab{deps: func(_ *simsched.Sim, d *host.Deps) { d.Checkpoints = weighed{d.Checkpoints, s} }, inject: s.inject}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config())
		for s.log < 60<<10 {
			w.submit(ctx, k, strings.Repeat("x", 2000))
			w.untilIdle(ctx, k)
			require.Zero(t, s.puts, "at %d bytes", s.log)
		}
		for s.log < 70<<10 {
			w.submit(ctx, k, strings.Repeat("x", 2000))
			w.untilIdle(ctx, k)
		}
		require.Equal(t, 1, s.puts)
		for s.log < 400<<10 {
			w.submit(ctx, k, strings.Repeat("x", 2000))
			w.untilIdle(ctx, k)
		}
		require.InDelta(t, s.log>>16, s.puts, 1)
		cs, err := w.store.LatestCheckpoints(ctx, k, 2)
		require.NoError(t, err)
		require.Len(t, cs, 2)
		require.Greater(t, cs[0].Seq, cs[1].Seq)

		// A new process reads the newest of them and the tail alone.
		w.crash(ctx)
		before := w.store.Stats().ReadBytes
		w.start(w.group(ctx))
		d, err := w.engine.View(ctx, k)
		require.NoError(t, err)
		require.Equal(t, w.head(ctx, k).Seq, d.State.Seq)
		read := w.store.Stats().ReadBytes - before
		require.Less(t, read, int64(len(cs[0].Data)+len(cs[1].Data)+66<<10))
	})
}

// DESIGN §4: results that come together share commits, and no commit passes its
// bounds, also when many wait for a disk that was full.
func TestResultsThatWaitedShareTheirCommits(t *testing.T) {
	t.Parallel()
	s, bad := newScale(), &commits{}
	lab{
		reports: true,
		inject: func(sim *simsched.Sim) memory.Injector {
			weigh, fail := s.inject(sim), bad.inject(sim)
			return func(ctx context.Context, op memory.Op, when memory.When) error {
				if err := fail(ctx, op, when); err != nil {
					return err
				}
				return weigh(ctx, op, when)
			}
		},
		specs: func(sim *simsched.Sim) []tool.Spec {
			return []tool.Spec{{
				Name: "t.much", Kind: tool.KindRead, Parallel: true, RetrySafe: true, Description: "says much", Parameters: anything,
				Run: func(ctx context.Context, c host.ToolCall) (host.ToolResult, error) {
					check(sim.Sleep(ctx, int64(c.Call.Index)*200))
					return host.ToolResult{Text: lines(c.Call.Index, 4000)}, nil
				},
			}}
		},
		model: func(sim *simsched.Sim) generate {
			var calls []host.ModelCall
			for i := range 24 {
				calls = append(calls, call(fmt.Sprint("c", i), "t.much", fmt.Sprintf(`{"x":"%d"}`, i)))
			}
			return asks(sim, 10, "go", calls...)
		},
	}.play(t, func(ctx context.Context, w *labWorld) {
		k := key("s")
		w.open(ctx, k, config("t.*"))
		id := w.submit(ctx, k, "go")
		w.until(ctx, k, "calls", func(s *session.State) bool { return s.Active.Batch != nil })
		bad.err = host.ErrFull
		w.sleep(ctx, ident.Minute)
		bad.err = nil
		before := w.store.Stats().Commits
		w.untilIdle(ctx, k)
		require.Equal(t, session.RunDone, w.run(ctx, k, id).Status)
		require.Less(t, w.store.Stats().Commits-before, 22)
		require.Less(t, s.batch, 2*blob.BatchInlineMax)
		require.LessOrEqual(t, s.events, session.BatchEventsMax)
	})
}
