package porttest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// Log checks a host.Log.
//
// Where the port leaves a choice the suite decides: a commit whose Rev is not
// Expect+1, or whose entries do not follow the head's Seq up to Head.Seq, is a
// fault of the caller, refused with an error that is no Conflict; Read up to a
// position that the log does not reach is ErrGap; a limit of 0 gives nothing;
// a commit without events that landed is recognised while it is the last one.
func Log(t *testing.T, factory Factory, caps Capabilities) {
	t.Helper()
	for _, group := range []struct {
		name  string
		cases []logCase
	}{
		{"Commit", commitCases()},
		{"Landed", landedCases()},
		{"Rows", rowCases()},
		{"Lists", listCases()},
		{"Read", readCases()},
		{"Delete", deleteCases()},
	} {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			runCases(t, factory, caps, group.cases)
		})
	}
}

func commitCases() []logCase {
	return []logCase{
		{"AbsentSessionIsNotFound", absentSession},
		{"ACommitIsReadBackWhole", readBackWhole},
		{"ASecondCreateConflictsWithTheHead", secondCreate},
		{"ACreateOfAnAbsentSessionThatExpectsARevConflicts", expectOfNothing},
		{"AWrongRevConflictsWithTheHead", wrongRev},
		{"AClaimThatIsNotTheHeadsConflicts", wrongClaim},
		{"AClaimThatIsTheHeadsCommits", rightClaim},
		{"ARowThatIsThereConflictsWithIfAbsent", ifAbsent},
		{"AConflictWritesNothing", conflictWritesNothing},
		{"AHeadMovesWithoutEvents", eventless},
		{"OpenGivesHeadAndMetaAtOnce", opened},
		{"PeekGivesTheHeadOfAMomentAgo", peeked},
		{"ABatchThatDoesNotFollowIsRefused", malformed},
		{"ManyWritersOfOneRevOneWins", manyWriters},
		{"ManySessionsAtOnceAllCommit", manySessions},
		{"ACancelledContextWritesNothing", cancelledCommit},
		{"TwoTenantsShareNothing", tenants},
		{"ReopenedStoresHoldEverything", reopened},
	}
}

func absentSession(t *testing.T, s Stores, _ Capabilities) {
	key := keyOf("s1")
	_, err := s.Log.Head(t.Context(), key)
	require.ErrorIs(t, err, host.ErrNotFound)
	_, err = s.Log.Meta(t.Context(), key)
	require.ErrorIs(t, err, host.ErrNotFound)
	_, err = s.Log.Row(t.Context(), key, "run#1")
	require.ErrorIs(t, err, host.ErrNotFound)
	rows, err := s.Log.Rows(t.Context(), key, "", "", false, 10)
	require.NoError(t, err)
	require.Empty(t, rows)
}

// full is a head with every field set.
func full(h host.Head) host.Head {
	h.Drive = host.Drive{Epoch: 3, Step: 4, Attempt: 2, Status: host.DriveRunning}
	h.DueAt, h.Failures = epoch.Add(20_000), 2
	h.Quarantine = &host.Quarantine{Seq: 1, Code: "gap", Detail: "why"}
	return h
}

func fullMeta() host.Meta {
	days := int64(30)
	return host.Meta{
		Name: "n", Title: "título", Metadata: map[string]string{"a": "1", "b": ""}, Status: host.StatusOpen, Activity: "running",
		CreatedAt: epoch, UpdatedAt: epoch.Add(5), ClosedAt: epoch.Add(6), DeleteAfterDays: &days, Model: "m",
	}
}

