package unwind

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"

	"ingero/internal/probes"
	"ingero/internal/testkit"
	"ingero/internal/unwind"
)

// compile builds a program of testdata with gcc.
func compile(t testing.TB, out string, args ...string) string {
	t.Helper()
	testkit.NeedTool(t, "gcc")
	cmd := exec.Command("gcc", append([]string{"-o", out}, args...)...)
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, b)
	}
	return out
}

// object compiles walk.bpf.c, once.
var object = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "walk")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	out := filepath.Join(dir, "walk.o")
	arch := map[string]string{"amd64": "x86", "arm64": "arm64"}[runtime.GOARCH]
	cmd := exec.Command("clang-14", "-target", "bpfel", "-D__TARGET_ARCH_"+arch, "-O2", "-g", "-Wall", "-Werror", "-mcpu=v3",
		"-c", "testdata/walk.bpf.c", "-o", out, "-I../../bpf/vmlinux")
	if b, err := cmd.CombinedOutput(); err != nil {
		return nil, errors.New(string(b))
	}
	return os.ReadFile(out)
})

// walker is the loaded program, and its Keeper.
type walker struct {
	*unwind.Keeper
	kernel   probes.Walker
	programs map[string]*ebpf.Program
	walked   *ebpf.Variable
	ns       *ebpf.Variable
	reader   *ringbuf.Reader

	mu     sync.Mutex
	stacks []stack
}

// stack has the result fields of struct walk.
type stack struct {
	TID   uint32
	End   unwind.End
	Exact uint64
	IPs   []uint64
}

type options struct {
	unwind.Options
	quiet bool // output no stacks
}

func open(t testing.TB, o options) *walker {
	t.Helper()
	testkit.NeedBPF(t)
	testkit.NeedTool(t, "clang-14")
	b, err := object()
	if err != nil {
		t.Fatal(err)
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if err := spec.Variables["quiet"].Set(o.quiet); err != nil {
		t.Fatal(err)
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(coll.Close)
	w := &walker{programs: coll.Programs, walked: coll.Variables["walked"], ns: coll.Variables["walked_ns"]}
	if err := coll.Assign(&w.kernel); err != nil {
		t.Fatal(err)
	}
	if w.reader, err = ringbuf.NewReader(coll.Maps["stacks"]); err != nil {
		t.Fatal(err)
	}
	o.Kernel = &w.kernel
	w.Keeper = unwind.NewKeeper(o.Options)
	ctx, stop := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { w.Run(ctx) })
	work.Go(w.read)
	t.Cleanup(func() {
		stop()
		_ = w.reader.Close()
		work.Wait()
	})
	return w
}

func (w *walker) read() {
	for {
		rec, err := w.reader.Read()
		if err != nil {
			return
		}
		s := parse(rec.RawSample)
		w.mu.Lock()
		w.stacks = append(w.stacks, s)
		w.mu.Unlock()
	}
}

// Offsets in struct walk.
const (
	atFrames = 0
	atEnd    = 4
	atExact  = 8
	atIP     = 16
	atTID    = atIP + 64*8 // after the result
)

func parse(b []byte) stack {
	le := binary.LittleEndian
	s := stack{TID: le.Uint32(b[atTID:]), End: unwind.End(le.Uint32(b[atEnd:])), Exact: le.Uint64(b[atExact:])}
	for i := range le.Uint32(b[atFrames:]) {
		s.IPs = append(s.IPs, le.Uint64(b[atIP+8*i:]))
	}
	return s
}

// taken returns the stacks so far.
func (w *walker) taken() []stack {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]stack(nil), w.stacks...)
}

// probe attaches a program to a function of a file, which belongs to the test.
func (w *walker) probe(t testing.TB, path, symbol, program string) {
	t.Helper()
	exe, err := link.OpenExecutable(path)
	if err != nil {
		t.Fatal(err)
	}
	attach := exe.Uprobe
	if strings.HasSuffix(program, "_return") {
		attach = exe.Uretprobe
	}
	l, err := attach(symbol, w.programs[program], nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
}

// ready adds a process and waits until all its mappings have a table.
func (w *walker) ready(t testing.TB, pid int) {
	t.Helper()
	w.Add(uint32(pid))
	testkit.Eventually(t, "the tables of a process", func() bool {
		f := w.Figures()
		return f.Processes > 0 && f.Files > 1 && f.Tables == f.Files
	})
}
