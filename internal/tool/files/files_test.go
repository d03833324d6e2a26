package files_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/host/porttest"
	"github.com/perdure/perdure/internal/tool"
	"github.com/perdure/perdure/internal/tool/files"
)

var key = host.Key{Tenant: "acme", Session: "s1"}

// desk is the family over a store, called as the host calls it.
type desk struct {
	*memory
	t          *testing.T
	tools      *tool.Registry
	workspaces []session.Workspace
}

func setup(t *testing.T, workspaces ...session.Workspace) *desk {
	t.Helper()
	store := newMemory()
	tools, err := tool.New(nil, files.Tools(store))
	require.NoError(t, err)
	return &desk{memory: store, t: t, tools: tools, workspaces: workspaces}
}

func (d *desk) call(name string, arguments map[string]any) host.ToolCall {
	d.t.Helper()
	text, err := json.Marshal(arguments)
	require.NoError(d.t, err)
	return host.ToolCall{Key: key, Tool: name, Arguments: string(text), Operation: "op_1", Workspaces: d.workspaces}
}

func (d *desk) run(name string, arguments map[string]any) host.ToolResult {
	d.t.Helper()
	res, err := d.tools.Run(d.t.Context(), d.call(name, arguments))
	require.NoError(d.t, err)
	return res
}

func (d *desk) says(name string, arguments map[string]any) string {
	d.t.Helper()
	res := d.run(name, arguments)
	require.False(d.t, res.Error, res.Text)
	return res.Text
}

func (d *desk) refuses(name string, arguments map[string]any) string {
	d.t.Helper()
	res := d.run(name, arguments)
	require.True(d.t, res.Error, res.Text)
	require.Empty(d.t, res.Effects)
	return res.Text
}

func (d *desk) put(path, text string) {
	d.t.Helper()
	d.putIn("", path, text)
}

func (d *desk) putIn(workspace, path, text string) {
	d.t.Helper()
	_, done, err := d.WriteFile(d.t.Context(), key, workspace, path, []byte(text), nil, "")
	require.NoError(d.t, err)
	require.True(d.t, done)
}

func (d *desk) text(path string) string {
	d.t.Helper()
	data, err := d.ReadFile(d.t.Context(), key, "", path)
	require.NoError(d.t, err)
	return string(data)
}

type args = map[string]any

func TestTheFamilyIsWhatTheContractSays(t *testing.T) {
	t.Parallel()
	d := setup(t)
	cfg := session.Config{Tools: []session.ToolGrant{{Name: "files.*"}}}.WithDefaults()
	offer, err := d.tools.Offer(t.Context(), key, cfg)
	require.NoError(t, err)
	for _, c := range []struct {
		name, kind                  string
		safe, parallel, lookup, ask bool
	}{
		{"files.edit", "action", false, false, true, true},
		{"files.glob", "read", true, true, false, false},
		{"files.grep", "read", true, true, false, false},
		{"files.list", "read", true, true, false, false},
		{"files.read", "read", true, true, false, false},
		{"files.write", "action", true, false, false, true},
	} {
		o := offer[0]
		offer = offer[1:]
		require.Equal(t, c.name, o.Def.Name)
		require.Equal(t, c.kind, o.Def.Kind, c.name)
		require.Equal(t, session.ClassInline, o.Def.Class, c.name)
		require.Equal(t, c.safe, o.Def.RetrySafe, c.name)
		require.Equal(t, c.parallel, o.Def.Parallel, c.name)
		require.Equal(t, c.lookup, o.Def.Lookup, c.name)
		require.Equal(t, c.ask, o.Def.Gate.Ask, c.name)
		require.Less(t, len(o.Description), 600, c.name)
	}
	require.Empty(t, offer)
}

