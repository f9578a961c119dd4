// Command lint checks what the compilers and staticcheck do not: gofmt, the length of files and
// functions, licence lines in bpf/, forbidden words, the build tags of tests, and what a program can
// check of docs/design/style.md: phrases, long sentences, and the subject of the last commit. It
// reads every file that git tracks or would add, from the repository root. It prints one line for
// each finding, and then exits with status 1.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// file is one text file of the repository.
type file struct {
	path string
	text string
}

func (f *file) lines() []string {
	return strings.Split(strings.TrimSuffix(f.text, "\n"), "\n")
}

// check returns its findings in a file, each "LINE: message".
type check func(*file) []string

func main() {
	found, err := run()
	if err == nil && found > 0 {
		err = fmt.Errorf("%d findings", found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lint:", err)
		os.Exit(1)
	}
}

// run prints the findings and returns their number.
func run() (found int, err error) {
	tables, err := readTables("tools/lint/tables.txt")
	if err != nil {
		return 0, err
	}
	files, err := sources()
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		found += lint(&f, tables)
	}
	for path := range tables {
		if !slices.ContainsFunc(files, func(f file) bool { return f.path == path }) {
			fmt.Printf("tools/lint/tables.txt: %s does not exist\n", path)
			found++
		}
	}
	last, err := lastSubject()
	if err != nil {
		return 0, err
	}
	for _, what := range subject(last) {
		fmt.Println(what)
		found++
	}
	return found, nil
}

func lint(f *file, tables map[string]bool) (found int) {
	checks := []check{licence, words, kinds, dialect, sentences, readers}
	if !generated(f) {
		checks = append(checks, formatted, functions)
		if !tables[f.path] {
			checks = append(checks, length)
		}
	}
	for _, c := range checks {
		for _, what := range c(f) {
			fmt.Printf("%s:%s\n", f.path, what)
			found++
		}
	}
	return found
}

// readTables reads the paths of files that are tables and may be longer than others. A line has a
// path, then the reason.
func readTables(path string) (map[string]bool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	tables := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || fields[0] == "#":
		case len(fields) == 1:
			return nil, fmt.Errorf("%s: %s has no reason", path, fields[0])
		default:
			tables[fields[0]] = true
		}
	}
	return tables, nil
}

// lastSubject returns the subject of the last commit.
func lastSubject() (string, error) {
	out, err := exec.Command("git", "log", "-1", "--format=%s").Output()
	if err != nil {
		return "", fmt.Errorf("git log: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// sources returns the repository's text files.
func sources() ([]file, error) {
	out, err := exec.Command("git", "ls-files", "-coz", "--exclude-standard").Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	var files []file
	names := bufio.NewScanner(bytes.NewReader(out))
	names.Split(splitZero)
	for names.Scan() {
		info, err := os.Lstat(names.Text())
		if err != nil || !info.Mode().IsRegular() {
			continue // removed in the working tree, or a link
		}
		text, err := os.ReadFile(names.Text())
		if err != nil {
			return nil, err
		}
		if bytes.IndexByte(text, 0) < 0 {
			files = append(files, file{filepath.ToSlash(names.Text()), string(text)})
		}
	}
	return files, names.Err()
}

func splitZero(data []byte, end bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return i + 1, data[:i], nil
	}
	return 0, nil, nil
}
