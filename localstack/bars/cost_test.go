package bars

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"
)

// Prices in dollars, us-east-1, on demand: docs/COST.md names their source.
const (
	writePrice      = 0.625 / 1e6
	readPrice       = 0.125 / 1e6
	transitionPrice = 0.025 / 1e3
)

// cost is what something was counted to take.
type cost struct{ write, read, transitions float64 }

// dollars are those of a thousand.
func (c cost) dollars() float64 {
	return 1000 * (c.write*writePrice + c.read*readPrice + c.transitions*transitionPrice)
}

// costs counts what was done since the meter was reset, for each of n, and holds
// docs/COST.md against it: what the page says is not exceeded, and not by far
// too much either.
func (f *farm) costs(what string, n float64) cost {
	f.t.Helper()
	u := f.meter.Total()
	c := cost{u.Write / n, u.Read / n, float64(f.transitions.Load()) / n}
	f.t.Logf("%s: %.1f write units (%.1f of them indexes), %.1f read units, %.1f transitions, $%.3f for a thousand",
		what, c.write, u.Index/n, c.read, c.transitions, c.dollars())
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "COST.md"))
	require.NoError(f.t, err)
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 6 || strings.TrimSpace(cells[1]) != what {
			continue
		}
		said := cost{f.number(cells[2]), f.number(cells[3]), f.number(cells[4])}
		require.LessOrEqual(f.t, c.write, said.write, "write units of %s", what)
		require.GreaterOrEqual(f.t, c.write, said.write*0.75, "write units of %s", what)
		require.LessOrEqual(f.t, c.read, said.read, "read units of %s", what)
		require.LessOrEqual(f.t, c.transitions, said.transitions, "transitions of %s", what)
		require.Equal(f.t, fmt.Sprintf("$%.3f", said.dollars()), strings.TrimSpace(cells[5]), "the price of %s", what)
		return c
	}
	require.FailNow(f.t, "docs/COST.md has no row for it", what)
	return c
}

func (f *farm) number(cell string) float64 {
	f.t.Helper()
	n, err := strconv.ParseFloat(strings.TrimSpace(cell), 64)
	require.NoError(f.t, err)
	return n
}
