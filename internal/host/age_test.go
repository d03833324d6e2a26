package host_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
	"github.com/perdure/perdure/internal/adapter/gosched"
	"github.com/perdure/perdure/internal/adapter/memory"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool"
	"github.com/perdure/perdure/internal/tool/control"
)

// aged plays runs in a session until its log has so many events.
func aged(tb testing.TB, window int64, events ident.Seq) (*memory.Store, host.Key) {
	tb.Helper()
	store := memory.New(memory.Options{})
	k := key("old")
	withEngine(tb, store, func(r *rig) {
		r.window = window
		r.open(k)
		for {
			d, err := r.engine.View(context.Background(), k)
			require.NoError(tb, err)
			if d.State.Seq >= events {
				return
			}
			r.run(k)
		}
	})
	return store, k
}

// withEngine runs a process over a store: an instant model that calls one tool
// in each run.
func withEngine(tb testing.TB, store *memory.Store, use func(r *rig)) {
	tb.Helper()
	tools, err := tool.New(nil, []tool.Spec{instantRead()}, control.Tools())
	require.NoError(tb, err)
	m := instant{1, "t.read", &sync.Map{}}
	sched := gosched.New()
	e := host.New(host.Deps{Log: store, Blobs: store, Checkpoints: store, Stash: store, Models: m, Tools: tools, Sched: sched}, host.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(tb, e.Start(ctx))
	use(&rig{engine: e, model: m})
	require.NoError(tb, e.Stop(context.Background()))
	cancel()
	require.NoError(tb, sched.Wait(context.Background()))
}

// engine 10.80, I16: what a run reads does not grow with the session's age,
// neither in a process that knows the session nor in one that has to load it.
func TestARunReadsTheSameAtAnyAge(t *testing.T) {
	t.Parallel()
	reads := func(events ident.Seq) (cold, warm int64) {
		store, k := aged(t, 40, events)
		withEngine(t, store, func(r *rig) {
			before := store.Stats().ReadBytes
			r.run(k)
			cold = store.Stats().ReadBytes - before
			before = store.Stats().ReadBytes
			r.run(k)
			warm = store.Stats().ReadBytes - before
		})
		return cold, warm
	}
	coldYoung, warmYoung := reads(2_000)
	coldOld, warmOld := reads(20_000)
	require.Zero(t, warmYoung)
	require.Zero(t, warmOld)
	// A checkpoint and a tail of at most CheckpointAt bytes, whatever the age.
	require.Less(t, coldOld, coldYoung+(64<<10))
	store, k := aged(t, 40, 2_000)
	d := viewOf(t, store, k)
	data, err := wire.EncodeCheckpoint(d.State)
	require.NoError(t, err)
	require.Less(t, len(data), 32<<10, "state is bounded by the window")
}

func viewOf(tb testing.TB, store *memory.Store, k host.Key) (d host.Done) {
	tb.Helper()
	withEngine(tb, store, func(r *rig) {
		var err error
		d, err = r.engine.View(context.Background(), k)
		require.NoError(tb, err)
	})
	return d
}

// BenchmarkLoad measures loading a session of 100,000 events from its
// checkpoint against reading, decoding and folding them, side by side.
func BenchmarkLoad(b *testing.B) {
	store, k := aged(b, 0, 100_000)
	head, err := store.Head(b.Context(), k)
	require.NoError(b, err)
	cs, err := store.LatestCheckpoints(b.Context(), k, 2)
	require.NoError(b, err)
	var load, fold time.Duration
	var events int
	for b.Loop() {
		t0 := time.Now()
		_, err := wire.DecodeCheckpoint(cs[0].Data, cs[0].Inc, cs[0].Seq)
		require.NoError(b, err)
		load += time.Since(t0)
		t0 = time.Now()
		var s session.State
		for s.Seq < head.Seq {
			page, err := store.Read(b.Context(), k, s.Seq, head.Seq, 512, 1<<20)
			require.NoError(b, err)
			for _, st := range page {
				en, err := wire.Decode(st.Data)
				if err == nil {
					err = session.Apply(&s, en)
				}
				require.NoError(b, err)
			}
		}
		fold += time.Since(t0)
		events += int(head.Seq)
	}
	b.ReportMetric(float64(fold)/float64(load), "ratio")
	b.ReportMetric(float64(events)/fold.Seconds(), "events/s")
	b.ReportMetric(float64(len(cs[0].Data)), "checkpoint-B")
}
