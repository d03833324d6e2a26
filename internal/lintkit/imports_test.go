package lintkit_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/lintkit"
)

// files turns paths and sources into a tree.
func files(sources map[string]string) fstest.MapFS {
	tree := fstest.MapFS{}
	for name, src := range sources {
		tree[name] = &fstest.MapFile{Data: []byte(src)}
	}

	return tree
}

func load(t *testing.T, sources map[string]string) *lintkit.Tree {
	t.Helper()

	tree, err := lintkit.Load(files(sources))
	require.NoError(t, err)
	require.Empty(t, tree.Broken)

	return tree
}

func directions() lintkit.Directions {
	return lintkit.Directions{
		Path:     "example.com/proj",
		TestOnly: []string{"kit/..."},
		Rows: []lintkit.Row{
			{Dir: "core/low", Std: []string{"fmt"}, Tests: []string{"kit"}, Offline: []string{"example.org/assert"}, Why: "low"},
			{Dir: "core/...", Module: []string{"core/low"}, Std: []string{"fmt", "math"}, Why: "core"},
			{Dir: "adapter/*/...", Module: []string{"self", "core/..."}, External: []string{"*"}, Why: "strangers"},
			{Dir: "kit/...", Module: []string{"self", "core/..."}, Why: "kit"},
			{Dir: "edge", External: []string{"example.org/http"}, Why: "edge"},
		},
		Fences: []lintkit.Fence{
			{Prefix: "example.org/cloud", To: []string{"adapter/..."}, Why: "cloud"},
			{Prefix: "example.org/tool", To: []string{"adapter/a"}, Tests: true, Why: "tool"},
		},
	}
}

func TestImports(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		file, dep string
		refused   bool
	}{
		"ListedStd":                {"core/low/a.go", "fmt", false},
		"UnlistedStd":              {"core/low/a.go", "math", true},
		"StdBelowListed":           {"core/x/a.go", "math/rand", true},
		"FirstRowCounts":           {"core/x/a.go", "math", false},
		"AnyStdWhenNoneIsListed":   {"edge/a.go", "net/http", false},
		"Downward":                 {"core/x/a.go", "example.com/proj/core/low", false},
		"Upward":                   {"core/low/a.go", "example.com/proj/core/x", true},
		"Sibling":                  {"core/x/a.go", "example.com/proj/core/y", true},
		"AdapterToCore":            {"adapter/a/a.go", "example.com/proj/core/low", false},
		"AdapterToItsOwnPart":      {"adapter/a/a.go", "example.com/proj/adapter/a/part", false},
		"PartToItsAdapter":         {"adapter/a/part/a.go", "example.com/proj/adapter/a", false},
		"AdapterToAdapter":         {"adapter/a/a.go", "example.com/proj/adapter/b", true},
		"AdapterToPrefixedAdapter": {"adapter/a/a.go", "example.com/proj/adapter/ab", true},
		"AdapterTestToAdapter":     {"adapter/a/a_test.go", "example.com/proj/adapter/b", true},
		"ListedLibrary":            {"edge/a.go", "example.org/http/v2", false},
		"UnlistedLibrary":          {"edge/a.go", "example.org/httpx", true},
		"LibraryWhereNoneMayBe":    {"core/low/a.go", "example.org/assert", true},
		"LibraryInTest":            {"core/low/a_test.go", "example.org/assert/require", false},
		"OnlineLibraryInTest":      {"core/low/a_test.go", "example.org/http", true},
		"StdInTest":                {"core/low/a_test.go", "os", false},
		"TestsOwnPackage":          {"core/low/a_test.go", "example.com/proj/core/low", false},
		"TestOnlyInTest":           {"core/low/a_test.go", "example.com/proj/kit", false},
		"TestOnlyInProgram":        {"adapter/a/a.go", "example.com/proj/kit", true},
		"TestOnlyInTestOnly":       {"kit/sub/a.go", "example.com/proj/kit", false},
		"FenceHolds":               {"kit/a.go", "example.org/cloud/s3", true},
		"FenceHoldsInTests":        {"edge/a_test.go", "example.org/cloud/s3", true},
		"InsideTheFence":           {"adapter/b/a.go", "example.org/cloud/s3", false},
		"FenceThatLetsTestsIn":     {"edge/a_test.go", "example.org/tool", false},
		"FenceOutsideOfTests":      {"adapter/b/a.go", "example.org/tool", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			tree := load(t, map[string]string{test.file: "package x\n\nimport _ \"" + test.dep + "\"\n"})

			if test.refused {
				require.Equal(t, []string{"import"}, rules(tree.Imports(directions())))
			} else {
				require.Empty(t, tree.Imports(directions()))
			}
		})
	}
}

func TestImportsWantARowForEveryPackage(t *testing.T) {
	t.Parallel()

	tree := load(t, map[string]string{
		"new/a.go": "package x", "new/b.go": "package x", "edge/a.go": "package x", "edge/below/a.go": "package x",
	})
	require.Equal(t, []lintkit.Finding{
		{Path: "edge/below", Rule: "no-row", Text: "no row in the import table says what this package may import"},
		{Path: "new", Rule: "no-row", Text: "no row in the import table says what this package may import"},
	}, tree.Imports(directions()))
}
