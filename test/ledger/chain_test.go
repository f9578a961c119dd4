package ledger

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ingero/internal/probes"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// followed is the number of wakers through which a wait is followed: MAX_HOPS in bpf/abi.h.
const followed = 4

// chainRounds and chainSleep are how often the last thread of a chain sleeps, and how long at least,
// in ns.
const chainRounds, chainSleep = 60, 2_000_000

// Along a chain of waiting threads, the last thread's work explains the wait. Each thread is
// enrolled, up to the fourth hop, once the one before it has an account, so the first rounds are
// unexplained.
func TestChainOfWakers(t *testing.T) {
	_, program := buildChain(t)
	for _, hops := range []int{1, 2, 4, 6} {
		t.Run(fmt.Sprintf("%d", hops), func(t *testing.T) {
			child, tids := startChain(t, program, hops)
			saw, wait := watch(t, tracing{}, uint32(child.PID()))
			child.Send("go")
			child.Line("done")
			child.Send("")
			if err := child.Wait(); err != nil {
				t.Fatal(err)
			}
			wait()
			for i, tid := range tids[1:] {
				th, ok := saw.thread(tid)
				if want := i < followed; ok != want || ok && !th.Enrolled {
					t.Errorf("waker %d has an account: %t, want %t", i+1, ok, want)
				}
			}
			if far := dropped(saw, "waker-too-far"); (far > 0) != (hops > followed) {
				t.Errorf("%d wakers were too far", far)
			}
			last := min(hops, followed)
			want := events.ReasonSleep
			if hops > followed {
				want = events.ReasonPipe
			}
			x := blockedBy(t, saw, tids[0], tids[1])
			if x.Waker == nil || x.Waker.Reason != want || x.Waker.Blocked < chainRounds/2*chainSleep {
				t.Fatalf("%d ns of waits for the first waker: %+v, want them to be for %v", x.NS, x.Waker, want)
			}
			if root := x.Waker.Root.TID; last > 1 && root != tids[last] || last == 1 && root != 0 {
				t.Errorf("the root is %d, want %d of %v", root, tids[last], tids)
			}
		})
	}
}

// dropped returns how often something was dropped for a reason.
func dropped(saw *record, reason string) uint64 {
	for _, d := range saw.ticks[len(saw.ticks)-1].Drops {
		if d.Reason == reason {
			return d.Count
		}
	}
	return 0
}

// blockedBy returns the largest share of a process's blocked time that one thread ended.
func blockedBy(t *testing.T, saw *record, pid, by uint32) (most tick.Share) {
	t.Helper()
	for i := range saw.ticks {
		for _, b := range saw.ticks[i].Breakdowns {
			for _, x := range b.BlockedOn {
				if b.PID == pid && x.Who.TID == by && x.NS > most.NS {
					most = x
				}
			}
		}
	}
	return most
}

// A wait for a lock in turns, all but the last of which end by timers, counts wholly as a wait for
// the lock's holder, once that has an account. On a busy machine the thread that waits for the lock
// may itself wait for a CPU for most of the time; then it is the root.
func TestLockInTurns(t *testing.T) {
	_, program := buildProgram(t, "turns")
	child := testkit.Start(t, exec.Command(program, "80", "1000"))
	tids := numbers(t, child.Line(""))
	saw, wait := watch(t, tracing{}, uint32(child.PID()))
	child.Send("go")
	child.Line("done")
	child.Send("")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	wait()
	x := blockedBy(t, saw, tids[0], tids[1])
	if x.Waker == nil || x.Waker.Root.TID != tids[2] && x.Waker.Runnable < x.NS/4 {
		t.Fatalf("%d ns of waits for the thread that writes: %+v, want their root to be %d of %v", x.NS, x.Waker, tids[2], tids)
	}
	turns, blocked := 0, uint64(0)
	for _, w := range saw.waitsOf(tids[1]) {
		if w.Reason == events.ReasonLock && w.Who.TID == 0 {
			turns++
			blocked += uint64(w.Duration)
			if w.Hop != 1 {
				t.Errorf("the thread that writes is %d hops from the caller, want 1", w.Hop)
			}
		}
	}
	if turns == 0 {
		t.Error("no turn was ended by a timer")
	}
	if x.Waker.Blocked > blocked/2 { // a turn is 5 ms, however busy the machine is: these are the first ones
		t.Errorf("%d ns of waits for the thread that writes: %+v, of %d ns in turns", x.NS, x.Waker, blocked)
	}
}

