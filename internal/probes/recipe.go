package probes

import (
	"fmt"
	"runtime"

	"ingero/internal/bpf"
	"ingero/pkg/events"
)

// regSlots is how many integer arguments each architecture passes in registers.
var regSlots = map[string]uint8{"amd64": 6, "arm64": 8}

// recipe compiles one row for the architecture this program runs on.
func recipe(row *events.Row) (bpf.IngeroRecipe, error) {
	regs, ok := regSlots[runtime.GOARCH]
	if !ok {
		return bpf.IngeroRecipe{}, fmt.Errorf("no calling convention known for %s", runtime.GOARCH)
	}
	keep, tag, err := row.Rules()
	if err != nil {
		return bpf.IngeroRecipe{}, err
	}
	r := bpf.IngeroRecipe{Op: uint16(row.Op), Nargs: uint8(len(keep)), Tag: rule(tag)}
	for i, k := range keep {
		r.Arg[i] = rule(k)
	}
	for _, k := range append(keep, tag) {
		if lastSlot(k) > regs {
			r.Flags |= uint8(bpf.IngeroRecipeFlagsRECIPE_STACK)
		}
		if k.Take == events.TakeOut {
			r.Flags |= uint8(bpf.IngeroRecipeFlagsRECIPE_OUT)
		}
	}
	if row.Class == events.ClassLaunch {
		r.Flags |= uint8(bpf.IngeroRecipeFlagsRECIPE_LAUNCH)
	}
	if row.Class == events.ClassSync {
		r.Flags |= uint8(bpf.IngeroRecipeFlagsRECIPE_SYNC)
	}
	if row.EntryOnly {
		r.Flags |= uint8(bpf.IngeroRecipeFlagsRECIPE_ENTRY_ONLY)
	}
	return r, nil
}

func rule(r events.Rule) bpf.IngeroRule {
	return bpf.IngeroRule{Take: uint8(r.Take), Slot: r.Slot, Slot2: r.Slot2, Bytes: r.Bytes, Off: r.Off, Off2: r.Off2}
}

// lastSlot returns the highest slot that a rule reads.
func lastSlot(r events.Rule) uint8 {
	switch r.Take {
	case events.TakeDim3:
		return r.Slot + 1
	case events.TakePack3:
		return r.Slot + 2
	}
	return max(r.Slot, r.Slot2)
}
