// Command testsummary reads the output of go test -json and prints what a
// person needs of it: a line a package, the output of what failed, each skipped
// test with its reason, and as the last line "N passed, N failed, N skipped".
//
// A test skipped for lack of something ("needs ...") is allowed on a person's
// machine. In CI (CI=true) every skip must stand in the list given by -skips.
// The exit status is 1 if a test or package failed, a skip is not allowed, or
// no test ran.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	list := flag.String("skips", "", "file that lists the skips allowed in CI")
	flag.Parse()
	ok, err := run(*list)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsummary:", err)
	}
	if !ok {
		os.Exit(1)
	}
}

func run(list string) (ok bool, err error) {
	allowed, err := readSkips(list)
	if err != nil {
		return false, err
	}
	s := newSummary(os.Stdout)
	if err := s.read(os.Stdin); err != nil {
		return false, err
	}
	return s.report(allowed, os.Getenv("CI") == "true"), nil
}

func readSkips(path string) (map[string]string, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	allowed, err := parseSkips(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return allowed, nil
}