// An approval for "notes.md" must not be good for another notes.md.
func TestWorkspacesAreWhatAnApprovalBinds(t *testing.T) {
	t.Parallel()
	d := setup(t)
	definition := func(workspaces ...session.Workspace) string {
		cfg := session.Config{Tools: []session.ToolGrant{{Name: "files.write"}}, Workspaces: workspaces}
		offer, err := d.tools.Offer(t.Context(), key, cfg)
		require.NoError(t, err)
		return offer[0].Def.Definition
	}
	seen := map[string]bool{}
	for _, def := range []string{
		definition(), definition(session.Workspace{Name: "a", Access: "write"}), definition(session.Workspace{Name: "a", Access: "read"}),
		definition(session.Workspace{Name: "b", Access: "write"}), definition(session.Workspace{Name: "a", Access: "write"}, session.Workspace{Access: "write"}),
	} {
		require.False(t, seen[def])
		seen[def] = true
	}
}

func TestWriteCreatesAndReplaces(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for _, content := range []string{"hello\n", "", "é漢👩‍👩‍👧‍👦"} {
		res := d.run("files.write", args{"path": "docs/a.md", "content": content})
		require.False(t, res.Error)
		require.Equal(t, fmt.Sprintf("wrote docs/a.md (%d bytes)", len(content)), res.Text)
		require.Equal(t, []session.ToolEffect{{
			Kind: "file.written", Subject: "~/docs/a.md", Detail: fmt.Sprintf("%d bytes, %s", len(content), blob.Sum([]byte(content))),
		}}, res.Effects)
		require.Equal(t, content, d.text("docs/a.md"))
	}
	require.Contains(t, d.refuses("files.write", args{"path": "docs", "content": "x"}), "in the way")
	for _, path := range []string{"/a", "../a", "a/../b", "a//b", "a/", "a\x00", strings.Repeat("a", 600)} {
		text := d.refuses("files.write", args{"path": path, "content": "x"})
		require.Contains(t, text, "path: ", path)
		require.NotContains(t, text, "invalid argument")
	}
	require.Equal(t, "wrote b.md (1 bytes)", d.says("files.write", args{"path": "./b.md", "content": "x"}))
}

func TestReadShowsTheFileAndSaysWhatFollows(t *testing.T) {
	t.Parallel()
	d := setup(t)
	read := func(path string, offset, limit int) string {
		a := args{"path": path}
		if offset > 0 {
			a["offset"] = offset
		}
		if limit > 0 {
			a["limit"] = limit
		}
		return d.says("files.read", a)
	}
	d.put("three", "one\ntwo\nthree")
	require.Equal(t, "one\ntwo\nthree", read("three", 0, 0))
	require.Equal(t, "one\ntwo\nthree", read("three", 1, 3))
	require.Equal(t, "[lines 1 to 2 of 3; go on with offset 3]\none\ntwo\n", read("three", 1, 2))
	require.Equal(t, "[lines 3 to 3 of 3]\nthree", read("three", 3, 5))
	require.Equal(t, "offset 4 is past the end: the file has 3 lines", d.refuses("files.read", args{"path": "three", "offset": 4}))
	d.put("empty", "")
	require.Empty(t, read("empty", 0, 0))
	require.Empty(t, read("empty", 1, 1))
	d.put("crlf", "a\r\nb\r\n")
	require.Equal(t, "a\r\nb\r\n", read("crlf", 0, 0))
	require.Equal(t, "no such file", d.refuses("files.read", args{"path": "none"}))
	d.put("bin", "a\x00b")
	require.Contains(t, d.refuses("files.read", args{"path": "bin"}), "not text (3 bytes, sha256:")
	d.put("latin", "caf\xe9")
	require.Contains(t, d.refuses("files.read", args{"path": "latin"}), "not text")
}

