package lintkit

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Purity says what a deterministic core is made of. Its check rejects what can
// make two folds of one log differ and what no import rule can see.
//
// A loop over a map whose result cannot depend on the order says so with
// "//core:unordered reason" on its own line or on the line above.
type Purity struct {
	Module string   // the module path
	Root   string   // the folder of the core, "core"
	Skip   []string // folders left out, as patterns of Row.Dir
	JSON   []string // folders that may import encoding/json, as patterns
}

// unordered is the mark that vouches for a loop over a map.
const unordered = "//core:unordered"

// Check type-checks every package below Root and reports what is not pure. A
// tree that does not type-check is an error.
func (p Purity) Check(fsys fs.FS) ([]Finding, error) {
	tree, err := Load(fsys)
	if err != nil {
		return nil, err
	}

	if len(tree.Broken) > 0 {
		return tree.Broken, nil
	}

	dirs := map[string][]*File{}

	for _, file := range tree.Files {
		if !file.Test && (p.Root == "." || under(file.Dir, p.Root)) && !matchAny(p.Skip, file.Dir, "") {
			dirs[file.Dir] = append(dirs[file.Dir], file)
		}
	}

	program, err := typeCheck(tree, p.Module, dirs)
	if err != nil {
		return nil, err
	}

	run := &purityRun{Purity: p, tree: tree, info: program}
	run.tables = run.packageVariables(dirs)

	for _, files := range dirs {
		for _, file := range files {
			run.file(file)
		}
	}

	return sortFindings(run.found), nil
}

type purityRun struct {
	Purity

	tree   *Tree
	info   *types.Info
	tables map[*types.Var]bool // package variables that may stay; true for tables
	marks  map[int]*mark       // of the current file, by the line they stand on
	floats map[int]bool        // lines of the current file already reported
	found  []Finding
}

type mark struct {
	reason string
	used   bool
}

func (r *purityRun) report(file *File, pos token.Pos, rule, text string) {
	r.found = append(r.found, Finding{Path: file.Path, Line: r.tree.line(pos), Rule: rule, Text: text})
}

func (r *purityRun) file(file *File) {
	r.marks, r.floats = map[int]*mark{}, map[int]bool{}

	for _, group := range file.AST.Comments {
		for _, comment := range group.List {
			if reason, ok := strings.CutPrefix(comment.Text, unordered); ok {
				r.marks[r.tree.line(comment.Pos())] = &mark{reason: strings.TrimSpace(reason)}
			}
		}
	}

	for _, spec := range file.AST.Imports {
		if importPath(spec) == "encoding/json" && !matchAny(r.JSON, file.Dir, "") {
			r.report(file, spec.Pos(), "json", "encoding/json is for the stored form; hash and compare the canonical form")
		}
	}

	ast.Inspect(file.AST, func(node ast.Node) bool {
		r.concurrency(file, node)
		r.float(file, node)
		r.unicode(file, node)
		r.writes(file, node)

		if loop, ok := node.(*ast.RangeStmt); ok {
			r.loop(file, loop)
		}

		return true
	})

	for line, mark := range r.marks {
		switch {
		case !mark.used:
			r.found = append(r.found, Finding{
				Path: file.Path, Line: line, Rule: "mark", Text: unordered + " vouches for nothing: no loop over a map follows",
			})
		case mark.reason == "":
			r.found = append(r.found, Finding{
				Path: file.Path, Line: line, Rule: "mark", Text: unordered + " wants its reason on the same line",
			})
		}
	}
}

func (r *purityRun) concurrency(file *File, node ast.Node) {
	switch node := node.(type) {
	case *ast.GoStmt:
		r.report(file, node.Pos(), "goroutine", "the core starts nothing")
	case *ast.SelectStmt:
		r.report(file, node.Pos(), "channel", "the core waits for nothing")
	case *ast.SendStmt:
		r.report(file, node.Arrow, "channel", "the core waits for nothing")
	case *ast.ChanType:
		r.report(file, node.Pos(), "channel", "the core waits for nothing")
	case *ast.UnaryExpr:
		if node.Op == token.ARROW {
			r.report(file, node.Pos(), "channel", "the core waits for nothing")
		}
	}
}

// loop reports a range in the order of a map, be it over the map itself or
// over an iterator that was made from one.
func (r *purityRun) loop(file *File, loop *ast.RangeStmt) {
	kind := r.info.TypeOf(loop.X)

	if is[*types.Chan](kind) {
		r.report(file, loop.Pos(), "channel", "the core waits for nothing")
	}

	if !is[*types.Map](kind) && !(is[*types.Signature](kind) && r.fromMap(loop.X)) {
		return
	}

	line := r.tree.line(loop.Pos())
	for _, at := range []int{line, line - 1} {
		if mark := r.marks[at]; mark != nil && !mark.used {
			mark.used = true

			return
		}
	}

	r.report(file, loop.Pos(), "map-order", "map order reaches the fold: range over sorted keys, or say why it cannot")
}

// fromMap reports whether a map goes into a call within the expression.
func (r *purityRun) fromMap(expr ast.Expr) bool {
	found := false

	ast.Inspect(expr, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return !found
		}

		if fn := r.callee(call.Fun); fn != nil && fn.Pkg() != nil && fn.Pkg().Path() == "maps" {
			found = true
		}

		found = found || slices.ContainsFunc(call.Args, func(arg ast.Expr) bool {
			return is[*types.Map](r.info.TypeOf(arg))
		})

		return !found
	})

	return found
}

