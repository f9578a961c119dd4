package sim

import (
	"encoding/json"
	"strings"
	"testing"

	"ingero/internal/testkit"
)

// memoryTruth is one line of the simulated driver's own count of its memory.
type memoryTruth struct {
	Truth   int64
	Devices []map[string]struct {
		LiveBytes int64 `json:"live_bytes"`
		PeakBytes int64 `json:"peak_bytes"`
		Live      int64
		Allocs    int64
		Frees     int64
	}
}

// family maps functions to families of simMemory.
var family = map[string]string{
	"cudaMalloc": "device", "cudaMallocPitch": "device", "cudaMalloc3D": "device", "cuMemAlloc_v2": "device",
	"cudaMallocAsync": "pool", "cudaMallocFromPoolAsync": "pool", "cudaMallocManaged": "managed",
	"cudaMallocArray": "array", "cuMemCreate": "vmm", "cudaMallocHost": "pinned", "cudaHostAlloc": "pinned",
	"cuMemAllocHost_v2": "pinned", "cudaHostRegister": "registered",
}

// The calls and the driver's count agree, whatever fails.
func TestMemoryTruth(t *testing.T) {
	s := extract(t)
	for _, tt := range []struct {
		name string
		args []string
	}{
		{"plain", []string{"--ops", "20000"}},
		{"two devices", []string{"INGERO_SIM_DEVICES=2", "--ops", "20000", "--devices", "2", "--seed", "2"}},
		{"planned failures", []string{"INGERO_SIM_FAIL=cudaMalloc:5+=2,cuMemAllocAsync:9=2,cuMemCreate:3=2", "--ops", "5000"}},
		{"hardly any memory", []string{"INGERO_SIM_MEM=32M", "--ops", "20000", "--size", "8388608"}},
		{"no mistakes", []string{"--ops", "20000", "--mistakes", "0", "--drain"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := append(tt.args, "--every", "1000")
			if !strings.Contains(args[0], "=") {
				args = append([]string{"INGERO_SIM_ZERO=1"}, args...)
			}
			cmd := s.command("memory", args...)
			c := testkit.Start(t, cmd)
			c.CloseStdin()
			if err := c.Wait(); err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSpace(c.Stdout()), "\n")
			var end struct {
				Live, Wrong   int64
				Calls, Failed map[string]int64
			}
			decode(t, lines[len(lines)-1], &end)
			if end.Wrong != 0 {
				t.Errorf("%d calls had another outcome than they must", end.Wrong)
			}
			for _, line := range lines[:len(lines)-1] {
				var m memoryTruth
				decode(t, line, &m)
				checkTruth(t, m)
			}
			var last memoryTruth
			decode(t, lines[len(lines)-2], &last)
			want := map[string]int64{}
			for fn, f := range family {
				want[f] += end.Calls[fn] - end.Failed[fn]
			}
			var live int64
			for f, n := range want {
				var got int64
				for _, d := range last.Devices {
					got += d[f].Allocs
					live += d[f].Live
				}
				if got != n {
					t.Errorf("the driver counts %d allocations of %s, the program made %d", got, f, n)
				}
			}
			if live != end.Live {
				t.Errorf("the driver holds %d allocations, the program %d", live, end.Live)
			}
		})
	}
}

func decode(t *testing.T, line string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(line), v); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
}

// checkTruth checks that the families add up to the device.
func checkTruth(t *testing.T, m memoryTruth) {
	t.Helper()
	for i, d := range m.Devices {
		var bytes, live int64
		for _, f := range []string{"device", "pool", "managed", "array", "vmm"} {
			bytes += d[f].LiveBytes
			live += d[f].Live
		}
		if d["all"].LiveBytes != bytes || d["all"].Live != live {
			t.Errorf("after %d: device %d holds %+v, its families %d bytes in %d", m.Truth, i, d["all"], bytes, live)
		}
		for name, f := range d {
			if f.Allocs-f.Frees != f.Live || f.PeakBytes < f.LiveBytes {
				t.Errorf("after %d: %s of device %d does not add up: %+v", m.Truth, name, i, f)
			}
		}
	}
}

// With --ask the program waits after each line, so that a test can look at the same moment.
func TestMemoryAsks(t *testing.T) {
	s := extract(t)
	c := testkit.Start(t, s.command("memory", "--ops", "30", "--ask", "10"))
	for _, want := range []string{`{"truth":10,`, `{"truth":20,`, `{"truth":30,`} {
		c.Line(want)
		if strings.Contains(c.Stdout(), `"program"`) {
			t.Fatal("it did not wait for the line")
		}
		c.Send("")
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}

// The driver works without the runtime, with a module from a file, and mistakes return the right
// errors.
func TestAdvanced(t *testing.T) {
	s := extract(t)
	got := s.result(t, "advanced", "--rounds", "3", "--threads", "2")
	want(t, got, map[string]int64{"errors": 6})
	wantCounts(t, got, "calls", map[string]int64{"cuLaunchKernel": 7, "cuMemAlloc_v2": 20, "cuMemFree_v2": 21, "cuModuleLoad": 1})
	wantCounts(t, got, "failed", map[string]int64{"cuMemFree_v2": 2, "cuMemAlloc_v2": 1, "cuLaunchKernel": 1})
	wantCounts(t, got, "launches", map[string]int64{"vecAdd": 6})
	want(t, s.result(t, "advanced", "--no-errors"), map[string]int64{"errors": 0})

	c := testkit.Start(t, s.command("advanced", "--module", s.Program("no.cubin")))
	if err := c.Wait(); err == nil || !strings.Contains(c.Stderr(), "cuModuleLoad: error 301") {
		t.Errorf("without a module: %v, %q", err, c.Stderr())
	}
}

// wantCounts compares some numbers of an object inside a result.
func wantCounts(t *testing.T, got counts, key string, expect map[string]int64) {
	t.Helper()
	inner, ok := got[key].(map[string]any)
	if !ok {
		t.Fatalf("no %s in %v", key, got)
	}
	want(t, counts(inner), expect)
}