func TestReadIsBoundedAndGoesOn(t *testing.T) {
	t.Parallel()
	d := setup(t)
	var want strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&want, "%d %s\n", i, strings.Repeat("é", i%40))
	}
	d.put("long", want.String())
	var got strings.Builder
	for offset := 1; offset > 0; {
		text := d.says("files.read", args{"path": "long", "offset": offset})
		require.LessOrEqual(t, len(text), session.ToolTextMax)
		header, body, _ := strings.Cut(text, "\n")
		var from, to, total, next int
		_, _ = fmt.Sscanf(header, "[lines %d to %d of %d; go on with offset %d]", &from, &to, &total, &next)
		require.Equal(t, offset, from)
		require.Equal(t, to-from+1, strings.Count(body, "\n"))
		got.WriteString(body)
		offset = next
	}
	require.Equal(t, want.String(), got.String())

	// One line longer than a result, cut at every place of a character.
	for pad := range 26 {
		d.put("wide", "first\n"+strings.Repeat("x", pad)+strings.Repeat("👩‍👩‍👧‍👦é漢", 4000)+"\nlast")
		text := d.says("files.read", args{"path": "wide", "offset": 2})
		require.True(t, utf8.ValidString(text))
		require.LessOrEqual(t, len(text), session.ToolTextMax)
		require.Contains(t, text, "line 2 of 3")
		require.Contains(t, text, "go on with offset 3]\n")
		require.NotContains(t, text, "\uFFFD")
	}
}

func TestEditReplacesExactlyWhatIsThere(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.put("f", "one two, two\n")
	require.Contains(t, d.refuses("files.edit", args{"path": "f", "old": "three", "new": "x"}), "not in the file")
	require.Contains(t, d.refuses("files.edit", args{"path": "f", "old": "two", "new": "x"}), "2 times")
	require.Contains(t, d.refuses("files.edit", args{"path": "f", "old": "one", "new": "one"}), "the same")
	require.Contains(t, d.refuses("files.edit", args{"path": "f", "old": "", "new": "one"}), "minLength")
	require.Equal(t, "no such file", d.refuses("files.edit", args{"path": "g", "old": "a", "new": "b"}))
	require.Equal(t, "one two, two\n", d.text("f"))
	res := d.run("files.edit", args{"path": "f", "old": "one ", "new": ""})
	require.Equal(t, "edited f: 1 replaced (9 bytes)", res.Text)
	require.Equal(t, "~/f", res.Effects[0].Subject)
	require.Equal(t, "edited f: 2 replaced (7 bytes)", d.says("files.edit", args{"path": "f", "old": "two", "new": "é", "all": true}))
	require.Equal(t, "é, é\n", d.text("f"))
	d.put("bin", "a\x00b")
	require.Contains(t, d.refuses("files.edit", args{"path": "bin", "old": "a", "new": "b"}), "not text")
	d.put("big", strings.Repeat("ab", 1<<20))
	require.Contains(t, d.refuses("files.edit", args{"path": "big", "old": "a", "new": strings.Repeat("c", 100), "all": true}), "allowed are 16777216")
}

func TestAnEditLosesNobodyElsesChange(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.put("f", "one two")
	came := 0
	d.before = func() {
		if came++; came == 1 {
			d.memory.put(key, "f", "zero one two")
		}
	}
	require.Equal(t, "edited f: 1 replaced (12 bytes)", d.says("files.edit", args{"path": "f", "old": "two", "new": "2nd"}))
	require.Equal(t, "zero one 2nd", d.text("f"))

	d.memory.put(key, "f", "two")
	d.before = func() { came++; d.memory.put(key, "f", fmt.Sprint("two ", came)) }
	require.Contains(t, d.refuses("files.edit", args{"path": "f", "old": "two", "new": "x"}), "keeps changing")
}

// put writes behind the tools' back.
func (m *memory) put(key host.Key, path, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, _ := m.at(key, "")
	m.files[at][path] = memoryFile{data: []byte(text)}
}

