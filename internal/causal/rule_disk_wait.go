package causal

import (
	"fmt"
	"slices"
	"strings"

	"ingero/internal/govern"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

var diskWait = Rule{
	Name: "disk-wait", Dims: govern.HostEvents, Needs: NeedWaits, Share: 0.01, Slow: 1, Problems: []string{"2", "12", "22"},
	Vague: 0.3, // the speed of a disk varies
	Doc:   "The job, or a thread it waited for, waited for a disk: for a read, a write or a page of memory.",
	Claims: &Claims{
		Part: func(p *Part) bool {
			if p.State != events.WaitBlocked {
				return false
			}
			switch p.Reason {
			case events.ReasonDisk, events.ReasonFile: // a file system waits for its journal without the I/O flag
				return true
			case events.ReasonFault:
				return p.Flags&events.WaitIO != 0 || p.Via.TID != 0 // see tick.WakerShare
			}
			return p.Flags&events.WaitIO != 0 && p.Reason != events.ReasonStopped
		},
		// A program saves its state from time to time, and reads what it needs. Reading a page back
		// is never normal.
		// A producer's disk wait while the job waits for it is not normal either, unless most steps
		// have less.
		Baseline: func(p *Part) baseline {
			switch {
			case p.Reason == events.ReasonFault:
				return baselineZero
			case p.Via.TID != 0:
				return baselineLevel
			}
			return baselineHabit
		},
		Key: func(p *Part) Key { return Key{ID: p.Via.TID, Dev: p.Dev, Reason: p.Reason, Did: p.did()} },
		Blame: func(p *Part) (group, what string) {
			switch what = storage(p.Dev); {
			case p.Reason == events.ReasonFault:
				what += ", for a page of memory"
			case p.Call != 0:
				what += ", " + p.Call.String()
			}
			if p.Via.TID != 0 {
				what += fmt.Sprintf(", in %s (%d), which the job waited for", p.Via.Name, p.Via.TID)
			}
			return "disk", what
		},
		Word: "disk",
	},
	Find: claimed(func(w *Window, x *Finding) bool {
		w.addUsual(x)
		return true
	}),
}

// server is the process that ended most of a victim's reads of a file system without a disk, by time: the
// server of a FUSE mount. On overlayfs, btrfs, ZFS and NFS, interrupts and kernel threads end them. Other calls
// may wait for a lock of another program that uses the file system.
type server struct {
	thread events.Thread // PID 0: no process
	ns     int64         // net weight of the votes for it
	all    int64         // ns: of all votes
}

// cast votes with a part for its server, if it is such a read. It returns false if the part is no wait for a file
// system without a disk.
func (x *server) cast(p *Part) bool {
	page := p.Reason == events.ReasonFault && p.Flags&events.WaitIO != 0
	if p.Via.TID != 0 || p.Dev == 0 || p.Dev>>20 != 0 || !page && !onDisk[p.Reason] {
		return false
	}
	if !page && !p.Call.Reads() {
		return true
	}
	who := p.Who
	if !who.OfProgram() || p.Relation.InJob() {
		who = events.Thread{}
	}
	x.all += p.NS
	switch {
	case who.PID == x.thread.PID:
		x.ns += p.NS
	case x.ns < p.NS:
		x.thread, x.ns = who, p.NS-x.ns
	default:
		x.ns -= p.NS
	}
	return true
}

// process returns a thread of the server, or the zero Thread.
func (x *server) process() events.Thread {
	if 2*x.ns <= x.all {
		return events.Thread{}
	}
	return x.thread
}

// text names the server, if there is one.
func (x *server) text() string {
	p := x.process()
	if p.PID == 0 {
		return ""
	}
	return fmt.Sprintf(", served by %s (%d)", p.Name, p.PID)
}

// addUsual raises the upper bound of a disk's cost if other processes used the disk in every tick of
// the window. The usual wait was then never that of an idle disk: their share of it may be lost too.
func (w *Window) addUsual(x *Finding) {
	share := w.diskOfOthers(x.PID)
	if 2*share < 1 {
		return
	}
	var usual, excess, lost float64 // ns
	steps := w.stepsFound(x)
	for i := range steps {
		s := &steps[i]
		for _, p := range s.parts[:s.nparts] {
			if w.e.causes.list[p.cause].rule() == x.rule {
				usual += s.weight * float64(p.ns)
			}
		}
		for _, g := range s.excess() {
			if w.cause(g).rule() == x.rule {
				excess += s.weight * float64(g.ns)
				lost += s.weight * s.lossBy(g)
			}
		}
	}
	more := share * max(usual-excess, 0) * lost / max(excess, 1)
	if x.Max = min(x.Max+int64(more), max(x.Window, x.Max)); more >= float64(leastLost) {
		x.Baseline += "; other processes used the disk all the time, so its usual speed is unknown"
	}
}

// kernelWriters are the beginnings of the names of kernel threads that write the data of processes.
var kernelWriters = []string{"kworker", "jbd2/", "xfsaild/", "btrfs-", "dmcrypt_write", "kswapd", "kcompactd"}

// diskOfOthers returns the least share in a tick that other processes had of the bytes read and written
// on the disks that a process used. It is 0 if the process used none. Writeback by kernel threads does
// not count: it may be of the process's own data.
func (w *Window) diskOfOthers(pid uint32) float64 {
	own := func(h *HostSample) bool { return h.PID == pid && pid != 0 }
	disks, ticks := map[string]bool{}, map[int64]*[2]float64{} // bytes: its own, of others
	for i := range w.host {
		if h := &w.host[i]; isDiskIO(h) && own(h) && h.Bytes > 0 {
			disks[h.Object], ticks[h.To] = true, new([2]float64)
		}
	}
	for i := range w.host {
		h := &w.host[i]
		sums := ticks[h.To]
		switch {
		case sums == nil || !isDiskIO(h) || !disks[h.Object]:
		case own(h):
			sums[0] += float64(h.Bytes)
		case !slices.ContainsFunc(kernelWriters, func(prefix string) bool { return strings.HasPrefix(h.Comm, prefix) }):
			sums[1] += float64(h.Bytes)
		}
	}
	least := 1.0
	for _, s := range ticks {
		least = min(least, s[1]/(s[0]+s[1]))
	}
	return least * float64(min(len(ticks), 1))
}

func isDiskIO(h *HostSample) bool { return h.Kind == tick.HostDiskRead || h.Kind == tick.HostDiskWrite }
