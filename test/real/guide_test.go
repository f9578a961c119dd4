//go:build real

package real

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ingero/internal/testkit"
)

var reports = flag.String("reports", "", "directory in which the reports of the guide's runs are kept")

// guide lists the runs in docs/guides/pytorch.md, each with a change of train.py. It has the rule
// of the most severe cause and the name in its root cause; "" if nothing slows the run.
var guide = []struct {
	name, args, rule, names string
}{
	{"packed", "--data packed", "input-wait", "/srv/train.py:38 in Samples.unpack()"},
	{"unpacked", "--data unpacked", "", ""},
	{"cold", "--data cold", "input-wait", "/srv/train.py:34 in Samples.read()"},
	{"saved", "--save waits", "disk-wait", "/srv/train.py:55 in save()"},
	{"saved-beside", "--save beside", "", ""},
}

// The guide's script is reported as the guide says, and as healthy with the guide's change.
func TestGuide(t *testing.T) {
	for _, tt := range guide {
		t.Run(tt.name, func(t *testing.T) {
			dir, in := t.TempDir(), Root(t)
			work, db := filepath.Join(dir, "work"), filepath.Join(dir, "ingero.db")
			if err := os.CopyFS(work, os.DirFS("testdata/guide")); err != nil {
				t.Fatal(err)
			}
			self := asSelf(t, dir)
			text := filepath.Join(dir, "report")
			run := append([]string{self, "run", "--db", db, "--output", text, "--"},
				Python(in, []string{"INGERO_SIM_SYNC=block", "INGERO_SIM_KERNEL_NS=1000000"}, "train.py", strings.Fields(tt.args)...)...)
			argv := Entered(in, work, run...)
			child := testkit.Start(t, exec.Command(argv[0], argv[1:]...))
			child.CloseStdin()
			if err := child.Wait(); err != nil {
				t.Fatalf("%v\n%s", err, child.Stderr())
			}
			if *reports != "" {
				report, err := os.ReadFile(text)
				if err == nil {
					err = os.WriteFile(filepath.Join(*reports, tt.name+".txt"), report, 0o644)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			var r Report
			if err := json.Unmarshal(output(t, self, "explain", "--json", "--db", db), &r); err != nil {
				t.Fatal(err)
			}
			switch {
			case tt.rule == "" && len(r.Chains) > 0:
				t.Errorf("%s: %s", r.Chains[0].Rule, r.Chains[0].RootCause)
			case tt.rule != "" && len(r.Chains) == 0:
				t.Error("nothing slowed it")
			case tt.rule != "" && (r.Chains[0].Rule != tt.rule || !strings.Contains(r.Chains[0].text, tt.names)):
				t.Errorf("%s: %s, want %s with %q", r.Chains[0].Rule, r.Chains[0].RootCause, tt.rule, tt.names)
			}
		})
	}
}
