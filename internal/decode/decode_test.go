package decode

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"ingero/internal/bpf"
	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

func raw[T any](v *T) []byte {
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))...)
}

// Flags and kinds have the same values in C and Go.
func TestFlagsAgreeWithTheKernel(t *testing.T) {
	for _, p := range []struct {
		c    bpf.IngeroCallFlags
		goes events.CallFlags
	}{
		{bpf.IngeroCallFlagsCALL_NESTED, events.CallNested},
		{bpf.IngeroCallFlagsCALL_UNMEASURED, events.CallUnmeasured},
		{bpf.IngeroCallFlagsCALL_FAILED, events.CallFailed},
		{bpf.IngeroCallFlagsCALL_LEDGER_PARTIAL, events.CallLedgerPartial},
		{bpf.IngeroCallFlagsCALL_GAP_PARTIAL, events.CallGapPartial},
		{bpf.IngeroCallFlagsCALL_ARGS_PARTIAL, events.CallArgsPartial},
		{bpf.IngeroCallFlagsCALL_UNSEEN, events.CallUnseen},
	} {
		if uint16(p.c) != uint16(p.goes) {
			t.Errorf("%v: kernel %d, Go %d", p.c, p.c, p.goes)
		}
	}
	for c, g := range map[bpf.IngeroTake]events.Take{
		bpf.IngeroTakeTAKE_NONE: events.TakeNone, bpf.IngeroTakeTAKE_SLOT: events.TakeSlot,
		bpf.IngeroTakeTAKE_CONST: events.TakeConst, bpf.IngeroTakeTAKE_PRODUCT: events.TakeProduct,
		bpf.IngeroTakeTAKE_OUT: events.TakeOut, bpf.IngeroTakeTAKE_DIM3: events.TakeDim3,
		bpf.IngeroTakeTAKE_PACK3: events.TakePack3, bpf.IngeroTakeTAKE_MEM: events.TakeMem,
		bpf.IngeroTakeTAKE_MEM_DIM3: events.TakeMemDim3, bpf.IngeroTakeTAKE_MEM_PRODUCT: events.TakeMemProduct,
		bpf.IngeroTakeTAKE_MEM_VOLUME: events.TakeMemVolume, bpf.IngeroTakeTAKE_PAIR: events.TakePair,
	} {
		if uint8(c) != uint8(g) {
			t.Errorf("take %v: kernel %d, Go %d", c, c, g)
		}
	}
}

func TestHistogramsAgreeWithTheKernel(t *testing.T) {
	if n := len(bpf.IngeroCounts{}.Hist); n != stats.HistBuckets {
		t.Errorf("the kernel's histogram has %d buckets, Go's %d", n, stats.HistBuckets)
	}
}

