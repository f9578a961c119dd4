package python

import (
	"testing"

	"ingero/internal/testkit"
)

// The last holder that the kernel reads from the lock is a thread state, which leads to its thread.
func TestLastHolder(t *testing.T) {
	const before = gilCond - gilHolder // PY_GIL_HOLDER of bpf/pyabi.h
	for _, version := range testkit.PythonVersions(t) {
		t.Run(version, func(t *testing.T) {
			p, target := running(t, version)
			w, err := NewWalker(target, p)
			if err != nil {
				t.Fatal(err)
			}
			if before != 24 || p.Facts.GIL == 0 {
				t.Fatalf("the holder is %d bytes before %#x", before, p.Facts.GIL)
			}
			state, err := w.memory.word(p.Facts.GIL - before)
			if err != nil {
				t.Fatal(err)
			}
			if tid, err := w.Thread(state); tid != target.PID || err != nil { // the process has one thread
				t.Errorf("thread state %#x is of %d, %v, want %d", state, tid, err, target.PID)
			}
			if tid, err := w.Thread(p.Facts.Runtime); err == nil {
				t.Errorf("what is no thread state is of %d", tid)
			}
		})
	}
}
