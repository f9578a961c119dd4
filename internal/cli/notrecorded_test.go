package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// All commands that read a database report a process that was not recorded, and which ones were;
// they print nothing else and write no file.
func TestProcessNotRecorded(t *testing.T) {
	db := incidentDB(t)
	for name, args := range map[string][]string{
		"explain":  {"explain"},
		"chains":   {"explain", "--chains"},
		"query":    {"query"},
		"calls":    {"query", "--calls"},
		"summary":  {"summary"},
		"top":      {"top", "--once"},
		"csv":      {"export", "-o", "out.csv"},
		"folded":   {"export", "-o", "out.folded"},
		"perfetto": {"export", "-o", "out.pftrace"},
		"report":   {"report", "-o", "out.html"},
		"diff":     {"diff", db, db},
	} {
		t.Run(name, func(t *testing.T) {
			out := ""
			for i, a := range args {
				if strings.HasPrefix(a, "out.") {
					out = filepath.Join(t.TempDir(), a)
					args[i] = out
				}
			}
			if name != "diff" {
				args = append(args, "--db", db)
			}
			code, stdout, stderr := command(t, nil, nil, append(args, "--pid", "99")...)
			if code != 1 || stdout != "" || !strings.Contains(stderr, "ingero: process 99 is not in any recording of that time\n        recorded process") {
				t.Errorf("code %d, %q, %q", code, stdout, stderr)
			}
			if _, err := os.Stat(out); out != "" && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s was written: %v", out, err)
			}
		})
	}
}
