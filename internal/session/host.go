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

// hostWatch turns the kernel's running host sums into the increments of each tick. It is for the
// goroutine that makes the ticks.
type hostWatch struct {
	kernel kernel
	raw    tapeIO
	traced func() map[uint32]tracedProcess // current
	cgroup func(pid uint32) string         // object of tick.HostOOM
	files  host.Poller
	users  *gpuUsers
	seen   map[probes.HostKey]*hostSeen
	pages  map[pagesKey]uint64
	procs  map[uint32]tracedProcess // at this tick
}

type tracedProcess struct {
	Comm  string
	Alive bool
	Asked bool // whether its files and its cgroup's files are read
}

type hostSeen struct {
	tick.HostKey
	sum  probes.HostSum // at the last tick
	idle int            // ticks without growth
}

var pageBytes = uint64(os.Getpagesize())

type pagesKey struct{ pid, order uint32 }

// Idle sums of untraced processes are deleted from the kernel after hostIdle ticks, those of traced
// processes after hostStale, or also after hostIdle while the kernel's room is more than half full.
const (
	hostIdle  = 10
	hostStale = 600
	// maxHostOthers bounds the sums of untraced processes that a tick lists separately.
	maxHostOthers = 64
)

func newHostWatch(kernel kernel, raw tapeIO, users *gpuUsers, traced func() map[uint32]tracedProcess, cgroup func(pid uint32) string) *hostWatch {
	return &hostWatch{kernel: kernel, raw: raw, users: users, traced: traced, cgroup: cgroup,
		seen: map[probes.HostKey]*hostSeen{}, pages: map[pagesKey]uint64{}}
}

// tick fills the host activity since the last tick. Untraced processes are listed separately while
// they are among the most active. last: the session ends.
func (w *hostWatch) tick(t *tick.Tick, last bool) error {
	before := w.procs
	w.procs = w.tracedNow()
	for pid, p := range w.procs { // its cgroup's record of its end is still to be read
		w.procs[pid] = tracedProcess{p.Comm, p.Alive, p.Alive || before[pid].Alive}
	}
	var sums tick.HostSums
	var other []tick.HostSum
	update := func(x *hostSeen, now *probes.HostSum) {
		s := decode.HostSum(x.HostKey, now, &x.sum)
		switch {
		case s.Count == 0:
			return
		case s.Kind.Row().Object == "device" && s.Object != "":
			number := s.Object
			fill(w.raw, tape.Device, &s.Object, func() { s.Object = w.files.Device(number) })
		case s.Kind == tick.HostOOM:
			fill(w.raw, tape.Cgroup, &s.Object, func() { s.Object = w.cgroup(s.PID) })
		}
		if _, ours := w.procs[s.PID]; ours || s.PID == 0 || s.Kind == tick.HostOOM {
			sums.Add([]tick.HostSum{s})
		} else {
			other = append(other, s)
		}
	}
	if err := w.read(update); err != nil {
		return err
	}
	sums.Add(largestSums(other, maxHostOthers))
	if err := w.readPages(&sums); err != nil {
		return err
	}
	w.readFiles(t, &sums, last)
	t.HostSums = sums.List()
	return nil
}

// learn updates the traced processes.
func (w *hostWatch) learn() { w.procs = w.tracedNow() }

// start records the current values of the files: only later changes are reported.
func (w *hostWatch) start() {
	w.learn()
	w.files.Read(w.pids(), false)
}

// tracedNow returns the traced processes, or the tape's.
func (w *hostWatch) tracedNow() map[uint32]tracedProcess {
	out := map[uint32]tracedProcess{}
	fill(w.raw, tape.Traced, &out, func() { out = w.traced() })
	return out
}

// pids returns the traced processes whose files are read, sorted by number.
func (w *hostWatch) pids() []uint32 {
	var pids []uint32
	for pid, p := range w.procs {
		if p.Asked {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// read passes the growth of each kernel sum to update, and deletes sums that have long been idle from
// the kernel.
func (w *hostWatch) read(update func(*hostSeen, *probes.HostSum)) error {
	var stale []probes.HostKey
	crowded := len(w.seen) > probes.HostRoom/2
	err := w.kernel.HostSums(func(k probes.HostKey, now *probes.HostSum) {
		x := w.seen[k]
		if x == nil {
			x = &hostSeen{HostKey: decode.HostKey(&k)}
			w.seen[k] = x
		}
		update(x, now)
		if x.idle++; now.Count != x.sum.Count {
			x.idle = 0
		}
		x.sum = *now
		limit := hostIdle
		if _, ours := w.procs[k.Tgid]; ours && !crowded {
			limit = hostStale
		}
		if x.idle > limit && !probes.HostRest(k) {
			stale = append(stale, k)
		}
	})
	if err != nil {
		return err
	}
	for _, k := range stale {
		now, err := w.kernel.ForgetHost(k)
		if err != nil {
			return err
		}
		if now.Count > 0 {
			update(w.seen[k], &now)
		}
		delete(w.seen, k)
	}
	return nil
}

// largestSums returns the n sums with the most time; it clears the process in the others, so that they add
// up by kind and object.
func largestSums(sums []tick.HostSum, n int) []tick.HostSum {
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

// readPages adds the page allocations of traced processes, if they are counted.
func (w *hostWatch) readPages(sums *tick.HostSums) error {
	ended := map[uint32]bool{}
	err := w.kernel.Pages(func(pid, order uint32, n uint64) {
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
			err = w.kernel.ForgetPages(pid)
		}
		for order := range uint32(64) {
			delete(w.pages, pagesKey{pid, order})
		}
	}
	return err
}

// hostFiles is what was read from the kernel's files.
type hostFiles struct {
	Sums    []tick.HostSum
	Reports []tick.Report
	Left    uint64
	Unread  uint64 `json:",omitempty"` // processes, of gpuUsers
}

// readFiles adds what the kernel's files contain.
func (w *hostWatch) readFiles(t *tick.Tick, sums *tick.HostSums, last bool) {
	var x hostFiles
	fill(w.raw, tape.Files, &x, func() {
		x = hostFiles{Sums: w.files.Read(w.pids(), last), Reports: w.files.Reports(), Left: w.files.Unread()}
		users, unread := w.users.take()
		x.Sums, x.Unread = append(x.Sums, users...), unread
	})
	for i := range x.Sums {
		if s := &x.Sums[i]; s.Kind != tick.HostGPUOpen { // it has a name already
			s.Comm = w.procs[s.PID].Comm
		}
	}
	sums.Add(x.Sums)
	t.Reports = append(t.Reports, x.Reports...)
	t.Reports = append(t.Reports, w.kernel.HostReports()...)
	t.Drops = append(t.Drops, tick.Drop{Reason: "host-files-left-out", Count: x.Left}, tick.Drop{Reason: "gpu-users-not-read", Count: x.Unread})
}
