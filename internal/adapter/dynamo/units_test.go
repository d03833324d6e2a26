package dynamo_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/adapter/dynamo"
	"github.com/perdure/perdure/internal/adapter/dynamo/dynamotest"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/localstack/target"
)

func TestItemSizesAreAsDocumented(t *testing.T) {
	t.Parallel()
	s := func(v string) types.AttributeValue { return &types.AttributeValueMemberS{Value: v} }
	n := func(v string) types.AttributeValue { return &types.AttributeValueMemberN{Value: v} }
	for name, c := range map[string]struct {
		value types.AttributeValue
		size  int
	}{
		"a text":                        {s("héllo"), 6},
		"an empty text":                 {s(""), 0},
		"bytes":                         {&types.AttributeValueMemberB{Value: make([]byte, 300)}, 300},
		"true":                          {&types.AttributeValueMemberBOOL{Value: true}, 1},
		"null":                          {&types.AttributeValueMemberNULL{Value: true}, 1},
		"zero":                          {n("0"), 1},
		"one digit":                     {n("7"), 2},
		"two digits":                    {n("42"), 2},
		"three digits":                  {n("421"), 3},
		"an instant":                    {n("1700000000123"), 8},
		"zeros at the end do not count": {n("1700000000"), 2},
		"a zero within a pair does":     {n("17000000000"), 3},
		"a sign":                        {n("-42"), 3},
		"a fraction":                    {n("1.5"), 3},
		"an empty list":                 {&types.AttributeValueMemberL{}, 3},
		"a list":                        {&types.AttributeValueMemberL{Value: []types.AttributeValue{s("ab"), s("c")}}, 3 + 1 + 2 + 1 + 1},
		"a map":                         {&types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"key": s("ab")}}, 3 + 1 + 3 + 2},
		"a set of texts":                {&types.AttributeValueMemberSS{Value: []string{"ab", "c"}}, 3},
		"a set of numbers":              {&types.AttributeValueMemberNS{Value: []string{"1", "100"}}, 4},
		"a set of bytes":                {&types.AttributeValueMemberBS{Value: [][]byte{{1, 2}, {3}}}, 3},
	} {
		require.Equal(t, len("name")+c.size, dynamo.ItemSize(map[string]types.AttributeValue{"name": c.value}), name)
	}
}

func TestUnitsAreRoundedUp(t *testing.T) {
	t.Parallel()
	for bytes, units := range map[int]float64{0: 1, 1: 1, 1024: 1, 1025: 2, 400 << 10: 400} {
		require.InDelta(t, units, dynamo.WriteUnits(bytes), 0, bytes)
	}
	for bytes, units := range map[int]float64{0: 1, 1: 1, 4096: 1, 4097: 2, 400 << 10: 100} {
		require.InDelta(t, units, dynamo.ReadUnits(bytes, true), 0, bytes)
		require.InDelta(t, units/2, dynamo.ReadUnits(bytes, false), 0, bytes)
	}
}

// metered is a store whose costs are counted by rule, and as the endpoint
// reports them.
type metered struct {
	*dynamo.Store
	meter    *dynamo.Meter
	reported *reported
}

func newMetered(t *testing.T) *metered {
	t.Helper()
	client := dynamo.NewClient(target.AWS(t))
	meter := dynamo.NewMeter(client)
	r := &reported{API: meter, ops: map[string]float64{}}
	return &metered{dynamo.New(r, dynamotest.Table(t, target.AWS(t)), dynamo.Options{Now: clock, Blobs: new(somewhere)}), meter, r}
}

// took returns what was counted and reported since the last time.
func (m *metered) took() (map[string]dynamo.Usage, map[string]float64) {
	counted, reported := m.meter.Ops(), m.reported.ops
	m.meter.Reset()
	m.reported.ops = map[string]float64{}
	return counted, reported
}

// noise is text that does not deflate to much less.
func noise(n int) []byte {
	var b strings.Builder
	for i := uint64(1); b.Len() < n; i++ {
		fmt.Fprintf(&b, "%x", i*0x9E3779B97F4A7C15)
	}
	return []byte(b.String()[:n])
}

// script is a session that writes itself.
type script struct {
	*metered
	t    *testing.T
	key  host.Key
	head host.Head
}

