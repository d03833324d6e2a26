package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/adapter/dynamo"
	"github.com/perdure/perdure/internal/adapter/dynamo/dynamotest"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/localstack/target"
)

// items are all that the table has of a partition.
func items(t *testing.T, w *world, pk string) []map[string]types.AttributeValue {
	t.Helper()
	out, err := dynamodb.NewFromConfig(target.AWS(t)).Query(t.Context(), &dynamodb.QueryInput{
		TableName: aws.String(w.Table()), ConsistentRead: aws.Bool(true), KeyConditionExpression: aws.String("pk = :pk"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":pk": &types.AttributeValueMemberS{Value: pk}},
	})
	require.NoError(t, err)
	return out.Items
}

func keysOf(t *testing.T, w *world, pk string) []string {
	t.Helper()
	var keys []string
	for _, it := range items(t, w, pk) {
		keys = append(keys, it["sk"].(*types.AttributeValueMemberS).Value)
	}
	return keys
}

// TestItemsStandUnderTheirKeys pins the layout: what is stored stays.
func TestItemsStandUnderTheirKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	c := after(host.Head{}, "create", 3)
	c.Meta = &host.Meta{Title: "t", Status: host.StatusOpen}
	c.Rows = []host.Row{{Key: "park", Data: []byte("token")}, {Key: "run#000000000001", Data: []byte("r")}, {Key: "apr#1", Data: []byte("a"), Todo: 7}}
	require.NoError(t, w.Commit(ctx, c))
	require.NoError(t, w.Commit(ctx, after(c.Head, "next", 2)))
	_, err := w.PutStash(ctx, session1, "n", []byte("x"), clock()+1, false)
	require.NoError(t, err)
	_, _, err = w.PutPointer(ctx, session1, inc, 5)
	require.NoError(t, err)
	require.Equal(t, []string{
		"apr#1", "h#ckpt", "h#head", "h#meta", "h#park", "log#000000000001", "log#000000000004", "run#000000000001", "stash#n",
	}, keysOf(t, w, "acme#s1"))

	row, err := w.Row(ctx, session1, "park")
	require.NoError(t, err)
	require.Equal(t, host.Row{Key: "park", Data: []byte("token")}, row)
	rows, err := w.Rows(ctx, session1, "", "", false, 10)
	require.NoError(t, err)
	require.Len(t, rows, 2, "the store's own items are no rows, and the token is in no list")
}

func TestKeysThatCouldMeetOthersAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	for _, key := range []host.Key{
		{Tenant: "a#b", Session: "c"},
		{Tenant: "a", Session: "b#c"},
		{Tenant: "a"},
		{Session: "c"},
		{Tenant: "a", Session: "é"},
		{Tenant: ident.TenantID(strings.Repeat("a", 129)), Session: "c"},
	} {
		c := after(host.Head{}, "w", 1)
		c.Key = key
		require.ErrorIs(t, w.Commit(ctx, c), dynamo.ErrKey, key)
		_, err := w.Head(ctx, key)
		require.ErrorIs(t, err, dynamo.ErrKey, key)
		_, _, err = w.Open(ctx, key)
		require.ErrorIs(t, err, dynamo.ErrKey, key)
		_, err = w.Row(ctx, key, "run#1")
		require.ErrorIs(t, err, dynamo.ErrKey, key)
		require.ErrorIs(t, w.Delete(ctx, key, inc), dynamo.ErrKey, key)
	}
	for _, row := range []string{"", "h#head", "log#000000000001", "stash#n", "doc#n", "live#1", strings.Repeat("x", 1025)} {
		c := after(host.Head{}, "w", 1)
		c.Rows = []host.Row{{Key: row, Data: []byte("x")}}
		require.ErrorIs(t, w.Commit(ctx, c), dynamo.ErrKey, row)
		_, err := w.Row(ctx, session1, row)
		require.ErrorIs(t, err, dynamo.ErrKey, row)
		c.Rows, c.DeleteRows = nil, []string{row}
		require.ErrorIs(t, w.Commit(ctx, c), dynamo.ErrKey, row)
	}
	_, err := w.List(ctx, host.ListQuery{Tenant: "a#b", Limit: 1})
	require.ErrorIs(t, err, dynamo.ErrKey)
	_, err = w.Todo(ctx, "a#b", "", nil, 1)
	require.ErrorIs(t, err, dynamo.ErrKey)
	_, err = w.PutStash(ctx, host.Key{Tenant: "a#b"}, "n", nil, 1, false)
	require.ErrorIs(t, err, dynamo.ErrKey)
	_, _, err = w.Doc(ctx, "a", "")
	require.ErrorIs(t, err, dynamo.ErrKey)
	require.Zero(t, w.faults.Requests("TransactWriteItems")+w.faults.Requests("GetItem")+w.faults.Requests("PutItem"))
}

