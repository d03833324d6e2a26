package replay_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/machine"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
)

// recorder plays a session on the real machine and keeps the log.
type recorder struct {
	t   testing.TB
	m   *machine.Machine
	at  ident.Instant
	log bytes.Buffer
}

func record(tb testing.TB) *recorder {
	tb.Helper()
	return &recorder{t: tb, m: machine.New(session.State{}), at: 1790000000000}
}

func (r *recorder) step(commands ...session.Command) machine.Ready {
	r.t.Helper()
	r.at = r.at.Add(250)
	env := session.Env{At: r.at, Driver: true, Offer: offer(), InputLimit: 200000}
	ready, err := r.m.Step(env, nil, commands...)
	require.NoError(r.t, err)
	for _, result := range ready.Results {
		require.Nil(r.t, result.Refused)
	}
	for _, e := range ready.Entries {
		line, err := wire.Encode(e)
		require.NoError(r.t, err)
		r.log.Write(append(line, '\n'))
	}
	if n := len(ready.Entries); n > 0 {
		require.NoError(r.t, r.m.Commit(ready.Entries[n-1].Seq))
	}
	return ready
}

func offer() session.Offer {
	return session.Offer{Ref: string(blob.Sum([]byte("definitions"))), Size: 900, Tools: []session.ToolDef{
		{Name: "files.read", WireName: "files_read", Kind: "read", Class: session.ClassInline, RetrySafe: true, Parallel: true, DeadlineMs: 10000, Definition: blob.Sum([]byte("read")).Hex()},
		{Name: "files.write", WireName: "files_write", Kind: "action", Class: session.ClassInline, DeadlineMs: 10000, Gate: session.Gate{Ask: true, Remember: true}, Definition: blob.Sum([]byte("write")).Hex()},
	}}
}

func ada() session.Asked {
	return session.Asked{Actor: session.Actor{ID: "ada", Roles: []string{"editor"}}, Via: "key"}
}

func (r *recorder) open() {
	r.t.Helper()
	r.step(&session.OpenSession{Inc: "01JQ3ZC5T8Q9V4M7R2X6W1Y0KD", Asked: ada(), Config: session.Config{
		Model:        session.Model{Provider: "scripted", Model: "one", MaxOutput: 4096},
		Instructions: blob.Inline("Keep a diary."),
		Tools:        []session.ToolGrant{{Name: "files.*"}},
		Workspaces:   []session.Workspace{{Access: "write"}},
	}.WithDefaults()})
}

func (r *recorder) ask(text string) machine.Ready {
	r.t.Helper()
	return r.step(&session.RequestRun{Asked: ada(), Input: []session.Part{{Text: blob.Inline(text)}}})
}

func (r *recorder) answer(turn ident.TurnID, text string, calls ...session.ProposedCall) machine.Ready {
	r.t.Helper()
	finish := "stop"
	if len(calls) > 0 {
		finish = "tool_use"
	}
	return r.step(&session.ModelOutcome{
		Turn: turn, Attempt: 1, Text: blob.Inline(text), Calls: calls, Finish: finish, Model: "one", DurationMs: 180,
		Usage: session.Usage{Input: 900 + 40*int64(turn), Output: 30},
	})
}

func call(tool, wireName, arguments string) session.ProposedCall {
	return session.ProposedCall{ProviderID: "p_" + wireName, Tool: tool, WireName: wireName, Arguments: blob.Inline(arguments), Verdict: session.VerdictOK}
}

func (r *recorder) result(turn ident.TurnID, index int, text string) machine.Ready {
	r.t.Helper()
	return r.step(&session.ToolOutcome{Call: ident.CallID{Turn: turn, Index: index}, Attempt: 1, Text: blob.Inline(text), DurationMs: 12, OutputBytes: int64(len(text))})
}

// diary is a session with two runs: one reads, and writes after a person has
// approved; the other is cancelled while the model thinks.
func diary(t *testing.T) []byte {
	t.Helper()
	r := record(t)
	r.open()
	r.ask("Write down that it rained.")
	r.answer(1, "I look at what is there.", call("files.read", "files_read", `{"path":"diary.md"}`))
	r.result(1, 1, "Monday: sun.\n")
	r.answer(2, "", call("files.read", "files_read", `{"path":"weather.txt"}`), call("files.write", "files_write", `{"path":"diary.md","content":"Tuesday: rain."}`))
	r.result(2, 1, "rain")
	r.step(&session.SteerRun{Asked: ada(), Run: 1, Text: []session.Part{{Text: blob.Inline("And be brief <please>.")}}})
	r.step(&session.DecideApprovals{Asked: ada(), Run: 1, Decisions: []session.Decision{{Approval: 1, Approve: true, Note: "fine"}}})
	r.result(2, 2, "Wrote 14 bytes.")
	r.answer(3, "Done: it rained.")
	r.ask("Now tell me a long story.")
	r.step(&session.CancelRun{Asked: ada(), Run: 2})
	r.step(&session.ModelOutcome{Turn: 4, Attempt: 1, Text: blob.Inline("Once upon a time"), Aborted: true})
	r.step(&session.CloseSession{Asked: ada()})
	return r.log.Bytes()
}
