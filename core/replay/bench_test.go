package replay_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/replay"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
)

// long is a log of runs of five turns with one tool call each.
func long(tb testing.TB, runs int) []byte {
	tb.Helper()
	r := record(tb)
	r.open()
	turn := ident.TurnID(0)
	for range runs {
		r.ask("Go on with the diary, please.")
		for range 4 {
			turn++
			r.answer(turn, "I look at what is there.", call("files.read", "files_read", fmt.Sprintf(`{"path":"diary.md","offset":%d}`, turn)))
			r.result(turn, 1, "Monday: sun.\nTuesday: rain.\nWednesday: both.\n")
		}
		turn++
		r.answer(turn, "That was all for today.")
	}
	return r.log.Bytes()
}

// The unit is one event, decoded and applied.
func BenchmarkFold(b *testing.B) {
	log := long(b, 100)
	n := bytes.Count(log, []byte("\n"))
	b.SetBytes(int64(len(log) / n))
	b.ReportAllocs()
	done := 0
	for b.Loop() {
		if done%n == 0 {
			if _, err := replay.Fold(log, 0); err != nil {
				b.Fatal(err)
			}
		}
		done++
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// The unit is one event, applied.
func BenchmarkApply(b *testing.B) {
	var entries []session.Entry
	for line := range bytes.SplitSeq(bytes.TrimSpace(long(b, 100)), []byte("\n")) {
		e, err := wire.Decode(line)
		require.NoError(b, err)
		entries = append(entries, e)
	}
	b.ReportAllocs()
	var s session.State
	for i := 0; b.Loop(); i++ {
		if i%len(entries) == 0 {
			s = session.State{}
			s.Own()
		}
		if err := session.Apply(&s, entries[i%len(entries)]); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
