package session

import (
	"cmp"
	"os"
	"slices"
	"strconv"

	"ingero/internal/decode"
	"ingero/internal/host"
	"ingero/internal/probes"
	"ingero/internal/tape"
	"ingero/internal/tick"
)

// hostWatch makes of the kernel's sums of the host what was added in each tick. It is
// for the goroutine that makes the ticks.
type hostWatch struct {
	files host.Poller
	seen  map[probes.HostKey]*hostSeen
	pages map[pagesKey]uint64
	procs map[uint32]tracedProcess // as of this tick
}

type tracedProcess struct {
	Comm  string
	Alive bool
	Asked bool // its files and those of its cgroup are read
}

type hostSeen struct {
	tick.HostKey
	sum  probes.HostSum // at the last tick
	idle int            // ticks since it has grown
}

var pageBytes = uint64(os.Getpagesize())

type pagesKey struct{ pid, order uint32 }

// Of sums that do not grow, those of untraced processes leave the kernel after
// hostIdle ticks, all of them after hostStale.
const (
	hostIdle  = 10
	hostStale = 600
	// maxHostOthers is how many sums of processes that are not traced are told apart
	// in a tick.
	maxHostOthers = 64
)

// host fills what happened on the host since the last tick. A process that is not
// traced is told apart while it is among those that did most.
func (l *Live) host(t *tick.Tick) error {
	w := &l.hostSums
	before := w.procs
	w.procs = l.tracedNow()
	for pid, p := range w.procs { // what its cgroup says of its end is still to be read
		w.procs[pid] = tracedProcess{p.Comm, p.Alive, p.Alive || before[pid].Alive}
	}
	var sums tick.HostSums
	var other []tick.HostSum
	tell := func(x *hostSeen, now *probes.HostSum) {
		s := decode.HostSum(x.HostKey, now, &x.sum)
		switch {
		case s.Count == 0:
			return
		case s.Kind.Row().Object == "device" && s.Object != "":
			number := s.Object
			ask(l.raw, tape.Device, &s.Object, func() { s.Object = w.files.Device(number) })
		case s.Kind == tick.HostOOM:
			ask(l.raw, tape.Cgroup, &s.Object, func() { s.Object = l.cgroupOf(s.PID) })
		}
		if _, ours := w.procs[s.PID]; ours || s.PID == 0 || s.Kind == tick.HostOOM {
			sums.Add([]tick.HostSum{s})
		} else {
			other = append(other, s)
		}
	}
	if err := l.readHost(tell); err != nil {
		return err
	}
	sums.Add(most(other, maxHostOthers))
	if err := l.pages(&sums); err != nil {
		return err
	}
	l.hostFiles(t, &sums)
	t.HostSums = sums.List()
	return nil
}

// beginHost notes where the files stand: what they say is told from here on.
func (l *Live) beginHost() {
	w := &l.hostSums
	w.seen, w.pages, w.procs = map[probes.HostKey]*hostSeen{}, map[pagesKey]uint64{}, l.tracedNow()
	w.files.Read(w.asked(), false)
}

// tracedNow returns the traced processes.
func (l *Live) tracedNow() map[uint32]tracedProcess {
	out := map[uint32]tracedProcess{}
	ask(l.raw, tape.Traced, &out, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for pid, p := range l.procs {
			out[pid] = tracedProcess{p.Comm, p.Ended.IsZero(), p.Ended.IsZero()}
		}
	})
	return out
}

