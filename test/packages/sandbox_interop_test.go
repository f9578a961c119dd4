//go:build interop

package packages

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ingero/internal/jail"
	"ingero/internal/testkit"
	"ingero/sim"
)

// inSandbox makes the test binary enter the sandbox that the variable describes as JSON, and
// execute its arguments there.
const inSandbox = "PACKAGES_TEST_SANDBOX"

// sandbox is what a unit allows to a service that runs as root.
type sandbox struct {
	Caps  []int // all remaining capabilities
	Calls []int // all allowed system calls
}

// enter drops all other privileges and executes argv. It returns only on an error.
func enter(spec string, argv []string) error {
	runtime.LockOSThread()
	var s sandbox
	if err := json.Unmarshal([]byte(spec), &s); err != nil {
		return err
	}
	for c := range unix.CAP_LAST_CAP + 1 {
		if slices.Contains(s.Caps, c) {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := s.filter()
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, inSandbox) })
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
		return err
	}
	return syscall.Exec(argv[0], argv, env)
}

// filter allows the calls, and fails others with EPERM.
func (s *sandbox) filter() []unix.SockFilter {
	const number = 0 // offset in struct seccomp_data
	out := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number}}
	for _, nr := range s.Calls {
		out = append(out,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: uint32(nr)},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	}
	return append(out, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)})
}

// read returns a text file.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const unit = "../../deploy/package/ingero.service"

// unitSandbox reads the sandbox from the packaged unit and a drop-in.
func unitSandbox(t *testing.T, dropIn string) sandbox {
	t.Helper()
	var s sandbox
	for line := range strings.Lines(read(t, unit) + dropIn) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "CapabilityBoundingSet":
			for _, name := range strings.Fields(value) {
				n, ok := capabilities[name]
				if !ok {
					t.Fatalf("the test knows no %s", name)
				}
				s.Caps = append(s.Caps, n)
			}
		case "SystemCallFilter":
			rest, without := strings.CutPrefix(value, "~")
			for _, nr := range systemCalls(t, strings.Fields(rest)) {
				if without {
					s.Calls = slices.DeleteFunc(s.Calls, func(n int) bool { return n == nr })
				} else if !slices.Contains(s.Calls, nr) {
					s.Calls = append(s.Calls, nr)
				}
			}
		}
	}
	if len(s.Caps) < 3 || len(s.Calls) < 100 {
		t.Fatalf("the unit leaves %d capabilities and %d system calls", len(s.Caps), len(s.Calls))
	}
	return s
}

var capabilities = map[string]int{"CAP_BPF": unix.CAP_BPF, "CAP_PERFMON": unix.CAP_PERFMON, "CAP_SYS_PTRACE": unix.CAP_SYS_PTRACE,
	"CAP_DAC_READ_SEARCH": unix.CAP_DAC_READ_SEARCH, "CAP_CHECKPOINT_RESTORE": unix.CAP_CHECKPOINT_RESTORE, "CAP_SYSLOG": unix.CAP_SYSLOG,
	"CAP_SYS_ADMIN": unix.CAP_SYS_ADMIN, "CAP_SYS_CHROOT": unix.CAP_SYS_CHROOT, "CAP_SETUID": unix.CAP_SETUID, "CAP_SETGID": unix.CAP_SETGID,
	"CAP_SETPCAP": unix.CAP_SETPCAP, "CAP_KILL": unix.CAP_KILL}

var numbered = regexp.MustCompile(`(?m)^#define __NR_(\w+) (\d+)$`)

