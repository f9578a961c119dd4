package python_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"ingero/internal/python"
	"ingero/internal/testkit"
)

// The Go structs match the kernel's: same members, offsets and names.
func TestABI(t *testing.T) {
	testkit.NeedTool(t, "clang-14")
	path, err := object()
	if err != nil {
		t.Fatal(err)
	}
	spec, err := ebpf.LoadCollectionSpec(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{"py_layout": python.Layout{}, "py_process": python.Facts{}, "py_frame": python.Frame{}} {
		var s *btf.Struct
		if err := spec.Types.TypeByName(name, &s); err != nil {
			t.Fatal(err)
		}
		goType := reflect.TypeOf(want)
		if goType.NumField() != len(s.Members) || goType.Size() != uintptr(s.Size) {
			t.Errorf("%s: %d members, %d bytes; Go has %d, %d", name, len(s.Members), s.Size, goType.NumField(), goType.Size())
			continue
		}
		for i, m := range s.Members {
			f := goType.Field(i)
			same := strings.EqualFold(strings.ReplaceAll(m.Name, "_", ""), f.Name) || m.Name == "at" && f.Name == "Layout"
			if !same || uintptr(m.Offset.Bytes()) != f.Offset {
				t.Errorf("%s: member %s at %d is %s at %d in Go", name, m.Name, m.Offset.Bytes(), f.Name, f.Offset)
			}
		}
	}
	for name, p := range spec.Programs {
		for _, ins := range p.Instructions {
			if ins.IsBuiltinCall() && ins.Constant == int64(asm.FnLoop) {
				t.Errorf("%s calls bpf_loop, which kernels before 5.17 lack", name)
			}
		}
	}
	var ends *btf.Enum
	if err := spec.Types.TypeByName("py_end", &ends); err != nil {
		t.Fatal(err)
	}
	if n := len(ends.Values); n != int(python.Ends)+1 {
		t.Errorf("%d ends, Go has %d", n-1, python.Ends)
	}
}
