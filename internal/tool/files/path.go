package files

import (
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"

	"github.com/perdure/perdure/core/session"
)

// PathMax is the longest path, in bytes.
const PathMax = 512

// OwnName is how paths and effects name the session's own workspace when it
// has several. No workspace can be called so: names begin with a letter or
// digit.
const OwnName = "~"

// ParsePath checks the path of a file in a workspace: relative, UTF-8, at most
// PathMax bytes, segments that are neither empty nor . or .., no NUL.
func ParsePath(path string) (string, error) {
	bad := func(why string) (string, error) { return "", fmt.Errorf("path: %s: %w", why, fs.ErrInvalid) }
	switch {
	case path == "":
		return bad("it is empty")
	case len(path) > PathMax:
		return bad(fmt.Sprintf("it has %d bytes, allowed are %d", len(path), PathMax))
	case !utf8.ValidString(path):
		return bad("it is not UTF-8")
	case strings.IndexByte(path, 0) >= 0:
		return bad("it has a NUL byte")
	case path[0] == '/':
		return bad("it must be relative, without a slash at the front")
	}
	for segment := range strings.SplitSeq(path, "/") {
		switch segment {
		case "":
			return bad("it has an empty part (two slashes, or one at the end)")
		case ".", "..":
			return bad("it has a part that is . or ..")
		}
	}
	return path, nil
}

// mounts are the workspaces of a call as the model sees them. One is the root
// of all paths; of several each is a folder at the top, under its name.
type mounts []session.Workspace

func mountsOf(workspaces []session.Workspace) mounts {
	if len(workspaces) == 0 {
		return mounts{{Access: "write"}}
	}
	return workspaces
}

func shown(ws session.Workspace) string {
	if ws.Name == "" {
		return OwnName
	}
	return ws.Name
}

// place is a file or folder in a workspace.
type place struct {
	workspace session.Workspace
	path      string // in the workspace; empty is its root
	prefix    string // what goes before path in what the model sees
}

func (p place) String() string { return p.prefix + p.path }

// subject names the file in an effect: with its workspace, always.
func (p place) subject() string { return shown(p.workspace) + "/" + p.path }

// file finds the place of a file.
func (m mounts) file(path string) (place, error) {
	path = strings.TrimPrefix(path, "./")
	if _, err := ParsePath(path); err != nil {
		return place{}, err
	}
	p, ok := m.find(path)
	if !ok {
		return place{}, fmt.Errorf("path: it must begin with a workspace: %s: %w", m.names(), fs.ErrInvalid)
	}
	if p.path == "" {
		return place{}, fmt.Errorf("path: it names a workspace, not a file: %w", fs.ErrInvalid)
	}
	return p, nil
}

// folders finds the places that a folder path covers: one, or every workspace
// when it is the root of several. The path may be empty, "." or end in a slash.
func (m mounts) folders(path string) ([]place, error) {
	path = strings.TrimSuffix(strings.TrimPrefix(path, "./"), "/")
	if path == "" || path == "." {
		return m.roots(), nil
	}
	if _, err := ParsePath(path); err != nil {
		return nil, err
	}
	p, ok := m.find(path)
	if !ok {
		return nil, fmt.Errorf("path: it must begin with a workspace: %s: %w", m.names(), fs.ErrInvalid)
	}
	return []place{p}, nil
}

func (m mounts) roots() []place {
	if len(m) == 1 {
		return []place{{workspace: m[0]}}
	}
	roots := make([]place, 0, len(m))
	for _, ws := range m {
		roots = append(roots, place{workspace: ws, prefix: shown(ws) + "/"})
	}
	return roots
}

func (m mounts) find(path string) (place, bool) {
	if len(m) == 1 {
		return place{workspace: m[0], path: path}, true
	}
	name, rest, _ := strings.Cut(path, "/")
	for _, ws := range m {
		if shown(ws) == name {
			return place{workspace: ws, path: rest, prefix: name + "/"}, true
		}
	}
	return place{}, false
}

func (m mounts) names() string {
	names := make([]string, 0, len(m))
	for _, ws := range m {
		names = append(names, shown(ws)+"/")
	}
	return strings.Join(names, ", ")
}
