package causal

import (
	"testing"
	"time"

	"ingero/internal/tick"
)

// New processes have a history, however many ended before them; those that ended last keep theirs.
func TestHistoriesOfEndedProcesses(t *testing.T) {
	e := New(1)
	var all []tick.Process
	now := start
	step := func() {
		now += s1
		e.Tick(&tick.Tick{Time: time.Unix(0, now), Window: time.Second, Processes: all})
	}
	for n := range uint32(maxHistories + 10) {
		all = append(all, tick.Process{PID: 100 + n, Ended: time.Unix(0, now+s1-int64(n)*ms)})
	}
	step()
	if len(e.histories) != maxHistories {
		t.Fatalf("%d histories, want %d", len(e.histories), maxHistories)
	}
	for range 5 {
		step()
	}
	all = append(all, tick.Process{PID: 7}, tick.Process{PID: 9999})
	for range 3 {
		step()
	}
	all = append(all, tick.Process{PID: 8, Ended: time.Unix(0, now+100*ms)})
	for range 3 {
		step()
	}
	for pid, want := range map[uint32]int{7: 6, 9999: 6, 8: 3, 100: 12, 100 + maxHistories - 1: 0, 100 + maxHistories - 2: 0, 100 + maxHistories - 3: 0, 100 + maxHistories - 4: 12} {
		got := 0
		if b := e.histories[pid]; b != nil {
			got = len(b.Seconds)
		}
		if got != want {
			t.Errorf("process %d: %d seconds, want %d", pid, got, want)
		}
	}
	if len(e.histories) > maxHistories {
		t.Errorf("%d histories", len(e.histories))
	}
}

// Running processes are never evicted.
func TestHistoriesOfRunningProcesses(t *testing.T) {
	e := New(1)
	var all []tick.Process
	for n := range uint32(2 * maxHistories) {
		all = append(all, tick.Process{PID: 100 + n})
	}
	for n := range int64(3) {
		e.Tick(&tick.Tick{Time: time.Unix(0, start+n*s1), Window: time.Second, Processes: all})
	}
	if b := e.histories[100]; len(e.histories) != maxHistories || b == nil || len(b.Seconds) != 3 {
		t.Errorf("%d histories; the first has %+v", len(e.histories), b)
	}
}
