package target

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// look reads what a deployment is made of. go test keeps a result while nothing
// changes that a test was made of or has looked at, and of what is deployed it
// would know nothing.
func look(root string) error {
	for _, folder := range []string{"functions", "infra", "internal", "core", "localstack/gaps", "localstack/host"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && slices.Contains([]string{".go", ".json", ".py"}, filepath.Ext(path)) && !strings.HasSuffix(path, "_test.go") {
				_, err = os.ReadFile(path)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	for _, name := range []string{"cdk.json", "go.mod", "go.sum", "localstack/deploy.py", "localstack/emulator.py", "localstack/server.py", "localstack/requirements.txt"} {
		if _, err := os.ReadFile(filepath.Join(root, name)); err != nil {
			return err
		}
	}
	return nil
}
