package ledger

import (
	"slices"
	"testing"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// A step that lasts much longer than each step before is in the account with its waits so far, until it
// ends. A thread that waits for a person or for a client has nothing to do.
func TestUnfinishedStep(t *testing.T) {
	const open = base + 1e9 // start of the unfinished step, after 100 steps of 10 ms
	step := func(end int64) events.Call {
		return events.Call{Start: end - 5e6, Duration: 5e6, Blocked: 5e6, Gap: 5e6, GapOnCPU: 5e6, PID: 7, TID: 7, Op: 0x0140, Weight: 1}
	}
	poll := events.Wait{Start: open + 1e6, Duration: 5e9, PID: 7, TID: 7, State: events.WaitBlocked, Reason: events.ReasonPoll, Dev: 195 << 20, Flags: events.WaitByIRQ}
	at := func(ns int64, now tick.ThreadState) []tick.Thread {
		return []tick.Thread{{PID: 7, TID: 7, Since: base, Until: open + ns, Between: tick.Times{Blocked: uint64(ns)}, Now: now}}
	}
	blocked := tick.ThreadState{State: events.WaitBlocked, Reason: events.ReasonPoll, File: events.FileChar, Dev: 195 << 20, Since: open + 5_002e6}
	accept := events.Syscall(slices.IndexFunc(events.Syscalls, func(s events.SyscallRow) bool { return s.Name == "accept" }))
	for name, tt := range map[string]struct {
		more []events.Call
		tick []tick.Thread
		want time.Duration // blocked time of the unfinished step; 0: none
	}{
		"in a second poll of a GPU": {nil, at(8e9, blocked), 5*time.Second + 2998*time.Millisecond},
		"short":                     {nil, at(19e8, tick.ThreadState{}), 0},
		"has ended":                 {[]events.Call{step(open + 7.9e9)}, at(8e9, blocked), 0},
		"as long as one before":     {[]events.Call{step(open + 9e9)}, at(17e9, blocked), 0},
		"makes calls":               {[]events.Call{{Start: open + 79e8, Duration: 1e6, OnCPU: 1e6, PID: 7, TID: 7, Op: 0x0101, Weight: 1}}, at(8e9, blocked), 0},
		"at a terminal":             {nil, at(8e9, tick.ThreadState{State: events.WaitBlocked, Reason: events.ReasonDevice, File: events.FileChar, Dev: 136 << 20, Since: open}), 0},
		"for a client":              {nil, at(8e9, tick.ThreadState{State: events.WaitBlocked, Reason: events.ReasonSocket, Syscall: accept, Since: open}), 0},
	} {
		l := New(0)
		var calls []events.Call
		for end := int64(base); end <= open; end += 10e6 {
			calls = append(calls, step(end))
		}
		l.Batch(nil, calls)
		l.Batch([]events.Wait{poll}, tt.more)
		got := l.Tick(tt.tick, nil)[0].Open
		switch {
		case tt.want == 0 && got != nil:
			t.Errorf("%s: got %+v", name, got)
		case tt.want == 0:
		case got == nil || got.Times.Blocked != tt.want || got.Length() != 8*time.Second:
			t.Errorf("%s: got %+v, want %v blocked", name, got, tt.want)
		case len(got.Took) != 1 || got.Took[0].Reason != events.ReasonPoll || got.Took[0].Count != 2:
			t.Errorf("%s: took %+v, want two polls", name, got.Took)
		default: // it ends with the process, and stays
			ended := at(8e9, tick.ThreadState{})
			ended[0].Ended = true
			l.Tick(ended, nil)
			if got := l.Tick(nil, nil)[0].Open; got == nil || got.Length() != 8*time.Second || got.Times.Blocked != 5*time.Second {
				t.Errorf("%s, after the end: got %+v", name, got)
			}
			l.Batch(nil, []events.Call{step(open + 9e9)})
		}
	}
}

// A process whose other threads finish steps has no unfinished step. Nor has one whose thread with the most steps has
// ended, until its next thread hangs.
func TestUnfinishedStepOfThreads(t *testing.T) {
	const open = base + 1e9
	calls := func(tid uint32, from, to int64) (out []events.Call) {
		for end := from; end <= to; end += 10e6 {
			out = append(out, events.Call{Start: end - 5e6, Duration: 5e6, Blocked: 5e6, Gap: 5e6, GapOnCPU: 5e6, PID: 7, TID: tid, Op: 0x0140, Weight: 1})
		}
		return out
	}
	at := func(until int64, ended bool) []tick.Thread {
		main := tick.Thread{PID: 7, TID: 7, Since: base, Until: until, Now: tick.ThreadState{State: events.WaitBlocked, Reason: events.ReasonPoll, Since: open}, Ended: ended}
		other := main
		other.TID, other.Ended = 8, false
		return []tick.Thread{main, other}
	}
	l := New(0)
	l.Batch(nil, calls(7, base, open))
	l.Batch(nil, calls(8, open-2e8, open+2e8))
	if got := l.Tick(at(open+8e9, false), nil)[0].Open; got != nil {
		t.Errorf("another thread made steps: got %+v", got)
	}
	l = New(0)
	l.Batch(nil, calls(7, base, open))
	l.Batch(nil, calls(8, open-4e8, open-2e8))
	if got := l.Tick(at(open+8e9, false), nil)[0].Open; got == nil || got.From.UnixNano() != open {
		t.Errorf("the other thread made steps before: got %+v", got)
	}
	l.Tick(at(open+8e9, true), nil)
	l.Batch(nil, calls(8, open+1e9+1e7, open+9e9))
	if got := l.Tick(at(open+10e9, false)[1:], nil)[0].Open; got != nil {
		t.Errorf("the thread has ended: got %+v", got)
	}
}
