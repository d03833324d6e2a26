package perdure_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/lintkit"
)

// pureStd is all of the standard library that the core is built from: nothing
// in it can block, look at a clock or depend on the machine.
var pureStd = []string{
	"bytes", "cmp", "crypto/sha256", "encoding/binary", "encoding/hex", "encoding/json", "errors", "fmt",
	"math", "math/bits", "slices", "strconv", "strings", "unicode/utf8",
}

// offline is what tests of the core may use from outside: they run on a plane.
var offline = []string{"github.com/stretchr/testify/require", "pgregory.net/rapid", "github.com/cockroachdb/datadriven"}

// anyOfOurs is what tests of the shell may import of this module. The core's
// tests have lists of their own, and nobody imports a main.
var anyOfOurs = []string{"core/...", "events", "internal/...", "web", "localstack/target"}

// directions is the import table: each row says what one kind of package may
// import. .golangci.yaml says the same to an editor; this test says it to
// everyone who has Go. A new package needs a row: who may see it, and whom it
// may see, is decided before its first line.
//
// In one line, read "a ← b" as "b imports a": within the core
// {ident, blob} ← session ← {wire, machine} ← replay, and then
// core ← host ← {adapter, tool, api} ← {local, functions} ← cmd.
var directions = lintkit.Directions{
	Path:     "github.com/perdure/perdure",
	TestOnly: []string{"core/scenario/...", "internal/host/porttest/...", "internal/host/wakemodel/...", "internal/adapter/*/*test/...", "internal/lintkit/...", "localstack/target"},
	Rows:     slices.Concat(coreRows, shellRows, edgeRows),
	Fences: []lintkit.Fence{
		{
			Prefix: "github.com/aws/aws-sdk-go-v2", To: []string{"internal/adapter/...", "functions/...", "localstack/target"}, Tests: true,
			Why: "AWS clients live in internal/adapter; functions may build the config",
		},
		{
			Prefix: "github.com/aws/aws-lambda-go", To: []string{"functions/..."},
			Why: "Lambda's types stop at functions",
		},
		{Prefix: "github.com/aws/aws-cdk-go", To: []string{"infra/..."}, Why: "CDK stays in infra"},
		{Prefix: "github.com/aws/jsii-runtime-go", To: []string{"infra/..."}, Why: "CDK stays in infra"},
		{Prefix: "github.com/cdklabs", To: []string{"infra/..."}, Why: "CDK stays in infra"},
		{
			Prefix: "github.com/stretchr/testify", Tests: true,
			To:  []string{"core/scenario/...", "internal/host/porttest/...", "internal/adapter/*/*test/...", "localstack/target"},
			Why: "an assertion library has no place in a program",
		},
		{
			Prefix: "pgregory.net/rapid", Tests: true, To: []string{"core/scenario/...", "internal/host/porttest/..."},
			Why: "generators are linked into tests only",
		},
		{
			Prefix: "testing", Tests: true,
			To:  []string{"core/scenario/...", "internal/host/porttest/...", "internal/adapter/*/*test/...", "internal/lintkit/...", "localstack/target"},
			Why: "a program does not test itself",
		},
	},
}

var coreRows = []lintkit.Row{
	{Dir: ".", Module: []string{"internal/lintkit"}, Tests: []string{"internal/lintkit"}, Why: "the root holds the architecture test alone"},
	{Dir: "core", Std: pureStd, Tests: []string{"core/...", "internal/lintkit"}, Offline: offline, Why: "core holds the tests of all of it"},
	pure("core/ident"),
	pure("core/blob", "core/ident"),
	pure("core/session", "core/ident", "core/blob"),
	pure("core/wire", "core/ident", "core/blob", "core/session"),
	pure("core/machine", "core/ident", "core/blob", "core/session", "core/wire"),
	pure("core/replay", "core/ident", "core/blob", "core/session", "core/wire", "core/machine"),
	{
		Dir: "core/scenario/...", Module: []string{"core/...", "events"}, External: offline, Offline: offline,
		Why: "the scenario interpreter plays the core against a world that it makes up",
	},
	{Dir: "events", Std: []string{"embed", "io/fs"}, Tests: []string{"core/..."}, Why: "events is data, and the embed that carries it"},
}

