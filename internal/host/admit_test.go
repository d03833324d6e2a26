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
)

// front is an engine that admits only, beside the lab's driver: another process
// over the same store.
func (w *labWorld) front(ctx context.Context) *labWorld {
	f := *w
	f.options.AdmitOnly = true
	f.engine = host.New(f.deps, f.options)
	require.NoError(w.t, f.engine.Start(simsched.WithGroup(ctx, "front")))
	return &f
}

// The table of DESIGN §4: an admission on an idle session owes it a driver, and
// claims nothing itself.
func TestAnAdmissionOwesADriver(t *testing.T) {
	t.Parallel()
	lab{options: host.Options{SweepMs: ident.Hour}}.play(t, func(ctx context.Context, w *labWorld) {
		f, k := w.front(ctx), key("s")
		f.open(ctx, k, config())
		h := w.head(ctx, k)
		require.Equal(t, host.Drive{Status: host.DriveIdle}, h.Drive)
		require.Zero(t, h.DueAt)

		f.submit(ctx, k, "hi")
		h = w.head(ctx, k)
		require.Equal(t, host.Drive{Epoch: 1, Status: host.DriveStarting}, h.Drive)
		require.InDelta(t, int64(w.sim.Now())+20_000, int64(h.DueAt), 100)
		require.Zero(t, w.count(ctx, k, session.KindTurnRequested), "nothing is claimed here")

		// One that starts is not started again.
		f.submit(ctx, k, "next")
		again := w.head(ctx, k)
		require.Equal(t, h.Drive, again.Drive)
		require.Equal(t, h.DueAt, again.DueAt)
		w.sleep(ctx, 10*ident.Minute)
		require.Zero(t, w.calls)

		// The driver claims it, and ends at rest.
		require.NoError(t, w.engine.SweepOnce(ctx))
		w.untilIdle(ctx, k)
		h = w.head(ctx, k)
		require.Equal(t, host.DriveIdle, h.Drive.Status)
		require.EqualValues(t, 2, h.Drive.Epoch)
		require.EqualValues(t, 1, h.Drive.Step)
		require.Zero(t, h.DueAt)
		require.Equal(t, 2, w.calls)
	})
}

// parkedOn opens a session on the front, runs it into an approval, and lets the
// driver go.
func parkedOn(ctx context.Context, w *labWorld) (f *labWorld, k host.Key, id ident.RunID) {
	f, k = w.front(ctx), key("s")
	f.open(ctx, k, config("t.*"))
	id = f.submit(ctx, k, "go")
	require.NoError(w.t, w.engine.SweepOnce(ctx))
	w.untilWaiting(ctx, k)
	require.Equal(w.t, host.DriveParked, w.head(ctx, k).Drive.Status)
	// The driver's process is gone, as a slice on AWS is while it waits.
	w.crash(ctx)
	return f, k, id
}

func gated(sim *simsched.Sim) generate {
	return asks(sim, 20, "go", call("a", "t.write", `{}`))
}

func TestAnAdmissionWakesAParkedDriver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		command func(id ident.RunID) session.Command
		want    string
	}{
		"a decision": {func(ident.RunID) session.Command { return decide(true, "", 1) }, host.DriveWaking},
		"a refusal":  {func(ident.RunID) session.Command { return decide(false, "", 1) }, host.DriveWaking},
		"a steer": {func(id ident.RunID) session.Command {
			return &session.SteerRun{Run: id, Text: text("x"), Asked: asked("")}
		}, host.DriveParked},
		"a run behind":     {func(ident.RunID) session.Command { return &session.RequestRun{Input: text("x"), Asked: asked("")} }, host.DriveParked},
		"the last cancel":  {func(id ident.RunID) session.Command { return &session.CancelRun{Run: id, Asked: asked("")} }, host.DriveWaking},
		"a forced closing": {func(ident.RunID) session.Command { return &session.CloseSession{Force: true, Asked: asked("")} }, host.DriveWaking},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lab{specs: plain, model: gated, options: host.Options{SweepMs: ident.Hour}}.play(t, func(ctx context.Context, w *labWorld) {
				f, k, id := parkedOn(ctx, w)
				before := w.head(ctx, k)
				f.must(ctx, k, c.command(id))
				h := w.head(ctx, k)
				require.Equal(t, c.want, h.Drive.Status)
				require.Equal(t, before.Drive.Epoch, h.Drive.Epoch)
				if c.want == host.DriveWaking {
					require.InDelta(t, int64(w.sim.Now())+20_000, int64(h.DueAt), 1000)
				}
				// Whatever was admitted, a driver brings it to its end.
				w.start(w.group(ctx))
				w.sleep(ctx, 21_000)
				require.NoError(t, w.engine.SweepOnce(ctx))
				if c.want == host.DriveWaking {
					w.untilIdle(ctx, k)
					h := w.head(ctx, k)
					require.Equal(t, host.DriveIdle, h.Drive.Status)
					require.Zero(t, h.DueAt)
				}
			})
		})
	}
}

