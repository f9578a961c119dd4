package internal_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each boundary of the threat model names tests. Each of these is there, and at least one
// runs without a build tag: in the gate.
func TestThreatModel(t *testing.T) {
	page, err := os.ReadFile("../docs/design/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	declared, gate := map[string]bool{}, map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	for _, s := range sources(t) {
		if !s.test() {
			continue
		}
		text, err := os.ReadFile("../" + s.path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range function.FindAllStringSubmatch(string(text), -1) {
			declared[m[1]] = true
			gate[m[1]] = gate[m[1]] || !strings.HasPrefix(string(text), "//go:build ")
		}
	}
	named := regexp.MustCompile(`\b(?:Test|Fuzz)\w+`)
	rows := 0
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| they could") || strings.HasPrefix(line, "| it could") {
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		tests := named.FindAllString(cells[len(cells)-1], -1)
		if len(cells) != 3 || len(tests) == 0 {
			t.Errorf("no test in: %s", line)
		}
		if !slices.ContainsFunc(tests, func(name string) bool { return gate[name] }) {
			t.Errorf("no test without a build tag in: %s", line)
		}
		for _, name := range tests {
			if !declared[name] {
				t.Errorf("there is no test %s", name)
			}
		}
	}
	if rows < 20 {
		t.Errorf("%d boundaries", rows)
	}
}
