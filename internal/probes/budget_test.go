package probes

import (
	"fmt"
	"maps"
	"testing"

	"golang.org/x/sys/unix"

	"ingero/internal/bpf"
	"ingero/internal/testkit"
)

// The verifier's work per program is bounded: it is the cost of loading a program, and a hint at
// its cost to run.
func TestBudget(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	got := map[string]uint32{}
	for _, mode := range []Mode{ModeSession, ModeMulti, ModePerf} {
		tr, err := Open(Options{Mode: mode, Gate: true, Stacks: StacksSlow})
		if err != nil {
			t.Fatal(err)
		}
		verified, err := tr.Verified()
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(got, verified)
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	}
	got[bpf.XidProgOnXid] = verifiedXid(t)
	testkit.Budget(t, thisKernel(t), got)
}

// thisKernel returns the kernel's version, such as "6.18".
func thisKernel(t *testing.T) string {
	t.Helper()
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d.%d", major, minor)
}

// verifiedXid loads the program that reads faults, and returns the verifier's work.
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
