package internal_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Each boundary of the threat model names tests, and each of these is there.
func TestThreatModel(t *testing.T) {
	page, err := os.ReadFile("../docs/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]bool{}
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
