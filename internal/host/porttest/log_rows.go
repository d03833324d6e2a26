package porttest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

func rowCases() []logCase {
	return []logCase{
		{"RowsAreListedBytewiseUpAndDown", rowsOrder},
		{"RowsAreListedByPrefix", rowsPrefix},
		{"RowsArePaged", rowsPaged},
		{"RowsAreReplacedAndDeleted", rowsDeleted},
		{"ADeletedAndWrittenRowIsThere", rowsBoth},
		{"TodoGoesOnAndOff", todoOnOff},
		{"TodoIsOrderedAndPaged", todoPaged},
		{"TodoIsOfItsPrefixAndTenant", todoPrefix},
	}
}

func withRows(t *testing.T, s Stores, keys ...string) *actor {
	t.Helper()
	c := creation(keyOf("s1"))
	for _, k := range keys {
		c.Rows = append(c.Rows, host.Row{Key: k, Data: []byte(k)})
	}
	return createWith(t, s, c)
}

func listRows(t *testing.T, s Stores, prefix, after string, desc bool, limit int) []string {
	t.Helper()
	rows, err := s.Log.Rows(t.Context(), keyOf("s1"), prefix, after, desc, limit)
	require.NoError(t, err)
	for _, r := range rows {
		require.Equal(t, r.Key, string(r.Data))
	}
	return rowKeys(rows)
}

func rowsOrder(t *testing.T, s Stores, _ Capabilities) {
	withRows(t, s, "b", "a\xc3\xa9", "B", "a", "a#1", "a-1", "c")
	want := []string{"B", "a", "a#1", "a-1", "a\xc3\xa9", "b", "c"}
	require.Equal(t, want, listRows(t, s, "", "", false, 100))
	got := listRows(t, s, "", "", true, 100)
	for i, k := range got {
		require.Equal(t, want[len(want)-1-i], k)
	}
	require.Len(t, got, len(want))
	require.Empty(t, listRows(t, s, "", "", false, 0))
}

func rowsPrefix(t *testing.T, s Stores, _ Capabilities) {
	withRows(t, s, "apr#1", "run", "run#1", "run#2", "run$", "sub#run#1", "x\xff", "x\xff\xff", "y")
	require.Equal(t, []string{"run#1", "run#2"}, listRows(t, s, "run#", "", false, 9))
	require.Equal(t, []string{"run#2", "run#1"}, listRows(t, s, "run#", "", true, 9))
	require.Equal(t, []string{"run", "run#1", "run#2", "run$"}, listRows(t, s, "run", "", false, 9))
	// A prefix that ends in the highest byte has no simple upper bound.
	require.Equal(t, []string{"x\xff", "x\xff\xff"}, listRows(t, s, "x\xff", "", false, 9))
	require.Equal(t, []string{"x\xff\xff", "x\xff"}, listRows(t, s, "x\xff", "", true, 9))
	require.Empty(t, listRows(t, s, "zzz", "", false, 9))
	require.Empty(t, listRows(t, s, "%", "", false, 9))
	require.Empty(t, listRows(t, s, "run_", "", true, 9))
}

func rowsPaged(t *testing.T, s Stores, _ Capabilities) {
	var keys []string
	for i := range 10 {
		keys = append(keys, fmt.Sprintf("run#%012d", i))
	}
	withRows(t, s, append([]string{"apr#9", "sub#0"}, keys...)...)
	for _, desc := range []bool{false, true} {
		var got []string
		for after := ""; ; after = got[len(got)-1] {
			page := listRows(t, s, "run#", after, desc, 3)
			if len(page) == 0 {
				break
			}
			require.LessOrEqual(t, len(page), 3)
			got = append(got, page...)
		}
		require.Len(t, got, len(keys))
		require.ElementsMatch(t, keys, got)
	}
	// A cursor need not be a row that is there.
	require.Equal(t, []string{keys[1]}, listRows(t, s, "run#", keys[0]+"x", false, 1))
	require.Equal(t, []string{keys[0]}, listRows(t, s, "run#", keys[0]+"x", true, 1))
}

func rowsDeleted(t *testing.T, s Stores, _ Capabilities) {
	a := withRows(t, s, "a", "b", "c")
	c := a.next(1)
	c.Rows = []host.Row{{Key: "c", Data: []byte("changed")}}
	c.DeleteRows = []string{"a", "never"}
	a.land(c)
	a.requireNoRow("a")
	a.requireRow("b", "b")
	a.requireRow("c", "changed")
}

