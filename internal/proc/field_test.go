package proc

import (
	"os"
	"path/filepath"
	"testing"

	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// The kernel may cut a name inside a character, but ingero's names are always valid UTF-8.
func TestFieldNames(t *testing.T) {
	for _, f := range testkit.Facts(t, "names.tsv") {
		t.Run(f.At, func(t *testing.T) {
			root := t.TempDir()
			dir := filepath.Join(root, "proc", "7")
			for name, text := range map[string]string{
				"stat":        "7 (" + f.Input + ") S 1 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 5 1 1 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0\n",
				"status":      "Name:\tx\nPid:\t7\nPPid:\t1\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nNSpid:\t7\nThreads:\t1\nSeccomp:\t0\n",
				"task/7/comm": f.Input + "\n",
			} {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(root, "proc", "stat"), []byte("btime 1000\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			host := FS{Root: filepath.Join(root, "proc")}
			p, err := host.Process(7)
			if err != nil {
				t.Fatal(err)
			}
			for _, got := range []string{p.Comm, host.ThreadName(7, 7), events.NameOf(f.Input).String()} {
				f.Check(t, map[string]string{"name": got})
			}
		})
	}
}
