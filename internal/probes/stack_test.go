package probes_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/decode"
	"ingero/internal/probes"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/internal/unwind"
	"ingero/pkg/events"
)

// stackCaller starts the program that calls from a known depth, traced. It returns the addresses
// from which the driver's function and the runtime's are called, and that of its function spin.
func stackCaller(t *testing.T, o probes.Options) (tr *probes.Tracer, child *testkit.Child, library []uint64, spin uint64) {
	t.Helper()
	testkit.NeedBPF(t)
	testkit.NeedTool(t, "gcc")
	dir := t.TempDir()
	object, program := filepath.Join(dir, "libstack.so"), filepath.Join(dir, "stack")
	for _, args := range [][]string{
		{"gcc", "-O1", "-fno-omit-frame-pointer", "-shared", "-fPIC", "-o", object, "testdata/stack_lib.c"},
		{"gcc", "-O1", "-fno-omit-frame-pointer", "-o", program, "testdata/stack.c", "-L" + dir, "-lstack", "-Wl,-rpath," + dir},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	o.Rows = libraryRows(testkit.OpRows("cudaMalloc", "cuMemAlloc"))
	tr = tracer(t, o)
	child = testkit.Start(t, exec.Command(program))
	library = addresses(t, child.Line("ready "))
	if err := tr.Trace(uint32(child.PID()), probes.Target{}); err != nil {
		t.Fatal(err)
	}
	attach(t, tr, object, events.LibCudart)
	if o.Stacks != probes.StacksNone {
		keepTables(t, tr, child.PID())
	}
	return tr, child, library[:2], library[2]
}

// keepTables gives the kernel unwind tables of all that a process has mapped.
func keepTables(t *testing.T, tr *probes.Tracer, pid int) {
	t.Helper()
	k := unwind.NewKeeper(unwind.Options{Kernel: tr.Walker()})
	ctx, stop := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { k.Run(ctx) })
	t.Cleanup(func() {
		stop()
		work.Wait()
	})
	k.Add(uint32(pid))
	testkit.Eventually(t, "the tables of a process", func() bool {
		f := k.Figures()
		return f.Processes > 0 && f.Files > 1 && f.Tables == f.Files
	})
}

// addresses parses the addresses of a line, after its first word.
func addresses(t *testing.T, line string) (ips []uint64) {
	t.Helper()
	for _, s := range strings.Fields(line)[1:] {
		ip, err := strconv.ParseUint(s, 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		ips = append(ips, ip)
	}
	return ips
}

// callFrom makes the program call, and returns the program's own list of return addresses,
// innermost first.
func callFrom(t *testing.T, child *testkit.Child, what string, depth, times int) []uint64 {
	t.Helper()
	child.Send(fmt.Sprintf("%s %d %d", what, depth, times))
	return addresses(t, child.Line("called "))
}

// drained decodes the records that have arrived.
func drained(t *testing.T, tr *probes.Tracer) (b tick.Batch, stacks map[uint32]*tick.RawStack) {
	t.Helper()
	tr.Drain(1<<30, func(record []byte) {
		if err := decode.Record(&b, record, decode.Clock{}); err != nil {
			t.Error(err)
		}
	})
	stacks = map[uint32]*tick.RawStack{}
	for i := range b.RawStacks {
		s := &b.RawStacks[i]
		if stacks[s.ID] != nil {
			t.Errorf("stack %d was put out twice", s.ID)
		}
		stacks[s.ID] = s
	}
	return b, stacks
}

// Each call has the stack that the program itself saw, at its return and at its entry, even if
// return probes have changed the stack; and it is emitted once.
func TestStacks(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		for _, entry := range []bool{false, true} {
			t.Run(string(mode)+"/entry="+strconv.FormatBool(entry), func(t *testing.T) {
				tr, child, library, _ := stackCaller(t, probes.Options{Mode: mode, EntryOnly: entry, Stacks: probes.StacksAll})
				for _, depth := range []int{0, 3, 20, 200} {
					const times = 5
					want := append(slices.Clone(library), callFrom(t, child, "call", depth, times)...)
					b, stacks := drained(t, tr)
					maps.DeleteFunc(stacks, func(_ uint32, s *tick.RawStack) bool { return s.Own }) // of its waits for input
					if len(b.Calls) != 2*times || len(stacks) != 2 {
						t.Fatalf("depth %d: %d calls and %d stacks, want %d and 2", depth, len(b.Calls), len(stacks), 2*times)
					}
					for i := range b.Calls {
						c := &b.Calls[i]
						s, of := stacks[c.Stack], want
						if c.Op.String() == "cudaMalloc" {
							of = want[1:]
						}
						if s == nil {
							t.Fatalf("%v has no stack", c.Op)
						}
						of = of[:min(len(of), len(s.IPs)-1)]
						if d := cmp.Diff(of, s.IPs[1:1+len(of)]); d != "" || len(of) < min(depth+2, 60) {
							t.Fatalf("depth %d, %v: %d frames (-want +got):\n%s", depth, c.Op, len(s.IPs), d)
						}
						if end := unwind.End(s.End); (end == unwind.Deep) != (depth > 64) || (end == unwind.Done) != (depth < 60) {
							t.Errorf("depth %d: it ends: %v", depth, end)
						}
					}
				}
				if n := dropped(t, tr)["stack-left-out"]; n > 0 {
					t.Errorf("%d were left out", n)
				}
			})
		}
	}
}