func rowsBoth(t *testing.T, s Stores, _ Capabilities) {
	a := withRows(t, s, "a")
	c := a.next(1)
	c.DeleteRows = []string{"a"}
	c.Rows = []host.Row{{Key: "a", Data: []byte("again")}}
	a.land(c)
	a.requireRow("a", "again")
}

func todos(t *testing.T, s Stores, prefix string, after *host.TodoRow, limit int) ([]host.TodoRow, []string, error) {
	t.Helper()
	rows, err := s.Log.Todo(t.Context(), tenant, prefix, after, limit)
	names := make([]string, 0, len(rows))
	for _, r := range rows {
		names = append(names, string(r.Session)+"/"+r.Row.Key)
	}
	return rows, names, err
}

func requireTodos(t *testing.T, s Stores, caps Capabilities, prefix string, want ...string) {
	t.Helper()
	caps.eventually(t, func() error {
		_, names, err := todos(t, s, prefix, nil, 100)
		if err != nil {
			return err
		}
		return same(names, want)
	})
}

func todoOnOff(t *testing.T, s Stores, caps Capabilities) {
	c := creation(keyOf("s1"))
	c.Rows = []host.Row{{Key: "apr#1", Data: []byte("1"), Todo: epoch}, {Key: "apr#2", Data: []byte("2")}}
	a := createWith(t, s, c)
	requireTodos(t, s, caps, "apr#", "s1/apr#1")

	next := a.next(1)
	next.Rows = []host.Row{{Key: "apr#1", Data: []byte("1b")}, {Key: "apr#2", Data: []byte("2b"), Todo: epoch.Add(1)}}
	a.land(next)
	requireTodos(t, s, caps, "apr#", "s1/apr#2")
	rows, _, err := todos(t, s, "apr#", nil, 10)
	require.NoError(t, err)
	require.Equal(t, next.Rows[1], rows[0].Row)

	next = a.next(1)
	next.DeleteRows = []string{"apr#2"}
	next.Rows = []host.Row{{Key: "apr#3", Data: []byte("3"), Todo: epoch}}
	a.land(next)
	requireTodos(t, s, caps, "apr#", "s1/apr#3")
	require.NoError(t, s.Log.Delete(t.Context(), a.key, inc))
	requireTodos(t, s, caps, "apr#")
}

func todoPaged(t *testing.T, s Stores, caps Capabilities) {
	// By instant, then session, then row: several of each tie.
	for _, name := range []string{"s2", "s1", "s3"} {
		c := creation(keyOf(name))
		for i, at := range []ident.Instant{3, 1, 1, 2} {
			c.Rows = append(c.Rows, host.Row{Key: fmt.Sprintf("apr#%d", i), Data: []byte("x"), Todo: epoch + at})
		}
		createWith(t, s, c)
	}
	want := []string{
		"s1/apr#1", "s1/apr#2", "s2/apr#1", "s2/apr#2", "s3/apr#1", "s3/apr#2",
		"s1/apr#3", "s2/apr#3", "s3/apr#3", "s1/apr#0", "s2/apr#0", "s3/apr#0",
	}
	requireTodos(t, s, caps, "apr#", want...)
	for _, limit := range []int{1, 5} {
		var got []string
		var after *host.TodoRow
		for {
			rows, names, err := todos(t, s, "apr#", after, limit)
			require.NoError(t, err)
			require.LessOrEqual(t, len(rows), limit)
			if len(rows) == 0 {
				break
			}
			got = append(got, names...)
			after = &rows[len(rows)-1]
		}
		require.Equal(t, want, got)
	}
}

func todoPrefix(t *testing.T, s Stores, caps Capabilities) {
	c := creation(keyOf("s1"))
	c.Rows = []host.Row{{Key: "apr#1", Data: []byte("a"), Todo: epoch.Add(2)}, {Key: "qst#1", Data: []byte("q"), Todo: epoch}}
	createWith(t, s, c)
	other := creation(host.Key{Tenant: "other", Session: "s1"})
	other.Rows = []host.Row{{Key: "apr#9", Data: []byte("a"), Todo: epoch}}
	createWith(t, s, other)
	requireTodos(t, s, caps, "apr#", "s1/apr#1")
	requireTodos(t, s, caps, "qst#", "s1/qst#1")
	requireTodos(t, s, caps, "", "s1/qst#1", "s1/apr#1")
}
