package dynamo_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/adapter/dynamo"
	"github.com/perdure/perdure/internal/adapter/dynamo/dynamotest"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/localstack/target"
)

const (
	tenant = "acme"
	inc    = "01J00000000000000000000001"
	tries  = 4
)

var session1 = host.Key{Tenant: tenant, Session: "s1"}

// world is a store with faults on its way to the table, and one without.
type world struct {
	*dynamo.Store
	faults *dynamotest.Transport
	other  *dynamo.Store
	pauses atomic.Int32
}

func newWorld(t *testing.T, edit ...func(o *dynamo.Options)) *world {
	t.Helper()
	cfg := target.AWS(t)
	plain := dynamo.NewClient(cfg)
	name := dynamotest.Table(t, cfg)
	base := http.DefaultTransport
	if client, ok := cfg.HTTPClient.(*http.Client); ok {
		base = client.Transport
	}
	w := &world{faults: dynamotest.New(base), other: dynamo.New(plain, name, dynamo.Options{Now: clock})}
	cfg.HTTPClient = &http.Client{Transport: w.faults}
	o := dynamo.Options{Now: clock, Tries: tries, Pause: func(context.Context, time.Duration) error {
		w.pauses.Add(1)
		return nil
	}}
	for _, e := range edit {
		e(&o)
	}
	w.Store = dynamo.New(dynamo.NewClient(cfg), name, o)
	return w
}

// after is a commit of n events behind a head.
func after(head host.Head, write string, n int) host.Commit {
	c := host.Commit{Key: session1, Expect: head.Rev, Head: head}
	c.Head.Rev++
	c.Head.Write = write
	if head.Rev == 0 {
		c.Head.Inc, c.Head.Status, c.Head.Drive = inc, host.StatusOpen, host.Drive{Status: host.DriveIdle}
	}
	for range n {
		c.Head.Seq++
		c.Head.At++
		c.Entries = append(c.Entries, host.StoredEntry{Seq: c.Head.Seq, Data: fmt.Appendf(nil, `{"seq":%d}`, c.Head.Seq)})
	}
	return c
}

// create makes the session, without faults.
func (w *world) create(t *testing.T) host.Head {
	t.Helper()
	c := after(host.Head{}, "create", 1)
	require.NoError(t, w.other.Commit(t.Context(), c))
	return c.Head
}

func (w *world) requireHead(t *testing.T, want host.Head) {
	t.Helper()
	got, err := w.other.Head(t.Context(), session1)
	require.NoError(t, err)
	require.Equal(t, want, got)
	events, err := w.other.Read(t.Context(), session1, 0, want.Seq, 1000, 1<<20)
	require.NoError(t, err)
	require.Len(t, events, int(want.Seq))
}

func requireConflict(t *testing.T, err error, head host.Head) {
	t.Helper()
	var conflict *host.Conflict
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, head, conflict.Head)
}

func isConflict(err error) bool {
	var conflict *host.Conflict
	return errors.As(err, &conflict)
}

// kinds of commits: a transaction, and the put of a head alone.
func kinds(head host.Head) map[string]host.Commit {
	return map[string]host.Commit{"TransactWriteItems": after(head, "next", 2), "PutItem": after(head, "next", 0)}
}

func TestT39TransactionConflictIsTriedAgain(t *testing.T) {
	t.Parallel()
	for op, fault := range map[string]dynamotest.Fault{
		"TransactWriteItems": dynamotest.Cancelled("TransactionConflict", "TransactionConflict"),
		"PutItem":            dynamotest.Error("TransactionConflictException"),
	} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := kinds(w.create(t))[op]
			w.faults.Inject(op, 2, fault)
			require.NoError(t, w.Commit(t.Context(), c))
			require.Equal(t, 3, w.faults.Requests(op))
			require.EqualValues(t, 2, w.pauses.Load())
			w.requireHead(t, c.Head)
		})
	}
}

func TestT39TransactionConflictThatStaysCanBeTriedLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	head := w.create(t)
	c := after(head, "next", 2)
	w.faults.Inject("TransactWriteItems", tries, dynamotest.Cancelled("", "TransactionConflict"))
	err := w.Commit(t.Context(), c)
	require.ErrorIs(t, err, dynamo.ErrContended)
	require.False(t, isConflict(err), "it is no lost race")
	require.Equal(t, tries, w.faults.Requests("TransactWriteItems"))
	w.requireHead(t, head)
	require.NoError(t, w.Commit(t.Context(), c))
	w.requireHead(t, c.Head)
}

