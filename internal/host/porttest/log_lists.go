package porttest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

func listCases() []logCase {
	return []logCase{
		{"SessionsAreListedNewestFirst", listOrder},
		{"SessionsAreListedByStatus", listStatus},
		{"ADeletingSessionIsNotListed", listDeleting},
		{"ListsArePagedAcrossTies", listPaged},
		{"AnUpdateMovesASession", listMoves},
		{"DueGivesWhatIsOwedEarliestFirst", due},
		{"UnfinishedGivesWhatIsDriven", unfinished},
	}
}

func listed(name, status string, updated ident.Instant) host.Commit {
	c := creation(keyOf(name))
	c.Head.Status = status
	c.Meta = &host.Meta{Title: "of " + name, Status: status, CreatedAt: epoch, UpdatedAt: epoch + updated}
	return c
}

func requireListed(t *testing.T, s Stores, caps Capabilities, status string, want ...string) {
	t.Helper()
	caps.eventually(t, func() error {
		got, err := s.Log.List(t.Context(), host.ListQuery{Tenant: tenant, Status: status, Limit: 100})
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		return same(names(got), want)
	})
}

func names(listed []host.Listed) []string {
	out := make([]string, 0, len(listed))
	for _, l := range listed {
		out = append(out, string(l.Session))
	}
	return out
}

func listOrder(t *testing.T, s Stores, caps Capabilities) {
	createWith(t, s, listed("b", host.StatusOpen, 2))
	createWith(t, s, listed("a", host.StatusOpen, 1))
	createWith(t, s, listed("d", host.StatusOpen, 3))
	createWith(t, s, listed("c", host.StatusOpen, 3))
	foreign := listed("x", host.StatusOpen, 9)
	foreign.Key.Tenant = "other"
	createWith(t, s, foreign)
	requireListed(t, s, caps, "", "c", "d", "b", "a")

	got, err := s.Log.List(t.Context(), host.ListQuery{Tenant: tenant, Limit: 1})
	require.NoError(t, err)
	want := listed("c", host.StatusOpen, 3)
	require.Equal(t, []host.Listed{{Session: "c", Head: want.Head, Meta: *want.Meta}}, got)
	got, err = s.Log.List(t.Context(), host.ListQuery{Tenant: tenant})
	require.NoError(t, err)
	require.Empty(t, got)
}

func listStatus(t *testing.T, s Stores, caps Capabilities) {
	createWith(t, s, listed("a", host.StatusOpen, 1))
	createWith(t, s, listed("b", host.StatusClosed, 2))
	c := createWith(t, s, listed("c", host.StatusOpen, 3))
	requireListed(t, s, caps, host.StatusOpen, "c", "a")
	requireListed(t, s, caps, host.StatusClosed, "b")
	requireListed(t, s, caps, "", "c", "b", "a")

	closing := c.next(1)
	closing.Head.Status = host.StatusClosed
	closing.Meta = &host.Meta{Title: "of c", Status: host.StatusClosed, UpdatedAt: epoch + 4}
	c.land(closing)
	requireListed(t, s, caps, host.StatusOpen, "a")
	requireListed(t, s, caps, host.StatusClosed, "c", "b")

	// Also where the head alone says it.
	a := createWith(t, s, listed("d", host.StatusOpen, 5))
	closing = a.next(0)
	closing.Head.Status = host.StatusClosed
	a.land(closing)
	requireListed(t, s, caps, host.StatusOpen, "a")
	requireListed(t, s, caps, host.StatusClosed, "d", "c", "b")
}

func listDeleting(t *testing.T, s Stores, caps Capabilities) {
	a := createWith(t, s, listed("a", host.StatusClosed, 1))
	createWith(t, s, listed("b", host.StatusClosed, 2))
	createWith(t, s, listed("c", host.StatusDeleting, 3))

	// The head says it; nobody writes the meta of what is going away.
	gone := a.next(0)
	gone.Head.Status = host.StatusDeleting
	a.land(gone)
	for _, status := range []string{"", host.StatusOpen, host.StatusClosed} {
		want := []string{"b"}
		if status == host.StatusOpen {
			want = nil
		}
		requireListed(t, s, caps, status, want...)
	}
	a.requireHead(gone.Head)
	require.NoError(t, s.Log.Delete(t.Context(), keyOf("b"), inc))
	requireListed(t, s, caps, "")
}

