package lintkit

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"path"
	"slices"
)

// Nothing says what a shell that starts nothing by itself must not contain: all
// of its concurrency, waiting and time go through one port, so that a simulator
// can own them.
type Nothing struct {
	Root string   // the folder of the shell, "internal/host"
	Skip []string // folders left out, as patterns of Row.Dir

	// Imports maps a package that must not be imported to the reason.
	Imports map[string]string

	// Names maps the path of a package to its names that must not be used.
	Names map[string][]string
}

// Check reads the syntax alone: a name counts as a package's when the file
// imports that package under it and declares nothing else of that name.
func (n Nothing) Check(fsys fs.FS) ([]Finding, error) {
	tree, err := Load(fsys)
	if err != nil {
		return nil, err
	}

	found := tree.Broken

	for _, file := range tree.Files {
		if !file.Test && (n.Root == "." || under(file.Dir, n.Root)) && !matchAny(n.Skip, file.Dir, "") {
			found = append(found, n.file(tree, file)...)
		}
	}

	return sortFindings(found), nil
}

func (n Nothing) file(tree *Tree, file *File) []Finding {
	var found []Finding

	report := func(pos token.Pos, rule, text string) {
		found = append(found, Finding{Path: file.Path, Line: tree.line(pos), Rule: rule, Text: text})
	}

	names := map[string]string{}

	for _, spec := range file.AST.Imports {
		dep := importPath(spec)
		local := path.Base(dep)

		if spec.Name != nil {
			local = spec.Name.Name
		}

		names[local] = dep

		if why, ok := n.Imports[dep]; ok {
			report(spec.Pos(), "import", fmt.Sprintf("imports %s: %s", dep, why))
		}

		if _, ok := n.Names[dep]; ok && local == "." {
			report(spec.Pos(), "import", fmt.Sprintf("imports %s without its name, which hides what is used of it", dep))
		}
	}

	ast.Inspect(file.AST, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.GoStmt:
			report(node.Pos(), "goroutine", "the host starts nothing by itself: Sched.Go")
		case *ast.SelectStmt:
			report(node.Pos(), "channel", "the host waits through its port: Sched.WaitAny")
		case *ast.ChanType, *ast.SendStmt:
			report(node.Pos(), "channel", "the host signals through its port: Sched.Signal")
		case *ast.UnaryExpr:
			if node.Op == token.ARROW {
				report(node.Pos(), "channel", "the host waits through its port: Sched.WaitAny")
			}
		case *ast.SelectorExpr:
			if dep := packageOf(names, node.X); slices.Contains(n.Names[dep], node.Sel.Name) {
				report(node.Pos(), "name", fmt.Sprintf("uses %s.%s: time, waiting and locks come through Sched", dep, node.Sel.Name))
			}
		}

		return true
	})

	return found
}

// packageOf is the import path that an expression names, if it names one. The
// parser has resolved what the file itself declares.
func packageOf(names map[string]string, expr ast.Expr) string {
	ident, ok := expr.(*ast.Ident)
	if !ok || ident.Obj != nil {
		return ""
	}

	return names[ident.Name]
}
