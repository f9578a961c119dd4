package unwind

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"

	"ingero/internal/proc"
	"ingero/internal/testkit"
	"ingero/internal/unwind"
)

var optimized = []string{"-O2", "-fomit-frame-pointer"}

func TestMain(m *testing.M) {
	testkit.ContainerMain()
	os.Exit(m.Run())
}

// program builds testdata/NAME.c with its library.
func program(t testing.TB, name string, flags ...string) (exe, lib string) {
	t.Helper()
	dir := t.TempDir()
	with := append([]string{"-w", "-mavx"}, flags...)
	lib = compile(t, filepath.Join(dir, "libcalls.so"), append(with, "-shared", "-fPIC", "testdata/lib.c")...)
	exe = compile(t, filepath.Join(dir, name), append(with, "testdata/"+name+".c", "-L"+dir, "-lcalls", "-Wl,-rpath,"+dir, "-lpthread", "-ldl")...)
	return exe, lib
}

// run starts testdata/more.c with a mode and its argument, the last of args, and waits for its
// tables.
func run(t testing.TB, o options, args ...string) (*walker, *testkit.Child) {
	t.Helper()
	exe, lib := program(t, "more", optimized...)
	w := open(t, o)
	child := testkit.Start(t, exec.Command(exe, args...))
	child.Line("ready")
	w.probe(t, lib, "traced", "walk_entry")
	w.ready(t, child.PID())
	return w, child
}

// finish lets a program run to its end and returns its stacks.
func finish(t testing.TB, w *walker, child *testkit.Child, want int) []stack {
	t.Helper()
	child.Send("go")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the stacks", func() bool { return len(w.taken()) >= want })
	return w.taken()
}

// A stack has up to 64 frames, and is marked if there are more.
func TestDeep(t *testing.T) {
	for _, c := range []struct {
		depth, frames int
		end           unwind.End
	}{{10, 14, unwind.Done}, {60, 64, unwind.Done}, {61, 64, unwind.Deep}, {5000, 64, unwind.Deep}} {
		t.Run(fmt.Sprint(c.depth), func(t *testing.T) {
			w, child := run(t, options{}, "deep", fmt.Sprint(c.depth))
			s := finish(t, w, child, 1)[0]
			if len(s.IPs) != c.frames || s.End != c.end {
				t.Errorf("%d frames, %v; want %d, %v", len(s.IPs), s.End, c.frames, c.end)
			}
		})
	}
}

// A stack ends at code generated at run time: its caller is not guessed.
func TestJIT(t *testing.T) {
	w, child := run(t, options{}, "jit", "")
	child.Send("go")
	testkit.Eventually(t, "a stack", func() bool { return len(w.taken()) == 1 })
	// The code was mapped after the tables were made, so it may be unknown.
	if s := w.taken()[0]; len(s.IPs) > 1 || s.End != unwind.JIT && s.End != unwind.NoMapping {
		t.Errorf("%x, %v", s.IPs, s.End)
	}
}

// A library that is loaded later is found through table misses.
func TestLoad(t *testing.T) {
	dir := t.TempDir()
	late := compile(t, filepath.Join(dir, "late.so"), append(slices.Clone(optimized), "-w", "-shared", "-fPIC", "-Dthrough_library=through_late", "testdata/lib.c")...)
	w, child := run(t, options{}, "load", late)
	child.Send("go")
	testkit.Eventually(t, "a whole stack", func() bool {
		w.Check()
		list := w.taken()
		return len(list) > 0 && list[len(list)-1].End == unwind.Done
	})
	list := w.taken()
	if first := list[0]; first.End != unwind.NoMapping {
		t.Errorf("the first stack: %v", first.End)
	}
	cut := 0
	for _, s := range list {
		if s.End != unwind.Done {
			cut++
		}
	}
	t.Logf("%d of %d stacks were cut before it was known", cut, len(list))
}

// The stacks of a child are whole from its first call on.
func TestFork(t *testing.T) {
	const children = 30
	w, child := run(t, options{}, "fork", fmt.Sprint(children))
	l, err := link.AttachTracing(link.TracingOptions{Program: w.programs["walk_fork"]})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	list := finish(t, w, child, children)
	for _, s := range list {
		if s.End != unwind.Done || !slices.Equal(s.IPs, list[0].IPs) {
			t.Errorf("%x, %v; the first child's: %x", s.IPs, s.End, list[0].IPs)
		}
	}
}

