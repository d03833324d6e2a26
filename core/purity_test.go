package core_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/lintkit"
)

// TestPurity holds the core to what makes two folds of one log the same: no
// goroutine, no channel, no map order, no float, no package variable that
// changes, no case folding by Unicode tables.
func TestPurity(t *testing.T) {
	t.Parallel()

	purity := lintkit.Purity{
		Module: "github.com/perdure/perdure",
		Root:   "core",
		Skip:   []string{"core/scenario/..."},
		// The stored form of events and of what they are made of. Whatever is
		// hashed or compared goes through the canonical form instead.
		JSON: []string{"core/wire/...", "core/replay/...", "core/session/...", "core/ident/...", "core/blob/..."},
	}

	found, err := purity.Check(os.DirFS(".."))
	require.NoError(t, err)

	for _, f := range found {
		t.Error(f)
	}
}
