package localstack_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/localstack/target"
)

var update = flag.Bool("update", false, "write docs/TARGETS.md anew")

const pageHead = `<!-- Written by "go test ./localstack -run TestThePageOfTargets -update" from localstack/target/capability.go, the
questions of localstack/questions_*_test.go and what tests say that they need. -->

# Targets

Tests of the AWS side run against a target: an endpoint that answers as AWS does. Nothing in them knows which it is.
[localstack/README.md](../localstack/README.md) says how each is started.

- **the emulator**: MiniStack, light, with its known gaps closed. What ` + "`make test`" + ` starts where nothing is said.
- **LocalStack**: its last free release (community 4.14.0), without Docker: ` + "`PERDURE_AWS_TARGET=localstack`" + `.
- **AWS**: ` + "`PERDURE_AWS_ENDPOINT=aws`" + `.

Where two of them disagree, the code does what AWS documents, and this page says what that is.
`

// TestThePageOfTargets holds docs/TARGETS.md against the tables that it is made
// from.
func TestThePageOfTargets(t *testing.T) {
	t.Parallel()
	root, err := target.Root()
	require.NoError(t, err)
	name := filepath.Join(root, "docs", "TARGETS.md")
	page := pageHead + cannotSee(t) + skippedTypes() + differences()
	if *update {
		require.NoError(t, os.WriteFile(name, []byte(page), 0o600))
	}
	there, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, page, string(there), "go test ./localstack -run TestThePageOfTargets -update writes it anew")
}

// cells writes a row of a table. Of what has a meaning in Markdown, questions have
// a bar and a backquote.
func cells(b *strings.Builder, texts ...string) {
	for i, text := range texts {
		texts[i] = strings.NewReplacer("|", `\|`, "`", "\\`").Replace(text)
	}
	b.WriteString("| " + strings.Join(texts, " | ") + " |\n")
}

// cannotSee is the table of what a target cannot show, with the tests that are
// skipped there for it. A row that no test asks for is a reminder.
func cannotSee(t *testing.T) string {
	t.Helper()
	wanted := needs(t)
	var b strings.Builder
	b.WriteString("\n## What a target cannot show\n\nA test that needs it is skipped there, in whole or for the cases that need it, and says why.\n\n| On | cannot be seen | because | so of these something is skipped |\n|---|---|---|---|\n")
	for _, at := range target.Known() {
		for _, what := range at.Lacks() {
			cells(&b, at.Name, string(what), at.Why(what), grouped(wanted[what]))
		}
	}
	return b.String()
}

// skippedTypes is the table of resources that a deployment leaves out without a
// word; TestWhatWasDeployedIsThere asks for all others.
func skippedTypes() string {
	var b strings.Builder
	b.WriteString("\n## What a deployment leaves out\n\nEvery other resource of the stack is asked for after a deployment, of the service that it is of: CloudFormation may say\nthat it has made what is not there.\n\n| On | type, or property of a type | because |\n|---|---|---|\n")
	for _, at := range target.Known() {
		skipped := at.SkippedTypes()
		for _, kind := range slices.Sorted(maps.Keys(skipped)) {
			cells(&b, at.Name, kind, skipped[kind])
		}
	}
	return b.String()
}

// grouped lists tests by their folders; where there are many of one, their
// number is enough.
func grouped(tests []string) string {
	folders := map[string][]string{}
	for _, name := range tests {
		folder, test, _ := strings.Cut(name, ".")
		folders[folder] = append(folders[folder], test)
	}
	var out []string
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		if list := folders[folder]; len(list) > 4 {
			out = append(out, fmt.Sprintf("%s: %d tests", folder, len(list)))
		} else {
			out = append(out, folder+": "+strings.Join(list, ", "))
		}
	}
	if len(out) == 0 {
		return "none: no test waits for it"
	}
	return strings.Join(out, "; ")
}

// differences is the table of questions that a target answers otherwise.
func differences() string {
	var b strings.Builder
	b.WriteString("\n## Answers that differ\n\nEach is a question of `go test ./localstack -run T80`, put to whichever target there is. What a target is known to\nanswer otherwise is held too: a closed gap fails the test.\n\n| Question | AWS answers | and says so in | otherwise on |\n|---|---|---|---|\n")
	for _, q := range questions() {
		var otherwise []string
		for _, name := range slices.Sorted(maps.Keys(q.differs)) {
			otherwise = append(otherwise, name+": "+q.differs[name])
		}
		if q.gap != "" {
			otherwise = append(otherwise, "MiniStack as it comes; closed by localstack/gaps ("+q.gap+")")
		}
		if len(otherwise) > 0 {
			cells(&b, q.name, q.aws, q.source, strings.Join(otherwise, "; "))
		}
	}
	return b.String()
}
