package probes

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"ingero/internal/bpf"
)

// CountsRow is the kernel's exact count of one row in one process. PID 0 has the calls of processes
// without a slot.
type CountsRow struct {
	PID uint32
	Row int // index into the tracer's rows
	bpf.IngeroCounts
}

// ownSlots is the number of slots of the array of counts that belong to the rows: MAX_ROWS. Those for
// the rows of processes follow.
const ownSlots = 512

// setTableSizes makes room for the threads, if a number is given, and for the counts of at least as
// many rows of processes. It returns the number of the latter.
func setTableSizes(spec *ebpf.CollectionSpec, threads int) (slots uint32) {
	slots = spec.Maps[bpf.IngeroMapCountSlots].MaxEntries
	if threads == 0 {
		return slots
	}
	for _, name := range []string{bpf.IngeroMapThreads, bpf.IngeroMapProfiles} {
		spec.Maps[name].MaxEntries = uint32(threads)
	}
	slots = max(slots, uint32(threads))
	spec.Maps[bpf.IngeroMapCountSlots].MaxEntries = slots
	spec.Maps[bpf.IngeroMapFreeSlots].MaxEntries = slots
	spec.Maps[bpf.IngeroMapCallCounts].MaxEntries = ownSlots + slots
	return slots
}

// fillSlots marks all slots free.
func (t *Tracer) fillSlots() error {
	for i := range t.slots {
		if err := t.objects.FreeSlots.Put(nil, ownSlots+i); err != nil {
			return fmt.Errorf("fill the free slots: %w", err)
		}
	}
	return nil
}

// eachSlot calls take for every slot in use.
func (t *Tracer) eachSlot(take func(bpf.IngeroCountsKey, uint32) error) error {
	const batch = 256
	var (
		cursor ebpf.MapBatchCursor
		keys   [batch]bpf.IngeroCountsKey
		slots  [batch]uint32
	)
	for {
		n, err := t.objects.CountSlots.BatchLookup(&cursor, keys[:], slots[:], nil)
		last := errors.Is(err, ebpf.ErrKeyNotExist)
		if err != nil && !last {
			return fmt.Errorf("read counts: %w", err)
		}
		for i := range n {
			if err := take(keys[i], slots[i]); err != nil {
				return err
			}
		}
		if last {
			return nil
		}
	}
}

// Counts calls take for each process and row with calls. The value is reused.
func (t *Tracer) Counts(take func(*CountsRow)) error {
	var row CountsRow
	read := func(key bpf.IngeroCountsKey, slot uint32) error {
		if err := t.objects.CallCounts.Lookup(slot, &row.IngeroCounts); err != nil {
			return fmt.Errorf("read counts: %w", err)
		}
		if row.PID, row.Row = key.Tgid, int(key.Row); row.Calls > 0 {
			take(&row)
		}
		return nil
	}
	var full uint64 // calls without a slot: while zero, the rows' own slots are empty
	if err := t.objects.Drops.Lookup(uint32(bpf.IngeroDropReasonDROP_COUNTS_FULL), &full); err != nil {
		return fmt.Errorf("read counts: %w", err)
	}
	for i := range t.rows {
		if full == 0 {
			break
		}
		if err := read(bpf.IngeroCountsKey{Row: uint32(i)}, uint32(i)); err != nil {
			return err
		}
	}
	return t.eachSlot(read)
}

// Forget deletes the counts of ended processes, and the origins of their launches. Each call scans
// all counts once, so pass all processes in one call.
func (t *Tracer) Forget(pids ...uint32) error {
	var keys []bpf.IngeroCountsKey
	var slots []uint32
	if err := t.eachSlot(func(key bpf.IngeroCountsKey, slot uint32) error {
		if slices.Contains(pids, key.Tgid) {
			keys, slots = append(keys, key), append(slots, slot)
		}
		return nil
	}); err != nil {
		return err
	}
	for i := range keys {
		if err := errors.Join(t.objects.CountSlots.Delete(keys[i]),
			t.objects.CallCounts.Put(slots[i], bpf.IngeroCounts{}),
			t.objects.FreeSlots.Put(nil, slots[i])); err != nil {
			return fmt.Errorf("delete counts of process %d: %w", keys[i].Tgid, err)
		}
	}
	return t.forgetOrigins(pids...)
}

// setCost sets the cost of a probe at a place in the programs.
func (t *Tracer) setCost(at Place, c Cost) error {
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
