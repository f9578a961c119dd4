package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// event is one line of go test -json (see go doc test2json).
type event struct {
	Action      string
	Package     string
	ImportPath  string // of a build-output
	Test        string
	Elapsed     float64 // seconds
	Output      string
	FailedBuild string
}

// result is what became of one test or, with no test named, of one package.
type result struct {
	pkg, test string
	action    string // pass, fail or skip; empty until it ended
	output    []string
	failures  int // of a package: tests of it that failed
}

func (r *result) name() string {
	if r.test == "" {
		return r.pkg
	}
	return r.pkg + "." + r.test
}

type summary struct {
	out                     io.Writer
	open                    map[[2]string]*result
	builds                  map[string][]string // compiler output by import path
	failed, skipped         []*result
	passes, fails, packages int
}

func newSummary(out io.Writer) *summary {
	return &summary{out: out, open: map[[2]string]*result{}, builds: map[string][]string{}}
}

// read takes events until the end of in. A line that is no event is passed on:
// the go command writes some in plain text.
func (s *summary) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.Action == "" {
			fmt.Fprintln(s.out, lines.Text())
			continue
		}
		s.add(&e)
	}
	return lines.Err()
}

func (s *summary) add(e *event) {
	if e.Action == "build-output" {
		s.builds[e.ImportPath] = append(s.builds[e.ImportPath], e.Output)
		return
	}
	if e.Package == "" {
		return
	}
	key := [2]string{e.Package, e.Test}
	r := s.open[key]
	if r == nil {
		r = &result{pkg: e.Package, test: e.Test}
		s.open[key] = r
	}
	switch e.Action {
	case "output":
		r.output = append(r.output, e.Output)
	case "pass", "fail", "skip":
		r.action = e.Action
		delete(s.open, key)
		if e.Test == "" {
			s.endPackage(r, e)
		} else {
			s.endTest(r)
		}
	}
}

func (s *summary) endTest(r *result) {
	switch r.action {
	case "pass":
		s.passes++
	case "skip":
		s.skipped = append(s.skipped, r)
	case "fail":
		s.fail(r)
		pkg := s.open[[2]string{r.pkg, ""}]
		if pkg == nil {
			pkg = &result{pkg: r.pkg}
			s.open[[2]string{r.pkg, ""}] = pkg
		}
		pkg.failures++
	}
}

// endPackage counts a package that failed by itself, not by a test that did: it did not
// compile, or it died in or around a test that had not ended.
func (s *summary) endPackage(r *result, e *event) {
	s.packages++
	if r.action == "fail" {
		var unended []string
		for key, t := range s.open {
			if key[0] == r.pkg && key[1] != "" {
				unended = append(unended, fmt.Sprintf("in %s:\n%s", key[1], strings.Join(t.output, "")))
				delete(s.open, key)
			}
		}
		if r.failures == 0 || len(unended) > 0 {
			slices.Sort(unended)
			r.output = slices.Concat(s.builds[e.FailedBuild], r.output, unended)
			s.fail(r)
		}
	}
	if r.action != "skip" { // a package without test files
		fmt.Fprintf(s.out, "%-5s %-34s %6.1fs\n", r.action, r.pkg, e.Elapsed)
	}
}

func (s *summary) fail(r *result) {
	s.fails++
	s.failed = append(s.failed, r)
}

// report prints the summary and says whether all is well.
func (s *summary) report(allowed map[string]string, ci bool) bool {
	for _, r := range s.failed {
		fmt.Fprintf(s.out, "\nFAILED %s\n%s", r.name(), strings.Join(r.output, ""))
	}
	ok := s.fails == 0
	if len(s.skipped) > 0 {
		fmt.Fprintln(s.out, "\nSkipped:")
	}
	for _, r := range s.skipped {
		reason := skipReason(r.output)
		fmt.Fprintf(s.out, "  %s: %s\n", r.name(), reason)
		if why := refuse(r.name(), reason, allowed, ci); why != "" {
			fmt.Fprintf(s.out, "    not allowed: %s\n", why)
			ok = false
		}
	}
	for key := range s.open {
		fmt.Fprintf(s.out, "%s %s: no end was reported\n", key[0], key[1])
		ok = false
	}
	if s.passes+s.fails == 0 {
		fmt.Fprintln(s.out, "no test ran")
		ok = false
	}
	fmt.Fprintf(s.out, "\n%d passed, %d failed, %d skipped\n", s.passes, s.fails, len(s.skipped))
	return ok
}

// refuse says why a skip is not allowed, or nothing if it is.
func refuse(name, reason string, allowed map[string]string, ci bool) string {
	want, listed := allowed[name]
	switch {
	case listed && !strings.HasPrefix(reason, want):
		return fmt.Sprintf("the list of skips gives another reason: %s", want)
	case !listed && ci:
		return "it is not in the list of skips"
	case !listed && !strings.HasPrefix(reason, "needs "):
		return `its reason does not start "needs", and it is not in the list of skips`
	}
	return ""
}

var logLine = regexp.MustCompile(`^\s+\S+\.go:\d+: (.*)`)

// skipReason finds the last line a skipped test logged.
func skipReason(output []string) string {
	for _, line := range slices.Backward(output) {
		if m := logLine.FindStringSubmatch(line); m != nil {
			return strings.TrimSpace(m[1])
		}
	}
	return "no reason given"
}

// parseSkips reads lines of "PACKAGE.TEST REASON"; # starts a comment.
func parseSkips(in io.Reader) (map[string]string, error) {
	allowed := map[string]string{}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, reason, ok := strings.Cut(line, " ")
		if !ok {
			return nil, fmt.Errorf("%q has no reason", line)
		}
		allowed[name] = strings.TrimSpace(reason)
	}
	return allowed, lines.Err()
}
