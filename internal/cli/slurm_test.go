package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ingero/internal/testkit"
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

// A job's user reads the report at its default place, beside the service's database, which other
// users cannot enter. Other users cannot read the report.
func TestSlurmReportIsForTheJobsUser(t *testing.T) {
	testkit.NeedRoot(t)
	testkit.NeedTool(t, "unshare", "setpriv")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ingero"), []byte("#!/bin/sh\necho a report\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	const script = `mount -t tmpfs none /var/lib && mkdir -m 2750 /var/lib/ingero && umask 077 && "$0" &&
		exec setpriv --reuid="$1" --regid="$1" --clear-groups cat "/var/lib/ingero-reports/7-gpu-1.$2"`
	for _, tt := range []struct{ name, uid, want string }{
		{"the job's user", "12345", "a report\n"},
		{"another user", "12346", ""},
	} {
		for _, ext := range []string{"txt", "json"} {
			t.Run(tt.name+", "+ext, func(t *testing.T) {
				if err := os.WriteFile(filepath.Join(dir, "7"), []byte("1700000000\n"), 0o600); err != nil { // the epilog deletes it
					t.Fatal(err)
				}
				cmd := exec.Command("unshare", "--mount", "sh", "-c", script, "../../deploy/slurm/epilog.sh", tt.uid, ext)
				cmd.Env = []string{"PATH=" + dir + ":/usr/sbin:/usr/bin:/sbin:/bin", "SLURM_JOB_ID=7", "SLURM_JOB_UID=12345", "SLURMD_NODENAME=gpu-1", "INGERO_JOBS=" + dir}
				out, err := cmd.Output()
				if string(out) != tt.want || (err == nil) != (tt.want != "") {
					t.Errorf("got %q, %v, want %q", out, err, tt.want)
				}
			})
		}
	}
}
