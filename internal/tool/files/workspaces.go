package files

import (
	"context"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// FileMax is the largest file, in bytes.
const FileMax = 16 << 20

// Entry is a file of a listing, or (Path ends in a slash) a folder that holds
// files. It is an unnamed struct so that an adapter, which may not import this
// package, implements the port by writing the same one.
type Entry = struct {
	Path     string
	Size     int64
	Modified ident.Instant
}

// Stat is what is known of one file. Operation is that of the last Write that
// gave one, as long as the bytes are those it wrote.
type Stat = struct {
	Size      int64
	Content   blob.Ref
	Operation string
	Modified  ident.Instant
}

// Workspaces stores files in folder trees. A workspace is named by a session
// and a name: with the empty name it is that session's own and nobody else's;
// with any other it is the tenant's, the same for each of its sessions. Folders
// exist as long as there are files in them. Implementations are safe for
// concurrent use.
//
// A path that breaks ParsePath's rules or has a part too long for the storage
// is an error that wraps fs.ErrInvalid, on every method that takes one. So is
// writing where a folder is or below a file; reading there finds nothing. The
// content's address doubles as its ETag.
type Workspaces interface {
	// ReadFile returns a file's bytes. host.ErrNotFound if there is none.
	ReadFile(ctx context.Context, key host.Key, workspace, path string) ([]byte, error)
	// StatFile says what is known of a file. host.ErrNotFound if there is none.
	StatFile(ctx context.Context, key host.Key, workspace, path string) (Stat, error)
	// WriteFile puts a file there whole: a reader sees the old bytes or the
	// new, also after a crash, and the new ones last once it has returned. With
	// expect it does so only if the file's content is *expect (empty: only if
	// there is no file); else done is false, nothing is written, and content is
	// what is there. operation, if not empty, is recorded in the same step.
	// An error that wraps host.ErrFull says that there is no room.
	WriteFile(ctx context.Context, key host.Key, workspace, path string, data []byte, expect *blob.Ref, operation string) (content blob.Ref, done bool, err error)
	// DeleteFile takes a file away, under the same condition. host.ErrNotFound
	// if there is none and expect does not ask for one. Without expect it takes
	// whatever is there, also what is written while the call lasts.
	DeleteFile(ctx context.Context, key host.Key, workspace, path string, expect *blob.Ref) (content blob.Ref, done bool, err error)
	// ListFiles returns entries whose path begins with prefix and sorts after
	// after, in bytewise order of their paths, at most limit. With deep false
	// what lies below the next slash after the prefix is one entry: the folder.
	ListFiles(ctx context.Context, key host.Key, workspace, prefix, after string, deep bool, limit int) ([]Entry, error)
	// ListWorkspaces returns the names of the tenant's workspaces that hold
	// files, sorted; sessions' own are not among them.
	ListWorkspaces(ctx context.Context, tenant ident.TenantID) ([]string, error)
	// DropWorkspace deletes a workspace with all its files. It may be repeated.
	DropWorkspace(ctx context.Context, key host.Key, workspace string) error
}