// pure is the row of a package of the core.
func pure(dir string, below ...string) lintkit.Row {
	return lintkit.Row{
		Dir: dir + "/...", Module: append(below, "self"), Std: pureStd, Offline: offline,
		Tests: []string{"core/...", "events", "internal/lintkit"},
		Why:   "the core is pure, and its packages see only those below them",
	}
}

var shellRows = []lintkit.Row{
	{Dir: "internal/env/...", Tests: anyOfOurs, Why: "env is a leaf: names and parsing of variables"},
	{Dir: "internal/netguard/...", Tests: anyOfOurs, Why: "netguard is a leaf: which addresses may be connected to"},
	{Dir: "internal/lintkit/...", External: offline, Why: "lintkit knows source trees and nothing of sessions"},
	{
		Dir: "internal/host/porttest/...", Module: []string{"core/...", "internal/host/..."}, External: []string{"github.com/stretchr/testify/require", "pgregory.net/rapid"},
		Tests: anyOfOurs, Why: "a conformance suite knows the port, not who implements it",
	},
	{
		Dir: "internal/host/...", Module: []string{"core/...", "self"}, Tests: anyOfOurs,
		Why: "the host knows ports and the core, no technology",
	},
	{
		Dir:    "internal/adapter/*/...",
		Module: []string{"self", "internal/host", "internal/netguard", "core/wire", "core/ident", "core/blob", "core/session"}, External: []string{"*"},
		Tests: []string{"internal/host/porttest", "internal/env", "core/...", "localstack/target", "internal/adapter/lambda/lambdatest"},
		Why:   "an adapter knows its port and its technology, and no other adapter",
	},
	{
		Dir:    "internal/tool/...",
		Module: []string{"self", "internal/host", "internal/netguard", "core/ident", "core/blob", "core/session"}, External: []string{"github.com/google/jsonschema-go"},
		Tests: []string{"core/...", "internal/host/..."},
		Why:   "a tool is offered through the host's port and knows no technology but JSON Schema",
	},
	{
		Dir: "internal/api/...", Module: []string{"self", "internal/host", "internal/env", "core/ident", "core/blob", "core/wire"}, External: []string{"*"}, Tests: anyOfOurs,
		Why: "the API is the same everywhere: no adapter, and no reducer types shown to clients",
	},
	{Dir: "internal/client/...", Module: []string{"self", "internal/api"}, External: []string{"*"}, Tests: anyOfOurs, Why: "the client knows the contract"},
	{
		Dir:    "internal/doctor/...",
		Module: []string{"self", "internal/client", "internal/env", "internal/local", "internal/netguard", "internal/adapter/awsaccount"}, Tests: anyOfOurs,
		Why: "the doctor looks from outside, and at accounts through their adapter",
	},
	{Dir: "internal/chat/...", Module: []string{"self", "internal/client", "internal/api"}, External: []string{"*"}, Tests: anyOfOurs, Why: "the chat is a client"},
	{
		Dir:      "internal/wiring/...",
		Module:   []string{"core/...", "internal/host", "internal/adapter/openai", "internal/adapter/scripted", "internal/tool/...", "internal/api", "internal/env", "internal/netguard"},
		External: []string{"*"}, Tests: anyOfOurs,
		Why: "wiring is what local and cloud are both put together from, and knows neither",
	},
	{
		Dir: "internal/local/...", Module: []string{"core/...", "internal/...", "events", "web"}, External: []string{"*"}, Tests: anyOfOurs,
		Why: "local wires the whole server, but no main",
	},
	{
		Dir:    "internal/cloud/...",
		Module: []string{"self", "core/...", "internal/host", "internal/adapter/...", "internal/tool/...", "internal/api", "internal/env", "internal/netguard", "internal/wiring"},
		Tests:  anyOfOurs,
		Why:    "cloud wires the functions: it knows the adapters, and neither AWS's clients nor Lambda's types",
	},
}

