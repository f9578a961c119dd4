package session_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"ingero/internal/probes"
	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
	"ingero/sim"
)

// driverMemory is the simulated driver's own account of memory, by kind.
type driverMemory struct {
	Live   uint64 `json:"live"`
	Bytes  uint64 `json:"live_bytes"`
	Peak   uint64 `json:"peak_bytes"`
	Allocs uint64 `json:"allocs"`
	Frees  uint64 `json:"frees"`
}

// driverKinds maps the tracked kinds to the driver's names.
var driverKinds = map[tick.MemoryKind]string{
	tick.MemoryDevice: "device", tick.MemoryManaged: "managed", tick.MemoryPool: "pool", tick.MemoryPhysical: "vmm",
	tick.MemoryArray: "array", tick.MemoryPinned: "pinned", tick.MemoryRegistered: "registered",
}

// memoryRows returns the rows that allocate and free memory, and those that choose a device.
func memoryRows() (rows []events.Row) {
	for _, r := range events.Catalog {
		switch r.Class {
		case events.ClassMalloc, events.ClassFree, events.ClassMemory, events.ClassDevice:
			rows = append(rows, r)
		}
	}
	return rows
}

// At every step of a random program with failures and frees in any order, the tracked memory equals
// the driver's own account.
func TestMemoryIsTheDriversOwn(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	s, err := sim.Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(s.Program("memory"), "--hold", "--ops", "3000", "--ask", "500", "--seed", "11", "--devices", "2", "--drain")
	cmd.Env = append(os.Environ(), "INGERO_SIM_ZERO=1", "INGERO_SIM_DEVICES=2")
	child := testkit.Start(t, cmd)
	child.Line("ready")
	r := beginWith(t, session.LiveOptions{Probes: probes.Options{Rows: memoryRows()}, Select: pids(child)}, session.Config{Interval: 20 * time.Millisecond})
	child.Send("")
	for range 6 {
		compareMemory(t, r, child)
		child.Send("")
	}
	compareMemory(t, r, child) // all freed
	var end struct {
		Doubles uint64 `json:"double_frees"`
	}
	if err := json.Unmarshal([]byte(child.Line(`{"program"`)), &end); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err != nil {
		t.Error(err)
	}
	r.end(t)
	s0 := r.last.States[0]
	var failed uint64
	for _, e := range s0.Errors.First {
		if e.Op.Row().Class == events.ClassFree {
			failed += e.Count
		}
	}
	if m := s0.Memory; m.DoubleFrees != end.Doubles || end.Doubles == 0 || m.OOMs == 0 || m.LastOOM.Size != 1<<50 || m.UnknownFrees != 0 || m.Released != 0 {
		t.Errorf("%+v, the program freed %d twice", m, end.Doubles)
	} else if failed < end.Doubles {
		t.Errorf("%d frees failed by the errors, %d were second ones", failed, end.Doubles)
	}
}

func compareMemory(t *testing.T, r *running, child *testkit.Child) {
	t.Helper()
	var truth struct{ Devices []map[string]driverMemory }
	line := child.Line(`{"truth"`)
	if err := json.Unmarshal([]byte(line), &truth); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	var off string
	defer func() {
		if t.Failed() {
			t.Log(off)
		}
	}()
	testkit.Eventually(t, "the ledger is the driver's", func() bool {
		off = differs(r, uint32(child.PID()), truth.Devices)
		return off == ""
	})
}

// differs describes the differences between the tracked memory and the driver's account.
func differs(r *running, pid uint32, devices []map[string]driverMemory) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		return "no tick"
	}
	for _, s := range r.last.States {
		if s.PID != pid {
			continue
		}
		got, want := map[tick.Kind]driverMemory{}, map[tick.Kind]driverMemory{}
		add := func(to map[tick.Kind]driverMemory, kind tick.MemoryKind, device int16, count, bytes uint64) {
			if kind.Host() { // host memory has no device
				device = 0
			}
			if kind == tick.MemoryArray { // calls do not have its size
				bytes = 0
			}
			x := to[tick.Kind{Kind: kind, Device: device}]
			x.Live, x.Bytes = x.Live+count, x.Bytes+bytes
			to[tick.Kind{Kind: kind, Device: device}] = x
		}
		for _, h := range s.Held {
			add(got, h.Kind, h.Device, h.Count, h.Bytes)
		}
		for i, d := range devices {
			for kind, name := range driverKinds {
				add(want, kind, int16(i)+1, d[name].Live, d[name].Bytes)
			}
		}
		for k, x := range want {
			if got[k] != x {
				return fmt.Sprintf("%s on device %d: %+v, the driver has %+v; %+v", k.Kind, k.Device-1, got[k], x, s.Memory)
			}
		}
		if why := s.Memory.Inexact &^ tick.InexactAttachedLate; why != 0 {
			return fmt.Sprint(why.Reasons())
		}
		return ""
	}
	return "no state"
}

// program is a program's own account of its calls.
type program struct {
	PID      uint32            `json:"pid"`
	Rank     uint64            `json:"rank"`
	Calls    map[string]uint64 `json:"calls"`
	Launches map[string]uint64 `json:"launches"`
}