func TestCall(t *testing.T) {
	clock := Clock{Offset: 1000}
	full := bpf.IngeroCallRecord{
		Kind: uint8(bpf.IngeroRecordKindRECORD_CALL), WeightLog2: 3 | 2<<stackLevel, Op: 0x0121, Flags: 4,
		Tgid: 10, Tid: 11, StartNs: 5, Arg: [4]uint64{1, 2, 3, 4}, Tag: 9,
		Gap: 100, GapOnCpu: 60, GapRunnable: 30, DurationNs: 1000, OnCpu: 700, Runnable: 200, Result: -1, Stack: 7,
	}
	long := full
	long.Flags = uint16(bpf.IngeroCallFlagsCALL_SHIFT | bpf.IngeroCallFlagsCALL_SHIFT_GAP)
	long.DurationNs = 10 << 30
	longer := long // two hours
	longer.Flags |= uint16(bpf.IngeroCallFlagsCALL_SHIFT_MORE | bpf.IngeroCallFlagsCALL_SHIFT_MORE_GAP)
	longer.DurationNs = 7200e9
	unmeasured := full
	unmeasured.Flags, unmeasured.Other = uint16(bpf.IngeroCallFlagsCALL_UNMEASURED|bpf.IngeroCallFlagsCALL_NESTED), 0x0101
	for _, tt := range []struct {
		name string
		in   []byte
		want events.Call
		err  error
	}{
		{"measured", raw(&full), events.Call{Start: 1005, Duration: 1000, OnCPU: 700, Runnable: 200, Blocked: 100,
			Gap: 100, GapOnCPU: 60, GapRunnable: 30, GapBlocked: 10, Args: [4]uint64{1, 2, 3, 4}, PID: 10, TID: 11,
			Tag: 9, Result: -1, Weight: 8, Stack: 7, StackLevel: 2, Op: 0x0121, Flags: events.CallFailed}, nil},
		{"long", raw(&long), events.Call{Start: 1005, Duration: 10 << 30, OnCPU: 700 << 10, Runnable: 200 << 10,
			Blocked: 10<<30 - 900<<10, Gap: 100 << 10, GapOnCPU: 60 << 10, GapRunnable: 30 << 10, GapBlocked: 10 << 10,
			Args: [4]uint64{1, 2, 3, 4}, PID: 10, TID: 11, Tag: 9, Result: -1, Weight: 8, Stack: 7, StackLevel: 2, Op: 0x0121}, nil},
		{"longer", raw(&longer), events.Call{Start: 1005, Duration: 7200e9, OnCPU: 700 << 20, Runnable: 200 << 20,
			Blocked: 7200e9 - 900<<20, Gap: 100 << 20, GapOnCPU: 60 << 20, GapRunnable: 30 << 20, GapBlocked: 10 << 20,
			Args: [4]uint64{1, 2, 3, 4}, PID: 10, TID: 11, Tag: 9, Result: -1, Weight: 8, Stack: 7, StackLevel: 2, Op: 0x0121}, nil},
		{"unmeasured has no times", raw(&unmeasured), events.Call{Start: 1005, Args: [4]uint64{1, 2, 3, 4}, PID: 10,
			TID: 11, Tag: 9, Weight: 8, Stack: 7, StackLevel: 2, Op: 0x0121, Parent: 0x0101, Flags: events.CallUnmeasured | events.CallNested}, nil},
		{"unmeasured and short", raw(&unmeasured)[:unmeasuredSize], events.Call{Start: 1005, Args: [4]uint64{1, 2, 3, 4},
			PID: 10, TID: 11, Tag: 9, Weight: 8, Stack: 7, StackLevel: 2, Op: 0x0121, Parent: 0x0101, Flags: events.CallUnmeasured | events.CallNested}, nil},
		{"measured but short", raw(&full)[:unmeasuredSize], events.Call{}, ErrRecord},
		{"too short", raw(&full)[:10], events.Call{}, ErrRecord},
		{"empty", nil, events.Call{}, ErrRecord},
		{"another kind", append([]byte{99}, raw(&full)[1:]...), events.Call{}, ErrRecord},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Calls(nil, tt.in, clock)
			if !errors.Is(err, tt.err) {
				t.Fatalf("error = %v, want %v", err, tt.err)
			}
			want := []events.Call{tt.want}
			if err != nil {
				want = nil
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("call (-want +got):\n%s", diff)
			}
		})
	}
}

