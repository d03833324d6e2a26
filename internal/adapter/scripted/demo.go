package scripted

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/perdure/perdure/internal/host"
)

// What the demo works on.
const (
	changesFile = "changes.md"
	notesFile   = "release-notes.md"
	readTool    = "files.read"
	writeTool   = "files.write"
)

// demo is the release editor: it reads the list of changes, asks to write the
// release notes, and says how that went. All that it knows is in the request.
func demo(req host.ModelRequest) reply {
	if isCompaction(req) {
		return reply{text: summary(req)}
	}

	t := readTask(req)

	switch {
	case req.NoTools:
		return reply{text: t.closing()}
	case t.wrote != nil:
		return reply{text: t.report()}
	case !t.wanted:
		return reply{text: t.about()}
	case !offered(req, readTool) || !offered(req, writeTool):
		return reply{text: noToolsText}
	case t.source == "" && t.read == nil:
		return reply{
			text:  "I will read " + changesFile + " first.",
			calls: []Call{{Tool: readTool, Arguments: arguments(map[string]string{"path": changesFile})}},
		}
	case t.source == "" && t.read.Error:
		return reply{text: t.unread()}
	}

	d := t.draft()
	if d.empty() {
		return reply{text: t.withSteers("I found no changes in " + changesFile + ". " + listText)}
	}

	return reply{
		text:  "I have a draft of the release notes (" + d.counts() + "). Writing a file is for you to approve, so I ask.",
		calls: []Call{{Tool: writeTool, Arguments: arguments(map[string]string{"path": notesFile, "content": d.markdown()})}},
	}
}

// arguments is a JSON object; maps are encoded by sorted keys.
func arguments(fields map[string]string) string {
	out, err := json.Marshal(fields)
	if err != nil {
		return "{}" // a map of strings cannot fail
	}

	return string(out)
}

// task is what the conversation says about the work in hand.
type task struct {
	text   string   // what was asked for
	wanted bool     // release notes are
	source string   // changes that were sent along
	steers []string // what was said meanwhile
	read   *host.ModelToolResult
	wrote  *host.ModelToolResult
}

// readTask goes back to the last message that is no steer: there the task
// begins.
func readTask(req host.ModelRequest) task {
	messages := req.Messages

	last := len(messages) - 1
	for last >= 0 && (messages[last].Role != host.RoleUser || isSteer(messages, last)) {
		last--
	}

	begin := last
	for begin > 0 && messages[begin-1].Role == host.RoleUser {
		begin--
	}

	var t task

	asked := make([]string, 0, 1)
	for i := max(begin, 0); i <= last; i++ {
		text := userText(&messages[i])
		if strings.HasPrefix(text, "[Earlier messages") {
			begin = last // what a summary says was asked before

			continue
		}

		asked = append(asked, text)
	}

	t.text = strings.Join(asked, "\n")
	t.source = bullets(t.text)
	t.wanted = t.source != "" || wantsNotes(t.text, begin <= 0)

	for i := last + 1; i < len(messages); i++ {
		switch m := &messages[i]; m.Role {
		case host.RoleUser:
			t.steers = append(t.steers, userText(m))
		case host.RoleTool:
			t.results(req, m)
		}
	}

	return t
}

func (t *task) results(req host.ModelRequest, m *host.ModelMessage) {
	for i := range m.Results {
		switch r := &m.Results[i]; r.Name {
		case wireName(req.Tools, readTool):
			t.read = r
		case wireName(req.Tools, writeTool):
			t.wrote = r
		}
	}
}

// wantsNotes goes by words. The first message of a conversation is taken for
// the task, whatever it says, unless it asks what this is.
func wantsNotes(text string, first bool) bool {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return (r < 'a' || r > 'z') && r != '.'
	})

	has := func(of ...string) bool {
		for _, w := range words {
			for _, a := range of {
				if strings.Trim(w, ".") == a {
					return true
				}
			}
		}

		return false
	}

	if len(words) <= 6 && (has("help") || has("who", "what", "how") && has("you", "this")) {
		return false
	}

	return first || has("release", "notes", "changes", "changes.md", "changelog", "again", "retry", "draft", "redo")
}

// bullets are the lines of a message that list something.
func bullets(text string) string {
	var kept []string

	for line := range strings.Lines(text) {
		if _, ok := bullet(line); ok {
			kept = append(kept, strings.TrimSpace(line))
		}
	}

	return strings.Join(kept, "\n")
}

