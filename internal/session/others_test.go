package session

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/proc"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// taken returns a wait of 5 ms in which a process had the CPU for d.
func taken(pid uint32, d time.Duration) events.Wait {
	return events.Wait{Start: 1, Duration: int64(5 * time.Millisecond), Taken: int64(d), State: events.WaitRunnable,
		Who: events.Thread{PID: pid, TID: pid, Parent: 1, Name: events.NameOf("hog")}}
}

func TestOthers(t *testing.T) {
	self := uint32(os.Getpid())
	const gone = 1 << 30 // no process has this number
	for _, tt := range []struct {
		name  string
		waits []events.Wait
		want  []uint32 // known processes, except parents
	}{
		{"a process that lives", []events.Wait{taken(self, time.Millisecond)}, []uint32{self}},
		{"one that is gone", []events.Wait{taken(gone, time.Millisecond)}, []uint32{gone}},
		{"twice", []events.Wait{taken(gone, time.Millisecond), taken(gone, time.Millisecond)}, []uint32{gone}},
		{"a short turn", []events.Wait{taken(gone, notable-1)}, nil},
		{"a traced one", []events.Wait{taken(77, time.Millisecond)}, nil},
		{"nobody", []events.Wait{taken(0, time.Millisecond)}, nil},
		{"too many at a time", []events.Wait{taken(gone, 1e6), taken(gone+1, 1e6), taken(gone+2, 1e6), taken(gone+3, 1e6), taken(gone+4, 1e6),
			taken(gone+5, 1e6), taken(gone+6, 1e6), taken(gone+7, 1e6), taken(gone+8, 1e6)},
			[]uint32{gone, gone + 1, gone + 2, gone + 3, gone + 4, gone + 5, gone + 6, gone + 7}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := untracedProcesses{known: map[uint32]*untracedProcess{}}
			o.note(tt.waits, func(pid uint32) bool { return pid == 77 })
			var got []uint32
			for _, p := range o.list() {
				if p.PID == self || p.PID >= gone {
					got = append(got, p.PID)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("known (-want +got):\n%s", diff)
			}
		})
	}
}

// A process does not get the facts of an earlier one with its PID.
func TestOthersWithAUsedNumber(t *testing.T) {
	const gone = 1 << 30 // no process has this number
	for start, want := range map[uint32]string{0: "old", 5: "old", 9: "hog"} {
		o := untracedProcesses{known: map[uint32]*untracedProcess{gone: {Process: tick.Process{PID: gone, Comm: "old"}, start: 5}}}
		w := taken(gone, time.Millisecond)
		w.Who.Start = start
		o.note([]events.Wait{w}, func(uint32) bool { return false })
		if got := o.known[gone].Comm; got != want {
			t.Errorf("started at %d: %s, want %s", start, got, want)
		}
	}
}

// references returns what can refer to a process at a time: a turn of a thread that is not its main thread, a GPU that it
// has open, and a child.
func references(t *testing.T, pid, child uint32) map[string]func(o *untracedProcesses, at int64) {
	none := func(uint32) bool { return false }
	return map[string]func(o *untracedProcesses, at int64){
		"turn": func(o *untracedProcesses, at int64) {
			w := taken(pid, time.Millisecond)
			w.Start, w.Who.TID, w.Who.Start = at-w.Duration, pid+1, 650
			o.note([]events.Wait{w}, none)
		},
		"opened GPU": func(o *untracedProcesses, at int64) {
			o.did([]tick.HostSum{{HostKey: tick.HostKey{Kind: tick.HostGPUOpen, PID: pid}, Comm: "p9", Count: 1}}, at, none)
		},
		"parent": func(o *untracedProcesses, at int64) {
			p, err := o.fs.Process(child)
			if err != nil {
				t.Fatal(err)
			}
			o.with([]tick.Process{describe(&p)}, at)
		},
	}
}

