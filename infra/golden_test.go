package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the files of testdata anew")

// TestTemplateIsTheOneReviewed: what a change of the CDK, of its flags or of a
// construct does to the stack is seen, and reviewed, as a change of this file. It
// is for arm64; the bytes of functions and the machine's definition are left out,
// since each has a place of its own.
func TestTemplateIsTheOneReviewed(t *testing.T) {
	t.Parallel()
	golden(t, "perdure.template.json", string(normalised(t, stackOf(t, defaults))))
}

// golden compares a text with its file, or writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "look at the difference; if it is meant, run: go test ./infra -update")
}

var assetHash = regexp.MustCompile(`[0-9a-f]{64}`)

func normalised(t *testing.T, s synthesized) []byte {
	t.Helper()
	var whole map[string]any
	require.NoError(t, json.Unmarshal(s.Text, &whole))
	for _, r := range whole["Resources"].(map[string]any) {
		if at(r, "Type") == "AWS::StepFunctions::StateMachine" {
			at(r, "Properties").(map[string]any)["DefinitionString"] = "infra/asl/session.asl.json"
		}
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	require.NoError(t, encoder.Encode(whole))
	return assetHash.ReplaceAll(out.Bytes(), []byte("asset"))
}
