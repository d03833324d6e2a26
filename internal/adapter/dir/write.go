package dir

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/internal/host"
)

// staleAfter is how old a temporary file is that nobody will rename any more.
const staleAfter = time.Hour

// WriteFile implements the port.
func (w *Workspaces) WriteFile(
	ctx context.Context, key host.Key, workspace, name string, data []byte, expect *blob.Ref, operation string,
) (blob.Ref, bool, error) {
	if err := checkPath(name); err != nil {
		return "", false, err
	}
	if len(data) > fileMax {
		return "", false, fmt.Errorf("write %s: it has %d bytes, allowed are %d: %w", name, len(data), fileMax, fs.ErrInvalid)
	}
	folder, err := workspaceFolder(key, workspace)
	if err != nil {
		return "", false, err
	}
	if err := ctx.Err(); err != nil {
		return "", false, fmt.Errorf("write %s: %w", name, err)
	}
	defer w.lock(folder)()
	root, err := w.ensure(folder)
	if err != nil {
		return "", false, err
	}
	defer release(root)
	if met, actual, err := holds(root, name, expect); err != nil || !met {
		return actual, false, err
	}
	if err := write(root, name, data, operation); err != nil {
		if throughLink(root, filesFolder+"/"+path.Dir(name)) {
			return "", false, fmt.Errorf("write %s: the path goes through a link: %w", name, fs.ErrInvalid)
		}
		return "", false, writeError("write "+name, err)
	}
	return blob.Sum(data), true, nil
}

// ensure opens a workspace, making its folders if they are not there.
func (w *Workspaces) ensure(folder string) (*os.Root, error) {
	for _, sub := range []string{filesFolder, tempFolder, notesFolder} {
		made, err := makeFolders(w.root, folder+"/"+sub)
		if err == nil {
			err = syncFolders(w.root, made)
		}
		if err != nil {
			return nil, writeError("make a workspace", err)
		}
	}
	root, err := w.root.OpenRoot(folder)
	if err != nil {
		return nil, readError("workspace", err)
	}
	return root, nil
}

// holds says whether a condition on a file's content is met, and what is there.
func holds(root *os.Root, name string, expect *blob.Ref) (bool, blob.Ref, error) {
	if expect == nil {
		return true, "", nil
	}
	data, _, err := readFile(root, name)
	if errors.Is(err, host.ErrNotFound) {
		return *expect == "", "", nil
	}
	if err != nil {
		return false, "", err
	}
	actual := blob.Sum(data)
	return *expect == actual, actual, nil
}

// write puts the file in place. The note goes first: it names the bytes that
// it speaks of, so it says nothing until they are there.
func write(root *os.Root, name string, data []byte, operation string) error {
	dropStale(root)
	target := filesFolder + "/" + name
	made, err := makeFolders(root, path.Dir(target))
	if err != nil {
		return err
	}
	if operation != "" {
		if err := writeNote(root, name, note{Operation: operation, Content: blob.Sum(data)}); err != nil {
			return err
		}
	}
	clearEmpty(root, target)
	if err := place(root, target, data); err != nil {
		return err
	}
	return syncFolders(root, append(made, path.Dir(target)))
}

// clearEmpty takes away a folder that holds none but empty folders: a crash
// between making folders and putting a file in them leaves such, nobody can see
// them, and they must not be in a file's way.
func clearEmpty(root *os.Root, folder string) {
	if info, err := root.Lstat(folder); err != nil || !info.IsDir() {
		return
	}
	f, err := root.Open(folder)
	if err != nil {
		return
	}
	entries, err := f.ReadDir(-1)
	if err = errors.Join(err, f.Close()); err != nil {
		return
	}
	for _, e := range entries {
		clearEmpty(root, folder+"/"+e.Name())
	}
	_ = root.Remove(folder) // refused if it is not empty
}

// place writes and syncs a temporary file and renames it over the target.
func place(root *os.Root, target string, data []byte) error {
	temp := tempFolder + "/" + rand.Text()
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("make a temporary file: %w", err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = root.Rename(temp, target)
	}
	if err != nil {
		return errors.Join(err, root.Remove(temp))
	}
	return nil
}

