package sfn_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// validator finds asl-validator, as infra/node pins it, and installs it where
// it is not there yet: in .cache/node, as make does.
func validator(t *testing.T) string {
	t.Helper()
	root := filepath.Join("..", "..", "..")
	home := filepath.Join(root, ".cache", "node")
	command := func(home string) string { return filepath.Join(home, "node_modules", ".bin", "asl-validator") }
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			require.NotEqual(t, "true", os.Getenv("CI"), "%s is not installed", name)
			t.Skipf("%s is not installed: asl-validator cannot run", name)
		}
	}
	if _, err := os.Stat(command(home)); err == nil {
		return command(home)
	}
	// Made aside and put in place whole: somebody else may be making it now.
	require.NoError(t, os.MkdirAll(filepath.Join(root, ".cache"), 0o755))
	aside, err := os.MkdirTemp(filepath.Join(root, ".cache"), "node-") //nolint:usetesting // what is renamed must be on the same disk
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(aside)) })
	for _, name := range []string{"package.json", "package-lock.json", ".npmrc"} {
		raw, err := os.ReadFile(filepath.Join(root, "infra", "node", name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(aside, name), raw, 0o600))
	}
	install := exec.CommandContext(t.Context(), "npm", "ci", "--silent", "--ignore-scripts")
	install.Dir = aside
	out, err := install.CombinedOutput()
	if err != nil && os.Getenv("CI") != "true" {
		t.Skipf("asl-validator cannot be installed: %s", out)
	}
	require.NoError(t, err, "%s", out)
	if os.Rename(aside, home) == nil {
		return command(home)
	}
	return command(aside)
}

func TestTheDefinitionIsValid(t *testing.T) {
	t.Parallel()
	bin := validator(t)
	check := func(text string) (string, error) {
		// The validator takes a state called Next for the field of that name.
		text = strings.ReplaceAll(text, `"Next": {`, `"Choose": {`)
		text = strings.ReplaceAll(text, `"Next": "Next"`, `"Next": "Choose"`)
		text = strings.ReplaceAll(text, "${Partition}", "aws")
		for _, name := range []string{driveName, toolName, parkName} {
			text = strings.ReplaceAll(text, "${"+name+"}", "arn:aws:lambda:us-east-1:123456789012:function:"+name)
		}
		require.NotContains(t, text, "${")
		require.True(t, json.Valid([]byte(text)))
		file := filepath.Join(t.TempDir(), "machine.json")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		out, err := exec.CommandContext(t.Context(), bin, "--json-path", file).CombinedOutput()
		return string(out), err
	}
	text := definition(t)
	out, err := check(text)
	require.NoError(t, err, out)

	// It can say no.
	for _, bad := range []string{
		strings.Replace(text, `"Next": "Wait"`, `"Next": "Nowhere"`, 1),
		strings.Replace(text, `"StartAt": "Model"`, `"StartAt": "Nowhere"`, 1),
		strings.Replace(text, `"$.Payload"`, `"Payload"`, 1),
		strings.Replace(text, `"Type": "Task"`, `"Type": "Tusk"`, 1),
	} {
		require.NotEqual(t, text, bad)
		_, err = check(bad)
		require.Error(t, err)
	}
}
