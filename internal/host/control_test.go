package host_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/host"
)

func cancelOf(id uint64, force bool) *session.CancelRun {
	return &session.CancelRun{Run: 1, Force: force, Asked: asked("")}
}

// engine 10.28: a cancel while the model is being called.
func TestCancelAbortsTheModelCallAndKeepsItsText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := key("s1")
	w.open(k, config())
	w.model.script(answer{first: "half an ", gate: make(chan struct{})}, answer{text: "next"})
	id := w.submit(k, "a", "hi")
	<-w.model.started
	w.must(k, cancelOf(1, false))
	w.untilIdle(k)
	v := w.run(k, id)
	require.Equal(t, session.RunStopped, v.Status)
	require.Equal(t, "ann", v.CancelledBy)
	require.Equal(t, "half an ", v.Output.Text)
	<-w.model.aborts
	require.Zero(t, w.count(k, session.KindRunFailed))
	require.Equal(t, 1, w.count(k, session.KindTurnCancelled))
	require.True(t, v.Usage.Estimated)

	next := w.submit(k, "b", "again")
	w.untilIdle(k)
	require.Equal(t, session.RunDone, w.run(k, next).Status)
	// The partial text is in the window of the next request.
	reqs := w.model.seen()
	require.Equal(t, "half an ", reqs[1].Messages[1].Text)
}

// engine 10.30, T01, T04: a cancel while tools run.
func TestCancelDuringToolsGivesEveryCallItsResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := key("s1")
	w.open(k, config("t.*"))
	w.model.script(
		answer{calls: []host.ModelCall{call("a", "t.read", `{}`), call("b", "t.slow", `{}`), call("c", "t.write", `{}`)}},
		answer{text: "went on"},
	)
	w.submit(k, "a", "go")
	w.until(k, "a read and b running", func(s *session.State) bool {
		return s.Active != nil && s.Active.Batch != nil && s.Active.Batch.Calls[0].Status == session.CallCompleted && s.Active.Batch.Calls[1].Status == session.CallRunning
	})
	w.must(k, cancelOf(1, false))
	w.untilIdle(k)
	w.submit(k, "b", "go on")
	w.untilIdle(k)
	rs := w.model.seen()[1].Messages[2].Results
	require.Len(t, rs, 3)
	require.Contains(t, rs[0].Text, "t.read ran")
	require.Contains(t, rs[1].Text, "may have partly run")
	require.Contains(t, rs[2].Text, "not started")
	// c had an approval pending: it is cancelled, never rejected.
	v := w.run(k, 1)
	require.Len(t, v.Approvals, 1)
	require.Equal(t, session.Cancelled, v.Approvals[0].Status)
}

// engine 10.23 and 10.24, turn order, T03.
func TestSteerIsSeenByTheNextTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := key("s1")
	w.open(k, config())
	gate := make(chan struct{})
	w.model.script(answer{text: "first", gate: gate}, answer{text: "second"})
	id := w.submit(k, "a", "hi")
	<-w.model.started
	d := w.must(k, &session.SteerRun{Run: id, Text: text("shorter"), Asked: asked("s-1")})
	require.EqualValues(t, 1, d.Replies[0].Steering)
	close(gate)
	w.untilIdle(k)
	v := w.run(k, id)
	require.Equal(t, "second", v.Output.Text)
	require.Equal(t, host.SteerDelivered, v.Steering[0].Status)
	reqs := w.model.seen()
	require.Len(t, reqs, 2)
	require.Equal(t, []string{"user", "assistant", "user"}, roles(reqs[1]))
	require.Equal(t, "shorter", reqs[1].Messages[2].Parts[0].Text)

	// The same submission again is the same steer, also now.
	d, err := w.do(k, &session.SteerRun{Run: id, Text: text("shorter"), Asked: asked("s-1")})
	require.NoError(t, err)
	require.True(t, d.Replies[0].Same)
	require.EqualValues(t, 1, d.Replies[0].Steering)
	_, err = w.do(k, &session.SteerRun{Run: id, Text: text("other"), Asked: asked("s-1")})
	requireCode(t, err, session.CodeSubmissionConflict)
}

func roles(r host.ModelRequest) []string {
	var out []string
	for _, m := range r.Messages {
		out = append(out, m.Role)
	}
	return out
}

func requireCode(t *testing.T, err error, code session.Code) {
	t.Helper()
	var rej *session.Rejection
	require.ErrorAs(t, err, &rej)
	require.Equal(t, code, rej.Code, rej.Message)
}

