package inbox_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/scripted"
	"github.com/perdure/perdure/internal/cloud/inbox"
	"github.com/perdure/perdure/internal/host"
)

func TestACommandIsARequestInItsActorsName(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.done(w.open("s"), w.run("s", "k1", "hello"))
	w.idle("s")
	runs := all[*session.RunAccepted](w.log("s"))
	require.Len(t, runs, 1)
	require.Equal(t, session.Actor{ID: "U1", Roles: []string{"lead"}}, runs[0].Actor)
	require.Equal(t, "slack", runs[0].Via)
	require.EqualValues(t, "k1", runs[0].Submission.ID)
	require.Equal(t, "hello", runs[0].Input[0].Text.Text)
	require.Len(t, w.model.Requests(), 1)

	// A body that is too large for a message lies beside it.
	text := strings.Repeat("x", 10_000)
	body := []byte(`{"input":"` + text + `"}`)
	ref := blob.Sum(body)
	require.NoError(t, w.store.PutBlob(t.Context(), key("s"), host.Blob{Ref: ref, Data: body}))
	w.done(w.msg("s", "/runs", "k2", nil, with("ref", string(ref))))
	w.idle("s")
	require.EqualValues(t, len(text), all[*session.RunAccepted](w.log("s"))[1].Input[0].Text.Size)
}

// A command is put in a queue that delivers at least once, to a function that
// is invoked at least once. The event is delivered three times: one turn.
func TestT35AnEventDeliveredThreeTimesIsOneTurn(t *testing.T) {
	t.Parallel()
	w := setup(t)
	batch := []inbox.Message{w.open("s"), w.run("s", "k1", "hello")}
	for range 3 {
		w.done(batch...)
	}
	// Nor when all three are on their way at once.
	at := make(chan []string)
	again := w.run("s", "k2", "again")
	for range 3 {
		go func() { at <- w.inbox.Take(t.Context(), []inbox.Message{again}) }()
	}
	for range 3 {
		require.Empty(t, <-at)
	}
	w.idle("s")
	require.Len(t, all[*session.RunAccepted](w.log("s")), 2)
	require.Len(t, w.model.Requests(), 2)
}

// T37: what came in a day comes again, each session's in any order: no new run,
// no new event, no effect a second time.
func TestT37RedeliveredCommandsHaveNoSecondEffect(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*testing.T) *world{"memory": setup, "sqlite": overSQLite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := begin(t)
			const sessions = 3
			var day [sessions][]inbox.Message
			for i := range sessions {
				day[i] = w.day(fmt.Sprintf("s%d", i))
			}
			var logs [sessions]int
			for i := range sessions {
				logs[i] = len(w.log(fmt.Sprintf("s%d", i)))
			}
			turns, effects := len(w.model.Requests()), w.effects.Load()
			require.EqualValues(t, sessions, effects)

			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			for range 5 {
				for i := range sessions {
					rng.Shuffle(len(day[i]), func(a, b int) { day[i][a], day[i][b] = day[i][b], day[i][a] })
					w.done(day[i]...)
				}
			}
			for i := range sessions {
				require.Len(t, w.log(fmt.Sprintf("s%d", i)), logs[i], "s%d has moved", i)
			}
			require.Len(t, w.model.Requests(), turns)
			require.Equal(t, effects, w.effects.Load())
		})
	}
}

// day lives through a session: every command that there is. It returns them.
func (w *world) day(id string) []inbox.Message {
	w.t.Helper()
	var sent []inbox.Message
	send := func(messages ...inbox.Message) {
		w.t.Helper()
		w.done(messages...)
		sent = append(sent, messages...)
	}
	gate, begun := make(chan struct{}), make(chan struct{})
	w.model.For(key(id).Session,
		scripted.Step{Calls: []scripted.Call{{Tool: "t.write", Arguments: "{}"}}},
		scripted.Step{Text: "written"},
		scripted.Step{Text: "long", Gate: gate, Begun: func() { close(begun) }},
		scripted.Step{Text: "the steer is read"},
		scripted.Step{Text: "a summary"}, scripted.Step{Text: "last"}, scripted.Step{Text: "more"},
	)
	send(w.open(id), w.run(id, "r1", "write it"))
	waits := w.until(id, "an approval", func(s *session.State) bool { return s.Active != nil && len(s.Active.Approvals) > 0 })
	send(w.msg(id, "/approvals/"+waits.State.Active.Approvals[0].ID.String(), "a1", m{"decision": "approve"}))
	w.idle(id)
	send(w.run(id, "r2", "take long"), w.run(id, "r3", "never mind"))
	select {
	case <-begun:
	case <-time.After(patience):
		require.Fail(w.t, "the model is not called")
	}
	send(
		w.msg(id, "/runs/run_2/steer", "st1", m{"input": "and this"}),
		w.msg(id, "/runs/run_3/cancel", "c1", nil),
		w.msg(id, "/runs", "r4", m{"input": "not now", "mode": "reject"}), // is refused
		w.msg(id, "/runs/run_1/cancel", "c2", nil),                        // is over
		w.msg(id, "/runs/run_9/cancel", "c3", nil),                        // is not there
	)
	close(gate)
	w.idle(id)
	send(w.msg(id, "/close", "x1", nil), w.run(id, "r5", "too late"))
	require.Equal(w.t, session.Closed, w.idle(id).State.Status)
	return sent
}

