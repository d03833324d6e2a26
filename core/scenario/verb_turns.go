package scenario

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
)

// verbTurns plays that many runs of a question and an answer, and shows the
// cuts that they came to: turns 19.
func verbTurns(w *world, a *args) string {
	var b strings.Builder
	for n := a.number(); n > 0; n-- {
		run := w.state().Cursors.Run + 1
		b.WriteString(cuts(w.step(driver, &session.RequestRun{
			Input: []session.Part{{Text: blob.Inline(fmt.Sprintf("question %d", run))}}, Asked: a.asked(),
		})))
		turn, attempt := w.modelCall(a)
		w.done(session.Claim{Kind: session.ClaimModel, Turn: turn, Attempt: attempt})
		b.WriteString(cuts(w.step(driver, &session.ModelOutcome{
			Turn: turn, Attempt: attempt, Text: blob.Inline(fmt.Sprintf("answer %d", run)), Finish: "stop",
		})))
	}
	return b.String() + w.head()
}

// verbRounds plays that many rounds of the active run, each a call of read and
// its result, and shows the cuts that they came to: rounds 30.
func verbRounds(w *world, a *args) string {
	var b strings.Builder
	for n := a.number(); n > 0; n-- {
		turn, attempt := w.modelCall(a)
		s := w.state()
		w.done(session.Claim{Kind: session.ClaimModel, Turn: turn, Attempt: attempt})
		b.WriteString(cuts(w.step(driver, &session.ModelOutcome{
			Turn: turn, Attempt: attempt, Finish: "tools",
			Calls: []session.ProposedCall{w.screen(&s, "read", fmt.Sprintf(`{"n":%d}`, turn))},
		})))
		w.done(session.Claim{Kind: session.ClaimTool, Turn: turn, Call: 1, Attempt: 1})
		b.WriteString(cuts(w.step(driver, &session.ToolOutcome{
			Call: ident.CallID{Turn: turn, Index: 1}, Attempt: 1, Text: blob.Inline(fmt.Sprintf("text of %d", turn)),
		})))
	}
	return b.String() + w.head()
}

// cuts are the lines that a script wants to see of many.
func cuts(out string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(out, "\n") {
		if strings.Contains(line, " context.") || strings.Contains(line, " run.failed") || strings.Contains(line, "refused") {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

func (w *world) head() string {
	s := w.state()
	return fmt.Sprintf("at %d, window of %d\n", s.Seq, len(s.Context.Lead)+len(s.Context.Entries))
}

// verbMany lets the model ask for that many calls of read at once, and answers
// all that run: many 40.
func verbMany(w *world, a *args) string {
	turn, attempt := w.modelCall(a)
	s := w.state()
	o := &session.ModelOutcome{Turn: turn, Attempt: attempt, Finish: "tools"}
	for i := range a.number() {
		o.Calls = append(o.Calls, w.screen(&s, "read", strconv.FormatUint(i+1, 10)))
	}
	w.done(session.Claim{Kind: session.ClaimModel, Turn: turn, Attempt: attempt})
	w.step(driver, o)
	ran := 0
	for len(w.pending) > 0 && w.pending[0].claim.Kind == session.ClaimTool {
		c := w.pending[0].claim
		w.done(c)
		w.step(driver, &session.ToolOutcome{Call: ident.CallID{Turn: c.Turn, Index: c.Call}, Attempt: c.Attempt, Text: blob.Inline("ok")})
		ran++
	}
	return fmt.Sprintf("%d calls, %d ran\n", len(o.Calls), ran) + w.head()
}

// verbSize says whether a checkpoint of the state is below a size: size below=2000.
func verbSize(w *world, a *args) string {
	data, err := wire.EncodeCheckpoint(w.state())
	require.NoError(w.t, err)
	if most := a.num("below", 0); int64(len(data)) < most {
		return fmt.Sprintf("below %d bytes\n", most)
	}
	return fmt.Sprintf("%d bytes\n", len(data))
}
