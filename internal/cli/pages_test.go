package cli

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ingero/internal/causal"
	"ingero/internal/config"
)

// The guides to patterns and settings name existing rules, and existing flags with their defaults.
func TestPagesNameWhatIsThere(t *testing.T) {
	text, err := os.ReadFile("../../docs/guides/patterns.md")
	if err != nil {
		t.Fatal(err)
	}
	rules := 0
	for _, m := range regexp.MustCompile("`([a-z]+(?:-[a-z]+)+)`").FindAllStringSubmatch(string(text), -1) {
		rules++
		if !slices.ContainsFunc(causal.Rules, func(r causal.Rule) bool { return r.Name == m[1] }) {
			t.Errorf("docs/guides/patterns.md names the rule %s, and there is none", m[1])
		}
	}
	if rules < 20 {
		t.Errorf("%d rules in docs/guides/patterns.md", rules)
	}
	if text, err = os.ReadFile("../../docs/guides/settings.md"); err != nil {
		t.Fatal(err)
	}
	flags := 0
	for _, m := range regexp.MustCompile(`--([a-z-]+)`).FindAllStringSubmatch(string(text), -1) {
		flags++
		if !slices.ContainsFunc(config.Settings, func(s config.Setting) bool { return s.Flag == m[1] }) {
			t.Errorf("docs/guides/settings.md names --%s, and there is no such setting", m[1])
		}
	}
	if flags < 20 {
		t.Errorf("%d flags in docs/guides/settings.md", flags)
	}
	for i := range config.Settings {
		switch s := &config.Settings[i]; s.Flag {
		case "max-db", "max-overhead", "stack": // shown with their defaults
			if shown := "--" + s.Flag + " " + s.Default; !strings.Contains(strings.ReplaceAll(string(text), "=", " "), shown) {
				t.Errorf("docs/guides/settings.md does not show %s", shown)
			}
		}
	}
}
