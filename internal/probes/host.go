package probes

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"

	"ingero/internal/bpf"
	"ingero/internal/tick"
)

// HostPart is a part of the host activity that programs sum up.
type HostPart string

// The parts.
const (
	HostMemory HostPart = "memory"
	HostDisk   HostPart = "disks"      // block I/O
	HostTCP    HostPart = "tcp"        // retransmits
	HostNet    HostPart = "sockets"    // connects, sends, receives
	HostLocks  HostPart = "file-locks" // that were refused
	HostPages  HostPart = "page-allocations"
)

// hostPrograms has the programs of each part. The object has their tracepoints. A program with an
// alternative in instead is dropped if the kernel supports the alternative.
var hostPrograms = []struct {
	part    HostPart
	name    string
	instead string
}{
	{HostMemory, bpf.IngeroProgOnReclaim, ""},
	{HostMemory, bpf.IngeroProgOnReclaimed, ""},
	{HostMemory, bpf.IngeroProgOnCgroupReclaim, ""},
	{HostMemory, bpf.IngeroProgOnCgroupReclaimed, ""},
	{HostMemory, bpf.IngeroProgOnOom, ""},
	{HostDisk, bpf.IngeroProgOnIoComplete, ""}, // before on_io_start: an end without a start is ignored
	{HostDisk, bpf.IngeroProgOnIoStart, ""},
	{HostDisk, bpf.IngeroProgOnIoIssue, bpf.IngeroProgOnIoStart},
	{HostNet, bpf.IngeroProgOnSocketState, ""},
	{HostNet, bpf.IngeroProgOnSend, ""},
	{HostNet, bpf.IngeroProgOnReceive, ""},
	{HostTCP, bpf.IngeroProgOnRetransmit, ""},
	{HostLocks, bpf.IngeroProgOnPosixLock, ""},
	{HostLocks, bpf.IngeroProgOnFlock, ""},
	{HostPages, bpf.IngeroProgOnPages, ""},
}

// argumentsSince has tracepoints whose arguments have changed, and the variable that says so.
var argumentsSince = []struct {
	variable, tracepoint string
	params               int  // least number of arguments
	task                 bool // the first argument is a pointer
}{
	{bpf.IngeroVarRetransmitHasError, "tcp_retransmit_skb", 3, false},
	{bpf.IngeroVarOomHasTask, "mark_victim", 1, true},
}

// prepareHost adapts the host programs to this machine, and removes unwanted and unsupported ones.
func (t *Tracer) prepareHost(spec *ebpf.CollectionSpec, types *btf.Cache, leave []HostPart, pages bool) error {
	if !pages {
		leave = append([]HostPart{HostPages}, leave...)
	}
	off := map[HostPart]bool{}
	for _, part := range leave {
		off[part] = true
		t.hostLacks = append(t.hostLacks, tick.Report{Kind: "host-off", Object: string(part), Why: "it was not asked for"})
	}
	kernel, err := types.Kernel()
	if err != nil {
		return fmt.Errorf("read the kernel's BTF: %w", err)
	}
	have := map[string]bool{}
	for _, p := range hostPrograms {
		program := spec.Programs[p.name]
		if program == nil {
			return fmt.Errorf("the BPF object has no program %s", p.name)
		}
		switch known := arguments(kernel, program.AttachTo) != nil; {
		case off[p.part], p.instead != "" && have[p.instead]:
			delete(spec.Programs, p.name)
			continue
		case !known:
			delete(spec.Programs, p.name)
			if p.name != bpf.IngeroProgOnIoStart { // on_io_issue measures nearly as much
				t.hostLacks = append(t.hostLacks, tick.Report{Kind: "host-source", Object: string(p.part),
					Why: "this kernel has no tracepoint " + program.AttachTo})
			}
			continue
		}
		have[p.name] = true
		t.hostNames = append(t.hostNames, p.name)
	}
	for _, a := range argumentsSince {
		params := arguments(kernel, a.tracepoint)
		is := len(params) >= a.params
		if is && a.task {
			_, is = params[0].Type.(*btf.Pointer)
		}
		if err := spec.Variables[a.variable].Set(is); err != nil {
			return fmt.Errorf("set %s: %w", a.variable, err)
		}
	}
	return spec.Variables[bpf.IngeroVarPageBytes].Set(uint32(os.Getpagesize()))
}

// hostGives has the benefit of each host part, in the order of check's lines.
var hostGives = []struct {
	part HostPart
	what string
}{
	{HostMemory, "tells when a process had to look for memory itself, and whom the kernel killed for it"},
	{HostDisk, "tells who used a disk, and how long its requests took"},
	{HostTCP, "tells whose packets were lost"},
	{HostNet, "tells with whom processes talk, and how far away they are"},
	{HostLocks, "tells who holds a file lock for which a process polls"},
	{HostPages, "counts page allocations (--pages)"},
}

// hostFeatures returns a feature for each host part: whether this kernel has its tracepoints.
func hostFeatures(have func(name, cost string, must bool, err error) Feature) (out []Feature) {
	lacks := map[HostPart]error{}
	spec, err := bpf.LoadIngero()
	kernel, kerr := btf.LoadKernelSpec()
	if err = errors.Join(err, kerr); err == nil {
		for _, p := range hostPrograms {
			if at := spec.Programs[p.name].AttachTo; arguments(kernel, at) == nil && p.name != bpf.IngeroProgOnIoStart {
				lacks[p.part] = errors.Join(lacks[p.part], fmt.Errorf("this kernel has no tracepoint %s", at))
			}
		}
	}
	for _, g := range hostGives {
		out = append(out, have("host-"+string(g.part), g.what, false, errors.Join(err, lacks[g.part])))
	}
	return out
}

