package main

import (
	"strings"
	"testing"

	"ingero/internal/testkit"
)

// The types in the repository match those of the running kernel.
func TestRepository(t *testing.T) {
	testkit.NeedTool(t, "clang-14")
	testkit.NeedBPF(t)
	missing, checked, err := run("../../bpf")
	if err != nil {
		t.Fatal(err)
	}
	if checked == 0 || len(missing) > 0 {
		t.Errorf("%d fields checked, missing: %s", checked, missing)
	}
}

// A missing struct and a missing field are found. A checked field, a field of an anonymous member,
// and a field of a variant are not reported.
func TestMissing(t *testing.T) {
	testkit.NeedTool(t, "clang-14")
	testkit.NeedBPF(t)
	types := `
struct task_struct { int pid; int no_such_field; int asked_for; };
struct no_such_struct { int x; };
struct task_struct___old { int state_before; };
struct sk_buff { int next; };
`
	files := map[string]string{
		"vmlinux/vmlinux.h": types,
		"vmlinux/x86.h":     "", "vmlinux/arm64.h": "",
		"a.h": "if (bpf_core_field_exists(t->asked_for))",
	}
	dir := testkit.Tree(t, files)
	missing, _, err := run(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(missing, "\n")
	want := "struct task_struct has no field no_such_field\nstruct no_such_struct: " // then the reason
	if !strings.HasPrefix(got, want) || len(missing) != 2 {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
