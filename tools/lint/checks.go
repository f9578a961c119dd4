package main

import (
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

const (
	maxFile     = 400 // lines
	maxFunction = 60  // lines
	spdx        = "// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause"
)

// generated reports whether a program wrote the file.
func generated(f *file) bool {
	return generatedLine.MatchString(f.text) || strings.HasPrefix(f.path, "bpf/vmlinux/")
}

var generatedLine = regexp.MustCompile(`(?m)^(//|#) Code generated .* DO NOT EDIT\.$`)

// licence requires a licence line in every C file that runs in the kernel.
func licence(f *file) []string {
	ext := path.Ext(f.path)
	if !strings.HasPrefix(f.path, "bpf/") || ext != ".c" && ext != ".h" {
		return nil
	}
	if first := f.lines()[0]; first != spdx {
		return []string{fmt.Sprintf("1: the first line is %q, not %q", first, spdx)}
	}
	return nil
}

func formatted(f *file) []string {
	if path.Ext(f.path) != ".go" {
		return nil
	}
	out, err := format.Source([]byte(f.text))
	if err != nil {
		return []string{fmt.Sprintf(" %v", err)}
	}
	if string(out) != f.text {
		return []string{"1: not as gofmt writes it (make fmt)"}
	}
	return nil
}

func length(f *file) []string {
	if n := len(f.lines()); inCode.MatchString(f.path) && n > maxFile {
		return []string{fmt.Sprintf("%d: the file has %d lines, more than %d", maxFile+1, n, maxFile)}
	}
	return nil
}

func functions(f *file) []string {
	switch path.Ext(f.path) {
	case ".go":
		return goFunctions(f)
	case ".c", ".h":
		return cFunctions(f)
	}
	return nil
}

// goFunctions finds functions that are too long. It excludes composite literals of tables.
func goFunctions(f *file) []string {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, f.path, f.text, parser.SkipObjectResolution)
	if err != nil {
		return nil // the formatting check has reported it
	}
	line := func(p token.Pos) int { return set.Position(p).Line }
	var found []string
	for _, decl := range parsed.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		n := line(fn.End()) - line(fn.Pos()) + 1
		ast.Inspect(fn, func(node ast.Node) bool {
			table, ok := node.(*ast.CompositeLit)
			if !ok {
				return true
			}
			if _, slice := table.Type.(*ast.ArrayType); slice {
				n -= line(table.End()) - line(table.Pos())
			}
			return false
		})
		if n > maxFunction {
			found = append(found, tooLong(line(fn.Pos()), fn.Name.Name, n))
		}
	}
	return found
}

var cName = regexp.MustCompile(`(\w+)\(`)

// cFunctions finds functions that are too long in C formatted by .clang-format: a body starts and
// ends with a brace that is alone in the first column.
func cFunctions(f *file) []string {
	var found []string
	lines := f.lines()
	start := -1
	for i, l := range lines {
		switch {
		case l == "{":
			start = i
		case l == "}" && start >= 0:
			first := start
			for first > 0 && lines[first-1] != "" && lines[first-1] != "}" {
				first--
			}
			if n := i - first + 1; n > maxFunction {
				name := "the function"
				if m := cName.FindAllStringSubmatch(lines[start-1], 1); m != nil {
					name = m[0][1]
				}
				found = append(found, tooLong(first+1, name, n))
			}
			start = -1
		}
	}
	return found
}

func tooLong(line int, name string, n int) string {
	return fmt.Sprintf("%d: %s has %d lines, more than %d", line, name, n, maxFunction)
}

// word is a forbidden text, with the files in which it is forbidden.
type word struct {
	is    *regexp.Regexp
	where func(f *file) bool
	why   string
}

var (
	inCode     = regexp.MustCompile(`\.(go|c|h|S|py|sh|cc)$|^Makefile$`)
	testFile   = regexp.MustCompile(`_test\.go$`)
	buildLine  = regexp.MustCompile(`(?m)^//go:build (.*)$`)
	testSuffix = regexp.MustCompile(`_(interop|measure|smoke|real)_test\.go$`)
)

func anywhere(*file) bool   { return true }
func inSource(f *file) bool { return inCode.MatchString(f.path) }

// judges reports whether the file has tests that decide whether a change is accepted.
func judges(f *file) bool {
	return testFile.MatchString(f.path) && !strings.HasPrefix(testTag(f), "measure")
}

func mayNotSkip(f *file) bool {
	return testFile.MatchString(f.path) || strings.HasPrefix(f.path, "test/")
}

// The texts are split, so that this file does not contain them.
var forbidden = []word{
	{regexp.MustCompile(`\b(TO[D]O|FIX[M]E|X[X]X|HA[C]K)\b`), inSource, "a note of something left undone"},
	{regexp.MustCompile(`not (yet )?imple[m]ented`), inSource, "something left undone"},
	{regexp.MustCompile(`/work/(main|shared|[.])|/far[m]/`), anywhere, "a path of one machine"},
	{regexp.MustCompile(`\btime\.Slee[p]\(|\btime\.Afte[r]\(`), judges, "wait on a condition, or on a clock that is passed in"},
	{regexp.MustCompile(`\b(t|tb|b)\.Ski[p](f|Now)?\(`), mayNotSkip, "skip by a function of internal/testkit, which fails in CI"},
}

func words(f *file) []string {
	var found []string
	for i, l := range f.lines() {
		for _, w := range forbidden {
			if m := w.is.FindString(l); m != "" && w.where(f) {
				found = append(found, fmt.Sprintf("%d: %q: %s", i+1, m, w.why))
			}
		}
	}
	return found
}

// testTag returns the build tag of a test file, or "".
func testTag(f *file) string {
	if m := buildLine.FindStringSubmatch(f.text); m != nil {
		return m[1]
	}
	return ""
}

// kinds requires that the name of a test file and its build tag agree. A mistyped tag would
// silently exclude tests from every run.
func kinds(f *file) []string {
	if !testFile.MatchString(f.path) {
		return nil
	}
	tag, named := testTag(f), ""
	if m := testSuffix.FindStringSubmatch(f.path); m != nil {
		named = m[1]
	}
	switch {
	case named != "" && tag != named:
		return []string{fmt.Sprintf("1: the file's name wants //go:build %s", named)}
	case tag == "interop" && named == "", tag == "measure" && named == "" && !strings.HasPrefix(f.path, "test/"):
		return []string{fmt.Sprintf("1: tests with the build tag %s are in files *_%s_test.go", tag, tag)}
	case tag != "" && !slices.Contains([]string{"interop", "measure", "smoke", "real", "measure || smoke", "interop || measure"}, tag):
		return []string{fmt.Sprintf("1: no test target uses the build tag %q", tag)}
	}
	return nil
}
