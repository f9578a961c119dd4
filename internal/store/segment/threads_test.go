package segment

import (
	"slices"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"ingero/internal/store/storetest"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// A thread in a long wait takes almost no space.
func TestThreadsAreSmall(t *testing.T) {
	w := threadsWriter{}
	x := &tick.Tick{Time: storetest.Began, Seq: 1}
	for i := range uint32(1000) {
		x.Threads = append(x.Threads, tick.Thread{PID: 4000, TID: 4000 + i, Comm: "python3", Since: storetest.Began.UnixNano(), Until: storetest.Began.UnixNano(),
			Now: tick.ThreadState{State: events.WaitBlocked, Reason: events.ReasonLock, Syscall: storetest.SyscallOf("futex"), Arg: 0x7f00_0000_1000 + uint64(i)*64, Since: storetest.Began.UnixNano()}})
	}
	first := len(w.append(nil, x))
	x.Time, x.Seq = x.Time.Add(time.Second), 2
	for i := range x.Threads {
		x.Threads[i].Until += 1e9
		x.Threads[i].Between.Blocked += 1e9
	}
	next := len(w.append(nil, x))
	t.Logf("1000 threads: %d bytes, then %d", first, next)
	if next > 6*1000 || first > 40*1000 {
		t.Errorf("1000 threads take %d bytes, and %d a second while they wait", first, next)
	}
}

// A thread without room in a tick is omitted as a whole, and written when there is room.
func TestThreadsWithoutRoom(t *testing.T) {
	w, m := threadsWriter{}, threadsReader{}
	x := &tick.Tick{Time: storetest.Began, Seq: 1}
	for i := range uint32(maxThreads + 10) {
		x.Threads = append(x.Threads, tick.Thread{PID: 1, TID: i, Comm: "x"})
	}
	read := func() []tick.Thread {
		t.Helper()
		r := reader{b: w.append(nil, x)}
		got := m.read(&r, x)
		if r.bad || len(r.b) != 0 {
			t.Fatal("it does not read back")
		}
		return got
	}
	if got := read(); !slices.EqualFunc(got, x.Threads[:maxThreads], func(a, b tick.Thread) bool { return sameThread(&a, &b) }) {
		t.Errorf("%d threads, want the first %d", len(got), maxThreads)
	}
	x.Seq, x.Threads = 2, x.Threads[20:]
	read() // disappeared threads make room
	x.Seq = 3
	if got := read(); len(got) != len(x.Threads) || got[len(got)-1].TID != maxThreads+9 {
		t.Errorf("%d threads, want %d", len(got), len(x.Threads))
	}
}

func FuzzThreads(f *testing.F) {
	w, k := threadsWriter{}, storetest.NewKernel()
	var several []byte
	for i := range 6 {
		several = w.append(several, k.Tick(uint64(i+1), storetest.Began.Add(time.Duration(i)*time.Second), i == 5))
	}
	f.Add([]byte{0, 0})
	f.Add(several)
	f.Add(threadsWriter{}.append(nil, k.Tick(7, storetest.Began, false)))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, m, again := reader{b: body}, threadsReader{}, threadsReader{}
		w := threadsWriter{}
		for seq := uint64(1); len(r.b) > 0; seq++ {
			x := &tick.Tick{Time: storetest.Began, Seq: seq}
			x.Threads = m.read(&r, x)
			if r.bad && x.Threads != nil {
				t.Fatalf("%d threads from what is damaged", len(x.Threads))
			}
			for i := range x.Threads {
				if th := &x.Threads[i]; len(th.Open) > maxOpen || len(th.Comm) > maxComm || th.Open != nil && len(th.Open) == 0 {
					t.Fatalf("thread %d: %d open calls, a name of %d bytes", th.TID, len(th.Open), len(th.Comm))
				}
			}
			if len(m) > maxThreads {
				t.Fatalf("%d threads are kept", len(m))
			}
			if r.bad {
				return
			}
			trip := reader{b: w.append(nil, x)}
			if got := again.read(&trip, x); trip.bad || len(trip.b) != 0 || diff.Diff(x.Threads, got) != "" {
				t.Fatalf("tick %d: a second trip changes the threads:\n%s", seq, diff.Diff(x.Threads, got))
			}
		}
	})
}
