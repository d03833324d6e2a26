package files_test

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/host/porttest"
	"github.com/perdure/perdure/internal/tool/files"
)

// memory keeps workspaces in a map. This package may not import an adapter, so
// its tests have a store of their own, held to the same suite.
type memory struct {
	mu    sync.Mutex
	files map[string]map[string]memoryFile
	clock ident.Instant
	// before, if set, is called before each write: what it writes came first.
	before func()
	// fails, if set, is what every method fails with.
	fails error
}

type memoryFile struct {
	data      []byte
	operation string
	at        ident.Instant
}

func newMemory() *memory { return &memory{files: map[string]map[string]memoryFile{}} }

func (m *memory) at(key host.Key, workspace string) (string, error) {
	if m.fails != nil {
		return "", m.fails
	}
	if _, err := ident.ParseTenantID(string(key.Tenant)); err != nil {
		return "", err
	}
	if workspace != "" {
		_, err := ident.ParseName("workspace", workspace)
		return string(key.Tenant) + "/shared/" + workspace, err
	}
	_, err := ident.ParseSessionID(string(key.Session))
	return string(key.Tenant) + "/own/" + string(key.Session), err
}

func (m *memory) ReadFile(_ context.Context, key host.Key, workspace, path string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := m.find(key, workspace, path)
	return slices.Clone(f.data), err
}

func (m *memory) find(key host.Key, workspace, path string) (memoryFile, error) {
	at, err := m.at(key, workspace)
	if err == nil {
		_, err = files.ParsePath(path)
	}
	if err != nil {
		return memoryFile{}, err
	}
	f, there := m.files[at][path]
	if !there {
		return memoryFile{}, fmt.Errorf("read %s: %w", path, host.ErrNotFound)
	}
	return f, nil
}

func (m *memory) StatFile(_ context.Context, key host.Key, workspace, path string) (files.Stat, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := m.find(key, workspace, path)
	if err != nil {
		return files.Stat{}, err
	}
	return files.Stat{Size: int64(len(f.data)), Content: blob.Sum(f.data), Operation: f.operation, Modified: f.at}, nil
}

func (m *memory) WriteFile(
	_ context.Context, key host.Key, workspace, path string, data []byte, expect *blob.Ref, operation string,
) (blob.Ref, bool, error) {
	if m.before != nil {
		m.before()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	at, err := m.at(key, workspace)
	if err != nil {
		return "", false, err
	}
	if err := m.free(at, path, data); err != nil {
		return "", false, err
	}
	if actual, met := m.holds(at, path, expect); !met {
		return actual, false, nil
	}
	if m.files[at] == nil {
		m.files[at] = map[string]memoryFile{}
	}
	m.clock++
	m.files[at][path] = memoryFile{slices.Clone(data), operation, m.clock}
	return blob.Sum(data), true, nil
}

func (m *memory) free(at, path string, data []byte) error {
	if _, err := files.ParsePath(path); err != nil {
		return err
	}
	if len(data) > files.FileMax {
		return fmt.Errorf("too large: %w", fs.ErrInvalid)
	}
	for part := range strings.SplitSeq(path, "/") {
		if len(part) > 255 {
			return fmt.Errorf("part too long: %w", fs.ErrInvalid)
		}
	}
	for other := range m.files[at] {
		if strings.HasPrefix(other, path+"/") || strings.HasPrefix(path, other+"/") {
			return fmt.Errorf("in the way: %w", fs.ErrInvalid)
		}
	}
	return nil
}

func (m *memory) holds(at, path string, expect *blob.Ref) (blob.Ref, bool) {
	f, there := m.files[at][path]
	var actual blob.Ref
	if there {
		actual = blob.Sum(f.data)
	}
	return actual, expect == nil || *expect == actual
}

func (m *memory) DeleteFile(_ context.Context, key host.Key, workspace, path string, expect *blob.Ref) (blob.Ref, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, err := m.at(key, workspace)
	if err != nil {
		return "", false, err
	}
	if _, err := m.find(key, workspace, path); err != nil && (expect == nil || *expect != "") {
		return "", false, err
	}
	if actual, met := m.holds(at, path, expect); !met {
		return actual, false, nil
	}
	delete(m.files[at], path)
	return "", true, nil
}

func (m *memory) ListFiles(_ context.Context, key host.Key, workspace, prefix, after string, deep bool, limit int) ([]files.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, err := m.at(key, workspace)
	if err != nil {
		return nil, err
	}
	var out []files.Entry
	for path, f := range m.files[at] {
		if !strings.HasPrefix(path, prefix) {
			continue
		}
		e := files.Entry{Path: path, Size: int64(len(f.data)), Modified: f.at}
		if i := strings.IndexByte(path[len(prefix):], '/'); !deep && i >= 0 {
			e = files.Entry{Path: path[:len(prefix)+i+1]}
		}
		if e.Path > after && !slices.ContainsFunc(out, func(o files.Entry) bool { return o.Path == e.Path }) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b files.Entry) int { return strings.Compare(a.Path, b.Path) })
	return out[:min(len(out), limit)], nil
}

func (m *memory) ListWorkspaces(_ context.Context, tenant ident.TenantID) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for at, held := range m.files {
		if name, ok := strings.CutPrefix(at, string(tenant)+"/shared/"); ok && len(held) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func (m *memory) DropWorkspace(_ context.Context, key host.Key, workspace string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, err := m.at(key, workspace)
	delete(m.files, at)
	return err
}

var _ files.Workspaces = (*memory)(nil)

func TestTheTestsStoreKeepsThePort(t *testing.T) {
	t.Parallel()
	porttest.Workspaces(t, func(t *testing.T) porttest.WorkspacesPort {
		t.Helper()
		return newMemory()
	})
}