// sampledStacks makes the program call, and returns the number of calls with a stack, and the
// number that these stand for.
func sampledStacks(t *testing.T, tr *probes.Tracer, child *testkit.Child, what string, depth, times int) (taken, weight uint64) {
	t.Helper()
	callFrom(t, child, what, depth, times)
	b, _ := drained(t, tr)
	for i := range b.Calls {
		if c := &b.Calls[i]; c.Stack != 0 && c.Op.String() == "cudaMalloc" {
			taken++
			weight += c.StackWeight()
		}
	}
	return taken, weight
}

// By default, the first calls from a site and failed calls have stacks.
func TestStackPolicy(t *testing.T) {
	t.Parallel()
	tr, child, _, _ := stackCaller(t, probes.Options{Stacks: probes.StacksSlow})
	for depth := range 5 {
		// If others happen to have both of its places, one waits for a moment.
		testkit.Eventually(t, fmt.Sprintf("a stack of the first calls from depth %d", depth), func() bool {
			n, _ := sampledStacks(t, tr, child, "call", depth, 1)
			return n == 1
		})
	}
	if n, _ := sampledStacks(t, tr, child, "fail", 1, 100); n != 100 {
		t.Errorf("%d stacks of 100 calls that failed", n)
	}
}

// A call after a long computation has the stack of that.
func TestStackOfTheGap(t *testing.T) {
	t.Parallel()
	tr, child, _, spin := stackCaller(t, probes.Options{Stacks: probes.StacksSlow})
	const codeBytes = 128 // more than spin has
	seen := map[uint32]*tick.RawStack{}
	testkit.Eventually(t, "a call with the stack of the computation before it", func() bool {
		if err := tr.Threads(func(uint32, *probes.ThreadState, uint64) {}); err != nil { // the clocks start
			t.Fatal(err)
		}
		callFrom(t, child, "call", 0, 1)
		callFrom(t, child, "spin", 0, 1)
		b, stacks := drained(t, tr)
		maps.Copy(seen, stacks)
		found := false
		for i := range b.Calls {
			c := &b.Calls[i]
			if c.GapStack == 0 {
				continue
			}
			found = true
			if s := seen[c.GapStack]; s == nil || !slices.ContainsFunc(s.IPs, func(ip uint64) bool { return ip-spin < codeBytes }) {
				t.Fatalf("the stack %+v is not in the function at %#x", s, spin)
			}
			if c.Op.String() != "cudaMalloc" || c.GapOnCPU < int64(10*time.Millisecond) {
				t.Fatalf("%v after %v on a CPU has one", c.Op, time.Duration(c.GapOnCPU))
			}
		}
		return found
	})
}

// A computation in a file whose table is never loaded has a stack, too: the frames as far as known.
func TestStackOfTheGapWithoutTable(t *testing.T) {
	t.Parallel()
	tr, child, _, spin := stackCaller(t, probes.Options{Stacks: probes.StacksSlow})
	const slot, id = unwind.MaxSpaces - 1, 1 << 40
	all := []unwind.Mapping{{End: 1 << 47, Object: 1<<32 - 1}}
	if err := tr.Walker().PutMappings(slot, id, all); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "a stack of the computation", func() bool {
		err := tr.Walker().SetSpace(uint32(child.PID()), slot, id)                                         // again, since the keeper sets its own
		if err := errors.Join(err, tr.Threads(func(uint32, *probes.ThreadState, uint64) {})); err != nil { // the clocks start
			t.Fatal(err)
		}
		callFrom(t, child, "spin", 0, 1)
		_, stacks := drained(t, tr)
		for _, s := range stacks {
			if s.Own && len(s.IPs) == 1 && s.IPs[0]-spin < 128 && unwind.End(s.End) == unwind.NoTable {
				return true
			}
		}
		return false
	})
}

// Without a policy there are no stacks.
func TestNoStacks(t *testing.T) {
	t.Parallel()
	tr, child, _, _ := stackCaller(t, probes.Options{})
	callFrom(t, child, "fail", 1, 10)
	b, stacks := drained(t, tr)
	if len(b.Calls) != 20 || len(stacks) > 0 {
		t.Errorf("%d calls, %d stacks", len(b.Calls), len(stacks))
	}
	for i := range b.Calls {
		if b.Calls[i].Stack != 0 {
			t.Errorf("%v has stack %d", b.Calls[i].Op, b.Calls[i].Stack)
		}
	}
}