// The threads of a waker's process that have its CPU are one culprit, however many they are.
func TestSiblingsOfWaker(t *testing.T) {
	_, program := buildProgram(t, "siblings")
	child := testkit.Start(t, exec.Command(program, "50"))
	tids := numbers(t, child.Line(""))
	saw, wait := watch(t, tracing{}, uint32(child.PID()))
	child.Send("go")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	wait()
	took := map[int64]bool{} // by start of the wait: a thread of the process
	for _, w := range saw.waitsOf(tids[1]) {
		if w.State != events.WaitRunnable || w.Who.PID != tids[0] {
			continue
		}
		if took[w.Start] || w.Hop != 1 || w.Who.TID == 0 || w.Who.TID == w.TID {
			t.Fatalf("hop %d, by a second thread of its process, or none: %+v", w.Hop, w)
		}
		took[w.Start] = true
	}
	if len(took) == 0 {
		t.Fatal("the thread that writes has never waited for a thread of its process")
	}
}

// The waker of a wait has a start time, as the kernel reports it for each thread.
func TestWakerHasItsStart(t *testing.T) {
	_, program := buildChain(t)
	child, tids := startChain(t, program, 2)
	want := map[uint32]uint32{}
	for _, tid := range tids {
		want[tid] = startOf(t, tid)
	}
	saw, wait := watch(t, tracing{}, uint32(child.PID()))
	child.Send("go")
	child.Line("done")
	child.Send("")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	wait()
	ended := map[uint32]int{}
	for hop, tid := range tids[:2] {
		for _, w := range saw.waitsOf(tid) {
			if int(w.Hop) != hop {
				t.Fatalf("a wait of thread %d: hop %d, want %d: %+v", tid, w.Hop, hop, w)
			}
			if w.State != events.WaitBlocked || want[w.Who.TID] == 0 {
				continue
			}
			if ended[w.Who.TID]++; w.Who.Start != want[w.Who.TID] {
				t.Fatalf("thread %d was started at %d, want %d", w.Who.TID, w.Who.Start, want[w.Who.TID])
			}
		}
	}
	for _, tid := range tids[1:] {
		if ended[tid] == 0 {
			t.Errorf("thread %d ended no wait", tid)
		}
	}
}

// startOf returns a process's start time, in ticks since boot.
func startOf(t *testing.T, pid uint32) uint32 {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	n, err := strconv.ParseUint(fields[22-3], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(n)
}

// numbers parses the numbers of a line.
func numbers(t *testing.T, line string) (out []uint32) {
	t.Helper()
	for _, f := range strings.Fields(line) {
		n, err := strconv.ParseUint(f, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, uint32(n))
	}
	return out
}

// buildChain builds the program that forms a chain of wakers, and its library.
func buildChain(t *testing.T) (dir, program string) {
	t.Helper()
	return buildProgram(t, "chain")
}

// buildProgram builds a program and the library of the traced functions.
func buildProgram(t *testing.T, name string) (dir, program string) {
	t.Helper()
	dir = build(t)
	program = filepath.Join(dir, name)
	if out, err := exec.Command("gcc", "-Wall", "-O1", "-pthread", "-o", program, filepath.Join("testdata", name+".c"), "-L"+dir, "-l:libcudart.so.12", "-Wl,-rpath,$ORIGIN").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return dir, program
}

// startChain starts the program, and returns the calling thread and those behind it.
func startChain(t *testing.T, program string, hops int) (child *testkit.Child, tids []uint32) {
	t.Helper()
	child = testkit.Start(t, exec.Command(program, strconv.Itoa(hops), strconv.Itoa(chainRounds), strconv.Itoa(chainSleep/1000)))
	return child, numbers(t, child.Line(""))
}

// A waker without a recent long wait loses its slot to others, even while it sleeps. It gets a slot
// again when it ends long waits again.
func TestUnusedWakers(t *testing.T) {
	dir, program := buildChain(t)
	tr, err := probes.Open(probes.Options{Rows: rows(), KeepWaker: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	attach(t, tr, filepath.Join(dir, "libcudart.so.12"))
	child, _ := startChain(t, program, 3)
	if err := tr.Trace(uint32(child.PID()), probes.Target{}); err != nil {
		t.Fatal(err)
	}
	child.Send("go")
	child.Line("done")
	known := func() (threads, places int) {
		err := tr.Threads(func(_ uint32, s *probes.ThreadState, _ uint64) {
			if threads++; s.Clock.EnrolledFor != 0 {
				places++
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return threads, places
	}
	if threads, _ := known(); threads != 4 {
		t.Errorf("%d threads have an account, want the one that calls and three wakers", threads)
	}
	testkit.Eventually(t, "the wakers' places to be free", func() bool {
		_, places := known()
		return places == 0
	})
	child.Send("more")
	child.Line("done")
	if threads, places := known(); threads != 4 || places != 3 {
		t.Errorf("%d threads have an account and %d a place, once they are of use again: want 4 and 3", threads, places)
	}
	child.Send("")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the threads to be forgotten", func() bool {
		threads, _ := known()
		return threads == 0
	})
}
