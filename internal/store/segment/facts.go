package segment

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"ingero/internal/store/log"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// facts is what a tick has that no other entry of a log holds. A replay needs it to rebuild the
// tick unchanged.
type facts struct {
	// In the previous tick, but not in this one.
	processes, others []uint32
	ops               []opKey
	// gpus are the GPUs' states: bus, time and figures; the rest is as in the last full state. Nil:
	// as in the previous tick.
	gpus []tick.GPU
	// chains is the checksum of the tick's chains, 0 if it has none.
	chains uint64
	// overhead is the cost of tracing; nil: no limit was set.
	overhead *tick.Overhead
}

// listed is what a tick listed.
type listed struct {
	processes, others map[uint32]bool
	ops, reuse        map[opKey]bool // reuse is an empty map for reuse
	gpus              []byte         // their encoded states
}

// Parts of the frame.
const (
	factsGPUs = 1 << iota
	factsChains
	factsOverhead
	factsFloor // of the overhead
	factsMarks = 1<<4 - 1
)

// facts writes a tick's facts, if it has any. chains is the checksum of its chains.
func (w *Writer) facts(t *tick.Tick, chains uint64) error {
	now := listed{processes: pidsOf(t.Processes), others: pidsOf(t.Others), ops: w.listed.ops, reuse: w.listed.reuse, gpus: appendGPUs(nil, t.GPUs[:min(len(t.GPUs), maxGPUs)])}
	if len(t.Ops) > 0 { // else the tick does not list them
		if now.ops, now.reuse = now.reuse, now.ops; now.ops == nil {
			now.ops = make(map[opKey]bool, len(t.Ops))
		}
		for i := range t.Ops {
			now.ops[opKey{t.Ops[i].PID, t.Ops[i].Op}] = true
		}
	}
	marks := byte(0)
	if !bytes.Equal(now.gpus, w.listed.gpus) && (len(t.GPUs) > 0 || w.listed.gpus != nil) {
		marks |= factsGPUs
	}
	if chains != 0 {
		marks |= factsChains
	}
	version := uint8(1)
	if t.Overhead.Budget > 0 {
		marks, version = marks|factsOverhead, 2
		if t.Overhead.Floor != (tick.Floor{}) {
			marks, version = marks|factsFloor, 3
		}
	}
	b := append(w.body[:0], marks)
	b, removed := appendRemoved(b, w.listed.processes, now.processes)
	b, goneOthers := appendRemoved(b, w.listed.others, now.others)
	b, goneOps := appendRemovedOps(b, w.listed.ops, now.ops)
	clear(now.reuse)
	maps.DeleteFunc(w.procs, func(pid uint32, _ Process) bool { return !now.processes[pid] })
	maps.DeleteFunc(w.others, func(pid uint32, _ Process) bool { return !now.others[pid] })
	w.listed = now
	if marks == 0 && removed+goneOthers+goneOps == 0 {
		return nil
	}
	if marks&factsGPUs != 0 {
		b = append(b, now.gpus...)
	}
	if chains != 0 {
		b = binary.LittleEndian.AppendUint64(b, chains)
	}
	if marks&factsOverhead != 0 {
		b = appendOverhead(b, &t.Overhead)
	}
	if marks&factsFloor != 0 {
		b = appendFloor(b, &t.Overhead.Floor)
	}
	w.body = b
	w.frame(frameFacts, version, w.enc.column(nil, b))
	return nil
}

func pidsOf(all []tick.Process) map[uint32]bool {
	out := make(map[uint32]bool, len(all))
	for i := range all {
		out[all[i].PID] = true
	}
	return out
}

// appendRemoved appends the pids of was that are not in is, in order.
func appendRemoved(b []byte, was, is map[uint32]bool) (out []byte, n int) {
	var removed []uint32
	for _, pid := range slices.Sorted(maps.Keys(was)) {
		if !is[pid] {
			removed = append(removed, pid)
		}
	}
	b = appendUvarint(b, uint64(len(removed)))
	for _, pid := range removed {
		b = appendUvarint(b, uint64(pid))
	}
	return b, len(removed)
}

