package lintkit

import (
	"bytes"
	"fmt"
	"go/ast"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Docs reports packages that are not documented exactly once, whose comment
// does not begin with their name, or whose comment leaves out what they may
// import. A folder with nothing but tests needs no comment.
func (t *Tree) Docs() []Finding {
	type pkg struct {
		name     string
		comments []*File
	}

	packages := map[string]*pkg{}

	for _, file := range t.Files {
		if file.Test {
			continue
		}

		if packages[file.Dir] == nil {
			packages[file.Dir] = &pkg{name: file.AST.Name.Name}
		}

		if file.AST.Doc != nil && strings.TrimSpace(file.AST.Doc.Text()) != "" {
			packages[file.Dir].comments = append(packages[file.Dir].comments, file)
		}
	}

	var found []Finding

	for dir, pkg := range packages {
		switch len(pkg.comments) {
		case 0:
			found = append(found, Finding{Path: dir, Rule: "doc-missing", Text: "the package has no comment"})
		case 1:
			found = append(found, t.docText(pkg.comments[0], dir, pkg.name)...)
		default:
			for _, file := range pkg.comments[1:] {
				found = append(found, Finding{
					Path: file.Path, Line: t.line(file.AST.Doc.Pos()), Rule: "doc-twice",
					Text: "the package is documented in " + pkg.comments[0].Path + " already",
				})
			}
		}
	}

	return sortFindings(found)
}

func (t *Tree) docText(file *File, dir, name string) []Finding {
	var found []Finding

	text := strings.Join(strings.Fields(file.AST.Doc.Text()), " ")
	line := t.line(file.AST.Doc.Pos())

	want := "Package " + name + " "
	if name == "main" {
		want = "Command " + path.Base(dir) + " "
	}

	if !strings.HasPrefix(text, want) {
		found = append(found, Finding{
			Path: file.Path, Line: line, Rule: "doc-name",
			Text: fmt.Sprintf("the package comment begins with %q", want+"…"),
		})
	}

	if !strings.Contains(text, "may import") && !strings.Contains(text, "imports") {
		found = append(found, Finding{
			Path: file.Path, Line: line, Rule: "doc-imports",
			Text: `the package comment says what the package may import ("It may import …")`,
		})
	}

	return found
}

// Limits bound the size of what a reader has to hold in mind at once.
type Limits struct {
	FileLines int      // of a file, all lines
	FuncLines int      // of a function, comment lines left out
	MainLines int      // of main.go in a folder that MainDirs matches
	MainDirs  []string // patterns as in Row
}

// Sizes reports files, functions and mains that have grown too long. Tests and
// generated files are left out.
//
// One thing may be longer: a function whose body is one switch in which every
// case is a single call, marked with a nolint for funlen. A mark on anything
// else is a finding of its own.
func (t *Tree) Sizes(limits Limits) []Finding {
	var found []Finding

	for _, file := range t.Files {
		if file.Test || file.Generated {
			continue
		}

		if file.Lines > limits.FileLines {
			found = append(found, Finding{
				Path: file.Path, Rule: "file-length",
				Text: fmt.Sprintf("%d lines, at most %d: split it by sub-domain", file.Lines, limits.FileLines),
			})
		}

		if path.Base(file.Path) == "main.go" && matchAny(limits.MainDirs, file.Dir, "") && file.Lines > limits.MainLines {
			found = append(found, Finding{
				Path: file.Path, Rule: "main-length",
				Text: fmt.Sprintf("%d lines, at most %d: a main wires and does nothing else", file.Lines, limits.MainLines),
			})
		}

		for _, decl := range file.AST.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil {
				found = append(found, t.funcSize(file, fn, limits.FuncLines)...)
			}
		}
	}

	return sortFindings(found)
}

var funlenMark = regexp.MustCompile(`^//\s*nolint:\s*(?:[a-z0-9_]+\s*,\s*)*funlen\b`)

func (t *Tree) funcSize(file *File, fn *ast.FuncDecl, most int) []Finding {
	first, last := t.line(fn.Pos()), t.line(fn.Body.Rbrace)
	lines := last - first - 1
	marked := false

	for _, group := range file.AST.Comments {
		for _, comment := range group.List {
			at, end := t.line(comment.Pos()), t.line(comment.End())

			if funlenMark.MatchString(comment.Text) && at >= first-1 && at <= t.line(fn.Body.Lbrace) {
				marked = true
			}

			if at > first && end < last && t.alone(file, comment) {
				lines -= end - at + 1
			}
		}
	}

	switch {
	case marked && !isDispatch(fn.Body):
		return []Finding{{
			Path: file.Path, Line: first, Rule: "func-exempt",
			Text: fn.Name.Name + " is marked as a dispatch, but is not one switch whose every case is a single call",
		}}
	case !marked && lines > most:
		return []Finding{{
			Path: file.Path, Line: first, Rule: "func-length",
			Text: fmt.Sprintf("%s has %d lines, at most %d", fn.Name.Name, lines, most),
		}}
	}

	return nil
}