func TestT39ConditionalCheckFailedIsAConflictThatCarriesTheHead(t *testing.T) {
	t.Parallel()
	for op := range kinds(host.Head{}) {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			head := w.create(t)
			c := kinds(head)[op]
			rival := after(head, "rival", 1)
			require.NoError(t, w.other.Commit(t.Context(), rival))
			requireConflict(t, w.Commit(t.Context(), c), rival.Head)
			require.Equal(t, 1, w.faults.Requests(op), "a refused condition stays refused")
			require.Zero(t, w.faults.Requests("GetItem"), "the head came with the refusal")
			w.requireHead(t, rival.Head)
		})
	}
}

// TestT39EachReason has a transaction cancelled once for each reason, and for
// several at once, of which the strongest decides.
func TestT39EachReason(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reasons []string
		final   bool
		is      error // when it stays
	}{
		"conflict":                   {[]string{"", "TransactionConflict"}, false, dynamo.ErrContended},
		"throttling":                 {[]string{"ThrottlingError", ""}, false, dynamo.ErrThrottled},
		"throughput":                 {[]string{"", "ProvisionedThroughputExceeded"}, false, dynamo.ErrThrottled},
		"request limit":              {[]string{"", "RequestLimitExceeded"}, false, dynamo.ErrThrottled},
		"conflict and throttling":    {[]string{"ThrottlingError", "TransactionConflict"}, false, dynamo.ErrThrottled},
		"validation":                 {[]string{"", "ValidationError"}, true, nil},
		"size of a collection":       {[]string{"ItemCollectionSizeLimitExceeded", ""}, true, nil},
		"access":                     {[]string{"", "AccessDenied"}, true, nil},
		"a reason of the future":     {[]string{"", "SomethingNew"}, true, nil},
		"validation and conflict":    {[]string{"ValidationError", "TransactionConflict"}, true, nil},
		"validation and throttling":  {[]string{"ThrottlingError", "ValidationError"}, true, nil},
		"cancelled without a reason": {nil, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			head := w.create(t)
			next := after(head, "next", 2)
			w.faults.Inject("TransactWriteItems", 1, dynamotest.Cancelled(c.reasons...))
			err := w.Commit(t.Context(), next)
			if c.final {
				require.ErrorContains(t, err, "not acceptable as it is")
				require.False(t, isConflict(err))
				require.Equal(t, 1, w.faults.Requests("TransactWriteItems"))
				w.requireHead(t, head)
				return
			}
			require.NoError(t, err)
			w.requireHead(t, next.Head)

			w.faults.Inject("TransactWriteItems", tries, dynamotest.Cancelled(c.reasons...))
			later := after(next.Head, "later", 1)
			err = w.Commit(t.Context(), later)
			require.Error(t, err)
			require.False(t, isConflict(err))
			if c.is != nil {
				require.ErrorIs(t, err, c.is)
			}
			require.Equal(t, 2+tries, w.faults.Requests("TransactWriteItems"))
			w.requireHead(t, next.Head)
		})
	}
}

func TestT39ARefusedConditionIsStrongerThanAllElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	head := w.create(t)
	rival := after(head, "rival", 1)
	require.NoError(t, w.other.Commit(t.Context(), rival))
	c := after(head, "next", 2)
	for _, beside := range []string{"TransactionConflict", "ThrottlingError", "ValidationError"} {
		// The refusal comes without the old item, as it does where an item's
		// images are not sent: the head is then not known.
		w.faults.Inject("TransactWriteItems", 1, dynamotest.Cancelled("ConditionalCheckFailed", beside))
		require.True(t, isConflict(w.Commit(t.Context(), c)), beside)
	}
	require.Equal(t, 3, w.faults.Requests("TransactWriteItems"))
}