func (t *task) draft() draft {
	if t.source != "" {
		return parseChanges(t.source)
	}

	return parseChanges(t.read.Text)
}

// report says how the writing went.
func (t *task) report() string {
	text := t.wrote.Text

	switch {
	case !t.wrote.Error:
		return t.withSteers(t.written())
	case strings.HasPrefix(text, "A person declined"):
		said := "You declined the write, so " + notesFile + " is as it was."
		if _, note, ok := strings.Cut(text, "Their note: "); ok {
			said += "\n\nYour note: " + quoted(note)
		}

		return t.withSteers(said + "\n\nWhat would you like instead? I can draft the notes again from " + changesFile +
			" (say \"try again\"), or from changes that you send me. " + listText)
	case strings.HasPrefix(text, "Nobody decided"):
		return t.withSteers("Nobody decided about the write in time, so " + notesFile +
			" is as it was. Is it still wanted? Say \"try again\" and I will ask once more.")
	}

	return t.withSteers("The notes are not written. The tool says: " + quoted(text) + "\n\nSay \"try again\" when that is settled.")
}

// written reports success, and what a person made of the call before it ran.
func (t *task) written() string {
	path, edited := notesFile, false

	if _, rest, ok := strings.Cut(t.wrote.Text, "[A person changed the arguments"); ok {
		edited = true

		if _, rest, ok = strings.Cut(rest, "It ran with: "); ok {
			var ran struct {
				Path string `json:"path"`
			}

			end := strings.LastIndex(rest, "]\n")
			if end >= 0 && json.Unmarshal([]byte(rest[:end]), &ran) == nil && ran.Path != "" {
				path = ran.Path
			}
		}
	}

	from := changesFile
	if t.source != "" {
		from = "your list"
	}

	said := "Done: the release notes are in " + path + "."

	if edited {
		return said + " You changed the call before you approved it, so the file has your version, not my draft."
	}

	if t.source != "" || t.read != nil && !t.read.Error {
		said += " They have " + t.draft().counts() + ", from " + from + "."
	}

	return said
}

func (t *task) unread() string {
	if strings.Contains(t.read.Text, "no such file") {
		return t.withSteers(missingText)
	}

	return t.withSteers("I could not read " + changesFile + ". The tool says: " + quoted(t.read.Text) + "\n\n" + listText)
}

func (t *task) closing() string {
	text := "I have reached a limit of this run and stop here."

	switch {
	case t.wrote != nil:
		text += " " + t.report()
	case t.wanted:
		text += " The release notes are not written."
	}

	return text
}

func (t *task) about() string {
	said := ""
	if text := strings.TrimSpace(t.text); text != "" && !strings.Contains(strings.ToLower(text), "help") {
		said = "I cannot work on " + quoted(text) + ": "
	}

	return t.withSteers(said + aboutText)
}

// withSteers says that what was sent while the run went on has been read.
func (t *task) withSteers(text string) string {
	if len(t.steers) == 0 {
		return text
	}

	var b strings.Builder

	b.WriteString(text)
	b.WriteString("\n\nWhile I worked you also told me:\n")

	for _, s := range t.steers {
		fmt.Fprintf(&b, "- %s\n", quoted(s))
	}

	b.WriteString("I have read that. As a scripted demo I cannot act on it; a real model would.")

	return b.String()
}

// quoted is a person's or a tool's words on one line, shortened.
func quoted(s string) string {
	const most = 400

	return "“" + clip(strings.Join(strings.Fields(s), " "), most) + "”"
}

const (
	listText = "You can also send me the changes right here, one a line, each beginning with \"- \"."

	missingText = "There is no " + changesFile + " in this session's workspace, so I have nothing to write release notes from.\n\n" +
		"Send me the changes right here, one a line, each beginning with \"- \"."

	noToolsText = "I would read " + changesFile + " and write " + notesFile + ", but this session does not offer me the tools for it. " +
		"Grant them in its config: \"tools\": [\"files.*\"]."

	aboutText = "I am Perdure's scripted demo, not a language model. I can do one thing: read " + changesFile +
		", draft release notes, ask you before I write " + notesFile + ", and say how it went. Say \"write the release notes\" to see it.\n\n" +
		"To talk to a real model, start the server with OPENAI_API_KEY set, or with OPENAI_BASE_URL set to a server that speaks the " +
		"same protocol (for Ollama: http://localhost:11434/v1), and name the provider and model in the session's config."
)
