package lintkit_test

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/lintkit"
)

// requireWants compares findings with the "// want rule …" comments of the
// fixtures, line by line: nothing may be missed and nothing made up.
// "// want^ rule" speaks of the line above.
func requireWants(t *testing.T, fsys fs.FS, found []lintkit.Finding) {
	t.Helper()

	var want []string

	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".go" {
			return err
		}

		src, err := fs.ReadFile(fsys, name)
		require.NoError(t, err)

		for i, line := range strings.Split(string(src), "\n") {
			_, rules, ok := strings.Cut(line, "// want")
			if !ok {
				continue
			}

			above, hasMark := strings.CutPrefix(rules, "^")
			if hasMark {
				i--
			}

			for rule := range strings.FieldsSeq(above) {
				want = append(want, name+":"+strconv.Itoa(i+1)+" "+rule)
			}
		}

		return nil
	})
	require.NoError(t, err)

	got := make([]string, 0, len(found))
	for _, f := range found {
		got = append(got, f.Path+":"+strconv.Itoa(f.Line)+" "+f.Rule)
	}

	slices.Sort(want)
	slices.Sort(got)
	require.Equal(t, want, got)
}

// rules are the rules that findings name, in the order of the findings.
func rules(found []lintkit.Finding) []string {
	names := make([]string, 0, len(found))
	for _, f := range found {
		names = append(names, f.Rule)
	}

	return names
}
