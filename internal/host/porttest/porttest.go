// Package porttest holds the conformance suites of the host's ports: one
// exported function a port, the same named cases for every adapter. What an
// adapter cannot do it declares in Capabilities; a case that needs it is then
// skipped with that reason in its output, never silently.
//
// It makes no adapter and fakes none. It may import the standard library
// (testing included), testify's require, core and internal/host; only tests
// may import it.
package porttest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// Stores is an adapter's set of stores over the same, at first empty, data. A
// suite needs its own port and Log, which makes the sessions.
type Stores struct {
	Log         host.Log
	Blobs       host.Blobs
	Checkpoints host.Checkpoints
	Stash       host.Stash
	// Now is the clock that the stores judge an expiry by.
	Now func() ident.Instant
}

// Factory makes empty stores and leaves their end to t.Cleanup.
type Factory func(t *testing.T) Stores

// Capabilities is what an adapter declares. The zero value is the least.
type Capabilities struct {
	// Persistent stores are there again after Reopen, which ends the old ones.
	Persistent bool
	Reopen     func(t *testing.T, old Stores) Stores
	// Concurrent stores take calls from many goroutines at once.
	Concurrent bool
	// PageBytes: reads of events end a page at about maxBytes.
	PageBytes bool
	// FencesLate stores refuse a blob of a session that is not there, and drop
	// a checkpoint whose incarnation is not the session's, so that what comes
	// late leaves nothing behind a deletion.
	FencesLate bool
	// ListsLag: lists over sessions show a write a moment later.
	ListsLag bool
	// Recalls: for minutes a commit that landed is success when it is sent
	// again, also when its session has been deleted since.
	Recalls bool
	// Expires: what was stashed goes by itself once it has expired, and
	// SweepStash finds nothing to do.
	Expires bool
	// TamperBlob changes a stored blob behind the adapter's back.
	TamperBlob func(t *testing.T, s Stores, key host.Key, ref blob.Ref)
	// DropEvent takes an event out of the log behind the adapter's back.
	DropEvent func(t *testing.T, s Stores, key host.Key, seq ident.Seq)
}

// need skips the case when a capability is not declared.
func need(t *testing.T, has bool, capability string) {
	t.Helper()
	if !has {
		t.Skipf("the adapter declares no %s", capability)
	}
}

// hang is a ceiling for what should take milliseconds: a guard against a case
// that never ends, not a measurement.
const hang = time.Minute

// eventually checks at once, or, where lists lag, until it holds.
func (c Capabilities) eventually(t *testing.T, check func() error) {
	t.Helper()
	if !c.ListsLag {
		require.NoError(t, check())
		return
	}
	require.Eventually(t, func() bool { return check() == nil }, hang, 50*time.Millisecond)
}

// logCase is one named claim about stores.
type logCase struct {
	name string
	run  func(t *testing.T, s Stores, caps Capabilities)
}

func runCases(t *testing.T, factory Factory, caps Capabilities, cases []logCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, factory(t), caps)
		})
	}
}

const (
	tenant ident.TenantID = "acme"
	inc    string         = "01J00000000000000000000001"
	// epoch is an instant that the cases count from.
	epoch ident.Instant = 1_700_000_000_000
)

func keyOf(name string) host.Key { return host.Key{Tenant: tenant, Session: ident.SessionID(name)} }

// actor is a session seen by one writer: the head it believes in.
type actor struct {
	t    *testing.T
	log  host.Log
	key  host.Key
	head host.Head
}

// creation is the commit that makes a session with one event.
func creation(key host.Key) host.Commit {
	head := host.Head{
		Rev: 1, Write: "create-" + string(key.Tenant) + "-" + string(key.Session), Seq: 1, Inc: inc,
		Status: host.StatusOpen, Drive: host.Drive{Status: host.DriveIdle}, At: epoch,
	}
	return host.Commit{Key: key, Head: head, Entries: []host.StoredEntry{{Seq: 1, Data: event(key, 1)}}}
}

