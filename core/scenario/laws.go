package scenario

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/machine"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
)

// laws is what must be so after every step, whatever a script does. The names
// are those of docs/INVARIANTS.md, and G1 and G2 of the scenario list.
type laws struct {
	rng  *rand.Rand
	held []held
	// last is the request of the newest turn, as it was claimed; fresh says
	// that a recorded cut, edit, or change of tools or model has come since.
	turn  ident.TurnID
	last  []string
	model session.Model
	fresh bool
	facts facts
}

// held is a copy of a state that was good once, and must stay so.
type held struct {
	s   session.State
	sum string
}

func newLaws() laws {
	return laws{rng: rand.New(rand.NewPCG(1, 2)), facts: newFacts()}
}

func (w *world) check(env session.Env, rd machine.Ready) {
	w.t.Helper()
	s := w.m.State()
	w.folds(s)
	if len(rd.Results) == 0 || !slices.ContainsFunc(rd.Results, refused) {
		w.rests(env, s)
	}
	w.settled(s)
	w.requests(s)
	w.inOrder(s)
	w.bounded(s)
	w.wakes(env, s, rd.WakeAt)
	w.laws.held = append(w.laws.held, held{s, wire.StateSum(s)})
	if n := len(w.laws.held); n > 0 {
		h := w.laws.held[w.laws.rng.IntN(n)]
		require.Equal(w.t, h.sum, wire.StateSum(h.s), "a copy of the state at %d is not what it was", h.s.Seq)
	}
}

// oldCopies looks at every copy of the state that was taken on the way.
func (w *world) oldCopies() {
	w.t.Helper()
	for _, h := range w.laws.held {
		require.Equal(w.t, h.sum, wire.StateSum(h.s), "a copy of the state at %d is not what it was", h.s.Seq)
	}
}

// folds is G2 and I2: the fold of the whole log, that of a checkpoint and the
// tail after it, and the live state are one.
func (w *world) folds(s session.State) {
	w.t.Helper()
	want := wire.StateSum(s)
	require.Equal(w.t, want, wire.StateSum(w.fold()), "G2: the fold of the log is another state")
	if len(w.log) < 2 {
		return
	}
	cut := 1 + w.laws.rng.IntN(len(w.log)-1)
	var early session.State
	early.Own()
	w.foldLines(&early, w.log[:cut])
	data, err := wire.EncodeCheckpoint(early)
	require.NoError(w.t, err)
	late, err := wire.DecodeCheckpoint(data, early.Inc, early.Seq)
	require.NoError(w.t, err)
	late.Own()
	w.foldLines(&late, w.log[cut:])
	require.Equal(w.t, want, wire.StateSum(late), "G2: checkpoint at %d and its tail are another state", cut)
}

func (w *world) foldLines(s *session.State, lines [][]byte) {
	w.t.Helper()
	for _, line := range lines {
		en, err := wire.Decode(line)
		require.NoError(w.t, err)
		again, err := wire.Encode(en)
		require.NoError(w.t, err)
		require.True(w.t, bytes.Equal(line, again))
		require.NoError(w.t, session.Apply(s, en))
	}
}

func refused(r machine.Result) bool { return r.Refused != nil }

// rests: after a step there is nothing left to plan for who took it.
func (w *world) rests(env session.Env, s session.State) {
	w.t.Helper()
	if s.Status == session.New {
		return
	}
	f := s.Fork()
	ev, _ := session.Plan(&f, env)
	require.Empty(w.t, ev, "a step ends before planning does")
}

// requests is G1, I5 and I15: every request is well formed, stays what it was
// while it is in flight, and extends the one before unless a fact says why not.
func (w *world) requests(s session.State) {
	w.t.Helper()
	if a := s.Active; a == nil || a.Batch == nil || a.Batch.Open == 0 {
		require.Empty(w.t, wellFormed(&s.Context), "G1")
	}
	if s.Active == nil || s.Active.Turn.Status != session.TurnInFlight {
		return
	}
	t := &s.Active.Turn
	now := request(&s)
	require.Equal(w.t, lastEntry(&s.Context), t.Through, "the request in flight was changed")
	switch {
	case t.ID == w.laws.turn:
		require.Equal(w.t, w.laws.last, now, "the request in flight was changed")
	case w.laws.fresh || w.laws.turn == 0:
	default:
		require.True(w.t, len(now) >= len(w.laws.last) && slices.Equal(now[:len(w.laws.last)], w.laws.last),
			"I15: the request of %s does not extend the one before:\n%s\n\nafter\n%s", t.ID, strings.Join(now, "\n"), strings.Join(w.laws.last, "\n"))
	}
	w.laws.turn, w.laws.last, w.laws.fresh = t.ID, now, false
}