// TestThrottlingIsTriedAgain has each operation throttled, as an error and with
// the status that DynamoDB has for it.
func TestThrottlingIsTriedAgain(t *testing.T) {
	t.Parallel()
	for _, code := range []string{
		"ThrottlingException", "ProvisionedThroughputExceededException", "RequestLimitExceeded", "InternalServerError", "ServiceUnavailable",
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			head := w.create(t)
			for _, o := range operations(t, w, head) {
				before := w.faults.Requests(o.op)
				w.faults.Inject(o.op, 2, dynamotest.Error(code))
				require.NoError(t, o.do(), o.op)
				require.GreaterOrEqual(t, w.faults.Requests(o.op), before+3, o.op)
				require.Zero(t, w.faults.Left(), o.op)
			}
		})
	}
}

// operation does something by an operation of DynamoDB.
type operation struct {
	op string
	do func() error
}

// operations does something by each operation of DynamoDB, in this order.
func operations(t *testing.T, w *world, head host.Head) []operation {
	t.Helper()
	ctx := t.Context()
	next := after(head, "next", 2)
	next.Meta = &host.Meta{Title: "t", Status: host.StatusOpen}
	require.NoError(t, w.other.Commit(ctx, next))
	return []operation{
		{"GetItem", func() error { _, err := w.Head(ctx, session1); return err }},
		{"Query", func() error { _, err := w.Read(ctx, session1, 0, 3, 10, 1<<20); return err }},
		{"PutItem", func() error { _, err := w.PutStash(ctx, session1, "n", []byte("x"), clock()+1, false); return err }},
		{"DeleteItem", func() error { return w.DropStash(ctx, session1, "n") }},
		{"Scan", func() error { _, err := w.Unfinished(ctx, host.Key{}, 1); return err }},
		{"BatchGetItem", func() error { _, err := w.List(ctx, host.ListQuery{Tenant: tenant, Limit: 5}); return err }},
		{"TransactWriteItems", func() error { return w.Commit(ctx, after(next.Head, "last", 1)) }},
		{"BatchWriteItem", func() error { return w.Purge(ctx, session1, inc) }},
	}
}

func TestThrottlingThatStaysCanBeTriedLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	head := w.create(t)
	for _, o := range operations(t, w, head) {
		w.faults.Inject(o.op, tries, dynamotest.Error("ThrottlingException"))
		require.ErrorIs(t, o.do(), dynamo.ErrThrottled, o.op)
		require.Zero(t, w.faults.Left(), o.op)
	}
}

func TestErrorsThatStaySayWhatToDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(t)
	for code, want := range map[string]string{
		"ResourceNotFoundException":   "check the table's name",
		"AccessDeniedException":       "give the function's role",
		"UnrecognizedClientException": "credentials",
		"ValidationException":         "ValidationException",
	} {
		before := w.faults.Requests("GetItem")
		w.faults.Inject("GetItem", 1, dynamotest.Error(code))
		_, err := w.Head(t.Context(), session1)
		require.ErrorContains(t, err, want)
		require.Equal(t, before+1, w.faults.Requests("GetItem"), "%s is not tried again", code)
	}
	nowhere := dynamo.New(dynamo.NewClient(target.AWS(t)), "no-such-table", dynamo.Options{})
	_, err := nowhere.Head(t.Context(), session1)
	require.ErrorContains(t, err, "check the table's name")
	require.ErrorContains(t, nowhere.Commit(t.Context(), after(host.Head{}, "w", 1)), "check the table's name")
}

// TestT36RetriesAreMadeOnce has every try fail: the SDK makes none of its own,
// or there were more requests than the store's tries.
func TestT36RetriesAreMadeOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	head := w.create(t)
	for _, fault := range []dynamotest.Fault{dynamotest.LostRequest(), dynamotest.Status(http.StatusServiceUnavailable), dynamotest.Error("ThrottlingException")} {
		before := w.faults.Requests("TransactWriteItems")
		w.faults.Inject("TransactWriteItems", 100, fault)
		require.Error(t, w.Commit(t.Context(), after(head, "next", 1)))
		require.Equal(t, before+tries, w.faults.Requests("TransactWriteItems"))
		require.Equal(t, 100-tries, w.faults.Left())
		w.faults.Clear()
	}
}

