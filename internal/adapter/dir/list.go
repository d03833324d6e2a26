package dir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// Entry is what ListFiles returns, the port's type by its own fields.
type Entry = struct {
	Path     string
	Size     int64
	Modified ident.Instant
}

// ListFiles implements the port.
func (w *Workspaces) ListFiles(
	ctx context.Context, key host.Key, workspace, prefix, after string, deep bool, limit int,
) ([]Entry, error) {
	root, err := w.open(ctx, key, workspace)
	if errors.Is(err, host.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer release(root)
	l := listing{ctx: ctx, root: root, prefix: prefix, after: after, deep: deep, limit: limit}
	start := prefix[:strings.LastIndexByte(prefix, '/')+1]
	if start != "" && checkPath(strings.TrimSuffix(start, "/")) != nil {
		return nil, nil // no file has a path like this
	}
	err = l.folder(start)
	return l.out, err
}

// listing is one ListFiles in progress.
type listing struct {
	ctx    context.Context //nolint:containedctx // it lives as long as the call
	root   *os.Root
	prefix string
	after  string
	deep   bool
	limit  int
	out    []Entry
}

// folder lists what is below a folder; at is empty or ends in a slash.
func (l *listing) folder(at string) error {
	if err := l.ctx.Err(); err != nil {
		return fmt.Errorf("list: %w", err)
	}
	entries, err := l.names(at)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if len(l.out) >= l.limit {
			return nil
		}
		path := at + e.name
		if !strings.HasPrefix(path, l.prefix) {
			continue
		}
		switch {
		case !e.folder && path > l.after:
			l.out = append(l.out, Entry{Path: path, Size: e.info.Size(), Modified: ident.Instant(e.info.ModTime().UnixMilli())})
		case !e.folder || path <= l.after && !strings.HasPrefix(l.after, path):
			// Seen before: everything in a folder that sorts before after, and
			// does not contain it, does too.
		case l.deep:
			if err := l.folder(path); err != nil {
				return err
			}
		case path > l.after:
			inside := listing{ctx: l.ctx, root: l.root, prefix: path, deep: true, limit: 1}
			if err := inside.folder(path); err != nil {
				return err
			}
			if len(inside.out) > 0 {
				l.out = append(l.out, Entry{Path: path})
			}
		}
	}
	return nil
}

type named struct {
	name   string // with a slash at the end if it is a folder
	folder bool
	info   fs.FileInfo
}

// names returns the files and folders in a folder as whole paths sort: a
// folder's place is that of its name with the slash.
func (l *listing) names(at string) ([]named, error) {
	folder, err := l.root.Open(strings.TrimSuffix(filesFolder+"/"+at, "/"))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ENAMETOOLONG) {
			return nil, nil
		}
		return nil, readError("list", err)
	}
	defer release(folder)
	info, err := folder.Stat()
	if err != nil {
		return nil, readError("list", err)
	}
	if !info.IsDir() {
		return nil, nil
	}
	entries, err := folder.ReadDir(-1)
	if err != nil {
		return nil, readError("list", err)
	}
	out := make([]named, 0, len(entries))
	for _, e := range entries {
		if checkPath(at+e.Name()) != nil || !e.IsDir() && !e.Type().IsRegular() {
			continue
		}
		n := named{name: e.Name(), folder: e.IsDir()}
		if n.folder {
			n.name += "/"
		} else if n.info, err = e.Info(); err != nil {
			continue // gone since the folder was read
		}
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b named) int { return strings.Compare(a.name, b.name) })
	return out, nil
}
