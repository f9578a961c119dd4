package unwind

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ingero/internal/proc"
	"ingero/internal/testkit"
	"ingero/internal/unwind"
)

// truth attaches gdb to a process that waits for a line, and returns the stacks that gdb saw until
// the process ended.
func truth(t *testing.T, pid int, start func()) []stack {
	t.Helper()
	testkit.NeedTool(t, "gdb")
	file := filepath.Join(t.TempDir(), "truth")
	cmd := exec.Command("gdb", "-nx", "-batch", "-p", strconv.Itoa(pid), "-x", "testdata/truth.py")
	cmd.Env = append(os.Environ(), "TRUTH="+file)
	gdb := testkit.Start(t, cmd)
	gdb.Line("attached")
	start()
	if err := gdb.Wait(); err != nil {
		t.Fatalf("gdb: %v", err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []stack
	for line := range strings.Lines(string(b)) {
		var s stack
		for i, f := range strings.Fields(line) {
			n, err := strconv.ParseUint(f, []int{16, 10}[b2i(i == 0)], 64)
			if err != nil {
				t.Fatalf("gdb wrote %q", line)
			}
			if i == 0 {
				s.TID = uint32(n)
			} else {
				s.IPs = append(s.IPs, n)
			}
		}
		out = append(out, s)
	}
	return out
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// onlyCode truncates gdb's stacks at addresses that are not code: gdb unwinds past the first
// function of a context (makecontext). It returns the number of truncated stacks.
func onlyCode(code []proc.Mapping, list []stack) (cut int) {
	for i, s := range list {
		n := slices.IndexFunc(s.IPs, func(ip uint64) bool {
			return !slices.ContainsFunc(code, func(m proc.Mapping) bool { return m.Start <= ip && ip <= m.End })
		})
		if n >= 0 {
			list[i].IPs = s.IPs[:n]
			cut++
		}
	}
	return cut
}

// agree compares the kernel's stacks with gdb's, by thread. It returns the number of stacks and of
// equal stacks: every frame is equal, and the stack is whole or marked as truncated.
func agree(t *testing.T, got, want []stack) (all, equal int) {
	t.Helper()
	byThread := map[uint32][]stack{}
	for _, s := range got {
		byThread[s.TID] = append(byThread[s.TID], s)
	}
	shown := 0
	for _, w := range want {
		all++
		list := byThread[w.TID]
		if len(list) == 0 {
			t.Errorf("thread %d: gdb saw a call that the kernel did not", w.TID)
			continue
		}
		g := list[0]
		byThread[w.TID] = list[1:]
		ips, cut := w.IPs, false
		if len(ips) > 64 {
			ips, cut = ips[:64], true
		}
		if slices.Equal(g.IPs, ips) && cut == (g.End == unwind.Deep) {
			equal++
		} else if shown++; shown < 5 {
			t.Logf("stack %d: ended as %v\n got %x\nwant %x", all, g.End, g.IPs, w.IPs)
		}
	}
	return all, equal
}

// against compares the stacks of count calls of a program, which waits for a line, with gdb's. All
// must be equal.
func against(t *testing.T, cmd *exec.Cmd, lib string, count int) {
	t.Helper()
	w := open(t, options{})
	child := testkit.Start(t, cmd)
	child.Line("ready")
	w.probe(t, lib, "traced", "walk_entry")
	w.ready(t, child.PID())
	code, err := proc.FS{}.Code(uint32(child.PID()), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	want := truth(t, child.PID(), func() { child.Send("go") })
	cut := onlyCode(code, want)
	testkit.Eventually(t, "all stacks", func() bool { return len(w.taken()) >= len(want) })
	all, equal := agree(t, w.taken(), want)
	t.Logf("%d of %d stacks are equal, of %s; gdb went astray behind %d", equal, all, depths(want), cut)
	if all < count || equal < all {
		t.Errorf("%d of %d stacks are equal to gdb's", equal, all)
	}
}

// The stacks of many kinds of calls equal gdb's.
func TestAgainstGDB(t *testing.T) {
	const count = 1000
	for _, flags := range []string{
		"-O2 -fomit-frame-pointer", "-O0 -fno-omit-frame-pointer", "-O3 -fomit-frame-pointer -z now -fcf-protection",
		"-Os -fomit-frame-pointer -no-pie", "-O2 -fomit-frame-pointer -s",
	} {
		t.Run(flags, func(t *testing.T) {
			exe, lib := program(t, "calls", strings.Fields(flags)...)
			against(t, exec.Command(exe, fmt.Sprint(count)), lib, count)
		})
	}
}

// Stacks in a container, with its own files and PIDs, equal gdb's.
func TestAgainstGDBInContainer(t *testing.T) {
	const count = 1000
	exe, lib := program(t, "calls", "-O2", "-fomit-frame-pointer")
	root := t.TempDir()
	testkit.ContainerRoot(t, root, map[string]string{"calls": exe, lib: lib})
	against(t, testkit.Container(t, root, "/calls", fmt.Sprint(count)), filepath.Join(root, lib), count)
}

// The deep stacks of an interpreter, with callbacks from C and generators, equal gdb's.
func TestAgainstGDBInPython(t *testing.T) {
	testkit.NeedTool(t, "python3")
	python, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		t.Fatal(err)
	}
	const count = 300
	_, lib := program(t, "calls", "-O2", "-fomit-frame-pointer")
	against(t, exec.Command(strings.TrimSpace(string(python)), "testdata/calls.py", lib, fmt.Sprint(count)), lib, count)
}

// depths describes the depths of stacks.
func depths(list []stack) string {
	sum, most := 0, 0
	for _, s := range list {
		sum += len(s.IPs)
		most = max(most, len(s.IPs))
	}
	return fmt.Sprintf("%d frames on average, %d at most", sum/max(len(list), 1), most)
}
