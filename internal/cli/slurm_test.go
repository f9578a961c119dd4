package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The Slurm prolog and epilog never fail, whatever is missing: a failure would take the node out of
// service.
func TestSlurmScriptsNeverFail(t *testing.T) {
	for _, script := range []string{"prolog", "epilog"} {
		for name, env := range map[string][]string{
			"no ingero":  {"PATH=/usr/bin:/bin", "SLURM_JOB_ID=7", "SLURM_JOB_UID=0", "INGERO_JOBS=DIR/jobs", "INGERO_REPORTS=DIR/reports"},
			"no folders": {"PATH=/usr/bin:/bin", "SLURM_JOB_ID=7", "SLURM_JOB_UID=0", "INGERO_JOBS=/dev/null/x", "INGERO_REPORTS=/dev/null/y"},
			"no job":     {"PATH=/usr/bin:/bin", "INGERO_JOBS=DIR/jobs", "INGERO_REPORTS=DIR/reports"},
		} {
			t.Run(script+", "+name, func(t *testing.T) {
				dir := t.TempDir()
				cmd := exec.Command("../../deploy/slurm/" + script + ".sh")
				for _, v := range env {
					cmd.Env = append(cmd.Env, strings.ReplaceAll(v, "DIR", dir))
				}
				if err := os.MkdirAll(filepath.Join(dir, "jobs"), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, "jobs", "7"), []byte("1700000000\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			})
		}
	}
}
