package tick

import (
	"cmp"
	"math/bits"
	"net"
	"slices"
	"strings"
)

// HostEvent is a kind of host event, from the kernel's programs or its files.
type HostEvent uint8

// The kinds. Recordings have their numbers. The first ones are summed by the kernel's programs, in the order of
// enum host_kind.
const (
	HostDiskRead HostEvent = iota + 1
	HostDiskWrite
	HostDiskFlush
	HostReclaim
	HostCgroupReclaim
	HostOOM
	HostSignal
	HostRetransmit
	HostConnect
	HostSend
	HostReceive

	HostPages
	HostMajorFault
	HostSwapIn
	HostSwapOut
	HostThrottled
	HostAtLimit
	HostCgroupCPU
	HostCPUPressure
	HostMemoryPressure
	HostMemoryFull
	HostIOPressure
	HostIOFull
	HostIRQ
	HostSoftIRQ
	HostSteal
	HostIOWait
	HostCPUsTaken
	HostLimit
	HostThreads
	HostRefault

	// Sums by the kernel's programs, too.
	HostUDPSend
	HostUDPReceive
	HostUnixSend
	HostUnixReceive
	HostLockRefused

	// From the kernel's files, when a GPU became slower.
	HostGPUOpen

	hostEvents
)

// HostRow describes the sums of a kind.
type HostRow struct {
	Name   string // short and stable, for JSON and SQL
	Title  string // for people
	Object string // meaning of Object: "device", "peer", "cgroup", "signal", "order", "file", "gpu"; empty: no object
	One    string // unit of Count, in the singular
	NS     string // subject of the time; empty: no time
	Bytes  bool   // Bytes is set
	PID    bool   // PID is set
}