func TestAnInterruptedEditIsFound(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.put("f", "one two")
	edit := d.call("files.edit", args{"path": "f", "old": "two", "new": "2"})
	lookup := func() (host.ToolResult, bool) {
		res, found, err := d.tools.Lookup(t.Context(), edit)
		require.NoError(t, err)
		return res, found
	}
	_, found := lookup()
	require.False(t, found, "it has not been made")
	done, err := d.tools.Run(t.Context(), edit)
	require.NoError(t, err)
	res, found := lookup()
	require.True(t, found)
	require.Equal(t, "edited f (5 bytes)", res.Text)
	require.Equal(t, done.Effects, res.Effects)
	other := edit
	other.Operation = "op_2"
	_, found, err = d.tools.Lookup(t.Context(), other)
	require.NoError(t, err)
	require.False(t, found)
	d.put("f", "rewritten")
	_, found = lookup()
	require.False(t, found, "nothing can be told of bytes that are gone")
	d.fails = errors.New("the disk is gone")
	_, _, err = d.tools.Lookup(t.Context(), edit)
	require.Error(t, err)
}

func TestListShowsOneFolder(t *testing.T) {
	t.Parallel()
	d := setup(t)
	require.Equal(t, "[no files]", d.says("files.list", args{}))
	d.put("b.md", "12345")
	d.put("a/x", "1")
	d.put("a/y/z", "1")
	d.put("line\nbreak", "1")
	require.Equal(t, "a/\nb.md (5)\n\"line\\nbreak\" (1)\n", d.says("files.list", args{}))
	for _, path := range []string{"a", "a/", "./a"} {
		require.Equal(t, "a/x (1)\na/y/\n", d.says("files.list", args{"path": path}))
	}
	for _, path := range []string{".", "", "./"} {
		require.Contains(t, d.says("files.list", args{"path": path}), "b.md (5)\n", path)
	}
	require.Equal(t, "b.md (5)\n", d.says("files.list", args{"path": "b.md"}))
	require.Equal(t, "no such folder", d.refuses("files.list", args{"path": "c"}))
	require.Contains(t, d.refuses("files.list", args{"path": "../c"}), "..")
	for i := range 1001 {
		d.put(fmt.Sprintf("many/%04d", i), "")
	}
	text := d.says("files.list", args{"path": "many"})
	require.Equal(t, 1001, strings.Count(text, "\n"))
	require.Contains(t, text, "[there are more than 1000 entries")
}

func TestGlobFindsByName(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for _, p := range []string{"a.md", "b.txt", "docs/a.md", "docs/deep/er/c.md", "docs/deep/d.txt", "src/a/x.go", "src/x.go", "é.md"} {
		d.put(p, "x")
	}
	for pattern, want := range map[string]string{
		"*.md":          "a.md é.md",
		"?.md":          "a.md é.md",
		"[a-c].*":       "a.md b.txt",
		"**/*.md":       "a.md docs/a.md docs/deep/er/c.md é.md",
		"**":            "a.md b.txt docs/a.md docs/deep/d.txt docs/deep/er/c.md src/a/x.go src/x.go é.md",
		"docs/**":       "docs/a.md docs/deep/d.txt docs/deep/er/c.md",
		"docs/*":        "docs/a.md",
		"docs/*/*":      "docs/deep/d.txt",
		"**/x.go":       "src/a/x.go src/x.go",
		"src/**/x.go":   "src/a/x.go src/x.go",
		"**/deep/**/*":  "docs/deep/d.txt docs/deep/er/c.md",
		"**/er/**/c.md": "docs/deep/er/c.md",
		"./docs/*.md":   "docs/a.md",
		"docs":          "",
		"**/**/**/**":   "a.md b.txt docs/a.md docs/deep/d.txt docs/deep/er/c.md src/a/x.go src/x.go é.md",
	} {
		if want == "" {
			want = "[no matches]"
		}
		got := strings.Fields(strings.ReplaceAll(d.says("files.glob", args{"pattern": pattern}), "[no matches]", "[no\u00a0matches]"))
		require.Equal(t, want, strings.ReplaceAll(strings.Join(got, " "), "[no\u00a0matches]", "[no matches]"), pattern)
	}
	for _, pattern := range []string{"/a", "a//b", "../*", "[a", "a/", strings.Repeat("**/", 9) + "x", strings.Repeat("a", 600)} {
		require.Contains(t, d.refuses("files.glob", args{"pattern": pattern}), "the pattern", pattern)
	}
	for i := range 1001 {
		d.put(fmt.Sprintf("many/%04d", i), "")
	}
	text := d.says("files.glob", args{"pattern": "many/*"})
	require.Equal(t, 1001, strings.Count(text, "\n"))
	require.Contains(t, text, "[stopped after 1000 matches")
}

