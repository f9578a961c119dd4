package probes

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"ingero/internal/bpf"
	"ingero/internal/unwind"
)

// Walker is the kernel's side of native stacks: the maps of bpf/walk.h. It implements
// [unwind.Kernel]. Its methods are for one goroutine.
type Walker struct {
	Spaces   *ebpf.Map      `ebpf:"unwind_spaces"`
	Mappings *ebpf.Map      `ebpf:"unwind_mappings"`
	Tables   *ebpf.Map      `ebpf:"unwind_tables"`
	Rules    *ebpf.Map      `ebpf:"unwind_rules"`
	Wanted   *ebpf.Map      `ebpf:"unwind_wanted"`
	Missed   *ebpf.Variable `ebpf:"unwind_missed"`
	WalkEnds *ebpf.Variable `ebpf:"walk_ends"`
}

// Walker returns the maps of the loaded programs.
func (t *Tracer) Walker() *Walker {
	o := &t.objects
	return &Walker{Spaces: o.UnwindSpaces, Mappings: o.UnwindMappings, Tables: o.UnwindTables, Rules: o.UnwindRules,
		Wanted: o.UnwindWanted, Missed: o.UnwindMissed, WalkEnds: o.WalkEnds}
}

// inner describes an inner map of a map of maps: an array of its own size (5.10).
func inner(name string, bytes, entries int) *ebpf.MapSpec {
	return &ebpf.MapSpec{Name: name, Type: ebpf.Array, KeySize: 4, ValueSize: uint32(bytes),
		MaxEntries: uint32(entries), Flags: unix.BPF_F_INNER_MAP}
}

const batch = 4096 // values per write

// updateArray writes values to an array, starting at an index.
func updateArray[V any](m *ebpf.Map, from int, values []V) error {
	keys := make([]uint32, min(batch, len(values)))
	for len(values) > 0 {
		n := min(batch, len(values))
		for i := range n {
			keys[i] = uint32(from + i)
		}
		if _, err := m.BatchUpdate(keys[:n], values[:n], nil); err != nil {
			return err
		}
		from, values = from+n, values[n:]
	}
	return nil
}

type unwindRule struct {
	Kind, Arg   uint8
	_           uint16
	CFA, FP, RA int32
}

// PutRules implements [unwind.Kernel].
func (w *Walker) PutRules(from int, rules []unwind.Rule) error {
	out := make([]unwindRule, len(rules))
	for i, r := range rules {
		out[i] = unwindRule{Kind: uint8(r.Kind), Arg: r.Arg, CFA: r.CFA, FP: r.FP, RA: r.RA}
	}
	if err := updateArray(w.Rules, from, out); err != nil {
		return fmt.Errorf("write rules for unwinding: %w", err)
	}
	return nil
}

// tableLine is struct table_line.
type tableLine [16]uint32

// PutTables implements [unwind.Kernel].
func (w *Walker) PutTables(list []unwind.ObjectTable) error {
	var at, fds []uint32
	for _, t := range list {
		m, err := newTable(t.Words)
		if err != nil {
			return fmt.Errorf("write a table for unwinding: %w", err)
		}
		defer func() { _ = m.Close() }()
		at, fds = append(at, t.Object), append(fds, uint32(m.FD()))
	}
	_, err := w.Tables.BatchUpdate(at, fds, nil)
	if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.EINVAL) { // before 5.18
		err = nil
		for i := range at {
			err = errors.Join(err, w.Tables.Put(at[i], fds[i]))
		}
	}
	if err != nil {
		for _, object := range at { // some may have been put
			_ = w.DropTable(object)
		}
		return fmt.Errorf("write tables for unwinding: %w", err)
	}
	return nil
}

func newTable(words []uint32) (*ebpf.Map, error) {
	const line = len(tableLine{})
	n := (len(words) + line - 1) / line
	m, err := ebpf.NewMap(inner("unwind_table", 4*line, n))
	if err != nil {
		return nil, err
	}
	lines := make([]tableLine, min(n, batch))
	for at := 0; at < n; at += batch {
		part := lines[:min(n-at, batch)]
		for i := range part {
			part[i] = tableLine{}
			copy(part[i][:], words[(at+i)*line:])
		}
		if err := updateArray(m, at, part); err != nil {
			return nil, errors.Join(err, m.Close())
		}
	}
	return m, nil
}

// DropTable implements [unwind.Kernel].
func (w *Walker) DropTable(object uint32) error { return drop(w.Tables, object) }

func drop(m *ebpf.Map, key uint32) error {
	if err := m.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("delete %d from a map for unwinding: %w", key, err)
	}
	return nil
}

type unwindMapping struct {
	Start, End, Bias uint64
	Object           uint32
	Means            uint32
}

// PutMappings implements [unwind.Kernel].
func (w *Walker) PutMappings(slot uint32, id uint64, maps []unwind.Mapping) error {
	out := make([]unwindMapping, 1, 1+len(maps))
	out[0].Start, out[0].End = uint64(len(maps)), id
	for _, m := range maps {
		out = append(out, unwindMapping{Start: m.Start, End: m.End, Bias: m.Bias, Object: m.Object, Means: uint32(m.Means)})
	}
	m, err := ebpf.NewMap(inner("unwind_mapping", 32, len(out)))
	if err == nil {
		err = updateArray(m, 0, out)
		if err == nil {
			err = w.Mappings.Put(slot, m)
		}
		err = errors.Join(err, m.Close()) // the outer map holds it
	}
	if err != nil {
		return fmt.Errorf("write mappings for unwinding: %w", err)
	}
	return nil
}

// DropMappings implements [unwind.Kernel].
func (w *Walker) DropMappings(slot uint32) error { return drop(w.Mappings, slot) }

type unwindSpace struct {
	Slot, Seen uint32
	ID         uint64
}

// SetSpace implements [unwind.Kernel].
func (w *Walker) SetSpace(pid, slot uint32, id uint64) error {
	if err := w.Spaces.Put(pid, unwindSpace{Slot: slot, ID: id}); err != nil {
		return fmt.Errorf("publish the mappings of process %d: %w", pid, err)
	}
	return nil
}

// DropSpace implements [unwind.Kernel].
func (w *Walker) DropSpace(pid uint32) error { return drop(w.Spaces, pid) }

// Seen implements [unwind.Kernel].
func (w *Walker) Seen(pid uint32) (used, missed bool) {
	var s unwindSpace
	if w.Spaces.Lookup(pid, &s) != nil {
		return false, false
	}
	return s.Seen&uint32(bpf.IngeroSpaceSeenSPACE_USED) != 0, s.Seen&uint32(bpf.IngeroSpaceSeenSPACE_MISSED) != 0
}

// Uses implements [unwind.Kernel].
func (w *Walker) Uses(object uint32) (n uint32) {
	if w.Wanted.Lookup(object, &n) != nil {
		return 0
	}
	return n
}

// Misses implements [unwind.Kernel].
func (w *Walker) Misses() (n uint64) {
	if w.Missed.Get(&n) != nil {
		return 0
	}
	return n
}

// Ends returns the number of stacks taken, by the reason of their end.
func (w *Walker) Ends() ([unwind.Ends]uint64, error) {
	var all [16]uint64
	if err := w.WalkEnds.Get(&all); err != nil {
		return [unwind.Ends]uint64{}, fmt.Errorf("read why stacks ended: %w", err)
	}
	return [unwind.Ends]uint64(all[:unwind.Ends]), nil
}