// An admission decides on what is true, not on what it last saw: its state is a
// cache, and other processes write.
func TestAnAdmissionDoesNotRefuseOnAnOldState(t *testing.T) {
	t.Parallel()
	lab{specs: plain, model: gated, options: host.Options{WatchMs: 500}}.play(t, func(ctx context.Context, w *labWorld) {
		f, k := w.front(ctx), key("s")
		f.open(ctx, k, config("t.*"))
		// The driver runs it while the front still has the session without it.
		id := w.submit(ctx, k, "go")
		w.untilWaiting(ctx, k)
		d := f.must(ctx, k, decide(true, "", 1))
		require.Nil(t, d.Replies[0].Decisions[0].Refused, "the approval is there")
		w.untilIdle(ctx, k)
		_, err := f.do(ctx, k, &session.SteerRun{Run: id, Text: text("x"), Asked: asked("")})
		requireCode(t, err, session.CodeRunNotActive)

		// Reads and watches too.
		v, err := f.engine.View(ctx, k)
		require.NoError(t, err)
		require.Equal(t, w.head(ctx, k).Seq, v.Head.Seq)
		sig := f.engine.Watch(k, v.Head.Seq)
		w.submit(ctx, k, "next")
		at, err := f.engine.WaitAny(ctx, 3000, sig)
		require.NoError(t, err)
		require.Zero(t, at, "the watch fires for what others commit")
		w.untilIdle(ctx, k)

		// A cancel at the front reaches the driver with its next commit.
		require.NoError(t, f.engine.Stop(ctx))
	})
}

// What an admission finds broken or deleted it leaves to a driver.
func TestAnAdmissionReleasesAndDeletes(t *testing.T) {
	t.Parallel()
	lab{options: host.Options{SweepMs: ident.Hour}}.play(t, func(ctx context.Context, w *labWorld) {
		f, k := w.front(ctx), key("s")
		w.open(ctx, k, config())
		id := w.submit(ctx, k, "hi")
		w.until(ctx, k, "a model call", func(s *session.State) bool { return s.Active.Turn.Status == session.TurnInFlight })
		w.crash(ctx)
		h := w.head(ctx, k)
		h.Rev++
		h.Write, h.Drive.Status, h.DueAt = "frozen", host.DriveIdle, 0
		h.Quarantine = &host.Quarantine{Seq: 3, Code: "plan", Detail: "a bug"}
		require.NoError(t, w.store.Commit(ctx, host.Commit{Key: k, Expect: h.Rev - 1, Head: h}))
		f.must(ctx, k, &session.ReleaseSession{Asked: asked("")})
		require.Equal(t, host.DriveStarting, w.head(ctx, k).Drive.Status, "what is in flight nobody performs")
		w.start(w.group(ctx))
		w.untilIdle(ctx, k)
		require.Equal(t, session.RunDone, w.run(ctx, k, id).Status)

		f.must(ctx, k, &session.CloseSession{Asked: asked("")})
		require.NoError(t, f.engine.Delete(ctx, k))
		_, err := f.engine.View(ctx, k)
		requireCode(t, err, session.CodeNotFound)
		require.Equal(t, host.StatusDeleting, w.head(ctx, k).Status, "the content is the sweeper's")
		w.sleep(ctx, 3*ident.Minute) // until the driver has let go of it
		require.NoError(t, w.engine.SweepOnce(ctx))
		w.sleep(ctx, 100)
		_, err = w.store.Head(ctx, k)
		require.ErrorIs(t, err, host.ErrNotFound)
		require.NoError(t, f.engine.Stop(ctx))
	})
}

