package explain

import (
	"strings"
	"testing"
	"time"

	sys "golang.org/x/sys/unix"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// ranksTick is a second in which ranks wait for two others.
func ranksTick() *tick.Tick {
	t := ledgerTick(well(4821))
	at := func(ago time.Duration) int64 { return t.Time.Add(-ago).UnixNano() }
	reduce, _ := events.OpByName("ncclAllReduce")
	last := tick.CommOp{Op: reduce, TID: 4822, Time: at(42 * time.Second)}
	t.RollCalls = []tick.RollCall{{Comm: 0xabc, Ranks: 8, Seq: 48112, Op: reduce, Since: at(41200 * time.Millisecond),
		Entered: []tick.Rank{{Rank: 0, PID: 4821}, {Rank: 2, PID: 4823}},
		Missing: []tick.Missing{
			{Rank: tick.Rank{Rank: 1, PID: 4822}, Seq: 48111, Last: last, Lives: true, TID: 4822, At: "loader.py:57",
				Now: tick.ThreadState{State: events.WaitBlocked, Reason: events.ReasonDisk, Syscall: events.SyscallOf(sys.SYS_READ), Dev: 254 << 20, Since: at(41300 * time.Millisecond)}},
			{Rank: tick.Rank{Rank: 3, PID: 4824}, Seq: 48111, Last: last, End: tick.Ending{Time: at(40 * time.Second), Signal: 9, By: 711, Comm: "kubelet"}},
		}}}
	return t
}

// Each activity of a missing rank has words.
func TestInstead(t *testing.T) {
	now := time.Unix(1000, 0)
	at := func(ago time.Duration) int64 { return now.Add(-ago).UnixNano() }
	malloc, _ := events.OpByName("cudaMalloc")
	ended := func(e tick.Ending) tick.Missing {
		e.Time = at(2 * time.Second)
		return tick.Missing{End: e}
	}
	does := func(d tick.ThreadState) tick.Missing {
		d.Since = at(3 * time.Second)
		return tick.Missing{Lives: true, Now: d}
	}
	inCall := does(tick.ThreadState{CPU: 2})
	inCall.Open, inCall.At = tick.OpenCall{Op: malloc, Start: at(4 * time.Second)}, "train.py:12"
	for want, m := range map[string]tick.Missing{
		"was killed by SIGKILL from kubelet (711) 2.00 s ago":                            ended(tick.Ending{Signal: 9, By: 711, Comm: "kubelet"}),
		"was killed by SIGSEGV 2.00 s ago":                                               ended(tick.Ending{Signal: 11}),
		"was killed by the OOM killer 2.00 s ago":                                        ended(tick.Ending{Signal: 9, OOM: true}),
		"ended 2.00 s ago":                                                               ended(tick.Ending{}),
		"executed another program 2.00 s ago":                                            ended(tick.Ending{Exec: true}),
		"has aborted the communicator":                                                   {State: tick.CommAborted},
		"has ended the thread that entered its last collective":                          {},
		"runs on CPU 5 for 3.00 s":                                                       does(tick.ThreadState{CPU: 5}),
		"has been waiting for CPU 5 for 3.00 s":                                          does(tick.ThreadState{State: events.WaitRunnable, CPU: 5}),
		"is throttled by the CPU quota of its cgroup for 3.00 s":                         does(tick.ThreadState{State: events.WaitThrottled}),
		"is in read, waiting for pipe for 3.00 s":                                        does(tick.ThreadState{State: events.WaitBlocked, Reason: events.ReasonPipe, Syscall: events.SyscallOf(sys.SYS_READ)}),
		"has been in cudaMalloc for 4.00 s, at train.py:12: it runs on CPU 2 for 3.00 s": inCall,
	} {
		if got := Instead(&m, now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Ranks without a number are named by their process, and long lists are shortened.
func TestRanks(t *testing.T) {
	many := make([]tick.Rank, 20)
	for i := range many {
		many[i] = tick.Rank{Rank: int32(i), PID: uint32(i)}
	}
	for want, ranks := range map[string][]tick.Rank{
		"rank 3":             {{Rank: 3, PID: 30}},
		"ranks 3 and 4":      {{Rank: 3, PID: 30}, {Rank: 4, PID: 40}},
		"processes 30 and 4": {{Rank: -1, PID: 30}, {Rank: 4, PID: 4}},
		"process 30":         {{Rank: -1, PID: 30}},
		"ranks 0, 1, 2, 3, 4, 5, 6, 7 and 12 more": many,
	} {
		if got := Ranks(ranks); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Control characters in a program's name are removed.
func TestRollCallIsClean(t *testing.T) {
	x := ranksTick()
	x.RollCalls[0].Missing[1].End.Comm = "\x1b[2J"
	x.RollCalls[0].Missing[0].At = "a\nb\x07"
	if s := Live(x, nil, Options{}); strings.ContainsAny(s, "\x1b\x07") || !strings.Contains(s, "?[2J") {
		t.Errorf("%q", s)
	}
}
