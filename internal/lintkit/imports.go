package lintkit

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Row says what one kind of package may import. In a pattern "*" stands for one
// path segment and a trailing "/..." for the folder and all below it; "self" is
// the folder that the row's own pattern matched, with all below it.
type Row struct {
	Dir      string   // the packages this row is about
	Module   []string // packages of this module
	Std      []string // packages of the standard library; nil allows all of it
	External []string // module paths or prefixes of them; nil allows none, "*" all
	Tests    []string // packages of this module that tests may import besides
	Offline  []string // when set, all that tests may import from outside the module
	Why      string
}

// Fence keeps a library where it belongs: Prefix is imported below To only.
type Fence struct {
	Prefix string
	To     []string
	Tests  bool // tests anywhere may import it too
	Why    string
}

// Directions is the import table of a module. The first row that matches a
// package is the one that counts, and every package needs one.
type Directions struct {
	Path   string // the module path
	Rows   []Row
	Fences []Fence

	// TestOnly packages are linked into tests, never into a program. They may
	// import one another.
	TestOnly []string
}

// Imports reports every import that the table does not allow.
func (t *Tree) Imports(table Directions) []Finding {
	var found []Finding

	homeless := map[string]bool{}

	for _, file := range t.Files {
		row, self, ok := table.row(file.Dir)
		if !ok {
			if !homeless[file.Dir] {
				homeless[file.Dir] = true
				found = append(found, Finding{
					Path: file.Dir, Rule: "no-row",
					Text: "no row in the import table says what this package may import",
				})
			}

			continue
		}

		for _, spec := range file.AST.Imports {
			if why := table.refuse(row, self, file, importPath(spec)); why != "" {
				found = append(found, Finding{
					Path: file.Path, Line: t.line(spec.Pos()), Rule: "import",
					Text: fmt.Sprintf("imports %s: %s", importPath(spec), why),
				})
			}
		}
	}

	return sortFindings(found)
}

// refuse says why the file may not import dep, or nothing when it may.
func (d Directions) refuse(row Row, self string, file *File, dep string) string {
	for _, fence := range d.Fences {
		if under(dep, fence.Prefix) && !matchAny(fence.To, file.Dir, "") && (!file.Test || !fence.Tests) {
			return fence.Why
		}
	}

	local, ours := strings.CutPrefix(dep, d.Path+"/")

	switch {
	case ours:
		return d.refuseLocal(row, self, file, local)
	case file.Test:
		if row.Offline != nil && !isStd(dep) && !prefixAny(row.Offline, dep) {
			return row.Why
		}
	case isStd(dep):
		if row.Std != nil && !slices.Contains(row.Std, dep) {
			return row.Why
		}
	case !prefixAny(row.External, dep):
		return row.Why
	}

	return ""
}

func (d Directions) refuseLocal(row Row, self string, file *File, local string) string {
	if matchAny(d.TestOnly, local, "") && !file.Test && !matchAny(d.TestOnly, file.Dir, "") {
		return "this package is linked into tests only"
	}

	if matchAny(row.Module, local, self) || file.Test && (local == file.Dir || matchAny(row.Tests, local, self)) {
		return ""
	}

	return row.Why
}

func (d Directions) row(dir string) (row Row, self string, ok bool) {
	for _, row := range d.Rows {
		if match(row.Dir, dir) {
			segments := strings.Count(strings.TrimSuffix(row.Dir, "/..."), "/") + 1

			return row, strings.Join(strings.SplitN(dir, "/", segments+1)[:segments], "/"), true
		}
	}

	return Row{}, "", false
}

func matchAny(patterns []string, dir, self string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		if pattern == "self" {
			return self != "" && under(dir, self)
		}

		return match(pattern, dir)
	})
}

// match reports whether dir is what the pattern names.
func match(pattern, dir string) bool {
	base, subtree := strings.CutSuffix(pattern, "/...")
	if subtree {
		depth := strings.Count(base, "/") + 1

		segments := strings.Split(dir, "/")
		if len(segments) < depth {
			return false
		}

		dir = strings.Join(segments[:depth], "/")
	}

	ok, err := path.Match(base, dir)

	return err == nil && ok
}

func under(dir, root string) bool {
	return dir == root || strings.HasPrefix(dir, root+"/")
}

func prefixAny(prefixes []string, dep string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return p == "*" || under(dep, p) })
}

// isStd goes by the rule of the go command: the first segment of a path outside
// the standard library has a dot.
func isStd(dep string) bool {
	first, _, _ := strings.Cut(dep, "/")

	return !strings.Contains(first, ".")
}

func importPath(spec *ast.ImportSpec) string {
	dep, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value
	}

	return dep
}
