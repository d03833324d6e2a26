package lintkit_test

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/lintkit"
)

func TestPurityFindsWhatTheFixturesMark(t *testing.T) {
	t.Parallel()

	fixtures := os.DirFS("testdata/purity")
	purity := lintkit.Purity{
		Module: "example.com/fixture", Root: ".", Skip: []string{"skipped/..."}, JSON: []string{"wire"},
	}

	found, err := purity.Check(fixtures)
	require.NoError(t, err)
	requireWants(t, fixtures, found)
}

func TestPurityRefusesATreeThatItCannotCheck(t *testing.T) {
	t.Parallel()

	for name, src := range map[string]string{
		"type error":         "package core\nvar x = undefined\n",
		"outside the checks": "package core\nimport _ \"example.com/fixture/elsewhere\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			tree := fstest.MapFS{"core/a.go": {Data: []byte(src)}}
			_, err := lintkit.Purity{Module: "example.com/fixture", Root: "core"}.Check(tree)
			require.Error(t, err)
		})
	}

	found, err := lintkit.Purity{Module: "example.com/fixture", Root: "core"}.Check(fstest.MapFS{
		"core/a.go": {Data: []byte("package core\nfunc {")},
	})
	require.NoError(t, err)
	require.Equal(t, []string{"parse"}, rules(found))
}

func TestNothingFindsWhatTheFixturesMark(t *testing.T) {
	t.Parallel()

	fixtures := os.DirFS("testdata/nothing")
	nothing := lintkit.Nothing{
		Root:    ".",
		Imports: map[string]string{"math/rand": "entropy is an input"},
		Names: map[string][]string{
			"context": {"WithTimeout", "WithDeadline", "WithDeadlineCause"},
			"sync":    {"Mutex", "RWMutex", "WaitGroup"},
			"time":    {"Now", "Since", "After", "AfterFunc", "Sleep", "NewTimer", "Tick"},
		},
	}

	found, err := nothing.Check(fixtures)
	require.NoError(t, err)
	requireWants(t, fixtures, found)
}
