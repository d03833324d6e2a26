package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/api"
)

// same compares texts that are too long to be shown.
func same(t *testing.T, want, got string) {
	t.Helper()
	n := 0
	for n < min(len(want), len(got)) && want[n] == got[n] {
		n++
	}
	if n < max(len(want), len(got)) {
		require.Fail(t, "two texts differ", "at byte %d of %d and %d", n, len(want), len(got))
	}
}

// T55, T56, T68: a message of a megabyte.
func TestAMegabyte(t *testing.T) {
	t.Parallel()
	w := ratherAlone(t)
	w.open(w.played(nil))
	const whales = "whales 鯨 👩‍👩‍👧‍👦 "
	n := 1 << 20 / len(whales)
	text := strings.Repeat(whales, n)
	w.model.Enqueue(openaitest.Text(strings.Repeat(whales, n/2), 50), openaitest.Text("Yes.", 1))
	run := w.run(text)
	ended := w.ends(run.ID, "completed")
	same(t, text, w.asked(1).last().text())
	require.Equal(t, int64(len(text)), ended.Input[0].Text.Size)
	require.NotEmpty(t, ended.Input[0].Text.Ref)
	require.True(t, strings.HasPrefix(text, ended.Input[0].Text.Preview))
	require.NotEmpty(t, ended.Output.Ref)
	require.True(t, strings.HasPrefix(text, ended.Output.Text))
	require.LessOrEqual(t, len(ended.Output.Text), 64<<10)
	require.Greater(t, len(ended.Output.Text), 64<<10-4)

	if w.kill != nil {
		w.powerCut()
	}
	require.Equal(t, ended, read[api.Run](w.get("/runs/"+run.ID).is(200)))
	w.ends(w.run("Did you get it?").ID, "completed")
	same(t, text, w.asked(2).Messages[0].text())
	for _, e := range w.events() {
		require.Less(t, len(e.Data), 70<<10, "an event of the feed holds at most 64 KiB of a text")
	}
	require.LessOrEqual(t, len([]rune(read[api.Session](w.get("").is(200)).Title)), 60)
}

// T55: results that are kept as rows, as files, and cut for the model.
func TestLargeResults(t *testing.T) {
	t.Parallel()
	w := ratherAlone(t)
	tool := w.outside("big", object{"kind": "read"})
	w.open(w.played([]string{tool.name}))
	for i, size := range []int{3 << 10, 60 << 10, 300 << 10} {
		text := strings.Repeat("0123456789abcdé", size/16)
		tool.answers(says(200, object{"result": text}))
		w.model.Enqueue(openaitest.Calls(call("a", tool.name, object{})), openaitest.Text("Much.", 1))
		run := w.ends(w.run("Fetch.").ID, "completed")
		c := w.calls(run.ID)[0]
		require.Equal(t, int64(len(text)), c.OutputBytes)
		seen := w.asked(2 * (i + 1)).last().text()
		if size < 64<<10 {
			require.False(t, c.Truncated)
			same(t, text, c.Result.Text)
			same(t, text, seen)
			continue
		}
		require.True(t, c.Truncated)
		require.Equal(t, int64(len(text)), c.Result.Size)
		require.NotEmpty(t, c.Result.Ref)
		require.True(t, strings.HasPrefix(text, c.Result.Preview))
		require.LessOrEqual(t, len(seen), 66<<10)
		require.True(t, strings.HasPrefix(seen, text[:60<<10]))
	}
	if w.data == "" {
		return // what it keeps is not to be seen
	}
	largest := int64(0)
	require.NoError(t, filepath.WalkDir(w.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(filepath.Base(path), ".db") {
			return err
		}
		info, err := d.Info()
		largest = max(largest, info.Size())
		return err
	}))
	require.Positive(t, largest, "what is above 256 KiB is a file")

	// I18: what a session has said goes with it.
	w.post("/close", nil).is(200)
	w.ask("DELETE", w.path(""), nil).is(204)
	w.stop(w)
	w.start(w)
	w.get("").refused(404, "not_found")
	require.NoError(t, filepath.WalkDir(w.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		require.NotContains(t, string(data), "0123456789abcdé0123456789abcdé", path)
		return err
	}))
}

// T58, T59: characters of every kind reach the model, a file and the client as
// they are.
func TestCharactersOfEveryKind(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played([]string{"files.*"}, unasked))
	for _, text := range []string{
		"👩‍👩‍👧‍👦 é e\u0301 漢字 🇩🇪 \U0010FFFF",
		"\u202Eright to left\u202C שלום עולם مرحبا",
		"nothing \u0000 bell \u0007 vertical \u000b escape \u001b[31m delete \u007f",
		"not characters \uFFFE \uFFFF \uFFFD, separators \u2028 \u2029, a mark \uFEFF",
		`"quotes" \ / <script>&amp;</script> \u0041 ` + "`${x}` {{input}} %s",
		" \t\r\n ",
	} {
		w.model.Enqueue(openaitest.Calls(call("a", "files.write", object{"path": "a.txt", "content": text})), openaitest.Calls(call("b", "files.read", object{"path": "a.txt"})), openaitest.Text(text, 3))
		n := len(w.model.Requests())
		run := w.ends(w.run(text).ID, "completed")
		require.Equal(t, text, run.Input[0].Text.Text)
		require.Equal(t, text, run.Output.Text)
		require.Equal(t, text, w.asked(n+1).last().text(), "what the model reads")
		calls := w.calls(run.ID)
		require.Equal(t, "completed", calls[0].Status)
		if strings.Contains(text, "\u0000") {
			require.Contains(t, calls[1].Error.Text, "is not text", "a file with a NUL is none")
		} else {
			require.Contains(t, calls[1].Result.Text, strings.TrimRight(text, " \t\r\n"))
		}
		c := read[api.Context](w.get("/context").is(200))
		require.Equal(t, text, c.Entries[len(c.Entries)-1].Text.Text)
	}
}
