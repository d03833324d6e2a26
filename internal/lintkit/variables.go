package lintkit

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// packageVariables reports package variables that are neither error values nor
// constant tables, and returns the ones that may stay.
//
// A table is unexported, an array, slice, map or struct, and made by a composite
// literal. That nothing writes to it later is for writes to see.
func (r *purityRun) packageVariables(dirs map[string][]*File) map[*types.Var]bool {
	kept := map[*types.Var]bool{}

	for _, files := range dirs {
		for _, file := range files {
			for _, decl := range file.AST.Decls {
				gen, ok := decl.(*ast.GenDecl)
				if !ok || gen.Tok != token.VAR {
					continue
				}

				for _, spec := range gen.Specs {
					if spec, ok := spec.(*ast.ValueSpec); ok {
						r.variableSpec(file, spec, kept)
					}
				}
			}
		}
	}

	return kept
}

func (r *purityRun) variableSpec(file *File, spec *ast.ValueSpec, kept map[*types.Var]bool) {
	for i, name := range spec.Names {
		object, ok := r.info.Defs[name].(*types.Var)
		if !ok || name.Name == "_" {
			continue
		}

		var value ast.Expr
		if len(spec.Values) == len(spec.Names) {
			value = ast.Unparen(spec.Values[i])
		}

		literal, _ := value.(*ast.CompositeLit)

		switch {
		case value != nil && isError(object.Type()):
			kept[object] = false
		case literal != nil && !name.IsExported() && isTable(object.Type()):
			kept[object] = true
		default:
			r.report(file, name.Pos(), "variable",
				name.Name+" is a package variable: only error values and unexported tables made by a literal may be")
		}
	}
}

func isError(kind types.Type) bool {
	bound, ok := types.Universe.Lookup("error").Type().Underlying().(*types.Interface)

	return ok && types.Implements(kind, bound)
}

func isTable(kind types.Type) bool {
	switch kind.Underlying().(type) {
	case *types.Array, *types.Slice, *types.Map, *types.Struct:
		return true
	}

	return false
}

// lends reports whether a copy of the value still shares memory with it.
func lends(kind types.Type) bool {
	switch kind.Underlying().(type) {
	case *types.Slice, *types.Map:
		return true
	}

	return false
}

// mutators of package slices change the slice that they are given.
var mutators = []string{
	"Compact", "CompactFunc", "Delete", "DeleteFunc", "Insert", "Replace", "Reverse", "Sort", "SortFunc", "SortStableFunc",
}

// writes reports what changes a package variable, or lets somebody else do so:
// an assignment, an address taken (openly, by a pointer method, by slicing an
// array), a built-in or library function that writes, a reference handed out.
func (r *purityRun) writes(file *File, node ast.Node) {
	switch node := node.(type) {
	case *ast.AssignStmt:
		if node.Tok != token.DEFINE {
			for _, left := range node.Lhs {
				r.written(file, left, "assigned to")
			}
		}
	case *ast.IncDecStmt:
		r.written(file, node.X, "assigned to")
	case *ast.RangeStmt:
		if node.Tok == token.ASSIGN {
			r.written(file, node.Key, "assigned to")
			r.written(file, node.Value, "assigned to")
		}
	case *ast.UnaryExpr:
		if node.Op == token.AND {
			r.written(file, node.X, "address taken of")
		}
	case *ast.SelectorExpr:
		r.pointerMethod(file, node)
	case *ast.CallExpr:
		r.mutation(file, node)
	case *ast.ReturnStmt:
		for _, result := range node.Results {
			r.lent(file, result)
		}
	case *ast.CompositeLit:
		for _, element := range node.Elts {
			if pair, ok := element.(*ast.KeyValueExpr); ok {
				element = pair.Value
			}

			r.lent(file, element)
		}
	}
}

func (r *purityRun) pointerMethod(file *File, node *ast.SelectorExpr) {
	selection := r.info.Selections[node]
	if selection == nil || selection.Kind() != types.MethodVal {
		return
	}

	signature, ok := selection.Obj().Type().(*types.Signature)
	if !ok || is[*types.Pointer](r.info.TypeOf(node.X)) || is[*types.Interface](r.info.TypeOf(node.X)) {
		return
	}

	if receiver := signature.Recv(); receiver != nil && is[*types.Pointer](receiver.Type()) {
		r.written(file, node.X, "address taken (by a pointer method) of")
	}
}

func (r *purityRun) mutation(file *File, call *ast.CallExpr) {
	if len(call.Args) == 0 {
		return
	}

	switch callee := r.callee(call.Fun).(type) {
	case *types.Builtin:
		_, cut := ast.Unparen(call.Args[0]).(*ast.SliceExpr)

		switch name := callee.Name(); {
		case name == "clear", name == "copy", name == "delete", name == "append" && cut:
			r.written(file, call.Args[0], name+" writes to")
		}
	case *types.Func:
		if pkg := callee.Pkg(); pkg != nil && pkg.Path() == "slices" && slices.Contains(mutators, callee.Name()) {
			r.written(file, call.Args[0], "slices."+callee.Name()+" writes to")
		}
	}
}

func (r *purityRun) written(file *File, expr ast.Expr, how string) {
	if object := r.root(expr); object != nil {
		r.report(file, expr.Pos(), "table-write", how+" the package variable "+object.Name())
	}
}

// lent reports an expression that is a table itself, or a part of one that
// still shares its memory.
func (r *purityRun) lent(file *File, expr ast.Expr) {
	object := r.root(expr)
	if object == nil || !r.tables[object] {
		return
	}

	if kind := r.info.TypeOf(expr); kind != nil && lends(kind) {
		r.report(file, expr.Pos(), "table-lent", "hands out the memory of the package variable "+object.Name()+": clone it")
	}
}

// root is the package variable that an expression is, or is a part of.
func (r *purityRun) root(expr ast.Expr) *types.Var {
	switch expr := expr.(type) {
	case *ast.Ident:
		return r.known(expr)
	case *ast.SelectorExpr:
		if object := r.known(expr.Sel); object != nil {
			return object
		}

		return r.root(expr.X)
	case *ast.IndexExpr:
		return r.root(expr.X)
	case *ast.SliceExpr:
		return r.root(expr.X)
	case *ast.StarExpr:
		return r.root(expr.X)
	case *ast.ParenExpr:
		return r.root(expr.X)
	}

	return nil
}

func (r *purityRun) known(ident *ast.Ident) *types.Var {
	object, ok := r.info.Uses[ident].(*types.Var)
	if !ok {
		return nil
	}

	if _, ok := r.tables[object]; !ok {
		return nil
	}

	return object
}
