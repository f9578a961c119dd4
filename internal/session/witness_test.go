package session_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"ingero/internal/testkit"
)

// witness makes the kernel's tracer record events of a process, or with pid 0 of all. It returns a
// function that returns the events.
func witness(t testing.TB, pid int, tracepoints ...string) func() []seenEvent {
	t.Helper()
	dir := fmt.Sprintf("/sys/kernel/tracing/instances/ingero-%d-%s", os.Getpid(), strings.ReplaceAll(t.Name(), "/", "-"))
	put := func(file, text string) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	testkit.NeedMount(t, os.Mkdir(dir, 0o700))
	t.Cleanup(func() {
		_ = os.WriteFile(filepath.Join(dir, "tracing_on"), []byte("0"), 0o644)
		testkit.Eventually(t, "the witness to go", func() bool { return os.Remove(dir) == nil })
	})
	put("buffer_size_kb", "8192")
	put("trace_clock", "mono")
	for _, p := range tracepoints {
		if pid != 0 {
			put("events/"+p+"/filter", fmt.Sprintf("common_pid == %d", pid))
		}
		put("events/"+p+"/enable", "1")
	}
	return func() (out []seenEvent) {
		put("tracing_on", "0")
		b, err := os.ReadFile(filepath.Join(dir, "trace"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) { // "comm-pid [cpu] flags seconds: name: text"
			for _, p := range tracepoints {
				head, text, found := strings.Cut(line, ": "+filepath.Base(p)+": ")
				if words := strings.Fields(head); found && len(words) > 0 {
					s, err := strconv.ParseFloat(words[len(words)-1], 64)
					if err != nil {
						t.Fatalf("%q: %v", line, err)
					}
					out = append(out, seenEvent{filepath.Base(p), s * 1e9, words[0], strings.TrimSpace(text)})
				}
			}
		}
		return out
	}
}

// seenEvent is an event that the kernel's tracer recorded.
type seenEvent struct {
	name string
	ns   float64
	who  string // comm-pid
	text string
}

// requests returns the number of a process's requests that the tracer saw, and their time. kind is
// a prefix: R for reads, W for writes. hidden counts those that ended in an interrupt of a thread
// of init: some sandboxes' kernels run no programs there.
func requests(seen []seenEvent, who, kind string) (n, hidden uint64, ns float64) {
	begun := map[string]float64{}
	for _, e := range seen {
		words := strings.Fields(e.text) // "254,0 WS ... () sector + sectors ..."
		at := slices.Index(words, "+")
		if at < 1 || !strings.HasPrefix(words[1], kind) {
			continue
		}
		switch began, known := begun[words[at-1]]; {
		case e.name == "block_rq_complete" && known:
			n, ns = n+1, ns+e.ns-began
			if ofInit(e.who) {
				hidden++
			}
			delete(begun, words[at-1])
		case e.name != "block_rq_complete" && e.who == who:
			begun[words[at-1]] = e.ns
		}
	}
	return n, hidden, ns
}

// ofInit reports whether a thread, as comm-pid, is one of init's.
func ofInit(who string) bool {
	tid := who[strings.LastIndexByte(who, '-')+1:]
	b, _ := os.ReadFile("/proc/" + tid + "/status")
	return strings.Contains(string(b), "\nTgid:\t1\n")
}

// memoryGroup makes a cgroup with a memory limit, for a process.
func memoryGroup(t testing.TB, limit int) (dir string, enter func(pid int)) {
	t.Helper()
	return group(t, "memory", map[string]string{"memory.limit_in_bytes": strconv.Itoa(limit), "memory.swappiness": "0"},
		map[string]string{"memory.max": strconv.Itoa(limit), "memory.swap.max": "0"})
}

// group makes a cgroup with settings of a controller, of either version.
func group(t testing.TB, controller string, first, second map[string]string) (dir string, enter func(pid int)) {
	t.Helper()
	root, settings := "/sys/fs/cgroup/"+controller, first
	if _, err := os.Stat(root + "/cgroup.procs"); err != nil {
		root, settings = "/sys/fs/cgroup", second
	}
	dir = filepath.Join(root, fmt.Sprintf("ingero-test-%d-%s", os.Getpid(), t.Name()))
	err := os.Mkdir(dir, 0o755)
	for name, text := range settings {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)
		}
	}
	testkit.NeedKernel(t, fmt.Sprintf("a cgroup with limits (%v)", err), err == nil)
	t.Cleanup(func() {
		testkit.Eventually(t, "the cgroup to be empty", func() bool { return os.Remove(dir) == nil })
	})
	return dir, func(pid int) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// counter reads the number of a key in a cgroup file.
func counter(t testing.TB, path, key string) uint64 {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, key); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(v), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("%s has no %q", path, key)
	return 0
}

// loseOnLoopback drops one packet in n on lo of a process's network namespace.
func loseOnLoopback(t testing.TB, pid int, n int32) {
	t.Helper()
	const drop, pass = 1, 2 // XDP_DROP, XDP_PASS
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "lose", Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{
		asm.FnGetPrandomU32.Call(),
		asm.Mod.Imm32(asm.R0, n),
		asm.JEq.Imm32(asm.R0, 0, "lost"),
		asm.Mov.Imm(asm.R0, pass),
		asm.Return(),
		asm.Mov.Imm(asm.R0, drop).WithSymbol("lost"),
		asm.Return(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = prog.Close() })
	inNamespace(t, pid, func() error {
		lo, err := net.InterfaceByName("lo")
		if err != nil {
			return err
		}
		l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: lo.Index, Flags: link.XDPGenericMode})
		if err == nil {
			t.Cleanup(func() { _ = l.Close() })
		}
		return err
	})
}

// inNamespace runs f in a process's network namespace, on a thread that ends with it.
func inNamespace(t testing.TB, pid int, f func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/net", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Setns(fd, unix.CLONE_NEWNET)
			_ = unix.Close(fd)
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
