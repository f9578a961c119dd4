package main

import (
	"bufio"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestJudge(t *testing.T) {
	at := func(better string, runs, disturbed int, low, median, high float64) spread {
		return spread{better: better, values: runs, runs: runs, disturbed: disturbed, low: low, median: median, high: high}
	}
	tests := []struct {
		name        string
		now, before spread
		want        string
	}{
		{"no baseline", at("lower", 5, 0, 1, 2, 3), spread{}, "new"},
		{"ranges overlap", at("lower", 5, 0, 1, 2, 3), at("lower", 5, 0, 3, 4, 5), "same"},
		{"below, lower is better", at("lower", 5, 0, 1, 2, 3), at("lower", 5, 0, 4, 5, 6), "better"},
		{"below, higher is better", at("higher", 5, 0, 1, 2, 3), at("higher", 5, 0, 4, 5, 6), "worse"},
		{"above, higher is better", at("higher", 5, 0, 7, 8, 9), at("higher", 5, 0, 4, 5, 6), "better"},
		{"one run apart", at("lower", 1, 0, 1, 1, 1), at("lower", 5, 0, 4, 5, 6), "inconclusive (too few values)"},
		{"one run, equal", at("lower", 1, 0, 4, 4, 4), at("lower", 1, 0, 4, 4, 4), "same"},
		{"all disturbed", at("lower", 0, 5, 0, 0, 0), at("lower", 5, 0, 4, 5, 6), "inconclusive (disturbed)"},
		{"most disturbed", at("lower", 2, 3, 4, 5, 6), at("lower", 5, 0, 4, 5, 6), "inconclusive (disturbed)"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := judge(test.now, test.before); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// A disturbed run is excluded, with its verdict and its figures.
func TestSummarize(t *testing.T) {
	of := func(n int, passed bool, disturbed string, ns float64) run {
		return run{planned: planned{Package: "./a", Test: "TestX", Run: n}, Passed: passed, Disturbed: disturbed,
			Figures: []figure{{Name: "p50", Unit: "ns", Better: "lower", Values: []float64{ns}},
				{Name: "right", Unit: "%", Better: "higher", Part: n, Whole: 20}}}
	}
	got := summarize([]run{of(1, true, "", 10), of(2, false, "", 30), of(3, true, "", 20), of(4, true, "", 40), of(5, false, "a compiler", 900)})
	for i := range got { // rounded as in the table
		got[i].low, got[i].high = math.Round(got[i].low), math.Round(got[i].high)
	}
	want := []spread{
		{name: "a.TestX p50", unit: "ns", better: "lower", median: 25, low: 10, high: 40, values: 4, runs: 4, disturbed: 1},
		{name: "a.TestX passed", unit: "%", better: "higher", median: 75, low: 30, high: 95, values: 4, runs: 4, disturbed: 1},
		{name: "a.TestX right", unit: "%", better: "higher", median: 12.5, low: 7, high: 22, values: 80, runs: 4, disturbed: 1},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// The ends of the median's interval are those of the binomial distribution.
func TestMiddle(t *testing.T) {
	for n, want := range map[int][3]float64{1: {1, 1, 1}, 2: {1.5, 1, 2}, 5: {3, 1, 5}, 6: {3.5, 1, 6}, 9: {5, 2, 8}, 100: {50.5, 41, 60}} {
		var list []float64
		for i := n; i > 0; i-- {
			list = append(list, float64(i))
		}
		if median, low, high := middle(list); [3]float64{median, low, high} != want {
			t.Errorf("of 1 to %d: got %v, %v, %v, want %v", n, median, low, high, want)
		}
	}
}

// The counts of one seed of the incident lab suffice to show that it got worse, and that it did
// not.
func TestSharesAreJudgedByTheirCounts(t *testing.T) {
	of := func(part int) []spread {
		return summarize([]run{{planned: planned{Package: "./a", Test: "TestX", Run: 1}, Passed: true,
			Figures: []figure{{Name: "recall", Unit: "%", Better: "higher", Part: part, Whole: 92}}}})
	}
	for part, want := range map[int]string{92: "same", 90: "same", 80: "worse"} {
		if got := compare(of(part), of(91), nil)[1].verdict; got != want {
			t.Errorf("%d after 91 of 92: got %q, want %q", part, got, want)
		}
	}
}

func TestTooUncertain(t *testing.T) {
	lines := slices.Repeat([]line{{verdict: "same"}}, 9)
	if tooUncertain(append(lines, line{verdict: "inconclusive (disturbed)"})) {
		t.Error("one in ten is a result")
	}
	if !tooUncertain(append(lines[:8], line{verdict: "inconclusive (disturbed)"})) {
		t.Error("one in nine is no result")
	}
}

// The journal and a baseline are read back, without the runs of another tree.
func TestKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "deep", "runs.jsonl")
	p := planned{Package: "./a", Test: "TestX", Run: 2}
	j, err := openJournal(file, "tree", false)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.add(run{planned: p, Passed: true}); err != nil {
		t.Fatal(err)
	}
	j.close()
	for tree, want := range map[string]bool{"tree": true, "another": false} {
		j, err := openJournal(file, tree, false)
		if err != nil {
			t.Fatal(err)
		}
		if got := j.has(p); got != want {
			t.Errorf("of tree %q: got %v, want %v", tree, got, want)
		}
		j.close()
	}

	base := filepath.Join(t.TempDir(), "baseline.tsv")
	want := []spread{{name: "a.TestX p50", unit: "ns", better: "lower", median: 25.5, low: 10, high: 40, values: 4}}
	if err := writeBaseline(base, merge(want, []spread{{name: "a.TestX p50", disturbed: 5}})); err != nil {
		t.Fatal(err)
	}
	if got, err := readBaseline(base); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := os.WriteFile(base, []byte("one\ttwo\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readBaseline(base); err == nil || !strings.Contains(err.Error(), "baseline.tsv:1: want 7 columns") {
		t.Errorf("a malformed baseline: got %v", err)
	}
}

// An interrupted run keeps its parts while the tree is the same.
func TestParts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "parts")
	part := filepath.Join(dir, "incidents-1", "disk-1.json")
	for _, tt := range []struct {
		name, tree string
		fresh      bool
		stays      bool
	}{{"first", "a", false, false}, {"resumes", "a", false, true}, {"another tree", "b", false, false}, {"resumes there", "b", false, true}, {"anew", "b", true, false}} {
		if err := openParts(dir, tt.tree, tt.fresh); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(part); (err == nil) != tt.stays {
			t.Errorf("%s: %v, want it kept: %v", tt.name, err, tt.stays)
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(part), 0o755), os.WriteFile(part, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

// Each run of the lab has parts of its own.
func TestPartsOfRuns(t *testing.T) {
	seen := map[string]bool{}
	for _, test := range []string{"TestIncidents", "TestIncidentsByDefault"} {
		plans, err := runsOf(options{seeds: "3-4"}, "test/incidents", test)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range plans {
			if seen[p.Parts] || !filepath.IsAbs(p.Parts) || !slices.Contains(p.Args, "-resume") {
				t.Errorf("%s, run %d: parts %q, flags %q", p.name(), p.Run, p.Parts, p.Args)
			}
			seen[p.Parts] = true
		}
	}
	if len(seen) != 4 {
		t.Errorf("%d runs, want 4", len(seen))
	}
}

func TestReadEvents(t *testing.T) {
	const events = `{"Action":"run","Test":"TestX"}
{"Action":"attr","Test":"TestX/sub","Key":"figure:p50","Value":"12.5,13 ns lower"}
{"Action":"attr","Test":"TestX","Key":"share:recall","Value":"91 92 higher"}
{"Action":"attr","Test":"TestX","Key":"share:recall","Value":"93 92 higher"}
{"Action":"attr","Test":"TestX","Key":"other","Value":"12.5 ns lower"}
{"Action":"output","Test":"TestX","Output":"text\n"}
{"Action":"fail","Test":"TestX/sub"}
{"Action":"fail","Test":"TestX"}
`
	log := filepath.Join(t.TempDir(), "log")
	r, ran, err := readTest(bufio.NewScanner(strings.NewReader(events)), planned{Test: "TestX"}, log)
	if err != nil || !ran || r.Passed {
		t.Errorf("got passed %v, ran %v, %v", r.Passed, ran, err)
	}
	want := []figure{{Name: "sub/p50", Unit: "ns", Better: "lower", Values: []float64{12.5, 13}},
		{Name: "recall", Unit: "%", Better: "higher", Part: 91, Whole: 92}}
	if !reflect.DeepEqual(r.Figures, want) {
		t.Errorf("got %v, want %v", r.Figures, want)
	}
	if text, _ := os.ReadFile(log); string(text) != "text\n" {
		t.Errorf("the log has %q", text)
	}
	if _, ran, _ := readTest(bufio.NewScanner(strings.NewReader(`{"Action":"skip","Test":"TestX"}`)), planned{Test: "TestX"}, log); ran {
		t.Error("a skipped test counts as run")
	}
}

func TestReadBenchmark(t *testing.T) {
	cpus := strconv.Itoa(runtime.GOMAXPROCS(0))
	value := func(name, unit, better string, v float64) figure {
		return figure{Name: name, Unit: unit, Better: better, Values: []float64{v}}
	}
	for _, test := range []struct {
		line, benchmark string
		want            []figure
	}{
		{"BenchmarkSecond-" + cpus + "   \t 12\t 21.5 ns/op\t 400 calls/s", "BenchmarkSecond",
			[]figure{value("ns/op", "ns/op", "lower", 21.5), value("calls/s", "calls/s", "higher", 400)}},
		{"BenchmarkSecond/8-threads-" + cpus + " 12 21.5 ns/op", "BenchmarkSecond", []figure{value("8-threads/ns/op", "ns/op", "lower", 21.5)}},
		{"Benchmark/session-links/ratio 1 1.06 ratio", "", []figure{value("session-links/ratio", "ratio", "lower", 1.06)}},
		{"goos: linux", "BenchmarkSecond", nil},
		{"BenchmarkSecond", "BenchmarkSecond", nil},
		{"ok  \tingero/internal/causal\t1.2s", "BenchmarkSecond", nil},
	} {
		if got := benchmarkFigures(test.line, test.benchmark); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%q: got %v, want %v", test.line, got, test.want)
		}
	}
}

// Each program of benchmarks/ is measured.
func TestProgramsAreMeasured(t *testing.T) {
	files, err := filepath.Glob("../../benchmarks/*/main.go")
	if err != nil || len(files) != len(programs) {
		t.Fatalf("%d programs, and %d are listed: %v", len(files), len(programs), err)
	}
	for i, p := range programs {
		if want := filepath.Join("../..", p.dir, "main.go"); files[i] != want {
			t.Errorf("listed %s, want %s", want, files[i])
		}
	}
}

func TestDisturbance(t *testing.T) {
	const before, after = "cpu 100 0 0 900 0 0 0 0 0 0\ncpu0 1", "cpu 200 0 0 1790 0 0 0 10 0 0\ncpu0 1"
	a, b := parseCPUs(before), parseCPUs(after)
	if b.total-a.total != 10*time.Second || b.busy-a.busy != time.Second {
		t.Fatalf("got %v and %v", a, b)
	}
	tests := []struct {
		name   string
		b      cpuTimes
		own    time.Duration
		wanted string
	}{
		{"nobody else", b, 900 * time.Millisecond, ""},
		{"a compiler", b, 0, "other programs used 0.33 CPUs"},
		{"the hypervisor", cpuTimes{b.busy, b.stolen + 10*time.Millisecond, b.total}, time.Second, "the hypervisor took 110ms of CPU time"},
	}
	for _, test := range tests {
		if got := judgeMachine(a, test.b, 3*time.Second, test.own); got != test.wanted {
			t.Errorf("%s: got %q, want %q", test.name, got, test.wanted)
		}
	}
}

func TestSeeds(t *testing.T) {
	for text, want := range map[string][]int{"3": {3}, "1-3": {1, 2, 3}, "3-1": nil, "x": nil, "1-": nil} {
		got, err := seedList(text)
		if !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
}
