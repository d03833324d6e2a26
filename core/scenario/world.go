package scenario

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/machine"
	"github.com/perdure/perdure/core/replay"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
)

// start is what the clock of a script says at first.
const start ident.Instant = 1000

// world is all that is outside of the session: log, rows, clock, tools, and
// the effects that somebody is performing.
type world struct {
	t    tester
	warm bool // the machine is kept from step to step
	m    *machine.Machine
	log  [][]byte
	rows rows
	at   ident.Instant
	laws laws

	tools      []tool
	inputLimit int64
	unpriced   bool

	pending []effect
	wake    ident.Instant
}

// tester is what a world needs of a test; rapid's has it, too.
type tester interface {
	require.TestingT
	Helper()
}

// effect is one that somebody performs now.
type effect struct {
	claim   session.Claim
	stopped bool // nobody waits for it any more
}

func newWorld(warm bool) *world {
	return &world{warm: warm, m: machine.New(session.State{}), at: start, rows: newRows(), laws: newLaws()}
}

// who takes a step: the session's driver, or an admission that is none.
type who bool

const (
	driver who = true
	api    who = false
)

func (a *args) taker() who { return who(!a.flag("api")) }

func (w *world) env(by who) session.Env {
	e := session.Env{At: w.at, Driver: bool(by), InputLimit: w.inputLimit, Priced: !w.unpriced}
	if by == driver {
		e.Offer = w.offer()
	}
	return e
}

// state is the committed state. A cold world has none but the log.
func (w *world) state() session.State {
	if !w.warm || w.m == nil {
		w.m = machine.New(w.fold())
	}
	return w.m.State()
}

func (w *world) fold() session.State {
	s, err := replay.Fold(bytes.Join(w.log, []byte("\n")), 0)
	require.NoError(w.t, err)
	return s
}

// step is one turn of the crank: step, commit, tell. It checks the laws.
func (w *world) step(by who, inputs ...session.Command) string {
	w.t.Helper()
	w.state()
	for _, in := range inputs {
		w.rows.complete(in)
		w.laws.heard(in)
	}
	env := w.env(by)
	rd := w.tried(env, inputs)
	for _, e := range rd.Entries {
		line, err := wire.Encode(e)
		require.NoError(w.t, err)
		w.log = append(w.log, line)
	}
	if n := len(rd.Entries); n > 0 {
		require.NoError(w.t, w.m.Commit(rd.Entries[n-1].Seq))
	} else {
		w.m.Drop()
	}
	w.follow(rd)
	out := w.show(rd)
	w.check(env, rd)
	return out
}

// tried takes the step three times: a first one that is dropped, as after a
// conflict, must leave no mark; and observed or not it is the same step.
func (w *world) tried(env session.Env, inputs []session.Command) machine.Ready {
	w.t.Helper()
	committed := w.m.State()
	sum := wire.StateSum(committed)
	other := w.decoy(env, &committed)
	first, err := w.m.Step(env, nil, inputs...)
	if err != nil {
		require.NoError(w.t, err)
	}
	firstState := *first.State
	firstSum := wire.StateSum(firstState)
	w.m.Drop()
	require.Equal(w.t, sum, wire.StateSum(w.m.State()), "a dropped step leaves a mark")

	last := sum
	observe := func(before *session.State, en session.Entry, after *session.State) {
		require.Equal(w.t, last, wire.StateSum(*before), "before %s it was not as it is shown", en.Event.Kind())
		last = wire.StateSum(*after)
		w.rows.observe(before, en, after)
		w.event(env, before, en)
	}
	rd, err := w.m.Step(env, observe, inputs...)
	require.NoError(w.t, err)
	require.Equal(w.t, sum, wire.StateSum(w.m.State()), "a step moves the state before its commit")
	require.Equal(w.t, firstSum, wire.StateSum(*rd.State), "the same step comes to another state")
	require.Equal(w.t, firstSum, wire.StateSum(firstState), "a step changes what a dropped one left")
	require.Equal(w.t, other.sum, wire.StateSum(other.s), "a step changes what another dropped one left")
	require.Equal(w.t, encoded(w.t, first.Entries), encoded(w.t, rd.Entries))
	require.Equal(w.t, first.Effects, rd.Effects)
	require.Equal(w.t, first.Cancels, rd.Cancels)
	require.Equal(w.t, first.WakeAt, rd.WakeAt)
	require.Equal(w.t, first.Work, rd.Work)
	return rd
}

// decoy is a step that somebody else would have taken, and that did not go
// through.
func (w *world) decoy(env session.Env, s *session.State) held {
	w.t.Helper()
	var in session.Command = &session.RequestRun{Input: []session.Part{{Text: blob.Inline("decoy")}}}
	switch r := s.Active; {
	case s.Status == session.New:
		return held{*s, wire.StateSum(*s)}
	case r != nil && r.Turn.Status == session.TurnInFlight:
		in = &session.ModelOutcome{Turn: r.Turn.ID, Attempt: r.Turn.Attempt, Text: blob.Inline("decoy"), Finish: "stop"}
	}
	rd, err := w.m.Step(env, nil, in)
	require.NoError(w.t, err)
	w.m.Drop()
	return held{*rd.State, wire.StateSum(*rd.State)}
}

