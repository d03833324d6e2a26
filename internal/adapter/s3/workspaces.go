package s3

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// What a file's object carries beside its bytes.
const (
	metaContent   = "perdure-content"   // the address of the bytes
	metaOperation = "perdure-operation" // who wrote them, in base64
	metaWrite     = "perdure-write"     // of a conditional write: which one it was
)

// Workspaces keeps every tenant's workspaces in a bucket.
type Workspaces struct {
	bucket *bucket
}

// OpenWorkspaces uses a bucket. It asks nothing of AWS yet.
func OpenWorkspaces(cfg aws.Config, name string) (*Workspaces, error) {
	if name == "" {
		return nil, errors.New("s3: no bucket: set PERDURE_BUCKET")
	}
	return &Workspaces{bucket: openBucket(cfg, name)}, nil
}

// Entry is a row of ListFiles: the port's type by its own fields.
type Entry = struct {
	Path     string
	Size     int64
	Modified ident.Instant
}

// Stat is what StatFile returns, likewise.
type Stat = struct {
	Size      int64
	Content   blob.Ref
	Operation string
	Modified  ident.Instant
}

// place is the key of a file.
type place struct {
	prefix string // of the workspace
	path   string
}

func (p place) key() string { return p.prefix + p.path }

func placeOf(ctx context.Context, key host.Key, workspace, path string) (place, error) {
	if err := ctx.Err(); err != nil {
		return place{}, fmt.Errorf("workspace: %w", err)
	}
	if err := checkPath(path); err != nil {
		return place{}, err
	}
	prefix, err := workspacePrefix(key, workspace)
	return place{prefix: prefix, path: path}, err
}

// ReadFile implements the port.
func (w *Workspaces) ReadFile(ctx context.Context, key host.Key, workspace, path string) ([]byte, error) {
	p, err := placeOf(ctx, key, workspace, path)
	if err != nil {
		return nil, err
	}
	data, _, err := w.read(ctx, p)
	return data, err
}

func (w *Workspaces) read(ctx context.Context, p place) ([]byte, object, error) {
	data, o, err := w.bucket.get(ctx, p.key(), fileMax)
	switch {
	case errors.Is(err, errTooLarge):
		return nil, o, fmt.Errorf("read %s: %w: %w", p.path, err, fs.ErrInvalid)
	case err != nil:
		return nil, o, fmt.Errorf("read %s: %w", p.path, err)
	}
	if want, ok := o.meta[metaContent]; ok && want != string(blob.Sum(data)) {
		return nil, o, fmt.Errorf("read %s: %w", p.path, ErrCorrupt)
	}
	return data, o, nil
}

// StatFile implements the port.
func (w *Workspaces) StatFile(ctx context.Context, key host.Key, workspace, path string) (Stat, error) {
	p, err := placeOf(ctx, key, workspace, path)
	if err != nil {
		return Stat{}, err
	}
	o, content, err := w.stat(ctx, p)
	if err != nil {
		return Stat{}, err
	}
	// An operation that cannot be read is one that nobody asks for.
	operation, _ := base64.RawURLEncoding.DecodeString(o.meta[metaOperation])
	return Stat{Size: o.size, Content: content, Operation: string(operation), Modified: ident.Instant(o.modified.UnixMilli())}, nil
}

// stat says what is known of a file. One that somebody else put in the bucket
// does not carry its address, and is read for it.
func (w *Workspaces) stat(ctx context.Context, p place) (object, blob.Ref, error) {
	o, err := w.bucket.head(ctx, p.key())
	if err != nil {
		return o, "", fmt.Errorf("stat %s: %w", p.path, err)
	}
	if content, err := blob.ParseRef(o.meta[metaContent]); err == nil {
		return o, content, nil
	}
	data, o, err := w.read(ctx, p)
	if err != nil {
		return o, "", err
	}
	return o, blob.Sum(data), nil
}

// ListFiles implements the port.
func (w *Workspaces) ListFiles(
	ctx context.Context, key host.Key, workspace, prefix, after string, deep bool, limit int,
) ([]Entry, error) {
	root, err := workspacePrefix(key, workspace)
	if err != nil {
		return nil, err
	}
	if limit <= 0 || !listable(prefix) || !listable(after) {
		return nil, nil // no file has a path like this
	}
	q := query{prefix: root + prefix}
	if after != "" {
		q.after = root + after
	}
	if !deep {
		q.delimiter = "/"
	}
	var out []Entry
	err = w.bucket.list(ctx, q, limit+1, func(page []listed) (bool, error) {
		for _, row := range page {
			path := strings.TrimPrefix(row.key, root)
			// A folder sorts by its own name, not by what is in it.
			if path <= after || checkPath(strings.TrimSuffix(path, "/")) != nil || deep && strings.HasSuffix(path, "/") {
				continue
			}
			if len(out) == limit {
				return false, nil
			}
			e := Entry{Path: path}
			if !strings.HasSuffix(path, "/") {
				e.Size, e.Modified = row.size, ident.Instant(row.modified.UnixMilli())
			}
			out = append(out, e)
		}
		return len(out) < limit, nil
	})
	return out, err
}

// listable says whether a path could begin, or lie before, with this.
func listable(part string) bool {
	return len(part) <= pathMax+1 && strings.IndexByte(part, 0) < 0 && utf8.ValidString(part)
}

// ListWorkspaces implements the port.
func (w *Workspaces) ListWorkspaces(ctx context.Context, tenant ident.TenantID) ([]string, error) {
	root, err := tenantPrefix(tenant)
	if err != nil {
		return nil, err
	}
	root += sharedFolder
	var names []string
	err = w.bucket.list(ctx, query{prefix: root, delimiter: "/"}, pageMost, func(page []listed) (bool, error) {
		for _, row := range page {
			name := strings.TrimSuffix(strings.TrimPrefix(row.key, root), "/")
			if _, err := ident.ParseName("workspace name", name); err == nil {
				names = append(names, name)
			}
		}
		return true, nil
	})
	slices.Sort(names) // S3 sorts them with the slash at their end
	return names, err
}

// DropWorkspace implements the port.
func (w *Workspaces) DropWorkspace(ctx context.Context, key host.Key, workspace string) error {
	prefix, err := workspacePrefix(key, workspace)
	if err != nil {
		return err
	}
	return w.bucket.clear(ctx, prefix, "")
}
