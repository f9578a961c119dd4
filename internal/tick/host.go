package tick

import (
	"cmp"
	"math/bits"
	"slices"
)

// HostEvent is a kind of thing that the kernel or its files tell of the host.
type HostEvent uint8

// The kinds. Those that the kernel's programs sum up come first, in their order
// (enum host_kind).
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

	hostEvents
)

// HostRow says what the sums of a kind are of.
type HostRow struct {
	Name   string // short and stable, for JSON and SQL
	Title  string // for people
	Object string // what Object is: "device", "peer", "cgroup", "signal", "order"; empty: there is none
	One    string // of what Count is, one of it
	NS     string // what the time is of; empty: none is known
	Bytes  bool   // Bytes says something
	PID    bool   // PID says something
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
}

// Row returns what the sums of a kind are of; that of an unknown kind is empty.
func (k HostEvent) Row() *HostRow {
	if k >= hostEvents {
		k = 0
	}
	return &HostRows[k]
}

// String returns the kind's name, "?" for an unknown one.
func (k HostEvent) String() string {
	if n := k.Row().Name; n != "" {
		return n
	}
	return "?"
}

// HostKey is what a sum of the host is of.
type HostKey struct {
	Kind   HostEvent
	PID    uint32 // 0: of nobody in particular, or of processes that are not told apart
	Sender uint32 // HostSignal: who sent it; 0: the kernel
	Object string // "vda", "10.0.0.7:443", "/system.slice", "SIGKILL", "order-0"; empty: none, or not known
}

// HostSum is what happened of a kind: counts are exact.
type HostSum struct {
	HostKey
	Comm   string // of PID; HostSignal: of Sender. Empty: not known
	Count  uint64
	Failed uint64 // of Count
	Bytes  uint64
	NS     uint64
	Hist   HostHist // of the single times in NS, where they are known
}

// Add takes in what o holds.
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

// ByHostKey is the order of sums: by kind, those of most time first.
func ByHostKey(a, b HostSum) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(b.NS, a.NS), cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Count, a.Count),
		cmp.Compare(a.PID, b.PID), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Sender, b.Sender))
}

// HostBuckets is how many buckets a [HostHist] has.
const HostBuckets = 32

// HostHist counts times by powers of two: bucket 0 those below 1,024 ns, bucket i
// those from 512 << i ns, the last all that are longer.
type HostHist [HostBuckets]uint64

// Add counts a time.
func (h *HostHist) Add(ns uint64) { h[min(bits.Len64(ns>>10), HostBuckets-1)]++ }

// Count returns how many times were counted.
func (h *HostHist) Count() (n uint64) {
	for _, x := range h {
		n += x
	}
	return n
}

// Quantile returns the middle of the bucket that the quantile lies in: within a
// factor of 1.5 of it. Of nothing it is 0.
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

// HostSums adds up sums by what they are of. The zero value has none; it is for one
// goroutine. What there is no room for is added up by kind alone.
type HostSums struct {
	all map[HostKey]*HostSum
}

// maxHostSums bounds the sums that are told apart.
const maxHostSums = 8192

// Add takes sums in.
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

// List returns them in order.
func (h *HostSums) List() []HostSum {
	out := make([]HostSum, 0, len(h.all))
	for _, x := range h.all {
		out = append(out, *x)
	}
	slices.SortFunc(out, ByHostKey)
	return out
}

// Reset forgets them.
func (h *HostSums) Reset() { clear(h.all) }
