package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	testNames   = regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
	paths       = regexp.MustCompile("`((?:core|events|internal|cmd|docs|web)/[A-Za-z0-9_./-]*)`")
	links       = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	definitions = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(`)
)

// TestDocumentsNameWhatIsThere: a test, a path or a link that a page names
// exists. A page that points at nothing is believed all the same.
func TestDocumentsNameWhatIsThere(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	there := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range definitions.FindAllSubmatch(source, -1) {
			there[string(m[1])] = true
		}
		return err
	})
	require.NoError(t, err)
	for _, page := range []string{"README.md", "docs/ARCHITECTURE.md", "docs/INVARIANTS.md", "docs/VARIABLES.md"} {
		text, err := os.ReadFile(filepath.Join(root, page))
		require.NoError(t, err)
		for _, m := range testNames.FindAllStringSubmatch(string(text), -1) {
			require.True(t, there[m[1]], "%s names %s, which is no test", page, m[1])
		}
		for _, m := range paths.FindAllStringSubmatch(string(text), -1) {
			found, err := filepath.Glob(filepath.Join(root, m[1]))
			require.NoError(t, err)
			require.NotEmpty(t, found, "%s names %s, which is not there", page, m[1])
		}
		for _, m := range links.FindAllStringSubmatch(string(text), -1) {
			_, err := os.Stat(filepath.Join(root, filepath.Dir(page), m[1]))
			require.NoError(t, err, "%s links to %s", page, m[1])
		}
	}
}
