package scripted_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/scripted"
	"github.com/perdure/perdure/internal/host"
)

func session1(id string) ident.SessionID { return ident.SessionID(id) }

// talk is a conversation with the demo.
type talk struct {
	t       *testing.T
	model   *scripted.Model
	req     host.ModelRequest
	pending []host.ModelCall
}

func begin(t *testing.T, text string) *talk {
	t.Helper()

	k := &talk{t: t, model: scripted.New(scripted.Config{}), req: host.ModelRequest{
		Model: session.Model{Provider: "scripted", Model: scripted.Demo},
		Tools: []host.ModelTool{{WireName: "files_list"}, {WireName: "files_read"}, {WireName: "files_write"}},
	}}

	return k.say(text)
}

func (k *talk) say(text string) *talk {
	k.req.Messages = append(k.req.Messages, user(text))

	return k
}

// answer asks for an answer and takes it into the conversation. Asked again it
// is the same, whoever asks.
func (k *talk) answer() host.ModelResult {
	k.t.Helper()

	res, err := k.model.Generate(k.t.Context(), k.req, quiet)
	require.NoError(k.t, err)

	again, err := scripted.New(scripted.Config{}).Generate(k.t.Context(), k.req, quiet)
	require.NoError(k.t, err)
	require.Equal(k.t, res, again)

	k.req.Messages = append(k.req.Messages, host.ModelMessage{Role: host.RoleAssistant, Text: res.Text, Calls: res.Calls})
	k.pending = res.Calls

	return res
}

// result answers the pending call.
func (k *talk) result(text string, failed bool) *talk {
	k.t.Helper()
	require.Len(k.t, k.pending, 1)

	k.req.Messages = append(k.req.Messages, host.ModelMessage{Role: host.RoleTool, Results: []host.ModelToolResult{
		{ID: k.pending[0].ID, Name: k.pending[0].Name, Text: text, Error: failed},
	}})
	k.pending = nil

	return k
}

const changes = "# Changes\n\n- Add dark mode\n- Fix a crash on empty input\n* `fix`: a typo\n- Faster start\n"

// draft goes as far as the write.
func draft(t *testing.T) *talk {
	t.Helper()

	k := begin(t, "Read changes.md and prepare release notes.")
	res := k.answer()
	require.Equal(t, []host.ModelCall{{ID: "scripted_1_1", Name: "files_read", Arguments: `{"path":"changes.md"}`}}, res.Calls)
	require.NotEmpty(t, res.Text)

	res = k.result(changes, false).answer()
	require.Len(t, res.Calls, 1)
	require.Equal(t, "files_write", res.Calls[0].Name)

	var args struct{ Path, Content string }

	require.NoError(t, json.Unmarshal([]byte(res.Calls[0].Arguments), &args))
	require.Equal(t, "release-notes.md", args.Path)
	require.Equal(t, "# Release notes\n\n## New\n\n- Add dark mode\n\n## Fixed\n\n- Fix a crash on empty input\n- `fix`: a typo\n\n## Changed\n\n- Faster start\n", args.Content)

	return k
}

func TestTheDemoWritesReleaseNotes(t *testing.T) {
	t.Parallel()

	k := draft(t)
	res := k.result("wrote release-notes.md (120 bytes)", false).answer()
	require.Empty(t, res.Calls)
	require.Equal(t, host.FinishStop, res.Finish)
	require.Equal(t, "Done: the release notes are in release-notes.md. They have 1 new, 2 fixed, 1 changed, from changes.md.", res.Text)
	require.Positive(t, res.Usage.Input)

	// What comes next is answered honestly.
	res = k.say("What is the capital of France?").answer()
	require.Empty(t, res.Calls)
	require.Contains(t, res.Text, "capital of France")
	require.Contains(t, res.Text, "scripted demo")
	require.Contains(t, res.Text, "OPENAI_API_KEY")
	require.Contains(t, res.Text, "OPENAI_BASE_URL")

	// And the task again is the task again.
	require.Len(t, k.say("Please try again").answer().Calls, 1)
}