func TestALostResponseIsAskedAboutAgain(t *testing.T) {
	t.Parallel()
	for op := range kinds(host.Head{}) {
		for name, fault := range map[string]dynamotest.Fault{"Request": dynamotest.LostRequest(), "Response": dynamotest.LostResponse(nil)} {
			for _, forget := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/%v", op, name, forget), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t)
					c := kinds(w.create(t))[op]
					if forget {
						w.faults.ForgetTokens()
					}
					w.faults.Inject(op, 2, fault)
					require.NoError(t, w.Commit(t.Context(), c))
					w.requireHead(t, c.Head)
				})
			}
		}
	}
}

// TestALandedWriteIsRecognisedAfterOthersHaveWritten loses the response of a
// commit until others have written, and the token has lapsed.
func TestALandedWriteIsRecognisedAfterOthersHaveWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	head := w.create(t)
	w.faults.ForgetTokens()
	c := after(head, "next", 2)
	later := after(c.Head, "later", 3)
	w.faults.Inject("TransactWriteItems", 1, dynamotest.LostResponse(func() {
		require.NoError(t, w.other.Commit(t.Context(), later))
		require.NoError(t, w.other.Commit(t.Context(), after(later.Head, "last", 0)))
	}))
	require.NoError(t, w.Commit(t.Context(), c))
	require.Zero(t, w.faults.Requests("GetItem"), "the batch came with the refusal")
	head, err := w.Head(t.Context(), session1)
	require.NoError(t, err)
	require.Equal(t, "last", head.Write)

	// The reasons need not tell of every item: then the batch is looked up.
	w.faults.Inject("TransactWriteItems", 1, dynamotest.LostRequest())
	require.NoError(t, w.Commit(t.Context(), c))
}

func TestASlowTryIsGivenUpAndMadeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *dynamo.Options) { o.Timeout = 200 * time.Millisecond })
	head := w.create(t)
	c := after(head, "next", 1)
	w.faults.Inject("TransactWriteItems", 1, dynamotest.Slow())
	require.NoError(t, w.Commit(t.Context(), c))
	w.requireHead(t, c.Head)
}

func TestACallerWhoGivesUpIsToldSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	head := w.create(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.faults.Inject("TransactWriteItems", 1, func(ctx context.Context, c *dynamotest.Call) (*http.Response, error) {
		cancel()
		return dynamotest.Slow()(ctx, c)
	})
	require.ErrorIs(t, w.Commit(ctx, after(head, "next", 1)), context.Canceled)
	require.Equal(t, 1, w.faults.Requests("TransactWriteItems"))
	w.requireHead(t, head)
}

// TestADelayedDuplicateChangesNothing has the network deliver a commit again,
// when others have written and its token is forgotten.
func TestADelayedDuplicateChangesNothing(t *testing.T) {
	t.Parallel()
	for op := range kinds(host.Head{}) {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			head := w.create(t)
			w.faults.ForgetTokens()
			c := kinds(head)[op]
			c.Head.Drive.Status = host.DriveParked
			w.faults.Inject(op, 1, dynamotest.Kept())
			require.NoError(t, w.Commit(t.Context(), c))
			later := after(c.Head, "later", 1)
			require.NoError(t, w.Commit(t.Context(), later))
			answers, err := w.faults.Replay(t.Context())
			require.NoError(t, err)
			require.Len(t, answers, 1)
			if op == "PutItem" {
				require.Contains(t, answers[0], "ConditionalCheckFailed")
			}
			w.requireHead(t, later.Head)
		})
	}
}

func TestATransactionInProgressIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := after(w.create(t), "next", 1)
	w.faults.Inject("TransactWriteItems", 2, dynamotest.Error("TransactionInProgressException"))
	require.NoError(t, w.Commit(t.Context(), c))
	w.requireHead(t, c.Head)
}