// T79: a command that cannot be processed holds up its own session only, and
// that only until it is given up: then the session shows it as dead, and the
// next one goes on.
func TestT79APoisonedCommandLetsTheNextGoOn(t *testing.T) {
	t.Parallel()
	for name, poison := range map[string]func(w *world) inbox.Message{
		"unavailable": func(w *world) inbox.Message {
			w.poison(unavailable)
			return w.run("a", "poison-a", "sekret")
		},
		"a panic": func(w *world) inbox.Message {
			w.poison(func(http.ResponseWriter, *http.Request) { panic("sekret") })
			return w.run("a", "poison-a", "sekret")
		},
		"malformed": func(w *world) inbox.Message { return w.msg("a", "/runs?x=sekret", "k", m{"input": "sekret"}) },
		"of a newer build": func(w *world) inbox.Message {
			return w.msg("a", "/runs", "k", m{"input": "sekret"}, with("v", 2))
		},
		"of a wrong type": func(w *world) inbox.Message {
			return w.msg("a", "/runs", "k", m{"input": "sekret"}, with("actor", "sekret"))
		},
	} {
		for _, most := range []int{1, 10} {
			t.Run(fmt.Sprintf("%s, batches of %d", name, most), func(t *testing.T) {
				t.Parallel()
				w := setup(t)
				w.done(w.open("a"), w.open("b"))
				first, second := poison(w), w.run("a", "a2", "go on")
				b1, b2 := w.run("b", "b1", "one"), w.run("b", "b2", "two")

				// One batch: the rest of the group waits, the other goes on.
				require.Equal(t, []string{first.ID, second.ID}, w.inbox.Take(t.Context(), []inbox.Message{first, second, b1, b2}))
				require.Len(t, all[*session.RunAccepted](w.log("b")), 2)
				require.Empty(t, all[*session.RunAccepted](w.log("a")))

				// The queue goes on until it gives the poison up.
				q := &queue{most: most}
				q.send(first, second, b1, b2)
				q.drain(t.Context(), w.inbox)
				require.Equal(t, []string{first.ID}, q.dead)
				w.idle("a")
				log := w.log("a")
				dead := all[*session.CommandDead](log)
				require.Len(t, dead, 1)
				require.Equal(t, "inbox", dead[0].Source)
				require.Equal(t, first.ID, dead[0].ID)
				require.EqualValues(t, 3, dead[0].Receives)
				require.NotEmpty(t, dead[0].Code)
				runs := all[*session.RunAccepted](log)
				require.Len(t, runs, 1)
				require.Equal(t, "go on", runs[0].Input[0].Text.Text)
				require.Len(t, all[*session.RunAccepted](w.log("b")), 2)
				require.NotContains(t, w.said.String(), "sekret")
				require.NotContains(t, fmt.Sprintf("%+v", dead[0]), "sekret")
			})
		}
	}
}

func TestTheLastDeliveryMayComeTwice(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.done(w.open("a"))
	w.poison(unavailable)
	last := w.msg("a", "/runs", "poison-1", m{"input": "x"}, with("via", "webhook"))
	last.Receives = 3
	for range 2 {
		require.Equal(t, []string{last.ID}, w.inbox.Take(t.Context(), []inbox.Message{last}))
	}
	dead := all[*session.CommandDead](w.log("a"))
	require.Len(t, dead, 1)
	require.Equal(t, session.CommandDead{
		Source: "inbox", ID: last.ID, Command: "POST /runs", Submission: "poison-1", Receives: 3, Code: "unavailable", Detail: "HTTP 503",
		Who: session.Who{By: "U1", Via: "webhook"},
	}, *dead[0])

	// Redriven once the fault is over, it takes effect.
	w.fault.Store(nil)
	last.ID, last.Receives = "redriven", 1
	w.done(last)
	require.Len(t, all[*session.RunAccepted](w.log("a")), 1)
}

