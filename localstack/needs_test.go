package localstack_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/localstack/target"
)

// needs finds the tests of this repository that want to see a capability: those
// that call Need with it, or a function of their package that does. Names are
// folder.Test.
func needs(t *testing.T) map[target.Capability][]string {
	t.Helper()
	root, err := target.Root()
	require.NoError(t, err)
	constants := capabilities(t, root)
	folders := map[string]*callers{}
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules") {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, "_test.go") {
			folder, err := filepath.Rel(root, filepath.Dir(path))
			require.NoError(t, err)
			if folders[folder] == nil {
				folders[folder] = &callers{calls: map[string]map[string]bool{}, needs: map[string]map[string]bool{}}
			}
			folders[folder].read(t, path)
		}
		return nil
	}))
	found := make(map[target.Capability][]string)
	for _, q := range questions() {
		if q.needs != "" {
			found[q.needs] = append(found[q.needs], "localstack.T80/"+q.name)
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		in := folders[folder]
		for _, name := range slices.Sorted(maps.Keys(in.calls)) {
			if !strings.HasPrefix(name, "Test") || name == "TestMain" {
				continue
			}
			for _, constant := range slices.Sorted(maps.Keys(in.wants(name, map[string]bool{}))) {
				require.Contains(t, constants, constant, "%s in %s", name, folder)
				found[constants[constant]] = append(found[constants[constant]], folder+"."+name)
			}
		}
	}
	return found
}

// callers says of each function of a package, by name alone, what it calls and
// which capabilities it needs. Two methods of one name are one to it.
type callers struct{ calls, needs map[string]map[string]bool }

func (c *callers) read(t *testing.T, path string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	require.NoError(t, err)
	packageTarget := importedAs(file)
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := function.Name.Name
		if c.calls[name] == nil {
			c.calls[name], c.needs[name] = map[string]bool{}, map[string]bool{}
		}
		ast.Inspect(function, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			switch called := call.Fun.(type) {
			case *ast.Ident:
				c.calls[name][called.Name] = true
			case *ast.SelectorExpr:
				c.calls[name][called.Sel.Name] = true
				if called.Sel.Name == "Need" && len(call.Args) == 2 {
					if capability, ok := call.Args[1].(*ast.SelectorExpr); ok && isNamed(capability.X, packageTarget) {
						c.needs[name][capability.Sel.Name] = true
					}
				}
			}
			return true
		})
	}
}

// importedAs is the name that a file has for the package target.
func importedAs(file *ast.File) string {
	for _, spec := range file.Imports {
		if strings.HasSuffix(spec.Path.Value, `/localstack/target"`) && spec.Name != nil {
			return spec.Name.Name
		}
	}
	return "target"
}

func isNamed(x ast.Expr, name string) bool {
	is, ok := x.(*ast.Ident)
	return ok && is.Name == name
}

// wants is what a function needs with all that it calls.
func (c *callers) wants(name string, seen map[string]bool) map[string]bool {
	if seen[name] {
		return nil
	}
	seen[name] = true
	all := maps.Clone(c.needs[name])
	for called := range c.calls[name] {
		if c.calls[called] != nil {
			maps.Copy(all, c.wants(called, seen))
		}
	}
	return all
}

// capabilities reads the constants of the table, by name.
func capabilities(t *testing.T, root string) map[string]target.Capability {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "localstack", "target", "capability.go"), nil, 0)
	require.NoError(t, err)
	found := map[string]target.Capability{}
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Capability" {
			return true
		}
		text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		require.NoError(t, err)
		found[spec.Names[0].Name] = target.Capability(text)
		return true
	})
	require.NotEmpty(t, found)
	return found
}