func TestAWriteIDThatIsUsedTwiceIsToldApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	head := w.create(t)
	mismatch := dynamotest.Error("IdempotentParameterMismatchException")
	c := after(head, "next", 1)

	// The head is still what the commit expects: somebody's write id is bad.
	w.faults.Inject("TransactWriteItems", 1, mismatch)
	err := w.Commit(t.Context(), c)
	require.ErrorContains(t, err, "give each its own")
	require.False(t, isConflict(err))

	// It has landed.
	require.NoError(t, w.Commit(t.Context(), c))
	w.faults.Inject("TransactWriteItems", 1, mismatch)
	require.NoError(t, w.Commit(t.Context(), c))
	later := after(c.Head, "later", 1)
	require.NoError(t, w.Commit(t.Context(), later))
	w.faults.Inject("TransactWriteItems", 1, mismatch)
	require.NoError(t, w.Commit(t.Context(), c))

	// Another has.
	rival := after(head, "rival", 1)
	w.faults.Inject("TransactWriteItems", 1, mismatch)
	requireConflict(t, w.Commit(t.Context(), rival), later.Head)
	claim := host.Drive{Epoch: 9}
	claimed := after(later.Head, "claimed", 1)
	claimed.Claim = &claim
	w.faults.Inject("TransactWriteItems", 1, mismatch)
	requireConflict(t, w.Commit(t.Context(), claimed), later.Head)
}

func TestWhatABatchLeavesIsDoneNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	list := func() error {
		listed, err := w.List(t.Context(), host.ListQuery{Tenant: tenant, Limit: 5})
		if err == nil {
			require.Len(t, listed, 1)
		}
		return err
	}
	next := after(w.create(t), "next", 1)
	next.Meta = &host.Meta{Title: "t", Status: host.StatusOpen}
	require.NoError(t, w.Commit(t.Context(), next))

	w.faults.Inject("BatchGetItem", 2, dynamotest.Unprocessed())
	require.NoError(t, list())
	require.Equal(t, 3, w.faults.Requests("BatchGetItem"))
	w.faults.Inject("BatchGetItem", tries, dynamotest.Unprocessed())
	require.ErrorIs(t, list(), dynamo.ErrThrottled)
	w.faults.Inject("BatchWriteItem", tries, dynamotest.Unprocessed())
	require.ErrorIs(t, w.Delete(t.Context(), session1, inc), dynamo.ErrThrottled)
	w.requireHead(t, next.Head)
	w.faults.Inject("BatchWriteItem", 2, dynamotest.Unprocessed())
	require.NoError(t, w.Delete(t.Context(), session1, inc))
	_, err := w.Head(t.Context(), session1)
	require.ErrorIs(t, err, host.ErrNotFound)
}

// TestStashAndDocumentsSurviveLostResponses: a put on condition that was done
// must not find itself in its own way.
func TestStashAndDocumentsSurviveLostResponses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.faults.Inject("PutItem", 1, dynamotest.LostResponse(nil))
	existing, err := w.PutStash(t.Context(), session1, "n", []byte("mine"), clock()+1, true)
	require.NoError(t, err)
	require.Nil(t, existing)
	for revision := range uint64(2) {
		w.faults.Inject("PutItem", 1, dynamotest.LostResponse(nil))
		now, err := w.PutDoc(t.Context(), tenant, "settings", []byte("x"), revision)
		require.NoError(t, err)
		require.Equal(t, revision+1, now)
	}
	w.faults.Inject("PutItem", 1, dynamotest.LostResponse(nil))
	_, now, err := w.PutPointer(t.Context(), session1, inc, 5)
	require.NoError(t, err)
	require.Equal(t, dynamo.Pointer{Inc: inc, Newest: 5}, now)
	w.faults.Inject("PutItem", 1, dynamotest.LostResponse(nil))
	was, now, err := w.PutPointer(t.Context(), session1, inc, 9)
	require.NoError(t, err)
	require.Equal(t, dynamo.Pointer{Inc: inc, Newest: 5}, was)
	require.Equal(t, dynamo.Pointer{Inc: inc, Newest: 9, Before: 5}, now)
}

