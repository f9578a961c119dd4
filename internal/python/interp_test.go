package python_test

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/cilium/ebpf"

	"ingero/internal/testkit"
)

// BenchmarkWalk measures what a walk adds to a call: the probe alone, and stacks of several depths.
func BenchmarkWalk(b *testing.B) {
	lib := loopLib(b)
	const program = `import ctypes, sys
loop = ctypes.PyDLL(sys.argv[1]).loop
loop.restype = ctypes.c_long
def deep(n, calls): return deep(n - 1, calls) if n else loop(calls)
print("ready", flush=True)
for l in sys.stdin:
    depth, calls = map(int, l.split())
    print("took", deep(depth - 2, calls), flush=True)`
	for _, version := range testkit.PythonVersions(b) {
		for _, depth := range []int{0, 10, 30} {
			b.Run(fmt.Sprintf("%s/%d", version, depth), func(b *testing.B) { benchmarkWalk(b, version, program, lib, depth) })
		}
	}
}

// benchmarkWalk measures the CPU time of b.N calls. Depth 0 is an interpreter that the kernel does
// not know.
func benchmarkWalk(b *testing.B, version, program, lib string, depth int) {
	k := watch(b, load(b, func(s *ebpf.CollectionSpec) {
		if err := s.Variables["put_out"].Set(false); err != nil {
			b.Fatal(err)
		}
	}), lib, "probed")
	c := testkit.Start(b, exec.Command(testkit.NeedPython(b, version), "-c", program, lib))
	c.Line("ready")
	if depth > 0 {
		p, _ := find(b, c.PID())
		k.tell(c.PID(), p)
	}
	c.Send(fmt.Sprint(max(depth, 2), " ", b.N))
	var ns int
	if _, err := fmt.Sscanf(c.Line("took"), "took %d", &ns); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(ns)/1000, "cpu-ns/call")
}