func lastEntry(c *session.Context) ident.EntryID {
	if n := len(c.Entries); n > 0 {
		return c.Entries[n-1].ID
	}
	return 0
}

// inOrder is I4: front runs before the others, each in order of admission.
func (w *world) inOrder(s session.State) {
	w.t.Helper()
	require.True(w.t, slices.IsSortedFunc(s.Queue, func(a, b *session.Run) int {
		switch {
		case a.Front != b.Front && a.Front:
			return -1
		case a.Front != b.Front:
			return 1
		}
		return int(a.ID) - int(b.ID)
	}), "I4: the queue is out of order")
	require.False(w.t, s.Active == nil && len(s.Queue) > 0 && s.Context.Compaction.Phase != session.CompactionRuns, "a queued run is not started")
}

// wakes is half of I9: whatever ends by itself, the session is woken for it.
func (w *world) wakes(env session.Env, s session.State, at ident.Instant) {
	w.t.Helper()
	by := func(what string, deadline ident.Instant) {
		require.True(w.t, deadline == 0 || at != 0 && at <= deadline, "nobody wakes the session for %s", what)
	}
	for _, p := range s.Promises {
		if p.Status == session.Pending {
			by(p.ID.String(), p.Deadline)
		}
	}
	r := s.Active
	if r == nil {
		return
	}
	if r.Ending != nil {
		if !r.Ending.Force {
			by("the watchdog", r.Ending.At.Add(session.CancelWatchdog))
		}
		return
	}
	if r.Limits.MaxSeconds > 0 && !(r.Wait.Since != 0 && r.Wait.Person) {
		by("maxSeconds", r.StartedAt.Add(r.Limits.MaxSeconds*ident.Second+r.Wait.PersonMs))
	}
	for _, a := range r.Approvals {
		if a.Status == session.Pending {
			by(a.ID.String(), a.ExpiresAt)
		}
	}
	for _, q := range r.Questions {
		by(q.ID.String(), q.ExpiresAt)
	}
	by("the next attempt", r.Turn.RetryAt)
	if r.Batch == nil || r.Batch.Open == 0 {
		return
	}
	for i := range r.Batch.Calls {
		switch c := &r.Batch.Calls[i]; c.Status {
		case session.CallWaiting:
			by("an await", c.AwaitUntil)
		case session.CallCalled:
			if c.NotBefore > env.At {
				by("a call's next attempt", c.NotBefore)
			}
		}
	}
}

// bounded is I16: nothing in state grows with age.
func (w *world) bounded(s session.State) {
	w.t.Helper()
	require.LessOrEqual(w.t, len(s.Queue), session.QueueMax+session.SteersMax+session.PromisesMax)
	settled := 0
	for _, p := range s.Promises {
		if p.Status != session.Pending {
			settled++
			require.True(w.t, !p.Joined || s.Active != nil && s.Active.Batch != nil && s.Active.Batch.Turn == p.Turn, "%s is kept", p.ID)
		}
	}
	require.LessOrEqual(w.t, settled, session.SettledMax)
	require.LessOrEqual(w.t, len(s.Promises)-settled, session.PromisesMax)
	require.LessOrEqual(w.t, len(s.Remembered), session.RememberedMax)
	require.LessOrEqual(w.t, len(s.Context.Instructions), session.KeyedMax)
	require.LessOrEqual(w.t, len(s.Context.Lead), 2)
	r := s.Active
	if r == nil {
		return
	}
	require.LessOrEqual(w.t, len(r.Steers), session.SteersMax)
	require.LessOrEqual(w.t, len(r.Approvals), 4*session.ApprovalsMax)
	require.LessOrEqual(w.t, len(r.Questions), session.QuestionsMax)
	require.LessOrEqual(w.t, len(r.Repeats), session.RepeatsTracked)
	require.LessOrEqual(w.t, len(r.Unknowns), session.UnknownsMax)
	if r.Batch != nil {
		require.LessOrEqual(w.t, len(r.Batch.Calls), session.CallsKept)
		running := 0
		for i := range r.Batch.Calls {
			if r.Batch.Calls[i].Status == session.CallRunning {
				running++
			}
		}
		require.LessOrEqual(w.t, running, session.InFlightMax)
	}
}
