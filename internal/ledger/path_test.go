package ledger

import (
	"testing"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// A wait is explained by the threads at the roots of the chains behind it, each nanosecond once.
func TestBehind(t *testing.T) {
	const ms = int64(1e6)
	at := func(tid uint32) events.Thread { return events.Thread{PID: 100 + tid, TID: tid} }
	between := [tick.MaxHops - 2]events.Thread{at(3), at(4)}
	blocked := func(tid uint32, from, to int64, on events.Reason, by uint32) events.Wait {
		w := events.Wait{PID: 100 + tid, TID: tid, Start: base + from*ms, Duration: (to - from) * ms, State: events.WaitBlocked, Reason: on}
		if by != 0 {
			w.Who = at(by)
		}
		return w
	}
	runnable := func(tid uint32, from, to int64, by uint32) events.Wait {
		w := blocked(tid, from, to, 0, by)
		w.State, w.Taken = events.WaitRunnable, w.Duration
		return w
	}
	lock := func(w events.Wait, at uint64) events.Wait {
		w.Arg = at
		return w
	}
	withIO := func(w events.Wait) events.Wait { w.Flags = events.WaitIO; return w }
	byTimer := func(w events.Wait) events.Wait { w.Flags = events.WaitByIRQ; return w }
	of := func(w events.Wait, pid uint32) events.Wait { w.Who.PID = pid; return w }
	called := func(w events.Thread, name string) events.Thread { w.Name = events.NameOf(name); return w }
	by := func(w events.Wait, name string) events.Wait { w.Who = called(w.Who, name); return w }
	turn := func(tid uint32, from, to int64, by uint32) events.Wait { // the futexes of a condition variable take turns
		return lock(blocked(tid, from, to, events.ReasonLock, by), 0x7000+uint64(to&1)*4)
	}
	for _, tt := range []struct {
		name  string
		waits []events.Wait // of the threads behind, in order of their ends
		want  tick.WakerShare
		gil   int64 // ms of it spent waiting for Python's lock
	}{
		{name: "of the waker nothing is known"},
		{name: "the waker was on a CPU", waits: []events.Wait{blocked(2, -10, 0, events.ReasonSleep, 0)},
			want: tick.WakerShare{Times: tick.Times{OnCPU: 10}}},
		{name: "the waker is known since a part of the wait", waits: []events.Wait{blocked(2, 4, 6, events.ReasonSleep, 0)},
			want: tick.WakerShare{Times: tick.Times{OnCPU: 4, Blocked: 2}, Reason: events.ReasonSleep}},
		{name: "a feeder thread waits for who makes the input",
			waits: []events.Wait{blocked(3, -9, -1, events.ReasonSleep, 0), blocked(2, -1, 9, events.ReasonLock, 3)},
			want:  tick.WakerShare{Times: tick.Times{OnCPU: 10}, Root: at(3)}},
		{name: "who makes the input reads a disk for a part of it",
			waits: []events.Wait{blocked(3, -1, 6, events.ReasonDisk, 0), blocked(2, -1, 9, events.ReasonLock, 3)},
			want:  tick.WakerShare{Times: tick.Times{OnCPU: 4, Blocked: 6}, Reason: events.ReasonDisk, Root: at(3)}},
		{name: "and has no CPU for another part",
			waits: []events.Wait{blocked(3, -1, 2, events.ReasonDisk, 0), runnable(3, 2, 8, 9), blocked(2, -1, 9, events.ReasonLock, 3)},
			want:  tick.WakerShare{Times: tick.Times{OnCPU: 2, Blocked: 2, Runnable: 6}, Reason: events.ReasonDisk, By: at(9), Root: at(3)}},
		{name: "threads of one process had its CPU longer than that of another",
			waits: []events.Wait{of(runnable(2, 0, 3, 11), 7), of(runnable(2, 3, 6, 13), 7), of(runnable(2, 6, 10, 12), 8)},
			want:  tick.WakerShare{Times: tick.Times{Runnable: 10}, By: events.Thread{PID: 7, TID: 11}}},
		{name: "of who makes the input only the end is known",
			waits: []events.Wait{blocked(3, 6, 7, events.ReasonSleep, 0), blocked(2, -1, 9, events.ReasonLock, 3)},
			want:  tick.WakerShare{Times: tick.Times{OnCPU: 3, Blocked: 7}, Reason: events.ReasonLock}},
		{name: "a waiter for a disk waits for nobody",
			waits: []events.Wait{blocked(3, -1, 0, events.ReasonSleep, 0), blocked(2, -1, 9, events.ReasonDisk, 3)},
			want:  tick.WakerShare{Times: tick.Times{OnCPU: 1, Blocked: 9}, Reason: events.ReasonDisk}},
		{name: "a page fault that read a disk", waits: []events.Wait{withIO(blocked(2, -1, 4, events.ReasonFault, 0))},
			want: tick.WakerShare{Times: tick.Times{OnCPU: 6, Blocked: 4}, Reason: events.ReasonFault}},
		{name: "a page fault without I/O waits for no disk", waits: []events.Wait{blocked(2, -1, 4, events.ReasonFault, 0)},
			want: tick.WakerShare{Times: tick.Times{OnCPU: 6, Blocked: 4}, Reason: events.ReasonMemory}},
		{name: "a limit of memory let it sleep", waits: []events.Wait{byTimer(blocked(2, -1, 4, events.ReasonFault, 0))},
			want: tick.WakerShare{Times: tick.Times{OnCPU: 6, Blocked: 4}, Reason: events.ReasonFault}},
		{name: "four hops", waits: []events.Wait{
			blocked(5, -1, 8, events.ReasonSleep, 0), blocked(4, -1, 8, events.ReasonPipe, 5), blocked(3, -1, 8, events.ReasonPipe, 4), blocked(2, -1, 8, events.ReasonPipe, 3)},
			want: tick.WakerShare{Times: tick.Times{OnCPU: 2, Blocked: 8}, Reason: events.ReasonSleep, Root: at(5), Through: between}},
		{name: "the name of a program that the worker started is the one after exec",
			waits: []events.Wait{blocked(3, -1, 0, events.ReasonSleep, 0),
				by(blocked(2, 1, 2, events.ReasonChild, 3), "worker"), by(blocked(2, 2, 9, events.ReasonPipe, 3), "sha256sum")},
			want: tick.WakerShare{Times: tick.Times{OnCPU: 9}, Root: called(at(3), "sha256sum")}},
		{name: "no more than four", waits: []events.Wait{
			blocked(6, -1, 8, events.ReasonSleep, 0), blocked(5, -1, 8, events.ReasonPipe, 6), blocked(4, -1, 8, events.ReasonPipe, 5), blocked(3, -1, 8, events.ReasonPipe, 4), blocked(2, -1, 8, events.ReasonPipe, 3)},
			want: tick.WakerShare{Times: tick.Times{OnCPU: 2, Blocked: 8}, Reason: events.ReasonPipe, Root: at(5), Through: between}},
		{name: "two that wait for each other", waits: []events.Wait{blocked(3, 0, 5, events.ReasonPipe, 2), blocked(2, 0, 9, events.ReasonPipe, 3)},
			want: tick.WakerShare{Times: tick.Times{OnCPU: 5, Blocked: 5}, Reason: events.ReasonPipe, Root: at(3)}},
		{name: "a feeder thread waits in turns for the lock that the worker has",
			waits: []events.Wait{blocked(3, -9, -1, events.ReasonSleep, 0),
				turn(2, -1, 4, 0), turn(2, 4, 9, 0), turn(2, 9, 9, 3)},
			want: tick.WakerShare{Times: tick.Times{OnCPU: 10}, Root: at(3)}},
		{name: "and waits for a CPU between two turns",
			waits: []events.Wait{blocked(3, -9, -1, events.ReasonSleep, 0),
				turn(2, -1, 4, 0), runnable(2, 4, 6, 9), turn(2, 6, 9, 3)},
			want: tick.WakerShare{Times: tick.Times{OnCPU: 8, Runnable: 2}, By: at(9), Root: at(3)}},
		{name: "a turn that ended long before the next wait is another wait",
			waits: []events.Wait{blocked(3, -9, -1, events.ReasonSleep, 0), turn(2, -1, 4, 0), turn(2, 6, 9, 3)},
			want:  tick.WakerShare{Times: tick.Times{OnCPU: 6, Blocked: 4}, Reason: events.ReasonLock}},
		{name: "a turn for another lock is another wait",
			waits: []events.Wait{blocked(3, -9, -1, events.ReasonSleep, 0), lock(turn(2, -1, 4, 0), 0x9000), turn(2, 4, 9, 3)},
			want:  tick.WakerShare{Times: tick.Times{OnCPU: 6, Blocked: 4}, Reason: events.ReasonLock, Root: at(3)}},
		{name: "a timer that ends a wait for input is no turn",
			waits: []events.Wait{blocked(3, -9, -1, events.ReasonSleep, 0), blocked(2, -1, 4, events.ReasonPoll, 0), turn(2, 4, 9, 3)},
			want:  tick.WakerShare{Times: tick.Times{OnCPU: 6, Blocked: 4}, Reason: events.ReasonPoll, Root: at(3)}},
		{name: "a waker that waits for files looks after something else now and then",
			waits: []events.Wait{blocked(3, -9, -1, events.ReasonSleep, 0), lock(blocked(2, -1, 4, events.ReasonPoll, 0), 5), lock(blocked(2, 4, 9, events.ReasonPoll, 3), 5)},
			want:  tick.WakerShare{Times: tick.Times{OnCPU: 10}, Root: at(3)}},
		{name: "a wait for other files is another wait",
			waits: []events.Wait{blocked(3, -9, -1, events.ReasonSleep, 0), lock(blocked(2, -1, 4, events.ReasonPoll, 0), 6), lock(blocked(2, 4, 9, events.ReasonPoll, 3), 5)},
			want:  tick.WakerShare{Times: tick.Times{OnCPU: 6, Blocked: 4}, Reason: events.ReasonPoll, Root: at(3)}},
		{name: "the thread got the lock at the end of its turn, from the thread that ended its previous turns",
			waits: []events.Wait{blocked(3, -9, -8, events.ReasonSleep, 0), turn(2, -7, -6, 3), turn(2, -5, -4, 3), turn(2, 0, 5, 0), turn(2, 8, 9, 3)},
			want:  tick.WakerShare{Times: tick.Times{OnCPU: 10}, Root: at(3)}},
		{name: "if two threads take turns with the lock, its holder is unknown",
			waits: []events.Wait{blocked(3, -9, -8, events.ReasonSleep, 0), turn(2, -7, -6, 3), turn(2, -5, -4, 4), turn(2, 0, 5, 0)},
			want:  tick.WakerShare{Times: tick.Times{OnCPU: 5, Blocked: 5}, Reason: events.ReasonLock}},
		{name: "Python's lock is one lock for all threads of the process",
			waits: []events.Wait{blocked(3, -9, -1, events.ReasonSleep, 0),
				lock(blocked(2, -1, 4, events.ReasonGIL, 0), 1), lock(blocked(2, 4, 9, events.ReasonGIL, 3), 1<<20)},
			want: tick.WakerShare{Times: tick.Times{OnCPU: 10}, Root: at(3)}, gil: 9},
		{name: "who has Python's lock sleeps for a part of the time",
			waits: []events.Wait{blocked(3, 2, 5, events.ReasonSleep, 0), lock(blocked(2, 1, 8, events.ReasonGIL, 3), 1)},
			want:  tick.WakerShare{Times: tick.Times{OnCPU: 5, Blocked: 4}, Reason: events.ReasonSleep, Root: at(3)}, gil: 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := New(0)
			for _, w := range tt.waits {
				l.wait(&w)
			}
			w := blocked(1, 0, 10, events.ReasonPoll, 2)
			got, gil := l.behind(&thread{pid: 101, tid: 1}, &w)
			if gil != tt.gil*ms {
				t.Errorf("%d ms of it for Python's lock, want %d", gil/ms, tt.gil)
			}
			for _, d := range []*uint64{&tt.want.OnCPU, &tt.want.Runnable, &tt.want.Throttled, &tt.want.Blocked} {
				*d *= uint64(ms)
			}
			if got != tt.want {
				t.Errorf("%+v\nwant %+v", got, tt.want)
			}
		})
	}
}

