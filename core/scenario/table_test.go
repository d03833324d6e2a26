package scenario_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const table = "../../docs/SCENARIOS.md"

var (
	named    = regexp.MustCompile("`([a-z]+/[a-z_0-9]+)`")
	tests    = regexp.MustCompile(`([a-z0-9]+(?:/[a-z0-9]+)*): (Test\w+(?:, Test\w+)*)`)
	function = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	sources  = regexp.MustCompile(`\b(row-\d\d|engine 10\.\d+|turn 7\.\d+|T\d\d)\b`)
)

// TestTableOfScenarios holds docs/SCENARIOS.md to the scripts: each is named
// there under every source that it names, and nothing else is.
func TestTableOfScenarios(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(table)
	require.NoError(t, err)
	rows := map[string]string{}
	for line := range strings.SplitSeq(string(text), "\n") {
		if cells := strings.Split(line, "|"); len(cells) > 4 {
			rows[strings.TrimSpace(cells[1])] += line
		}
	}
	for _, m := range named.FindAllStringSubmatch(string(text), -1) {
		if strings.HasPrefix(m[1], "core/") || strings.HasPrefix(m[1], "internal/") {
			continue
		}
		require.FileExists(t, filepath.Join(scripts, m[1]+".txt"), "the table names a script that is not there")
	}
	paths, err := filepath.Glob(scripts + "/*/*.txt")
	require.NoError(t, err)
	for _, path := range paths {
		script, err := os.ReadFile(path)
		require.NoError(t, err)
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(path), scripts+"/"), ".txt")
		head, _, _ := strings.Cut(string(script), "\n\n")
		_, from, found := strings.Cut(head, "Sources: ")
		require.True(t, found, "%s does not say where it comes from", name)
		from, _, _ = strings.Cut(from, ".\n")
		for _, tag := range sources.FindAllString(from, -1) {
			require.Contains(t, rows[tag], "`"+name+"`", "%s is not in the row of %s", name, tag)
		}
	}
}

// TestTableOfTests: a test that the page says is in a folder is there.
func TestTableOfTests(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(table)
	require.NoError(t, err)
	there := map[string][]string{}
	for _, m := range tests.FindAllStringSubmatch(string(text), -1) {
		folder := m[1]
		if _, read := there[folder]; !read {
			paths, err := filepath.Glob("../../" + folder + "/*_test.go")
			require.NoError(t, err)
			for _, path := range paths {
				source, err := os.ReadFile(path)
				require.NoError(t, err)
				for _, f := range function.FindAllStringSubmatch(string(source), -1) {
					there[folder] = append(there[folder], f[1])
				}
			}
		}
		for name := range strings.SplitSeq(m[2], ", ") {
			require.Contains(t, there[folder], name, "the table names a test of %s that is not there", folder)
		}
	}
	require.NotEmpty(t, there)
}

// TestEveryRuleHasAMutation: of each of the design's rules one is known to be
// caught.
func TestEveryRuleHasAMutation(t *testing.T) {
	t.Parallel()
	laws := map[string]bool{}
	for _, m := range mutations(t) {
		laws[m.law] = true
	}
	for n := 1; n <= 14; n++ {
		require.True(t, laws[fmt.Sprintf("row-%02d", n)], "row %d", n)
	}
}
