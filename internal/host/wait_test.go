package host_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/host"
)

func decide(approve bool, note string, ids ...ident.ApprovalID) *session.DecideApprovals {
	c := &session.DecideApprovals{Asked: asked("")}
	for _, id := range ids {
		c.Decisions = append(c.Decisions, session.Decision{Approval: id, Approve: approve, Note: note})
	}
	return c
}

func (w *world) untilWaiting(k host.Key) session.State {
	w.t.Helper()
	return w.until(k, "waiting", func(s *session.State) bool { return s.Active != nil && s.Active.RunStatus() == session.RunWaits })
}

// T10, T15, T17: three gated calls of one tool with the same arguments,
// decided in the order 3, 1, 2, over restarts.
func TestApprovalsInAnyOrderOverRestarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := key("s1")
	w.open(k, config("t.*"))
	w.model.script(
		answer{calls: []host.ModelCall{call("a", "t.write", `{"x":"1"}`), call("b", "t.write", `{"x":"1"}`), call("c", "t.write", `{"x":"1"}`), call("d", "t.read", `{}`)}},
		answer{text: "done"},
	)
	id := w.submit(k, "a", "go")
	w.untilWaiting(k)
	v := w.run(k, id)
	require.Len(t, v.Approvals, 3)
	require.Len(t, v.WaitingOn, 3)
	todo, err := w.engine.TodoList(w.ctx(), "t1", "apr", nil, 10)
	require.NoError(t, err)
	require.Len(t, todo, 3)
	require.Equal(t, 1, w.times("t.read {}"))

	w.kill()
	w.start()
	w.must(k, decide(true, "", 3))
	d := w.must(k, decide(false, "not this one", 1))
	require.Equal(t, session.Rejected, d.Replies[0].Decisions[0].Status)
	require.Equal(t, session.RunWaits, w.run(k, id).Status)
	w.kill()
	w.start()
	// The same again is fine, another is not.
	d = w.must(k, decide(false, "", 1))
	require.Nil(t, d.Replies[0].Decisions[0].Refused)
	d = w.must(k, decide(true, "", 1))
	require.Equal(t, session.CodeAlreadyDecided, d.Replies[0].Decisions[0].Refused.Code)
	require.Equal(t, "ann", d.Replies[0].Decisions[0].Refused.Decision.By)

	edit := blob.Inline(`{"x":"2"}`)
	w.must(k, &session.DecideApprovals{Asked: asked(""), Decisions: []session.Decision{{Approval: 2, Approve: true, Edited: &edit}}})
	w.untilIdle(k)
	require.Equal(t, 1, w.times(`t.write {"x":"1"}`))
	require.Equal(t, 1, w.times(`t.write {"x":"2"}`))
	rs := w.model.seen()[1].Messages[2].Results
	require.Contains(t, rs[0].Text, "declined")
	require.Contains(t, rs[0].Text, "not this one")
	require.Contains(t, rs[1].Text, "A person changed the arguments")
	require.Contains(t, rs[2].Text, "t.write ran")
	require.Equal(t, `{"x":"1"}`, w.model.seen()[1].Messages[1].Calls[1].Arguments, "the model's own words stay")

	// Long after, the decision is still known.
	d = w.must(k, decide(true, "", 1))
	require.Equal(t, session.CodeAlreadyDecided, d.Replies[0].Decisions[0].Refused.Code)
	d = w.must(k, decide(true, "", 3))
	require.Nil(t, d.Replies[0].Decisions[0].Refused)
	d = w.must(k, decide(true, "", 9))
	require.Equal(t, session.CodeNotFound, d.Replies[0].Decisions[0].Refused.Code)
	todo, err = w.engine.TodoList(w.ctx(), "t1", "apr", nil, 10)
	require.NoError(t, err)
	require.Empty(t, todo)
}

// sleep, and the wake of a session that no task holds.
func TestSleepWakesByItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opts.IdleMs = 1 // its task ends at once: only the sweep can wake it
	w.opts.SweepMs = 5
	w.kill()
	w.start()
	k := key("s1")
	w.open(k, config("sleep", "t.*"))
	w.model.script(answer{calls: []host.ModelCall{call("a", "sleep", `{"seconds":0.05}`), call("b", "t.read", `{}`)}}, answer{text: "awake"})
	id := w.submit(k, "a", "nap")
	w.untilIdle(k)
	require.Equal(t, "awake", w.run(k, id).Output.Text)
	require.Equal(t, 1, w.count(k, session.KindRunWaiting))
	require.Equal(t, 1, w.count(k, session.KindRunResumed))
}

