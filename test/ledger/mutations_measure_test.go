//go:build measure

package ledger

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"ingero/internal/testkit"
)

// mutations are possible mistakes of the ledger: a change of its text, and the workload that must
// reveal it.
var mutations = []struct {
	name     string
	file     string // file of bpf/
	old, new string
	workload workload
}{
	{"none", "ledger.h", "", "", lateWake},
	{"a blocked time is a runnable one", "ledger.h",
		"k->account.off.blocked += now - k->since;", "k->account.off.runnable += now - k->since;", lateWake},
	{"a wake-up is lost", "ledger.h",
		"if (!t || t->clock.state != WAIT_BLOCKED)", "if (!t || t->clock.state <= WAIT_BLOCKED)", lateWake},
	{"the next task is charged, not the last", "ledger.h",
		"add_slice(c, cpu, prev, now);", "add_slice(c, cpu, next, now);", beside},
	{"a neighbour is charged before the quota", "ledger.h",
		"held = throttle_clock(task, k->cpu) - k->throttle_base;", "held = 0;", neighbour},
	{"an interrupt is the doing of the thread that it interrupts", "cpu.h",
		"return count & (0x00ff0000 | SOFT_INTERRUPT);", "return count & 0;", lateWake},
	{"the system call is not looked at", "block.h",
		"__u32 nr = SYSCALL_NR(regs);", "__u32 nr = -1;", lateWake},
}

// beside is a thread that shares its CPU with another process.
var beside = workload{scenario: "spin", count: 30, each: 12 * ms, hogs: []string{"spin CPU"}, check: compareCharged}

// The comparisons fail when the ledger is wrong.
func TestMutations(t *testing.T) {
	testkit.NeedTool(t, "clang-14")
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			r := observe(t, tracing{object: bytes.NewReader(compile(t, m.file, m.old, m.new))}, m.workload)[0]
			if m.old == "" {
				judge(t, r)
				return
			}
			r = again(t, r, func(*run) string { return "" })
			wrong := r.faults(t)
			if len(wrong) == 0 {
				t.Fatalf("nothing was noticed: %v", r)
			}
			t.Logf("noticed: %s", wrong[0])
		})
	}
}

// compile compiles the BPF programs after one change of their text.
func compile(t testing.TB, name, old, new string) []byte {
	t.Helper()
	root, err := testkit.Repository()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "bpf"))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), old); old != "" && n != 1 {
		t.Fatalf("%s has %q %d times, want once: the mutation must follow the code", name, old, n)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), old, new, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	flags, err := compilerFlags(root)
	if err != nil {
		t.Fatal(err)
	}
	arch := map[string]string{"amd64": "x86", "arm64": "arm64"}[runtime.GOARCH]
	args := append(flags, "-Wno-error", "-w", "-I", filepath.Join(dir, "vmlinux"), "-target", "bpfel", "-D__TARGET_ARCH_"+arch,
		"-c", filepath.Join(dir, "ingero.bpf.c"), "-o", filepath.Join(dir, "ingero.o"))
	if out, err := exec.Command("clang-14", args...).CombinedOutput(); err != nil {
		t.Fatalf("clang-14: %v\n%s", err, out)
	}
	object, err := os.ReadFile(filepath.Join(dir, "ingero.o"))
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// compilerFlags returns the flags with which the agent's programs are built.
func compilerFlags(root string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(root, "internal/bpf/doc.go"))
	if err != nil {
		return nil, err
	}
	m := regexp.MustCompile(`(?m)^//go:generate .* -- (-O2 .*) -I\S+$`).FindSubmatch(text)
	if m == nil {
		return nil, fmt.Errorf("no flags of the compiler in internal/bpf/doc.go")
	}
	return strings.Fields(string(m[1])), nil
}