func appendRemovedOps(b []byte, was, is map[opKey]bool) (out []byte, n int) {
	var removed []opKey
	for k := range was {
		if !is[k] {
			removed = append(removed, k)
		}
	}
	slices.SortFunc(removed, func(a, b opKey) int { return cmp.Or(cmp.Compare(a.pid, b.pid), cmp.Compare(a.op, b.op)) })
	b = appendUvarint(b, uint64(len(removed)))
	for _, k := range removed {
		b = appendUvarint(appendUvarint(b, uint64(k.pid)), uint64(k.op))
	}
	return b, len(removed)
}

// figures returns pointers to a GPU's figures in the order of a log.
func figures(g *tick.GPU) (whole [7]**int64, parts [5]**float64) {
	return [...]**int64{&g.MemTotal, &g.MemUsed, &g.ClockSM, &g.ClockMem, &g.ClockSMMax, &g.ECCCorrected, &g.ECCLost},
		[...]**float64{&g.Busy, &g.MemBusy, &g.Temperature, &g.Power, &g.PowerLimit}
}

func appendGPUs(b []byte, gpus []tick.GPU) []byte {
	b = appendUvarint(b, uint64(len(gpus)))
	for i := range gpus {
		g := &gpus[i]
		b = appendUvarint(appendString(b, g.Bus), zig(UnixNano(g.Time)))
		whole, parts := figures(g)
		mask := uint64(0)
		for j, p := range whole {
			if *p != nil {
				mask |= 1 << j
			}
		}
		for j, p := range parts {
			if *p != nil {
				mask |= 1 << (len(whole) + j)
			}
		}
		b = appendUvarint(b, mask)
		for _, p := range whole {
			if *p != nil {
				b = appendUvarint(b, zig(**p))
			}
		}
		for _, p := range parts {
			if *p != nil {
				b = appendFloat(b, **p)
			}
		}
	}
	return b
}

// readFacts decodes the output of facts.
func readFacts(body []byte, dec *decoder) (*facts, error) {
	outer := reader{b: body}
	r, err := dec.column(&outer, columns, maxTick)
	if err != nil {
		return nil, err
	}
	marks := r.uint()
	if marks > factsMarks {
		r.fail()
	}
	f := &facts{processes: readPIDs(&r), others: readPIDs(&r)}
	for range r.count() {
		f.ops = append(f.ops, opKey{r.small(), events.Op(r.tiny())})
	}
	if marks&factsGPUs != 0 {
		f.gpus = []tick.GPU{}
		for range r.count() {
			f.gpus = append(f.gpus, readFigures(&r))
		}
	}
	if marks&factsChains != 0 {
		if b := r.bytes(8); b != nil {
			f.chains = binary.LittleEndian.Uint64(b)
		}
	}
	if marks&factsOverhead != 0 {
		f.overhead = readOverhead(&r)
	}
	if marks&factsFloor != 0 {
		floor := readFloor(&r)
		if f.overhead == nil {
			r.fail()
		} else {
			f.overhead.Floor = floor
		}
	}
	if r.bad || len(r.b) != 0 || len(outer.b) != 0 {
		return nil, fmt.Errorf("%w: invalid facts of a tick", log.ErrCorrupt)
	}
	return f, nil
}

func readPIDs(r *reader) (out []uint32) {
	for range r.count() {
		out = append(out, r.small())
	}
	return out
}

func readFigures(r *reader) tick.GPU {
	g := tick.GPU{Bus: r.string(), Time: FromUnixNano(r.int())}
	whole, parts := figures(&g)
	mask := r.uint()
	for j, p := range whole {
		if mask&(1<<j) != 0 {
			v := r.int()
			*p = &v
		}
	}
	for j, p := range parts {
		if mask&(1<<(len(whole)+j)) != 0 {
			v := r.float()
			*p = &v
		}
	}
	return g
}