func TestTheDemoAcknowledges(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		play func(k *talk) host.ModelResult
		says []string
	}{
		"a rejection with a note": {
			func(k *talk) host.ModelResult {
				return k.result("A person declined this call and it did not run. This is not a fault. Their note: too long,\nplease shorten", true).answer()
			},
			[]string{"You declined", "“too long, please shorten”", "What would you like instead?"},
		},
		"a rejection without one": {
			func(k *talk) host.ModelResult {
				return k.result("A person declined this call and it did not run.", true).answer()
			},
			[]string{"You declined", "What would you like instead?"},
		},
		"an approval that expired": {
			func(k *talk) host.ModelResult {
				return k.result("Nobody decided in time and the call did not run.", true).answer()
			},
			[]string{"Nobody decided", "still wanted"},
		},
		"any other failure": {
			func(k *talk) host.ModelResult { return k.result("not written: the storage is full", true).answer() },
			[]string{"not written", "storage is full"},
		},
		"an edit": {
			func(k *talk) host.ModelResult {
				return k.result(`[A person changed the arguments of this call before approving it. It ran with: {"path":"notes/v2.md","content":"x]\n"}]`+"\nwrote notes/v2.md (3 bytes)", false).answer()
			},
			[]string{"notes/v2.md", "You changed the call before you approved it"},
		},
		"an edit that is cut": {
			func(k *talk) host.ModelResult {
				return k.result(`[A person changed the arguments of this call before approving it. It ran with: {"path":"no]`+"\nwrote", false).answer()
			},
			[]string{"release-notes.md", "You changed the call"},
		},
		"steers": {
			func(k *talk) host.ModelResult {
				return k.result("wrote", false).say("make it funny").say("and short").answer()
			},
			[]string{"Done", "“make it funny”", "“and short”"},
		},
		"the end by a limit": {
			func(k *talk) host.ModelResult {
				k.req.NoTools = true

				return k.result("Not run: the limit is reached.", true).say("[the limit is reached]").answer()
			},
			[]string{"limit", "not written"},
		},
		"a cancel, after which another run begins": {
			func(k *talk) host.ModelResult {
				return k.result("Cancelled: not started.", true).say("who are you?").answer()
			},
			[]string{"scripted demo"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			res := c.play(draft(t))
			require.Empty(t, res.Calls)

			for _, s := range c.says {
				require.Contains(t, res.Text, s)
			}
		})
	}
}

func TestTheDemoWithoutChanges(t *testing.T) {
	t.Parallel()

	k := begin(t, "hello")
	require.Len(t, k.answer().Calls, 1)

	res := k.result("no such file", true).answer()
	require.Empty(t, res.Calls)
	require.Contains(t, res.Text, "There is no changes.md")
	require.Contains(t, res.Text, "Send me the changes right here")

	// The changes may come along instead.
	res = k.say("Here you are:\n- Add x\n- Remove y").answer()
	require.Len(t, res.Calls, 1)
	require.Equal(t, "files_write", res.Calls[0].Name)
	require.Contains(t, res.Calls[0].Arguments, "## Removed")
	require.Contains(t, k.result("wrote", false).answer().Text, "1 new, 1 removed, from your list")

	k = begin(t, "hello")
	k.answer()
	require.Contains(t, k.result("", false).answer().Text, "found no changes")

	k = begin(t, "hello")
	k.answer()
	require.Contains(t, k.result("the workspace is locked", true).answer().Text, "workspace is locked")
}

func TestTheDemoSaysWhatItIs(t *testing.T) {
	t.Parallel()

	for _, text := range []string{"help", "Help!", "/help", "what are you?", "who is this"} {
		res := begin(t, text).answer()
		require.Empty(t, res.Calls, text)
		require.Contains(t, res.Text, "not a language model", text)
	}

	k := begin(t, "hello")
	k.req.Tools = k.req.Tools[:1]
	require.Contains(t, k.answer().Text, "files.*")

	// After a cut the first message is a summary, not the task.
	k = begin(t, "[Earlier messages of this conversation are represented by this summary.]\nSo far the person asked:\n- Add notes")
	res := k.say("tell me a joke").answer()
	require.Empty(t, res.Calls)
}

func TestTheDemoStopsBetweenWords(t *testing.T) {
	t.Parallel()

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()

	k := begin(t, "help")
	_, err := scripted.New(scripted.Config{Pace: 24 * time.Hour}).Generate(ctx, k.req, quiet)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, host.ClassTimeout, fault(t, err).Class)

	// A pace changes nothing but the time.
	res, err := scripted.New(scripted.Config{Pace: time.Nanosecond}).Generate(t.Context(), k.req, quiet)
	require.NoError(t, err)
	require.Equal(t, k.answer(), res)
}
