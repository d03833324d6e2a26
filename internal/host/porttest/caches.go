package porttest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// Checkpoints checks a host.Checkpoints beside its Log.
func Checkpoints(t *testing.T, factory Factory, caps Capabilities) {
	t.Helper()
	runCases(t, factory, caps, []logCase{
		{"ASessionWithoutCheckpointsHasNone", checkpointsNone},
		{"TheNewestTwoAreKeptNewestFirst", checkpointsTwo},
		{"AnOlderOneIsDropped", checkpointsOlder},
		{"OneAtTheSamePositionReplaces", checkpointsSame},
		{"TwoTenantsShareNoCheckpoints", checkpointsTenants},
		{"ACancelledContextPutsNoCheckpoint", checkpointsCancelled},
		{"CheckpointsOutliveAReopen", checkpointsReopened},
	})
}

func putCheckpoint(t *testing.T, s Stores, key host.Key, seq ident.Seq) host.Checkpoint {
	t.Helper()
	c := host.Checkpoint{Inc: inc, Seq: seq, Data: fmt.Appendf(nil, "%s at %d", key, seq)}
	require.NoError(t, s.Checkpoints.PutCheckpoint(t.Context(), key, c))
	return c
}

func requireCheckpoints(t *testing.T, s Stores, key host.Key, want ...host.Checkpoint) {
	t.Helper()
	got, err := s.Checkpoints.LatestCheckpoints(t.Context(), key, 2)
	require.NoError(t, err)
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, want[i], got[i])
	}
	got, err = s.Checkpoints.LatestCheckpoints(t.Context(), key, 1)
	require.NoError(t, err)
	require.Equal(t, want[:min(len(want), 1)], append([]host.Checkpoint(nil), got...))
}

func checkpointsNone(t *testing.T, s Stores, _ Capabilities) {
	a := create(t, s, keyOf("s1"))
	requireCheckpoints(t, s, a.key)
	requireCheckpoints(t, s, keyOf("never"))
}

func checkpointsTwo(t *testing.T, s Stores, _ Capabilities) {
	a := create(t, s, keyOf("s1"))
	one := putCheckpoint(t, s, a.key, 1)
	requireCheckpoints(t, s, a.key, one)
	two := putCheckpoint(t, s, a.key, 9)
	requireCheckpoints(t, s, a.key, two, one)
	three := putCheckpoint(t, s, a.key, 10)
	requireCheckpoints(t, s, a.key, three, two)
	four := putCheckpoint(t, s, a.key, 200)
	requireCheckpoints(t, s, a.key, four, three)
}

func checkpointsOlder(t *testing.T, s Stores, _ Capabilities) {
	a := create(t, s, keyOf("s1"))
	one, two := putCheckpoint(t, s, a.key, 5), putCheckpoint(t, s, a.key, 9)
	putCheckpoint(t, s, a.key, 4)
	requireCheckpoints(t, s, a.key, two, one)
	putCheckpoint(t, s, a.key, 7)
	requireCheckpoints(t, s, a.key, two, one)
}

func checkpointsSame(t *testing.T, s Stores, _ Capabilities) {
	a := create(t, s, keyOf("s1"))
	one := putCheckpoint(t, s, a.key, 5)
	putCheckpoint(t, s, a.key, 9)
	again := host.Checkpoint{Inc: inc, Seq: 9, Data: []byte("another build's")}
	require.NoError(t, s.Checkpoints.PutCheckpoint(t.Context(), a.key, again))
	requireCheckpoints(t, s, a.key, again, one)
}

func checkpointsTenants(t *testing.T, s Stores, _ Capabilities) {
	here, there := keyOf("s1"), host.Key{Tenant: "other", Session: "s1"}
	create(t, s, here)
	create(t, s, there)
	one := putCheckpoint(t, s, here, 5)
	requireCheckpoints(t, s, there)
	two := putCheckpoint(t, s, there, 9)
	requireCheckpoints(t, s, here, one)
	require.NoError(t, s.Log.Delete(t.Context(), here, inc))
	requireCheckpoints(t, s, there, two)
	requireCheckpoints(t, s, here)
}

func checkpointsCancelled(t *testing.T, s Stores, _ Capabilities) {
	a := create(t, s, keyOf("s1"))
	ctx := cancelled(t)
	require.ErrorIs(t, s.Checkpoints.PutCheckpoint(ctx, a.key, host.Checkpoint{Inc: inc, Seq: 1}), ctx.Err())
	requireCheckpoints(t, s, a.key)
}

func checkpointsReopened(t *testing.T, s Stores, caps Capabilities) {
	need(t, caps.Persistent, "Persistent")
	a := create(t, s, keyOf("s1"))
	one, two := putCheckpoint(t, s, a.key, 5), putCheckpoint(t, s, a.key, 9)
	s = caps.Reopen(t, s)
	requireCheckpoints(t, s, a.key, two, one)
}

// Stash checks a host.Stash beside its Log.
func Stash(t *testing.T, factory Factory, caps Capabilities) {
	t.Helper()
	runCases(t, factory, caps, []logCase{
		{"ADocumentIsReadBackAndForgotten", stashReadBack},
		{"ADocumentIsReplaced", stashReplaced},
		{"AnExistingOneWinsWithIfAbsent", stashIfAbsent},
		{"AnExpiredOneDoesNot", stashExpired},
		{"NamesBelongToTenantAndSession", stashScopes},
		{"SweepForgetsWhatExpired", stashSweep},
		{"ACancelledContextStashesNothing", stashCancelled},
		{"ADocumentOutlivesAReopen", stashReopened},
	})
}

