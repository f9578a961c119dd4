package causal

import (
	"slices"
	"testing"
	"time"

	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// A wait belongs to the rule of its root and its culprit, however many hops are between.
func TestWaitsAreOfTheirRoot(t *testing.T) {
	const victim = 100
	trainer := events.Thread{PID: victim, TID: 101, Name: events.NameOf("pin_memory")}
	second := events.Thread{PID: victim, TID: 102, Name: events.NameOf("python3")}
	feeder := events.Thread{PID: 200, TID: 201, Parent: victim, Name: events.NameOf("feeder")}
	worker := events.Thread{PID: 200, TID: 200, Parent: victim, Name: events.NameOf("worker")}
	rank := events.Thread{PID: 250, TID: 250, Parent: victim, Name: events.NameOf("rank")}
	other := events.Thread{PID: 300, TID: 300, Parent: 1, Name: events.NameOf("server")}
	cpu, blocked := tick.Times{OnCPU: 9e6}, tick.Times{OnCPU: 1e6, Blocked: 8e6}
	for _, tt := range []struct {
		name   string
		reason events.Reason
		waker  events.Thread
		share  tick.WakerShare
		rule   string
		id     uint32 // ns, as in ledger.Wait
		gil    int64  // ns, as in ledger.Wait
	}{
		{"the worker computes", events.ReasonPipe, worker, tick.WakerShare{Times: cpu}, "input-wait", worker.PID, 0},
		{"the worker computes, its feeder thread writes", events.ReasonPoll, feeder, tick.WakerShare{Times: cpu, Root: worker}, "input-wait", worker.PID, 0},
		{"and a thread of the victim's own hands it on", events.ReasonLock, trainer, tick.WakerShare{Times: cpu, Root: worker}, "input-wait", worker.PID, 0},
		{"the worker reads a disk", events.ReasonPoll, feeder, tick.WakerShare{Times: blocked, Reason: events.ReasonDisk, Root: worker}, "disk-wait", worker.TID, 0},
		{"a lock that the worker holds", events.ReasonLock, worker, tick.WakerShare{Times: cpu}, "lock-wait", worker.TID, 0},
		{"a lock that a thread of the victim's own holds", events.ReasonLock, trainer, tick.WakerShare{Times: cpu}, "lock-wait", trainer.TID, 0},
		{"who holds the GIL waits for a worker", events.ReasonGIL, trainer, tick.WakerShare{Times: cpu, Root: worker}, "gil-wait", trainer.TID, 0},
		{"a thread of the victim's own waits for the GIL", events.ReasonLock, trainer, tick.WakerShare{Times: cpu, Root: second}, "gil-wait", second.TID, 9e6},
		{"for a little of the time", events.ReasonLock, trainer, tick.WakerShare{Times: cpu, Root: second}, "lock-wait", second.TID, 4e6},
		{"a thread of the worker waits for the GIL of the worker", events.ReasonPoll, feeder, tick.WakerShare{Times: cpu, Root: worker}, "input-wait", worker.PID, 9e6},
		{"a worker of which nothing is known yet", events.ReasonPoll, feeder, tick.WakerShare{}, "input-wait", feeder.PID, 0},
		{"one that is no worker", events.ReasonSocket, other, tick.WakerShare{Times: cpu}, "peer-slow", other.PID, 0},
		{"one of which no more is known", events.ReasonSocket, other, tick.WakerShare{}, "peer-slow", other.PID, 0},
		{"one that sleeps", events.ReasonPoll, other, tick.WakerShare{Times: blocked, Reason: events.ReasonSleep}, "peer-slow", other.PID, 0},
		{"a rank that the victim started", events.ReasonLock, trainer, tick.WakerShare{Times: cpu, Root: rank}, "peer-slow", rank.PID, 0},
		{"a rank that writes to a pipe", events.ReasonPipe, rank, tick.WakerShare{Times: cpu}, "input-wait", rank.PID, 0},
		{"one on another machine", events.ReasonSocket, events.Thread{}, tick.WakerShare{}, "peer-slow", 0, 0},
		{"a thread of the victim's own that waits for one", events.ReasonLock, trainer, tick.WakerShare{Times: blocked, Reason: events.ReasonPoll}, "peer-slow", trainer.TID, 0},
		{"a thread of the victim's own, at a socket", events.ReasonPoll, trainer, tick.WakerShare{Times: cpu}, "lock-wait", trainer.TID, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := relations{steps: map[uint32]bool{rank.PID: true}, serves: map[uint32]bool{victim: true}}
			s := ledger.Step{PID: victim, TID: victim, Waits: []ledger.Wait{{
				NS: 9 * ms, Count: 1, State: events.WaitBlocked, Reason: tt.reason, Who: tt.waker, Waker: tt.share, ForGIL: tt.gil}}}
			var most Part
			for _, p := range parts(nil, &s, &k) {
				if p.NS > most.NS {
					most = p
				}
			}
			c := newCauses()
			n, ok := c.attribute(&most)
			if !ok {
				t.Fatalf("no rule has %+v", most)
			}
			if x := c.list[n]; Rules[x.id.rule].Name != tt.rule || x.id.key.ID != tt.id {
				t.Errorf("%s, of %d; want %s, of %d", Rules[x.id.rule].Name, x.id.key.ID, tt.rule, tt.id)
			}
		})
	}
}

