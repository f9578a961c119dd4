package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"ingero/internal/testkit"
)

// What docs/start/first-incident.md types, typed as it stands there, explains the program, and
// the change of the program takes the cause away.
func TestFirstIncident(t *testing.T) {
	b := newBench(t)
	testkit.NeedTool(t, "python3")
	page, err := os.ReadFile("../../docs/start/first-incident.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range regexp.MustCompile("(?s)```bash\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		blocks = append(blocks, m[1])
	}
	if len(blocks) != 5 || blocks[0] != "make build\n" {
		t.Fatalf("the page types %q", blocks)
	}
	self, err := os.Executable()
	libraries, err2 := filepath.Abs("../../sim/prebuilt/" + runtime.GOARCH)
	err = errors.Join(err, err2, os.MkdirAll(filepath.Join(b.dir, "bin"), 0o755), os.MkdirAll(filepath.Join(b.dir, "here/sim/prebuilt"), 0o755))
	if err = errors.Join(err, os.Symlink("../bin", filepath.Join(b.dir, "here/bin")), os.Symlink(self, filepath.Join(b.dir, "bin/ingero")),
		os.Symlink(libraries, filepath.Join(b.dir, "here/sim/prebuilt/amd64"))); err != nil {
		t.Fatal(err)
	}
	said := make([]string, len(blocks))
	for i, block := range blocks[1:] {
		cmd := exec.Command("bash", "-euc", block)
		cmd.Dir, cmd.Env = filepath.Join(b.dir, "here"), b.env
		c := testkit.Start(t, cmd)
		c.CloseStdin()
		stdout, stderr, code := finish(t, c)
		if code != 0 {
			t.Fatalf("%s: exit code %d\n%s%s", block, code, stdout, stderr)
		}
		said[i+1] = strings.Join(strings.Fields(stdout+stderr), " ")
	}
	const line = "train.py:12 in load()"
	for i, has := range []bool{2: true, 3: false, 4: true} {
		if i >= 2 && strings.Contains(said[i], line) != has {
			t.Errorf("%sprints %q: %v, want %v:\n%s", blocks[i], line, !has, has, said[i])
		}
	}
	for _, words := range []string{"waited for input from python3", "INCIDENT REPORT"} {
		if !strings.Contains(said[2], words) {
			t.Errorf("the first report lacks %q:\n%s", words, said[2])
		}
	}
}
