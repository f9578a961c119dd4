package explain

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/testkit"
	"ingero/internal/wire"
	"ingero/pkg/events"
)

func samples() []events.Call {
	at := start.UnixNano() + 123_456_789
	return []events.Call{
		{Start: at, PID: 4821, TID: 4830, Op: launch, Duration: 5200, OnCPU: 5200, Weight: 1, Gap: 30_000, GapOnCPU: 29_000, GapRunnable: 600, GapBlocked: 400, GapStack: 9,
			Args: [4]uint64{0x55aa, 0x7f00, events.PackDim3(1, 2, 3), events.PackDim3(256, 1, 1)}, Tag: 1024},
		{Start: at, PID: 4821, TID: 4830, Op: cuLaunch, Parent: launch, Weight: 1, Args: [4]uint64{0x55aa, 0x7f00, events.PackDim3(1, 2, 3), events.PackDim3(256, 1, 1)}, Tag: 1024,
			Flags: events.CallNested | events.CallUnmeasured | events.CallInherited},
		{Start: at, PID: 4821, TID: 4821, Op: memcpy, Duration: 2*ms + 300_000, OnCPU: 300_000, Runnable: ms, Blocked: ms, Weight: 8,
			Args: [4]uint64{4096, 0x1000, 0x2000, 0}, Tag: 1},
		{Start: at, PID: 4821, TID: 4821, Op: memcpy, Duration: 5 * ms, Runnable: ms, Weight: 1, Gap: 9, GapRunnable: 2, Args: [4]uint64{4096, 0, 0x2000, 0x7}, Tag: 77,
			Flags: events.CallLedgerPartial | events.CallGapPartial | events.CallArgsPartial},
		{Start: at, PID: 4821, TID: 4821, Op: malloc, Duration: 90_000, OnCPU: 90_000, Weight: 1, Args: [4]uint64{1 << 40, 0xdead}, Result: 2, Flags: events.CallFailed},
		{Start: at, PID: 4821, TID: 4821, Op: cuAlloc, Duration: 70_000, OnCPU: 70_000, Weight: 1, Args: [4]uint64{1 << 20, 0x7f0000000000}},
		{Start: at, PID: 4821, TID: 4821, Op: testkit.Op("cuMemcpyDtoH"), Duration: 70_000, OnCPU: 70_000, Weight: 1, Args: [4]uint64{16, 1, 2}, Tag: 2, Result: -5, Flags: events.CallFailed},
		{Start: at, PID: 1, TID: 1, Op: 0x01ff, Weight: 1, Flags: events.CallUnmeasured},
	}
}

func TestAppendCallJSON(t *testing.T) {
	var b []byte
	for _, c := range samples() {
		n := len(b)
		b = AppendCallJSON(b, &c, "python3", "")
		fits[wire.CallLine](t, b[n:])
		b = append(b, '\n')
	}
	testkit.Golden(t, "calls.json", string(b))
}

// fits checks that a line has the JSON form of T: no other members, and those that T requires.
func fits[T any](t *testing.T, line []byte) {
	t.Helper()
	var v T
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Errorf("%v: %s", err, line)
		return
	}
	again, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var want, got map[string]any
	if err := errors.Join(json.Unmarshal(line, &want), json.Unmarshal(again, &got)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%T differs from its line (-line +type):\n%s", v, diff)
	}
}

func TestAppendCallLine(t *testing.T) {
	var b []byte
	for _, c := range samples() {
		b = append(AppendCallLine(b, &c, "python3", "", cet), '\n')
	}
	testkit.Golden(t, "calls.txt", string(b))
}

