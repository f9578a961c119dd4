//go:build interop

package cli

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ingero/internal/testkit"
)

// slurmConf configures the smallest cluster: this machine.
const slurmConf = `ClusterName=ingero
SlurmctldHost=%[1]s(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=%[2]s/socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SlurmctldPort=%[3]s
SlurmdPort=%[4]s
StateSaveLocation=%[2]s/state
SlurmdSpoolDir=%[2]s/spool
SlurmctldPidFile=%[2]s/slurmctld.pid
SlurmdPidFile=%[2]s/slurmd.pid
SlurmctldLogFile=%[2]s/slurmctld.log
SlurmdLogFile=%[2]s/slurmd.log
Prolog=%[2]s/prolog
Epilog=%[2]s/epilog
FirstJobId=%[5]d
NodeName=%[1]s NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE
`

// slurmFiles writes the files of a one-node cluster to a directory with a short name, since its
// socket path must be short.
func (b *bench) slurmFiles(first int, env []string) (dir string) {
	b.t.Helper()
	dir, err := os.MkdirTemp("", "ingero-slurm-")
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	host, err := os.Hostname()
	if err != nil {
		b.t.Fatal(err)
	}
	host, _, _ = strings.Cut(host, ".")
	deploy, err := filepath.Abs("../../deploy/slurm")
	if err != nil {
		b.t.Fatal(err)
	}
	hook := func(name string) string {
		return "#!/bin/sh\nexport '" + strings.Join(env, "' '") + "'\nexec " + filepath.Join(deploy, name) + ".sh\n"
	}
	key := make([]byte, 1024)
	_, _ = rand.Read(key)
	err = errors.Join(os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "state"), 0o700), os.Mkdir(filepath.Join(dir, "spool"), 0o700))
	for _, x := range []struct {
		name, text string
		mode       os.FileMode
	}{
		{"key", string(key), 0o600},
		{"slurm.conf", fmt.Sprintf(slurmConf, host, dir, testkit.FreePort(b.t), testkit.FreePort(b.t), first), 0o644},
		{"prolog", hook("prolog"), 0o755},
		{"epilog", hook("epilog"), 0o755},
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, x.name), []byte(x.text), x.mode))
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return dir
}

// slurm runs a one-node cluster with the prolog and epilog of deploy/slurm and some variables.
// first is the ID of the first job. It returns a function that submits a job.
func (b *bench) slurm(first int, env []string) (sbatch func(script string) (job string)) {
	b.t.Helper()
	for _, tool := range []string{"munged", "slurmctld", "slurmd", "sbatch"} {
		testkit.NeedTool(b.t, tool)
	}
	dir := b.slurmFiles(first, env)
	in := func(name string) string { return filepath.Join(dir, name) }
	run := func(args ...string) *exec.Cmd {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "SLURM_CONF="+in("slurm.conf"))
		return cmd
	}
	testkit.Start(b.t, run("munged", "--force", "--foreground", "--key-file="+in("key"), "--socket="+in("socket"), "--pid-file="+in("munge.pid"),
		"--log-file="+in("munge.log"), "--seed-file="+in("munge.seed")))
	testkit.Eventually(b.t, "munge", func() bool { _, err := os.Stat(in("socket")); return err == nil })
	testkit.Start(b.t, run("slurmctld", "-D"))
	testkit.Start(b.t, run("slurmd", "-D"))
	testkit.Eventually(b.t, "an idle node", func() bool {
		out, err := run("sinfo", "-h", "-o", "%t").Output()
		return err == nil && strings.TrimSpace(string(out)) == "idle"
	})
	return func(script string) string {
		b.t.Helper()
		out, err := run("sbatch", "--parsable", "-n", "1", "-o", "/dev/null", "-D", dir, "--wrap", script).Output()
		if err != nil {
			b.t.Fatalf("sbatch: %v", err)
		}
		return strings.TrimSpace(string(out))
	}
}

// reported reports whether the epilog has finished a job's report. The epilog writes the text, then
// the log, which it removes at its end.
func reported(files []string) bool {
	written := false
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil || strings.HasSuffix(file, ".log") {
			return false
		}
		written = written || strings.HasSuffix(file, ".txt") && info.Size() > 0
	}
	return written
}

// On a permanently traced node, each job gets one report that its user may read, with that job's
// lost time and nothing of other jobs.
func TestSlurmReports(t *testing.T) {
	b := newBench(t)
	reports := filepath.Join(b.dir, "reports")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(b.dir, "ingero")); err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=" + b.dir + ":" + os.Getenv("PATH"), "INGERO_DB=" + b.db(), "INGERO_REPORTS=" + reports,
		"INGERO_JOBS=" + filepath.Join(b.dir, "jobs"), b.env[len(os.Environ())]}
	first := 1_000_000 + os.Getpid()
	sbatch := b.slurm(first, env)
	c := b.ingero("trace", "--user", "all", "--job", fmt.Sprintf("%d,%d", first, first+1))
	b.tracing(0)

	traced := filepath.Join(b.dir, "traced")
	job := fmt.Sprintf(`%s --seconds 600 --kernel-us 300 & while ! [ -e %s ]; do sleep 0.1; done; kill $!; wait; true`, b.stack.Program("train"), traced)
	jobs := []string{sbatch(job), sbatch("exec true")}
	if jobs[0] != strconv.Itoa(first) {
		t.Fatalf("job %s, want %d", jobs[0], first)
	}
	b.ticks(2)
	if err := os.WriteFile(traced, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, job := range jobs {
		var files []string
		testkit.Eventually(t, "the report of job "+job, func() bool {
			files, _ = filepath.Glob(filepath.Join(reports, job+"-*"))
			_, err := os.Stat(filepath.Join(b.dir, "jobs", job))
			return os.IsNotExist(err) && reported(files)
		})
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var st syscall.Stat_t
			if err := syscall.Stat(file, &st); err != nil || st.Mode&0o777 != 0o600 {
				t.Errorf("%s has mode %o (%v)", file, st.Mode, err)
			}
			if strings.HasSuffix(file, ".txt") {
				texts = append(texts, string(text))
			}
		}
	}
	c.Signal(syscall.SIGINT)
	finish(t, c)
	if !strings.Contains(texts[0], "train (") || strings.Contains(texts[0], "ingero: ") {
		t.Errorf("the report of a training loop:\n%s", texts[0])
	}
	if strings.Contains(texts[1], "train (") {
		t.Errorf("the report of a job without a GPU:\n%s", texts[1])
	}
}