// A worker may begin to serve requests after days of work as a data loader, and the reverse. What it does now is
// reported.
func TestWorkerChangesItsTask(t *testing.T) {
	const victim = 100
	worker := events.Thread{PID: 200, TID: 200, Parent: victim, Name: events.NameOf("worker")}
	for _, tt := range []struct {
		name      string
		server    bool // in the hour before; the opposite after it
		after     time.Duration
		wantGroup string
	}{
		{"a loader that serves", false, 2 * time.Minute, replyGroup},
		{"a loader that answers a few requests", false, 10 * time.Second, inputGroup},
		{"a server that loads", true, 2 * time.Minute, inputGroup},
	} {
		c := newCauses()
		var n uint32
		wait := func(length, sum time.Duration, server bool) {
			p := Part{Victim: victim, NS: int64(length), State: events.WaitBlocked, Reason: events.ReasonPipe, Root: events.ReasonPipe, Who: worker, Relation: tick.RelationWorker, Busy: true, Server: server}
			for ; sum > 0; sum -= length {
				p.Last += p.NS
				n, _ = c.attribute(&p)
			}
		}
		wait(time.Second, time.Hour, tt.server)
		wait(10*time.Millisecond, tt.after, !tt.server)
		if x := c.list[n]; x.rule().Name != inputWait.Name || x.group != tt.wantGroup {
			t.Errorf("%s: %s, group %q; want group %q", tt.name, x.rule().Name, x.group, tt.wantGroup)
		}
	}
}

// A thread that mostly waited for a disk ran to read; one that ran for longer also did something
// else. The place where the victim waited belongs to all but a disk and a CPU.
func TestWhoReadsRuns(t *testing.T) {
	const victim = 100
	reader := events.Thread{PID: victim, TID: 101, Name: events.NameOf("reader")}
	for _, tt := range []struct {
		name         string
		times        tick.Times
		reason       events.Reason
		disk, others int64 // ns
		placed       int64 // ns that vote for the victim's place
	}{
		{"it ran for a third of the time", tick.Times{OnCPU: 3e6, Blocked: 6e6}, events.ReasonDisk, 9e6, 0, 0},
		{"it ran for about half of the time", tick.Times{OnCPU: 4e6, Blocked: 5e6}, events.ReasonDisk, 5e6, 4e6, 4e6},
		{"it had no CPU for a while", tick.Times{OnCPU: 1e6, Runnable: 2e6, Blocked: 6e6}, events.ReasonFile, 7e6, 2e6, 0},
		{"it slept", tick.Times{OnCPU: 3e6, Blocked: 6e6}, events.ReasonSleep, 0, 9e6, 9e6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := ledger.Step{PID: victim, TID: victim, Waits: []ledger.Wait{{NS: 9 * ms, Count: 1, State: events.WaitBlocked,
				Reason: events.ReasonLock, Who: reader, Waker: tick.WakerShare{Times: tt.times, Reason: tt.reason}, Stack: 5}}}
			var disk, others, placed int64
			for _, p := range parts(nil, &s, &relations{}) {
				if p.Stack == 5 {
					placed += p.NS
				}
				if diskWait.Claims.Part(&p) {
					disk += p.NS
				} else {
					others += p.NS
				}
			}
			if disk != tt.disk || others != tt.others || placed != tt.placed {
				t.Errorf("%d ns for the disk and %d beside, %d with a place; want %d, %d and %d", disk, others, placed, tt.disk, tt.others, tt.placed)
			}
		})
	}
}

// With too many culprits, the parts of the others count without a name, each for its rule and victim.
func TestTooManyCulprits(t *testing.T) {
	c := newCauses()
	part := func(victim, who uint32) *Part {
		return &Part{Victim: victim, NS: ms, State: events.WaitRunnable, Who: events.Thread{PID: who, TID: who, Name: events.NameOf("x")}}
	}
	for n := range uint32(maxCauses) {
		if _, ok := c.attribute(part(7, 1000+n)); !ok {
			t.Fatalf("culprit %d has no cause", n)
		}
	}
	a, ok := c.attribute(part(7, 900))
	b, again := c.attribute(part(7, 901))
	other, third := c.attribute(part(8, 901))
	known, _ := c.attribute(part(7, 1000))
	if !ok || !again || !third || a != b || a == other || known == a {
		t.Errorf("causes %d, %d of one victim, %d of another, %d of a known culprit", a, b, other, known)
	}
	if x := &c.list[a]; x.thread.TID != 0 || x.what != "many short-running threads" {
		t.Errorf("%+v", x)
	}
}

// A thread that took the CPU of the thread that the victim waited for did not run on the victim's CPU.
func TestCPUOfWaker(t *testing.T) {
	holder := events.Thread{PID: 7, TID: 8, Name: events.NameOf("holder")}
	direct := ledger.Wait{NS: 9 * ms, State: events.WaitRunnable, Who: stress, CPU: 3}
	behind := ledger.Wait{NS: 5 * ms, State: events.WaitBlocked, Reason: events.ReasonLock, Who: holder, CPU: 3,
		Waker: tick.WakerShare{Times: tick.Times{Runnable: uint64(5 * ms)}, By: stress}}
	for _, tt := range []struct {
		name  string
		waits []ledger.Wait
		cpus  []uint16
		path  string
	}{
		{"the victim's own CPU", []ledger.Wait{direct}, []uint16{3}, ""},
		{"that of the thread with the lock", []ledger.Wait{behind}, nil, "its own thread holder 8, which waited for a CPU"},
		{"mostly the victim's", []ledger.Wait{behind, direct}, []uint16{3}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCauses()
			for _, p := range parts(nil, &ledger.Step{PID: 7, TID: 7, Waits: tt.waits}, &relations{}) {
				c.attribute(&p)
			}
			if x := &c.list[0]; len(c.list) != 1 || x.rule().Name != cpuTaken.Name || !slices.Equal(x.cpus, tt.cpus) || x.path.text(7) != tt.path {
				t.Errorf("%d causes, the first: %s, CPUs %v, path %q", len(c.list), x.rule().Name, x.cpus, x.path.text(7))
			}
		})
	}
}
