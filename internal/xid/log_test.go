package xid

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// domain returns a PCI domain that no machine has, which identifies the faults of one test.
func domain() string { return fmt.Sprintf("%08x", 0x10000000+rand.Uint32N(1<<28)) }

// say writes a line to the kernel's log. Each line has a file of its own, since the kernel limits a
// file to ten lines in five seconds.
func say(t testing.TB, line string) {
	t.Helper()
	f, err := os.OpenFile(LogPath, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(line + "\n")
		err = errors.Join(err, f.Close())
	}
	testkit.NeedKernel(t, fmt.Sprintf("a log that can be written (%v)", err), err == nil)
}

// open opens the kernel's log, and ends its reader after the test.
func open(t *testing.T, history bool) *Log {
	t.Helper()
	testkit.NeedRoot(t)
	var mono, wall unix.Timespec
	if err := errors.Join(unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono), unix.ClockGettime(unix.CLOCK_REALTIME, &wall)); err != nil {
		t.Fatal(err)
	}
	l, err := OpenLog(LogPath, history, wall.Nano()-mono.Nano())
	testkit.NeedKernel(t, fmt.Sprintf("a log that can be read (%v)", err), err == nil)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// reader collects the faults of a domain.
type reader struct {
	mu   sync.Mutex
	xids []tick.Xid
	done chan error
}

func read(l *Log, domain string) *reader {
	r := &reader{done: make(chan error, 1)}
	go func() {
		for {
			xs, err := l.Next(nil, true)
			r.mu.Lock()
			for _, x := range xs {
				if strings.HasPrefix(x.Bus, domain) {
					r.xids = append(r.xids, x)
				}
			}
			r.mu.Unlock()
			if err != nil {
				r.done <- err
				return
			}
		}
	}()
	return r
}

func (r *reader) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.xids)
}

// A burst of 1,000 lines in the kernel's log is read without loss and in order. Other lines are
// skipped.
func TestLogBurst(t *testing.T) {
	testkit.KernelLog(t, false)
	l, d := open(t, false), domain()
	r := read(l, d)
	const n = 1000
	for i := range n {
		code := []int{172, 48, 13}[i%3]
		say(t, fmt.Sprintf("NVRM: Xid (PCI:%s:75:00): %d, pid=%d, name=python3, Ch %08x", d, code, 100+i, i))
		if i%100 == 0 {
			say(t, "ingero test: no fault, Xid ("+d+")")
		}
	}
	testkit.Eventually(t, "all faults", func() bool { return r.count() >= n })
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-r.done; !errors.Is(err, os.ErrClosed) {
		t.Errorf("Next returned %v after Close", err)
	}
	if len(r.xids) != n || l.Lost() != 0 {
		t.Fatalf("%d faults of %d, %d lines lost", len(r.xids), n, l.Lost())
	}
	for i, x := range r.xids {
		want := tick.Xid{Code: []uint32{172, 48, 13}[i%3], Bus: d + ":75:00", Via: tick.ViaKernelLog, Injected: true, Time: x.Time}
		want.SetMessage(fmt.Sprintf("pid=%d, name=python3, Ch %08x", 100+i, i))
		if x.Code != want.Code || x.Msg != want.Msg || x.SaidPID != want.SaidPID || !x.Injected || x.Bus != want.Bus {
			t.Fatalf("fault %d: got %+v, want %+v", i, x, want)
		}
	}
}

// With history, earlier records are read once and without waiting.
func TestLogHistory(t *testing.T) {
	testkit.KernelLog(t, false)
	d := domain()
	say(t, fmt.Sprintf("NVRM: Xid (PCI:%s:01:00): 79, GPU has fallen off the bus.", d))
	for _, history := range []bool{true, false} {
		l := open(t, history)
		xs, err := l.Next(nil, false)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, x := range xs {
			if x.Bus == d+":01:00" {
				n++
			}
		}
		if want := map[bool]int{true: 1, false: 0}[history]; n != want {
			t.Errorf("history %v: %d faults, want %d", history, n, want)
		}
	}
}