// TestIndexesThatLag holds lists to what they promise when their index shows
// what was a moment ago.
func TestIndexesThatLag(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	make1 := func(name, status string, updated ident.Instant) host.Commit {
		c := after(host.Head{}, "create-"+name, 1)
		c.Key.Session, c.Head.Status = ident.SessionID(name), status
		c.Head.DueAt = updated
		c.Meta = &host.Meta{Title: name, Status: status, UpdatedAt: updated}
		c.Rows = []host.Row{{Key: "apr#1", Data: []byte(name), Todo: updated}}
		require.NoError(t, w.Commit(t.Context(), c))
		return c
	}
	moved, closed := make1("moved", host.StatusOpen, 1), make1("closed", host.StatusOpen, 2)
	deleting, deleted := make1("deleting", host.StatusOpen, 3), make1("deleted", host.StatusClosed, 4)
	w.faults.Lag()

	made := make1("made", host.StatusOpen, 9)
	step := func(c host.Commit, edit func(c *host.Commit)) {
		next := host.Commit{Key: c.Key, Expect: c.Head.Rev, Head: c.Head, Meta: c.Meta}
		next.Head.Rev, next.Head.Write = 2, "step"
		edit(&next)
		require.NoError(t, w.Commit(t.Context(), next))
	}
	step(moved, func(c *host.Commit) {
		c.Meta = &host.Meta{Title: "moved", Status: host.StatusOpen, UpdatedAt: 10}
		c.Head.DueAt = 0
		c.Rows = []host.Row{{Key: "apr#1", Data: []byte("decided")}}
	})
	step(closed, func(c *host.Commit) {
		c.Head.Status = host.StatusClosed
		c.Meta = &host.Meta{Title: "closed", Status: host.StatusClosed, UpdatedAt: 11}
	})
	step(deleting, func(c *host.Commit) { c.Head.Status, c.Meta = host.StatusDeleting, nil })
	require.NoError(t, w.Delete(t.Context(), deleted.Key, inc))

	list := func(status string) []string {
		var names []string
		q := host.ListQuery{Tenant: tenant, Status: status, Limit: 1}
		for {
			page, err := w.List(t.Context(), q)
			require.NoError(t, err)
			if len(page) == 0 {
				return names
			}
			names = append(names, string(page[0].Session))
			q.BeforeUpdated, q.BeforeSession = page[0].Meta.UpdatedAt, page[0].Session
		}
	}
	// What is new is not there yet, and what has moved is where it was; but
	// nothing is listed that is deleted or has another status.
	require.Equal(t, []string{"closed", "moved"}, list(""))
	require.Equal(t, []string{"moved"}, list(host.StatusOpen))
	require.Empty(t, list(host.StatusClosed))
	due, err := w.Due(t.Context(), 100, 10)
	require.NoError(t, err)
	require.Len(t, due, 4, "hints: each is read again before anything is done")
	todo, err := w.Todo(t.Context(), tenant, "apr#", nil, 10)
	require.NoError(t, err)
	require.Len(t, todo, 4)
	require.Equal(t, "moved", string(todo[0].Row.Data))

	w.faults.CatchUp()
	require.Equal(t, []string{"closed", "moved", "made"}, list(""))
	require.Equal(t, []string{"moved", "made"}, list(host.StatusOpen))
	require.Equal(t, []string{"closed"}, list(host.StatusClosed))
	due, err = w.Due(t.Context(), 100, 10)
	require.NoError(t, err)
	require.Equal(t, []host.Key{closed.Key, deleting.Key, made.Key}, due)
}

// TestASessionThatTheIndexHasTwiceIsListedOnce has the index answer for both
// statuses with the same sessions, as it may while one moves.
func TestASessionThatTheIndexHasTwiceIsListedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 3 {
		c := after(host.Head{}, "create", 1)
		c.Key.Session = ident.SessionID(fmt.Sprintf("s%d", i))
		c.Head.Write = string(c.Key.Session)
		c.Meta = &host.Meta{Status: host.StatusOpen, UpdatedAt: ident.Instant(i)}
		require.NoError(t, w.Commit(t.Context(), c))
	}
	w.faults.Inject("Query", 10, func(ctx context.Context, c *dynamotest.Call) (*http.Response, error) {
		c.Body = bytes.ReplaceAll(c.Body, []byte("acme#closed"), []byte("acme#open"))
		return c.Perform(ctx)
	})
	for _, limit := range []int{1, 2, 3, 10} {
		listed, err := w.List(t.Context(), host.ListQuery{Tenant: tenant, Limit: limit})
		require.NoError(t, err)
		require.Len(t, listed, min(limit, 3))
		for i, l := range listed {
			require.Equal(t, ident.SessionID(fmt.Sprintf("s%d", 2-i)), l.Session)
		}
	}
}
