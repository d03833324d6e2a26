package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
)

// turn is the events of one steady turn: a model call that asks for one tool.
func turn() []session.Event {
	return []session.Event{
		&session.TurnRequested{
			Run: 12, Turn: 340, Attempt: 1, Reason: "first", Model: session.Model{Provider: "anthropic", Model: "claude-sonnet", MaxOutput: 4096},
			Through: 1201, ContextRevision: 1201, ConfigRevision: 1, Toolset: 1, Estimate: 18230, Fingerprint: blob.Sum(nil).Hex(),
		},
		&session.MessageAdded{
			Entry: 1202, Run: 12, Turn: 340, Role: "assistant", Source: "model",
			Text: blob.Inline("I will look at the file first, then say what has to change in it."),
			Item: &session.Item{Kind: "anthropic", Family: "claude", Data: blob.ByRef(blob.Sum([]byte("item")), 5120)},
		},
		&session.ToolCalled{
			Run: 12, Turn: 340, Call: 1, ProviderID: "toolu_01ABCDEFGHIJKLMNOP", Tool: "files.read", WireName: "files_read",
			Arguments: blob.Inline(`{"path":"src/main.go","limit":200}`), Verdict: "ok",
		},
		&session.TurnCompleted{
			Run: 12, Turn: 340, Attempt: 1, Outcome: "tools", Finish: "tool_use", Model: "claude-sonnet", ResponseID: "msg_01ABCDEFGHIJKLMNOP",
			Usage: session.Usage{Input: 18230, Output: 120, CacheRead: 17900, CostMicros: 9000, Priced: true}, DurationMs: 3120,
		},
		&session.ToolStarted{Run: 12, Turn: 340, Call: 1, Attempt: 1, Reason: "first"},
		&session.ToolCompleted{
			Run: 12, Turn: 340, Call: 1, Status: "completed", DurationMs: 12, OutputBytes: 96,
			Result: blob.Inline("package main\n\nimport \"fmt\"\n\nfunc main() {\n\tfmt.Println(\"hello\")\n}\n"),
		},
	}
}

func lines(tb testing.TB) (out [][]byte, size int64) {
	tb.Helper()
	for i, e := range turn() {
		line, err := wire.Encode(session.Entry{Seq: 1000001, At: 1790000000000, Event: e})
		require.NoError(tb, err, i)
		out = append(out, line)
		size += int64(len(line))
	}
	return out, size
}

// The unit is one event, the mean of a steady turn.
func BenchmarkDecode(b *testing.B) {
	all, size := lines(b)
	b.SetBytes(size / int64(len(all)))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := wire.Decode(all[i%len(all)]); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkDecodeHeader(b *testing.B) {
	all, _ := lines(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := wire.DecodeHeader(all[i%len(all)]); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	events := turn()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := wire.Encode(session.Entry{Seq: 1000001, At: 1790000000000, Event: events[i%len(events)]}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// window is a state with n entries of ordinary size.
func window(n int) session.State {
	s := session.State{Seq: 100000, At: 1790000000000, Inc: "01JQ3ZC5T8Q9V4M7R2X6W1Y0KD", Status: session.Open}
	for i := range n {
		e := session.ContextEntry{ID: ident.EntryID(i + 1), Role: session.RoleAssistant, Source: session.FromModel, Run: 12, Turn: 340, Text: blob.Inline(strings.Repeat("some words ", 30))}
		if i%2 == 1 {
			e.Role, e.Text = session.RoleResults, blob.Payload{}
			e.Results = []session.EntryResult{{Index: 1, Status: "completed", Text: blob.Inline(strings.Repeat("a line of a file\n", 30))}}
		}
		s.Context.Entries = append(s.Context.Entries, e)
	}
	return s
}

// The unit is a checkpoint with a window of 500 entries.
func BenchmarkDecodeCheckpoint(b *testing.B) {
	s := window(500)
	data, err := wire.EncodeCheckpoint(s)
	require.NoError(b, err)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.DecodeCheckpoint(data, s.Inc, s.Seq); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeCheckpoint(b *testing.B) {
	s := window(500)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.EncodeCheckpoint(s); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStateSum(b *testing.B) {
	s := window(500)
	b.ReportAllocs()
	for b.Loop() {
		wire.StateSum(s)
	}
}
