package config

import (
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"ingero/internal/testkit"
)

// parse parses a command line and returns the given flags.
func parse(t *testing.T, command string, args ...string) (map[string]string, string, error) {
	t.Helper()
	c := &cobra.Command{Use: command, RunE: func(*cobra.Command, []string) error { return nil }, SilenceErrors: true, SilenceUsage: true}
	var help strings.Builder
	c.SetOut(&help)
	c.SetErr(io.Discard)
	c.SetArgs(args)
	f := Bind(c)
	err := c.Execute()
	return f.Given(), help.String(), err
}

func TestBind(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want map[string]string
	}{
		{"none", nil, map[string]string{}},
		{"as the default", []string{"--duration", "0"}, map[string]string{"duration": "0"}},
		{"short ones", []string{"-p", "7,8", "-d", "x.db", "-v"}, map[string]string{"pid": "7,8", "db": "x.db", "verbose": "true"}},
		{"off", []string{"--record=false", "--json"}, map[string]string{"record": "false", "json": "true"}},
		{"no stacks", []string{"--stack=off"}, map[string]string{"stack": "off"}},
		{"list in parts", []string{"--pid", "7", "--pid=8"}, map[string]string{"pid": "7,8"}},
		{"paths in parts", []string{"--cuda-lib", "a.so", "--cuda-lib=/b.so:c.so"}, map[string]string{"cuda-lib": "a.so:/b.so:c.so"}},
		{"last one", []string{"--user", "a", "--user", "b"}, map[string]string{"user": "b"}},
		{"hidden", []string{"--link", "perf"}, map[string]string{"link": "perf"}},
		{"home", []string{"--db", "~/x"}, map[string]string{"db": "~/x"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _, err := parse(t, "trace", tt.args...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("flags (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBindRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, command string
		args          []string
		want          string
	}{
		{"bad value", "trace", []string{"--ringbuf-size", "5000"}, "power of two"},
		{"another command's", "explain", []string{"--user", "bob"}, "unknown flag: --user"},
		{"run takes no target", "run", []string{"--pid", "7"}, "unknown flag: --pid"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, _, err := parse(t, tt.command, tt.args...); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want %q", err, tt.want)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	_, help, err := parse(t, "trace", "--help")
	if err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, "help.txt", help)
	testkit.Golden(t, "reference.md", Reference())
}

// The rows of the table of settings do not contradict each other.
func TestSettings(t *testing.T) {
	seen := map[string]string{}
	once := func(what, s string) {
		t.Helper()
		if old, twice := seen[what+s]; twice && s != "" {
			t.Errorf("%s %q is in the table twice: %s", what, s, old)
		}
		seen[what+s] = s
	}
	for i := range Settings {
		s := &Settings[i]
		once("key", s.Key)
		once("variable", s.Env)
		once("flag", s.Flag)
		once("letter", s.Short)
		name := s.Flag
		if name == "" {
			name = s.Key
		}
		if s.Env != "INGERO_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_")) {
			t.Errorf("%s: variable %s does not follow from --%s", s.Key, s.Env, s.Flag)
		}
		if !strings.HasSuffix(s.Key, s.Flag) || s.Help == "" || strings.HasSuffix(s.Help, ".") || s.Help[0] >= 'A' && s.Help[0] <= 'Z' {
			t.Errorf("%s: flag %s, help %q", s.Key, s.Flag, s.Help)
		}
		if s.Excludes != "" && (find(s.Excludes) == nil || find(s.Excludes).Excludes != s.Key) {
			t.Errorf("%s excludes %s, which does not exclude it", s.Key, s.Excludes)
		}
		if len(s.Choices) > 0 && s.Kind() == "text" && !slices.Contains(s.Choices, s.Default) {
			t.Errorf("%s: default %q is no choice", s.Key, s.Default)
		}
	}
	if len(slices.Collect(maps.Keys(seen))) == 0 {
		t.Error("the table is empty")
	}
}
