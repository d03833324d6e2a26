package files

import (
	"context"
	"fmt"
	"strings"

	"github.com/perdure/perdure/internal/host"
)

// listMax bounds the entries of one files.list or files.glob.
const listMax = 1000

const (
	listText       = "List a folder: one entry a line, folders with a / at the end, files with their size in bytes. Without a path it lists the top folder. It does not descend; files.glob does."
	listParameters = `{"type":"object","properties":{"path":{"type":"string"}},"additionalProperties":false}`
)

type pathArguments struct {
	Path string `json:"path"`
}

func (f family) list(ctx context.Context, call host.ToolCall) (host.ToolResult, error) {
	a, m, err := arguments[pathArguments](call)
	if err != nil {
		return host.ToolResult{}, err
	}
	places, err := m.folders(a.Path)
	if err != nil {
		return host.ToolResult{}, err
	}
	var b strings.Builder
	if len(places) > 1 {
		for _, p := range places {
			fmt.Fprintf(&b, "%s (%s)\n", p.prefix, p.workspace.Access)
		}
		return host.ToolResult{Text: b.String()}, nil
	}
	p := places[0]
	entries, err := f.store.ListFiles(ctx, call.Key, p.workspace.Name, folder(p.path), "", false, listMax+1)
	if err != nil {
		return host.ToolResult{}, err
	}
	if len(entries) == 0 {
		return f.listNothing(ctx, call, p)
	}
	for _, e := range entries[:min(len(entries), listMax)] {
		b.WriteString(visible(p.prefix + e.Path))
		if !strings.HasSuffix(e.Path, "/") {
			fmt.Fprintf(&b, " (%d)", e.Size)
		}
		b.WriteByte('\n')
	}
	if len(entries) > listMax {
		fmt.Fprintf(&b, "[there are more than %d entries; use files.glob with a narrower pattern]\n", listMax)
	}
	return host.ToolResult{Text: b.String()}, nil
}

// listNothing tells an empty workspace from a folder that is not there, and a
// file from both.
func (f family) listNothing(ctx context.Context, call host.ToolCall, p place) (host.ToolResult, error) {
	if p.path == "" {
		return host.ToolResult{Text: "[no files]"}, nil
	}
	if st, err := f.store.StatFile(ctx, call.Key, p.workspace.Name, p.path); err == nil {
		return host.ToolResult{Text: fmt.Sprintf("%s (%d)\n", visible(p.String()), st.Size)}, nil
	}
	return host.ToolResult{}, refusedError("no such folder")
}

// folder is the prefix of what lies in a folder.
func folder(path string) string {
	if path == "" {
		return ""
	}
	return path + "/"
}

// walk visits every file below a place in order of its path, until visit says
// that it has enough.
func (f family) walk(ctx context.Context, call host.ToolCall, p place, prefix string, visit func(Entry) (more bool, err error)) error {
	for after := ""; ; {
		entries, err := f.store.ListFiles(ctx, call.Key, p.workspace.Name, prefix, after, true, listMax)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := ctx.Err(); err != nil {
				return err
			}
			more, err := visit(e)
			if err != nil || !more {
				return err
			}
			after = e.Path
		}
		if len(entries) < listMax {
			return nil
		}
	}
}