func newScript(t *testing.T) *script {
	t.Helper()
	return &script{
		metered: newMetered(t), t: t, key: host.Key{Tenant: "acme", Session: "s1"},
		head: host.Head{Inc: "01J00000000000000000000001", Status: host.StatusOpen, Drive: host.Drive{Status: host.DriveIdle}, At: 1},
	}
}

// commit writes events of these sizes, and what edit adds.
func (s *script) commit(sizes []int, edit func(c *host.Commit)) error {
	c := host.Commit{Key: s.key, Expect: s.head.Rev, Head: s.head}
	c.Head.Rev++
	c.Head.Write = fmt.Sprintf("write-%d", c.Head.Rev)
	for _, size := range sizes {
		c.Head.Seq++
		c.Entries = append(c.Entries, host.StoredEntry{Seq: c.Head.Seq, Data: noise(size)})
	}
	if edit != nil {
		edit(&c)
	}
	err := s.Commit(s.t.Context(), c)
	if err == nil {
		s.head = c.Head
	}
	return err
}

// step is something that a store does, and what targets report of an operation
// instead of what AWS documents, where that differs.
type step struct {
	name    string
	do      func(ctx context.Context) error
	reports map[string]units
}

// units are what a target reports, by the target's name.
type units map[string]float64

// local is of LocalStack's DynamoDB Local alone.
func local(u float64) units { return units{target.NameLocalStack: u} }

// emulated is of MiniStack alone.
func emulated(u float64) units { return units{target.NameEmulator: u} }

// writes. Of a transaction AWS counts twice what it writes to the table, and
// once what follows in indexes; DynamoDB Local reports up to four times either,
// and of one that is sent again less than two units for each item:
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html#transaction-capacity-handling
func (s *script) writes() []step {
	meta := func(title string, at ident.Instant) *host.Meta {
		return &host.Meta{Title: title, Status: host.StatusOpen, UpdatedAt: at}
	}
	alone := func(name string, sizes []int, edit func(c *host.Commit)) step {
		return step{name: name, do: func(context.Context) error { return s.commit(sizes, edit) }}
	}
	commit := func(name string, reported float64, sizes []int, edit func(c *host.Commit)) step {
		step := alone(name, sizes, edit)
		step.reports = map[string]units{"TransactWriteItems": local(reported)}
		return step
	}
	return []step{
		commit("create", 12, []int{300}, func(c *host.Commit) { c.Meta = meta("a", 1) }),
		commit("large batch, due, rows", 36, []int{3000, 4000, 10}, func(c *host.Commit) {
			c.Head.DueAt = 1000
			c.Rows = []host.Row{{Key: "run#1", Data: noise(5000)}, {Key: "apr#1", Data: noise(2500), Todo: 5}}
		}),
		commit("due moves, row shrinks, todo goes", 44, []int{10}, func(c *host.Commit) {
			c.Head.DueAt = 2000
			c.Rows = []host.Row{{Key: "run#1", Data: []byte("x")}, {Key: "apr#1", Data: noise(100)}}
		}),
		commit("meta moves", 16, []int{10}, func(c *host.Commit) { c.Meta = meta("a", 2) }),
		commit("meta changes in place", 28, nil, func(c *host.Commit) { c.Meta = meta(string(noise(2000)), 2) }),
		commit("meta as it was", 16, nil, func(c *host.Commit) { c.Meta = meta(string(noise(2000)), 2) }),
		alone("head alone", nil, nil),
		alone("head alone, no longer due", nil, func(c *host.Commit) { c.Head.DueAt = 0 }),
		alone("a row goes, one never was", nil, func(c *host.Commit) { c.DeleteRows = []string{"run#1", "never"} }),
		// Under its token it is a read.
		{name: "sent again", do: func(ctx context.Context) error {
			return s.Commit(ctx, host.Commit{Key: s.key, Expect: s.head.Rev - 1, Head: s.head, DeleteRows: []string{"run#1", "never"}})
		}, reports: map[string]units{"TransactWriteItems": local(2)}},
		commit("a large row", 40, nil, func(c *host.Commit) { c.Rows = []host.Row{{Key: "big#1", Data: noise(18_000)}} }),
		commit("closed without a meta", 40, nil, func(c *host.Commit) { c.Head.Status = host.StatusClosed }),
		{name: "stash", do: func(ctx context.Context) error {
			_, err := s.PutStash(ctx, s.key, "n", noise(5000), 1<<41, true)
			return err
		}},
		// A refused condition is reported with an error, and so without a cost.
		{name: "stash is there", do: func(ctx context.Context) error {
			_, err := s.PutStash(ctx, s.key, "n", noise(5000), 1<<41, true)
			return err
		}, reports: map[string]units{"PutItem": {target.NameEmulator: 0, target.NameLocalStack: 0}}},
		{name: "drop stash", do: func(ctx context.Context) error { return s.DropStash(ctx, s.key, "n") }},
		{name: "pointer", do: func(ctx context.Context) error {
			_, _, err := s.PutPointer(ctx, s.key, s.head.Inc, 5)
			return err
		}},
	}
}

