package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// The functions on the way from the ring to the sentence, at most ten, are where the page of the
// architecture says.
func TestWayFromRingToSentence(t *testing.T) {
	page, err := os.ReadFile("../docs/design/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| \d+ \| `+"`([\\w.]+)`"+` \| (\S+\.go) \|`).FindAllStringSubmatch(string(page), -1)
	if len(rows) == 0 || len(rows) > 10 {
		t.Fatalf("%d functions, want at most ten", len(rows))
	}
	for _, row := range rows {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", row[2]), nil, 0)
		if err != nil {
			t.Error(err)
			continue
		}
		if !declares(file, row[1]) {
			t.Errorf("%s has no %s", row[2], row[1])
		}
	}
}

// declares tells whether a file has a function: "Name", or "Type.Name" of a method.
func declares(file *ast.File, name string) bool {
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		full := f.Name.Name
		if f.Recv != nil {
			of := f.Recv.List[0].Type
			if p, ok := of.(*ast.StarExpr); ok {
				of = p.X
			}
			if id, ok := of.(*ast.Ident); ok {
				full = id.Name + "." + full
			}
		}
		if full == name {
			return true
		}
	}
	return false
}
