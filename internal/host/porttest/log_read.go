package porttest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

func readCases() []logCase {
	return []logCase{
		{"ReadKeepsToItsFence", readFence},
		{"ReadIsPagedByCount", readPaged},
		{"ReadIsPagedByBytes", readBytes},
		{"ReadBeyondTheLogIsAGap", readBeyond},
		{"AMissingEventIsAGap", readGap},
		{"ReadBeforeGivesTheWindowBelow", readBefore},
		{"ReadBeforeIsPagedByBytes", readBeforeBytes},
		{"ReadsSeeOneSessionOnly", readNeighbours},
	}
}

// longLog is a session of 1+n events; those after the first have size bytes.
func longLog(t *testing.T, s Stores, name string, n, size int) *actor {
	t.Helper()
	a := create(t, s, keyOf(name))
	for n > 0 {
		batch := min(n, 7)
		c := a.next(batch)
		for i := range c.Entries {
			c.Entries[i].Data = fmt.Appendf(nil, "%0*d", size, c.Entries[i].Seq)
		}
		a.land(c)
		n -= batch
	}
	return a
}

func seqs(entries []host.StoredEntry) []ident.Seq {
	out := make([]ident.Seq, 0, len(entries))
	for _, e := range entries {
		out = append(out, e.Seq)
	}
	return out
}

func span(from, through ident.Seq) []ident.Seq {
	out := []ident.Seq{}
	for s := from; s <= through; s++ {
		out = append(out, s)
	}
	return out
}

func requireRead(t *testing.T, a *actor, after, upTo ident.Seq, limit int, maxBytes int64, want []ident.Seq) {
	t.Helper()
	got, err := a.log.Read(t.Context(), a.key, after, upTo, limit, maxBytes)
	require.NoError(t, err)
	require.Equal(t, want, seqs(got))
}

func readFence(t *testing.T, s Stores, _ Capabilities) {
	a := longLog(t, s, "s1", 19, 10)
	requireRead(t, a, 0, 20, 100, 1<<20, span(1, 20))
	requireRead(t, a, 0, 7, 100, 1<<20, span(1, 7))
	requireRead(t, a, 5, 9, 100, 1<<20, span(6, 9))
	requireRead(t, a, 5, 5, 100, 1<<20, span(1, 0))
	requireRead(t, a, 9, 5, 100, 1<<20, span(1, 0))
	requireRead(t, a, 20, 20, 100, 1<<20, span(1, 0))
}

func readPaged(t *testing.T, s Stores, _ Capabilities) {
	a := longLog(t, s, "s1", 24, 10)
	var got []ident.Seq
	for after := ident.Seq(0); after < 25; after = got[len(got)-1] {
		page, err := a.log.Read(t.Context(), a.key, after, 25, 4, 1<<20)
		require.NoError(t, err)
		require.NotEmpty(t, page)
		require.LessOrEqual(t, len(page), 4)
		got = append(got, seqs(page)...)
	}
	require.Equal(t, span(1, 25), got)
	requireRead(t, a, 0, 25, 0, 1<<20, span(1, 0))
}

func readBytes(t *testing.T, s Stores, caps Capabilities) {
	need(t, caps.PageBytes, "PageBytes")
	a := longLog(t, s, "s1", 30, 1000)
	page, err := a.log.Read(t.Context(), a.key, 1, 31, 100, 5000)
	require.NoError(t, err)
	require.InDelta(t, 5, len(page), 1)
	// One at least, however little is asked for.
	requireRead(t, a, 1, 31, 100, 1, span(2, 2))
	requireRead(t, a, 1, 31, 100, 0, span(2, 2))
}

func readBeyond(t *testing.T, s Stores, _ Capabilities) {
	a := longLog(t, s, "s1", 9, 10)
	_, err := a.log.Read(t.Context(), a.key, 0, 11, 100, 1<<20)
	require.ErrorIs(t, err, host.ErrGap)
	_, err = a.log.Read(t.Context(), a.key, 10, 12, 100, 1<<20)
	require.ErrorIs(t, err, host.ErrGap)
	_, err = a.log.Read(t.Context(), keyOf("never"), 0, 1, 100, 1<<20)
	require.ErrorIs(t, err, host.ErrGap)
	// A page that its limit ends says nothing of what lies behind.
	requireRead(t, a, 0, 11, 10, 1<<20, span(1, 10))
}

func readGap(t *testing.T, s Stores, caps Capabilities) {
	need(t, caps.DropEvent != nil, "DropEvent")
	a := longLog(t, s, "s1", 9, 10)
	caps.DropEvent(t, s, a.key, 5)
	requireRead(t, a, 0, 4, 100, 1<<20, span(1, 4))
	requireRead(t, a, 5, 10, 100, 1<<20, span(6, 10))
	for _, after := range []ident.Seq{0, 3, 4} {
		_, err := a.log.Read(t.Context(), a.key, after, 10, 100, 1<<20)
		require.ErrorIs(t, err, host.ErrGap)
	}
	_, err := a.log.ReadBefore(t.Context(), a.key, 8, 5, 1<<20)
	require.ErrorIs(t, err, host.ErrGap)
	_, err = a.log.Read(t.Context(), a.key, 4, 5, 100, 1<<20)
	require.ErrorIs(t, err, host.ErrGap)
}

func readBefore(t *testing.T, s Stores, _ Capabilities) {
	a := longLog(t, s, "s1", 19, 10)
	for _, c := range []struct {
		before ident.Seq
		limit  int
		want   []ident.Seq
	}{
		{21, 5, span(16, 20)},
		{16, 5, span(11, 15)},
		{4, 5, span(1, 3)},
		{21, 100, span(1, 20)},
		{1, 5, span(1, 0)},
		{0, 5, span(1, 0)},
		{21, 0, span(1, 0)},
	} {
		got, err := a.log.ReadBefore(t.Context(), a.key, c.before, c.limit, 1<<20)
		require.NoError(t, err)
		require.Equal(t, c.want, seqs(got))
	}
	got, err := a.log.ReadBefore(t.Context(), keyOf("never"), 1, 5, 1<<20)
	require.NoError(t, err)
	require.Empty(t, got)
}

func readBeforeBytes(t *testing.T, s Stores, caps Capabilities) {
	need(t, caps.PageBytes, "PageBytes")
	a := longLog(t, s, "s1", 30, 1000)
	page, err := a.log.ReadBefore(t.Context(), a.key, 32, 100, 5000)
	require.NoError(t, err)
	require.InDelta(t, 5, len(page), 1)
	require.Equal(t, ident.Seq(31), page[len(page)-1].Seq)
	page, err = a.log.ReadBefore(t.Context(), a.key, 32, 100, 1)
	require.NoError(t, err)
	require.Equal(t, span(31, 31), seqs(page))
}

// readNeighbours has sessions whose ids sort round each other.
func readNeighbours(t *testing.T, s Stores, _ Capabilities) {
	for _, name := range []string{"s", "s1", "s10", "s2"} {
		longLog(t, s, name, 5, 10)
	}
	a := &actor{t: t, log: s.Log, key: keyOf("s1")}
	a.requireEvents(6)
	got, err := a.log.ReadBefore(t.Context(), a.key, 7, 100, 1<<20)
	require.NoError(t, err)
	require.Equal(t, span(1, 6), seqs(got))
	require.JSONEq(t, string(event(a.key, 1)), string(got[0].Data))
}
