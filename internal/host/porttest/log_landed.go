package porttest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/host"
)

func landedCases() []logCase {
	return []logCase{
		{"ACommitSentAgainSucceedsAndWritesOnce", landedAgain},
		{"ACommitSentAgainAfterOthersSucceeds", landedAfterOthers},
		{"ACreateSentAgainSucceeds", landedCreate},
		{"ACommitSentAgainIsNotHeldToItsClaim", landedClaim},
		{"ACommitSentAgainIsNotHeldToIfAbsent", landedRow},
		{"AnotherWriteOfTheSameBatchConflicts", notLanded},
		{"AnEventlessCommitSentAgainSucceedsWhileItIsLast", landedEventless},
		{"ACreateOfADeletedSessionIsNotTakenForLanded", landedDeleted},
	}
}

func landedAgain(t *testing.T, s Stores, _ Capabilities) {
	a := create(t, s, keyOf("s1"))
	c := a.next(2)
	c.Rows = []host.Row{{Key: "run#1", Data: []byte("x")}}
	a.land(c)
	require.NoError(t, s.Log.Commit(t.Context(), c))
	a.requireHead(c.Head)
	a.requireEvents(3)
}

func landedAfterOthers(t *testing.T, s Stores, _ Capabilities) {
	a := create(t, s, keyOf("s1"))
	c := a.next(2)
	c.Rows = []host.Row{{Key: "run#1", Data: []byte("first")}}
	a.land(c)
	later := a.next(1)
	later.Rows = []host.Row{{Key: "run#1", Data: []byte("later")}}
	a.land(later)
	a.land(a.next(0))
	a.land(a.next(3))

	require.NoError(t, s.Log.Commit(t.Context(), c))
	a.requireHead(a.head)
	a.requireEvents(7)
	a.requireRow("run#1", "later")
}

func landedCreate(t *testing.T, s Stores, _ Capabilities) {
	a := create(t, s, keyOf("s1"))
	require.NoError(t, s.Log.Commit(t.Context(), creation(a.key)))
	a.land(a.next(1))
	require.NoError(t, s.Log.Commit(t.Context(), creation(a.key)))
	a.requireHead(a.head)
}

func landedClaim(t *testing.T, s Stores, _ Capabilities) {
	a := create(t, s, keyOf("s1"))
	c := a.next(1)
	claim := a.head.Drive
	c.Claim = &claim
	c.Head.Drive = host.Drive{Epoch: 1, Step: 1, Attempt: 1, Status: host.DriveRunning}
	a.land(c)
	require.NoError(t, s.Log.Commit(t.Context(), c))
}

func landedRow(t *testing.T, s Stores, _ Capabilities) {
	a := create(t, s, keyOf("s1"))
	c := a.next(1)
	c.Rows = []host.Row{{Key: "sub#1", Data: []byte("x"), IfAbsent: true}}
	a.land(c)
	require.NoError(t, s.Log.Commit(t.Context(), c))
	a.land(a.next(1))
	require.NoError(t, s.Log.Commit(t.Context(), c))
}

func notLanded(t *testing.T, s Stores, _ Capabilities) {
	a := create(t, s, keyOf("s1"))
	c := a.next(1)
	a.land(c)
	c.Head.Write = "another"
	requireConflict(t, s.Log.Commit(t.Context(), c), a.head)
}

func landedEventless(t *testing.T, s Stores, _ Capabilities) {
	a := create(t, s, keyOf("s1"))
	c := a.next(0)
	c.Head.Drive.Status = host.DriveParked
	a.land(c)
	require.NoError(t, s.Log.Commit(t.Context(), c))
	a.requireHead(c.Head)
}

func landedDeleted(t *testing.T, s Stores, caps Capabilities) {
	a := create(t, s, keyOf("s1"))
	c := a.next(1)
	a.land(c)
	require.NoError(t, s.Log.Delete(t.Context(), a.key, inc))
	if err := s.Log.Commit(t.Context(), c); !caps.Recalls || err != nil {
		requireConflict(t, err, host.Head{})
	}
	// Whatever it is told, it brings nothing back.
	_, err := s.Log.Head(t.Context(), a.key)
	require.ErrorIs(t, err, host.ErrNotFound)
}
