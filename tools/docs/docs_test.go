package main

import (
	"fmt"
	"strings"
	"testing"

	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// The matrix has a line for each function that go test runs, and for no other.
func TestMatrix(t *testing.T) {
	files := map[string]string{
		"b/b_test.go": `package b

// A word is read. More follows.
func TestRead(t *testing.T) {}

func TestReadsPIDOnce(t *testing.T) {}
func Testing() {}
func TestMain(m *testing.M) {}
func (x x) TestMethod(t *testing.T) {}
func helper(t *testing.T) {}
`,
		"a/a_test.go":          "package a\n\nfunc FuzzParse(f *testing.F) {}\n",
		"a/a.go":               "package a\n\nfunc TestNot(t *testing.T) {}\n",
		"a/testdata/c_test.go": "package c\n\nfunc TestNot(t *testing.T) {}\n",
	}
	root := testkit.Tree(t, files)
	got, err := testMatrix(root)
	if err != nil {
		t.Fatal(err)
	}
	want := testMatrixHead +
		"| 1 | FuzzParse | parse | a/a_test.go |\n" +
		"| 2 | TestRead | A word is read. | b/b_test.go |\n" +
		"| 3 | TestReadsPIDOnce | reads PID once | b/b_test.go |\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Every operation of the catalog has its line, and a bar in a cell does not end it.
func TestOperations(t *testing.T) {
	text := operations()
	for i := range events.Catalog {
		r := &events.Catalog[i]
		if n := strings.Count(text, fmt.Sprintf("| %#04x | `%s` | ", uint16(r.Op), r.Name)); n != 1 {
			t.Errorf("%s has %d lines, want 1", r.Name, n)
		}
	}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "| 0x") {
			continue
		}
		if n := strings.Count(line, "|") - strings.Count(line, `\|`); n != 9 {
			t.Errorf("%d cells in %q, want 8", n-1, line)
		}
	}
}
