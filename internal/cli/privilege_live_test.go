package cli

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ingero/internal/testkit"
)

const nobodys = 65534 // the UID of the user nobody

// capable copies this program to a file with capabilities, as setcap sets them, that the user
// nobody may start.
func (b *bench) capable(capabilities ...int) string {
	b.t.Helper()
	for dir := b.dir; dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			b.t.Fatal(err)
		}
	}
	if err := os.Chown(b.dir, nobodys, nobodys); err != nil { // for the lock
		b.t.Fatal(err)
	}
	path := filepath.Join(b.dir, "capable")
	testkit.CopyProgram(b.t, path, "/proc/self/exe")
	var set uint64
	for _, c := range capabilities {
		set |= 1 << c
	}
	// struct vfs_cap_data, version 2, effective: the kernel's linux/capability.h.
	data := binary.LittleEndian.AppendUint32(nil, 0x02000001)
	for _, part := range []uint32{uint32(set), 0, uint32(set >> 32), 0} {
		data = binary.LittleEndian.AppendUint32(data, part)
	}
	if err := unix.Setxattr(path, "security.capability", data, 0); err != nil {
		b.t.Fatalf("give %s capabilities: %v", path, err)
	}
	return path
}

// startAsNobody starts a program as a user without privileges.
func (b *bench) startAsNobody(args ...string) *testkit.Child {
	b.t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(b.env, "HOME="+b.dir)
	cmd.Dir = b.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodys, Gid: nobodys}}
	return testkit.Start(b.t, cmd)
}

// A program file with capabilities traces without root: the user's own processes, with probes,
// ledger and stacks.
func TestFileCapabilities(t *testing.T) {
	b := newBench(t)
	ingero := b.capable(unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_PTRACE, unix.CAP_CHECKPOINT_RESTORE, unix.CAP_SYSLOG)
	target := b.startAsNobody(b.stack.Program("train"), "--seconds", "60", "--hold")
	target.Line("ready")
	target.Send("go")
	trace := b.startAsNobody(ingero, "trace", "--pid", pid(target), "--record=false")
	testkit.Eventually(t, "calls", func() bool { return b.tracing(1).Calls > 100 })
	trace.Signal(syscall.SIGINT)
	stdout, stderr, code := finish(t, trace)
	if code != 0 || !strings.Contains(stdout+stderr, "calls of 1 process") || !strings.Contains(stdout, "cudaLaunchKernel") {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	stdout, stderr, _ = finish(t, b.startAsNobody(ingero, "check"))
	if !strings.Contains(stdout, "[✓] BPF programs") || !strings.Contains(stdout, "[✓] Capabilities") {
		t.Errorf("check: %s%s", stdout, stderr)
	}
}

// Commands that trace nothing drop the capabilities of the program's file: nobody can use them to
// read others' files.
func TestCapabilitiesAreLetGo(t *testing.T) {
	b := newBench(t)
	ingero := b.capable(unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH)
	child := b.startAsNobody(ingero, "mcp")
	status := ""
	testkit.Eventually(t, "a process without capabilities", func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", child.PID()))
		status = string(text)
		return err == nil && strings.Contains(status, "CapEff:\t0000000000000000") && strings.Contains(status, "CapPrm:\t0000000000000000") &&
			strings.Contains(status, "NoNewPrivs:\t1")
	})
	child.CloseStdin()
	_ = child.Wait()
	secret := filepath.Join(b.dir, "secret.yaml")
	if err := os.WriteFile(secret, []byte("root:$6$abc:1::\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr, code := finish(t, b.startAsNobody(ingero, "query", "--config", secret))
	if code == 0 || strings.Contains(stderr, "$6$") || !strings.Contains(stderr, "not permitted to read") {
		t.Errorf("a file of root's as settings: exit code %d, %s", code, stderr)
	}
}

// The user's own programs are not restricted by the capabilities of ingero's file: they can get
// privileges, have none of ingero's capabilities, and have the user's limits.
func TestCapabilitiesRestrictNoProgram(t *testing.T) {
	b := newBench(t)
	ingero := b.capable(unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_PTRACE, unix.CAP_CHECKPOINT_RESTORE)
	stdout, stderr, code := finish(t, b.startAsNobody(ingero, "annotate", "a=b", "--", "grep", "-E", "^(NoNewPrivs|CapPrm|CapEff|CapAmb):", "/proc/self/status"))
	none := "\t0000000000000000\n"
	if want := "CapPrm:" + none + "CapEff:" + none + "CapAmb:" + none + "NoNewPrivs:\t0\n"; code != 0 || stdout != want {
		t.Errorf("annotate: exit code %d, %s%s; want %s", code, stdout, stderr, want)
	}
	cmd := exec.Command("prlimit", "--core=4096:8192", "setpriv", fmt.Sprint("--reuid=", nobodys), fmt.Sprint("--regid=", nobodys), "--clear-groups",
		ingero, "run", "--record=false", "--", "grep", "core", "/proc/self/limits")
	cmd.Env = append(b.env, "HOME="+b.dir)
	cmd.Dir = b.dir
	stdout, stderr, code = finish(t, testkit.Start(t, cmd))
	if got := strings.Fields(stdout); code != 0 || len(got) < 6 || got[4] != "4096" || got[5] != "8192" {
		t.Errorf("run: exit code %d, %s%s; want the limits 4096 and 8192", code, stdout, stderr)
	}
}

// Where /proc hides other users' processes, status says which traces it can find.
func TestStatusOfHiddenProcesses(t *testing.T) {
	b := newBench(t)
	cmd := exec.Command("unshare", "--mount", "sh", "-c",
		`mount -t proc -o hidepid=1 proc /proc && exec setpriv --reuid=65534 --regid=65534 --clear-groups "$0" status`, b.capable())
	cmd.Env = append(b.env, "HOME="+b.dir)
	stdout, stderr, code := finish(t, testkit.Start(t, cmd))
	if code != exitFailed || !strings.HasPrefix(stdout, "No trace was found") || !strings.Contains(stdout, "only a trace of root or of this user can be found") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
}

// World-writable databases and config files are rejected.
func TestWorldWritable(t *testing.T) {
	b := newBench(t)
	db := b.db()
	if err := os.WriteFile(db, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	settings := filepath.Join(b.dir, "settings.yaml")
	if err := os.WriteFile(settings, []byte("debug: false\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{db, settings} {
		if err := os.Chmod(path, 0o666); err != nil { // regardless of the umask
			t.Fatal(err)
		}
	}
	for name, args := range map[string][]string{"chmod o-w " + db: {"trace", "--duration", "1s"}, "chmod o-w " + settings: {"trace", "--duration", "1s", "--config", settings}} {
		if _, stderr, code := b.output(args...); code == 0 || !strings.Contains(stderr, name) {
			t.Errorf("%v: exit code %d, %s; want %q", args, code, stderr, name)
		}
	}
}
