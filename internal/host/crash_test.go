package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
	"github.com/perdure/perdure/internal/adapter/memory"
	"github.com/perdure/perdure/internal/host"
)

// restart is a crash and a new process.
func (w *world) restart() {
	w.t.Helper()
	w.kill()
	require.NoError(w.t, w.sched.Wait(w.ctx()))
	w.start()
}

// engine 10.39 without the trace, 10.45: what was in flight goes on.
func TestAModelCallInFlightIsAskedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := key("s1")
	w.open(k, config())
	w.model.script(answer{first: "lost ", gate: make(chan struct{})}, answer{text: "kept"})
	id := w.submit(k, "a", "hi")
	<-w.model.started
	w.restart()
	w.untilIdle(k)
	require.Equal(t, "kept", w.run(k, id).Output.Text)
	var reasons []string
	for _, en := range w.entries(k) {
		if e, ok := en.Event.(*session.TurnRequested); ok {
			reasons = append(reasons, e.Reason)
		}
	}
	require.Equal(t, []string{"first", "interrupted"}, reasons)
}

// T41: graceful stops burn neither failures nor interruptions.
func TestManyStopsDuringOneTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := key("s1")
	w.open(k, config())
	w.model.script(answer{first: "x", gate: make(chan struct{})})
	id := w.submit(k, "a", "hi")
	for i := range 10 {
		<-w.model.started
		require.NoError(t, w.engine.Stop(w.ctx()))
		_, err := w.do(k, &session.RequestRun{Input: text("x"), Asked: asked("")})
		require.ErrorIs(t, err, host.ErrStopping)
		next := answer{first: "x", gate: make(chan struct{})}
		if i == 9 {
			next = answer{text: "at last"}
		}
		w.model.script(next)
		w.restart()
	}
	w.untilIdle(k)
	require.Equal(t, "at last", w.run(k, id).Output.Text)
}

// T31, row-05: an unsafe call that was started is never run again; the model
// reads that its outcome is not known, and the same call then asks a person.
func TestALostUnsafeCallIsUnknownAndGuarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := key("s1")
	w.open(k, config("t.*"))
	again := []host.ModelCall{call("a", "t.lost", `{"x":"1"}`)}
	w.model.script(answer{calls: again}, answer{calls: again}, answer{text: "ok"})
	id := w.submit(k, "a", "go")
	w.untilWaiting(k)
	require.Equal(t, 1, w.times(`t.lost {"x":"1"}`))
	v := w.run(k, id)
	require.Equal(t, session.WhyRepeat, v.Approvals[0].Why)
	require.Contains(t, w.model.seen()[1].Messages[2].Results[0].Text, "unknown")
	w.must(k, decide(false, "", v.Approvals[0].ID))
	w.untilIdle(k)
	require.Equal(t, 1, w.times(`t.lost {"x":"1"}`))
}

// T11, T13, I6: crash while calls run.
func TestACrashDuringToolsRunsTheSafeOnesAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := key("s1")
	w.open(k, config("t.*"))
	w.model.script(answer{calls: []host.ModelCall{call("a", "t.read", `{}`), call("b", "t.slow", `{}`)}}, answer{text: "ok"})
	w.submit(k, "a", "go")
	slow := func(s *session.State) bool {
		return s.Active != nil && s.Active.Batch != nil && s.Active.Batch.Open == 1 && s.Active.Batch.Calls[1].Status == session.CallRunning
	}
	w.until(k, "b alone", slow)
	w.restart()
	w.until(k, "b again", func(s *session.State) bool { return slow(s) && s.Active.Batch.Calls[1].Attempt == 2 })
	require.Equal(t, 1, w.times("t.read {}"))
	w.must(k, cancelOf(1, false))
	w.untilIdle(k)
}

// row-01: a result whose commit does not go through at the first try is
// stashed, and a crash before the next try does not cost a generation.
func TestAModelResultIsStashedWhenItsCommitFails(t *testing.T) {
	t.Parallel()
	for name, precious := range map[string]string{"short": "precious", "long": strings.Repeat("precious ", 100_000)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stashedWhenItsCommitFails(t, precious)
		})
	}
}

