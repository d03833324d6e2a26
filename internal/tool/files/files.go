package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"unicode"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool"
)

const deadlineMs = 60 * ident.Second

// where is what every description ends with.
const where = " Paths are relative, with / between the parts. If the session has several workspaces, the first part of a path is the workspace's name (~ is the session's own)."

// Tools returns the family over a store.
func Tools(store Workspaces) []tool.Spec {
	f := family{store}
	read := func(name, description, parameters string, run runFunc) tool.Spec {
		return tool.Spec{
			Name: name, Kind: tool.KindRead, Description: description + where, Parameters: parameters,
			RetrySafe: true, Parallel: true, DeadlineMs: deadlineMs, Target: "files", TargetFor: target, Run: faults(run),
		}
	}
	write := func(name, description, parameters string, run runFunc) tool.Spec {
		s := read(name, description, parameters, run)
		s.Kind, s.Parallel = tool.KindAction, false
		return s
	}
	edit := write("files.edit", editText, editParameters, f.edit)
	// The text to replace may be there again after the first time.
	edit.RetrySafe, edit.Lookup = false, f.lookupEdit
	return []tool.Spec{
		read("files.list", listText, listParameters, f.list),
		read("files.read", readText, readParameters, f.read),
		read("files.grep", grepText, grepParameters, f.grep),
		read("files.glob", globText, globParameters, f.glob),
		write("files.write", writeText, writeParameters, f.write),
		edit,
	}
}

// target adds the workspaces to what an approval binds: the same path means
// another file when they change.
func target(cfg session.Config) string {
	var b strings.Builder
	for _, ws := range cfg.Workspaces {
		fmt.Fprintf(&b, "%q %s\n", ws.Name, ws.Access)
	}
	return b.String()
}

type family struct{ store Workspaces }

type runFunc func(ctx context.Context, call host.ToolCall) (host.ToolResult, error)

// faults turns what a path or a missing file is to blame for into results that
// the model reads, and the rest into faults of the storage.
func faults(run runFunc) runFunc {
	return func(ctx context.Context, call host.ToolCall) (host.ToolResult, error) {
		res, err := run(ctx, call)
		return settle(ctx, res, err)
	}
}

// refusedError is a result that says no, with the text that the model reads.
type refusedError string

func (e refusedError) Error() string { return string(e) }

func settle(ctx context.Context, res host.ToolResult, err error) (host.ToolResult, error) {
	var said refusedError
	switch {
	case err == nil:
		return res, nil
	case errors.As(err, &said):
		return tool.Failed(string(said)), nil
	case errors.Is(err, host.ErrNotFound):
		return tool.Failed("no such file"), nil
	case errors.Is(err, fs.ErrInvalid):
		return tool.Failed(strings.TrimSuffix(err.Error(), ": "+fs.ErrInvalid.Error())), nil
	case errors.Is(err, host.ErrFull):
		return tool.Failed("not written: the storage is full"), nil
	case ctx.Err() != nil:
		return host.ToolResult{}, fault(host.ClassStopped, ctx.Err())
	}
	return host.ToolResult{}, fault(host.ClassServer, err)
}

func fault(class string, err error) *host.Fault {
	return &host.Fault{Class: class, Message: "the workspace could not be used", Sent: true, Err: err}
}

// arguments decodes what the registry has checked against the schema.
func arguments[T any](call host.ToolCall) (T, mounts, error) {
	var a T
	if err := json.Unmarshal([]byte(call.Arguments), &a); err != nil {
		return a, nil, refusedError("the arguments cannot be read")
	}
	return a, mountsOf(call.Workspaces), nil
}

// writable finds the place of a file that is to be changed.
func (m mounts) writable(path string) (place, error) {
	p, err := m.file(path)
	if err == nil && p.workspace.Access != "write" {
		return place{}, refusedError("the workspace " + shown(p.workspace) + " is read-only for this session")
	}
	return p, err
}

func written(p place, data []byte) session.ToolEffect {
	return session.ToolEffect{
		Kind: "file.written", Subject: p.subject(),
		Detail: strconv.Itoa(len(data)) + " bytes, " + string(blob.Sum(data)),
	}
}

// visible shows a path on one line: one with control characters is quoted, so
// that a file's name cannot pass for other lines of the result.
func visible(path string) string {
	if strings.IndexFunc(path, unicode.IsControl) >= 0 {
		return strconv.Quote(path)
	}
	return path
}