// HostRows is the table of the kinds, by kind.
var HostRows = [hostEvents]HostRow{
	HostDiskRead:       {Name: "disk-read", Title: "disk reads", Object: "device", One: "request", NS: "request", Bytes: true, PID: true},
	HostDiskWrite:      {Name: "disk-write", Title: "disk writes", Object: "device", One: "request", NS: "request", Bytes: true, PID: true},
	HostDiskFlush:      {Name: "disk-flush", Title: "disk flushes", Object: "device", One: "request", NS: "request", PID: true},
	HostReclaim:        {Name: "reclaim", Title: "memory reclaim", One: "time", NS: "stall", Bytes: true, PID: true},
	HostCgroupReclaim:  {Name: "cgroup-reclaim", Title: "cgroup reclaim", One: "time", NS: "stall", Bytes: true, PID: true},
	HostOOM:            {Name: "oom-kill", Title: "killed for memory", Object: "cgroup", One: "process", PID: true},
	HostSignal:         {Name: "signal", Title: "signals", Object: "signal", One: "signal", PID: true},
	HostRetransmit:     {Name: "tcp-retransmit", Title: "TCP retransmits", Object: "peer", One: "packet", Bytes: true, PID: true},
	HostConnect:        {Name: "tcp-connect", Title: "TCP connects", Object: "peer", One: "connect", NS: "connect", PID: true},
	HostSend:           {Name: "tcp-send", Title: "TCP sends", Object: "peer", One: "send", NS: "round trip", Bytes: true, PID: true},
	HostReceive:        {Name: "tcp-receive", Title: "TCP receives", Object: "peer", One: "receive", Bytes: true, PID: true},
	HostPages:          {Name: "page-alloc", Title: "page allocs", Object: "order", One: "allocation", Bytes: true, PID: true},
	HostMajorFault:     {Name: "major-fault", Title: "major faults", One: "fault", PID: true},
	HostSwapIn:         {Name: "swap-in", Title: "swapped in", One: "page", Bytes: true},
	HostSwapOut:        {Name: "swap-out", Title: "swapped out", One: "page", Bytes: true},
	HostThrottled:      {Name: "cgroup-throttled", Title: "CPU quota", Object: "cgroup", One: "time", NS: "throttling"},
	HostAtLimit:        {Name: "cgroup-memory-limit", Title: "at memory limit", Object: "cgroup", One: "time"},
	HostCgroupCPU:      {Name: "cgroup-cpu", Title: "cgroup CPU", Object: "cgroup", NS: "CPU"},
	HostCPUPressure:    {Name: "cpu-pressure", Title: "CPU pressure", Object: "cgroup", NS: "some waited"},
	HostMemoryPressure: {Name: "memory-pressure", Title: "memory pressure", Object: "cgroup", NS: "some waited"},
	HostMemoryFull:     {Name: "memory-pressure-full", Title: "memory, all wait", Object: "cgroup", NS: "all waited"},
	HostIOPressure:     {Name: "io-pressure", Title: "I/O pressure", Object: "cgroup", NS: "some waited"},
	HostIOFull:         {Name: "io-pressure-full", Title: "I/O, all wait", Object: "cgroup", NS: "all waited"},
	HostIRQ:            {Name: "irq", Title: "interrupts", NS: "CPU"},
	HostSoftIRQ:        {Name: "softirq", Title: "soft interrupts", NS: "CPU"},
	HostSteal:          {Name: "steal", Title: "stolen CPU", NS: "CPU"},
	HostIOWait:         {Name: "iowait", Title: "idle for I/O", NS: "CPU"},
	HostCPUsTaken:      {Name: "cpus-taken", Title: "CPUs taken away", One: "CPU", PID: true},
	HostLimit:          {Name: "limit-reached", Title: "limits reached", Object: "limit", One: "time", NS: "throttling", PID: true},
	HostThreads:        {Name: "thread-cpu", Title: "CPU by thread", Object: "threads", NS: "CPU", PID: true},
	HostRefault:        {Name: "refault", Title: "pages read again", One: "page", Bytes: true, PID: true},
	HostUDPSend:        {Name: "udp-send", Title: "UDP sends", Object: "peer", One: "send", Bytes: true, PID: true},
	HostUDPReceive:     {Name: "udp-receive", Title: "UDP receives", Object: "peer", One: "receive", Bytes: true, PID: true},
	HostUnixSend:       {Name: "unix-send", Title: "UNIX sends", Object: "peer", One: "send", Bytes: true, PID: true},
	HostUnixReceive:    {Name: "unix-receive", Title: "UNIX receives", Object: "peer", One: "receive", Bytes: true, PID: true},
	HostLockRefused:    {Name: "lock-refused", Title: "locks refused", Object: "file", One: "refusal", PID: true},
	HostGPUOpen:        {Name: "gpu-open", Title: "GPU open", Object: "gpu", One: "time", PID: true},
}

// Row returns the description of a kind; that of an unknown kind is empty.
func (k HostEvent) Row() *HostRow {
	if k >= hostEvents {
		k = 0
	}
	return &HostRows[k]
}

// String returns the kind's name, or "?".
func (k HostEvent) String() string {
	if n := k.Row().Name; n != "" {
		return n
	}
	return "?"
}

// GPUObject begins the object of a HostGPUOpen, before the GPU as in [Culprit]. Such a sum is a process that is not
// traced, uses CUDA, and had the GPU's device file open each time that ingero looked (Count).
const GPUObject = "GPU "

// HostKey identifies a host sum.
type HostKey struct {
	Kind   HostEvent
	PID    uint32 // 0: no process in particular, or processes beyond the limit
	Sender uint32 // HostSignal: sender; 0: the kernel. HostLockRefused: holder; 0: unknown
	Object string // "vda", "10.0.0.7:443", "/run/x.sock", "/system.slice", "SIGKILL", "order-0", "data.lock", "GPU 0"; empty: none, unknown, or clients of a UNIX socket
}

// noLimit follows the cgroup in the object of a HostOOM if no memory limit was reached: the machine had no
// memory left.
const noLimit = " (no limit reached)"

// OOMObject returns the object of a HostOOM: the cgroup of the killed process, and whether a memory limit of
// it was reached.
func OOMObject(cgroup string, atLimit bool) string {
	if atLimit || cgroup == "/" { // the root has no limit
		return cgroup
	}
	return cgroup + noLimit
}

