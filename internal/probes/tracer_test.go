package probes_test

import (
	"os"
	"testing"

	"ingero/internal/probes"
	"ingero/internal/python"
	"ingero/internal/testkit"
)

// Every mode that this kernel supports passes its verifier, and leaves nothing behind.
func TestOpenInEveryMode(t *testing.T) {
	testkit.NeedBPF(t)
	for _, mode := range []probes.Mode{probes.ModeAuto, probes.ModeSession, probes.ModeMulti, probes.ModePerf} {
		t.Run("mode="+string(mode), func(t *testing.T) {
			testkit.LeakCheck(t)
			tr, err := probes.Open(probes.Options{Mode: mode, Gate: true})
			if err != nil {
				t.Fatal(err)
			}
			if mode != probes.ModeAuto && tr.Mode() != mode {
				t.Errorf("mode = %q, want %q", tr.Mode(), mode)
			}
			if pid, err := tr.OwnPID(); err != nil || int(pid) != os.Getpid() {
				t.Errorf("own pid = %d, %v, want %d", pid, err, os.Getpid())
			}
			if err := tr.Close(); err != nil {
				t.Error(err)
			}
			if err := tr.Close(); err != nil {
				t.Errorf("second Close: %v", err)
			}
		})
	}
}

// Each time the programs get an interpreter, its stacks have a new epoch.
func TestPythonEpochs(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	tr, err := probes.Open(probes.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tr.Close() })
	seen := map[uint32]bool{0: true}
	for range 3 {
		epoch, err := tr.Python(1, python.Facts{})
		if err != nil || seen[epoch] {
			t.Errorf("epoch %d again: %v", epoch, err)
		}
		seen[epoch] = true
	}
	if err := tr.Untrace(1); err != nil {
		t.Error(err)
	}
}
