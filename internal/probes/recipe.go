package probes

import (
	"fmt"
	"runtime"

	"ingero/internal/bpf"
	"ingero/pkg/events"
)

// conventions has the calling convention of each architecture.
var conventions = map[string]events.Convention{"amd64": events.AMD64, "arm64": events.ARM64}

// recipe compiles one row for the current architecture.
func recipe(row *events.Row) (bpf.IngeroRecipe, error) {
	cc, ok := conventions[runtime.GOARCH]
	if !ok {
		return bpf.IngeroRecipe{}, fmt.Errorf("no calling convention known for %s", runtime.GOARCH)
	}
	keep, tag, err := row.Rules(cc)
	if err != nil {
		return bpf.IngeroRecipe{}, err
	}
	r := bpf.IngeroRecipe{Op: uint16(row.Op), Nargs: uint8(len(keep)), Tag: rule(tag), Pending: uint32(row.Pending)}
	for i, k := range keep {
		r.Arg[i] = rule(k)
	}
	for _, k := range append(keep, tag) {
		if lastSlot(k) > cc.Regs {
			r.Flags |= uint8(bpf.IngeroRecipeFlagsRECIPE_STACK)
		}
		if k.Take == events.TakeOut {
			r.Flags |= uint8(bpf.IngeroRecipeFlagsRECIPE_OUT)
		}
	}
	if row.Polls() {
		r.Polls = 1
	}
	switch {
	case Doubled(row):
		r.Layer = uint16(bpf.IngeroLaunchLayerLAYER_RUNTIME)
	case driverLaunch(row):
		r.Layer = uint16(bpf.IngeroLaunchLayerLAYER_DRIVER)
	}
	for flag, on := range map[bpf.IngeroRecipeFlags]bool{
		bpf.IngeroRecipeFlagsRECIPE_LAUNCH:     row.Class == events.ClassLaunch,
		bpf.IngeroRecipeFlagsRECIPE_SYNC:       row.Class == events.ClassSync,
		bpf.IngeroRecipeFlagsRECIPE_ENTRY_ONLY: row.EntryOnly,
		bpf.IngeroRecipeFlagsRECIPE_TEXT:       row.Text,
		bpf.IngeroRecipeFlagsRECIPE_STAYS:      row.Text && row.EntryOnly,
		bpf.IngeroRecipeFlagsRECIPE_KEEP:       row.Always() != "" && !row.Polls(),
	} {
		if on {
			r.Flags |= uint8(flag)
		}
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
