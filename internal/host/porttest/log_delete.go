package porttest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

func deleteCases() []logCase {
	return []logCase{
		{"DeleteTakesEverything", deleteAll},
		{"DeleteMayBeRepeated", deleteRepeated},
		{"DeleteOfAnotherIncarnationTakesNothing", deleteOther},
		{"ADeletedSessionIsMadeAnew", deleteAnew},
		{"WhatComesLateLeavesNothing", deleteLate},
		{"ReopenedStoresHoldNothingOfADeletedSession", deleteReopened},
	}
}

// furnished is a session with something in every store.
func furnished(t *testing.T, s Stores, key host.Key) (*actor, []host.Blob) {
	t.Helper()
	c := withProjections(creation(key), "text")
	c.Head = full(c.Head)
	blobs := []host.Blob{content("row", 100), content("file", 400<<10)}
	c.Blobs = blobs
	a := createWith(t, s, c)
	a.land(a.next(20))
	if s.Blobs != nil {
		put := []host.Blob{content("put", 100), content("put file", 400<<10)}
		for _, b := range put {
			require.NoError(t, s.Blobs.PutBlob(t.Context(), key, b))
		}
		blobs = append(blobs, put...)
	}
	if s.Checkpoints != nil {
		require.NoError(t, s.Checkpoints.PutCheckpoint(t.Context(), key, host.Checkpoint{Inc: inc, Seq: 5, Data: []byte("cp")}))
	}
	if s.Stash != nil {
		_, err := s.Stash.PutStash(t.Context(), key, "n", []byte("x"), s.Now().Add(ident.Day), false)
		require.NoError(t, err)
	}
	return a, blobs
}

func requireGone(t *testing.T, s Stores, caps Capabilities, key host.Key, blobs []host.Blob) {
	t.Helper()
	absentSession(t, s, caps)
	_, err := s.Log.Head(t.Context(), key)
	require.ErrorIs(t, err, host.ErrNotFound)
	_, err = s.Log.Read(t.Context(), key, 0, 1, 10, 1<<20)
	require.ErrorIs(t, err, host.ErrGap)
	requireTodos(t, s, caps, "")
	requireListed(t, s, caps, "")
	caps.eventually(t, func() error {
		got, err := s.Log.Due(t.Context(), epoch.Add(ident.Day), 10)
		if err != nil {
			return err
		}
		return same(sessionsOf(got), nil)
	})
	caps.eventually(t, func() error {
		got, err := s.Log.Unfinished(t.Context(), host.Key{}, 10)
		if err != nil {
			return err
		}
		return same(sessionsOf(got), nil)
	})
	if s.Blobs != nil {
		for _, b := range blobs {
			_, err := s.Blobs.GetBlob(t.Context(), key, b.Ref)
			require.ErrorIs(t, err, host.ErrNotFound)
		}
	}
	if s.Checkpoints != nil {
		got, err := s.Checkpoints.LatestCheckpoints(t.Context(), key, 2)
		require.NoError(t, err)
		require.Empty(t, got)
	}
	if s.Stash != nil {
		_, err := s.Stash.GetStash(t.Context(), key, "n", s.Now())
		require.ErrorIs(t, err, host.ErrNotFound)
	}
}

func deleteAll(t *testing.T, s Stores, caps Capabilities) {
	a, blobs := furnished(t, s, keyOf("s1"))
	require.NoError(t, s.Log.Delete(t.Context(), a.key, inc))
	requireGone(t, s, caps, a.key, blobs)
}

func deleteRepeated(t *testing.T, s Stores, caps Capabilities) {
	a, blobs := furnished(t, s, keyOf("s1"))
	for range 3 {
		require.NoError(t, s.Log.Delete(t.Context(), a.key, inc))
	}
	require.NoError(t, s.Log.Delete(t.Context(), keyOf("never"), inc))
	requireGone(t, s, caps, a.key, blobs)
}

func deleteOther(t *testing.T, s Stores, _ Capabilities) {
	a, blobs := furnished(t, s, keyOf("s1"))
	require.NoError(t, s.Log.Delete(t.Context(), a.key, "01J00000000000000000000099"))
	a.requireHead(a.head)
	a.requireEvents(21)
	a.requireRow("run#1", "text")
	if s.Blobs != nil {
		for _, b := range blobs {
			got, err := s.Blobs.GetBlob(t.Context(), a.key, b.Ref)
			require.NoError(t, err)
			require.Equal(t, b.Data, got)
		}
	}
	if s.Checkpoints != nil {
		got, err := s.Checkpoints.LatestCheckpoints(t.Context(), a.key, 2)
		require.NoError(t, err)
		require.Len(t, got, 1)
	}
}

func deleteAnew(t *testing.T, s Stores, caps Capabilities) {
	a, blobs := furnished(t, s, keyOf("s1"))
	require.NoError(t, s.Log.Delete(t.Context(), a.key, inc))
	requireGone(t, s, caps, a.key, blobs)

	c := creation(a.key)
	c.Head.Inc, c.Head.Write = "01J00000000000000000000002", "anew"
	b := createWith(t, s, c)
	// A deletion of the predecessor that comes late.
	require.NoError(t, s.Log.Delete(t.Context(), a.key, inc))
	b.requireHead(c.Head)
	b.requireEvents(1)
	b.requireNoRow("run#1")
	if s.Blobs != nil {
		_, err := s.Blobs.GetBlob(t.Context(), a.key, blobs[0].Ref)
		require.ErrorIs(t, err, host.ErrNotFound)
	}
}

func deleteLate(t *testing.T, s Stores, caps Capabilities) {
	need(t, caps.FencesLate, "FencesLate")
	a, blobs := furnished(t, s, keyOf("s1"))
	require.NoError(t, s.Log.Delete(t.Context(), a.key, inc))
	if s.Blobs != nil {
		for _, b := range blobs {
			require.ErrorIs(t, s.Blobs.PutBlob(t.Context(), a.key, b), host.ErrNotFound)
		}
	}
	late := host.Checkpoint{Inc: inc, Seq: 9, Data: []byte("late")}
	if s.Checkpoints != nil {
		require.NoError(t, s.Checkpoints.PutCheckpoint(t.Context(), a.key, late))
	}
	requireGone(t, s, caps, a.key, blobs)

	c := creation(a.key)
	c.Head.Inc, c.Head.Write = "01J00000000000000000000002", "anew"
	createWith(t, s, c)
	if s.Checkpoints != nil {
		require.NoError(t, s.Checkpoints.PutCheckpoint(t.Context(), a.key, late))
		got, err := s.Checkpoints.LatestCheckpoints(t.Context(), a.key, 2)
		require.NoError(t, err)
		require.Empty(t, got)
	}
}

func deleteReopened(t *testing.T, s Stores, caps Capabilities) {
	need(t, caps.Persistent, "Persistent")
	a, blobs := furnished(t, s, keyOf("s1"))
	require.NoError(t, s.Log.Delete(t.Context(), a.key, inc))
	s = caps.Reopen(t, s)
	requireGone(t, s, caps, a.key, blobs)
}