func readBackWhole(t *testing.T, s Stores, _ Capabilities) {
	c := creation(keyOf("s1"))
	c.Head = full(c.Head)
	c.Head.Seq = 3
	c.Entries = append(c.Entries,
		host.StoredEntry{Seq: 2, Data: []byte{0, 0xff, '\n'}}, host.StoredEntry{Seq: 3, Data: []byte("x")})
	meta := fullMeta()
	c.Meta = &meta
	c.Rows = []host.Row{{Key: "run#000000000001", Data: []byte{0, 1}}, {Key: "apr#1", Data: []byte("a"), Todo: epoch}}
	a := createWith(t, s, c)

	a.requireHead(c.Head)
	got, err := s.Log.Read(t.Context(), a.key, 0, 3, 10, 1<<20)
	require.NoError(t, err)
	require.Equal(t, c.Entries, got)
	gotMeta, err := s.Log.Meta(t.Context(), a.key)
	require.NoError(t, err)
	require.Equal(t, meta, gotMeta)
	rows, err := s.Log.Rows(t.Context(), a.key, "", "", false, 10)
	require.NoError(t, err)
	require.Equal(t, []host.Row{c.Rows[1], c.Rows[0]}, rows)
	row, err := s.Log.Row(t.Context(), a.key, "apr#1")
	require.NoError(t, err)
	require.Equal(t, c.Rows[1], row)
}

func secondCreate(t *testing.T, s Stores, _ Capabilities) {
	a := create(t, s, keyOf("s1"))
	c := creation(a.key)
	c.Head.Write, c.Head.Inc = "other", "01J00000000000000000000002"
	requireConflict(t, s.Log.Commit(t.Context(), c), a.head)
	a.requireHead(a.head)
}

func expectOfNothing(t *testing.T, s Stores, _ Capabilities) {
	a := &actor{t: t, log: s.Log, key: keyOf("s1"), head: creation(keyOf("s1")).Head}
	requireConflict(t, s.Log.Commit(t.Context(), a.next(1)), host.Head{})
	_, err := s.Log.Head(t.Context(), a.key)
	require.ErrorIs(t, err, host.ErrNotFound)
}

func wrongRev(t *testing.T, s Stores, _ Capabilities) {
	a := create(t, s, keyOf("s1"))
	stale := a.next(1)
	stale.Head.Write = "stale"
	a.land(a.next(2))
	requireConflict(t, s.Log.Commit(t.Context(), stale), a.head)

	ahead := a.next(1)
	ahead.Expect += 5
	ahead.Head.Rev += 5
	requireConflict(t, s.Log.Commit(t.Context(), ahead), a.head)
	a.requireHead(a.head)
	a.requireEvents(3)
}

func wrongClaim(t *testing.T, s Stores, _ Capabilities) {
	c := creation(keyOf("s1"))
	c.Head.Drive = host.Drive{Epoch: 2, Step: 3, Attempt: 1, Status: host.DriveRunning}
	a := createWith(t, s, c)
	for _, claim := range []host.Drive{
		{Epoch: 1, Step: 3, Attempt: 1, Status: host.DriveRunning},
		{Epoch: 2, Step: 2, Attempt: 1, Status: host.DriveRunning},
		{Epoch: 2, Step: 3, Attempt: 2, Status: host.DriveRunning},
		{Epoch: 2, Step: 3, Attempt: 1, Status: host.DriveParked},
		{},
	} {
		next := a.next(1)
		next.Claim = &claim
		requireConflict(t, s.Log.Commit(t.Context(), next), a.head)
	}
	a.requireHead(a.head)
	a.requireEvents(1)
}

func rightClaim(t *testing.T, s Stores, _ Capabilities) {
	c := creation(keyOf("s1"))
	c.Head.Drive = host.Drive{Epoch: 2, Step: 3, Attempt: 1, Status: host.DriveRunning}
	a := createWith(t, s, c)
	next := a.next(1)
	claim := a.head.Drive
	next.Claim = &claim
	next.Head.Drive.Status = host.DriveParked
	a.land(next)
	a.requireHead(next.Head)
}

func ifAbsent(t *testing.T, s Stores, _ Capabilities) {
	a := create(t, s, keyOf("s1"))
	first := a.next(1)
	first.Rows = []host.Row{{Key: "sub#x", Data: []byte("1"), IfAbsent: true}}
	a.land(first)

	second := a.next(1)
	second.Rows = []host.Row{{Key: "run#1", Data: []byte("r")}, {Key: "sub#x", Data: []byte("2"), IfAbsent: true}}
	requireConflict(t, s.Log.Commit(t.Context(), second), a.head, "sub#x")
	a.requireRow("sub#x", "1")
	a.requireNoRow("run#1")
	a.requireHead(a.head)
	a.requireEvents(2)

	// A plain row replaces what is there.
	third := a.next(1)
	third.Rows = []host.Row{{Key: "sub#x", Data: []byte("3")}}
	a.land(third)
	a.requireRow("sub#x", "3")
}

