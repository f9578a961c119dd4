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
	Package string   // such as "./internal/session"
	Test    string   // a test, a benchmark, or "": the package is a program
	Run     int      // from 1; for the incident lab the seed
	Args    []string // flags of the test binary or of the program
	// Parts is a directory where an interrupted run leaves what it has done, to continue from; empty:
	// it begins anew.
	Parts string
}

func (p planned) name() string {
	if p.Test == "" {
		return path.Clean(p.Package)
	}
	return path.Clean(p.Package) + "." + p.Test
}

// programs lists the benchmark programs, with their flags: each takes a few minutes.
var programs = []struct {
	dir  string
	args string
}{
	{"benchmarks/budget", "-rounds 1"},
	{"benchmarks/idle", "-rounds 3 -length 5s"},
	{"benchmarks/overhead", "-rounds 3"},
	{"benchmarks/requests", "-pairs 2 -window 5s"},
	{"benchmarks/scale", "-max-threads 16384 -length 20s"},
	{"benchmarks/shapes", "-pairs 2 -window 5s"},
	{"benchmarks/stacks", "-procs 10"},
	{"benchmarks/store", "-events 10000000 ingest read"},
	{"benchmarks/switches", "-rounds 5"},
	{"benchmarks/throughput", "-rates 100000,500000 -seconds 5 -record"},
}

// special lists measurements that have flags or run less often than others.
var special = []struct {
	test string
	runs func(o options) ([]int, error)
	args func(run int) []string
}{
	{"test/incidents.TestIncidents", seedsOf, func(seed int) []string { return labArgs("incidents", seed) }},
	{"test/incidents.TestIncidentsByDefault", seedsOf, func(seed int) []string { return labArgs("incidents-by-default", seed) }},
	{"test/incidents.TestLevels", func(options) ([]int, error) { return upTo(1), nil }, func(int) []string {
		return []string{"-table", tableFile("levels", 1)}
	}},
	{"test/soak.TestSoak", func(options) ([]int, error) { return upTo(8), nil }, func(int) []string {
		return []string{"-for", "15m"} // two hours
	}},
}

func seedsOf(o options) ([]int, error) { return seedList(o.seeds) }

// labArgs are the flags of a run of the incident lab, which takes about an hour.
func labArgs(name string, seed int) []string {
	return []string{"-seeds", strconv.Itoa(seed), "-table", tableFile(name, seed), "-resume", partsFlag, absolute(path.Join(partsDir, fmt.Sprintf("%s-%d", name, seed)))}
}

// partsFlag is the flag before the directory of a run's parts.
const partsFlag = "-keep"

// tableFile returns the file for the lab's table of one seed.
func tableFile(name string, seed int) string {
	return absolute(path.Join(keptDir, fmt.Sprintf("%s-%d.md", name, seed)))
}

// absolute returns the path of a file for a test, which runs in its package's directory.
func absolute(file string) string {
	dir, err := os.Getwd()
	if err != nil {
		dir = "/tmp"
	}
	return path.Join(dir, file)
}

// seedList parses "3" or "1-5".
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
	tagLine   = regexp.MustCompile(`(?m)^//go:build .*\bmeasure\b`)
	testFunc  = regexp.MustCompile(`(?m)^func (Test[A-Z0-9]\w*)\(t \*testing\.T\)`)
	benchmark = regexp.MustCompile(`(?m)^func (Benchmark[A-Z0-9]\w*)\(b \*testing\.B\)`)
)

// plan lists all runs that the options select, in order of their packages' names.
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
		found := benchmark.FindAllSubmatch(text, -1)
		if tagLine.Match(text) {
			found = append(found, testFunc.FindAllSubmatch(text, -1)...)
		}
		for _, m := range found {
			more, err := runsOf(o, path.Dir(file), string(m[1]))
			if err != nil {
				return nil, err
			}
			plans = append(plans, more...)
		}
	}
	for _, p := range programs {
		for _, n := range upTo(o.runs) {
			if wanted(o, p.dir) {
				plans = append(plans, planned{Package: "./" + p.dir, Run: n, Args: strings.Fields(p.args)})
			}
		}
	}
	slices.SortStableFunc(plans, func(a, b planned) int { return strings.Compare(a.name(), b.name()) })
	if len(plans) == 0 {
		return nil, fmt.Errorf("no measurement matches -only %q", o.only)
	}
	return plans, nil
}

// wanted reports whether a name has one of the words of -only, in lower or upper case.
func wanted(o options, name string) bool {
	return slices.ContainsFunc(strings.Split(o.only, ","), func(word string) bool {
		return strings.Contains(strings.ToLower(name), strings.ToLower(word))
	})
}

func runsOf(o options, dir, test string) (plans []planned, err error) {
	name := dir + "." + test
	if !wanted(o, name) {
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
		p := planned{Package: "./" + dir, Test: test, Run: n, Args: args(n)}
		if i := slices.Index(p.Args, partsFlag); i >= 0 {
			p.Parts = p.Args[i+1]
		}
		plans = append(plans, p)
	}
	return plans, nil
}
