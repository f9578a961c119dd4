package probes

import (
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"

	"ingero/internal/bpf"
	"ingero/internal/testkit"
)

const budgetFile = "../../test/budget.txt"

// What the verifier has to look at is what a program costs to load, and a hint
// at what it costs to run. It may not grow unseen.
func TestBudget(t *testing.T) {
	testkit.NeedBPF(t)
	got := map[string]uint32{}
	for _, mode := range []Mode{ModeSession, ModeMulti, ModePerf} {
		tr, err := Open(Options{Mode: mode, Gate: true, Stacks: StacksSlow})
		if err != nil {
			t.Fatal(err)
		}
		for name, p := range tr.programs {
			info, err := p.Info()
			if err != nil {
				t.Fatal(err)
			}
			n, ok := info.VerifiedInstructions()
			if !ok {
				t.Fatalf("the kernel does not say how many instructions of %s it verified", name)
			}
			got[name] = n
		}
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	}
	got[bpf.XidProgOnXid] = verifiedXid(t)
	if testkit.Updating() {
		writeBudget(t, got)
		return
	}
	want := readBudget(t)
	for name, n := range got {
		limit, ok := want[name]
		switch {
		case !ok:
			t.Errorf("%s has no line in %s", name, budgetFile)
		case n > limit+limit/10:
			t.Errorf("%s: %d instructions verified, %d budgeted: make it smaller, or say why not and run with -update", name, n, limit)
		}
	}
	for name := range want {
		if _, ok := got[name]; !ok {
			t.Errorf("%s: a line for %s, which is no program", budgetFile, name)
		}
	}
}

// verifiedXid loads the program that waits for faults.
func verifiedXid(t *testing.T) uint32 {
	t.Helper()
	var loaded bpf.XidObjects
	if err := bpf.LoadXidObjects(&loaded, nil); err != nil {
		t.Fatal(err)
	}
	info, err := loaded.OnXid.Info()
	if err != nil {
		t.Fatal(err)
	}
	n, ok := info.VerifiedInstructions()
	if !ok {
		t.Fatal("the kernel does not say how many instructions of on_xid it verified")
	}
	if err := loaded.Close(); err != nil {
		t.Error(err)
	}
	return n
}

func readBudget(t *testing.T) map[string]uint32 {
	t.Helper()
	b, err := os.ReadFile(budgetFile)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]uint32{}
	for line := range strings.Lines(string(b)) {
		var name string
		var n uint32
		if c, _ := fmt.Sscan(line, &name, &n); c == 2 {
			want[name] = n
		}
	}
	return want
}

func writeBudget(t *testing.T, got map[string]uint32) {
	t.Helper()
	var names []string
	for n := range got {
		names = append(names, n)
	}
	sort.Strings(names)
	out := "# Instructions that the verifier looks at in each program, on Linux 6.18 (x86-64).\n"
	for _, n := range names {
		out += fmt.Sprintf("%-20s %d\n", n, got[n])
	}
	if err := os.WriteFile(budgetFile, []byte(out), 0o644); err != nil {
		t.Fatal(err)
	}
}