func event(key host.Key, seq ident.Seq) []byte {
	return fmt.Appendf(nil, `{"of":%q,"seq":%d}`, key.String(), seq)
}

// create makes the session.
func create(t *testing.T, s Stores, key host.Key) *actor {
	t.Helper()
	return createWith(t, s, creation(key))
}

func createWith(t *testing.T, s Stores, c host.Commit) *actor {
	t.Helper()
	require.NoError(t, s.Log.Commit(t.Context(), c))
	return &actor{t: t, log: s.Log, key: c.Key, head: c.Head}
}

// next is a commit of n events on the head that the actor believes in.
func (a *actor) next(n int) host.Commit {
	head := a.head
	head.Rev++
	head.Write = fmt.Sprintf("write-%d", head.Rev)
	c := host.Commit{Key: a.key, Expect: a.head.Rev}
	for range n {
		head.Seq++
		c.Entries = append(c.Entries, host.StoredEntry{Seq: head.Seq, Data: event(a.key, head.Seq)})
	}
	head.At = head.At.Add(1)
	c.Head = head
	return c
}

// land commits and believes in the new head.
func (a *actor) land(c host.Commit) {
	a.t.Helper()
	require.NoError(a.t, a.log.Commit(a.t.Context(), c))
	a.head = c.Head
}

// requireConflict checks for a conflict that carries the head, and the row, if
// one is named.
func requireConflict(t *testing.T, err error, head host.Head, row ...string) {
	t.Helper()
	var conflict *host.Conflict
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, head, conflict.Head)
	require.Equal(t, strings.Join(row, ""), conflict.Row)
}

// requireHead checks the stored head.
func (a *actor) requireHead(want host.Head) {
	a.t.Helper()
	got, err := a.log.Head(a.t.Context(), a.key)
	require.NoError(a.t, err)
	require.Equal(a.t, want, got)
}

// requireEvents checks that the log is dense through upTo.
func (a *actor) requireEvents(upTo ident.Seq) {
	a.t.Helper()
	got, err := a.log.Read(a.t.Context(), a.key, 0, upTo, 1<<20, 1<<40)
	require.NoError(a.t, err)
	require.Len(a.t, got, int(upTo))
	for i, e := range got {
		require.Equal(a.t, ident.Seq(i)+1, e.Seq)
	}
}

func (a *actor) requireNoRow(row string) {
	a.t.Helper()
	_, err := a.log.Row(a.t.Context(), a.key, row)
	require.ErrorIs(a.t, err, host.ErrNotFound)
}

func (a *actor) requireRow(row, data string) {
	a.t.Helper()
	got, err := a.log.Row(a.t.Context(), a.key, row)
	require.NoError(a.t, err)
	require.Equal(a.t, row, got.Key)
	require.Equal(a.t, data, string(got.Data))
}

// cancelled is a context that is done.
func cancelled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// content is a blob of n bytes that differ by seed.
func content(seed string, n int) host.Blob {
	data := make([]byte, 0, n+len(seed))
	for len(data) < n {
		data = append(data, seed...)
	}
	data = data[:n]
	return host.Blob{Ref: blob.Sum(data), Data: data}
}

func rowKeys(rows []host.Row) []string {
	keys := make([]string, 0, len(rows))
	for _, r := range rows {
		keys = append(keys, r.Key)
	}
	return keys
}

func sessionsOf(keys []host.Key) []string {
	names := make([]string, 0, len(keys))
	for _, k := range keys {
		names = append(names, k.String())
	}
	return names
}

func same[T comparable](got, want []T) error {
	if len(got) != len(want) {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			return fmt.Errorf("got %v, want %v", got, want)
		}
	}
	return nil
}

func isConflict(err error) bool {
	var conflict *host.Conflict
	return errors.As(err, &conflict)
}
