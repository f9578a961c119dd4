package session_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
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

// memoryRows are the rows that make and free memory, and those that choose a device.
func memoryRows() (rows []events.Row) {
	for _, r := range events.Catalog {
		switch r.Class {
		case events.ClassMalloc, events.ClassFree, events.ClassMemory, events.ClassDevice:
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
	cmd := exec.Command(s.Program("memory"), "--hold", "--ops", "3000", "--ask", "500", "--seed", "11", "--devices", "2", "--drain")
	cmd.Env = append(os.Environ(), "INGERO_SIM_ZERO=1", "INGERO_SIM_DEVICES=2")
	child := testkit.Start(t, cmd)
	child.Line("ready")
	r := beginWith(t, session.LiveOptions{Probes: probes.Options{Rows: memoryRows()}, Select: pids(child)}, session.Config{Interval: 20 * time.Millisecond})
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
		got, want := map[tick.Kind]driverMemory{}, map[tick.Kind]driverMemory{}
		add := func(to map[tick.Kind]driverMemory, kind tick.MemoryKind, device int16, count, bytes uint64) {
			if kind.Host() { // it is no device's
				device = 0
			}
			if kind == tick.MemoryArray { // of which calls do not tell the size
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
		if why := s.Memory.Inexact &^ tick.InexactLate; why != 0 {
			return fmt.Sprint(why.Reasons())
		}
		return ""
	}
	return "no state"
}
