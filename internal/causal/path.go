package causal

import (
	"fmt"
	"strings"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// place is where a victim itself waited for most of the time.
type place struct {
	stack uint32
	ns    int64 // net weight of the votes for it
	usual int64 // ns: about the median of the parts
}

// cast votes with a part for its place: with what it took longer than usual, and a little of the rest. A part
// without a stack does not vote.
func (x *place) cast(p *Part) {
	switch {
	case x.usual == 0:
		x.usual = p.NS
	case p.NS < x.usual:
		x.usual -= x.usual / 20
	default:
		x.usual += x.usual / 20
	}
	ns := max(p.NS-x.usual-x.usual/4, 0) + p.NS/100
	switch {
	case p.Stack == 0:
	case p.Stack == x.stack:
		x.ns += ns
	case x.ns < ns:
		x.stack, x.ns = p.Stack, ns-x.ns
	default:
		x.ns -= ns
	}
}

// path is the chain of wakers through which a victim waited for a culprit for most of the time.
type path struct {
	hops [tick.MaxHops]events.Thread // from the direct waker to the culprit; TID 0: end
	does string                      // what the culprit did meanwhile
	ns   int64                       // net weight of the votes for it
}

// noCPU is what a thread did that waited for a CPU.
const noCPU = "waited for a CPU"

// cast votes with a part for its path. A part of the victim's own wait for a CPU votes for none.
func (x *path) cast(p *Part) {
	if p.Waker.TID == 0 && p.State != events.WaitRunnable {
		return
	}
	hops, n := [tick.MaxHops]events.Thread{p.Waker}, 1
	for i := range p.Through {
		if p.Through[i].TID != 0 {
			hops[n] = p.Through[i]
			n++
		}
	}
	if end := p.end(); p.Waker.TID != 0 && end.TID != 0 && end.TID != hops[n-1].TID {
		hops[n] = end
	}
	switch {
	case x.same(&hops):
		x.ns += p.NS
	case x.ns < p.NS:
		*x = path{hops: hops, does: p.does(), ns: p.NS - x.ns}
	default:
		x.ns -= p.NS
	}
}

func (x *path) same(hops *[tick.MaxHops]events.Thread) bool {
	for i := range hops {
		if hops[i].TID != x.hops[i].TID {
			return false
		}
	}
	return true
}

// end returns the thread at the end of the part's chain of wakers.
func (p *Part) end() events.Thread {
	if p.Via.TID != 0 {
		return p.Via
	}
	return p.Who
}

// does describes what the thread at the end did.
func (p *Part) does() string {
	switch {
	case p.State == events.WaitRunnable:
		return noCPU
	case p.State == events.WaitThrottled:
		return "was throttled by its CPU quota"
	case p.Via.TID == 0:
		return "ran on a CPU"
	case p.Reason == events.ReasonSleep:
		return "slept"
	case p.Dev != 0 && (p.Reason == events.ReasonDisk || p.Reason == events.ReasonFile):
		return "waited for " + storage(p.Dev)
	}
	return "was blocked (" + p.Reason.String() + ")"
}

// storage names a device number: that of a disk, or of a file system without one of its own (major number 0),
// such as FUSE, NFS or btrfs. 0: unknown.
func storage(dev uint32) string {
	major, minor := dev>>20, dev&(1<<20-1)
	switch {
	case dev == 0:
		return "disk"
	case major == 0:
		return fmt.Sprintf("file system 0:%d", minor)
	}
	return fmt.Sprintf("disk %d:%d", major, minor)
}

// text describes what a victim waited for, hop by hop; "" if the culprit is the direct waker, or took the CPU
// of the victim itself.
func (x *path) text(victim uint32) string {
	if x.hops[1].TID == 0 && (x.hops[0].TID == 0 || x.does != noCPU) {
		return ""
	}
	var b strings.Builder
	for i := range x.hops {
		t := &x.hops[i]
		if t.TID == 0 {
			break
		}
		if i > 0 {
			b.WriteString(", which waited for ")
		}
		switch {
		case t.PID == victim:
			fmt.Fprintf(&b, "its own thread %s %d", t.Name, t.TID)
		case t.TID != t.PID:
			fmt.Fprintf(&b, "thread %s %d of process %d", t.Name, t.TID, t.PID)
		default:
			fmt.Fprintf(&b, "%s %d", t.Name, t.PID)
		}
	}
	return b.String() + ", which " + x.does
}
