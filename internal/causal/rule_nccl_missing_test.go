package causal

import (
	"testing"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// hang is a rank that enters a collective which another rank, process 21, never enters.
type hang struct {
	e     *Engine
	since int64 // Unix ns
	ended int64 // Unix ns: end of the waiting rank; 0: it waits
}

func newHang() *hang {
	steps := made(1000, 0, 0, events.Thread{})
	h := &hang{e: New(1), since: steps[999].To}
	h.e.Add(steps)
	return h
}

// run ticks from some seconds after the start of the hang to others. It returns the chains.
func (h *hang) run(from, to int64) (chains []tick.Chain) {
	for at := h.since + from*s1; at <= h.since+to*s1; at += s1 {
		t := tick.Tick{Time: time.Unix(0, at), Window: time.Second, Processes: []tick.Process{{PID: 7, Comm: "train"}, {PID: 21, Comm: "train"}}}
		if h.ended != 0 {
			t.Processes[0].Ended = time.Unix(0, h.ended)
		}
		ranked(&t)
		late := tick.Missing{Rank: tick.Rank{Rank: 1, PID: 21}, Lives: true}
		t.RollCalls = []tick.RollCall{{Comm: 1, Ranks: 2, Seq: 9, Since: h.since, Entered: []tick.Rank{{PID: 7}}, Missing: []tick.Missing{late}}}
		chains, _ = h.e.Tick(&t)
	}
	return chains
}

// expect checks that the hang is the only cause, and cost up to 0.1 s less than that number of seconds.
func (h *hang) expect(t *testing.T, chains []tick.Chain, seconds int64) {
	t.Helper()
	want := time.Duration(seconds) * time.Second
	if len(chains) != 1 || chains[0].Rule != "nccl-missing" || chains[0].Lost > want || chains[0].Lost < want-100*time.Millisecond ||
		chains[0].Window < chains[0].Lost { // else consumers take it for that of the last minute
		show(t, chains)
		t.Fatalf("%d chains, want nccl-missing with %v lost", len(chains), want)
	}
}

// A hang is a cause until it ends, however long it takes.
func TestLongHang(t *testing.T) {
	h := newHang()
	h.expect(t, h.run(1, 100), 100)
	h.expect(t, h.run(101, 900), 900)
}

// A hang costs a process no time after its end.
func TestHangEnds(t *testing.T) {
	h := newHang()
	h.run(1, 20)
	h.ended = h.since + 20*s1 + 300*ms
	chains := h.run(21, 50)
	if len(chains) != 1 || chains[0].Lost > 20300*time.Millisecond || chains[0].To.UnixNano() > h.ended {
		show(t, chains)
		t.Fatalf("%d chains, want one with at most 20.3 s lost, until then", len(chains))
	}
	delete(h.e.histories, 7) // it made room for a new process
	chains = h.run(51, 55)
	if len(chains) > 0 && chains[0].To.UnixNano() > h.ended {
		t.Errorf("it loses time until %v, after its end, once its history is gone", chains[0].To)
	}
	if chains = h.run(56, 400); len(chains) != 0 {
		t.Errorf("%d chains long after its end", len(chains))
	}
	if len(h.e.series) != 0 {
		t.Errorf("%d threads are kept after the end of their process", len(h.e.series))
	}
}
