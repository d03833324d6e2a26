package scenario_test

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var mutate = flag.Bool("mutate", false, "break each rule of testdata/mutations.list and see its script fail")

type mutation struct {
	law, script, file, old, by string
}

func mutations(t *testing.T) []mutation {
	t.Helper()
	text, err := os.ReadFile(scripts + "/mutations.list")
	require.NoError(t, err)
	var out []mutation
	for block := range strings.SplitSeq(string(text), "\n\n") {
		lines := strings.Split(strings.TrimRight(block, "\n"), "\n")
		if strings.HasPrefix(lines[0], "#") || lines[0] == "" {
			continue
		}
		require.Greater(t, len(lines), 3, block)
		law, script, _ := strings.Cut(lines[0], " ")
		m := mutation{law: law, script: script, file: lines[1]}
		var old, by []string
		for _, l := range lines[2:] {
			if rest, ok := strings.CutPrefix(l, "- "); ok {
				old = append(old, rest)
				continue
			}
			rest, ok := strings.CutPrefix(l, "+ ")
			require.True(t, ok, l)
			by = append(by, rest)
		}
		m.old, m.by = strings.Join(old, "\n"), strings.Join(by, "\n")
		out = append(out, m)
	}
	return out
}

// TestMutations breaks one rule after the other, and each time the script that
// is about it must fail. It builds the core once for each, so it runs only when
// asked to; the list itself is held to the code always.
func TestMutations(t *testing.T) { //nolint:paralleltest // one build after the other
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	for _, m := range mutations(t) { //nolint:paralleltest // one build after the other
		t.Run(m.law+"/"+m.script, func(t *testing.T) {
			file := filepath.Join(root, m.file)
			code, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Contains(t, string(code), m.old, "%s has changed: write the mutation anew", m.file)
			require.FileExists(t, filepath.Join(scripts, m.script+".txt"))
			if *mutate {
				broken(t, root, file, strings.Replace(string(code), m.old, m.by, 1), m.script)
			}
		})
	}
}

// broken runs one script with one file replaced, and wants it to fail.
func broken(t *testing.T, root, file, code, script string) {
	t.Helper()
	dir := t.TempDir()
	other := filepath.Join(dir, filepath.Base(file))
	require.NoError(t, os.WriteFile(other, []byte(code), 0o600))
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{file: other}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	cmd := exec.CommandContext(t.Context(), "go", "test", "-overlay="+filepath.Join(dir, "overlay.json"), "./core/scenario", "-run", "TestScripts/"+script+"$")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	require.NotContains(t, string(out), "[build failed]", "the mutation is no code")
	require.Error(t, err, "no script fails for it")
}
