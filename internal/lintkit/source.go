package lintkit

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Finding is one place that breaks one rule.
type Finding struct {
	Path string // slash-separated, relative to the root of the tree
	Line int    // 0 when the finding is about the whole file or folder
	Rule string // short and stable: what a test asks for
	Text string // what is wrong and what to do instead
}

func (f Finding) String() string {
	if f.Line == 0 {
		return fmt.Sprintf("%s: %s (%s)", f.Path, f.Text, f.Rule)
	}

	return fmt.Sprintf("%s:%d: %s (%s)", f.Path, f.Line, f.Text, f.Rule)
}

// Tree is every Go file of one module.
type Tree struct {
	Fset  *token.FileSet
	Files []*File

	// Broken holds a finding for each file that does not parse. Such a file is
	// not in Files.
	Broken []Finding
}

// File is one parsed Go file.
type File struct {
	Path      string // "core/session/admit.go"
	Dir       string // "core/session", or "." at the root
	AST       *ast.File
	Lines     int
	Test      bool // the name ends in _test.go
	Generated bool // says so by the usual "Code generated … DO NOT EDIT." line

	src []byte
}

// Load parses every Go file below the root of fsys that belongs to its module.
// It leaves out testdata, folders whose name starts with a dot or an
// underscore, what the root's .gitignore names, and nested modules.
func Load(fsys fs.FS) (*Tree, error) {
	tree := &Tree{Fset: token.NewFileSet()}
	ignored := readIgnore(fsys)

	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if notOurs(fsys, name, entry.Name()) || ignored(name) {
				return fs.SkipDir
			}

			return nil
		case path.Ext(name) != ".go" || ignored(name):
			return nil
		}

		return tree.add(fsys, name)
	})
	if err != nil {
		return nil, fmt.Errorf("read the tree: %w", err)
	}

	return tree, nil
}

func (t *Tree) add(fsys fs.FS, name string) error {
	src, err := fs.ReadFile(fsys, name)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}

	parsed, err := parser.ParseFile(t.Fset, name, src, parser.ParseComments)
	if err != nil {
		t.Broken = append(t.Broken, Finding{Path: name, Rule: "parse", Text: err.Error()})

		return nil //nolint:nilerr // a file that does not parse is a finding, not a failure to look
	}

	t.Files = append(t.Files, &File{
		Path:      name,
		Dir:       path.Dir(name),
		AST:       parsed,
		Lines:     bytes.Count(src, []byte("\n")),
		Test:      strings.HasSuffix(name, "_test.go"),
		Generated: ast.IsGenerated(parsed),
		src:       src,
	})

	return nil
}

func (t *Tree) line(pos token.Pos) int { return t.Fset.Position(pos).Line }

// notOurs reports whether a folder holds no Go files of this module.
func notOurs(fsys fs.FS, name, base string) bool {
	if name == "." {
		return false
	}

	if base == "testdata" || base == "vendor" || base == "node_modules" ||
		strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return true
	}

	_, err := fs.Stat(fsys, path.Join(name, "go.mod"))

	return err == nil
}

// readIgnore understands the part of .gitignore that the root's file uses:
// "/name" and "/name/" at the root, "name/" and a pattern for base names at any
// depth. Anything else would need git, and a subprocess.
func readIgnore(fsys fs.FS) func(name string) bool {
	src, err := fs.ReadFile(fsys, ".gitignore")
	if errors.Is(err, fs.ErrNotExist) {
		return func(string) bool { return false }
	}

	var rooted, anywhere []string

	for line := range strings.Lines(string(src)) {
		line = strings.TrimSuffix(strings.TrimSpace(line), "/")

		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "/"):
			rooted = append(rooted, line[1:])
		default:
			anywhere = append(anywhere, line)
		}
	}

	return func(name string) bool {
		matches := func(pattern, name string) bool {
			ok, err := path.Match(pattern, name)

			return err == nil && ok
		}

		return slices.ContainsFunc(rooted, func(p string) bool { return matches(p, name) }) ||
			slices.ContainsFunc(anywhere, func(p string) bool { return matches(p, path.Base(name)) })
	}
}

// sortFindings orders by file, line and rule, so that a report reads like the tree.
func sortFindings(found []Finding) []Finding {
	slices.SortStableFunc(found, func(a, b Finding) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}

		if a.Line != b.Line {
			return a.Line - b.Line
		}

		return strings.Compare(a.Rule, b.Rule)
	})

	return found
}