func TestGrepFindsLines(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.put("a.md", "one\nTwo é\r\nthree")
	d.put("docs/b.md", "two\n")
	d.put("bin", "two\x00")
	require.Equal(t, "a.md:2: Two é\ndocs/b.md:1: two\n", d.says("files.grep", args{"pattern": "(?i)two"}))
	require.Equal(t, "docs/b.md:1: two\n", d.says("files.grep", args{"pattern": "^two$", "path": "docs"}))
	require.Equal(t, "a.md:3: three\n", d.says("files.grep", args{"pattern": "e$", "path": "a.md"})[len("a.md:1: one\n"):])
	require.Equal(t, "[no matches]", d.says("files.grep", args{"pattern": "four"}))
	require.Equal(t, "no such file or folder", d.refuses("files.grep", args{"pattern": "x", "path": "none"}))
	require.Contains(t, d.refuses("files.grep", args{"pattern": "("}), "missing closing )")
	require.Contains(t, d.refuses("files.grep", args{"pattern": strings.Repeat("a", 2000)}), "allowed are 1000")
}

func TestGrepIsBounded(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.put("many", strings.Repeat("x\n", 3000))
	text := d.says("files.grep", args{"pattern": "x"})
	require.Equal(t, 1001, strings.Count(text, "\n"))
	require.Contains(t, text, "[stopped after 1000 matches")

	d = setup(t)
	for pad := range 26 {
		d.put("wide", strings.Repeat("x", pad)+strings.Repeat("👩‍👩‍👧‍👦é漢", 1000))
		text := d.says("files.grep", args{"pattern": "é"})
		require.True(t, utf8.ValidString(text))
		require.Less(t, len(text), 400)
		require.NotContains(t, text, "\uFFFD")
	}
	d.put("lines", strings.Repeat(strings.Repeat("y", 299)+"\n", 900))
	text = d.says("files.grep", args{"pattern": "y"})
	require.LessOrEqual(t, len(text), session.ToolTextMax)
	require.Contains(t, text, "[stopped after")

	d = setup(t)
	for i := range 6 {
		d.put(fmt.Sprintf("big%d", i), strings.Repeat(strings.Repeat("z", 1023)+"\n", 12<<10))
	}
	require.Contains(t, d.says("files.grep", args{"pattern": "q"}), "[stopped after 5 files")
}