// An outermost call other than a launch has the number of launches before it, and whether a graph is
// among them.
func TestLaunchesBeforeACall(t *testing.T) {
	for _, tt := range []struct {
		flags bpf.IngeroCallFlags
		want  events.Call
	}{
		{0, events.Call{Launches: 24}},
		{bpf.IngeroCallFlagsCALL_GRAPHS, events.Call{Launches: 24, Flags: events.CallGraphs}},
		{bpf.IngeroCallFlagsCALL_NO_GRAPHS, events.Call{Launches: 24, Flags: events.CallNoGraphs}},
		{bpf.IngeroCallFlagsCALL_NESTED, events.Call{Parent: 24}},
		{bpf.IngeroCallFlagsCALL_FOLDED, events.Call{}},
	} {
		rec := bpf.IngeroCallRecord{Kind: uint8(bpf.IngeroRecordKindRECORD_CALL), Op: 0x0141, Other: 24, Flags: uint16(tt.flags)}
		got, err := Calls(nil, raw(&rec), Clock{})
		if err != nil || got[0].Launches != tt.want.Launches || got[0].Parent != tt.want.Parent || got[0].Flags&(events.CallGraphs|events.CallNoGraphs) != tt.want.Flags {
			t.Errorf("flags %d: %+v, %v", tt.flags, got, err)
		}
	}
}

