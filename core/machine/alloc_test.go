package machine_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/machine"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
)

// play is a session on a machine whose log is kept.
type play struct {
	tb  testing.TB
	m   *machine.Machine
	at  ident.Instant
	log []session.Entry
}

func open(tb testing.TB) *play {
	tb.Helper()
	p := &play{tb: tb, m: machine.New(session.State{}), at: 1000}
	p.step(&session.OpenSession{Inc: "01INC", Config: session.Config{
		Model: session.Model{Provider: "scripted", Model: "m"}, Limits: session.Limits{MaxTurns: 1 << 40, MaxRepeats: -1},
	}})
	return p
}

func offer() session.Offer {
	return session.Offer{Ref: string(blob.Sum([]byte("tools"))), Size: 100, Tools: []session.ToolDef{
		{Name: "read", WireName: "read", Kind: "read", Class: session.ClassInline, RetrySafe: true, Parallel: true, Definition: "d"},
	}}
}

func (p *play) step(in ...session.Command) machine.Ready {
	p.tb.Helper()
	p.at++
	rd, err := p.m.Step(session.Env{At: p.at, Driver: true, Offer: offer()}, nil, in...)
	require.NoError(p.tb, err)
	p.log = append(p.log, rd.Entries...)
	if n := len(rd.Entries); n > 0 {
		require.NoError(p.tb, p.m.Commit(rd.Entries[n-1].Seq))
	}
	return rd
}

func (p *play) ask() {
	p.tb.Helper()
	p.step(&session.RequestRun{Input: []session.Part{{Text: blob.Inline("what now?")}}})
}

func (p *play) turn() ident.TurnID {
	s := p.m.State()
	return s.Active.Turn.ID
}

func asks(turn ident.TurnID) *session.ModelOutcome {
	return &session.ModelOutcome{
		Turn: turn, Attempt: 1, Text: blob.Inline("I look."), Finish: "tools", Usage: session.Usage{Input: 100, Output: 10},
		Calls: []session.ProposedCall{{Tool: "read", WireName: "read", Arguments: blob.Inline(`{"path":"a"}`), Verdict: session.VerdictOK}},
	}
}

func answers(turn ident.TurnID) *session.ToolOutcome {
	return &session.ToolOutcome{Call: ident.CallID{Turn: turn, Index: 1}, Attempt: 1, Text: blob.Inline("forty-two")}
}

// round is one turn of model and tool, in two commits.
func (p *play) round() {
	p.tb.Helper()
	turn := p.turn()
	p.step(asks(turn))
	p.step(answers(turn))
}

// filled is a session with a run under way and about n entries in the window.
func filled(tb testing.TB, n int) *play {
	tb.Helper()
	p := open(tb)
	for {
		p.ask()
		for range 20 {
			p.round()
		}
		if s := p.m.State(); len(s.Context.Entries) >= n {
			return p
		}
		p.step(&session.ModelOutcome{Turn: p.turn(), Attempt: 1, Text: blob.Inline("Done."), Finish: "stop"})
	}
}

// TestStepAllocatesTheSameAtAnyWindow holds a step to costing its events: what
// is there already is shared, never copied.
func TestStepAllocatesTheSameAtAnyWindow(t *testing.T) { //nolint:paralleltest // it counts the allocations of the process
	small, large := open(t), filled(t, 5000)
	small.ask()
	// Room for what the measured steps append, so that the growth of the
	// slice, which is rare and amortised, is not what is measured.
	for range 3 {
		small.round()
		large.round()
	}
	measure := func(p *play, in session.Command) float64 {
		return testing.AllocsPerRun(20, func() {
			_, err := p.m.Step(session.Env{At: p.at, Driver: true, Offer: offer()}, nil, in)
			if err != nil {
				panic(err)
			}
		})
	}
	s, l := small.m.State(), large.m.State()
	require.Less(t, len(s.Context.Entries), 10)
	require.GreaterOrEqual(t, len(l.Context.Entries), 5000)
	require.InDelta(t, measure(small, &session.SteerRun{Run: s.Active.ID, Text: []session.Part{{Text: blob.Inline("x")}}}),
		measure(large, &session.SteerRun{Run: l.Active.ID, Text: []session.Part{{Text: blob.Inline("x")}}}), 0)
	require.InDelta(t, measure(small, asks(small.turn())), measure(large, asks(large.turn())), 0)
}