// A thread that blocks or loses its CPU often has more waits than are remembered one by one.
func TestBehindManyWaits(t *testing.T) {
	const us, rounds = int64(1e3), int64(10 * maxPast)
	disk := events.Wait{State: events.WaitBlocked, Reason: events.ReasonDisk, Dev: 1 << 20}
	late, hog, quota := events.Wait{State: events.WaitRunnable}, events.Wait{State: events.WaitRunnable, Who: events.Thread{PID: 9, TID: 9}}, events.Wait{State: events.WaitThrottled}
	lasts := func(w events.Wait, ns int64) events.Wait { w.Duration = ns; return w }
	for _, tt := range []struct {
		name  string
		waits []events.Wait // of each round, back to back
		onCPU int64         // ns of each round, after them
		want  tick.WakerShare
	}{
		{"it reads piece by piece", []events.Wait{lasts(disk, 30*us)}, 10 * us,
			tick.WakerShare{Times: tick.Times{Blocked: 30}, Reason: events.ReasonDisk, Dev: 1 << 20}},
		{"it waits for a CPU after each read", []events.Wait{lasts(disk, 300*us), lasts(late, 40*us)}, 60 * us,
			tick.WakerShare{Times: tick.Times{Blocked: 300, Runnable: 40}, Reason: events.ReasonDisk, Dev: 1 << 20}},
		{"and for its quota", []events.Wait{lasts(disk, 300*us), lasts(quota, 50*us), lasts(late, 40*us)}, 60 * us,
			tick.WakerShare{Times: tick.Times{Blocked: 300, Throttled: 50, Runnable: 40}, Reason: events.ReasonDisk, Dev: 1 << 20}},
		{"another process takes turns with it", []events.Wait{lasts(hog, 200*us)}, 200 * us,
			tick.WakerShare{Times: tick.Times{Runnable: 200}, By: hog.Who}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, at := New(0), int64(base)
			for range rounds {
				for _, w := range tt.waits {
					w.PID, w.TID, w.Start = 102, 2, at
					l.wait(&w)
					at = w.End()
				}
				at += tt.onCPU
			}
			length := (at - base) / rounds
			behind := func(from, to int64) tick.WakerShare { // rounds
				w := events.Wait{PID: 101, TID: 1, Start: base + from*length, Duration: (to - from) * length, State: events.WaitBlocked, Reason: events.ReasonPipe, Who: events.Thread{PID: 102, TID: 2}}
				got, _ := l.behind(&thread{pid: 101, tid: 1}, &w)
				return got
			}
			for _, from := range []int64{0, rounds - 9} { // all, and the last ones
				n, want := uint64(rounds-from), tt.want
				want.Times = tick.Times{OnCPU: n * uint64(tt.onCPU), Runnable: n * want.Runnable * uint64(us), Throttled: n * want.Throttled * uint64(us), Blocked: n * want.Blocked * uint64(us)}
				if got := behind(from, rounds); got != want {
					t.Errorf("since round %d: %+v\nwant %+v", from, got, want)
				}
			}
			n, part := rounds/2, behind(rounds/4, rounds*3/4)
			if got, want := part.OnCPU, uint64(n*tt.onCPU); part.Total() != uint64(n*length) || got < want*99/100 || got > want*101/100 {
				t.Errorf("in the middle: %+v, want %d ns on a CPU", part, want)
			}
		})
	}
}