func conflictWritesNothing(t *testing.T, s Stores, _ Capabilities) {
	c := creation(keyOf("s1"))
	meta := fullMeta()
	c.Meta = &meta
	c.Rows = []host.Row{{Key: "run#1", Data: []byte("old"), Todo: 5}, {Key: "run#2", Data: []byte("kept")}}
	a := createWith(t, s, c)

	bad := a.next(2)
	bad.Expect, bad.Head.Rev, bad.Head.Write = 7, 8, "bad"
	bad.Head.DueAt = epoch
	other := meta
	other.Title = "changed"
	bad.Meta = &other
	bad.Rows = []host.Row{{Key: "run#1", Data: []byte("new")}, {Key: "run#3", Data: []byte("new")}}
	bad.DeleteRows = []string{"run#2"}
	blob := content("conflict", 1000)
	large := content("large conflict", 300<<10)
	bad.Blobs = []host.Blob{blob, large}
	requireConflict(t, s.Log.Commit(t.Context(), bad), a.head)

	a.requireHead(a.head)
	a.requireEvents(1)
	a.requireRow("run#1", "old")
	a.requireRow("run#2", "kept")
	a.requireNoRow("run#3")
	got, err := s.Log.Meta(t.Context(), a.key)
	require.NoError(t, err)
	require.Equal(t, meta, got)
	due, err := s.Log.Due(t.Context(), epoch.Add(ident.Day), 10)
	require.NoError(t, err)
	require.Empty(t, due)
	if s.Blobs != nil {
		for _, b := range bad.Blobs {
			_, err = s.Blobs.GetBlob(t.Context(), a.key, b.Ref)
			require.ErrorIs(t, err, host.ErrNotFound)
		}
	}
}

func eventless(t *testing.T, s Stores, _ Capabilities) {
	a := create(t, s, keyOf("s1"))
	park := a.next(0)
	park.Head.Drive = host.Drive{Epoch: 1, Step: 1, Status: host.DriveParked}
	a.land(park)
	a.requireHead(park.Head)
	a.land(a.next(1))
	a.requireEvents(2)
}

func opened(t *testing.T, s Stores, _ Capabilities) {
	requireOpen := func(a *actor, meta host.Meta) {
		t.Helper()
		head, got, err := s.Log.Open(t.Context(), a.key)
		require.NoError(t, err)
		require.Equal(t, a.head, head)
		require.Equal(t, meta, got)
	}
	_, _, err := s.Log.Open(t.Context(), keyOf("s1"))
	require.ErrorIs(t, err, host.ErrNotFound)

	// Neighbours in both directions, that none is taken for it.
	createWith(t, s, withProjections(creation(keyOf("s")), "before"))
	createWith(t, s, withProjections(creation(keyOf("s10")), "after"))
	a := create(t, s, keyOf("s1"))
	requireOpen(a, host.Meta{})

	next := a.next(1)
	next.Head = full(next.Head)
	meta := fullMeta()
	next.Meta = &meta
	next.Rows = []host.Row{{Key: "park", Data: []byte("token")}, {Key: "run#1", Data: []byte("x")}}
	a.land(next)
	requireOpen(a, meta)
	a.land(a.next(0))
	requireOpen(a, meta)
	require.NoError(t, s.Log.Delete(t.Context(), a.key, inc))
	_, _, err = s.Log.Open(t.Context(), a.key)
	require.ErrorIs(t, err, host.ErrNotFound)
}