// TestIndexesAreSparse: what nobody looks for there is not in them, and costs
// nothing.
func TestIndexesAreSparse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	indexed := func() (names []string) {
		for _, it := range items(t, w, "acme#s1") {
			for _, name := range []string{"lpk", "dpk", "tpk"} {
				if it[name] != nil {
					names = append(names, name)
				}
			}
		}
		return names
	}
	c := after(host.Head{}, "create", 1)
	c.Meta = &host.Meta{Title: "t", Status: host.StatusOpen}
	c.Head.DueAt = 5
	c.Rows = []host.Row{{Key: "apr#1", Data: []byte("x"), Todo: 5}, {Key: "apr#2", Data: []byte("x")}}
	require.NoError(t, w.Commit(t.Context(), c))
	require.Equal(t, []string{"tpk", "dpk", "lpk"}, indexed())

	next := after(c.Head, "next", 0)
	next.Head.DueAt = 0
	next.Rows = []host.Row{{Key: "apr#1", Data: []byte("x")}}
	require.NoError(t, w.Commit(t.Context(), next))
	require.Equal(t, []string{"lpk"}, indexed())

	for _, meta := range []*host.Meta{nil, c.Meta} {
		next = after(next.Head, "deleting"+next.Head.Write, 0)
		next.Head.Status, next.Meta = host.StatusDeleting, meta
		require.NoError(t, w.Commit(t.Context(), next))
		require.Empty(t, indexed())
	}
}

// TestTheLongestHeadIsAtMostOneKilobyte (I16): a transaction pays for each
// started one twice.
func TestTheLongestHeadIsAtMostOneKilobyte(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := strings.Repeat("x", 128)
	key := host.Key{Tenant: ident.TenantID(long), Session: ident.SessionID(long)}
	const most = 999_999_999_999
	head := host.Head{
		Rev: most, Write: strings.Repeat("w", 32), Seq: most, Inc: inc, Status: host.StatusDeleting,
		Drive: host.Drive{Epoch: most, Step: most, Attempt: most, Status: host.DriveStarting}, DueAt: 9_999_999_999_999, Failures: 1000,
		Quarantine: &host.Quarantine{Seq: most, Code: strings.Repeat("c", 40), Detail: strings.Repeat("d", 200)}, At: 9_999_999_999_999,
	}
	require.LessOrEqual(t, w.HeadSize(t, key, head), 1024)
}

func TestWhatIsTooLargeIsRefusedBeforeItIsSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	head := w.create(t)
	for name, edit := range map[string]func(c *host.Commit){
		"101 items": func(c *host.Commit) {
			for i := range 99 {
				c.Rows = append(c.Rows, host.Row{Key: fmt.Sprintf("run#%d", i), Data: []byte("x")})
			}
		},
		"a row over 400 KB": func(c *host.Commit) {
			c.Rows = []host.Row{{Key: "run#1", Data: noise(900 << 10)}}
		},
		"over 4 MB": func(c *host.Commit) {
			for i := range 12 {
				c.Rows = append(c.Rows, host.Row{Key: fmt.Sprintf("run#%d", i), Data: noise(700 << 10)})
			}
		},
	} {
		c := after(head, "large", 1)
		edit(&c)
		err := w.Commit(t.Context(), c)
		require.ErrorIs(t, err, dynamo.ErrTooLarge, name)
		require.NotContains(t, err.Error(), "run#1")
	}
	_, err := w.PutStash(t.Context(), session1, "n", noise(900<<10), clock()+1, false)
	require.ErrorIs(t, err, dynamo.ErrTooLarge)
	_, err = w.PutDoc(t.Context(), tenant, "n", noise(900<<10), 0)
	require.ErrorIs(t, err, dynamo.ErrTooLarge)
	require.Zero(t, w.faults.Requests("TransactWriteItems")+w.faults.Requests("PutItem"))
	w.requireHead(t, head)
}