// Unknown fields of a call are absent, and known ones are exact to the nanosecond.
func TestCallJSONFields(t *testing.T) {
	keys := func(c events.Call) map[string]any {
		var out map[string]any
		if err := json.Unmarshal(AppendCallJSON(nil, &c, "", ""), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	timed := []string{"duration_ns", "duration", "result", "on_cpu_ns", "runnable_ns", "blocked_ns"}
	gap := []string{"gap_ns", "gap_on_cpu_ns", "gap_runnable_ns", "gap_blocked_ns"}
	s := samples()
	for _, tt := range []struct {
		name          string
		call          events.Call
		with, without []string
	}{
		{"timed", s[0], append(timed, gap...), []string{"parent", "weight", "error", "comm", "inherited"}},
		{"inherited", s[1], []string{"parent", "inherited"}, append(timed, gap...)},
		{"first", s[2], append(timed, "weight"), append(gap, "gap_partial", "parent")},
		{"partial", s[3], []string{"ledger_partial", "gap_partial", "args_partial", "runnable_ns", "gap_runnable_ns"},
			[]string{"on_cpu_ns", "blocked_ns", "gap_on_cpu_ns", "gap_blocked_ns"}},
		{"failed", s[4], append(timed, "error"), gap},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := keys(tt.call)
			for _, k := range tt.with {
				if _, ok := got[k]; !ok {
					t.Errorf("%s is absent", k)
				}
			}
			for _, k := range tt.without {
				if v, ok := got[k]; ok {
					t.Errorf("%s is %v, though unknown", k, v)
				}
			}
		})
	}
	at, err := time.Parse(time.RFC3339Nano, keys(s[0])["timestamp"].(string))
	if err != nil || at.UnixNano() != s[0].Start {
		t.Errorf("timestamp = %v (%v), want that of %d", at, err, s[0].Start)
	}
	if arg := keys(s[4])["args"].(map[string]any); arg["devPtr"] != nil || arg["size"] != float64(1<<40) {
		t.Errorf("args of a failed call = %v: what it did not write is no value", arg)
	}
	if arg := keys(s[1])["args"].(map[string]any); arg["func"] != "0x55aa" || arg["f"] != nil {
		t.Errorf("args of an inherited call = %v, want those of its parent", arg)
	}
}

// Every kept value has a unique name and an explicit format: number or pointer.
func TestArgsOfEveryRow(t *testing.T) {
	pointers := " fn userData launchParamsList addr callback config devlist domain extMem extMem_out extSemArray handle hCtx hNode location mapInfoList memHandle node " +
		"osHandle pGraphNode phCtx phGraphNode shareableHandle signalDescs state stateOut uuid win " // parameters without a role
	for i := range events.Catalog {
		r := &events.Catalog[i]
		seen := map[string]bool{}
		values := append(r.Keep[:len(r.Keep):len(r.Keep)], r.Tag)
		for i, a := range args[r.Op] {
			role, _ := events.SplitRole(values[i])
			if seen[a.name] || strings.ContainsAny(a.name, "+|=:") {
				t.Errorf("%s: the name %q is taken twice, or no name", r.Name, a.name)
			}
			seen[a.name] = true
			if a.kind == argPointer && role == events.RoleNone && !strings.Contains(pointers, " "+a.name+" ") {
				t.Errorf("%s: %s is shown as a pointer; if it is a number, it belongs in argNumbers, else here", r.Name, a.name)
			}
		}
		c := events.Call{Op: r.Op, Weight: 1}
		fits[wire.CallLine](t, AppendCallJSON(nil, &c, "x", ""))
	}
}

func FuzzCallJSON(f *testing.F) {
	f.Add("py\"th\\on\x00\xff", uint16(0x0101), uint16(0xffff), int64(-1), uint64(1<<63))
	f.Fuzz(func(t *testing.T, comm string, op, flags uint16, n int64, arg uint64) {
		c := events.Call{Op: events.Op(op), Parent: launch, Flags: events.CallFlags(flags), Start: n >> 2, Duration: n, OnCPU: n, Runnable: n, Blocked: n,
			Gap: n, Args: [4]uint64{arg, arg, arg, arg}, Tag: uint32(arg), Result: int32(n), Weight: uint32(arg)}
		var out map[string]any
		if b := AppendCallJSON(nil, &c, comm, ""); json.Unmarshal(b, &out) != nil {
			t.Errorf("no JSON: %s", b)
		}
		if line := AppendCallLine(nil, &c, comm, "", nil); strings.ContainsAny(string(line), "\n\x1b") {
			t.Errorf("more than a line: %q", line)
		}
	})
}

func BenchmarkAppendCallJSON(b *testing.B) {
	c := samples()[0]
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendCallJSON(buf[:0], &c, "python3", "")
	}
}

// Formatting a call does not allocate.
func TestCallJSONDoesNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 4096)
	for _, c := range samples()[:6] {
		if n := testing.AllocsPerRun(100, func() { buf = AppendCallJSON(buf[:0], &c, "python3", "") }); n != 0 {
			t.Errorf("%s: %v allocations", c.Op, n)
		}
	}
}
