package main

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

const testMatrixHead = `# Tests

<!-- Generated from the test files by make docs. -->

For people who look for the test of a promise: every test function, with its number in its file, its name,
what it shows, and its path. Many of them are table tests, whose cases go test lists by name.

| number | test | what it shows | path |
|---|---|---|---|
`

// test is one test function.
type test struct {
	path, name, shows string
}

// testMatrix renders every test function under root.
func testMatrix(root string) (string, error) {
	tests, err := findTests(root)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(testMatrixHead)
	number := map[string]int{}
	for _, t := range tests {
		number[t.path]++
		fmt.Fprintf(&b, "| %d | %s | %s | %s |\n", number[t.path], t.name, strings.ReplaceAll(t.shows, "|", `\|`), t.path)
	}
	return b.String(), nil
}

func findTests(root string) ([]test, error) {
	var tests []test
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "bin" || path != root && strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && isTest(fn) {
				tests = append(tests, test{filepath.ToSlash(name), fn.Name.Name, shows(fn)})
			}
		}
		return nil
	})
	slices.SortStableFunc(tests, func(a, b test) int { return strings.Compare(a.path, b.path) })
	return tests, err
}

// isTest reports whether go test runs the function: TestX(t), FuzzX(f) or ExampleX().
func isTest(fn *ast.FuncDecl) bool {
	if fn.Recv != nil || fn.Name.Name == "TestMain" {
		return false
	}
	for prefix, params := range map[string]int{"Test": 1, "Fuzz": 1, "Example": 0} {
		rest, ok := strings.CutPrefix(fn.Name.Name, prefix)
		if ok && fn.Type.Params.NumFields() == params && (rest == "" || !unicode.IsLower(rune(rest[0]))) {
			return true
		}
	}
	return false
}

// shows returns what a test shows: the first sentence of its comment, or else its name in words.
func shows(fn *ast.FuncDecl) string {
	if fn.Doc != nil {
		if s := new(doc.Package).Synopsis(fn.Doc.Text()); s != "" {
			return s
		}
	}
	return inWords(fn.Name.Name)
}

// inWords converts TestReadsPIDOnce to "reads PID once".
func inWords(name string) string {
	if i := strings.IndexFunc(name[1:], unicode.IsUpper); i >= 0 {
		name = name[i+1:] // the part after Test, Fuzz or Example
	}
	var words []string
	runes := []rune(strings.ReplaceAll(name, "_", ": "))
	start := 0
	for i := 1; i <= len(runes); i++ {
		end := i == len(runes)
		if !end && unicode.IsUpper(runes[i]) {
			end = !unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])
		}
		if !end {
			continue
		}
		word := string(runes[start:i])
		if word != strings.ToUpper(word) {
			word = strings.ToLower(word)
		}
		words = append(words, word)
		start = i
	}
	return strings.Join(words, " ")
}
