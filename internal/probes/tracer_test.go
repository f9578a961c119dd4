package probes_test

import (
	"os"
	"testing"

	"ingero/internal/probes"
	"ingero/internal/testkit"
)

// Every mode that this kernel has must pass its verifier, and leave nothing.
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