// ask and intake.
func TestQuestionsAreAskedAndAnswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := key("s1")
	c := config("ask")
	c.Intake = session.Intake{When: "session", Items: []session.QuestionItem{{ID: "tone", Prompt: "Which tone?", FreeText: true, Defaults: []string{"plain"}}}}
	w.open(k, c)
	w.model.script(answer{calls: []host.ModelCall{call("q", "ask", `{"questions":[{"id":"sure","prompt":"Sure?","options":[{"value":"y","label":"Yes"},{"value":"n","label":"No"}],"defaults":["y"]}]}`)}}, answer{text: "ok"})
	id := w.submit(k, "a", "go")
	w.untilWaiting(k)
	require.Empty(t, w.model.seen(), "intake comes before the first model call")
	todo, err := w.engine.TodoList(w.ctx(), "t1", "qst", nil, 10)
	require.NoError(t, err)
	require.Len(t, todo, 1)
	w.must(k, &session.AnswerQuestion{Run: id, Question: 1, Answers: []session.Answer{{Item: "tone", Values: []string{"warm 🌞"}}}, Asked: asked("")})
	w.until(k, "the ask", func(s *session.State) bool {
		return s.Active != nil && len(s.Active.Questions) == 1 && s.Active.Questions[0].Source == session.SourceAsk
	})
	require.Contains(t, w.model.seen()[0].Messages[1].Parts[0].Text, "warm 🌞")
	w.must(k, &session.AnswerQuestion{Run: id, Question: 2, Skip: true, Asked: asked("")})
	w.untilIdle(k)
	require.Contains(t, w.model.seen()[1].Messages[3].Results[0].Text, "Yes")
	require.Contains(t, w.model.seen()[1].Messages[3].Results[0].Text, "nobody confirmed")
	_, err = w.do(k, &session.AnswerQuestion{Run: id, Question: 2, Asked: asked("")})
	requireCode(t, err, session.CodeAlreadyDecided)
	w.submit(k, "b", "again")
	w.untilIdle(k)
	require.Empty(t, w.run(k, 2).Questions, "the intake was for the session")
}

// An interrupting run asks before an older one that waits in the queue: its
// approvals have the lower ids, and both are found by their ids alone.
func TestApprovalsAreFoundWhateverRunCameFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := key("s1")
	w.open(k, config("t.*"))
	gated := answer{calls: []host.ModelCall{call("a", "t.write", `{}`)}}
	w.model.script(gated, gated, gated, answer{text: "ok"})
	w.submit(k, "1", "first")
	w.untilWaiting(k)
	w.submit(k, "2", "second")
	w.must(k, &session.RequestRun{Input: text("third"), Mode: session.ModeInterrupt, Asked: asked("3")})
	w.until(k, "the third to wait", func(s *session.State) bool {
		return s.Active != nil && s.Active.ID == 3 && s.Active.RunStatus() == session.RunWaits
	})
	w.must(k, &session.CancelRun{Run: 3, Asked: asked("")})
	w.until(k, "the second to wait", func(s *session.State) bool {
		return s.Active != nil && s.Active.ID == 2 && s.Active.RunStatus() == session.RunWaits
	})
	for id, run := range map[ident.ApprovalID]ident.RunID{1: 1, 2: 3, 3: 2} {
		rec, err := w.engine.Approval(w.ctx(), k, id)
		require.NoError(t, err)
		require.Equal(t, run, rec.Run)
	}
	w.must(k, decide(true, "", 3))
	w.untilIdle(k)
	d := w.must(k, decide(false, "", 3))
	require.Equal(t, session.CodeAlreadyDecided, d.Replies[0].Decisions[0].Refused.Code)
}

// row-04: a call that may cost more than is left is not sent.
func TestACallThatCostsTooMuchIsNotSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model.info = host.ModelInfo{Priced: true, InputPrice: 1_000_000, OutputPrice: 1_000_000} // a dollar a million
	k := key("s1")
	c := config("t.*")
	c.Model.MaxOutput = 1000
	c.Limits.MaxCostMicros = 2500 // two calls fit by their estimate, and no third
	w.open(k, c)
	w.model.script(
		answer{calls: []host.ModelCall{call("a", "t.read", `{}`)}, usage: session.Usage{Input: 100, Output: 900}},
		answer{calls: []host.ModelCall{call("b", "t.read", `{}`)}, usage: session.Usage{Input: 100, Output: 900}},
	)
	id := w.submit(k, "a", "go")
	w.untilIdle(k)
	v := w.run(k, id)
	require.Equal(t, session.RunFails, v.Status)
	require.Equal(t, "maxCostUsd", v.Failure.Limit)
	require.EqualValues(t, 2000, v.Failure.Used)
	require.Len(t, w.model.seen(), 2)
}
