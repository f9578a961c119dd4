package python_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"

	"ingero/internal/proc"
	"ingero/internal/python"
	"ingero/internal/testkit"
	"ingero/pkg/events"
	"ingero/sim"
)

// object compiles the walker with its test program.
var object = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "ingero-python-")
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, "walk.o")
	cmd := exec.Command("clang-14", "-target", "bpf", "-D__TARGET_ARCH_x86", "-O2", "-g", "-Wall", "-Werror", "-mcpu=v3",
		"-I../../bpf", "-I../../bpf/vmlinux", "-c", "testdata/walk.bpf.c", "-o", out)
	if b, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, b)
	}
	return out, nil
})

// stack is the output of the kernel's walker for one call.
type stack struct {
	pid, tid, epoch uint32
	arg             uint64 // argument of the call
	end             python.End
	frames          []python.Frame
}

// kernel is the walker attached to one function.
type kernel struct {
	t       testing.TB
	objects *ebpf.Collection
	reader  *ringbuf.Reader
	epoch   uint32
	done    chan struct{}

	mu       sync.Mutex
	stacks   []stack
	seen     func(stack)
	known    map[uint32]*python.Process
	reported []python.CodeRecord
	bad      []error
}

// load loads the walker. edit may change its spec before.
func load(t testing.TB, edit func(*ebpf.CollectionSpec)) *ebpf.Collection {
	t.Helper()
	testkit.NeedBPF(t)
	testkit.NeedTool(t, "clang-14")
	path, err := object()
	if err != nil {
		t.Fatal(err)
	}
	spec, err := ebpf.LoadCollectionSpec(path)
	if err != nil {
		t.Fatal(err)
	}
	if edit != nil {
		edit(spec)
	}
	objects, err := ebpf.NewCollection(spec)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(objects.Close)
	return objects
}

// watch attaches the walker to a function of a library.
func watch(t testing.TB, objects *ebpf.Collection, lib, symbol string) *kernel {
	t.Helper()
	k := &kernel{t: t, objects: objects, done: make(chan struct{}), known: map[uint32]*python.Process{}}
	var err error
	if k.reader, err = ringbuf.NewReader(objects.Maps["call_ring"]); err != nil {
		t.Fatal(err)
	}
	keep := func(l link.Link, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
	}
	for _, name := range []string{"walk_fork", "walk_exec", "walk_exit"} {
		keep(link.AttachTracing(link.TracingOptions{Program: objects.Programs[name]}))
	}
	x, err := link.OpenExecutable(lib)
	if err != nil {
		t.Fatal(err)
	}
	keep(x.Uprobe(symbol, objects.Programs["walk_probe"], nil))
	go k.read()
	t.Cleanup(func() {
		_ = k.reader.Close()
		<-k.done
	})
	return k
}

func (k *kernel) read() {
	defer close(k.done)
	for {
		r, err := k.reader.Read()
		if err != nil {
			k.mu.Lock()
			defer k.mu.Unlock()
			if !errors.Is(err, ringbuf.ErrClosed) {
				k.bad = append(k.bad, err)
			}
			return
		}
		k.take(r.RawSample)
	}
}

func (k *kernel) take(b []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	le := binary.LittleEndian
	if b[0] != 0 { // 0 is a stack of testdata/walk.bpf.c
		reported, err := python.ParseCodeRecord(b)
		if err != nil {
			k.bad = append(k.bad, err)
			return
		}
		k.reported = append(k.reported, reported)
		return
	}
	s := stack{pid: le.Uint32(b[4:]), tid: le.Uint32(b[8:]), arg: le.Uint64(b[16:])}
	walk := b[24:]
	s.epoch, s.end = le.Uint32(walk), python.End(le.Uint32(walk[8:]))
	frames := walk[len(walk)-16*python.MaxFrames:]
	for i := range le.Uint32(walk[4:]) {
		f := frames[16*i:]
		s.frames = append(s.frames, python.Frame{Code: le.Uint64(f), Mark: le.Uint32(f[8:]), Instr: int32(le.Uint32(f[12:]))})
	}
	if k.seen != nil {
		k.seen(s)
		return
	}
	k.stacks = append(k.stacks, s)
}

// each passes stacks to fn as they arrive, and does not keep them.
func (k *kernel) each(fn func(stack)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen = fn
}

func (k *kernel) all() []stack {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.stacks)
}

// find finds the interpreter of a process.
func find(t testing.TB, pid int) (*python.Process, python.Target) {
	t.Helper()
	mem, err := (proc.FS{}).Memory(uint32(pid), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mem.Close() })
	target := python.Target{PID: uint32(pid), Memory: mem}
	p, err := python.Find(target)
	if err != nil {
		t.Fatalf("%s: %v", python.Reason(err), err)
	}
	return p, target
}

// tell sends a process's facts to the kernel.
func (k *kernel) tell(pid int, p *python.Process) {
	k.t.Helper()
	k.epoch++
	p.Facts.Epoch = k.epoch
	if err := k.objects.Maps["py_processes"].Put(uint32(pid), p.Facts); err != nil {
		k.t.Fatal(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known[uint32(pid)] = p
}

// codes returns a Codes with all records received so far. Their processes may have ended.
func (k *kernel) codes() *python.Codes {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := python.NewCodes(64<<20, func(pid uint32) (python.Reader, func(), error) {
		m, err := (proc.FS{}).Memory(pid, time.Now())
		if err != nil {
			return nil, nil, err
		}
		return m, func() { _ = m.Close() }, nil
	})
	for pid, p := range k.known {
		c.Know(pid, p)
	}
	for _, x := range k.reported {
		c.Learn(x)
	}
	return c
}

// cudart extracts the simulated runtime.
func cudart(t testing.TB) string {
	t.Helper()
	s, err := sim.Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s.Libcudart
}

// shown returns the frames that Python itself shows, as text.
func shown(frames []python.PyFrame) []string {
	var out []string
	for _, f := range frames {
		switch {
		case f.Hidden:
		case f.Frame.Kind != events.FramePython:
			out = append(out, f.Frame.Func)
		default:
			out = append(out, testkit.PythonLine(f.Frame.Func, f.Frame.File, int(f.Frame.Line)))
		}
	}
	return out
}

// childrenOf lists the children of a process.
func childrenOf(pid int) ([]int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil, err
	}
	var out []int
	for s := range strings.FieldsSeq(string(b)) {
		n, err := strconv.Atoi(s)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

// wait waits for n stacks.
func (k *kernel) wait(n int) {
	k.t.Helper()
	defer func() {
		if k.t.Failed() {
			var ends [8]uint64
			err := k.objects.Variables["ends"].Get(&ends)
			k.t.Logf("%d stacks of %d, %d code objects, ends %v %v, %v", len(k.all()), n, len(k.reported), ends, err, k.bad)
		}
	}()
	testkit.Eventually(k.t, "all stacks", func() bool { return len(k.all()) >= n })
}
