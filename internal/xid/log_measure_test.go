//go:build measure

package xid

import (
	"fmt"
	"testing"
	"time"

	"ingero/internal/testkit"
)

// The faults of a burst get the times at which they were written, within a second, and in order.
func TestLogTimes(t *testing.T) {
	testkit.KernelLog(t, false)
	l, d := open(t, false), domain()
	r := read(l, d)
	const n = 1000
	from := time.Now()
	for i := range n {
		say(t, fmt.Sprintf("NVRM: Xid (PCI:%s:75:00): 48, pid=%d, name=python3, Ch %08x", d, 100+i, i))
	}
	testkit.Eventually(t, "all faults", func() bool { return r.count() >= n })
	to := time.Now()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	<-r.done
	off := time.Duration(0)
	for i, x := range r.xids {
		at := time.Unix(0, x.Time)
		off = max(off, from.Sub(at), at.Sub(to))
		if i > 0 && x.Time < r.xids[i-1].Time-int64(time.Second) {
			t.Fatalf("fault %d came before the one before it", i)
		}
	}
	testkit.Measured(t, "outside-of-the-burst", off.Seconds()*1e3, "ms", testkit.Lower)
	if off > time.Second {
		t.Errorf("a fault is %v outside of the time in which all were written", off)
	}
}