func peeked(t *testing.T, s Stores, caps Capabilities) {
	peek := func(key host.Key) error {
		_, err := s.Log.Peek(t.Context(), key)
		return err
	}
	require.ErrorIs(t, peek(keyOf("s1")), host.ErrNotFound)
	a := create(t, s, keyOf("s1"))
	for range 3 {
		next := a.next(1)
		next.Head = full(next.Head)
		a.land(next)
		caps.eventually(t, func() error {
			head, err := s.Log.Peek(t.Context(), a.key)
			if err != nil || head.Rev != a.head.Rev {
				return fmt.Errorf("got %v %w, want rev %d", head, err, a.head.Rev)
			}
			require.Equal(t, a.head, head)
			return nil
		})
	}
	require.NoError(t, s.Log.Delete(t.Context(), a.key, inc))
	caps.eventually(t, func() error {
		if err := peek(a.key); !errors.Is(err, host.ErrNotFound) {
			return fmt.Errorf("it is still there: %w", err)
		}
		return nil
	})
}

func malformed(t *testing.T, s Stores, _ Capabilities) {
	a := create(t, s, keyOf("s1"))
	for name, bend := range map[string]func(c *host.Commit){
		"a rev that skips":           func(c *host.Commit) { c.Head.Rev++ },
		"entries that skip":          func(c *host.Commit) { c.Entries[1].Seq++; c.Head.Seq++ },
		"entries that start late":    func(c *host.Commit) { c.Entries = c.Entries[1:] },
		"entries that start early":   func(c *host.Commit) { c.Entries[0].Seq--; c.Entries[1].Seq--; c.Head.Seq-- },
		"a seq beyond the entries":   func(c *host.Commit) { c.Head.Seq++ },
		"a seq that moves by itself": func(c *host.Commit) { c.Entries = nil },
	} {
		c := a.next(2)
		bend(&c)
		err := s.Log.Commit(t.Context(), c)
		require.Error(t, err, name)
		require.False(t, isConflict(err), name)
	}
	a.requireHead(a.head)
	a.requireEvents(1)
}

func manyWriters(t *testing.T, s Stores, caps Capabilities) {
	need(t, caps.Concurrent, "Concurrent")
	a := create(t, s, keyOf("s1"))
	const writers, rounds = 50, 4
	for round := range rounds {
		errs := make([]error, writers)
		var wg sync.WaitGroup
		for i := range writers {
			c := a.next(1 + i%3)
			c.Head.Write = fmt.Sprintf("round-%d-writer-%d", round, i)
			c.Rows = []host.Row{{Key: "who", Data: []byte(c.Head.Write)}}
			wg.Go(func() { errs[i] = s.Log.Commit(t.Context(), c) })
		}
		wg.Wait()

		head, err := s.Log.Head(t.Context(), a.key)
		require.NoError(t, err)
		require.Equal(t, a.head.Rev+1, head.Rev)
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
				continue
			}
			requireConflict(t, err, head)
		}
		require.Equal(t, 1, won)
		a.head = head
		a.requireRow("who", head.Write)
		a.requireEvents(head.Seq)
	}
}