// tracked traces a simulated program to its end. It returns the final state and the own account of
// each of its processes.
func tracked(t *testing.T, name string, args ...string) (map[uint32]*tick.State, []program) {
	t.Helper()
	testkit.NeedBPF(t)
	s, err := sim.Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(s.Program(name), append([]string{"--hold"}, args...)...)
	cmd.Env = append(os.Environ(), "INGERO_SIM_KERNEL_NS=1000", "INGERO_SIM_DEVICES=2")
	child := testkit.Start(t, cmd)
	child.Line("ready")
	r := beginWith(t, session.LiveOptions{Probes: probes.Options{Rows: events.Catalog}, Select: pids(child)}, session.Config{Interval: 20 * time.Millisecond})
	child.Send("")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	r.end(t)
	states := map[uint32]*tick.State{}
	for i := range r.last.States {
		states[r.last.States[i].PID] = &r.last.States[i]
	}
	var says []program
	for line := range strings.Lines(child.Stdout()) {
		var p program
		if json.Unmarshal([]byte(line), &p) == nil && p.PID != 0 {
			says = append(says, p)
			if states[p.PID] == nil {
				t.Fatalf("no state of process %d", p.PID)
			}
		}
	}
	if len(says) == 0 {
		t.Fatalf("it says nothing: %s", child.Stdout())
	}
	return states, says
}

// Graphs have the launches, updates and captures that the program made.
func TestGraphsOfAProgram(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args   []string
		graphs int
		cold   bool
	}{
		{nil, 1, false}, {[]string{"--cold"}, 1, true}, {[]string{"--recapture"}, 20, false}, {[]string{"--update"}, 1, false},
	} {
		t.Run(fmt.Sprint(tt.args), func(t *testing.T) {
			states, says := tracked(t, "graph", append(tt.args, "--steps", "20")...)
			s, calls := states[says[0].PID], says[0].Calls
			var launches, captured, updates, destroyed, execs, cold uint64
			for _, g := range s.Graphs.First {
				launches, updates = launches+g.Launches, updates+g.Updates
				for n, is := range map[*uint64]bool{&captured: g.Captured != 0, &destroyed: g.Destroyed != 0 && g.Exec != 0, &execs: g.Exec != 0, &cold: g.Cold} {
					if is {
						*n++
					}
				}
			}
			if launches != calls["cudaGraphLaunch"] || updates != calls["cudaGraphExecUpdate"] || destroyed != calls["cudaGraphExecDestroy"] || captured != calls["cudaStreamBeginCapture"] || execs != uint64(tt.graphs) {
				t.Errorf("%d launches, %d updates, %d destroyed, %d captured, %d executable; the program made %v: %+v", launches, updates, destroyed, captured, execs, calls, s.Graphs)
			}
			if (cold > 0) != tt.cold {
				t.Errorf("%d were captured cold, want %v", cold, tt.cold)
			}
		})
	}
}

// The ranks of a communicator find each other by its id, and count the same operations.
func TestCommsOfAProgram(t *testing.T) {
	t.Parallel()
	states, says := tracked(t, "ddp", "--steps", "10")
	if len(says) != 2 {
		t.Fatalf("%d ranks", len(says))
	}
	var id uint64
	for _, p := range says {
		comms := states[p.PID].Comms
		if comms.All != 1 || len(comms.First) != 1 {
			t.Fatalf("rank %d: %+v", p.Rank, comms)
		}
		c := comms.First[0]
		if c.Seq != p.Calls["ncclAllReduce"] || c.Rank != int32(p.Rank) || c.Ranks != 2 || c.Device != int16(p.Rank)+1 || c.Failed != 0 || c.State != tick.CommDestroyed || c.Began == 0 {
			t.Errorf("rank %d made %d operations: %+v", p.Rank, p.Calls["ncclAllReduce"], c)
		}
		if c.Last.Bytes != 4<<20 || c.Last.Op.String() != "ncclAllReduce" {
			t.Errorf("the last operation: %+v", c.Last)
		}
		if id != 0 && c.ID != id || c.ID == 0 {
			t.Errorf("its id is %x, that of the other rank %x", c.ID, id)
		}
		id = c.ID
	}
}

// Streams and copies are tracked as PyTorch uses them: pinned copies on their own stream, launches
// on another.
func TestStreamsAndCopiesOfAProgram(t *testing.T) {
	t.Parallel()
	states, says := tracked(t, "torch")
	s, calls := states[says[0].PID], says[0].Calls
	var launches, copies, summed uint64
	for _, x := range s.Streams.First {
		launches, copies = launches+x.Launches, copies+x.Copies
		if x.Outstanding != 0 || x.Device != 1 {
			t.Errorf("at the end: %+v", x)
		}
	}
	for _, c := range s.Copies {
		summed += c.Count
	}
	if launches != calls["cudaLaunchKernel"] || copies != calls["cudaMemcpyAsync"] || summed != copies || launches == 0 {
		t.Errorf("%d launches and %d copies (%d by direction), the program made %v", launches, copies, summed, calls)
	}
	if m := s.Memory; m.GPU.Bytes != 0 || m.Frees+m.Released != m.Allocs || m.DoubleFrees+m.UnknownFrees+m.OOMs != 0 {
		t.Errorf("%+v", m)
	}
}