// A process that overwrites its own stack gets no address that is not code, and is not harmed.
func TestScribble(t *testing.T) {
	const count = 50
	w, child := run(t, options{}, "scribble", fmt.Sprint(count))
	code, err := proc.FS{}.Code(uint32(child.PID()), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	ends := map[unwind.End]int{}
	for _, s := range finish(t, w, child, count) {
		ends[s.End]++
		for _, ip := range s.IPs {
			if !slices.ContainsFunc(code, func(m proc.Mapping) bool { return m.Start < ip && ip <= m.End }) {
				t.Errorf("%#x is no code", ip)
			}
		}
	}
	t.Logf("%v", ends)
	if ends[unwind.Done] == count {
		t.Error("nothing was written over")
	}
}

// A stack at a function's return equals that at its entry.
func TestReturn(t *testing.T) {
	exe, lib := program(t, "calls", optimized...)
	w := open(t, options{})
	child := testkit.Start(t, exec.Command(exe, "300"))
	child.Line("ready")
	w.probe(t, lib, "traced", "walk_entry")
	w.probe(t, lib, "traced", "walk_return")
	w.ready(t, child.PID())
	list := finish(t, w, child, 600)
	open := map[uint32]*stack{}
	pairs := 0
	for i, s := range list {
		entry := open[s.TID]
		if entry == nil {
			open[s.TID] = &list[i]
			continue
		}
		pairs++
		if !slices.Equal(entry.IPs, s.IPs) || entry.End != s.End {
			t.Errorf("at entry %x, %v; at return %x, %v", entry.IPs, entry.End, s.IPs, s.End)
		}
		delete(open, s.TID)
	}
	if pairs < 300 || len(open) != 0 {
		t.Errorf("%d returns, %d calls without", pairs, len(open))
	}
}

// Return addresses that the kernel has replaced for another tool's return probes are restored: the
// stacks are the same as without those probes.
func TestTrampolines(t *testing.T) {
	testkit.NeedTool(t, "setarch")
	exe, lib := program(t, "calls", optimized...)
	var stacks [2][]stack
	for i := range stacks {
		w := open(t, options{})
		child := testkit.Start(t, exec.Command("setarch", "-R", exe, "300")) // with fixed addresses
		child.Line("ready")
		w.probe(t, lib, "traced", "walk_entry")
		if i == 1 {
			other := open(t, options{quiet: true})
			for _, name := range []string{"through_library", "through_sort"} {
				other.probe(t, lib, name, "walk_return")
			}
			other.probe(t, exe, "main", "walk_return")
		}
		w.ready(t, child.PID())
		stacks[i] = finish(t, w, child, 300)
	}
	if len(stacks[0]) != len(stacks[1]) {
		t.Fatalf("%d and %d stacks", len(stacks[0]), len(stacks[1]))
	}
	for i, s := range stacks[0] {
		if with := stacks[1][i]; !slices.Equal(s.IPs, with.IPs) || s.End != with.End {
			t.Errorf("stack %d: %x, %v; with return probes %x, %v", i, s.IPs, s.End, with.IPs, with.End)
		}
	}
}

// If one of several tables cannot be put, none is.
func TestPutTables(t *testing.T) {
	w := open(t, options{})
	table := func(object uint32) unwind.ObjectTable {
		return unwind.ObjectTable{Object: object, Words: make([]uint32, 16)}
	}
	for name, c := range map[string]struct {
		last uint32 // object
		has  bool
	}{"all can be put": {unwind.MaxObjects - 1, true}, "the last cannot": {unwind.MaxObjects, false}} {
		t.Run(name, func(t *testing.T) {
			err := w.kernel.PutTables([]unwind.ObjectTable{table(7), table(c.last)})
			var id uint32
			if has := w.kernel.Tables.Lookup(uint32(7), &id) == nil; has != c.has || (err == nil) != c.has {
				t.Errorf("the first table is there: %v, want %v; error: %v", has, c.has, err)
			}
			_ = w.kernel.DropTable(7)
		})
	}
}

// A stack ends at a file without a table. That is a miss only if the file can have a table.
func TestMisses(t *testing.T) {
	for name, c := range map[string]struct {
		object uint32
		misses uint64
	}{"not loaded": {unwind.MaxObjects - 1, 1}, "never": {1<<32 - 1, 0}} {
		t.Run(name, func(t *testing.T) {
			w, child := run(t, options{}, "deep", "1")
			const slot, id = unwind.MaxSpaces - 1, 1 << 40
			all := []unwind.Mapping{{End: 1 << 47, Object: c.object}}
			if err := errors.Join(w.kernel.PutMappings(slot, id, all), w.kernel.SetSpace(uint32(child.PID()), slot, id)); err != nil {
				t.Fatal(err)
			}
			before := w.kernel.Misses()
			s := finish(t, w, child, 1)[0]
			if misses := w.kernel.Misses() - before; s.End != unwind.NoTable || len(s.IPs) != 1 || misses != c.misses {
				t.Errorf("%d frames, %v, %d misses; want 1, %v, %d", len(s.IPs), s.End, misses, unwind.NoTable, c.misses)
			}
		})
	}
}
