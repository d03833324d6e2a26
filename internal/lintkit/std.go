package lintkit

import (
	"go/importer"
	"go/token"
	"go/types"
	"sync"
)

// The standard library is type-checked from source once for a test binary: it
// is the dear part, about half a second.
var (
	stdMutex    sync.Mutex
	stdImporter = importer.ForCompiler(token.NewFileSet(), "source", nil)
)

func importStd(name string) (*types.Package, error) {
	stdMutex.Lock()
	defer stdMutex.Unlock()

	return stdImporter.Import(name)
}
