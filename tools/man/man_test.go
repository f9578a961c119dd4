package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ingero/internal/cli"
	"ingero/internal/config"
)

// Each command in the help has a page with all its flags, and the settings have one.
func TestPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man")
	if err := write(dir, "2026-01-02T15:04:05Z"); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		}
		if _, page, ok := strings.Cut(string(text), ".nh\n.TH "); !ok || page == "" || strings.Contains(string(text), "Auto generated") {
			t.Errorf("%s begins with %.40q", name, text)
		}
		return strings.ReplaceAll(string(text), `\-`, "-")
	}
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Hidden {
			return
		}
		page := read(strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1")
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !strings.Contains(page, "--"+f.Name) {
				t.Errorf("the page of %s lacks --%s", c.CommandPath(), f.Name)
			}
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(cli.Commands())
	settings := read("ingero.yaml.5")
	for i := range config.Settings {
		if s := &config.Settings[i]; !s.Hidden && s.Key != "config" && !strings.Contains(settings, s.Key) {
			t.Errorf("ingero.yaml.5 lacks %s", s.Key)
		}
	}
	if write(dir, "yesterday") == nil {
		t.Error("a date that is none is taken")
	}
}