// TestBytesOfAStepDoNotGrowWithTheWindow is the same in bytes, over many
// committed rounds, with the growth of the window's slice.
func TestBytesOfAStepDoNotGrowWithTheWindow(t *testing.T) { //nolint:paralleltest // it counts the bytes of the process
	bytesOf := func(n int) uint64 {
		p := filled(t, n)
		const rounds = 2000
		p.log = make([]session.Entry, 0, 20*rounds)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range rounds {
			p.round()
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / rounds
	}
	small, large := bytesOf(40), bytesOf(5000)
	require.Less(t, large, 2*small, "a round at 40 entries takes %d bytes, at 5,000 it takes %d", small, large)
}

// TestEventsDoNotGrowWithTheContext is engine 10.47: what a turn writes is the
// same at any size of the window.
func TestEventsDoNotGrowWithTheContext(t *testing.T) {
	t.Parallel()
	written := func(p *play) map[string]int {
		out := map[string]int{}
		p.log = nil
		p.round()
		for _, e := range p.log {
			e.Seq, e.At = 1, 1
			switch ev := e.Event.(type) {
			case *session.TurnRequested:
				// Its numbers have more digits, that is all.
				ev.Run, ev.Turn, ev.Through, ev.ContextRevision, ev.Estimate = 1, 1, 1, 1, 1
			case *session.MessageAdded:
				ev.Entry, ev.Run, ev.Turn = 1, 1, 1
			case *session.ToolCalled:
				ev.Run, ev.Turn = 1, 1
			case *session.TurnCompleted:
				ev.Run, ev.Turn = 1, 1
			case *session.ToolStarted:
				ev.Run, ev.Turn = 1, 1
			case *session.ToolCompleted:
				ev.Run, ev.Turn = 1, 1
			}
			line, err := wire.Encode(e)
			require.NoError(t, err)
			out[string(e.Event.Kind())] = len(line)
		}
		return out
	}
	small, large := open(t), filled(t, 2000)
	small.ask()
	require.Equal(t, written(small), written(large))
}

// TestLogHoldsEachPayloadOnce is T57 for the log: after 500 turns it has at most
// one and a half times the bytes of what was said.
func TestLogHoldsEachPayloadOnce(t *testing.T) {
	t.Parallel()
	p := open(t)
	said := 0
	text := func(i int) blob.Payload {
		s := fmt.Sprintf("turn %d: ", i)
		for len(s) < 3000 {
			s += "some text that is said once and never again, "
		}
		said += len(s)
		return blob.Inline(s)
	}
	p.step(&session.RequestRun{Input: []session.Part{{Text: text(0)}}})
	for i := range 500 {
		turn := p.turn()
		o := asks(turn)
		o.Text = text(2*i + 1)
		p.step(o)
		r := answers(turn)
		r.Text = text(2*i + 2)
		p.step(r)
	}
	stored := 0
	for _, e := range p.log {
		line, err := wire.Encode(e)
		require.NoError(t, err)
		stored += len(line)
	}
	require.LessOrEqual(t, float64(stored), 1.5*float64(said))
}

// history is a realistic log: runs of several rounds, one after the other.
func history(tb testing.TB, n int) []session.Entry {
	tb.Helper()
	p := open(tb)
	for len(p.log) < n {
		p.ask()
		for range 5 {
			p.round()
		}
		p.step(&session.ModelOutcome{Turn: p.turn(), Attempt: 1, Text: blob.Inline("Done."), Finish: "stop", Usage: session.Usage{Input: 100, Output: 10}})
	}
	return p.log
}

// BenchmarkApply folds decoded entries; the bar is a million a second.
func BenchmarkApply(b *testing.B) {
	log := history(b, 100_000)
	b.ReportAllocs()
	b.ResetTimer()
	events := 0
	for b.Loop() {
		var s session.State
		s.Own()
		for _, e := range log {
			if err := session.Apply(&s, e); err != nil {
				b.Fatal(err)
			}
		}
		events += len(log)
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkRound is one turn of model and tool: two steps, two commits.
func BenchmarkRound(b *testing.B) {
	for _, n := range []int{20, 5000} {
		b.Run(fmt.Sprintf("window=%d", n), func(b *testing.B) {
			p := filled(b, n)
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				p.log = p.log[:0]
				p.round()
			}
		})
	}
}

// BenchmarkAdmission is a steer on a run in flight, not committed.
func BenchmarkAdmission(b *testing.B) {
	p := filled(b, 500)
	s := p.m.State()
	in := &session.SteerRun{Run: s.Active.ID, Text: []session.Part{{Text: blob.Inline("x")}}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.m.Step(session.Env{At: p.at}, nil, in); err != nil {
			b.Fatal(err)
		}
	}
}
