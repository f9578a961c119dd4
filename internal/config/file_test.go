package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFile(t *testing.T) {
	w := newWorld(t)
	w.write(w.in.SystemFile, `# what this node records
node: gpu-9
trace:
  pid: [7, 8]
  duration: 1h30m
  record: no
  ringbuf-size: 32m
  user:
`)
	if e := w.refused(); e.At != w.in.SystemFile+":8" || !strings.Contains(e.What, "trace.user requires one value") {
		t.Errorf("error = %v", e)
	}
	w.write(w.in.SystemFile, "node: gpu-9\ntrace:\n  pid: [7, 8]\n  duration: 1h30m\n  record: no\n  ringbuf-size: 32m\n")
	c := w.load()
	if c.Node != "gpu-9" || !slices.Equal(c.Trace.PIDs, []uint32{7, 8}) || c.Trace.Duration.Minutes() != 90 || c.Trace.Record || c.Trace.RingBytes != 32<<20 {
		t.Errorf("config = %+v", c)
	}
}

func TestFileIsEmpty(t *testing.T) {
	for name, text := range map[string]string{"nothing": "", "notes": "# none\n", "dashes": "---\n", "heading": "trace:\n", "null": "null\n"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.write(w.in.SystemFile, text)
			if c := w.load(); len(c.From) != 0 {
				t.Errorf("settings from %v", c.From)
			}
		})
	}
}

func TestFileIsStrict(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		line       int
		what, do   string
	}{
		{"unknown", "nodes: x\n", 1, "no setting nodes", "did you mean node?"},
		{"unknown below", "trace:\n  sampling_rate: 1\n", 2, "no setting trace.sampling_rate", "did you mean trace.sampling-rate?"},
		{"without its heading", "duration: 1s\n", 1, "no setting duration", "did you mean trace.duration?"},
		{"below no heading", "traces:\n  user: bob\n", 1, "no setting traces", "lists the settings"},
		{"nothing like it", "colour: blue\n", 1, "no setting colour", "lists the settings"},
		{"very long", strings.Repeat("x", 300) + ": 1\n", 1, "no setting xxx", "lists the settings"},
		{"another file", "config: x.yaml\n", 1, "no setting config", ""},
		{"hidden ones are not proposed", "trace:\n  lin: perf\n", 2, "no setting trace.lin", ""},
		{"twice", "node: a\ndb: b\nnode: c\n", 3, "already set in line 1", "one of the two"},
		{"twice a heading", "trace:\n  user: a\ntrace:\n  json: true\n", 3, "already set in line 1", "one of the two"},
		{"list", "node: [a, b]\n", 1, "node requires one value of kind text", ""},
		{"map", "node:\n  a: b\n", 2, "node requires one value", ""},
		{"list of lists", "trace:\n  pid: [[1]]\n", 2, "single value", ""},
		{"text as a heading", "trace: on\n", 1, "expected settings", ""},
		{"a list of all", "- node: a\n", 1, "expected settings", ""},
		{"number as a key", "1: a\n", 1, "name of a setting", ""},
		{"alias", "node: &a x\ndb: *a\n", 2, "db requires one value", ""},
		{"merge", "<<: {node: a}\n", 1, "name of a setting", ""},
		{"bad value", "trace:\n  json: perhaps\n", 2, "true or false", "JSON"},
		{"tab", "trace:\n\tuser: bob\n", 2, "invalid YAML", "spaces"},
		{"open quote", "node: \"a\n", 0, "invalid YAML", "KEY: VALUE"},
		{"two documents", "node: a\n---\nnode: b\n", 0, "second YAML document", "dashes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			path := w.write(w.in.SystemFile, tt.text)
			e := w.refused()
			at := fmt.Sprintf("%s:%d", path, tt.line)
			if tt.line == 0 {
				at = path
			}
			if !strings.HasPrefix(e.At, at) || !strings.Contains(e.What, tt.what) || !strings.Contains(e.Do, tt.do) {
				t.Errorf("at %s: %q / %q, want %q / %q in line %d", e.At, e.What, e.Do, tt.what, tt.do, tt.line)
			}
		})
	}
}

func TestFileIsNoFile(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"folder": func(path string) error { return os.MkdirAll(path, 0o755) },
		"pipe": func(path string) error {
			return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), unix.Mkfifo(path, 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if err := make(w.in.SystemFile); err != nil {
				t.Fatal(err)
			}
			if e := w.refused(); !strings.Contains(e.What, "not a regular file") {
				t.Errorf("error = %v", e)
			}
		})
	}
	t.Run("huge", func(t *testing.T) {
		w := newWorld(t)
		w.write(w.in.SystemFile, strings.Repeat("# \n", maxFile/3+1))
		if e := w.refused(); !strings.Contains(e.What, "larger than 1048576 bytes") {
			t.Errorf("error = %v", e)
		}
	})
}

func FuzzFile(f *testing.F) {
	for _, seed := range []string{"node: gpu-9\ntrace:\n  pid: [7, 8]\n  duration: 1h30m\n", "a: &a [*a]\n", "? {}\n: b\n", "--- !!str\n...\n", "\ttrace: x", "trace: {pid: 1, pid: 2}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		out, errs := parseFile("f.yaml", []byte(text))
		for _, e := range errs {
			if !strings.HasPrefix(e.At, "f.yaml") || e.What == "" {
				t.Errorf("error %#v", e)
			}
		}
		c := &Config{From: map[string]string{}}
		_ = c.apply(Inputs{}, out) // values may be invalid; it must not panic
	})
}