// Renaming and deleting go through beside a driver that commits all the time.
func TestTheListingDocumentUnderConflict(t *testing.T) {
	t.Parallel()
	lab{model: func(sim *simsched.Sim) generate {
		return func(ctx context.Context, req host.ModelRequest, _ func(host.Delta)) (host.ModelResult, error) {
			check(sim.Sleep(ctx, 1))
			if len(req.Messages) < 60 {
				return said("", call("c", "t.read", `{}`))
			}
			return said("ok")
		}
	}, specs: plain}.play(t, func(ctx context.Context, w *labWorld) {
		f, k := w.front(ctx), key("s")
		w.open(ctx, k, config("t.*"))
		w.submit(ctx, k, "go")
		for range 10 {
			d, err := f.engine.Describe(ctx, k, func(m *host.Meta) { m.Name += "x" })
			require.NoError(t, err)
			require.NotEmpty(t, d.Meta.Name)
		}
		w.untilIdle(ctx, k)
		m, err := w.store.Meta(ctx, k)
		require.NoError(t, err)
		require.Equal(t, "xxxxxxxxxx", m.Name)
		require.NoError(t, f.engine.Stop(ctx))
	})
}

// A steer and a settled promise of the front reach a driver that has the
// session in hand: its next commit fails on rev, and it reads what came.
func TestADriverHearsOfAdmissionsElsewhere(t *testing.T) {
	t.Parallel()
	slow := int64(500)
	lab{options: host.Options{WatchMs: 500}, model: func(sim *simsched.Sim) generate {
		return func(ctx context.Context, req host.ModelRequest, sink func(host.Delta)) (host.ModelResult, error) {
			return asks(sim, slow, "")(ctx, req, sink)
		}
	}}.play(t, func(ctx context.Context, w *labWorld) {
		f, k := w.front(ctx), key("s")
		w.open(ctx, k, config())
		id := w.submit(ctx, k, "go")
		w.sleep(ctx, 100)
		f.must(ctx, k, &session.SteerRun{Run: id, Text: []session.Part{{Text: blob.Inline("louder")}}, Asked: asked("")})
		w.untilIdle(ctx, k)
		v := w.run(ctx, k, id)
		require.Equal(t, session.RunDone, v.Status)
		require.Equal(t, host.SteerDelivered, v.Steering[0].Status)

		// A cancel too: the answer that was under way stays out, and the call
		// is aborted within a second.
		slow = 20_000
		id = w.submit(ctx, k, "again")
		w.sleep(ctx, 100)
		f.must(ctx, k, &session.CancelRun{Run: id, Asked: asked("")})
		w.untilIdle(ctx, k)
		v = w.run(ctx, k, id)
		require.Equal(t, session.RunStopped, v.Status)
		require.LessOrEqual(t, int64(v.CompletedAt-v.AcceptedAt), int64(1100))
		require.NoError(t, f.engine.Stop(ctx))
	})
}

// A command that the core does not survive is refused; the log is sound, so its
// session is not frozen for it.
func TestACommandThatDoesNotGo(t *testing.T) {
	t.Parallel()
	lab{reports: true}.play(t, func(ctx context.Context, w *labWorld) {
		f, k := w.front(ctx), key("s")
		w.open(ctx, k, config())
		_, err := f.do(ctx, k, &session.Resume{}) // only drivers may
		requireCode(t, err, session.CodeInvalid)
		require.Len(t, w.reports, 1)
		_, err = f.do(ctx, k, (*session.SteerRun)(nil)) // not even that
		require.ErrorIs(t, err, host.ErrUnavailable)
		require.Nil(t, w.head(ctx, k).Quarantine)
		f.submit(ctx, k, "hi")
		w.untilIdle(ctx, k)
		require.NoError(t, f.engine.Stop(ctx))
	})
}