// callee is the function that an expression names, generic or not, if any.
func (r *purityRun) callee(expr ast.Expr) types.Object {
	switch expr := ast.Unparen(expr).(type) {
	case *ast.Ident:
		return r.info.Uses[expr]
	case *ast.SelectorExpr:
		return r.info.Uses[expr.Sel]
	case *ast.IndexExpr:
		return r.callee(expr.X)
	case *ast.IndexListExpr:
		return r.callee(expr.X)
	}

	return nil
}

func (r *purityRun) float(file *File, node ast.Node) {
	expr, ok := node.(ast.Expr)
	if !ok {
		return
	}

	literal, ok := expr.(*ast.BasicLit)
	inexact := ok && (literal.Kind == token.FLOAT || literal.Kind == token.IMAG)

	if !inexact && !isFloat(r.info.TypeOf(expr)) {
		return
	}

	if line := r.tree.line(expr.Pos()); !r.floats[line] {
		r.floats[line] = true
		r.report(file, expr.Pos(), "float", "floats differ between platforms: money is int64 micro-dollars, time int64 milliseconds")
	}
}

func isFloat(kind types.Type) bool {
	if tuple, ok := kind.(*types.Tuple); ok {
		for v := range tuple.Variables() {
			if isFloat(v.Type()) {
				return true
			}
		}

		return false
	}

	if kind == nil {
		return false
	}

	basic, ok := kind.Underlying().(*types.Basic)

	return ok && basic.Info()&(types.IsFloat|types.IsComplex) != 0
}

// caseFuncs depend on the Unicode tables of the Go release that built them.
var caseFuncs = []string{
	"EqualFold", "Title", "ToLower", "ToLowerSpecial", "ToTitle", "ToTitleSpecial", "ToUpper", "ToUpperSpecial",
}

func (r *purityRun) unicode(file *File, node ast.Node) {
	ident, ok := node.(*ast.Ident)
	if !ok {
		return
	}

	object := r.info.Uses[ident]
	if object == nil || object.Pkg() == nil {
		return
	}

	where := object.Pkg().Path()
	if where == "unicode" || (where == "strings" || where == "bytes") && slices.Contains(caseFuncs, object.Name()) {
		r.report(file, ident.Pos(), "unicode",
			path.Base(where)+"."+object.Name()+" follows the Unicode tables of the Go release; compare bytes, or fold ASCII")
	}
}

// is reports whether the type, or every type that a type parameter stands for,
// has T as its underlying form.
func is[T types.Type](kind types.Type) bool {
	if kind == nil {
		return false
	}

	param, ok := types.Unalias(kind).(*types.TypeParam)
	if !ok {
		_, ok = kind.Underlying().(T)

		return ok
	}

	bound, ok := param.Constraint().Underlying().(*types.Interface)
	if !ok {
		return false
	}

	for embedded := range bound.EmbeddedTypes() {
		if union, ok := embedded.(*types.Union); ok {
			for term := range union.Terms() {
				if is[T](term.Type()) {
					return true
				}
			}
		} else if is[T](embedded) {
			return true
		}
	}

	return false
}

// typeCheck checks the packages of the given folders, those of the module from
// the tree and the standard library from its source.
func typeCheck(tree *Tree, module string, dirs map[string][]*File) (*types.Info, error) {
	checker := &checker{
		tree: tree, module: module, dirs: dirs, done: map[string]*types.Package{},
		info: &types.Info{
			Types:      map[ast.Expr]types.TypeAndValue{},
			Defs:       map[*ast.Ident]types.Object{},
			Uses:       map[*ast.Ident]types.Object{},
			Selections: map[*ast.SelectorExpr]*types.Selection{},
		},
	}

	names := make([]string, 0, len(dirs))
	for dir := range dirs {
		names = append(names, dir)
	}

	slices.Sort(names)

	for _, dir := range names {
		if _, err := checker.Import(path.Join(module, dir)); err != nil {
			return nil, err
		}
	}

	return checker.info, nil
}

type checker struct {
	tree   *Tree
	module string
	dirs   map[string][]*File
	done   map[string]*types.Package
	info   *types.Info
}

// Import makes the checker its own importer.
func (c *checker) Import(name string) (*types.Package, error) {
	if pkg := c.done[name]; pkg != nil {
		return pkg, nil
	}

	dir, ours := strings.CutPrefix(name, c.module+"/")
	if name == c.module {
		dir, ours = ".", true
	}

	if !ours {
		return importStd(name)
	}

	if len(c.dirs[dir]) == 0 {
		return nil, fmt.Errorf("%s is outside the tree that is checked", name)
	}

	files := make([]*ast.File, 0, len(c.dirs[dir]))
	for _, file := range c.dirs[dir] {
		files = append(files, file.AST)
	}

	config := types.Config{Importer: c}

	pkg, err := config.Check(name, c.tree.Fset, files, c.info)
	if err != nil {
		return nil, fmt.Errorf("type-check %s: %w", name, err)
	}

	c.done[name] = pkg

	return pkg, nil
}