func encoded(t tester, entries []session.Entry) []string {
	t.Helper()
	out := make([]string, 0, len(entries))
	for _, e := range entries {
		line, err := wire.Encode(e)
		require.NoError(t, err)
		out = append(out, string(line))
	}
	return out
}

// follow keeps who performs what after a commit.
func (w *world) follow(rd machine.Ready) {
	for _, c := range rd.Cancels {
		for i := range w.pending {
			if w.pending[i].claim == c {
				w.pending[i].stopped = true
			}
		}
	}
	for _, e := range rd.Effects {
		w.laws.facts.claimed(w.t, e.Claim())
		w.pending = append(w.pending, effect{claim: e.Claim()})
	}
	w.wake = rd.WakeAt
}

// done takes an effect off the list; what was stopped may still say something.
func (w *world) done(c session.Claim) {
	w.pending = slices.DeleteFunc(w.pending, func(p effect) bool { return p.claim == c })
}

// noise is what a line says in every script and no script is about.
var noise = regexp.MustCompile(` fingerprint=[0-9a-f]+…| model={provider=scripted model=m}| definition=[0-9a-f]+…| actor={id=ada} via=key| by=ada via=key|` +
	` digest=[0-9a-f]+…| limits={maxTurns=50 maxRepeats=3} context={compaction={mode=auto}} approvals={default=action}`)

func (w *world) show(rd machine.Ready) string {
	var b strings.Builder
	for _, r := range rd.Results {
		b.WriteString(showResult(r, len(rd.Entries) > 0))
	}
	for _, e := range rd.Entries {
		fmt.Fprintf(&b, "%s\n", noise.ReplaceAllString(replay.Line(e), ""))
	}
	for _, c := range rd.Cancels {
		fmt.Fprintf(&b, "stop %s\n", c)
	}
	for _, e := range rd.Effects {
		fmt.Fprintf(&b, "start %s%s\n", e.Claim(), w.notBefore(e))
	}
	if len(rd.Entries) > 0 && rd.WakeAt != 0 {
		fmt.Fprintf(&b, "wake %s\n", w.when(rd.WakeAt))
	}
	if rd.Work {
		b.WriteString("work for a driver\n")
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

func (w *world) notBefore(e session.Effect) string {
	if r, ok := e.(*session.RunTool); ok && r.NotBefore > w.at {
		return " not before " + w.when(r.NotBefore)
	}
	return ""
}

// when is an instant as the time from now.
func (w *world) when(at ident.Instant) string {
	ms := int64(at - w.at)
	switch {
	case ms%ident.Day == 0 && ms != 0:
		return fmt.Sprintf("in %dd", ms/ident.Day)
	case ms%ident.Hour == 0 && ms != 0:
		return fmt.Sprintf("in %dh", ms/ident.Hour)
	case ms%ident.Minute == 0 && ms != 0:
		return fmt.Sprintf("in %dm", ms/ident.Minute)
	case ms%ident.Second == 0:
		return fmt.Sprintf("in %ds", ms/ident.Second)
	}
	return fmt.Sprintf("in %dms", ms)
}

func showResult(r machine.Result, wrote bool) string {
	if r.Refused != nil {
		return "refused " + showRefusal(r.Refused) + "\n"
	}
	var b strings.Builder
	p := r.Reply
	p.Same = p.Same && !wrote
	if p.Run != 0 || p.Steering != 0 || p.Same {
		b.WriteString("->")
		if p.Run != 0 {
			fmt.Fprintf(&b, " %s", p.Run)
		}
		if p.Steering != 0 {
			fmt.Fprintf(&b, " %s", p.Steering)
		}
		if p.Same {
			b.WriteString(" same")
		}
		b.WriteString("\n")
	}
	for _, d := range p.Decisions {
		fmt.Fprintf(&b, "%s %s", d.Approval, d.Status)
		if d.Refused != nil {
			fmt.Fprintf(&b, " refused %s", showRefusal(d.Refused))
		}
		b.WriteString("\n")
	}
	for _, e := range p.Edits {
		fmt.Fprintf(&b, "%s%s %s", e.Key, entryName(e), e.Status)
		if e.Refused != nil {
			fmt.Fprintf(&b, " %s", showRefusal(e.Refused))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func entryName(e session.EditReply) string {
	if e.Key != "" || e.Entry == 0 {
		return ""
	}
	return e.Entry.String()
}

func showRefusal(r *session.Rejection) string {
	out := string(r.Code) + ": " + r.Message
	if r.Code == session.CodeRevisionConflict {
		out += fmt.Sprintf(" (expected %d, actual %d)", r.Expected, r.Current)
	}
	return out
}