// OOMCgroup returns the cgroup in the object of a HostOOM, "" if unknown, and whether a memory limit of it
// was reached.
func (k *HostKey) OOMCgroup() (cgroup string, atLimit bool) {
	cgroup, machine := strings.CutSuffix(k.Object, noLimit)
	return cgroup, !machine && cgroup != "" && cgroup != "/"
}

// Named returns the object as SQL and JSON have it: of a HostOOM, the cgroup alone.
func (k *HostKey) Named() string {
	if k.Kind == HostOOM {
		cgroup, _ := k.OOMCgroup()
		return cgroup
	}
	return k.Object
}

// HostSum sums up the events of a key: counts are exact.
type HostSum struct {
	HostKey
	Comm   string // of PID; HostSignal: of Sender. Empty: unknown
	Count  uint64
	Failed uint64 // of Count
	Bytes  uint64
	NS     uint64
	Hist   HostHist // of the single times in NS, if known
}

// Add adds o.
func (s *HostSum) Add(o *HostSum) {
	s.Count += o.Count
	s.Failed += o.Failed
	s.Bytes += o.Bytes
	s.NS += o.NS
	for i, n := range o.Hist {
		s.Hist[i] += n
	}
	if s.Comm == "" {
		s.Comm = o.Comm
	}
}

// FromClient reports whether the peer of a sum connected to the process.
func (s *HostSum) FromClient() bool {
	_, _, err := net.SplitHostPort(s.Object) // the port of a client is not known
	return err != nil
}

// ByHostKey compares sums by kind, then by time, longest first.
func ByHostKey(a, b HostSum) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(b.NS, a.NS), cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Count, a.Count),
		cmp.Compare(a.PID, b.PID), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Sender, b.Sender))
}

// HostBuckets is the number of buckets of a [HostHist].
const HostBuckets = 32

// HostHist counts times by powers of two: bucket 0 below 1,024 ns, bucket i from 512 << i ns, the
// last one all longer times.
type HostHist [HostBuckets]uint64

// Add counts a time.
func (h *HostHist) Add(ns uint64) { h[min(bits.Len64(ns>>10), HostBuckets-1)]++ }

// Count returns the number of counted times.
func (h *HostHist) Count() (n uint64) {
	for _, x := range h {
		n += x
	}
	return n
}

// Quantile returns the middle of the quantile's bucket: within a factor of 1.5. It returns 0 for an
// empty histogram.
func (h *HostHist) Quantile(q float64) int64 {
	all := h.Count()
	if all == 0 {
		return 0
	}
	rank := uint64(q * float64(all-1))
	for i, x := range h {
		if rank < x {
			if i == 0 {
				return 512
			}
			return 768 << i
		}
		rank -= x
	}
	return 0
}

// HostSums adds up sums by key. The zero value is empty; it is not safe for concurrent use. Beyond
// the limit, sums are added up by kind alone.
type HostSums struct {
	all map[HostKey]*HostSum
}

// maxHostSums bounds the separate sums.
const maxHostSums = 8192

// Add adds sums.
func (h *HostSums) Add(sums []HostSum) {
	if h.all == nil {
		h.all = map[HostKey]*HostSum{}
	}
	for i := range sums {
		k := sums[i].HostKey
		x := h.all[k]
		if x == nil && len(h.all) >= maxHostSums {
			k = HostKey{Kind: k.Kind}
			x = h.all[k]
		}
		if x == nil {
			x = &HostSum{HostKey: k}
			h.all[k] = x
		}
		x.Add(&sums[i])
	}
}

// List returns the sums in order.
func (h *HostSums) List() []HostSum {
	out := make([]HostSum, 0, len(h.all))
	for _, x := range h.all {
		out = append(out, *x)
	}
	slices.SortFunc(out, ByHostKey)
	return out
}

// Reset removes all sums.
func (h *HostSums) Reset() { clear(h.all) }