// A process that got the number of an earlier one long after that ended does not get its facts, whatever refers to it. An
// ended process keeps its facts while its number is free, or has an owner that cannot be meant.
func TestOthersWithANumberUsedLater(t *testing.T) {
	const pid, child = 9, 8 // the child starts at 700
	for _, tt := range []struct {
		name       string
		known, now int // start of the known process (0: it ended unread), and of the one that has its number now (0: none)
		thread     bool
		at         time.Duration // since the last check
		want       string
		parent     string // name of the child's parent
	}{
		{"the same", 500, 500, false, checkAgain, "old", "old"},
		{"none", 500, 0, false, checkAgain, "old", "old"},
		{"another", 500, 600, false, checkAgain, "p9", "p9"},
		{"another, soon", 500, 600, false, checkAgain - 1, "old", "old"},
		{"another after one that ended unread", 0, 600, false, checkAgain, "p9", "p9"},
		{"another that started after the child", 500, 800, false, checkAgain, "p9", "old"},
		{"a thread", 500, 600, true, checkAgain, "old", "old"},
	} {
		for what, refer := range references(t, pid, child) {
			t.Run(tt.name+"/"+what, func(t *testing.T) {
				root := t.TempDir()
				processWith(t, root, child, pid, 700)
				if tt.now != 0 {
					processWith(t, root, pid, 1, tt.now)
				}
				if tt.thread {
					path := filepath.Join(root, "proc", strconv.Itoa(pid), "status")
					if err := os.WriteFile(path, []byte("Tgid:\t7\nPPid:\t1\nUid:\t0\t0\t0\t0\nVmSize:\t1 kB\nThreads:\t2\n"), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				o := untracedProcesses{fs: proc.FS{Root: filepath.Join(root, "proc")},
					known: map[uint32]*untracedProcess{pid: {Process: tick.Process{PID: pid, Comm: "old"}, start: uint64(tt.known)}}}
				want := map[bool]string{false: tt.want, true: tt.parent}[what == "parent"]
				refer(&o, int64(tt.at))
				if got := o.known[pid].Comm; got != want {
					t.Errorf("it is %s, want %s", got, want)
				}
				before := o.list()
				processWith(t, root, pid, 1, 650)
				refer(&o, int64(tt.at))
				if diff := cmp.Diff(before, o.list()); diff != "" {
					t.Errorf("it was read again at once (-before +after):\n%s", diff)
				}
			})
		}
	}
}

// On a machine that is up for more than 2^32 ticks (497 days), records have the lower half of a start
// time.
func TestOthersAfterALongUptime(t *testing.T) {
	const gone = 1 << 30 // no process has this number
	for start, want := range map[uint32]string{5: "old", 9: "hog"} {
		o := untracedProcesses{known: map[uint32]*untracedProcess{gone: {Process: tick.Process{PID: gone, Comm: "old"}, start: 1<<32 + 5}}}
		w := taken(gone, time.Millisecond)
		w.Who.Start = start
		o.note([]events.Wait{w}, func(uint32) bool { return false })
		if got := o.known[gone].Comm; got != want {
			t.Errorf("started at %d: %s, want %s", start, got, want)
		}
	}
}

// A process that was first read before its exec gets its program's name, and keeps the other facts.
func TestOthersBecomePrograms(t *testing.T) {
	child := testkit.Start(t, exec.Command("sh", "-c", "read go; exec sleep 600"))
	pid := uint32(child.PID())
	var asked []string
	o := untracedProcesses{known: map[uint32]*untracedProcess{}, request: func(x *untracedProcess) bool {
		if x.PID == pid {
			asked = append(asked, x.Comm)
		}
		return true
	}}
	p, err := o.fs.Process(pid)
	if err != nil {
		t.Fatal(err)
	}
	turn := taken(pid, time.Millisecond)
	turn.Start = p.Started.UnixNano()
	note := func(want string) {
		t.Helper()
		o.note([]events.Wait{turn}, func(uint32) bool { return false })
		if got := o.known[pid].Comm; got != want {
			t.Errorf("it is %q, want %q", got, want)
		}
	}
	note("sh")
	o.locate(map[uint32]answer{pid: {question: question{pid: pid, start: p.StartTicks}, vars: map[string]string{"RANK": "3"}}})
	child.Send("go")
	testkit.Eventually(t, "its exec", func() bool {
		p, err := o.fs.Process(pid)
		return err == nil && p.Comm == "sleep"
	})
	note("sh")
	turn.Start += int64(untilExec)
	note("sleep")
	note("sleep")
	if diff := cmp.Diff([]string{"sh", "sleep"}, asked); diff != "" {
		t.Errorf("asked for command lines of (-want +got):\n%s", diff)
	}
	if got := o.known[pid].Rank; got != tick.Numbered(3) {
		t.Errorf("its rank is %v, want 3", got)
	}
}

// Short turns of a process add up; command lines are requested for permitted processes only.
func TestOthersAddUp(t *testing.T) {
	self := uint32(os.Getpid())
	var asked []uint32
	o := untracedProcesses{known: map[uint32]*untracedProcess{}, request: func(x *untracedProcess) bool {
		asked = append(asked, x.PID)
		return true
	}}
	none := func(uint32) bool { return false }
	for range 3 {
		o.note([]events.Wait{taken(self, notable/3)}, none)
	}
	if o.known[self] != nil || len(asked) != 0 {
		t.Errorf("known after %v, asked %v", 3*(notable/3), asked)
	}
	o.note([]events.Wait{taken(self, notable/3)}, none)
	x := o.known[self]
	if x == nil || x.start == 0 || len(asked) == 0 || asked[0] != self || len(o.small) != 0 {
		t.Errorf("%+v is known, asked %v, %d small ones", x, asked, len(o.small))
	}
	for i := range uint32(3 * maxSmall) {
		o.note([]events.Wait{taken(1<<30+i, 1)}, none)
	}
	if len(o.small) > maxSmall {
		t.Errorf("%d small ones, at most %d may be", len(o.small), maxSmall)
	}
}

// Only processes that used a disk or a job's CPU quota for long, sent a signal to a traced process, held its lock or
// had its GPU open are read, a bounded number at a time.
func TestOthersOnTheHost(t *testing.T) {
	o := untracedProcesses{known: map[uint32]*untracedProcess{}, fs: proc.FS{Root: t.TempDir()}}
	sum := func(kind tick.HostEvent, pid, sender uint32, ns time.Duration) tick.HostSum {
		return tick.HostSum{HostKey: tick.HostKey{Kind: kind, PID: pid, Sender: sender}, Comm: "dd", Count: 1, NS: uint64(ns)}
	}
	sums := []tick.HostSum{
		sum(tick.HostDiskWrite, 10, 0, notable), sum(tick.HostDiskRead, 11, 0, notable-1), sum(tick.HostDiskRead, 0, 0, time.Second),
		sum(tick.HostDiskRead, 7, 0, time.Second), sum(tick.HostSignal, 7, 12, 0), sum(tick.HostSignal, 7, 0, 0), sum(tick.HostReclaim, 13, 0, time.Second),
		sum(tick.HostLockRefused, 7, 14, 0), sum(tick.HostLockRefused, 7, 0, 0), sum(tick.HostThreads, 16, 0, notable), sum(tick.HostThreads, 7, 0, notable),
		sum(tick.HostGPUOpen, 17, 0, 0),
	}
	traced := func(pid uint32) bool { return pid == 7 }
	o.did(sums, 5, traced)
	o.did(sums, 9, traced)
	if got := slices.Sorted(maps.Keys(o.known)); !slices.Equal(got, []uint32{10, 12, 14, 16, 17}) || o.known[10].Comm != "dd" || o.known[10].seen != 9 || o.known[14].Comm != "" {
		t.Errorf("known: %v, want 10, 12, 16, 17, and 14, the holder of a lock, whose name is unknown", got)
	}
	many := make([]tick.HostSum, 3*lookups)
	for i := range many {
		many[i] = sum(tick.HostDiskWrite, 1<<30+uint32(i), 0, time.Second)
	}
	many = append(many, sum(tick.HostLockRefused, 7, 15, 0))
	o.did(many, 10, traced)
	if n := len(o.known); n != 5+lookups || o.known[15] == nil {
		t.Errorf("%d known, want %d more, with the holder of a lock", n, lookups)
	}
}

func TestOthersAreBounded(t *testing.T) {
	o := untracedProcesses{known: map[uint32]*untracedProcess{}}
	for i := range uint32(3 * maxOthers) {
		w := taken(1<<30+i, time.Millisecond)
		w.Start = int64(i)
		o.note([]events.Wait{w}, func(uint32) bool { return false })
	}
	if n := len(o.known); n > maxOthers {
		t.Errorf("%d known, at most %d may be", n, maxOthers)
	}
	if o.known[1<<30+3*maxOthers-1] == nil {
		t.Error("the last one is not known")
	}
}

func TestIntroduce(t *testing.T) {
	culprits := []tick.Culprit{{Thread: events.Thread{PID: 9, TID: 10}}, {Thread: events.Thread{PID: 8, TID: 8}}, {What: "disk"}}
	x := tick.Tick{
		Others:    []tick.Process{{PID: 9, PPID: 7, Comm: "stress-ng", Cgroup: "/cron", Where: tick.Where{Cmdline: "stress-ng -c 4", Job: "12"}}, {PID: 7, Comm: "cron"}},
		Processes: []tick.Process{{PID: 8, PPID: 5, Comm: "loader", Cgroup: "/job"}},
		Chains:    []tick.Chain{{ID: "a", Culprits: culprits}},
	}
	addPlaces(x.Chains, x.Processes, x.Others)
	want := []tick.Culprit{{Thread: culprits[0].Thread, Cgroup: "/cron", Cmdline: "stress-ng -c 4", Where: "job 12", Parent: "cron 7"},
		{Thread: culprits[1].Thread, Cgroup: "/job"}, {What: "disk"}}
	if diff := cmp.Diff(want, x.Chains[0].Culprits); diff != "" {
		t.Errorf("culprits (-want +got):\n%s", diff)
	}
	if culprits[0].Cgroup != "" {
		t.Error("the engine's own chain was changed")
	}
}

// The ancestors of a traced process are known, with their command lines, whether or not they had a part in its
// waits. A refused request is made again.
func TestAncestors(t *testing.T) {
	asked, refuse := map[uint32]int{}, true
	o := untracedProcesses{known: map[uint32]*untracedProcess{}, request: func(x *untracedProcess) bool {
		if !refuse {
			asked[x.PID]++
		}
		return !refuse
	}}
	at := uint32(os.Getpid())
	self := tick.Process{PID: at, PPID: uint32(os.Getppid())}
	o.with([]tick.Process{self}, 1)
	refuse = false
	o.with([]tick.Process{self}, 2)
	o.with([]tick.Process{self}, 3)
	for range mostAncestors {
		p, err := o.fs.Process(at)
		if err != nil {
			t.Fatal(err)
		}
		if at = p.PPID; at == 0 {
			return
		}
		if x := o.known[at]; x == nil || x.start == 0 || asked[at] != 1 {
			t.Fatalf("ancestor %d is %+v; asked for command lines of %v", at, x, asked)
		}
	}
}

// The ancestors of a traced process stay known with their command lines while many other processes have a part.
func TestAncestorsAreNotEvicted(t *testing.T) {
	parent := uint32(os.Getppid())
	asked := 0
	o := untracedProcesses{known: map[uint32]*untracedProcess{}, request: func(x *untracedProcess) bool {
		if x.PID == parent {
			asked++
		}
		return true
	}}
	self := []tick.Process{{PID: uint32(os.Getpid()), PPID: parent}}
	o.with(self, 1)
	for i := range maxOthers {
		at := 2 + int64(i)
		o.add(&events.Thread{PID: 1<<30 + uint32(i)}, at)
		o.with(self, at)
	}
	if asked != 1 {
		t.Errorf("the command line of the parent was requested %d times, want once", asked)
	}
}
