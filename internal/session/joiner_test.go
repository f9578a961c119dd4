package session

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/proc"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// faulty is a joiner with queued faults.
type faulty struct {
	*faultJoiner
	next []tick.Xid
}

// batch adds a poll's calls, and the queued faults.
func (f *faulty) batch(calls []events.Call, lives ...tick.ProcEvent) {
	f.faultJoiner.batch(f.next, calls, lives)
	f.next = nil
}

func (f *faulty) tick(t *tick.Tick) {
	t.Drops = append(t.Drops, f.drops()...)
	t.Xids = append(t.Xids, f.faultJoiner.tick(t.Time, t.Final, t.Processes, t.Threads)...)
}

const (
	opSync   = events.Op(0x0140)
	opLaunch = events.Op(0x0110)
)

func call(pid, tid uint32, op events.Op, start, ns int64) events.Call {
	return events.Call{PID: pid, TID: tid, Op: op, Start: start, Duration: ns, Weight: 1}
}

func xidAt(at int64, code uint32, msg string) tick.Xid {
	x := tick.Xid{Time: at, Code: code, Bus: "0000:75:00"}
	x.SetMessage(msg)
	return x
}

// A fault has its process and that process's earlier calls: an open one first, then the latest
// first, and no later ones, in any order of records and faults.
func TestFaultsAreJoined(t *testing.T) {
	const at = int64(1_800_000_000e9)
	const ms = int64(time.Millisecond)
	started := time.Unix(0, at).Add(-time.Hour)
	nested := call(7, 8, opSync, at-2*ms, ms)
	nested.Flags = events.CallNested
	entry := call(7, 8, opLaunch, at-9*ms, 0)
	entry.Flags = events.CallUnmeasured
	failed := call(7, 9, opSync, at-20*ms, 19*ms)
	failed.Result = 719
	early := []events.Call{call(7, 8, opSync, at-900*ms, ms), failed, entry, nested, call(6, 6, opSync, at-ms, ms), call(7, 8, opLaunch, at-8*ms, 2000)}
	late := []events.Call{call(7, 8, opSync, at-3*ms, ms), call(7, 8, opSync, at+ms, ms), call(7, 9, opLaunch, at-12*ms, 1000)}
	want := []tick.XidCall{
		{TID: 10, Op: opSync, Before: 40 * time.Millisecond, Open: true},
		{TID: 8, Op: opSync, Before: 3 * time.Millisecond, Duration: time.Millisecond},
		{TID: 8, Op: opLaunch, Before: 8 * time.Millisecond, Duration: 2000},
		{TID: 8, Op: opLaunch, Before: 9 * time.Millisecond},
	}
	for _, tt := range []struct {
		name string
		msg  string
		pid  uint32
		want []tick.XidCall
	}{
		{"its process", "pid=7, name=train, Ch 1", 7, want},
		{"in a container", "pid=3, name=train, Ch 1", 7, want},
		{"of another", "pid=6, name=other, Ch 1", 6, []tick.XidCall{{TID: 6, Op: opSync, Before: time.Millisecond, Duration: time.Millisecond}}},
		{"not traced", "pid=4000001, name=gone, Ch 1", 0, nil},
		{"of none", "GPU has fallen off the bus.", 0, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := &faulty{faultJoiner: newJoiner(proc.FS{})}
			j.batch(early)
			j.next = []tick.Xid{xidAt(at, 13, tt.msg)}
			j.batch(nil)
			j.batch(late)
			now := &tick.Tick{Time: time.Unix(0, at+ms)}
			if j.tick(now); len(now.Xids) != 0 {
				t.Fatalf("reported before the calls before it can have come: %+v", now.Xids)
			}
			j.batch([]events.Call{call(7, 8, opSync, at+400*ms, ms)})
			now = &tick.Tick{Time: time.Unix(0, at+600*ms), Processes: []tick.Process{
				{PID: 6, NSPID: 6, Comm: "other", Started: started}, {PID: 7, NSPID: 3, Comm: "train", Started: started}}}
			now.Threads = []tick.Thread{
				{PID: 7, TID: 10, Open: []tick.OpenCall{{Op: opSync, Start: at - 40*ms}, {Op: opLaunch, Start: at - 30*ms}}},
				{PID: 7, TID: 11, Open: []tick.OpenCall{{Op: opSync, Start: at + ms}}}, {PID: 7, TID: 12},
			}
			j.tick(now)
			if len(now.Xids) != 1 {
				t.Fatalf("reported %+v", now.Xids)
			}
			x := now.Xids[0]
			if x.PID != tt.pid || x.Burst != 1 || x.At != 1 || x.Root != 13 {
				t.Errorf("got %+v, want process %d", x, tt.pid)
			}
			if diff := cmp.Diff(tt.want, x.Last); diff != "" {
				t.Errorf("last calls (-want +got):\n%s", diff)
			}
			again := &tick.Tick{Time: time.Unix(0, at+1600*ms), Final: true}
			if j.tick(again); len(again.Xids) != 0 || len(j.waiting)+len(j.watched) != 0 {
				t.Errorf("reported again: %+v", again.Xids)
			}
		})
	}
}