// reads. The emulator reports one unit, or half of one, for each GetItem, Query
// and Scan, however much it read, and nothing for BatchGetItem; AWS rounds up
// by four kilobytes. DynamoDB Local reports nothing of a query that finds
// nothing; on AWS that is a unit, or half of one.
func (s *script) reads() []step {
	return []step{
		{name: "head", do: func(ctx context.Context) error { _, err := s.Head(ctx, s.key); return err }},
		{name: "peek", do: func(ctx context.Context) error { _, err := s.Peek(ctx, s.key); return err }},
		{name: "open", do: func(ctx context.Context) error { _, _, err := s.Open(ctx, s.key); return err }},
		{name: "no row", do: func(ctx context.Context) error {
			_, err := s.Row(ctx, s.key, "none")
			return ignore(err, host.ErrNotFound)
		}},
		{name: "a large row", do: func(ctx context.Context) error { _, err := s.Row(ctx, s.key, "big#1"); return err }, reports: map[string]units{"GetItem": emulated(1)}},
		{name: "rows", do: func(ctx context.Context) error {
			_, err := s.Rows(ctx, s.key, "big#", "", false, 10)
			return err
		}, reports: map[string]units{"Query": emulated(1)}},
		{name: "no rows", do: func(ctx context.Context) error {
			_, err := s.Rows(ctx, s.key, "none#", "", false, 10)
			return err
		}, reports: map[string]units{"Query": local(0)}},
		{name: "read", do: func(ctx context.Context) error {
			_, err := s.Read(ctx, s.key, 0, s.head.Seq, 100, 1<<20)
			return err
		}},
		{name: "list", do: func(ctx context.Context) error {
			_, err := s.List(ctx, host.ListQuery{Tenant: "acme", Limit: 10})
			return err
		}, reports: map[string]units{"BatchGetItem": emulated(0), "Query": local(0.5)}},
		{name: "due", do: func(ctx context.Context) error { _, err := s.Due(ctx, 1<<40, 10); return err }, reports: map[string]units{"Query": local(0)}},
		{name: "scan", do: func(ctx context.Context) error {
			_, err := s.Unfinished(ctx, host.Key{}, 10)
			return err
		}, reports: map[string]units{"Scan": emulated(1)}},
		{name: "delete", do: func(ctx context.Context) error { return s.Delete(ctx, s.key, s.head.Inc) }, reports: map[string]units{"Query": emulated(1)}},
	}
}

// TestUnitsAreThoseThatTheEndpointReports goes through every operation of the
// store, with items of several sizes, and holds the count of each against what
// the endpoint says. Where a target does not follow AWS's documented rule the
// step says so.
func TestUnitsAreThoseThatTheEndpointReports(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	at := target.Get(t).Can.Name
	for _, step := range append(s.writes(), s.reads()...) {
		require.NoError(t, step.do(t.Context()), step.name)
		counted, reported := s.took()
		require.NotEmpty(t, counted, step.name)
		for op, u := range counted {
			want := u.Read + u.Write
			if units, differs := step.reports[op][at]; differs {
				require.NotEqualf(t, want, units, "%s: %s follows the rule now: take the exception out", step.name, at)
				want = units
			}
			require.InDeltaf(t, want, reported[op], 0, "%s: %s: %+v", step.name, op, u)
		}
	}
}
