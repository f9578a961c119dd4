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

// driverMemory is what the simulated driver itself says it holds, by kind.
type driverMemory struct {
	Live   uint64 `json:"live"`
	Bytes  uint64 `json:"live_bytes"`
	Peak   uint64 `json:"peak_bytes"`
	Allocs uint64 `json:"allocs"`
	Frees  uint64 `json:"frees"`
}

// driverKinds are the driver's names of the kinds that a ledger has.
var driverKinds = map[tick.MemoryKind]string{
	tick.MemoryDevice: "device", tick.MemoryManaged: "managed", tick.MemoryPool: "pool", tick.MemoryPhysical: "vmm",
	tick.MemoryArray: "array", tick.MemoryPinned: "pinned", tick.MemoryRegistered: "registered",
}

// traced says whether the catalog has what allocates and frees a kind.
var traced = map[tick.MemoryKind]string{tick.MemoryPhysical: "cuMemCreate", tick.MemoryArray: "cudaMallocArray", tick.MemoryRegistered: "cudaHostRegister"}

// memoryRows are the rows that make and free memory, and those that choose a device.
func memoryRows() (rows []events.Row) {
	for _, r := range events.Catalog {
		choose := strings.Contains(r.Name, "Device") && r.Has(events.RoleDevice) || strings.Contains(r.Name, "Ctx")
		mem := strings.Contains(r.Name, "Register") || strings.Contains(r.Name, "cuMem") || strings.Contains(r.Name, "Array")
		if r.Class == events.ClassMalloc || r.Class == events.ClassFree || choose || mem && r.Class == events.ClassOther {
			rows = append(rows, r)
		}
	}
	return rows
}

// At every step of a random program with failures and frees in any order, the ledger is
// what the driver itself knows.
func TestMemoryIsTheDriversOwn(t *testing.T) {
	testkit.NeedBPF(t)
	s, err := sim.Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(s.Program("memory"), "--hold", "--ops", "3000", "--ask", "500", "--seed", "11", "--drain")
	cmd.Env = append(os.Environ(), "INGERO_SIM_ZERO=1")
	child := testkit.Start(t, cmd)
	child.Line("ready")
	r := beginWith(t, session.LiveOptions{Probes: probes.Options{Rows: memoryRows()}, Select: selected(child)}, session.Config{Interval: 20 * time.Millisecond})
	r.attached(t)
	child.Say("")
	for range 6 {
		compareMemory(t, r, child)
		child.Say("")
	}
	compareMemory(t, r, child) // all freed
	var end struct {
		Doubles uint64 `json:"double_frees"`
	}
	if err := json.Unmarshal([]byte(child.Line(`{"program"`)), &end); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
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

// differs says how a ledger differs from what the driver knows.
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
		got := map[tick.MemoryKind]tick.Held{}
		for _, h := range s.Held {
			x := got[h.Kind]
			x.Bytes, x.Count, x.Unsized = x.Bytes+h.Bytes, x.Count+h.Count, x.Unsized+h.Unsized
			got[h.Kind] = x
		}
		for kind, name := range driverKinds {
			if _, known := events.OpByName(traced[kind]); traced[kind] != "" && !known {
				continue
			}
			var want driverMemory
			for _, d := range devices {
				want.Live, want.Bytes = want.Live+d[name].Live, want.Bytes+d[name].Bytes
			}
			if h := got[kind]; h.Count != want.Live || h.Unsized == 0 && h.Bytes != want.Bytes {
				return fmt.Sprintf("%s: %+v, the driver has %+v; %+v", name, h, want, s.Memory)
			}
		}
		if why := s.Memory.Inexact &^ tick.InexactLate; why != 0 {
			return fmt.Sprint(why.Reasons())
		}
		return ""
	}
	return "no state"
}
