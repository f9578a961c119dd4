package xid

import (
	"fmt"
	"testing"
	"time"

	"ingero/internal/tick"
)

func fault(code uint32, bus string, at time.Duration, via tick.XidVia, msg string) tick.Xid {
	x := tick.Xid{Code: code, Bus: bus, Time: int64(at) + 1e18, Via: via}
	x.SetMessage(msg)
	return x
}

// In any order of codes, the first fault is the root of its burst, and each fault has its place and
// distance from it.
func TestGroupPermutations(t *testing.T) {
	for _, codes := range [][3]uint32{{172, 48, 13}, {172, 13, 48}, {48, 172, 13}, {48, 13, 172}, {13, 172, 48}, {13, 48, 172}} {
		t.Run(fmt.Sprint(codes), func(t *testing.T) {
			var b Bursts
			var all []tick.Xid
			for i := range 1000 {
				bus := []string{"0000:75:00", "0000:76:00"}[i%2]
				all = append(all, fault(codes[i/2%3], bus, time.Duration(i)*time.Microsecond, tick.ViaKernelLog, ""))
			}
			// Their order within a call does not matter.
			for i := 0; i+1 < len(all); i += 7 {
				all[i], all[i+1] = all[i+1], all[i]
			}
			b.Group(all)
			last := map[string]int{}
			for i := range all {
				x := &all[i]
				if x.Root != codes[0] || x.At != last[x.Bus]+1 || x.After != time.Duration(i/2*2)*time.Microsecond {
					t.Fatalf("fault %d: %+v", i, x)
				}
				last[x.Bus] = x.At
			}
			if all[0].Burst == all[1].Burst || all[0].Burst+all[1].Burst != 3 {
				t.Errorf("two devices have the bursts %d and %d", all[0].Burst, all[1].Burst)
			}
		})
	}
}

// A burst ends after a quiet time, or at its maximum length.
func TestGroupEnds(t *testing.T) {
	var b Bursts
	number := func(at time.Duration) uint64 {
		x := []tick.Xid{fault(13, "0000:75:00", at, tick.ViaKernelLog, "")}
		b.Group(x)
		return x[0].Burst
	}
	for _, step := range []struct {
		at   time.Duration
		want uint64
	}{{0, 1}, {5 * time.Second, 1}, {10*time.Second + 1, 2}, {15 * time.Second, 2}} {
		if got := number(step.at); got != step.want {
			t.Errorf("at %v: burst %d, want %d", step.at, got, step.want)
		}
	}
	for at := 20 * time.Second; at <= 70*time.Second; at += 5 * time.Second {
		number(at)
	}
	if got := number(75 * time.Second); got != 3 {
		t.Errorf("after a minute: burst %d, want 3", got)
	}
}

// A fault that comes by tracepoint and log counts once, in either order. Equal faults count as
// often as they were reported. Each fault that a program wrote counts.
func TestTwins(t *testing.T) {
	const bus = "0000:75:00"
	long := "pid=7, name=x, " + string(make([]byte, 600))
	tests := []struct {
		name string
		xids []tick.Xid
		want int
	}{
		{"tracepoint first", []tick.Xid{fault(48, bus, 0, tick.ViaTracepoint, "a"), fault(48, bus, 1e6, tick.ViaKernelLog, "a")}, 1},
		{"log first", []tick.Xid{fault(48, bus, 1e6, tick.ViaKernelLog, "a"), fault(48, bus, 0, tick.ViaTracepoint, "a")}, 1},
		{"cut short", []tick.Xid{fault(48, bus, 0, tick.ViaTracepoint, long[:471]), fault(48, bus, 0, tick.ViaKernelLog, long)}, 1},
		{"other message", []tick.Xid{fault(48, bus, 0, tick.ViaTracepoint, "a"), fault(48, bus, 0, tick.ViaKernelLog, "b")}, 2},
		{"other code", []tick.Xid{fault(48, bus, 0, tick.ViaTracepoint, "a"), fault(13, bus, 0, tick.ViaKernelLog, "a")}, 2},
		{"other GPU", []tick.Xid{fault(48, bus, 0, tick.ViaTracepoint, "a"), fault(48, "0000:76:00", 0, tick.ViaKernelLog, "a")}, 2},
		{"much later", []tick.Xid{fault(48, bus, 0, tick.ViaTracepoint, "a"), fault(48, bus, time.Minute, tick.ViaKernelLog, "a")}, 2},
		{"the same way", []tick.Xid{fault(48, bus, 0, tick.ViaKernelLog, "a"), fault(48, bus, 0, tick.ViaKernelLog, "a")}, 2},
	}
	injected := fault(48, bus, 0, tick.ViaKernelLog, "a")
	injected.Injected = true
	tests = append(tests, struct {
		name string
		xids []tick.Xid
		want int
	}{"a program's", []tick.Xid{fault(48, bus, 0, tick.ViaTracepoint, "a"), injected}, 2})
	var both []tick.Xid
	for i := range 1000 { // the log lacks every tenth
		x := fault(172, bus, time.Duration(i)*time.Microsecond, tick.ViaTracepoint, "SM ICACHE")
		both = append(both, x)
		if x.Via = tick.ViaKernelLog; i%10 != 0 {
			both = append(both, x)
		}
	}
	tests = append(tests, struct {
		name string
		xids []tick.Xid
		want int
	}{"many alike", both, 1000})
	storm := []tick.Xid{fault(48, bus, 0, tick.ViaTracepoint, "a"), fault(48, bus, 0, tick.ViaKernelLog, "a")}
	for i := range maxTwins + 1 {
		storm = append(storm, fault(uint32(1000+i), bus, 0, tick.ViaTracepoint, "a"))
	}
	tests = append(tests, struct {
		name string
		xids []tick.Xid
		want int
	}{"a pair, then more than can wait", storm, maxTwins + 2})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var twins Twins
			n := 0
			for i := range tt.xids {
				if twins.First(&tt.xids[i]) {
					n++
				}
			}
			if n != tt.want {
				t.Errorf("%d faults, want %d", n, tt.want)
			}
		})
	}
}

// The number of faults that wait for a second report is bounded.
func TestTwinsAreBounded(t *testing.T) {
	var twins Twins
	for i := range 3 * maxTwins {
		x := fault(uint32(i%100), "0000:75:00", time.Duration(i), tick.ViaTracepoint, fmt.Sprint(i))
		twins.First(&x)
	}
	if n := len(twins.waiting); n > 100 || twins.n > maxTwins {
		t.Errorf("%d kinds and %d faults are kept", n, twins.n)
	}
}

// The state of bursts is bounded however many devices have faults, and each fault is in a burst of
// its own device.
func TestBurstsAreBounded(t *testing.T) {
	var b Bursts
	for i := range 3 * maxDevices {
		xs := []tick.Xid{fault(48, fmt.Sprintf("%08x:75:00", i), time.Duration(i), tick.ViaKernelLog, "a"), fault(13, fmt.Sprintf("%08x:75:00", i), time.Duration(i)+1, tick.ViaKernelLog, "a")}
		if b.Group(xs); xs[0].Burst != uint64(i+1) || xs[1].Root != 48 || xs[1].At != 2 {
			t.Fatalf("device %d: %+v", i, xs)
		}
	}
	if n := len(b.open); n > maxDevices {
		t.Errorf("%d devices are kept", n)
	}
}