// A record may contain two launches: the runtime's, and the driver's inside it, whose times are
// unknown.
func TestFoldedLaunch(t *testing.T) {
	rec := bpf.IngeroCallRecord{
		Kind: uint8(bpf.IngeroRecordKindRECORD_CALL), WeightLog2: 1, Op: 0x0101, Other: 0x0201,
		Flags: uint16(bpf.IngeroCallFlagsCALL_FOLDED), Tgid: 10, Tid: 11, StartNs: 5,
		Arg: [4]uint64{1, 2, 3, 4}, Tag: 9, DurationNs: 1000, OnCpu: 1000,
	}
	got, err := Calls(nil, raw(&rec), Clock{})
	if err != nil {
		t.Fatal(err)
	}
	outer := events.Call{Start: 5, Duration: 1000, OnCPU: 1000, Args: rec.Arg, PID: 10, TID: 11, Tag: 9, Weight: 2, Op: 0x0101}
	inner := events.Call{Start: 5, Args: rec.Arg, PID: 10, TID: 11, Tag: 9, Weight: 2, Op: 0x0201, Parent: 0x0101,
		Flags: events.CallNested | events.CallUnmeasured | events.CallInherited}
	if diff := cmp.Diff([]events.Call{outer, inner}, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// textBytes returns a text record with this string, and this size in its header.
func textBytes(text string, size uint32) []byte {
	rec := bpf.IngeroTextRecord{Kind: uint8(bpf.IngeroRecordKindRECORD_TEXT), Op: 0x02a5, Tgid: 10, Tid: 11, Size: size, TimeNs: 5}
	return append(raw(&rec), text...)
}

func TestTexts(t *testing.T) {
	long := strings.Repeat("x", events.MaxText)
	for _, tt := range []struct {
		name string
		in   []byte
		want string
		cut  bool
		err  error
	}{
		{"text", textBytes("_Z3addPf\x00rest", 9), "_Z3addPf", false, nil},
		{"empty", textBytes("\x00", 1), "", false, nil},
		{"longest", textBytes(long+"\x00", events.MaxText+1), long, false, nil},
		{"cut", textBytes(long+"y\x00", events.MaxText+2), long, true, nil},
		{"no UTF-8", textBytes("a\xff\xfeb\x00", 5), "a?b", false, nil},
		{"ends before its size", textBytes("ab\x00cd\x00", 6), "ab", false, nil},
		{"no end", textBytes("", 0), "", false, ErrRecord},
		{"more than the record", textBytes("ab\x00", 4), "", false, ErrRecord},
		{"more than the bound", textBytes(long+"yz\x00", events.MaxText+3), "", false, ErrRecord},
		{"head cut off", textBytes("ab\x00", 3)[:20], "", false, ErrRecord},
		{"another kind", append([]byte{1}, textBytes("ab\x00", 3)[1:]...), "", false, ErrRecord},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Texts(nil, tt.in, Clock{Offset: 1000})
			if !errors.Is(err, tt.err) {
				t.Fatalf("error = %v, want %v", err, tt.err)
			}
			want := []events.Text{{Time: 1005, Text: tt.want, PID: 10, TID: 11, Op: 0x02a5, Cut: tt.cut}}
			if err != nil {
				want = nil
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzTexts(f *testing.F) {
	f.Add(textBytes("name\x00", 5))
	f.Fuzz(func(t *testing.T, b []byte) {
		texts, err := Texts(nil, b, Clock{})
		if err == nil && (len(texts) != 1 || len(texts[0].Text) > events.MaxText || !utf8.ValidString(texts[0].Text)) {
			t.Errorf("texts %+v", texts)
		}
	})
}

func TestProc(t *testing.T) {
	rec := bpf.IngeroProcRecord{Kind: uint8(bpf.IngeroRecordKindRECORD_FORK), Tgid: 1, Tid: 2, Peer: 3, TimeNs: 4}
	for i, ch := range "a\xffb" {
		rec.Comm[i] = int8(ch)
	}
	got, err := Proc(raw(&rec), Clock{Offset: 6})
	if err != nil {
		t.Fatal(err)
	}
	want := tick.ProcEvent{Time: 10, Kind: tick.ProcForked, PID: 1, TID: 2, Peer: 3, Comm: got.Comm}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("process event (-want +got):\n%s", diff)
	}
	for name, b := range map[string][]byte{"short": raw(&rec)[:39], "kind": append([]byte{1}, raw(&rec)[1:]...)} {
		if _, err := Proc(b, Clock{}); !errors.Is(err, ErrRecord) {
			t.Errorf("%s: error = %v, want %v", name, err, ErrRecord)
		}
	}
}

func FuzzCall(f *testing.F) {
	rec := bpf.IngeroCallRecord{Kind: 1, Flags: 0x302, StartNs: 1 << 62}
	f.Add(raw(&rec))
	f.Fuzz(func(t *testing.T, b []byte) {
		calls, err := Calls(nil, b, Clock{Offset: 1})
		if err != nil {
			return
		}
		c := calls[0]
		if c.Weight == 0 || c.Blocked < 0 || c.GapBlocked < 0 {
			t.Errorf("call %+v", c)
		}
		if want := int64(binary.LittleEndian.Uint64(b[16:])) + 1; c.Start != want {
			t.Errorf("start = %d, want %d", c.Start, want)
		}
	})
}

func FuzzProc(f *testing.F) {
	f.Add(make([]byte, 40))
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := Proc(b, Clock{}); err == nil && e.Kind == 0 {
			t.Errorf("event %+v has no kind", e)
		}
	})
}

func BenchmarkCalls(b *testing.B) {
	rec := bpf.IngeroCallRecord{Kind: 1, DurationNs: 5000, OnCpu: 5000}
	in := raw(&rec)
	calls := make([]events.Call, 0, 2)
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if calls, err = Calls(calls[:0], in, Clock{}); err != nil {
			b.Fatal(err)
		}
	}
}

// The converted clock is between readings of the wall clock.
func TestNow(t *testing.T) {
	const near = 10 * time.Millisecond // allows for a step or slew of the wall clock
	c, err := Now()
	if err != nil {
		t.Fatal(err)
	}
	var mono unix.Timespec
	before := time.Now()
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono); err != nil {
		t.Fatal(err)
	}
	after := time.Now()
	if at := time.Unix(0, c.Wall(uint64(mono.Nano()))); at.Before(before.Add(-near)) || at.After(after.Add(near)) {
		t.Errorf("a reading between %v and %v is at %v", before, after, at)
	}
}

// The wall clock is ahead by what it was set since.
func TestAhead(t *testing.T) {
	const near = 10 * time.Millisecond
	c, err := Now()
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []time.Duration{0, time.Hour, -time.Hour} {
		before := Clock{Offset: c.Offset - int64(step)}
		if got := before.Ahead(); (got - step).Abs() > near {
			t.Errorf("ahead by %v, want %v", got, step)
		}
	}
	if slept := Slept(); slept < 0 {
		t.Errorf("the machine slept for %v", slept)
	}
}
