package files

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/host"
)

// editTries is how often an edit is made anew on a file that changed meanwhile.
const editTries = 5

const (
	writeText       = "Write a text file whole: it is created, or replaced if it is there. Folders come into being with it. To change a part of a file, use files.edit."
	writeParameters = `{"type":"object","properties":{"path":{"type":"string","minLength":1},"content":{"type":"string"}},"required":["path","content"],"additionalProperties":false}`

	editText = "Replace text in a file. old must be in the file exactly as given, white space included, and only once; more context makes it unique. " +
		"With all true every occurrence is replaced."
	editParameters = `{"type":"object","properties":{"path":{"type":"string","minLength":1},"old":{"type":"string","minLength":1},"new":{"type":"string"},"all":{"type":"boolean"}},"required":["path","old","new"],"additionalProperties":false}`
)

type writeArguments struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

func (f family) write(ctx context.Context, call host.ToolCall) (host.ToolResult, error) {
	a, m, err := arguments[writeArguments](call)
	if err != nil {
		return host.ToolResult{}, err
	}
	p, err := m.writable(a.Path)
	if err != nil {
		return host.ToolResult{}, err
	}
	data := []byte(a.Content)
	if len(data) > FileMax {
		return host.ToolResult{}, tooLarge(len(data))
	}
	if _, _, err := f.store.WriteFile(ctx, call.Key, p.workspace.Name, p.path, data, nil, ""); err != nil {
		return host.ToolResult{}, err
	}
	return host.ToolResult{
		Text:    fmt.Sprintf("wrote %s (%d bytes)", visible(p.String()), len(data)),
		Effects: []session.ToolEffect{written(p, data)},
	}, nil
}

func tooLarge(n int) refusedError {
	return refusedError(fmt.Sprintf("not written: the file would have %d bytes, allowed are %d", n, FileMax))
}

type editArguments struct {
	Path string `json:"path"`
	Old  string `json:"old"`
	New  string `json:"new"`
	All  bool   `json:"all"`
}

// edit reads, replaces, and writes on condition that the file is still what
// was read, so that no other writer's change is lost.
func (f family) edit(ctx context.Context, call host.ToolCall) (host.ToolResult, error) {
	a, m, err := arguments[editArguments](call)
	if err != nil {
		return host.ToolResult{}, err
	}
	p, err := m.writable(a.Path)
	if err != nil {
		return host.ToolResult{}, err
	}
	for range editTries {
		before, err := f.store.ReadFile(ctx, call.Key, p.workspace.Name, p.path)
		if err != nil {
			return host.ToolResult{}, err
		}
		after, n, err := a.apply(before)
		if err != nil {
			return host.ToolResult{}, err
		}
		expect := blob.Sum(before)
		_, done, err := f.store.WriteFile(ctx, call.Key, p.workspace.Name, p.path, after, &expect, call.Operation)
		if err != nil {
			return host.ToolResult{}, err
		}
		if done {
			return host.ToolResult{
				Text:    fmt.Sprintf("edited %s: %d replaced (%d bytes)", visible(p.String()), n, len(after)),
				Effects: []session.ToolEffect{written(p, after)},
			}, nil
		}
	}
	return host.ToolResult{}, refusedError("not edited: the file keeps changing; read it again")
}

// apply makes the edit, and says how many places it replaced.
func (a editArguments) apply(before []byte) ([]byte, int, error) {
	if a.Old == a.New {
		return nil, 0, refusedError("not edited: old and new are the same")
	}
	if binary(before) {
		return nil, 0, refusedError("not edited: the file is not text")
	}
	text := string(before)
	n := strings.Count(text, a.Old)
	switch {
	case n == 0:
		return nil, 0, refusedError("not edited: old is not in the file; it must match exactly, white space and line ends included")
	case n > 1 && !a.All:
		return nil, 0, refusedError(fmt.Sprintf("not edited: old is in the file %d times; give more context, or all", n))
	case len(text)+n*(len(a.New)-len(a.Old)) > FileMax:
		return nil, 0, tooLarge(len(text) + n*(len(a.New)-len(a.Old)))
	}
	return []byte(strings.ReplaceAll(text, a.Old, a.New)), n, nil
}

// lookupEdit tells whether an edit that was cut short took place: it did if
// the file's bytes are those that this operation wrote. If they are not, it
// may have taken place before another write, and nothing can be told.
func (f family) lookupEdit(ctx context.Context, call host.ToolCall) (host.ToolResult, bool, error) {
	a, m, err := arguments[editArguments](call)
	if err != nil {
		return host.ToolResult{}, false, nil //nolint:nilerr // arguments that cannot be read have edited nothing that can be found
	}
	p, err := m.file(a.Path)
	if err != nil || call.Operation == "" {
		return host.ToolResult{}, false, nil //nolint:nilerr // as above
	}
	st, err := f.store.StatFile(ctx, call.Key, p.workspace.Name, p.path)
	switch {
	case errors.Is(err, host.ErrNotFound):
		return host.ToolResult{}, false, nil
	case err != nil:
		return host.ToolResult{}, false, fault(host.ClassServer, err)
	case st.Operation != call.Operation:
		return host.ToolResult{}, false, nil
	}
	return host.ToolResult{
		Text: fmt.Sprintf("edited %s (%d bytes)", visible(p.String()), st.Size),
		Effects: []session.ToolEffect{{
			Kind: "file.written", Subject: p.subject(), Detail: fmt.Sprintf("%d bytes, %s", st.Size, st.Content),
		}},
	}, true, nil
}