func stashedWhenItsCommitFails(t *testing.T, precious string) {
	t.Helper()
	w := newWorld(t)
	var broken atomic.Bool
	stashed := make(chan struct{}, 10)
	w.store = memory.New(memory.Options{Inject: func(_ context.Context, op memory.Op, when memory.When) error {
		if when == memory.Before && op.Name == "log.commit" && broken.Load() {
			return host.ErrFull
		}
		if when == memory.After && op.Name == "stash.put" {
			stashed <- struct{}{}
		}
		return nil
	}})
	w.restart()
	k := key("s1")
	w.open(k, config())
	gate := make(chan struct{})
	w.model.script(answer{text: precious, gate: gate})
	id := w.submit(k, "a", "hi")
	<-w.model.started
	broken.Store(true)
	close(gate)
	<-stashed
	w.until(k, "still in flight", func(s *session.State) bool { return s.Active.Turn.Status == session.TurnInFlight })
	w.kill()
	broken.Store(false)
	w.restart()
	w.untilIdle(k)
	out := w.run(k, id).Output
	if out.Ref != "" {
		data, err := w.store.GetBlob(w.ctx(), k, out.Ref)
		require.NoError(t, err)
		out.Text = string(data)
	}
	require.Equal(t, precious, out.Text)
	require.Len(t, w.model.seen(), 1, "generated once")
}

// engine 10.74: a landed write whose response was lost.
func TestALostResponseOfACommitDuplicatesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var n atomic.Int64
	w.store = memory.New(memory.Options{Inject: func(_ context.Context, op memory.Op, when memory.When) error {
		if when == memory.After && op.Name == "log.commit" && n.Add(1)%2 == 0 {
			return errors.New("response lost")
		}
		return nil
	}})
	w.restart()
	k := key("s1")
	w.open(k, config("t.*"))
	w.model.script(answer{calls: []host.ModelCall{call("a", "t.read", `{}`)}}, answer{text: "ok"})
	id := w.submit(k, "a", "hi")
	w.untilIdle(k)
	require.Equal(t, session.RunDone, w.run(k, id).Status)
	require.Equal(t, 1, w.count(k, session.KindRunAccepted))
	require.Equal(t, 1, w.times("t.read {}"))
}

// T52: many commands at one head, from two processes.
func TestManyWritersAreAllAdmitted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := key("s1")
	w.open(k, config())
	gate := make(chan struct{})
	defer close(gate)
	w.model.script(answer{gate: gate})
	w.submit(k, "a", "hi")
	<-w.model.started
	other := &world{t: t, store: w.store, model: w.model, opts: host.Options{AdmitOnly: true}}
	other.start()
	defer other.kill()
	const each = 8
	errs := make(chan error, 2*each)
	for i := range each {
		for j, x := range []*world{w, other} {
			go func() {
				_, err := x.do(k, &session.SteerRun{Run: 1, Text: text("s"), Asked: asked("s" + string(rune('a'+i)) + string(rune('0'+j)))})
				errs <- err
			}()
		}
	}
	for range 2 * each {
		require.NoError(t, <-errs)
	}
	require.Equal(t, 2*each, w.count(k, session.KindRunSteered))
	for i, en := range w.entries(k) {
		require.EqualValues(t, i+1, en.Seq)
	}
}

// row-14: what a newer build wrote stops this one, and is left alone.
func TestANewerBuildsSessionIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := key("s1")
	w.open(k, config())
	w.submit(k, "a", "hi")
	w.untilIdle(k)
	w.restart()
	w.appendRaw(k, `"kind":"run.teleported","v":1,"data":{}`)
	rev := w.head(k).Rev
	_, err := w.do(k, &session.RequestRun{Input: text("x"), Asked: asked("b")})
	require.ErrorIs(t, err, session.ErrNewer)
	require.ErrorIs(t, err, host.ErrUnavailable)
	require.Equal(t, rev, w.head(k).Rev, "nothing was written")
}

// row-14: what this build should understand and cannot fold freezes the
// session; reads, force close and delete work.
func TestDamageQuarantinesTheSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := key("s1")
	w.open(k, config())
	w.submit(k, "a", "hi")
	w.untilIdle(k)
	w.restart()
	seq := w.appendRaw(k, `"kind":"run.started","v":1,"data":{"run":99}`)
	_, err := w.do(k, &session.RequestRun{Input: text("x"), Asked: asked("b")})
	requireCode(t, err, session.CodeQuarantined)
	h := w.head(k)
	require.Equal(t, seq, h.Quarantine.Seq)
	require.Equal(t, "run", h.Quarantine.Code)
	_, err = w.engine.View(w.ctx(), k)
	require.NoError(t, err)
	require.Equal(t, session.RunDone, w.run(k, 1).Status)
	_, err = w.do(k, &session.ReleaseSession{Asked: asked("")})
	requireCode(t, err, session.CodeQuarantined)
	w.restart()
	w.must(k, &session.CloseSession{Force: true, Asked: asked("")})
	require.Equal(t, host.StatusClosed, w.head(k).Status)
	require.NoError(t, w.engine.Delete(w.ctx(), k))
}

func TestAReleasedSessionGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := key("s1")
	w.open(k, config())
	w.submit(k, "a", "hi")
	w.untilIdle(k)
	w.restart()
	// Frozen by a build that has since been mended: the log itself is sound.
	h := w.head(k)
	h.Rev++
	h.Write = "frozen"
	h.Quarantine = &host.Quarantine{Seq: 3, Code: "plan", Detail: "a bug"}
	require.NoError(t, w.store.Commit(w.ctx(), host.Commit{Key: k, Expect: h.Rev - 1, Head: h}))
	_, err := w.do(k, &session.RequestRun{Input: text("x"), Asked: asked("b")})
	requireCode(t, err, session.CodeQuarantined)
	w.must(k, &session.ReleaseSession{Asked: asked("")})
	id := w.submit(k, "b", "x")
	w.untilIdle(k)
	require.Equal(t, session.RunDone, w.run(k, id).Status)
	require.Equal(t, 1, w.count(k, session.KindSessionReleased))
}

func (w *world) head(k host.Key) host.Head {
	w.t.Helper()
	h, err := w.store.Head(w.ctx(), k)
	require.NoError(w.t, err)
	return h
}

// appendRaw writes an event past the engine, as another build would.
func (w *world) appendRaw(k host.Key, body string) ident.Seq {
	w.t.Helper()
	h := w.head(k)
	h.Rev++
	h.Seq++
	h.Write = "raw"
	at, err := json.Marshal(h.At)
	require.NoError(w.t, err)
	seq, err := json.Marshal(h.Seq)
	require.NoError(w.t, err)
	line := `{"seq":` + string(seq) + `,"at":` + string(at) + `,` + body + `}`
	require.NoError(w.t, w.store.Commit(w.ctx(), host.Commit{Key: k, Expect: h.Rev - 1, Head: h, Entries: []host.StoredEntry{{Seq: h.Seq, Data: []byte(line)}}}))
	return h.Seq
}

// engine 10.75-10.77, I2: a checkpoint is used, and any doubt about it is not.
func TestCheckpointsAreAcceleratorsOnly(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*host.Checkpoint){
		"good":       func(*host.Checkpoint) {},
		"cut":        func(c *host.Checkpoint) { c.Data = c.Data[:len(c.Data)-1] },
		"bit":        func(c *host.Checkpoint) { c.Data[len(c.Data)-5] ^= 1 },
		"lineage":    func(c *host.Checkpoint) { c.Inc = "other" },
		"beyond":     func(c *host.Checkpoint) { c.Seq += 1000 },
		"wrong seq":  func(c *host.Checkpoint) { c.Seq++ },
		"no content": func(c *host.Checkpoint) { c.Data = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.opts.CheckpointAt = 1
			w.restart()
			k := key("s1")
			w.open(k, config("t.*"))
			w.model.script(answer{calls: []host.ModelCall{call("a", "t.read", `{}`)}}, answer{text: "ok"})
			w.submit(k, "a", "hi")
			want := wire.StateSum(w.untilIdle(k))
			cs, err := w.store.LatestCheckpoints(w.ctx(), k, 2)
			require.NoError(t, err)
			require.Len(t, cs, 2)
			for i := range cs {
				spoil(&cs[i])
			}
			w.ckpt = spoiled(cs)
			w.restart()
			d, err := w.engine.View(w.ctx(), k)
			require.NoError(t, err)
			require.Equal(t, want, wire.StateSum(d.State))
		})
	}
}

// spoiled are checkpoints that something has happened to.
type spoiled []host.Checkpoint

func (spoiled) PutCheckpoint(context.Context, host.Key, host.Checkpoint) error { return nil }

func (s spoiled) LatestCheckpoints(context.Context, host.Key, int) ([]host.Checkpoint, error) {
	return s, nil
}

// I12: a driver whose claim is stale cannot commit, and stops its effects.
func TestAStaleDriverStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := key("s1")
	w.open(k, config())
	w.model.script(answer{gate: make(chan struct{})}, answer{text: "by the other"})
	id := w.submit(k, "a", "hi")
	<-w.model.started
	other := &world{t: t, store: w.store, model: w.model}
	other.start()
	defer other.kill()
	other.untilIdle(k)
	require.Equal(t, "by the other", other.run(k, id).Output.Text)
	_, err := w.do(k, &session.SteerRun{Run: id, Text: text("x"), Asked: asked("")})
	require.ErrorIs(t, err, host.ErrUnavailable)
	_, err = w.do(k, &session.SteerRun{Run: id, Text: text("x"), Asked: asked("")})
	requireCode(t, err, session.CodeRunNotActive)
	<-w.model.aborts
}
