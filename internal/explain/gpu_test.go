package explain

import (
	"strings"
	"testing"
	"time"

	"ingero/internal/tick"
)

// gpuTick is a second in which a GPU reports faults and another is lost.
func gpuTick() *tick.Tick {
	t := liveTick()
	at := t.Time.Add(-900 * time.Millisecond).UnixNano()
	fault := func(code uint32, after time.Duration, place int, msg string) tick.Xid {
		x := tick.Xid{Time: at + int64(after), Code: code, Bus: "0000:75:00", Via: tick.ViaTracepoint, Burst: 1, At: place, Root: 172, After: after}
		x.SetMessage(msg)
		return x
	}
	hit := fault(13, 1500*time.Microsecond, 3, "pid=4821, name=train.py, Ch 00000008")
	hit.PID, hit.Comm = 4821, "train.py"
	hit.Last = []tick.XidCall{{TID: 4821, Op: streamSyn, Before: 3 * time.Millisecond, Open: true}, {TID: 4821, Op: launch, Before: 4 * time.Millisecond, Duration: 9 * time.Microsecond},
		{TID: 4822, Op: memcpy, Before: 9 * time.Millisecond, Duration: time.Millisecond, Result: 719}, {TID: 4821, Op: launch, Before: 10 * time.Millisecond}}
	gone := tick.Xid{Time: at + 2e6, Code: 20034, Switch: true, Bus: "0000:05:00", Msg: "Fatal, Link 30 LTSSM Fault Up", Via: tick.ViaKernelLog, Injected: true, Burst: 2, At: 1, Root: 20034}
	t.Xids = []tick.Xid{fault(172, 0, 1, "SM ICACHE, Uncorrectable SRAM error in GPC 7 TPC 6"), hit, fault(48, 900*time.Microsecond, 2, "DBE"), gone}
	mib := func(n int64) *int64 { n <<= 20; return &n }
	num := func(n float64) *float64 { return &n }
	mhz, lost := int64(1815e6), int64(3)
	t.GPUs = []tick.GPU{
		{Time: t.Time, Bus: "0000:75:00.0", UUID: "GPU-8a56a4bc", Name: "NVIDIA H200", MemTotal: mib(143771), MemUsed: mib(131072), Busy: num(0.98), ClockSM: &mhz,
			Temperature: num(61), Power: num(688.21), Throttle: []string{"idle", "software power cap", "sync boost"}, ECCLost: &lost},
		{Time: t.Time, Index: 1, Bus: "0000:76:00.0", Name: "NVIDIA A800", MIG: true, MemUsed: mib(12)},
		{Time: t.Time, Index: -1, Bus: "0000:77:00.0", Lost: true},
		{Time: t.Time, Index: 3, Bus: "0000:78:00.0", Throttle: []string{"idle"}},
	}
	return t
}

// The format of a fault is fixed in its first line; its meaning appears once.
func TestXidText(t *testing.T) {
	xids := gpuTick().Xids
	for _, tt := range []struct {
		x      *tick.Xid
		detail bool
		want   string
	}{
		{&xids[0], true, "XID event received: code=172 pci=0000:75:00 msg=SM ICACHE, Uncorrectable SRAM error in GPC 7 TPC 6\n" +
			"    14:41:41.100000 · the first of its burst · warning ·\n    UNCORRECTABLE_SRAM_ERROR\n"},
		{&xids[1], false, "XID event received: code=13 pci=0000:75:00 msg=pid=4821, name=train.py, Ch 00000008\n" +
			"    14:41:41.101500 · 1.50 ms after 172, the root of its burst · warning ·\n    GR_EXCEPTION\n    Hit train.py (4821)\n" +
			"    3.00 ms before: cudaStreamSynchronize in thread 4821, which has not returned\n    4.00 ms before: cudaLaunchKernel in thread 4821, which took 9.00 us\n" +
			"    9.00 ms before: cudaMemcpyAsync in thread 4822, which failed with 719 after\n    1.00 ms\n    10.0 ms before: cudaLaunchKernel in thread 4821\n"},
		{&xids[3], true, "SXID event received: code=20034 pci=0000:05:00 msg=Fatal, Link 30 LTSSM Fault Up\n"},
		{&tick.Xid{Code: 999, Bus: "0000:75:00", SaidPID: 7}, false, "XID event received: code=999 pci=0000:75:00 msg=\n" +
			"    00:00:00.000000\n    Hit process (7): the process has exited, or its PID is ambiguous\n"},
		{&tick.Xid{Code: 94, Bus: "0000:01:00", GPUInstance: tick.Numbered(5), At: 1, Msg: "Contained"}, true, "XID event received: code=94 pci=0000:01:00 GPU-I:05 msg=Contained\n"},
		{&tick.Xid{Code: 45, Bus: "0000:dc:00", At: 2, Root: 149, CausedBy: 149}, false, "caused by 149, according to the driver"},
		{&tick.Xid{Code: 79, Bus: "0000:91:00", At: 1, NoCode: true}, false, "the driver gave no code"},
		{&tick.Xid{Code: 154, Bus: "0000:01:00", At: 1, Msg: "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"}, true, "Do: Reboot the machine."},
		{&tick.Xid{Code: 13, SaidPID: 7, PID: 88, Comm: "x\x1b[2J", Msg: "\x1b]0;evil\a\n"}, false, "Hit x"},
	} {
		got := XidText(tt.x, tt.detail, time.UTC)
		if !strings.Contains(got, tt.want) || strings.ContainsAny(got, "\x1b\a") {
			t.Errorf("%d:\n%s\nwant\n%s", tt.x.Code, got, tt.want)
		}
		if _, rest, _ := strings.Cut(got, "\n"); true {
			narrow(t, rest, reportWidth)
		}
		if means := strings.Contains(got, "Do: "); means != tt.detail {
			t.Errorf("%d: says what to do: %v", tt.x.Code, means)
		}
	}
}

// The live table shows the latest bursts with their roots and sizes, for any number of faults.
func TestSeenFaults(t *testing.T) {
	s := &Seen{}
	for i := range uint64(5) {
		var xids []tick.Xid
		for n := range 2 * maxSeenFaults {
			xids = append(xids, tick.Xid{Burst: i + 1, At: n + 1, Time: int64(i)<<30 + int64(n), After: time.Duration(n), Code: uint32(172 - n), Root: 172, Bus: "0000:75:00"})
		}
		s.Tick(&tick.Tick{Xids: xids})
		s.Tick(&tick.Tick{})
	}
	if len(s.bursts) != lastBursts || len(s.bursts[1]) != maxSeenFaults || s.bursts[1][0].Burst != 5 {
		t.Errorf("%d bursts", len(s.bursts))
	}
	got := Live(liveTick(), s, Options{Width: 200})
	if want := ": XID 172 UNCORRECTABLE_SRAM_ERROR, then 127 more within 127 ns: 171, 170, 169, 168, 167 and 58 other codes"; strings.Count(got, want) != lastBursts {
		t.Errorf("no %q in\n%s", want, got)
	}
}