var edgeRows = []lintkit.Row{
	{Dir: "web", Std: []string{"embed", "io/fs"}, Tests: anyOfOurs, Why: "web is static files, and the embed that carries them"},
	{
		Dir: "functions/*/...", Module: []string{"self", "functions/internal/...", "internal/cloud/...", "internal/host", "internal/adapter/...", "internal/tool/...", "internal/api", "internal/env", "internal/netguard"},
		External: []string{"github.com/aws"}, Tests: anyOfOurs,
		Why: "functions wire: what they do is the host's",
	},
	{
		Dir: "infra/...", Module: []string{"self", "internal/env"}, External: []string{"github.com/aws", "github.com/cdklabs"}, Tests: []string{"events", "internal/env"},
		Why: "infra shares names with the code, through internal/env, and nothing else",
	},
	{
		Dir: "localstack/...", Module: []string{"self", "internal/client", "internal/api", "internal/env"}, External: []string{"*"}, Tests: anyOfOurs,
		Why: "what is deployed is tested from outside",
	},
	{Dir: "e2e", Tests: anyOfOurs, Why: "e2e is tests alone: they ask from outside"},
	{
		Dir: "cmd/*/...", Module: []string{"self", "internal/client", "internal/api", "internal/local", "internal/chat", "internal/doctor", "internal/env", "core/replay"},
		External: []string{"*"}, Tests: anyOfOurs,
		Why: "the command speaks the API, starts the local server, replays logs",
	},
}

func TestImportDirections(t *testing.T) {
	t.Parallel()
	requireNone(t, tree(t).Imports(directions))
}

// TestImportTableAgreesWithTheLintRules reads the tree that proves the lint
// rules: each line there that depguard must refuse, and no other, is refused by
// the table as well.
func TestImportTableAgreesWithTheLintRules(t *testing.T) {
	t.Parallel()

	fixtures, err := lintkit.Load(os.DirFS("internal/lintkit/testdata/lint"))
	require.NoError(t, err)

	var want, got []string

	for _, file := range fixtures.Files {
		for _, group := range file.AST.Comments {
			for _, comment := range group.List {
				if strings.HasPrefix(comment.Text, "// want depguard") {
					want = append(want, fmt.Sprintf("%s:%d", file.Path, fixtures.Fset.Position(comment.Pos()).Line))
				}
			}
		}
	}

	for _, f := range fixtures.Imports(directions) {
		got = append(got, fmt.Sprintf("%s:%d", f.Path, f.Line))
	}

	require.NotEmpty(t, want)
	require.ElementsMatch(t, want, got)
}

func TestPackagesAreDocumentedOnce(t *testing.T) {
	t.Parallel()
	requireNone(t, tree(t).Docs())
}

func TestFilesAndFunctionsStaySmall(t *testing.T) {
	t.Parallel()
	requireNone(t, tree(t).Sizes(lintkit.Limits{
		FileLines: 600, FuncLines: 70, MainLines: 39, MainDirs: []string{"cmd/*", "functions/*"},
	}))
}

func TestNothingIsPutOff(t *testing.T) {
	t.Parallel()
	requireNone(t, tree(t).Markers())
}

func TestNoPathOfAMachine(t *testing.T) {
	t.Parallel()

	found, err := lintkit.MachinePaths(os.DirFS("."))
	require.NoError(t, err)
	requireNone(t, found)
}

func tree(t *testing.T) *lintkit.Tree {
	t.Helper()

	tree, err := lintkit.Load(os.DirFS("."))
	require.NoError(t, err)
	requireNone(t, tree.Broken)
	require.Greater(t, len(tree.Files), 20, "the walk has lost the tree")

	return tree
}

func requireNone(t *testing.T, found []lintkit.Finding) {
	t.Helper()

	for _, f := range found {
		t.Error(f)
	}
}
