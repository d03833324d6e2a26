package dir

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// The folders of one workspace.
const (
	filesFolder = "files" // what it holds
	tempFolder  = "tmp"   // files that are being written
	notesFolder = "notes" // which operation wrote which bytes, by path
)

const lockCount = 64

// Workspaces keeps every tenant's workspaces below one folder.
type Workspaces struct {
	root  *os.Root
	seed  maphash.Seed
	locks [lockCount]sync.Mutex
}

// Open uses a folder, making it if it is not there. Close lets go of it.
func Open(folder string) (*Workspaces, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, writeError("make the workspaces' folder", err)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fmt.Errorf("open the workspaces' folder: %w", err)
	}
	return &Workspaces{root: root, seed: maphash.MakeSeed()}, nil
}

// Close releases the folder.
func (w *Workspaces) Close() error {
	if err := w.root.Close(); err != nil {
		return fmt.Errorf("close the workspaces' folder: %w", err)
	}
	return nil
}

// lock makes the changes of one workspace one after the other, so that a
// condition still holds when the write that it guards is made, and no folder
// is taken away between being made and being used.
func (w *Workspaces) lock(folder string) (unlock func()) {
	l := &w.locks[maphash.String(w.seed, folder)%lockCount]
	l.Lock()
	return l.Unlock
}

// open opens a workspace that is there.
func (w *Workspaces) open(ctx context.Context, key host.Key, workspace string) (*os.Root, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("workspace: %w", err)
	}
	folder, err := workspaceFolder(key, workspace)
	if err != nil {
		return nil, err
	}
	root, err := w.root.OpenRoot(folder)
	if err != nil {
		return nil, readError("workspace", err)
	}
	return root, nil
}

// ReadFile implements the port.
func (w *Workspaces) ReadFile(ctx context.Context, key host.Key, workspace, path string) ([]byte, error) {
	data, _, err := w.read(ctx, key, workspace, path)
	return data, err
}

func (w *Workspaces) read(ctx context.Context, key host.Key, workspace, path string) ([]byte, fs.FileInfo, error) {
	if err := checkPath(path); err != nil {
		return nil, nil, err
	}
	root, err := w.open(ctx, key, workspace)
	if err != nil {
		return nil, nil, err
	}
	defer release(root)
	return readFile(root, path)
}

// readFile reads a file of an open workspace.
func readFile(root *os.Root, path string) ([]byte, fs.FileInfo, error) {
	name := filesFolder + "/" + path
	info, err := root.Stat(name)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) && throughLink(root, name) {
			return nil, nil, fmt.Errorf("read %s: the path goes through a link: %w", path, host.ErrNotFound)
		}
		return nil, nil, readError("read "+path, err)
	}
	// Opening a pipe would wait for a writer.
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("read %s: %w", path, host.ErrNotFound)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, nil, readError("read "+path, err)
	}
	defer release(f)
	data, err := io.ReadAll(io.LimitReader(f, fileMax+1))
	if err != nil {
		return nil, nil, readError("read "+path, err)
	}
	if len(data) > fileMax {
		return nil, nil, fmt.Errorf("read %s: it has more than %d bytes: %w", path, fileMax, fs.ErrInvalid)
	}
	return data, info, nil
}

// Stat is what StatFile returns, the port's type by its own fields.
type Stat = struct {
	Size      int64
	Content   blob.Ref
	Operation string
	Modified  ident.Instant
}

// StatFile implements the port.
func (w *Workspaces) StatFile(ctx context.Context, key host.Key, workspace, path string) (Stat, error) {
	if err := checkPath(path); err != nil {
		return Stat{}, err
	}
	root, err := w.open(ctx, key, workspace)
	if err != nil {
		return Stat{}, err
	}
	defer release(root)
	data, info, err := readFile(root, path)
	if err != nil {
		return Stat{}, err
	}
	content := blob.Sum(data)
	return Stat{
		Size: int64(len(data)), Content: content, Operation: readNote(root, path, content),
		Modified: ident.Instant(info.ModTime().UnixMilli()),
	}, nil
}

// ListWorkspaces implements the port.
func (w *Workspaces) ListWorkspaces(ctx context.Context, tenant ident.TenantID) ([]string, error) {
	folder, err := encodeID("tenant id", string(tenant))
	if err != nil {
		return nil, err
	}
	shared, err := w.root.Open(folder + "/" + sharedFolder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, readError("list the workspaces", err)
	}
	defer release(shared)
	folders, err := shared.ReadDir(-1)
	if err != nil {
		return nil, readError("list the workspaces", err)
	}
	var names []string
	for _, f := range folders {
		name, ok := decodeID(f.Name())
		if !ok {
			continue
		}
		files, err := w.ListFiles(ctx, host.Key{Tenant: tenant}, name, "", "", true, 1)
		if err != nil {
			return nil, err
		}
		if len(files) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// DropWorkspace implements the port.
func (w *Workspaces) DropWorkspace(ctx context.Context, key host.Key, workspace string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("drop a workspace: %w", err)
	}
	folder, err := workspaceFolder(key, workspace)
	if err != nil {
		return err
	}
	defer w.lock(folder)()
	if err := w.root.RemoveAll(folder); err != nil {
		return fmt.Errorf("drop a workspace: %w", err)
	}
	return nil
}
