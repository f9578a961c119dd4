package explain

import (
	"strings"
	"testing"
	"time"

	"ingero/internal/tick"
)

// troubled returns a memory ledger with every problem.
func troubled() tick.Memory {
	return tick.Memory{Used: true, GPU: tick.Held{Count: 1200, Bytes: 14 << 30, Peak: 15 << 30}, Host: tick.Held{Count: 2, Bytes: 1 << 20, Peak: 2 << 20},
		Allocs: 9000, Frees: 7800, DoubleFrees: 3, OOMs: 2,
		LastOOM: tick.OOM{Time: start.UnixNano(), Op: malloc, Size: 1 << 30, Device: 1, Live: 14 << 30, Peak: 15 << 30, Fragmented: true, Holes: 0.12},
		Growth:  tick.Growth{PerMinute: 61 << 20, Low: 60 << 20, High: 63 << 20, Over: int64(10 * time.Minute), Leak: true}}
}

func stateTick() *tick.Tick {
	t := liveTick()
	late := tick.Memory{Used: true, Inexact: tick.InexactAttachedLate, GPU: tick.Held{Count: 1, Bytes: 1 << 20, Peak: 1 << 20}, Allocs: 1}
	at := start.UnixNano()
	t.States = []tick.State{
		{PID: 4821, Memory: troubled(), Held: []tick.Kind{{Kind: tick.MemoryDevice, Device: 1, Held: tick.Held{Count: 1200, Bytes: 14 << 30, Peak: 15 << 30}}},
			Streams: tick.List[tick.Stream]{First: []tick.Stream{{Number: 1, Handle: 0x50, Device: 1, Launches: 7, Last: at}}, All: 1},
			Graphs: tick.List[tick.Graph]{First: []tick.Graph{{Number: 2, Exec: 0xe1, Captured: at, CaptureNS: 5, Cold: true, Instantiated: at, InstantiateNS: 7, Launches: 512, Updates: 2, UpdateFails: 1},
				{Number: 3, Exec: 0xe2, Launches: 1}}, All: 2},
			Comms:  tick.List[tick.Comm]{First: []tick.Comm{{Number: 4, ID: 0xabc, Rank: 0, Ranks: 2, Seq: 7, Last: tick.CommOp{Op: launch, Time: at, Elements: 3}}, {Number: 5, Rank: -1}}, All: 2},
			Copies: []tick.Copy{{Dir: tick.CopyHostToDevice, Host: tick.HostPageable, Count: 3, Bytes: 30, NS: 300}},
			Errors: tick.List[tick.CallError]{First: []tick.CallError{{Op: malloc, Code: 2, Count: 2, First: at, Last: at}}, All: 1}},
		{PID: 4822, Memory: late},
		{PID: 4823, Memory: troubled()}, // it has ended
	}
	return t
}

// A report ends with memory only if there is a problem.
func TestMemoryInReports(t *testing.T) {
	base := func(m map[uint32]tick.Memory) *Input {
		return &Input{From: start, To: start.Add(time.Minute), Processes: []tick.Process{process(4821)}, Ops: liveTick().Ops, Memory: m}
	}
	well := troubled()
	well.DoubleFrees, well.OOMs, well.Growth.Leak = 0, 0, false
	for _, m := range []map[uint32]tick.Memory{nil, {4821: {}}, {4821: well}} {
		if text := Report(base(m), Options{}); strings.Contains(text, "Memory of") {
			t.Errorf("%+v is reported:\n%s", m, text)
		}
	}
	bad := troubled()
	text := Report(base(map[uint32]tick.Memory{4821: bad}), Options{})
	_, got, _ := strings.Cut(text, "Memory of python3 (4821):\n")
	want := `  - GPU memory grows by 61.0 MiB a minute (60.0 MiB to 63.0 MiB, over 10 min
    0 s) and is not freed: 14.0 GiB held now, in 1,200 allocations.
  - 2 allocations failed: out of memory, the last at 14:41:00: cudaMalloc of
    1.00 GiB, while the process held 14.0 GiB on the GPU. The process had held
    as much before (15.0 GiB): the memory is fragmented, or other processes have
    it. 12.0 % of its address range is free.
  - 3 calls freed memory that was already freed.
`
	if !strings.HasPrefix(got, want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	bad.Inexact = tick.InexactAttachedLate | tick.InexactLost
	if text := Report(base(map[uint32]tick.Memory{4821: bad}), Options{}); !strings.Contains(text, "These figures may be inaccurate: its allocations before the attach") {
		t.Errorf("why it may be off is not said:\n%s", text)
	}
}
