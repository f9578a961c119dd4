package probes

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"ingero/internal/bpf"
)

// The oldest supported kernel has helpers and map types up to these (include/uapi/linux/bpf.h of
// Linux 5.15).
const (
	lastHelper515 = 175 // bpf_task_pt_regs
	lastMap515    = ebpf.TaskStorage
)

// Programs that every kernel loads use only features of Linux 5.15. Newer ones are used by programs
// with an alternative, or whose absence is reported.
func TestOldestKernelHasWhatIsUsed(t *testing.T) {
	spec, err := bpf.LoadIngero()
	if err != nil {
		t.Fatal(err)
	}
	only := modePrograms[ModeSession]
	newer := slices.Concat(only.calls.names(), only.ranges.names())
	helpers := 0
	for name, p := range spec.Programs {
		for _, ins := range p.Instructions {
			if !ins.IsBuiltinCall() {
				if ins.IsKfuncCall() && !slices.Contains(newer, name) {
					t.Errorf("%s calls %s, which Linux 5.15 has not", name, ins.Reference())
				}
				continue
			}
			if helpers++; ins.Constant > lastHelper515 {
				t.Errorf("%s uses helper %d, which Linux 5.15 has not", name, ins.Constant)
			}
		}
	}
	if helpers < 100 {
		t.Errorf("%d uses of helpers: nothing was looked at", helpers)
	}
	for name, m := range spec.Maps {
		if m.Type > lastMap515 {
			t.Errorf("the map %s is a %s, which Linux 5.15 has not", name, m.Type)
		}
	}
}
