package main

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// planned is one run of one measurement.
type planned struct {
	Package string // as in "./internal/session"
	Test    string
	Run     int      // from 1; of the incident lab it is the seed
	Args    []string // flags of the test binary
}

func (p planned) name() string { return path.Clean(p.Package) + "." + p.Test }

// special lists measurements that are not run as often as others, or with flags.
var special = []struct {
	test string
	runs func(o options) ([]int, error)
	args func(run int) []string
}{
	{"test/incidents.TestIncidents", func(o options) ([]int, error) { return seedList(o.seeds) },
		func(seed int) []string { return []string{"-seeds", strconv.Itoa(seed), "-table", tableFile(seed)} }},
	{"test/soak.TestSoak", func(options) ([]int, error) { return upTo(1), nil }, func(int) []string { return nil }},
}

// tableFile is where the lab writes the table of one seed; it is an absolute path, because
// a test runs in the directory of its package.
func tableFile(seed int) string {
	dir, err := os.Getwd()
	if err != nil {
		dir = "/tmp"
	}
	return path.Join(dir, keptDir, fmt.Sprintf("incidents-%d.md", seed))
}

// seedList reads "3" or "1-5".
func seedList(s string) (list []int, err error) {
	a, b, many := strings.Cut(s, "-")
	if !many {
		b = a
	}
	from, err := strconv.Atoi(a)
	if err != nil {
		return nil, fmt.Errorf("-seeds %q: want a number, or FROM-TO", s)
	}
	to, err := strconv.Atoi(b)
	if err != nil || to < from {
		return nil, fmt.Errorf("-seeds %q: want a number, or FROM-TO", s)
	}
	for n := from; n <= to; n++ {
		list = append(list, n)
	}
	return list, nil
}

// upTo returns 1 to n.
func upTo(n int) (list []int) {
	for i := range n {
		list = append(list, i+1)
	}
	return list
}

var (
	tagLine  = regexp.MustCompile(`(?m)^//go:build .*\bmeasure\b`)
	testFunc = regexp.MustCompile(`(?m)^func (Test[A-Z0-9]\w*)\(t \*testing\.T\)`)
)

// plan lists all runs that the options ask for, in the order of their packages' names.
func plan(o options) ([]planned, error) {
	out, err := exec.Command("git", "ls-files", "-co", "--exclude-standard", "*_test.go").Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	var plans []planned
	for file := range strings.Lines(string(out)) {
		file = strings.TrimSpace(file)
		text, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			return nil, err
		}
		if !tagLine.Match(text) {
			continue
		}
		for _, m := range testFunc.FindAllSubmatch(text, -1) {
			more, err := runsOf(o, path.Dir(file), string(m[1]))
			if err != nil {
				return nil, err
			}
			plans = append(plans, more...)
		}
	}
	slices.SortStableFunc(plans, func(a, b planned) int { return strings.Compare(a.name(), b.name()) })
	if len(plans) == 0 {
		return nil, fmt.Errorf("no measurement matches -only %q", o.only)
	}
	return plans, nil
}

func runsOf(o options, dir, test string) (plans []planned, err error) {
	name := dir + "." + test
	if !slices.ContainsFunc(strings.Split(o.only, ","), func(word string) bool { return strings.Contains(name, word) }) {
		return nil, nil
	}
	runs, args := upTo(o.runs), func(int) []string { return nil }
	for _, s := range special {
		if s.test != name {
			continue
		}
		if runs, err = s.runs(o); err != nil {
			return nil, err
		}
		args = s.args
	}
	for _, n := range runs {
		plans = append(plans, planned{Package: "./" + dir, Test: test, Run: n, Args: args(n)})
	}
	return plans, nil
}
