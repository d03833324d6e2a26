package scenario_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/scenario"
)

const scripts = "../testdata"

// TestScripts plays every script of core/testdata. A script's name is its
// claim; the comment at its top says where the claim comes from.
func TestScripts(t *testing.T) {
	t.Parallel()
	n := 0
	err := filepath.WalkDir(scripts, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".txt" {
			return err
		}
		n++
		name, err := filepath.Rel(scripts, path)
		require.NoError(t, err)
		t.Run(strings.TrimSuffix(name, ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(string(text), "# "), "a script says at its top where it comes from")
			scenario.Run(t, path)
		})
		return nil
	})
	require.NoError(t, err)
	require.NotZero(t, n)
}