// A reader that lags while the log is overwritten counts the lines that it missed.
func TestLogOverwritten(t *testing.T) {
	testkit.KernelLog(t, true)
	l := open(t, false)
	say(t, "ingero test: the line that is read last before many are written over")
	if _, err := l.Next(nil, true); err != nil {
		t.Fatal(err)
	}
	// The kernel reports the size of its log (SYSLOG_ACTION_SIZE_BUFFER).
	size, err := unix.Klogctl(10, nil)
	testkit.NeedKernel(t, fmt.Sprintf("the size of its log (%v)", err), err == nil)
	testkit.NeedKernel(t, "a log of at most 4 MiB", size <= 4<<20)
	line := "ingero test: " + strings.Repeat("x", 900)
	written := 0
	for ; written*len(line) < 2*size; written++ {
		say(t, line)
	}
	d := domain()
	say(t, fmt.Sprintf("NVRM: Xid (PCI:%s:75:00): 48, x", d))
	xs, err := l.Next(nil, true)
	if err != nil {
		t.Fatal(err)
	}
	if len(xs) == 0 || xs[len(xs)-1].Bus != d+":75:00" {
		t.Errorf("the fault behind what was lost was not read: %+v", xs)
	}
	if lost := l.Lost(); lost == 0 || lost > uint64(2*written) {
		t.Errorf("%d lines are said to be lost, of %d that were written", lost, written)
	}
}

// Records are parsed as the log outputs them.
func TestRecord(t *testing.T) {
	const fault = "NVRM: Xid (PCI:0000:75:00): 13, a"
	for _, tt := range []struct {
		name             string
		records          []string
		msgs             []string
		injected         bool
		lost, suppressed uint64
	}{
		{name: "one", records: []string{"3,10,5000,-;" + fault + "\n SUBSYSTEM=pci\n DEVICE=+pci:0000:75:00.0\n"}, msgs: []string{"a"}},
		{name: "a program's", records: []string{"11,10,5000,-;" + fault + "\n"}, msgs: []string{"a"}, injected: true},
		{name: "continued", records: []string{"3,10,5000,-,caller=T7;" + fault + "\n", "3,11,5001,c,caller=T7;b\n", "6,12,5002,-,caller=T7;other\n"}, msgs: []string{"a b"}},
		{name: "another's continuation", records: []string{"3,10,5000,-,caller=T7;" + fault + "\n", "3,11,5001,c,caller=T8;b\n"}, msgs: []string{"a"}},
		{name: "two lines in one", records: []string{`3,10,5000,-;` + fault + `\x0a` + strings.Replace(fault, ", a", ", b", 1) + `\x0athe rest` + "\n"}, msgs: []string{"a", "b"}},
		{name: "escaped", records: []string{`3,10,5000,-;` + fault + `\x09\x5c\xff\xg` + "\n"}, msgs: []string{"a\t\\?" + `\xg`}},
		{name: "lost", records: []string{"3,10,5000,-;" + fault + "\n", "3,17,5000,-;" + fault + "\n"}, msgs: []string{"a", "a"}, lost: 6},
		{name: "suppressed", records: []string{"4,10,5000,-;nv_report_error: 17 callbacks suppressed\n", "4,11,5000,-;net_ratelimit: 5 callbacks suppressed\n"}, suppressed: 17},
		{name: "not a record", records: []string{"", ";", "x,y,z,-;" + fault, "3,1;" + fault, fault}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := &Log{}
			var got []tick.Xid
			for _, r := range tt.records {
				got = l.record(got, []byte(r))
			}
			got = l.flush(got)
			if len(got) != len(tt.msgs) || l.Lost() != tt.lost || l.Suppressed() != tt.suppressed {
				t.Fatalf("got %+v, lost %d, suppressed %d", got, l.Lost(), l.Suppressed())
			}
			for i, msg := range tt.msgs {
				if got[i].Msg != msg || got[i].Code != 13 || got[i].Injected != tt.injected || got[i].Time != 5e6 {
					t.Errorf("got %+v, want %q", got[i], msg)
				}
			}
		})
	}
}

// The difference of the log's clock to the session's is learned from records read live. A lag of
// the reader does not change it.
func TestClock(t *testing.T) {
	const s = int64(time.Second)
	c := clock{wall: 1000 * s}
	c.last = 50 * s // 52 s on the other clock, 1 ms ago
	if shift := c.learn(52*s + 1e6); shift != 2*s+1e6 || c.unix(50*s) != 1052*s+1e6 {
		t.Errorf("shift %d, at %d", shift, c.unix(50*s))
	}
	c.last = 60 * s // written at 62 s, read at 65 s: at most 13 ms of drift are accepted
	if shift := c.learn(65 * s); shift < 0 || shift > 13e6 {
		t.Errorf("shift %d after a delay", shift)
	}
	c.last = 70 * s // read at once: the excess is taken back
	c.learn(72 * s)
	if got := c.unix(70 * s); got != 1072*s {
		t.Errorf("at %d, want %d", got, 1072*s)
	}
}
