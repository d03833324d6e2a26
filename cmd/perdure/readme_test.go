package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/env"
)

// block is a fenced block of a page.
type block struct{ language, text string }

var fence = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")

func blocks(page string) []block {
	var out []block
	for _, m := range fence.FindAllStringSubmatch(page, -1) {
		out = append(out, block{m[1], m[2]})
	}
	return out
}

// instants are what differs between two days.
var instants = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`)

func settledText(text string) string {
	return instants.ReplaceAllString(strings.TrimSpace(text), "<time>")
}

// TestREADME does what the README tells a reader to do, against a server as
// make run starts it, and compares what comes with what the README says will.
// Blocks of bash are run, one after the other in one shell; the block after each
// is what it prints.
func TestREADME(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"bash", "curl"} {
		_, err := exec.LookPath(program)
		require.NoError(t, err, "the README's walk needs it")
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	require.NoError(t, err)
	const mark = "\n\x01\n"
	var script strings.Builder
	var commands, want []string
	script.WriteString("set -euo pipefail\n")
	walk := blocks(string(page))
	for i, b := range walk {
		if b.language != "bash" {
			continue
		}
		require.Less(t, i+1, len(walk), "a block of bash is followed by what it prints")
		commands, want = append(commands, b.text), append(want, settledText(walk[i+1].text))
		script.WriteString(b.text + "printf '\\n\\001\\n'\n")
	}
	require.NotEmpty(t, commands)

	data, folder := t.TempDir(), t.TempDir()
	server := startChild(t, data)
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(folder, "bin"), 0o700))
	require.NoError(t, os.Symlink(self, filepath.Join(folder, "bin", "perdure")))
	shell := exec.Command("bash")
	shell.Dir, shell.Stdin = folder, strings.NewReader(script.String())
	shell.Env = []string{"HOME=" + data, "PATH=" + os.Getenv("PATH"), env.Data + "=" + data, env.URL + "=" + server.url}
	var problems bytes.Buffer
	shell.Stderr = &problems
	out, err := shell.Output()
	require.NoError(t, err, "%s\n%s", out, problems.String())
	require.Empty(t, problems.String())
	got := strings.Split(string(out), mark)
	require.Len(t, got, len(commands)+1)
	for i := range commands {
		require.Equal(t, want[i], settledText(got[i]), "the README says otherwise of:\n%s", commands[i])
	}
}
