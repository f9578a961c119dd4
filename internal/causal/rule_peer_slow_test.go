package causal

import (
	"slices"
	"testing"
	"time"

	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// A thread of a server that waits for the thread that receives requests is idle, or waits for a peer.
func TestReceiver(t *testing.T) {
	atPoll := tick.WakerShare{Times: tick.Times{Blocked: uint64(4 * ms)}, Reason: events.ReasonPoll}
	client := tick.HostSum{HostKey: tick.HostKey{Kind: tick.HostReceive, PID: 7, Object: "10.0.0.9"}, Count: 1}
	clients := client
	clients.Count = 1000
	cache := tick.HostSum{HostKey: tick.HostKey{Kind: tick.HostReceive, PID: 7, Object: "10.0.0.7:6379"}, Count: 1}
	for _, tt := range []struct {
		name          string
		reason        events.Reason // of the victim's wait
		master        string        // where ranks meet
		before, after []tick.HostSum
		want          string // rule
	}{
		{"requests that a thread hands over", events.ReasonLock, "", []tick.HostSum{client}, []tick.HostSum{clients}, ""},
		{"requests that a thread sends on", events.ReasonPoll, "", []tick.HostSum{client}, []tick.HostSum{clients}, ""},
		{"the first requests", events.ReasonLock, "", nil, []tick.HostSum{clients}, ""},
		{"one request long ago", events.ReasonLock, "", []tick.HostSum{client}, nil, "lock-wait"},
		{"one request", events.ReasonLock, "", nil, []tick.HostSum{client}, "lock-wait"},
		{"data of a peer", events.ReasonLock, "", []tick.HostSum{client}, []tick.HostSum{cache}, "peer-slow"},
		{"the holder of Python's lock that receives", events.ReasonGIL, "", []tick.HostSum{client}, []tick.HostSum{client}, "lock-wait"},
		{"a lock of a rank that others query", events.ReasonLock, "10.0.0.8:29500", []tick.HostSum{client}, []tick.HostSum{clients}, "lock-wait"},
		{"a lock in a process without clients", events.ReasonLock, "", []tick.HostSum{cache}, []tick.HostSum{cache}, "lock-wait"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := New(1)
			job := []tick.Process{{PID: 7, Comm: "serve", Where: tick.Where{Master: tt.master}}}
			e.Tick(&tick.Tick{Time: wall(start), Window: time.Second, Processes: job, HostSums: tt.before})
			e.Add(with(1000, 5, 4*ms, ledger.Wait{NS: 4 * ms, State: events.WaitBlocked, Reason: tt.reason, Who: helper, Waker: atPoll}))
			got, _ := e.Tick(&tick.Tick{Time: wall(start + 20*s1), Window: 20 * time.Second, Processes: job, HostSums: tt.after})
			if tt.want == "" && len(got) != 0 || tt.want != "" && (len(got) != 1 || got[0].Rule != tt.want) {
				show(t, got)
				t.Errorf("%d chains, want %q", len(got), tt.want)
			}
			for _, c := range got {
				if c.Rule == "lock-wait" && slices.Contains(c.NotIt, "locks") {
					t.Errorf("it is a lock, and not %v", c.NotIt)
				}
			}
		})
	}
}

// A peer of another thread of the process, by its name, is not the one that a thread waits for.
func TestPeerOfThread(t *testing.T) {
	job := []tick.Process{{PID: 7, Comm: "python3"}}
	for _, tt := range []struct {
		name, thread, talks string // names of the thread that waits, and of the one with a peer
		want                string // rule
	}{
		{"the thread itself", "engine", "engine", "tool-call"},
		{"before it had its name", "engine", "python3", "tool-call"},
		{"another thread", "engine", "heartbeat", ""},
		{"a thread without a known name", "engine", "", "tool-call"},
		{"the name of the thread is unknown", "", "heartbeat", "tool-call"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := New(1)
			steps := with(1000, 50, 400*ms, ledger.Wait{NS: 400 * ms, State: events.WaitBlocked, Reason: events.ReasonPoll})
			e.Add(steps)
			got, _ := e.Tick(&tick.Tick{
				Time: wall(steps[999].To), Window: time.Second, Processes: job, Threads: []tick.Thread{{PID: 7, TID: 7, Comm: tt.thread}},
				HostSums: []tick.HostSum{{HostKey: tick.HostKey{Kind: tick.HostSend, PID: 7, Object: "10.0.0.7:6379"}, Comm: tt.talks, Count: 5}},
			})
			if tt.want == "" && len(got) != 0 || tt.want != "" && (len(got) != 1 || got[0].Rule != tt.want) {
				show(t, got)
				t.Errorf("%d chains, want %q", len(got), tt.want)
			}
		})
	}
}
