package ledger

import (
	"slices"
	"testing"

	"ingero/pkg/events"
)

// No time is lost for any number of threads: a full list keeps it under the name of another thread
// of the process, or without a name.
func TestNothingIsLostOfWaits(t *testing.T) {
	turn := func(pid, tid uint32, ns int64) Wait {
		return Wait{NS: ns, Count: 1, State: events.WaitRunnable, Who: events.Thread{PID: pid, TID: tid}, longest: ns}
	}
	var threads, programs, mixed []Wait
	for i := range uint32(20) {
		threads = append(threads, turn(7, 100+i, 4))
		programs = append(programs, turn(100+i, 100+i, 4))
		mixed = append(mixed, turn(7, 100+i, 4), turn(200+i, 200+i, int64(i)))
	}
	for _, tt := range []struct {
		name  string
		waits []Wait
		of    uint32 // a process
		has   int64  // minimum ns under its name
		named int64  // minimum ns under any name
	}{
		{"few", threads[:3], 7, 12, 12},
		{"threads of one process", threads, 7, 80, 80},
		{"programs", programs, 101, 4, 20},
		{"one of them a process of many threads", mixed, 7, 72, 140},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var list []Wait
			want := int64(0)
			for i := range tt.waits {
				want += tt.waits[i].NS
				list = keepWait(list, 6, &tt.waits[i])
			}
			var sum, has, named int64
			for _, w := range list {
				sum += w.NS
				if w.Who.PID == tt.of {
					has += w.NS
				}
				if w.Flags&events.WaitOthers == 0 {
					named += w.NS
				}
			}
			if sum != want || has < tt.has || named < tt.named {
				t.Errorf("%d ns in all, %d of process %d, %d of somebody; want %d, %d, %d: %+v", sum, has, tt.of, named, want, tt.has, tt.named, list)
			}
		})
	}
}

// Too many programs with one parent go under the parent's name.
func TestManyProgramsGoByTheirParent(t *testing.T) {
	var list []Wait
	want := int64(0)
	for i := range uint32(40) {
		w := Wait{NS: int64(5 + i%3), Count: 1, State: events.WaitRunnable, Who: events.Thread{PID: 100 + i, TID: 100 + i, Parent: 60}, longest: 5}
		if i == 20 {
			w.Who.Parent, w.NS = 61, 1000
		}
		want += w.NS
		list = keepWait(list, 4, &w)
	}
	var sum, children int64
	for _, w := range list {
		sum += w.NS
		if w.Who.Parent == 60 {
			children += w.NS
		}
		if w.Who == (events.Thread{}) {
			t.Errorf("%d ns are of nobody: %+v", w.NS, list)
		}
	}
	if sum != want || children != want-1000 {
		t.Errorf("%d ns in all, %d of what process 60 started; want %d, %d: %+v", sum, children, want, want-1000, list)
	}
}

// Threads of the waiting thread's own process are named individually, other processes as one.
func TestNamesOfThreads(t *testing.T) {
	var n names
	took := func(pid, tid uint32, ns int64) {
		n.named(7, &queued{Wait: events.Wait{State: events.WaitRunnable, PID: 7, TID: 7, Duration: ns, Taken: ns, Who: events.Thread{PID: pid, TID: tid}}}, 0, false, 0)
	}
	took(7, 71, 10)
	took(7, 72, 20)
	took(8, 81, 30)
	took(8, 82, 40)
	type share struct {
		tid uint32
		ns  uint64
		own bool
	}
	var got []share
	for _, s := range n.runnable.top(100) {
		got = append(got, share{s.Who.TID, s.NS, s.Own})
	}
	if want := []share{{82, 70, false}, {72, 20, true}, {71, 10, true}}; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