// A wait for a lock is no turn of a later one if the thread ran in between, also where that is only
// known from waits that count as one.
func TestTurnsApart(t *testing.T) {
	const ms = int64(1e6)
	var p past
	at := int64(base)
	add := func(ns int64, state events.WaitState, by uint32) {
		p.add(&events.Wait{Start: at, Duration: ns, State: state, Reason: events.ReasonLock, Who: events.Thread{PID: by, TID: by}})
		at += ns
	}
	others := func() {
		for i := range uint32(maxPast/2 + 1) {
			add(ms, events.WaitRunnable, 10+i%(kinds+1))
		}
	}
	others()
	first := at
	add(5*ms, events.WaitBlocked, 0)
	add(ms, events.WaitRunnable, 9)
	at += 10 * ms
	add(ms, events.WaitRunnable, 9)
	others()
	add(5*ms, events.WaitBlocked, 3)
	for i := range p.waits {
		if w := p.at(i); w.start == first && w.by.TID != 0 {
			t.Errorf("%+v was ended by thread %d, want unknown", w, w.by.TID)
		}
	}
	if n := len(p.waits); n != maxPast || p.at(0).start > first {
		t.Errorf("%d waits since %d ns: the first turn is forgotten", n, p.at(0).start-first)
	}
}

// A TID may be reused: the first thread's waits do not explain the second thread.
func TestBehindAnotherOfThatNumber(t *testing.T) {
	const ms = int64(1e6)
	for _, tt := range []struct {
		name       string
		start      uint32 // of the thread that ends the wait, by its record
		onCPU, own uint64 // its activity in ms, before and after its own wait
	}{
		{"the same", 7, 10, 10},
		{"one that was started later", 8, 0, 3},
		{"not known when it was started", 0, 10, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, first := New(0), events.Thread{PID: 102, TID: 2, Start: 7}
			now := first
			now.Start = tt.start
			ends := func(from int64, who events.Thread) events.Wait {
				return events.Wait{PID: 101, TID: 1, Start: base + from*ms, Duration: 10 * ms, State: events.WaitBlocked, Reason: events.ReasonPipe, Who: who}
			}
			sleeps := func(until int64) events.Wait {
				return events.Wait{PID: 102, TID: 2, Start: base + (until-1)*ms, Duration: ms, State: events.WaitBlocked, Reason: events.ReasonSleep}
			}
			caller := &thread{pid: 101, tid: 1}
			w := sleeps(0)
			l.wait(&w)
			w = ends(0, first)
			if got, _ := l.behind(caller, &w); got.OnCPU != uint64(10*ms) {
				t.Fatalf("%+v, want 10 ms on a CPU", got)
			}
			w = ends(10, now)
			if got, _ := l.behind(caller, &w); got.OnCPU != tt.onCPU*uint64(ms) {
				t.Errorf("%+v, want %d ms on a CPU", got, tt.onCPU)
			}
			w = sleeps(27)
			l.wait(&w)
			w = ends(20, now)
			if got, _ := l.behind(caller, &w); got.Total() != 10*uint64(ms) && tt.own == 10 || tt.own != 10 && got.Total() != (tt.own+1)*uint64(ms) {
				t.Errorf("%+v, want %d ms", got, tt.own)
			}
		})
	}
}