// asked returns the traced processes whose files are read, by number.
func (w *hostWatch) asked() []uint32 {
	var pids []uint32
	for pid, p := range w.procs {
		if p.Asked {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// readHost tells what was added to each of the kernel's sums, and has the kernel forget
// those that have long been idle.
func (l *Live) readHost(tell func(*hostSeen, *probes.HostSum)) error {
	w := &l.hostSums
	var stale []probes.HostKey
	err := l.kernel.HostSums(func(k probes.HostKey, now *probes.HostSum) {
		x := w.seen[k]
		if x == nil {
			x = &hostSeen{HostKey: decode.HostKey(&k)}
			w.seen[k] = x
		}
		tell(x, now)
		if x.idle++; now.Count != x.sum.Count {
			x.idle = 0
		}
		x.sum = *now
		if _, ours := w.procs[k.Tgid]; !probes.HostRest(k) && (x.idle > hostStale || x.idle > hostIdle && !ours) {
			stale = append(stale, k)
		}
	})
	if err != nil {
		return err
	}
	for _, k := range stale {
		now, err := l.kernel.ForgetHost(k)
		if err != nil {
			return err
		}
		if now.Count > 0 {
			tell(w.seen[k], &now)
		}
		delete(w.seen, k)
	}
	return nil
}

// most returns the n sums of most time, and what the others add up to by kind and
// object.
func most(sums []tick.HostSum, n int) []tick.HostSum {
	if len(sums) <= n {
		return sums
	}
	slices.SortFunc(sums, func(a, b tick.HostSum) int {
		return cmp.Or(cmp.Compare(b.NS, a.NS), tick.ByHostKey(a, b))
	})
	for i := n; i < len(sums); i++ {
		sums[i].PID, sums[i].Sender, sums[i].Comm = 0, 0, ""
	}
	return sums
}

// pages adds the page allocations of traced processes, where they are counted.
func (l *Live) pages(sums *tick.HostSums) error {
	w := &l.hostSums
	ended := map[uint32]bool{}
	err := l.kernel.Pages(func(pid, order uint32, n uint64) {
		k := pagesKey{pid, order}
		if more := n - w.pages[k]; more > 0 {
			w.pages[k] = n
			s := tick.HostSum{HostKey: tick.HostKey{Kind: tick.HostPages, PID: pid, Object: "order-" + strconv.Itoa(int(order))},
				Count: more, Bytes: more << order * pageBytes}
			s.Comm = w.procs[pid].Comm
			sums.Add([]tick.HostSum{s})
		} else if !w.procs[pid].Alive {
			ended[pid] = true
		}
	})
	for pid := range ended {
		if err == nil {
			err = l.kernel.ForgetPages(pid)
		}
		for order := range uint32(64) {
			delete(w.pages, pagesKey{pid, order})
		}
	}
	return err
}

// hostFiles is what the kernel's files say.
type hostFiles struct {
	Sums    []tick.HostSum
	Reports []tick.Report
	Left    uint64
}

// hostFiles adds what the kernel's files say.
func (l *Live) hostFiles(t *tick.Tick, sums *tick.HostSums) {
	w := &l.hostSums
	var x hostFiles
	ask(l.raw, tape.Files, &x, func() {
		x = hostFiles{w.files.Read(w.asked(), l.stopped), w.files.Reports(), w.files.Left()}
	})
	for i := range x.Sums {
		x.Sums[i].Comm = w.procs[x.Sums[i].PID].Comm
	}
	sums.Add(x.Sums)
	t.Reports = append(t.Reports, x.Reports...)
	t.Reports = append(t.Reports, l.kernel.HostReports()...)
	t.Drops = append(t.Drops, tick.Drop{Reason: "host-files-left-out", Count: x.Left})
}

// killed notes where a process was that the kernel kills for want of memory, while it
// is there to be asked. mu is held.
func (l *Live) killed(e tick.ProcEvent) {
	const most = 1024
	if len(l.victims) >= most {
		clear(l.victims)
	}
	delete(l.victims, e.PID) // the number may have been another's
	if p := l.procs[e.PID]; p != nil && p.Cgroup != "" {
		l.victims[e.PID] = p.Cgroup
	} else if p, err := l.fs.Process(e.PID); err == nil {
		l.victims[e.PID] = p.Cgroup
	}
}

// cgroupOf returns the cgroup of a process that was killed for want of memory, "" where
// it ended too soon to tell.
func (l *Live) cgroupOf(pid uint32) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.victims[pid]; !known {
		l.killed(tick.ProcEvent{PID: pid})
	}
	return l.victims[pid]
}
