package session

import (
	"sync/atomic"
	"testing"
	"time"

	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// gilWait is a wait for the lock of a process, whose holder has the thread state 9.
func gilWait(pid uint32) *events.Wait { return &events.Wait{PID: pid, Arg: 9} }

// A process whose memory cannot be read in time keeps neither the session nor lookups in other
// processes. Its own are tried again once the read has returned.
func TestHolderOfProcessThatHangs(t *testing.T) {
	testkit.LeakCheck(t)
	const hostile = 1000 // and above
	free := make(chan struct{})
	var tried atomic.Int64
	h := newLockHolders(nil, nil)
	h.find = func(_ *holders, pid uint32, state uint64) events.Thread {
		if tried.Add(1); pid >= hostile {
			<-free
		}
		return events.Thread{PID: pid, TID: uint32(state)}
	}
	knows := func(pid uint32) bool {
		x := h.holder(gilWait(pid))
		if !x.Known {
			t.Fatalf("process %d is not known", pid)
		}
		return x.TID == 9
	}
	h.setInterpreter(7, nil)
	for pid := uint32(hostile); pid < hostile+maxHanging; pid++ {
		h.setInterpreter(pid, nil)
		h.patience = 1 // ns
		once := tried.Load() + 1
		if knows(pid) {
			t.Errorf("process %d: its memory was read", pid)
		}
		testkit.Eventually(t, "the read", func() bool { return tried.Load() == once })
		h.patience = time.Hour
		if knows(pid) || tried.Load() != once {
			t.Errorf("process %d: another read was tried", pid)
		}
		h.fork(pid, 8)
		h.forget(8)
		if pid < hostile+maxHanging-1 && !knows(7) {
			t.Errorf("after process %d, another one is not read", pid)
		}
	}
	if knows(7) {
		t.Errorf("with %d reads that hang, another was tried", maxHanging)
	}
	if got := h.drops(); len(got) != 1 || got[0].Count != 2*maxHanging+1 {
		t.Errorf("drops %+v, want %d", got, 2*maxHanging+1)
	}
	close(free)
	for _, pid := range []uint32{7, hostile} {
		testkit.Eventually(t, "the holder", func() bool { return knows(pid) })
	}
	h.close()
}

// BenchmarkHolder measures what the goroutine that reads adds to a lookup.
func BenchmarkHolder(b *testing.B) {
	h := newLockHolders(nil, nil)
	h.find = func(*holders, uint32, uint64) events.Thread { return events.Thread{} }
	h.setInterpreter(7, nil)
	w := gilWait(7)
	b.ReportAllocs()
	for b.Loop() {
		h.holder(w)
	}
	h.close()
}