// arguments returns the arguments of a tracepoint's programs, nil if the kernel has no such
// tracepoint.
func arguments(kernel *btf.Spec, tracepoint string) []btf.FuncParam {
	var def *btf.Typedef
	if kernel.TypeByName("btf_trace_"+tracepoint, &def) != nil {
		return nil
	}
	if p, ok := def.Type.(*btf.Pointer); ok {
		if f, ok := p.Target.(*btf.FuncProto); ok && len(f.Params) > 0 {
			return append(make([]btf.FuncParam, 0, len(f.Params)), f.Params[1:]...) // the first is the tracepoint's own
		}
	}
	return nil
}

// fillHostRests creates the sums of entries without room.
func (t *Tracer) fillHostRests() error {
	for kind := uint8(1); kind < uint8(bpf.IngeroHostKindHOST_KINDS); kind++ {
		for peer := range uint8(bpf.IngeroHostPeerPEER_UNIX) + 1 { // only sends and receives have others than TCP
			if sockets := kind == uint8(bpf.IngeroHostKindHOST_SEND) || kind == uint8(bpf.IngeroHostKindHOST_RECEIVE); peer > 0 && !sockets {
				continue
			}
			if err := t.objects.HostSums.Put(HostKey{Kind: kind, Peer: peer}, HostSum{}); err != nil {
				return fmt.Errorf("make the sums of the host: %w", err)
			}
		}
	}
	return nil
}

// rareHost lists programs whose events are rare and must not be missed: they are never shed.
var rareHost = []string{bpf.IngeroProgOnOom, bpf.IngeroProgOnRetransmit, bpf.IngeroProgOnPosixLock, bpf.IngeroProgOnFlock}

// attachHost attaches the supported programs: the rare ones, and the others unless they are shed. A
// tracepoint that fails is a report.
func (t *Tracer) attachHost() {
	var rare []string
	for _, n := range t.hostNames {
		if slices.Contains(rareHost, n) {
			rare = append(rare, n)
		}
	}
	t.attachEach(rare, &t.base)
	t.mu.Lock()
	t.hostBegun = true
	left := t.hostDetached
	t.mu.Unlock()
	if !left {
		t.attachOften()
	}
}

// attachOften attaches the host programs that are not rare.
func (t *Tracer) attachOften() {
	var often []string
	for _, n := range t.hostNames {
		if !slices.Contains(rareHost, n) {
			often = append(often, n)
		}
	}
	t.attachEach(often, &t.hostLinks)
}

func (t *Tracer) attachEach(names []string, to *[]link.Link) {
	for _, n := range names {
		if err := t.attachBase([]string{n}, to); err != nil {
			t.mu.Lock()
			t.hostLacks = append(t.hostLacks, tick.Report{Kind: "host-source", Object: n, Why: err.Error()})
			t.mu.Unlock()
		}
	}
}

// HostReports returns the host sources that are unavailable.
func (t *Tracer) HostReports() []tick.Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]tick.Report(nil), t.hostLacks...)
}

// HostKey is the key of a host sum, HostSum its value in the kernel.
type (
	HostKey = bpf.IngeroHostKey
	HostSum = bpf.IngeroHostSum
)

// HostRoom is the number of host sums that the kernel has room for.
const HostRoom = int(bpf.IngeroHostRoomHOST_SUMS)

// HostRest reports whether a key is that of a sum of entries without room.
func HostRest(k HostKey) bool { return k == HostKey{Kind: k.Kind, Peer: k.Peer} }

// HostSums calls take for every host sum. The value is reused.
func (t *Tracer) HostSums(take func(k HostKey, s *HostSum)) error {
	const batch = 256
	var (
		cursor ebpf.MapBatchCursor
		keys   [batch]HostKey
		sums   = make([]HostSum, batch)
	)
	for {
		n, err := t.objects.HostSums.BatchLookup(&cursor, keys[:], sums, nil)
		last := errors.Is(err, ebpf.ErrKeyNotExist)
		if err != nil && !last {
			return fmt.Errorf("read the sums of the host: %w", err)
		}
		for i := range n {
			take(keys[i], &sums[i])
		}
		if last {
			return nil
		}
	}
}

// ForgetHost deletes a sum, and returns its last value.
func (t *Tracer) ForgetHost(k HostKey) (s HostSum, err error) {
	err = t.objects.HostSums.LookupAndDelete(k, &s)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return HostSum{}, nil
	}
	return s, err
}

// Pages calls take for the page allocations so far, by process and order.
func (t *Tracer) Pages(take func(pid, order uint32, n uint64)) error {
	if t.programs[bpf.IngeroProgOnPages] == nil {
		return nil
	}
	var (
		key bpf.IngeroPagesKey
		cpu []uint64
	)
	for it := t.objects.PageCounts.Iterate(); ; {
		if !it.Next(&key, &cpu) {
			return it.Err()
		}
		var n uint64
		for _, x := range cpu {
			n += x
		}
		take(key.Tgid, key.Order, n)
	}
}

// ForgetPages deletes the page allocations of an ended process.
func (t *Tracer) ForgetPages(pid uint32) error {
	const orders = 64
	for order := range uint32(orders) {
		err := t.objects.PageCounts.Delete(bpf.IngeroPagesKey{Tgid: pid, Order: order})
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("delete page allocations of process %d: %w", pid, err)
		}
	}
	return nil
}