// engine 10.1, 10.2, 10.3, 10.17-10.19, T33, T34.
func TestQueueAndIdempotentSubmission(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := key("s1")
	w.open(k, config())
	gate := make(chan struct{})
	w.model.script(answer{text: "A", gate: gate}, answer{text: "C"})
	a := w.submit(k, "a", "A")
	<-w.model.started
	b := w.submit(k, "b", "B")
	c := w.submit(k, "c", "C")
	require.Equal(t, c, w.submit(k, "c", "C"))
	require.Equal(t, session.RunQueued, w.run(k, b).Status)
	require.Equal(t, "B", w.run(k, b).Input[0].Text.Text)
	w.must(k, &session.CancelRun{Run: b, Asked: asked("")})
	require.Equal(t, session.RunStopped, w.run(k, b).Status)
	require.Equal(t, b, w.submit(k, "b", "B"), "a cancelled queued run is still its submission's run")
	close(gate)
	w.untilIdle(k)
	require.Equal(t, a, w.submit(k, "a", "A"))
	_, err := w.do(k, &session.RequestRun{Input: text("other"), Asked: asked("a")})
	requireCode(t, err, session.CodeSubmissionConflict)
	require.Equal(t, 3, w.count(k, session.KindRunAccepted))
	require.Equal(t, "C", w.run(k, c).Output.Text)
	require.Len(t, w.model.seen(), 2)
	// Another session and another tenant know nothing of it.
	for _, o := range []host.Key{key("s2"), {Tenant: "t2", Session: "s1"}} {
		w.open(o, config())
		w.submit(o, "a", "something else")
		w.untilIdle(o)
	}
}

// row-02: interrupt is one commit, and goes to the front.
func TestInterruptRunsNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := key("s1")
	w.open(k, config())
	w.model.script(answer{gate: make(chan struct{})}, answer{text: "I"}, answer{text: "Q"})
	w.submit(k, "a", "A")
	<-w.model.started
	q := w.submit(k, "q", "Q")
	d := w.must(k, &session.RequestRun{Input: text("I"), Mode: session.ModeInterrupt, Asked: asked("i")})
	at := slices.Index(w.kinds(k), string(session.KindCancelRequested))
	require.Equal(t, string(session.KindRunAccepted), w.kinds(k)[at-1], "one commit")
	i := d.Replies[0].Run
	w.untilIdle(k)
	require.Equal(t, session.RunStopped, w.run(k, 1).Status)
	require.Equal(t, "I", w.run(k, i).Output.Text)
	require.Equal(t, "Q", w.run(k, q).Output.Text)
	require.Less(t, w.run(k, i).StartedAt, w.run(k, q).CompletedAt+1)
	_, err := w.do(k, &session.RequestRun{Input: text("x"), Mode: session.ModeReject, Asked: asked("r")})
	require.NoError(t, err, "reject on an idle session starts a run")
	w.untilIdle(k)
}

// engine 10.7, 10.8, 10.36.
func TestARefusedCommandHarmsNobodyAndForceCloseEndsAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := key("s1")
	_, err := w.do(k, &session.RequestRun{Input: text("x"), Asked: asked("")})
	requireCode(t, err, session.CodeNotFound)
	w.open(k, config("t.*"))
	_, err = w.do(k, &session.RequestRun{Asked: asked("bad")})
	requireCode(t, err, session.CodeValidation)
	w.model.script(answer{calls: []host.ModelCall{call("a", "t.write", `{}`)}})
	w.submit(k, "bad", "now good") // a refused request left no trace of its id
	w.until(k, "approval", func(s *session.State) bool { return s.Active != nil && len(s.Active.Approvals) > 0 })
	w.submit(k, "q", "queued")
	_, err = w.do(k, &session.CloseSession{Asked: asked("")})
	requireCode(t, err, session.CodeSessionBusy)
	commits := w.store.Stats().Commits
	w.must(k, &session.CloseSession{Force: true, Asked: asked("")})
	require.Equal(t, commits+1, w.store.Stats().Commits)
	require.Equal(t, session.RunStopped, w.run(k, 1).Status)
	require.Equal(t, session.RunStopped, w.run(k, 2).Status)
	w.must(k, &session.CloseSession{Force: true, Asked: asked("")})
	_, err = w.do(k, &session.RequestRun{Input: text("x"), Asked: asked("z")})
	requireCode(t, err, session.CodeSessionClosed)
	d, err := w.do(k, &session.RequestRun{Input: text("queued"), Asked: asked("q")})
	require.NoError(t, err, "an old submission is answered on a closed session")
	require.EqualValues(t, 2, d.Replies[0].Run)
	require.NoError(t, w.engine.Delete(w.ctx(), k))
	_, err = w.engine.View(w.ctx(), k)
	requireCode(t, err, session.CodeNotFound)
	w.open(k, config())
}