func putStash(t *testing.T, s Stores, key host.Key, name, data string, until ident.Instant) {
	t.Helper()
	existing, err := s.Stash.PutStash(t.Context(), key, name, []byte(data), until, false)
	require.NoError(t, err)
	require.Nil(t, existing)
}

func requireStash(t *testing.T, s Stores, key host.Key, name, data string) {
	t.Helper()
	got, err := s.Stash.GetStash(t.Context(), key, name, s.Now())
	require.NoError(t, err)
	require.Equal(t, data, string(got))
}

func requireNoStash(t *testing.T, s Stores, key host.Key, name string, now ident.Instant) {
	t.Helper()
	_, err := s.Stash.GetStash(t.Context(), key, name, now)
	require.ErrorIs(t, err, host.ErrNotFound)
}

func stashReadBack(t *testing.T, s Stores, _ Capabilities) {
	key, until := keyOf("s1"), s.Now().Add(ident.Day)
	requireNoStash(t, s, key, "n", s.Now())
	putStash(t, s, key, "n", "data", until)
	requireStash(t, s, key, "n", "data")
	// Good through the instant before, gone at it.
	_, err := s.Stash.GetStash(t.Context(), key, "n", until-1)
	require.NoError(t, err)
	requireNoStash(t, s, key, "n", until)
	for range 2 {
		require.NoError(t, s.Stash.DropStash(t.Context(), key, "n"))
	}
	requireNoStash(t, s, key, "n", s.Now())
}

func stashReplaced(t *testing.T, s Stores, _ Capabilities) {
	key, until := keyOf("s1"), s.Now().Add(ident.Day)
	putStash(t, s, key, "n", "one", until)
	putStash(t, s, key, "n", "two", until)
	requireStash(t, s, key, "n", "two")
}

func stashIfAbsent(t *testing.T, s Stores, _ Capabilities) {
	key, until := keyOf("s1"), s.Now().Add(ident.Day)
	existing, err := s.Stash.PutStash(t.Context(), key, "n", []byte("first"), until, true)
	require.NoError(t, err)
	require.Nil(t, existing)
	existing, err = s.Stash.PutStash(t.Context(), key, "n", []byte("second"), until, true)
	require.NoError(t, err)
	require.Equal(t, "first", string(existing))
	requireStash(t, s, key, "n", "first")
}

func stashExpired(t *testing.T, s Stores, _ Capabilities) {
	key := keyOf("s1")
	putStash(t, s, key, "n", "old", s.Now().Add(-ident.Day))
	existing, err := s.Stash.PutStash(t.Context(), key, "n", []byte("new"), s.Now().Add(ident.Day), true)
	require.NoError(t, err)
	require.Nil(t, existing)
	requireStash(t, s, key, "n", "new")
}

func stashScopes(t *testing.T, s Stores, _ Capabilities) {
	until := s.Now().Add(ident.Day)
	keys := []host.Key{keyOf("s1"), keyOf("s2"), keyOf(""), {Tenant: "other"}, {Tenant: "other", Session: "s1"}}
	for _, key := range keys {
		putStash(t, s, key, "n", key.String(), until)
	}
	for _, key := range keys {
		requireStash(t, s, key, "n", key.String())
	}
	require.NoError(t, s.Stash.DropStash(t.Context(), keys[0], "n"))
	for _, key := range keys[1:] {
		requireStash(t, s, key, "n", key.String())
	}
}

func stashSweep(t *testing.T, s Stores, caps Capabilities) {
	key, now := keyOf("s1"), s.Now()
	for i := range 5 {
		putStash(t, s, key, fmt.Sprintf("old%d", i), "x", now.Add(int64(i)-10))
	}
	putStash(t, s, key, "kept", "x", now.Add(ident.Day))
	if caps.Expires {
		n, err := s.Stash.SweepStash(t.Context(), now, 2)
		require.NoError(t, err)
		require.Zero(t, n)
		requireStash(t, s, key, "kept", "x")
		return
	}
	n, err := s.Stash.SweepStash(t.Context(), now, 2)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	n, err = s.Stash.SweepStash(t.Context(), now, 100)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	n, err = s.Stash.SweepStash(t.Context(), now, 100)
	require.NoError(t, err)
	require.Zero(t, n)
	requireStash(t, s, key, "kept", "x")
	for i := range 5 {
		requireNoStash(t, s, key, fmt.Sprintf("old%d", i), now.Add(-ident.Day))
	}
}

func stashCancelled(t *testing.T, s Stores, _ Capabilities) {
	ctx, key := cancelled(t), keyOf("s1")
	_, err := s.Stash.PutStash(ctx, key, "n", []byte("x"), s.Now().Add(ident.Day), false)
	require.ErrorIs(t, err, ctx.Err())
	requireNoStash(t, s, key, "n", s.Now())
}

func stashReopened(t *testing.T, s Stores, caps Capabilities) {
	need(t, caps.Persistent, "Persistent")
	putStash(t, s, keyOf("s1"), "n", "kept", s.Now().Add(ident.Day))
	s = caps.Reopen(t, s)
	requireStash(t, s, keyOf("s1"), "n", "kept")
}