// systemCalls returns the numbers of system calls and of systemd's groups of them.
func systemCalls(t *testing.T, names []string) (out []int) {
	t.Helper()
	dir := strings.TrimSpace(output(t, "gcc", "-print-multiarch"))
	text, err := os.ReadFile(filepath.Join("/usr/include", dir, "asm/unistd_64.h"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]int{}
	for _, m := range numbered.FindAllStringSubmatch(string(text), -1) {
		all[m[1]], _ = strconv.Atoi(m[2]) // digits
	}
	for len(names) > 0 {
		name := names[0]
		names = names[1:]
		if strings.HasPrefix(name, "@") {
			for line := range strings.Lines(output(t, "systemd-analyze", "syscall-filter", "--no-pager", name)) {
				if line = strings.TrimSpace(line); line != "" && line != name && !strings.HasPrefix(line, "#") {
					names = append(names, line)
				}
			}
		} else if nr, ok := all[name]; ok { // other names are of another architecture
			out = append(out, nr)
		}
	}
	return out
}

// timing is the only feature that the sandbox disables, as docs/start/install.md says: the kernel
// times BPF programs for CAP_SYS_ADMIN only.
const timing = "what tracepoints cost is not measured"

// In its unit's sandbox ingero traces and records: it lacks nothing that it needs.
func TestSandbox(t *testing.T) {
	testkit.NeedBPF(t)
	testkit.NeedTool(t, "gcc")
	testkit.NeedTool(t, "systemd-analyze")
	spec, err := json.Marshal(unitSandbox(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	output(t, "tar", "-xzf", file(t, newVersion, ".tar.gz"), "-C", dir, "ingero")
	stack, err := sim.Extract(filepath.Join(dir, "sim"))
	if err != nil {
		t.Fatal(err)
	}
	loop := testkit.Start(t, exec.Command(stack.Program("train"), "--hold", "--steps", "200"))
	loop.Line("ready")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(dir, "x.db")
	// With its own lock: in a mount namespace with its own /run.
	run := exec.Command("unshare", "--mount", "sh", "-c", `mount -t tmpfs none /run && exec "$@"`, "sh",
		self, filepath.Join(dir, "ingero"), "trace", "--pid", strconv.Itoa(loop.PID()), "--db", db, "--debug")
	run.Env = append(os.Environ(), inSandbox+"="+string(spec), "TZ=UTC")
	agent := testkit.Start(t, run)
	agent.Line("Tracing train")
	loop.Send("go")
	if err := agent.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, agent.Stderr())
	}
	for line := range strings.Lines(agent.Stderr()) {
		refused := strings.Contains(line, "operation not permitted") || strings.Contains(line, " WARN ")
		if refused && !strings.Contains(line, timing) {
			t.Errorf("something is refused: %s", line)
		}
	}
	got := output(t, filepath.Join(dir, "ingero"), "query", "SELECT count(*) AS n FROM events WHERE op = 'cudaLaunchKernel'", "--csv", "--db", db)
	if n, _ := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(got), "n"))); n < 200 {
		t.Errorf("%q launches are recorded", got)
	}
}

// inJail makes the test binary start a program in a jail.
const inJail = "PACKAGES_TEST_JAIL"

// jailed runs a program as another user in a jail, as --py-probe runs a copy of CPython, and kills
// it.
func jailed() error {
	image, err := os.Open("/bin/sh")
	if err != nil {
		return err
	}
	root, err := os.Open("/")
	if err != nil {
		return err
	}
	j, err := jail.Start(&jail.Program{Image: image, Root: root, UID: 4242, GID: 4243, Args: []string{"sh", "-c", "echo runs; while :; do :; done"}, Time: time.Minute})
	if err != nil {
		return err
	}
	if line, err := j.Line(); line != "runs" {
		return fmt.Errorf("%q, %w: %s", line, err, j.End())
	}
	if err := syscall.Kill(j.PID, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill it: %w", err) // End would wait for it
	}
	j.End()
	return nil
}

// With the lines that docs/start/install.md names for --py-probe, a jail runs in the unit's sandbox.
// Each capability and system call is needed.
func TestProbeInSandbox(t *testing.T) {
	testkit.NeedRoot(t)
	testkit.NeedTool(t, "gcc")
	testkit.NeedTool(t, "systemd-analyze")
	doc := read(t, "../../docs/start/install.md")
	var dropIn string
	for line := range strings.Lines(doc[strings.LastIndex(doc, "    [Service]\n"):]) {
		if !strings.HasPrefix(line, "    ") {
			break
		}
		dropIn += line
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run := func(s sandbox) error {
		spec, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self, self)
		cmd.Env = append(os.Environ(), inSandbox+"="+string(spec), inJail+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	bare, all := unitSandbox(t, ""), unitSandbox(t, dropIn)
	if err := run(all); err != nil {
		t.Errorf("with\n%s%v", dropIn, err)
	}
	for i, c := range all.Caps {
		if !slices.Contains(bare.Caps, c) && run(sandbox{slices.Delete(slices.Clone(all.Caps), i, i+1), all.Calls}) == nil {
			t.Errorf("capability %d is not needed", c)
		}
	}
	if run(sandbox{all.Caps, bare.Calls}) == nil {
		t.Error("the system calls are not needed")
	}
}
