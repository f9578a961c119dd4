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

// The commands of docs/start/first-incident.md, typed as they stand there, trace the program and
// count all of its calls. Whether they name its cause is measured by TestFirstIncidentCause: on a
// busy machine, other programs take more of its time.
func TestFirstIncident(t *testing.T) {
	_, reports := typeFirstIncident(t)
	for i, report := range reports {
		for _, words := range []string{"801 calls, 804 more nested in them", "cudaMemcpy 400 ", "cudaDeviceSynchronize 400 "} {
			if i >= 2 && !strings.Contains(report, words) {
				t.Errorf("report %d lacks %q:\n%s", i, words, report)
			}
		}
	}
}

// typeFirstIncident types the blocks of docs/start/first-incident.md, except the first, which builds
// ingero. It returns the blocks and what each printed, with single spaces.
func typeFirstIncident(t *testing.T) (blocks, printed []string) {
	t.Helper()
	b := newBench(t)
	testkit.NeedTool(t, "python3")
	page, err := os.ReadFile("../../docs/start/first-incident.md")
	if err != nil {
		t.Fatal(err)
	}
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
	printed = make([]string, len(blocks))
	for i, block := range blocks[1:] {
		cmd := exec.Command("bash", "-euc", block)
		cmd.Dir, cmd.Env = filepath.Join(b.dir, "here"), b.env
		c := testkit.Start(t, cmd)
		c.CloseStdin()
		stdout, stderr, code := finish(t, c)
		if code != 0 {
			t.Fatalf("%s: exit code %d\n%s%s", block, code, stdout, stderr)
		}
		printed[i+1] = strings.Join(strings.Fields(stdout+stderr), " ")
	}
	return blocks, printed
}
