package host_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/host"
)

func TestARunAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := key("s1")
	w.open(k, config())
	w.model.script(answer{text: "hello"})
	id := w.submit(k, "a", "hi")
	w.untilIdle(k)
	v := w.run(k, id)
	require.Equal(t, session.RunDone, v.Status)
	require.Equal(t, "hello", v.Output.Text)
	require.Equal(t, []string{
		"session.opened", "run.accepted", "run.started", "message.added", "turn.requested", "message.added", "turn.completed", "run.completed",
	}, w.kinds(k))
}

func TestAToolTurnIsTwoCommits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := key("s1")
	w.open(k, config("t.*"))
	w.model.script(
		answer{calls: []host.ModelCall{call("c1", "t.read", `{"x":"1"}`), call("c2", "t.read", `{"x":"2"}`), call("c3", "t.fail", `{}`)}},
		answer{text: "done"},
	)
	before := w.store.Stats().Commits
	id := w.submit(k, "a", "go")
	w.untilIdle(k)
	v := w.run(k, id)
	require.Equal(t, session.RunDone, v.Status, w.dump(k))
	require.Equal(t, 1, w.times(`t.read {"x":"1"}`))
	reqs := w.model.seen()
	require.Len(t, reqs, 2)
	require.Len(t, reqs[1].Messages[2].Results, 3)
	require.True(t, reqs[1].Messages[2].Results[2].Error)
	// admission; model result and starts; up to three results, each on its own
	// when they do not come together; the last answer.
	require.LessOrEqual(t, w.store.Stats().Commits-before, 6)
}

// A second create of one id answers with the session as it is, and starts no
// second run.
func TestOpeningTwiceStartsOneRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := key("s1")
	open := func() (host.Done, error) {
		return w.engine.Do(w.ctx(), k,
			host.Prepared{Command: &session.OpenSession{Inc: "i", Config: config(), Asked: asked("")}, Meta: func(m *host.Meta) { m.Name = "named" }},
			host.Prepared{Command: &session.RequestRun{Input: text("hi"), Asked: asked("")}})
	}
	d, err := open()
	require.NoError(t, err)
	require.Equal(t, "named", d.Meta.Name)
	require.Equal(t, "hi", d.Meta.Title)
	d, err = open()
	require.NoError(t, err)
	require.True(t, d.Replies[0].Same)
	w.untilIdle(k)
	require.Equal(t, 1, w.count(k, session.KindRunAccepted))
}