// A process that makes a call each microsecond makes many more before its fault is read: its
// earlier calls are right, or missing.
func TestFaultsAreHeardOfLate(t *testing.T) {
	const at = int64(1_800_000_000e9)
	for _, late := range []int{0, 1, 10_000, 100_000} {
		j := &faulty{faultJoiner: newJoiner(proc.FS{})}
		var many []events.Call
		for i := range 20_000 + late {
			many = append(many, call(7, 7, opLaunch, at-20_000e3+int64(i)*1000, 900))
		}
		j.batch(append([]events.Call{call(8, 8, opSync, at-60e9, 1)}, many...))
		j.next = []tick.Xid{xidAt(at-1, 13, "pid=7"), xidAt(at-1, 13, "pid=8")}
		j.batch(nil)
		now := &tick.Tick{Time: time.Unix(0, at), Final: true, Processes: []tick.Process{{PID: 7, Comm: "fast"}, {PID: 8, Comm: "slow"}}}
		j.tick(now)
		var before []time.Duration
		for _, c := range now.Xids[0].Last {
			before = append(before, c.Before)
		}
		var want []time.Duration
		if late < latest {
			want = []time.Duration{999, 1999, 2999, 3999}
		}
		if diff := cmp.Diff(want, before); diff != "" {
			t.Errorf("heard of after %d calls (-want +got):\n%s", late, diff)
		}
		if slow := now.Xids[1].Last; len(slow) != 1 || slow[0].Op != opSync {
			t.Errorf("after %d calls of another: %+v", late, slow)
		}
	}
}

// The last tick has all faults, and faults of a recording stay unchanged.
func TestFaultsAtTheEnd(t *testing.T) {
	j := &faulty{faultJoiner: newJoiner(proc.FS{}), next: []tick.Xid{xidAt(1e18+5, 48, "b"), xidAt(1e18, 172, "a")}}
	j.batch(nil)
	last := &tick.Tick{Time: time.Unix(0, 1e18), Final: true}
	j.tick(last)
	if len(last.Xids) != 2 || last.Xids[0].Code != 172 || last.Xids[1].Root != 172 || last.Xids[1].After != 5 {
		t.Errorf("reported %+v", last.Xids)
	}
	recorded := tick.Xid{Code: 1, Burst: 77, At: 3, Root: 9}
	replayed := &tick.Tick{Time: time.Unix(0, 1e18), Final: true, Xids: []tick.Xid{recorded}}
	(&faulty{faultJoiner: newJoiner(proc.FS{})}).tick(replayed)
	if diff := cmp.Diff([]tick.Xid{recorded}, replayed.Xids); diff != "" {
		t.Errorf("replayed (-want +got):\n%s", diff)
	}
}

// With many faults and processes, memory is bounded, and unreported faults are counted.
func TestFaultsAreBounded(t *testing.T) {
	j := &faulty{faultJoiner: newJoiner(proc.FS{})}
	for i := range uint32(2 * maxCallers) {
		b := &tick.Batch{Calls: []events.Call{call(i+1, i+1, opSync, 1, 1)}}
		if i%2 == 0 {
			b.Procs = []tick.ProcEvent{{Kind: tick.ProcExited, PID: i + 1}}
		}
		j.batch(b.Calls, b.Procs...)
	}
	if n := len(j.recent); n > maxCallers {
		t.Errorf("the calls of %d processes are kept", n)
	}
	reported := 0
	const each = 10_000
	for i := range maxReported/each + 2 {
		for n := range uint32(each) {
			x := xidAt(int64(i), 8, "")
			x.SaidPID = n % 20
			j.next = append(j.next, x)
		}
		j.batch(nil)
		for range 2 * keptCalls {
			j.batch([]events.Call{call(1, 1, opSync, 0, 1)})
		}
		if n := len(j.watched); n > maxWatched {
			t.Fatalf("of %d faults the calls are kept", n)
		}
		for h, w := range j.watched {
			if n := len(w.calls[1]); n > keptCalls {
				t.Fatalf("%d calls are kept for %+v", n, h)
			}
		}
		now := &tick.Tick{Time: time.Unix(0, 1e18)}
		j.tick(now)
		reported += len(now.Xids)
	}
	now := &tick.Tick{}
	j.tick(now)
	if len(j.ring) > latest || reported != maxReported || len(now.Drops) != 1 || now.Drops[0] != (tick.Drop{Reason: "faults-over", Count: 2 * each}) {
		t.Errorf("reported %d, dropped %+v", reported, now.Drops)
	}
}

// Reasons are reported verbatim until there are too many.
func TestWhysAreBounded(t *testing.T) {
	var w reasonSet
	reported := map[string]bool{}
	for i := range 1000 {
		reported[w.add(fmt.Sprint(i))] = true
	}
	if len(reported) != maxReasons+1 || w.add("3") != "3" {
		t.Errorf("%d reasons are reported", len(reported))
	}
}

func BenchmarkJoinerKeep(b *testing.B) {
	j := &faulty{faultJoiner: newJoiner(proc.FS{})}
	batch := calls(1024, 1000)
	b.ReportAllocs()
	for b.Loop() {
		j.batch(batch)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1024, "ns/call")
}

// What the analysis counts is counted once, also if a recording has the number.
func TestAddDrops(t *testing.T) {
	ring, recorded, own := tick.Drop{Reason: "ring-full", Count: 1}, tick.Drop{Reason: "state-no-room", Count: 5}, tick.Drop{Reason: "state-no-room", Count: 3}
	for _, tt := range []struct {
		name  string
		drops []tick.Drop
		n     uint64
		want  []tick.Drop
	}{
		{"none", []tick.Drop{ring}, 0, []tick.Drop{ring}},
		{"live", []tick.Drop{ring}, 3, []tick.Drop{ring, own}},
		{"recorded", []tick.Drop{ring, recorded}, 3, []tick.Drop{ring, recorded}},
	} {
		if got := addDrops(tt.drops, own.Reason, tt.n); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}