func manySessions(t *testing.T, s Stores, caps Capabilities) {
	need(t, caps.Concurrent, "Concurrent")
	const sessions, commits = 16, 12
	errs := make([]error, sessions)
	var wg sync.WaitGroup
	for i := range sessions {
		c := creation(keyOf(fmt.Sprintf("s%d", i)))
		wg.Go(func() {
			a := &actor{t: t, log: s.Log, key: c.Key}
			for n := range commits {
				if n > 0 {
					c = a.next(2)
					c.Rows = []host.Row{{Key: "n", Data: []byte(c.Head.Write)}}
				}
				if errs[i] = s.Log.Commit(t.Context(), c); errs[i] != nil {
					return
				}
				a.head = c.Head
			}
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	for i := range sessions {
		a := &actor{t: t, log: s.Log, key: keyOf(fmt.Sprintf("s%d", i))}
		head, err := s.Log.Head(t.Context(), a.key)
		require.NoError(t, err)
		require.Equal(t, uint64(commits), head.Rev)
		a.requireEvents(1 + 2*(commits-1))
		a.requireRow("n", fmt.Sprintf("write-%d", commits))
	}
}

func cancelledCommit(t *testing.T, s Stores, _ Capabilities) {
	a := create(t, s, keyOf("s1"))
	ctx := cancelled(t)
	c := a.next(1)
	c.Rows = []host.Row{{Key: "run#1", Data: []byte("x")}}
	require.ErrorIs(t, s.Log.Commit(ctx, c), ctx.Err())
	require.ErrorIs(t, s.Log.Commit(ctx, creation(keyOf("s2"))), ctx.Err())
	require.ErrorIs(t, s.Log.Delete(ctx, a.key, inc), ctx.Err())
	a.requireHead(a.head)
	a.requireEvents(1)
	a.requireNoRow("run#1")
	_, err := s.Log.Head(t.Context(), keyOf("s2"))
	require.ErrorIs(t, err, host.ErrNotFound)

	for name, read := range map[string]func() error{
		"Head": func() error { _, err := s.Log.Head(ctx, a.key); return err },
		"Read": func() error { _, err := s.Log.Read(ctx, a.key, 0, 1, 1, 1); return err },
		"Row":  func() error { _, err := s.Log.Row(ctx, a.key, "run#1"); return err },
		"List": func() error { _, err := s.Log.List(ctx, host.ListQuery{Tenant: tenant, Limit: 1}); return err },
		"Due":  func() error { _, err := s.Log.Due(ctx, epoch, 1); return err },
	} {
		require.ErrorIs(t, read(), ctx.Err(), name)
	}
}

func tenants(t *testing.T, s Stores, caps Capabilities) {
	here, there := keyOf("s1"), host.Key{Tenant: "other", Session: "s1"}
	a := createWith(t, s, withProjections(creation(here), "here"))
	b := createWith(t, s, withProjections(creation(there), "there"))
	a.land(a.next(3))
	a.requireEvents(4)
	b.requireHead(b.head)
	b.requireEvents(1)
	a.requireRow("run#1", "here")
	b.requireRow("run#1", "there")
	for _, x := range []*actor{a, b} {
		meta, err := s.Log.Meta(t.Context(), x.key)
		require.NoError(t, err)
		caps.eventually(t, func() error {
			todo, err := s.Log.Todo(t.Context(), x.key.Tenant, "", nil, 10)
			if err != nil || len(todo) != 1 || string(todo[0].Row.Data) != meta.Title {
				return fmt.Errorf("todo of %s: %v %w", x.key, todo, err)
			}
			listed, err := s.Log.List(t.Context(), host.ListQuery{Tenant: x.key.Tenant, Limit: 10})
			if err != nil || len(listed) != 1 || listed[0].Meta.Title != meta.Title {
				return fmt.Errorf("list of %s: %v %w", x.key, listed, err)
			}
			return nil
		})
	}
	require.NoError(t, s.Log.Delete(t.Context(), a.key, inc))
	b.requireHead(b.head)
	b.requireEvents(1)
	b.requireRow("run#1", "there")
}

// withProjections gives a commit a row that waits for a person and a meta.
func withProjections(c host.Commit, text string) host.Commit {
	meta := fullMeta()
	meta.Title = text
	c.Meta = &meta
	c.Rows = append(c.Rows, host.Row{Key: "run#1", Data: []byte(text), Todo: epoch})
	return c
}

func reopened(t *testing.T, s Stores, caps Capabilities) {
	need(t, caps.Persistent, "Persistent")
	c := withProjections(creation(keyOf("s1")), "text")
	c.Head = full(c.Head)
	small, large := content("small", 5000), content("large", 400<<10)
	c.Blobs = []host.Blob{small, large}
	a := createWith(t, s, c)
	a.land(a.next(5))

	s = caps.Reopen(t, s)
	a.log = s.Log
	a.requireHead(a.head)
	a.requireEvents(6)
	a.requireRow("run#1", "text")
	meta, err := s.Log.Meta(t.Context(), a.key)
	require.NoError(t, err)
	require.Equal(t, *c.Meta, meta)
	if s.Blobs != nil {
		for _, b := range c.Blobs {
			got, err := s.Blobs.GetBlob(t.Context(), a.key, b.Ref)
			require.NoError(t, err)
			require.Equal(t, b.Data, got)
		}
	}
	a.land(a.next(1))
	a.requireEvents(7)
}
