package causal

import (
	"cmp"
	"slices"
	"strconv"
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

// A process that waits for a client which it started itself is idle. It waits for a peer if that program exchanges much
// more or less with the peer than the process with clients at the same address, or if it is unknown what it exchanges.
func TestClientOfOwn(t *testing.T) {
	tcp := func(kind tick.HostEvent, pid uint32, object string, bytes uint64) tick.HostSum {
		return tick.HostSum{HostKey: tick.HostKey{Kind: kind, PID: pid, Object: object}, Count: 1000, Bytes: bytes}
	}
	client := events.Thread{PID: 42, TID: 42, Parent: 7, Name: events.NameOf("client")}
	atPoll := tick.WakerShare{Times: tick.Times{Blocked: uint64(4 * ms)}, Reason: events.ReasonPoll, Root: client}
	for _, tt := range []struct {
		name           string
		peer           string
		asks, receives uint64 // bytes
		kind           tick.HostEvent
		want           string // rule
	}{
		{"a client", "[::1]:8000", 4100, 8000, tick.HostSend, ""},
		{"a worker that reads from a store", "[::1]:9000", 4100, 800_000, tick.HostSend, "peer-slow"},
		{"a worker that writes to a store", "[::1]:9000", 400_000, 8000, tick.HostSend, "peer-slow"},
		{"a worker with a peer elsewhere", "10.0.0.9:8000", 4100, 8000, tick.HostSend, "peer-slow"},
		{"a worker with little data in a store", "[::1]:9000", 400, 800, tick.HostSend, "peer-slow"},
		{"a worker that connects to a store", "[::1]:9000", 0, 0, tick.HostConnect, "peer-slow"},
		{"a worker with a UDP store", "[::1]:9000", 4100, 8000, tick.HostUDPSend, "peer-slow"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := New(1)
			job := []tick.Process{{PID: 7, Comm: "serve"}, {PID: 42, PPID: 7, Comm: "client"}}
			sums := []tick.HostSum{tcp(tick.HostReceive, 7, "::1", 4000), tcp(tick.HostSend, 7, "::1", 8000),
				tcp(tt.kind, 42, tt.peer, tt.asks), tcp(tick.HostReceive, 42, tt.peer, tt.receives)}
			e.Tick(&tick.Tick{Time: wall(start), Window: time.Second, Processes: job, HostSums: sums})
			e.Add(with(1000, 5, 4*ms, ledger.Wait{NS: 4 * ms, State: events.WaitBlocked, Reason: events.ReasonLock, Who: helper, Waker: atPoll}))
			got, _ := e.Tick(&tick.Tick{Time: wall(start + 20*s1), Window: 20 * time.Second, Processes: job, HostSums: sums})
			if tt.want == "" && len(got) != 0 || tt.want != "" && (len(got) != 1 || got[0].Rule != tt.want) {
				show(t, got)
				t.Errorf("%d chains, want %q", len(got), tt.want)
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
		{"before the process named itself", "engine", "vllm", "tool-call"},
		{"another thread", "engine", "heartbeat", ""},
		{"a thread without a known name", "engine", "", "tool-call"},
		{"the name of the thread is unknown", "", "heartbeat", "tool-call"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := New(1)
			e.Tick(&tick.Tick{Time: wall(start), Window: time.Second, Processes: []tick.Process{{PID: 7, Comm: "vllm"}}})
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

// more are the rarer conditions of TestAsked.
type more struct {
	last   []tick.HostSum // of the last tick
	parent uint32         // of the job
	reason events.Reason  // of its waits
}

// A process waits for the peers that it asked over UDP or a UNIX socket: not for its clients, its own job, or
// one that takes logs.
func TestAsked(t *testing.T) {
	sum := func(kind tick.HostEvent, object string) tick.HostSum {
		return tick.HostSum{HostKey: tick.HostKey{Kind: kind, PID: 7, Object: object}, Count: 100}
	}
	process := func(pid, parent uint32) events.Thread {
		return events.Thread{PID: pid, TID: pid, Parent: parent, Name: events.NameOf("other")}
	}
	const at, dns, metrics = "/run/x.sock", "10.0.0.2:53", "10.0.0.3:8125"
	daemon, nobody := process(40, 1), events.Thread{}
	asks, asksDNS, clients := sum(tick.HostUnixSend, at), sum(tick.HostUDPSend, dns), sum(tick.HostUnixReceive, "")
	answer, heartbeat := sum(tick.HostUDPReceive, dns), sum(tick.HostSend, "10.0.0.7:80")
	const waited = "the job waited for its data"
	for _, tt := range []struct {
		name string
		who  events.Thread
		sums []tick.HostSum
		want string // what the culprit did; "": no finding
		more
	}{
		{"a daemon at a UNIX socket", daemon, []tick.HostSum{asks}, waited, more{}},
		{"a process without a socket", daemon, nil, "", more{}},
		{"a client at a UNIX socket", daemon, []tick.HostSum{clients}, "", more{}},
		{"a client of a process that asks a daemon", daemon, []tick.HostSum{asks, clients}, "", more{}},
		{"one that takes logs", daemon, []tick.HostSum{sum(tick.HostUnixSend, "/run/log")}, "", more{}},
		{"the parent that gives work", process(5, 1), []tick.HostSum{asks}, "", more{}},
		{"a child of the parent", process(6, 5), []tick.HostSum{asks}, "", more{}},
		{"wrapper between a parent that gives work and the job", process(3, 1), []tick.HostSum{asks}, "", more{parent: 8}},
		{"wrapper between the parent and a child of it", process(6, 8), []tick.HostSum{asks}, "", more{}},
		{"a daemon at a pipe", daemon, []tick.HostSum{asks}, "", more{reason: events.ReasonPipe}},
		{"a worker", process(9, 7), []tick.HostSum{asks}, "", more{}},
		{"nobody known, with a UNIX socket", nobody, []tick.HostSum{asks}, "", more{}},
		{"a name server that does not answer", nobody, []tick.HostSum{asksDNS}, "peer " + dns, more{}},
		{"one that takes metrics", nobody, []tick.HostSum{sum(tick.HostUDPSend, metrics)}, "", more{}},
		{"a UDP client", nobody, []tick.HostSum{sum(tick.HostUDPReceive, "10.0.0.9")}, "", more{}},
		{"a name server that does not answer, and a heartbeat", nobody, []tick.HostSum{asksDNS, heartbeat}, "peer " + dns, more{}},
		{"a TCP peer and a name server that answers", nobody, []tick.HostSum{asksDNS, answer, heartbeat}, "peer " + heartbeat.Object, more{}},
		{"a name server that answers", nobody, []tick.HostSum{asksDNS, answer}, "", more{}},
		{"a name server that answers in the next tick", nobody, []tick.HostSum{asksDNS}, "", more{last: []tick.HostSum{answer}}},
		{"a query in flight", nobody, nil, "", more{last: []tick.HostSum{asksDNS}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := New(1)
			job := []tick.Process{{PID: 7, PPID: cmp.Or(tt.parent, 5), Comm: "train"}}
			others := []tick.Process{{PID: 5, PPID: 1, Comm: "sh"}}
			answers := []tick.HostSum{sum(tick.HostUnixReceive, at), sum(tick.HostUDPReceive, dns)}
			e.Tick(&tick.Tick{Time: wall(start - 1000*s1), Window: time.Second, Processes: job, Others: others, HostSums: answers})
			e.Tick(&tick.Tick{Time: wall(start), Window: time.Second, Processes: job})
			e.Add(with(1000, 5, 4*ms, ledger.Wait{NS: 4 * ms, State: events.WaitBlocked, Reason: cmp.Or(tt.reason, events.ReasonSocket), Who: tt.who}))
			e.Tick(&tick.Tick{Time: wall(start + 16*s1), Window: 16 * time.Second, Processes: job, HostSums: tt.sums})
			got, _ := e.Tick(&tick.Tick{Time: wall(start + 17*s1), Window: time.Second, Processes: job, HostSums: tt.last})
			what := ""
			for _, c := range got {
				if c.Rule == "peer-slow" {
					what = c.Culprits[0].What
				}
			}
			if what != tt.want {
				show(t, got)
				t.Errorf("%q, want %q", what, tt.want)
			}
		})
	}
}

// The peers that sent data have a bound of their own, and go some time after their process.
func TestHeard(t *testing.T) {
	sum := func(peer int) tick.HostSum {
		return tick.HostSum{HostKey: tick.HostKey{Kind: tick.HostUDPReceive, PID: 7, Object: strconv.Itoa(peer)}}
	}
	job := tick.Process{PID: 7, Comm: "train"}
	var k relations
	k.note(&tick.Tick{Time: wall(start), Processes: []tick.Process{job}, Requests: []tick.Request{{PID: 7}}})
	for i := range maxHeard + 2 {
		k.note(&tick.Tick{Time: wall(start), HostSums: []tick.HostSum{sum(i)}})
	}
	if len(k.heard[7]) != 2 || !k.serves[7] {
		t.Errorf("%d peers, a server: %t, want 2, true", len(k.heard[7]), k.serves[7])
	}
	job.Ended = wall(start)
	for after, want := range []int{2, 2, 0} {
		k.note(&tick.Tick{Time: wall(start + int64(after)*31*s1), Processes: []tick.Process{job}})
		if got := len(k.heard[7]); got != want {
			t.Errorf("%d peers %d s after the end, want %d", got, 31*after, want)
		}
	}
}