// TestALargeBatchIsSeveralItems: far more than the host writes at once, but
// nothing that a log must not hold.
func TestALargeBatchIsSeveralItems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	head := w.create(t)
	c := after(head, "large", 300)
	c.Entries[3].Data, c.Entries[4].Data = noise(300_000), noise(200_000)
	w.faults.Inject("TransactWriteItems", 1, dynamotest.LostResponse(nil))
	require.NoError(t, w.Commit(t.Context(), c))
	w.requireHead(t, c.Head)
	got, err := w.Read(t.Context(), session1, 1, c.Head.Seq, 1000, 1<<30)
	require.NoError(t, err)
	require.Equal(t, c.Entries, got)
	require.Contains(t, keysOf(t, w, "acme#s1"), "log#000000000006")

	// Whatever is asked for, from anywhere.
	for _, after := range []ident.Seq{0, 4, 5, 100, 255, 256, 300} {
		got, err := w.Read(t.Context(), session1, after, c.Head.Seq, 7, 1<<30)
		require.NoError(t, err)
		require.Equal(t, after+1, got[0].Seq)
		before, err := w.ReadBefore(t.Context(), session1, after+1, 7, 1<<30)
		require.NoError(t, err)
		require.Len(t, before, min(7, int(after)))
	}
}

func TestAReaderWhoFollowsTheLogPaysForOneQuery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	head := w.create(t)
	for i := range 5 {
		c := after(head, fmt.Sprintf("w%d", i), 3)
		require.NoError(t, w.other.Commit(t.Context(), c))
		got, err := w.Read(t.Context(), session1, head.Seq, c.Head.Seq, 100, 1<<20)
		require.NoError(t, err)
		require.Len(t, got, 3)
		require.Equal(t, i+1, w.faults.Requests("Query"))
		head = c.Head
	}
	_, err := w.Read(t.Context(), session1, 3, 10, 100, 1<<20)
	require.NoError(t, err)
	require.Equal(t, 7, w.faults.Requests("Query"), "from the middle of a batch it is one more")
	_, _, err = w.Open(t.Context(), session1)
	require.NoError(t, err)
	require.Equal(t, 8, w.faults.Requests("Query"))
}

// TestBlobsAreDurableBeforeTheyAreNamed has a blob fail: nothing is committed.
func TestBlobsAreDurableBeforeTheyAreNamed(t *testing.T) {
	t.Parallel()
	broken := errors.New("no room")
	blobs := &failing{err: broken}
	w := newWorld(t, func(o *dynamo.Options) { o.Blobs = blobs })
	head := w.create(t)
	c := after(head, "next", 1)
	for i := range 9 {
		c.Blobs = append(c.Blobs, host.Blob{Ref: "sha256:0", Data: []byte{byte(i)}})
	}
	require.ErrorIs(t, w.Commit(t.Context(), c), broken)
	require.Zero(t, w.faults.Requests("TransactWriteItems"))
	blobs.err = nil
	require.NoError(t, w.Commit(t.Context(), c))
	w.requireHead(t, c.Head)

	without := newWorld(t)
	require.ErrorContains(t, without.Commit(t.Context(), c), "without a place")
}

// failing is a place for blobs that has none for the last.
type failing struct {
	somewhere
	err error
}

func (f *failing) PutBlob(ctx context.Context, key host.Key, b host.Blob) error {
	if b.Data[0] == 8 && f.err != nil {
		return f.err
	}
	return f.somewhere.PutBlob(ctx, key, b)
}