// Waits that became longer are not averaged with those of long ago.
func TestBehindWaitsThatChange(t *testing.T) {
	const ms = int64(1e6)
	l, at := New(0), int64(base)
	for i := range int64(1000) {
		w := events.Wait{PID: 102, TID: 2, Start: at, Duration: ms, State: events.WaitBlocked, Reason: events.ReasonDisk, Dev: 1 << 20}
		if i >= 900 {
			w.Duration = 9 * ms
		}
		l.wait(&w)
		at += 10 * ms
	}
	w := events.Wait{PID: 101, TID: 1, Start: at - 1000*ms, Duration: 1000 * ms, State: events.WaitBlocked, Reason: events.ReasonPipe, Who: events.Thread{PID: 102, TID: 2}}
	if got, _ := l.behind(&thread{pid: 101, tid: 1}, &w); got.Blocked < uint64(800*ms) || got.Blocked > uint64(900*ms) {
		t.Errorf("%+v, want 900 ms blocked", got)
	}
}

// A wait is for a reply if the thread that waits has just woken the one that ends the wait from a wait for data.
func TestAsked(t *testing.T) {
	const us = int64(1e3)
	client, feeder, server := events.Thread{PID: 1, TID: 1}, events.Thread{PID: 1, TID: 2}, events.Thread{PID: 9, TID: 9}
	data := func(call events.Syscall, end int64, by events.Thread) events.Wait {
		return events.Wait{PID: 9, TID: 9, Start: base - 2e6, Duration: 2e6 + end*us, State: events.WaitBlocked, Reason: events.ReasonSocket, Syscall: call, Who: by}
	}
	for _, tt := range []struct {
		name string
		last events.Wait // of the server
		want bool
	}{
		{"just before", data(1, -50, client), true},
		{"during the wait", data(1, 50, client), true},
		{"long before", data(1, -1500, client), false},
		{"another thread", data(1, -50, feeder), false},
		{"it had waited to write", data(2, 50, client), false},
	} {
		l := New(0)
		l.wait(&tt.last)
		w := events.Wait{PID: 1, TID: 1, Start: base, Duration: 5e6, State: events.WaitBlocked, Reason: events.ReasonSocket, Who: server}
		if got := l.asked(&thread{pid: 1, tid: 1}, &w); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
