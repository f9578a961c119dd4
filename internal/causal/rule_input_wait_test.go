package causal

import (
	"slices"
	"testing"

	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// A job that waits in a call that sends waits for a reader of its output, whatever the reader does meanwhile.
func TestWaitsForOutput(t *testing.T) {
	worker := events.Thread{PID: 200, TID: 200, Parent: 100, Name: events.NameOf("collector")}
	busy := tick.WakerShare{Times: tick.Times{OnCPU: 9e6}}
	idle := tick.WakerShare{Times: tick.Times{OnCPU: 1e6, Blocked: 8e6}, Reason: events.ReasonSleep, Call: callNamed(t, "clock_nanosleep")}
	for _, tt := range []struct {
		call   string
		reason events.Reason
		share  tick.WakerShare
		what   string
	}{
		{"write", events.ReasonPipe, busy, "was busy while the job waited to write to it"},
		{"write", events.ReasonPipe, idle, "slept while the job waited to write to it"},
		{"sendmsg", events.ReasonSocket, busy, "was busy while the job waited to write to it"},
		{"msgsnd", events.ReasonOther, idle, "slept while the job waited to write to it"},
		{"read", events.ReasonPipe, busy, "prepared input while the job waited"},
		{"read", events.ReasonPipe, idle, "slept while the job waited for its input"},
		{"recvmsg", events.ReasonSocket, busy, "prepared input while the job waited"},
	} {
		s := ledger.Step{PID: 100, TID: 100, Waits: []ledger.Wait{{
			NS: 9 * ms, Count: 1, State: events.WaitBlocked, Reason: tt.reason, Call: callNamed(t, tt.call), Who: worker, Waker: tt.share}}}
		most := parts(nil, &s, &relations{})[0]
		c := newCauses()
		n, ok := c.attribute(&most)
		if !ok || c.list[n].rule().Name != "input-wait" || c.list[n].what != tt.what {
			t.Errorf("%s, %s: %+v of %+v; want %q", tt.call, tt.reason, c.list, most, tt.what)
		}
	}
}

// A worker that answers requests is late with a reply. One that makes input may also answer short requests, or
// send some itself.
func TestWaitsForReplies(t *testing.T) {
	job := events.Thread{PID: 7, TID: 7}
	worker := events.Thread{PID: 40, TID: 40, Parent: 7, Name: events.NameOf("server")}
	busy := tick.WakerShare{Times: tick.Times{OnCPU: uint64(4 * ms)}}
	input := ledger.Wait{NS: 12 * ms, State: events.WaitBlocked, Reason: events.ReasonPoll, Who: worker, Waker: tick.WakerShare{Times: tick.Times{OnCPU: uint64(12 * ms)}}}
	const prepared, late = "prepared input while the job waited", "answered late: the job waited for its reply"
	for _, tt := range []struct {
		name   string
		w      ledger.Wait
		asked  bool          // just before
		server events.Thread // has TCP clients
		loads  bool          // the worker makes input, too
		first  bool          // not asked just before at first
		want   string
	}{
		{name: "a manager computes", w: ledger.Wait{Reason: events.ReasonSocket, Waker: busy}, asked: true, want: late},
		{name: "a server that the job asks by a pipe", w: ledger.Wait{Reason: events.ReasonPipe, Waker: busy}, asked: true, want: late},
		{name: "a thread of an HTTP server of which nothing is known", w: ledger.Wait{Reason: events.ReasonPoll}, server: worker, want: late},
		{name: "a client that the job answered before", w: ledger.Wait{Reason: events.ReasonSocket, Waker: busy}, asked: true, server: job, want: prepared},
		{name: "a loader that the job asks for memory", w: ledger.Wait{Reason: events.ReasonSocket, Waker: busy}, asked: true, loads: true, want: prepared},
		{name: "a simulator that the job asked long before, at first", w: ledger.Wait{Reason: events.ReasonSocket, Waker: busy}, asked: true, first: true, want: late},
		{name: "a loader", w: ledger.Wait{Reason: events.ReasonPoll, Waker: busy}, want: prepared},
		{name: "a reader of output", w: ledger.Wait{Reason: events.ReasonPipe, Call: callNamed(t, "write"), Waker: busy}, asked: true, want: "was busy while the job waited to write to it"},
	} {
		tt.w.NS, tt.w.State, tt.w.Who = 4*ms, events.WaitBlocked, worker
		if tt.asked {
			tt.w.Asked = tt.w.NS
		}
		e := New(1)
		if tt.server.PID != 0 {
			e.relations.serves = map[uint32]bool{tt.server.PID: true}
		}
		steps := with(1000, 5, 4*ms, tt.w)
		if tt.loads {
			steps = with(1000, 5, 16*ms, input)
			for i := range steps {
				if x := &steps[i]; len(x.Waits) > 0 {
					x.Waits = append(x.Waits, tt.w)
				}
			}
		}
		if tt.first {
			i := slices.IndexFunc(steps, func(s ledger.Step) bool { return len(s.Waits) > 0 })
			steps[i].Waits[0].Asked = 0
		}
		e.Add(steps)
		got := chainsOf(e, start+20*s1)
		if len(got) != 1 || got[0].Rule != "input-wait" || got[0].Culprits[0].What != tt.want {
			show(t, got)
			t.Errorf("%s: %d chains, want input-wait: %s", tt.name, len(got), tt.want)
		}
	}
}

// If a worker for whose input the job waited answers requests now, the cause of the replies replaces that of the
// input. It stays when the worker then makes a little more input.
func TestInputBecomesReplies(t *testing.T) {
	worker := events.Thread{PID: 40, TID: 40, Parent: 7, Name: events.NameOf("simulator")}
	e := New(1)
	at := int64(0)
	var got []tick.Chain
	for _, asked := range []bool{false, false, false, false, true, true, true, true, true, false, false, false} {
		w := ledger.Wait{NS: 4 * ms, State: events.WaitBlocked, Reason: events.ReasonSocket, Who: worker, Waker: tick.WakerShare{Times: tick.Times{OnCPU: uint64(4 * ms)}}}
		if asked {
			w.Asked = w.NS
		}
		steps := with(1000, 5, 4*ms, w)
		for i := range steps {
			s := &steps[i]
			s.From, s.To = s.From+at, s.To+at
			for j := range s.Waits {
				s.Waits[j].First, s.Waits[j].Last = s.Waits[j].First+at, s.Waits[j].Last+at
			}
		}
		e.Add(steps)
		at = steps[len(steps)-1].To - start
		got = chainsOf(e, start+at)
	}
	groups := map[string]bool{}
	for i := range got {
		groups[got[i].ID] = got[i].Replaced.IsZero()
	}
	input, reply := chainID(7, inputWait.Name, inputGroup), chainID(7, inputWait.Name, replyGroup)
	if len(got) != 2 || groups[input] || !groups[reply] {
		show(t, got)
		t.Errorf("chains %v, want %s replaced by %s", groups, input, reply)
	}
}

func callNamed(t *testing.T, name string) events.Syscall {
	t.Helper()
	for i := range events.Syscalls {
		if events.Syscalls[i].Name == name {
			return events.Syscall(i)
		}
	}
	t.Fatalf("no system call %s", name)
	return 0
}