// dropStale takes away what a crash left half written. What cannot be taken
// away now is found again by the next write.
func dropStale(root *os.Root) {
	folder, err := root.Open(tempFolder)
	if err != nil {
		return
	}
	defer release(folder)
	entries, err := folder.ReadDir(-1)
	if err != nil {
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > staleAfter {
			_ = root.Remove(tempFolder + "/" + e.Name())
		}
	}
}

// makeFolders makes a folder and those above it, and returns the folders whose
// list of names has changed by it.
func makeFolders(root *os.Root, folder string) ([]string, error) {
	if info, err := root.Stat(folder); err == nil && info.IsDir() {
		return nil, nil
	}
	var changed []string
	at := ""
	for part := range strings.SplitSeq(folder, "/") {
		parent := at
		if at = path.Join(at, part); parent == "" {
			parent = "."
		}
		switch err := root.Mkdir(at, 0o700); {
		case err == nil:
			changed = append(changed, parent)
		case !errors.Is(err, fs.ErrExist):
			return changed, fmt.Errorf("make a folder: %w", err)
		}
	}
	return changed, nil
}

// syncFolders makes names durable: a synced file whose name is not is lost by
// a power cut.
func syncFolders(root *os.Root, folders []string) error {
	slices.Sort(folders)
	for _, folder := range slices.Compact(folders) {
		f, err := root.Open(folder)
		if err != nil {
			return fmt.Errorf("open a folder to sync it: %w", err)
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return fmt.Errorf("sync a folder: %w", err)
		}
	}
	return nil
}

// DeleteFile implements the port.
func (w *Workspaces) DeleteFile(ctx context.Context, key host.Key, workspace, name string, expect *blob.Ref) (blob.Ref, bool, error) {
	if err := checkPath(name); err != nil {
		return "", false, err
	}
	folder, err := workspaceFolder(key, workspace)
	if err != nil {
		return "", false, err
	}
	defer w.lock(folder)()
	root, err := w.open(ctx, key, workspace)
	if errors.Is(err, host.ErrNotFound) && expect != nil {
		return "", *expect == "", nil
	}
	if err != nil {
		return "", false, err
	}
	defer release(root)
	data, _, err := readFile(root, name)
	switch {
	case errors.Is(err, host.ErrNotFound) && expect != nil:
		return "", *expect == "", nil
	case err != nil:
		return "", false, err
	}
	if actual := blob.Sum(data); expect != nil && *expect != actual {
		return actual, false, nil
	}
	return "", true, remove(root, name)
}

// remove takes a file away, with its note and the folders that it leaves empty.
func remove(root *os.Root, name string) error {
	target := filesFolder + "/" + name
	if err := root.Remove(target); err != nil {
		return writeError("delete "+name, err)
	}
	if err := root.Remove(noteName(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return writeError("delete "+name, err)
	}
	parent := path.Dir(target)
	for parent != filesFolder && root.Remove(parent) == nil {
		parent = path.Dir(parent)
	}
	return syncFolders(root, []string{parent})
}

// note says which operation wrote which bytes to a path.
type note struct {
	Operation string   `json:"operation"`
	Content   blob.Ref `json:"content"`
}

// noteName is where the note of a path is: by its hash, for a path may be as
// long as the file system allows a whole name to be.
func noteName(name string) string { return notesFolder + "/" + blob.Sum([]byte(name)).Hex() }

func writeNote(root *os.Root, name string, n note) error {
	data, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("encode a note: %w", err)
	}
	if err := place(root, noteName(name), data); err != nil {
		return err
	}
	return syncFolders(root, []string{notesFolder})
}

// readNote returns the operation that wrote these bytes to the path, if it is
// known. A note that cannot be read says nothing.
func readNote(root *os.Root, name string, content blob.Ref) string {
	data, err := root.ReadFile(noteName(name))
	var n note
	if err != nil || json.Unmarshal(data, &n) != nil || n.Content != content {
		return ""
	}
	return n.Operation
}
