package store

import (
	"testing"
	"time"

	"ingero/internal/store/storetest"
	"ingero/internal/tick"
)

// engineTick is a tick, second s after the first, with steps of one engine: of two kinds, and of a graph
// for each kind.
func engineTick(s int, count uint64) *tick.Tick {
	t := &tick.Tick{Time: storetest.Began.Add(time.Duration(s) * time.Second), Window: time.Second}
	for kind := range tick.EngineStep(2) {
		x := tick.EngineSteps{PID: 7, TID: 8, Kind: kind, Graph: uint64(kind), Count: count, Served: 2, Idle: 1, GPU: 10}
		x.Dur.Add(5e6, uint32(count))
		t.EngineSteps = append(t.EngineSteps, x)
	}
	return t
}

// Steps are summed up over ten seconds from the first, and to the end.
func TestEngineStepsSpans(t *testing.T) {
	final := engineTick(13, 1)
	final.Final = true
	for _, tt := range []struct {
		name  string
		ticks []*tick.Tick
		spans []time.Duration // of the rows of each kind
		steps []uint64
	}{
		{"not yet", []*tick.Tick{engineTick(1, 1), engineTick(9, 1)}, nil, nil},
		{"ten seconds", []*tick.Tick{engineTick(1, 1), engineTick(5, 2), engineTick(10, 3), engineTick(11, 1)}, []time.Duration{10 * time.Second}, []uint64{6}},
		{"the end", []*tick.Tick{engineTick(1, 1), engineTick(10, 3), engineTick(12, 1), final}, []time.Duration{10 * time.Second, 2 * time.Second}, []uint64{4, 2}},
		{"a late tick", []*tick.Tick{engineTick(1, 1), engineTick(31, 3)}, []time.Duration{31 * time.Second}, []uint64{4}},
		{"no engine", []*tick.Tick{{Time: storetest.Began, Final: true}}, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := &engineSteps{}
			for _, x := range tt.ticks {
				e.add(x)
			}
			if len(e.due) != 2*len(tt.spans) {
				t.Fatalf("%d rows, want %d of each kind", len(e.due), len(tt.spans))
			}
			for i, x := range e.due {
				if span := time.Duration(x.to - x.from); span != tt.spans[i/2] || x.Count != tt.steps[i/2] || x.Dur.Count() != x.Count || x.Graph != uint64(x.Kind) {
					t.Errorf("row %d: %+v over %v", i, x.EngineSteps, span)
				}
			}
		})
	}
}

// While another process locks the database, a bounded number of rows is queued.
func TestEngineStepsWaitForTheDatabase(t *testing.T) {
	e := &engineSteps{}
	for i := range maxStates {
		x := engineTick(10*i, 1)
		x.Final = true
		e.add(x)
	}
	if len(e.due) != maxStates {
		t.Errorf("%d rows wait", len(e.due))
	}
}