// alone reports whether nothing stands before the comment on its line.
func (t *Tree) alone(file *File, comment *ast.Comment) bool {
	offset := t.Fset.Position(comment.Pos()).Offset
	start := bytes.LastIndexByte(file.src[:offset], '\n') + 1

	return len(bytes.TrimSpace(file.src[start:offset])) == 0
}

// isDispatch reports whether a body is one switch, with at most one statement
// before and after it, whose every case is a single call.
func isDispatch(body *ast.BlockStmt) bool {
	switches := 0

	for _, stmt := range body.List {
		var clauses []ast.Stmt

		switch stmt := stmt.(type) {
		case *ast.SwitchStmt:
			clauses = stmt.Body.List
		case *ast.TypeSwitchStmt:
			clauses = stmt.Body.List
		default:
			continue
		}

		switches++

		for _, clause := range clauses {
			if c, ok := clause.(*ast.CaseClause); !ok || len(c.Body) > 1 || len(c.Body) == 1 && !isSingle(c.Body[0]) {
				return false
			}
		}
	}

	return switches == 1 && len(body.List) <= 3
}

// isSingle reports whether a statement is one call, or hands one result on,
// with no function written out in it.
func isSingle(stmt ast.Stmt) bool {
	literal := false

	ast.Inspect(stmt, func(node ast.Node) bool {
		if _, ok := node.(*ast.FuncLit); ok {
			literal = true
		}

		return !literal
	})

	if literal {
		return false
	}

	switch stmt := stmt.(type) {
	case *ast.ExprStmt:
		_, ok := stmt.X.(*ast.CallExpr)

		return ok
	case *ast.AssignStmt:
		return len(stmt.Rhs) == 1
	case *ast.ReturnStmt:
		return true
	}

	return false
}

var marker = regexp.MustCompile(`\b(?:TO` + `DO|FIX` + `ME)\b`)

// Markers reports comments that put work off. Work that is left is an issue,
// where somebody looks, not a comment, where nobody does.
func (t *Tree) Markers() []Finding {
	var found []Finding

	for _, file := range t.Files {
		for _, group := range file.AST.Comments {
			for _, comment := range group.List {
				if word := marker.FindString(comment.Text); word != "" {
					found = append(found, Finding{
						Path: file.Path, Line: t.line(comment.Pos()), Rule: "marker",
						Text: "no " + word + " in the code: do it, or write an issue",
					})
				}
			}
		}
	}

	return sortFindings(found)
}

// A path that begins like one of these is true on one machine only. Examples
// may speak of Ada's.
var (
	machinePath = regexp.MustCompile("(?m)(?:^|[\\s\"'`(\\[<=:,])/(?:home|root|Users|work)/[A-Za-z0-9_.-]+")
	examplePath = regexp.MustCompile(`/(?:home|Users)/ada$`)
)

// MachinePaths reports paths of somebody's own machine in any text file of the
// tree, testdata and documents included.
func MachinePaths(fsys fs.FS) ([]Finding, error) {
	var found []Finding

	ignored := readIgnore(fsys)

	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".git" || entry.Name() == "node_modules" || name != "." && ignored(name):
			if entry.IsDir() {
				return fs.SkipDir
			}

			return nil
		case !entry.Type().IsRegular():
			return nil
		}

		src, err := fs.ReadFile(fsys, name)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}

		if slices.Contains(src[:min(len(src), 8000)], 0) {
			return nil
		}

		for _, at := range machinePath.FindAllIndex(src, -1) {
			if examplePath.Match(src[at[0]:at[1]]) {
				continue
			}

			found = append(found, Finding{
				Path: name, Line: 1 + strings.Count(string(src[:at[1]]), "\n"), Rule: "machine-path",
				Text: fmt.Sprintf("%q exists on one machine only", strings.TrimLeft(string(src[at[0]:at[1]]), "\n\t \"'`([<=:,")),
			})
		}

		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the tree: %w", err)
	}

	return sortFindings(found), nil
}
