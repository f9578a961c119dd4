package probes

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"ingero/internal/bpf"
)

// CountsRow is the kernel's exact account of one row in one process. PID 0
// gathers the calls of processes for which there was no room.
type CountsRow struct {
	PID uint32
	Row int // index into the tracer's rows
	bpf.IngeroCounts
}

// Counts calls take for each process and row that has calls. The value is
// reused.
func (t *Tracer) Counts(take func(*CountsRow)) error {
	const batch = 64
	var (
		cursor ebpf.MapBatchCursor
		keys   [batch]bpf.IngeroCountsKey
		values [batch]bpf.IngeroCounts
		row    CountsRow
	)
	for {
		n, err := t.objects.CallCounts.BatchLookup(&cursor, keys[:], values[:], nil)
		for i := range n {
			if values[i].Calls == 0 {
				continue
			}
			row = CountsRow{PID: keys[i].Tgid, Row: int(keys[i].Row), IngeroCounts: values[i]}
			take(&row)
		}
		switch {
		case errors.Is(err, ebpf.ErrKeyNotExist):
			return nil
		case err != nil:
			return fmt.Errorf("read counts: %w", err)
		}
	}
}

// Forget deletes the counts of a process that has ended.
func (t *Tracer) Forget(pid uint32) error {
	for i := range t.rows {
		key := bpf.IngeroCountsKey{Tgid: pid, Row: uint32(i)}
		if err := t.objects.CallCounts.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("delete counts of process %d: %w", pid, err)
		}
	}
	return nil
}

// SetCost tells the programs what a probe at a place costs, to be taken off the
// durations: inside the two clock readings, and around the whole of it as the
// calling function sees it, with and without a return probe.
func (t *Tracer) SetCost(at Place, c Cost) error {
	var all [bpf.IngeroPlacePLACES]bpf.IngeroProbeCost
	if err := t.objects.ProbeCosts.Get(&all); err != nil {
		return fmt.Errorf("read probe costs: %w", err)
	}
	all[at] = bpf.IngeroProbeCost{InsideNs: uint32(c.Inside), AroundNs: uint32(c.Around), EntryNs: uint32(c.Entry)}
	if err := t.objects.ProbeCosts.Set(all); err != nil {
		return fmt.Errorf("write probe costs: %w", err)
	}
	return nil
}

// Cost is what a probe at one kind of place costs, in nanoseconds.
type Cost struct {
	Inside int // of it, what falls between the two clock readings
	Around int // entry and return, beyond Inside
	Entry  int // an entry alone
}

// Threads returns how many threads the kernel side keeps state of.
func (t *Tracer) Threads() (n int) {
	var tid uint32
	var state bpf.IngeroThread
	for it := t.objects.Threads.Iterate(); it.Next(&tid, &state); {
		n++
	}
	return n
}