// grown is a session of many items.
func grown(t *testing.T, w *world) host.Head {
	t.Helper()
	head := w.create(t)
	for i := range 30 {
		c := after(head, fmt.Sprintf("w%d", i), 1)
		c.Rows = []host.Row{{Key: fmt.Sprintf("run#%d", i), Data: []byte("x")}}
		require.NoError(t, w.other.Commit(t.Context(), c))
		head = c.Head
	}
	return head
}

// TestADeletionThatIsKilledGoesOnWhereItWas fails each request of a deletion in
// turn, for good.
func TestADeletionThatIsKilledGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	purged := 0
	w := newWorld(t, func(o *dynamo.Options) {
		o.Purge = func(_ context.Context, key host.Key, i string) error {
			require.Equal(t, session1, key)
			require.Equal(t, inc, i)
			if purged++; purged == 1 {
				return errors.New("killed")
			}
			return nil
		}
	})
	grown(t, w)
	for _, op := range []string{"GetItem", "Query", "BatchWriteItem", "DeleteItem"} {
		w.faults.Inject(op, tries, dynamotest.LostRequest())
		for w.faults.Left() > 0 {
			require.Error(t, w.Delete(t.Context(), session1, inc), op)
			_, err := w.other.Head(t.Context(), session1)
			require.NoError(t, err, "the head goes last")
		}
	}
	require.NoError(t, w.Delete(t.Context(), session1, inc))
	require.Empty(t, keysOf(t, w, "acme#s1"))
	require.Greater(t, purged, 1)
}

// TestADeletionLeavesNothingOfACommitThatComesBetween: a batch that is written
// while the items go would stand in the way of a session of the same id.
func TestADeletionLeavesNothingOfACommitThatComesBetween(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	head := grown(t, w)
	late := after(head, "late", 1)
	w.faults.Inject("DeleteItem", 1, func(ctx context.Context, c *dynamotest.Call) (*http.Response, error) {
		require.NoError(t, w.other.Commit(ctx, late))
		return c.Perform(ctx)
	})
	require.NoError(t, w.Delete(t.Context(), session1, inc))
	require.Empty(t, keysOf(t, w, "acme#s1"))
	require.Equal(t, 2, w.faults.Requests("DeleteItem"))

	// The head's own deletion, done and not answered.
	head = grown(t, w)
	w.faults.Inject("DeleteItem", 1, dynamotest.LostResponse(nil))
	require.NoError(t, w.Delete(t.Context(), session1, head.Inc))
	require.Empty(t, keysOf(t, w, "acme#s1"))
}

func TestPurgeLeavesTheHead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	head := grown(t, w)
	require.NoError(t, w.Purge(t.Context(), session1, "01J00000000000000000000099"))
	require.NotEqual(t, []string{"h#head"}, keysOf(t, w, "acme#s1"))
	for range 2 {
		require.NoError(t, w.Purge(t.Context(), session1, inc))
		require.Equal(t, []string{"h#head"}, keysOf(t, w, "acme#s1"))
	}
	got, err := w.Head(t.Context(), session1)
	require.NoError(t, err)
	require.Equal(t, head, got)
	require.NoError(t, w.Purge(t.Context(), host.Key{Tenant: tenant, Session: "never"}, inc))
}

func TestDocumentsAreChangedByRevision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	_, _, err := w.Doc(ctx, tenant, "settings")
	require.ErrorIs(t, err, host.ErrNotFound)
	revision, err := w.PutDoc(ctx, tenant, "settings", []byte("one"), 0)
	require.NoError(t, err)
	_, err = w.PutDoc(ctx, tenant, "settings", []byte("two"), 0)
	require.ErrorIs(t, err, dynamo.ErrRevision)
	_, err = w.PutDoc(ctx, "other", "settings", []byte("two"), revision)
	require.ErrorIs(t, err, dynamo.ErrRevision)
	revision, err = w.PutDoc(ctx, tenant, "settings", []byte("two"), revision)
	require.NoError(t, err)
	_, err = w.other.PutDoc(ctx, tenant, "settings", []byte("three"), revision-1)
	require.ErrorIs(t, err, dynamo.ErrRevision)
	data, now, err := w.Doc(ctx, tenant, "settings")
	require.NoError(t, err)
	require.Equal(t, "two", string(data))
	require.Equal(t, revision, now)
	require.Equal(t, []string{"doc#settings"}, keysOf(t, w, "acme#"))
}

func TestThePointerNeverGoesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const newer = "01J00000000000000000000002"
	put := func(inc string, seq ident.Seq) (was, now dynamo.Pointer) {
		was, now, err := w.PutPointer(t.Context(), session1, inc, seq)
		require.NoError(t, err)
		stands, err := w.GetPointer(t.Context(), session1)
		require.NoError(t, err)
		require.Equal(t, now, stands)
		return was, now
	}
	for _, c := range []struct {
		inc  string
		seq  ident.Seq
		want dynamo.Pointer
	}{
		{inc, 5, dynamo.Pointer{Inc: inc, Newest: 5}},
		{inc, 5, dynamo.Pointer{Inc: inc, Newest: 5}},
		{inc, 9, dynamo.Pointer{Inc: inc, Newest: 9, Before: 5}},
		{inc, 7, dynamo.Pointer{Inc: inc, Newest: 9, Before: 5}},
		{inc, 12, dynamo.Pointer{Inc: inc, Newest: 12, Before: 9}},
		{newer, 1, dynamo.Pointer{Inc: newer, Newest: 1}},
		{inc, 99, dynamo.Pointer{Inc: newer, Newest: 1}},
	} {
		_, now := put(c.inc, c.seq)
		require.Equal(t, c.want, now)
	}

	// Another writes between the look and the put.
	w.faults.Inject("PutItem", 1, func(ctx context.Context, c *dynamotest.Call) (*http.Response, error) {
		_, _, err := w.other.PutPointer(ctx, session1, newer, 4)
		require.NoError(t, err)
		return c.Perform(ctx)
	})
	was, now := put(newer, 6)
	require.Equal(t, dynamo.Pointer{Inc: newer, Newest: 4, Before: 1}, was)
	require.Equal(t, dynamo.Pointer{Inc: newer, Newest: 6, Before: 4}, now)
}

// TestDamagedItemsAreReported has items that cannot be what was written: each
// is an error that says so, and no panic.
func TestDamagedItemsAreReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	c := after(host.Head{}, "create", 2)
	c.Meta = &host.Meta{Title: "t", Status: host.StatusOpen}
	c.Rows = []host.Row{{Key: "run#1", Data: noise(2000)}}
	require.NoError(t, w.Commit(ctx, c))
	client := dynamodb.NewFromConfig(target.AWS(t))
	for _, it := range items(t, w, "acme#s1") {
		sk := it["sk"].(*types.AttributeValueMemberS).Value
		for name := range it {
			if name == "pk" || name == "sk" || strings.HasPrefix(name, "l") {
				continue
			}
			kept := it[name]
			for _, bad := range []types.AttributeValue{
				&types.AttributeValueMemberBOOL{Value: true}, &types.AttributeValueMemberS{Value: "{1/x"}, &types.AttributeValueMemberB{Value: []byte{1, 0xff}},
			} {
				it[name] = bad
				_, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(w.Table()), Item: it})
				require.NoError(t, err)
				if err := readAll(ctx, w.Store); err == nil {
					require.Contains(t, []string{"write", "status", "inc"}, name, "%s of %s", name, sk)
				} else {
					require.ErrorIs(t, err, dynamo.ErrDamaged, "%s of %s: %v", name, sk, bad)
				}
			}
			it[name] = kept
		}
		_, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(w.Table()), Item: it})
		require.NoError(t, err)
	}
	require.NoError(t, readAll(ctx, w.Store))
}

func readAll(ctx context.Context, s *dynamo.Store) error {
	_, _, err := s.Open(ctx, session1)
	_, readErr := s.Read(ctx, session1, 0, 2, 10, 1<<20)
	_, rowErr := s.Row(ctx, session1, "run#1")
	_, metaErr := s.Meta(ctx, session1)
	return errors.Join(err, readErr, rowErr, metaErr)
}