func TestSeveralWorkspacesAreFolders(t *testing.T) {
	t.Parallel()
	d := setup(t, session.Workspace{Name: "docs", Access: "read"}, session.Workspace{Name: "out", Access: "write"}, session.Workspace{Access: "write"})
	d.putIn("docs", "a.md", "alpha")
	d.putIn("out", "deep/b.md", "beta")
	d.putIn("", "c.md", "gamma")
	require.Equal(t, "docs/ (read)\nout/ (write)\n~/ (write)\n", d.says("files.list", args{}))
	require.Equal(t, "docs/a.md (5)\n", d.says("files.list", args{"path": "docs"}))
	require.Equal(t, "out/deep/\n", d.says("files.list", args{"path": "out/"}))
	require.Equal(t, "alpha", d.says("files.read", args{"path": "docs/a.md"}))
	require.Equal(t, "gamma", d.says("files.read", args{"path": "~/c.md"}))
	require.Equal(t, "docs/a.md\nout/deep/b.md\n~/c.md\n", d.says("files.glob", args{"pattern": "**/*.md"}))
	require.Equal(t, "out/deep/b.md\n", d.says("files.glob", args{"pattern": "out/**"}))
	require.Equal(t, "docs/a.md:1: alpha\nout/deep/b.md:1: beta\n~/c.md:1: gamma\n", d.says("files.grep", args{"pattern": "a$"}))
	require.Equal(t, "out/deep/b.md:1: beta\n", d.says("files.grep", args{"pattern": "a$", "path": "out/deep"}))
	require.Contains(t, d.refuses("files.read", args{"path": "a.md"}), "docs/, out/, ~/")
	require.Contains(t, d.refuses("files.list", args{"path": "other"}), "docs/, out/, ~/")
	require.Contains(t, d.refuses("files.read", args{"path": "docs"}), "names a workspace")
	require.Contains(t, d.refuses("files.write", args{"path": "docs/a.md", "content": "x"}), "read-only")
	require.Contains(t, d.refuses("files.edit", args{"path": "docs/a.md", "old": "a", "new": "b"}), "read-only")
	res := d.run("files.write", args{"path": "out/x", "content": "x"})
	require.Equal(t, "out/x", res.Effects[0].Subject)
	data, err := d.ReadFile(t.Context(), key, "out", "x")
	require.NoError(t, err)
	require.Equal(t, "x", string(data))

	d.workspaces = d.workspaces[1:2]
	require.Equal(t, "beta", d.says("files.read", args{"path": "deep/b.md"}), "a single workspace is the root")
	require.Equal(t, "out/y", d.run("files.write", args{"path": "y", "content": ""}).Effects[0].Subject)
}

func TestFaultsOfTheStorageAreNotTheModelsFault(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.fails = errors.New("the disk is gone")
	for name, a := range map[string]args{
		"files.read": {"path": "a"}, "files.list": {}, "files.glob": {"pattern": "*"}, "files.grep": {"pattern": "x"},
		"files.write": {"path": "a", "content": ""}, "files.edit": {"path": "a", "old": "x", "new": "y"},
	} {
		_, err := d.tools.Run(t.Context(), d.call(name, a))
		var fault *host.Fault
		require.ErrorAs(t, err, &fault, name)
		require.Equal(t, host.ClassServer, fault.Class, name)
		require.NotContains(t, fault.Message, "disk", name)
	}
	d.fails = fmt.Errorf("write: %w", host.ErrFull)
	require.Equal(t, "not written: the storage is full", d.refuses("files.write", args{"path": "a", "content": ""}))
}

func FuzzPath(f *testing.F) {
	for _, p := range []string{"a/b", "../a", "a\x00", "", "/", "./a", "é/漢", "a//b", "\xff", "~/x"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, path string) {
		got, err := files.ParsePath(path)
		if err != nil {
			require.NotContains(t, err.Error(), "%!")
			return
		}
		require.Equal(t, path, got)
		require.LessOrEqual(t, len(path), files.PathMax)
		require.True(t, utf8.ValidString(path))
		require.False(t, strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") || strings.Contains(path, "//") || strings.Contains(path, "\x00"))
		for part := range strings.SplitSeq(path, "/") {
			require.NotContains(t, []string{"", ".", ".."}, part)
		}
	})
}

func TestTheFamilyKeepsThePort(t *testing.T) {
	t.Parallel()
	porttest.Tools(t, func(t *testing.T) porttest.ToolsSetup {
		t.Helper()
		d := setup(t)
		d.put("a.md", "one")
		d.put("b.md", "one")
		return porttest.ToolsSetup{
			Tools: d.tools, Key: key, Actor: session.Actor{ID: "ann"},
			Config: session.Config{Tools: []session.ToolGrant{{Name: "files.*"}}}.WithDefaults(),
			Calls: map[string]string{
				"files.list": `{}`, "files.read": `{"path":"a.md"}`, "files.glob": `{"pattern":"**"}`, "files.grep": `{"pattern":"one"}`,
				"files.write": `{"path":"c.md","content":"x"}`, "files.edit": `{"path":"b.md","old":"one","new":"two"}`,
			},
		}
	})
}
