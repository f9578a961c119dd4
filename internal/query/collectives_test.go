package query

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"ingero/internal/stats"
	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// commCall returns a call with a communicator.
func commCall(o events.Op, at int64, pid uint32, handle uint64) events.Call {
	c := events.Call{Start: at, Duration: 1000, OnCPU: 1000, PID: pid, TID: pid, Weight: 1, Op: o}
	for i := range c.Args {
		c.Args[i] = handle
		if v, ok := c.Value(events.RoleComm); ok && v == handle {
			break
		}
		c.Args[i] = 0
	}
	return c
}

// recordCollectives records four processes that make 10 collectives each; the communicators' states
// have 8. Process 2 also sends, process 3 has an unknown start, and process 4 has a failed
// collective.
func recordCollectives(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	now := began
	db, err := store.Open(store.Options{Path: path, Now: func() time.Time { return now }, Session: segment.Session{ID: "s1", Node: "gpu-7", Started: began}})
	if err != nil {
		t.Fatal(err)
	}
	reduce, send := testkit.Op("ncclAllReduce"), testkit.Op("ncclSend")
	var calls []events.Call
	states := map[uint32]*tick.State{}
	var ops []tick.Op
	for pid := uint32(1); pid <= 4; pid++ {
		c := tick.Comm{Number: uint64(pid), Handle: 0xc0, ID: 0xabc, Rank: int32(pid) - 1, Ranks: 4, State: tick.CommActive, Began: began.UnixNano(), Seq: 8}
		for i := range int64(10) {
			at := began.UnixNano() + (i+1)*1e7
			x := commCall(reduce, at, pid, 0xc0)
			if pid == 4 && i == 2 {
				x.Flags, x.Result, c.Failed = events.CallFailed, 1, 1
			}
			calls = append(calls, x)
			if i == 7 {
				c.Last = tick.CommOp{Op: reduce, Time: at}
			}
		}
		if pid == 2 {
			ops = append(ops, tick.Op{PID: 2, Op: send, Sum: tick.Counts{Calls: 1, Done: 1}, Dur: &stats.Sketch{}, Hist: &stats.Hist{}})
		}
		if pid == 3 {
			c.Began = 0
		}
		states[pid] = &tick.State{PID: pid, Comms: tick.List[tick.Comm]{First: []tick.Comm{c}}}
	}
	last := &tick.Tick{Time: began.Add(time.Second), Started: began, Seq: 1, Final: true, Ops: ops}
	for pid := uint32(1); pid <= 4; pid++ {
		last.States = append(last.States, *states[pid])
	}
	now = last.Time
	for _, err := range []error{db.Batch(&tick.Batch{Calls: calls}), db.Tick(last), db.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// Collectives are numbered from the communicator's start, whatever part of the calls the window
// has; collectives without a number are omitted.
func TestCollectives(t *testing.T) {
	r := openReader(t, recordCollectives(t))
	for _, tt := range []struct {
		name string
		f    Filter
		want string
	}{
		{"all", Filter{}, "rank 0: 10 entered, 1-10; rank 3: 9 entered, 1-9; "},
		{"a part", Filter{From: began.Add(45 * time.Millisecond), To: began.Add(65 * time.Millisecond)}, "rank 0: 10 entered, 5-6; rank 3: 9 entered, 4-5; "},
		{"a process", Filter{PIDs: []uint32{4}}, "rank 3: 9 entered, 1-9; "},
		{"none", Filter{From: began.Add(time.Second), To: began.Add(2 * time.Second)}, "rank 0: 8 entered; rank 3: 7 entered; "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			logs, err := r.Collectives(t.Context(), tt.f)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, l := range logs {
				got += fmt.Sprintf("rank %d: %d entered", l.Rank, l.Done)
				if n := len(l.Entries); n > 0 {
					got += fmt.Sprintf(", %d-%d", l.Entries[0].Seq, l.Entries[n-1].Seq)
				}
				got += "; "
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