// A session that was deleted and made anew does not get what was for the one
// before, and is not told of it either.
func TestAMessageOfAnotherLifeIsDropped(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.done(w.open("s"))
	inc := w.idle("s").Head.Inc
	w.done(w.msg("s", "/runs", "k1", m{"input": "x"}, with("inc", "01OLD")))
	require.Empty(t, all[*session.RunAccepted](w.log("s")))
	w.done(w.msg("gone", "/runs", "k1", m{"input": "x"}, with("inc", inc)))
	w.done(w.msg("gone", "/runs", "k1", m{"input": "x"})) // is refused: there is no such session
	w.done(w.msg("s", "/runs", "k1", m{"input": "x"}, with("inc", inc)))
	require.Len(t, all[*session.RunAccepted](w.log("s")), 1)

	poisoned := w.msg("s", "/runs", "k2", m{"input": "x"}, with("inc", "01OLD"), with("via", "carrier pigeon"))
	poisoned.Receives = 3
	require.Len(t, w.inbox.Take(t.Context(), []inbox.Message{poisoned}), 1)
	require.Empty(t, all[*session.CommandDead](w.log("s")))
}

func TestWhatIsDoneAndWhatFails(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.done(w.open("a"))
	for name, c := range map[string]struct {
		status int
		code   string
		done   bool
	}{
		"taken":                  {202, "", true},
		"taken before":           {200, "", true},
		"not for this actor":     {403, "forbidden", true},
		"not there":              {404, "not_found", true},
		"used for another":       {409, "submission_conflict", true},
		"closed":                 {409, "session_closed", true},
		"busy":                   {409, "session_busy", true},
		"over":                   {409, "run_not_active", true},
		"full":                   {409, "limit_reached", true},
		"too large":              {413, "too_large", true},
		"not valid":              {422, "validation_failed", true},
		"moved":                  {409, "revision_conflict", false},
		"frozen":                 {409, "session_quarantined", false},
		"being deleted":          {409, "already_exists", false},
		"slow":                   {408, "", false},
		"early":                  {425, "", false},
		"over budget":            {429, "quota_exceeded", false},
		"a mistake of ours":      {500, "internal", false},
		"not available":          {503, "unavailable", false},
		"answered by no problem": {502, "", false},
	} {
		w.poison(func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(c.status)
			if c.code != "" {
				_, _ = fmt.Fprintf(rw, `{"code":%q,"detail":"sekret"}`, c.code)
			}
		})
		failed := w.inbox.Take(t.Context(), []inbox.Message{w.run("a", "poison", "sekret")})
		require.Equal(t, c.done, len(failed) == 0, name)
	}
	require.NotContains(t, w.said.String(), "sekret")
	require.Contains(t, w.said.String(), `"msg":"a command is refused","message":"m`)
	require.Contains(t, w.said.String(), `"code":"limit_reached"`)
}

// A request that hangs until the function's time is over leaves enough of it to
// say so.
func TestTheLastTryLeavesTimeForTheNote(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.done(w.open("a"))
	w.poison(func(rw http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		unavailable(rw, r)
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	short, end := context.WithTimeout(ctx, inbox.NoteWithin+10*time.Millisecond)
	defer end()
	last := w.run("a", "poison-1", "x")
	last.Receives = 3
	require.Equal(t, []string{last.ID}, w.inbox.Take(short, []inbox.Message{last}))
	require.Len(t, all[*session.CommandDead](w.log("a")), 1)
}

// What waits behind a failure is told too when it is given up untried.
func TestUntriedAndGivenUp(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.done(w.open("a"))
	w.poison(unavailable)
	first, second := w.run("a", "poison-1", "x"), w.run("a", "k2", "y")
	first.Receives, second.Receives = 2, 3
	require.Equal(t, []string{first.ID, second.ID}, w.inbox.Take(t.Context(), []inbox.Message{first, second}))
	dead := all[*session.CommandDead](w.log("a"))
	require.Len(t, dead, 1)
	require.Equal(t, second.ID, dead[0].ID)
	require.Contains(t, dead[0].Detail, "not tried")
}