func listPaged(t *testing.T, s Stores, caps Capabilities) {
	var want []string
	for updated := 3; updated > 0; updated-- {
		for i := range 4 {
			name := fmt.Sprintf("s%d-%d", updated, i)
			status := host.StatusOpen
			if i%2 == 1 {
				status = host.StatusClosed
			}
			createWith(t, s, listed(name, status, ident.Instant(updated)))
			want = append(want, name)
		}
	}
	requireListed(t, s, caps, "", want...)
	for _, limit := range []int{1, 3, 5, 12, 50} {
		q := host.ListQuery{Tenant: tenant, Limit: limit}
		var got []string
		for {
			page, err := s.Log.List(t.Context(), q)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page), limit)
			if len(page) == 0 {
				break
			}
			got = append(got, names(page)...)
			last := page[len(page)-1]
			q.BeforeUpdated, q.BeforeSession = last.Meta.UpdatedAt, last.Session
		}
		require.Equal(t, want, got)
	}
}

func listMoves(t *testing.T, s Stores, caps Capabilities) {
	a := createWith(t, s, listed("a", host.StatusOpen, 1))
	createWith(t, s, listed("b", host.StatusOpen, 2))
	requireListed(t, s, caps, "", "b", "a")
	move := a.next(1)
	move.Meta = &host.Meta{Title: "of a", Status: host.StatusOpen, UpdatedAt: epoch + 3}
	a.land(move)
	requireListed(t, s, caps, "", "a", "b")
	// A commit without a meta leaves the list as it is, and shows its head.
	a.land(a.next(1))
	caps.eventually(t, func() error {
		got, err := s.Log.List(t.Context(), host.ListQuery{Tenant: tenant, Limit: 1})
		if err != nil || got[0].Head.Rev != a.head.Rev {
			return fmt.Errorf("got %v %w, want rev %d", got, err, a.head.Rev)
		}
		return nil
	})
}

func due(t *testing.T, s Stores, caps Capabilities) {
	at := func(tenant ident.TenantID, name string, due ident.Instant) *actor {
		c := creation(host.Key{Tenant: tenant, Session: ident.SessionID(name)})
		c.Head.DueAt = due
		return createWith(t, s, c)
	}
	at("acme", "never", 0)
	late := at("acme", "late", epoch.Add(50))
	at("zeta", "early", epoch.Add(10))
	at("acme", "future", epoch.Add(1000))
	at("beta", "exact", epoch.Add(100))
	requireDue := func(now ident.Instant, limit int, want ...string) {
		t.Helper()
		caps.eventually(t, func() error {
			got, err := s.Log.Due(t.Context(), now, limit)
			if err != nil {
				return fmt.Errorf("due: %w", err)
			}
			return same(sessionsOf(got), want)
		})
	}
	requireDue(epoch.Add(100), 10, "zeta/early", "acme/late", "beta/exact")
	requireDue(epoch.Add(99), 10, "zeta/early", "acme/late")
	requireDue(epoch.Add(100), 1, "zeta/early")
	requireDue(epoch, 10)

	// It moves with the head, and 0 takes it off.
	move := late.next(0)
	move.Head.DueAt = epoch.Add(5)
	late.land(move)
	requireDue(epoch.Add(99), 10, "acme/late", "zeta/early")
	off := late.next(0)
	off.Head.DueAt = 0
	late.land(off)
	requireDue(epoch.Add(99), 10, "zeta/early")
}

func unfinished(t *testing.T, s Stores, caps Capabilities) {
	in := func(tenant ident.TenantID, name, status string) *actor {
		c := creation(host.Key{Tenant: tenant, Session: ident.SessionID(name)})
		c.Head.Drive = host.Drive{Epoch: 1, Status: status}
		return createWith(t, s, c)
	}
	in("acme", "idle", host.DriveIdle)
	in("acme", "a", host.DriveStarting)
	running := in("acme", "b", host.DriveRunning)
	in("beta", "a", host.DriveParked)
	in("beta", "c", host.DriveWaking)
	in("beta", "none", "")
	requireUnfinished := func(after host.Key, limit int, want ...string) {
		t.Helper()
		caps.eventually(t, func() error {
			got, err := s.Log.Unfinished(t.Context(), after, limit)
			if err != nil {
				return fmt.Errorf("unfinished: %w", err)
			}
			return same(sessionsOf(got), want)
		})
	}
	requireUnfinished(host.Key{}, 10, "acme/a", "acme/b", "beta/a", "beta/c")
	requireUnfinished(host.Key{}, 3, "acme/a", "acme/b", "beta/a")
	requireUnfinished(host.Key{Tenant: "acme", Session: "b"}, 10, "beta/a", "beta/c")
	requireUnfinished(host.Key{Tenant: "beta", Session: "b"}, 10, "beta/c")

	done := running.next(1)
	done.Head.Drive.Status = host.DriveIdle
	running.land(done)
	requireUnfinished(host.Key{}, 10, "acme/a", "beta/a", "beta/c")
}
