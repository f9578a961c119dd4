package explain

import (
	"bytes"
	"encoding/json"
	"testing"

	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/internal/wire"
	"ingero/pkg/events"
)

func TestTickJSON(t *testing.T) {
	for _, tt := range []struct {
		name string
		t    *tick.Tick
	}{{"full", liveTick()}, {"hog", threadsTick()}, {"lossy", lossyTick()}, {"host", hostTick()}, {"gpu", gpuTick()}, {"ranks", ranksTick()}, {"empty", &tick.Tick{}}} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := TickJSON(tt.t)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.ContainsAny(got, "\n") {
				t.Error("more than a line")
			}
			var pretty bytes.Buffer
			if err := json.Indent(&pretty, got, "", " "); err != nil {
				t.Fatal(err)
			}
			testkit.Golden(t, "tick-"+tt.name+".json", pretty.String())
		})
	}
}

// The parts of an operation's time add up in JSON, and are absent if no call was timed.
func TestTickJSONTimes(t *testing.T) {
	b, err := TickJSON(liveTick())
	if err != nil {
		t.Fatal(err)
	}
	var got wire.Tick
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	for _, o := range got.Ops {
		if timed := o.TotalNS != nil; timed != (o.Done > 0) || timed != (o.P50NS != nil) {
			t.Errorf("%s: %d returned, total %v, p50 %v", o.Op, o.Done, o.TotalNS, o.P50NS)
			continue
		}
		if o.TotalNS != nil && *o.OnCPUNS+*o.RunnableNS+*o.BlockedNS+*o.PartialNS != *o.TotalNS {
			t.Errorf("%s: parts do not add up to %d", o.Op, *o.TotalNS)
		}
		if o.Calls != o.Done+o.Unmeasured+o.Abandoned+o.Open {
			t.Errorf("%s: %d calls do not add up", o.Op, o.Calls)
		}
	}
}

// Each drop reason has words.
func TestDropsHaveWords(t *testing.T) {
	for reason, words := range dropWords {
		in := &Input{Drops: []tick.Drop{{Reason: reason, Count: 12}}}
		r := build(in)
		if bearsOnNothing(reason) { // nothing to report, for example because each call counts once
			if len(r.Notes) != 0 {
				t.Errorf("%s: notes %q", reason, r.Notes)
			}
			continue
		}
		if want := "12 " + words + "."; len(r.Notes) != 1 || r.Notes[0] != want {
			t.Errorf("%s: notes %q, want %q", reason, r.Notes, want)
		}
	}
	if got := Lost([]tick.Drop{{Reason: "ring-full", Count: 3}, {Reason: "thinned", Count: 5}, {Reason: "new", Count: 1}}); got != 4 {
		t.Errorf("lost = %d, want 4", got)
	}
}

// threadsTick is hogTick with the accounts of two threads.
func threadsTick() *tick.Tick {
	t := hogTick()
	t.Ops = nil
	now := t.Time.UnixNano()
	t.Threads = []tick.Thread{
		{PID: 4821, TID: 4821, Comm: "train.py", Since: start.UnixNano(), Until: now, InCalls: tick.Times{OnCPU: 20, Runnable: 4, Blocked: 6},
			Between: tick.Times{OnCPU: 10, Throttled: 2}, Sync: tick.Times{OnCPU: 19, Runnable: 4, Blocked: 6},
			Now:  tick.ThreadState{State: events.WaitBlocked, Reason: events.ReasonDisk, Syscall: syscallNamed("read"), File: events.FileRegular, Arg: 5, Dev: 254 << 20, CPU: 3, Since: now - 1000},
			Open: []tick.OpenCall{{Op: streamSyn, Start: now - 2000}, {Op: cuSync, Start: now - 1500}}},
		{PID: 4821, TID: 4830, Comm: "worker", Enrolled: true, Ended: true, Since: start.UnixNano(), Until: now, Between: tick.Times{OnCPU: 10}},
	}
	return t
}
