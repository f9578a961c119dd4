package probes_test

import (
	"cmp"
	"slices"
	"testing"

	"ingero/internal/probes"
	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// Whatever is thinned, a synchronization has the number of its thread's launches since the previous
// one, and the gap before a call has all the time since the last call with a record.
func TestWhatIsLeftOutIsInTheGap(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	for name, tt := range map[string]struct {
		shed  probes.Shed
		lever bool
		mode  probes.Mode
	}{
		"nothing left out":     {mode: probes.ModeSession},
		"one record in 8":      {shed: probes.Shed{Thin: 3}, mode: probes.ModeSession},
		"hardly any record":    {shed: probes.Shed{Thin: 15}, mode: probes.ModeMulti},
		"launches are counted": {shed: probes.Shed{Thin: 6}, lever: true, mode: probes.ModeSession},
		"by links one by one":  {shed: probes.Shed{Thin: 6}, lever: true, mode: probes.ModePerf},
	} {
		t.Run(name, func(t *testing.T) {
			tr, child := launcher(t, tt.mode)
			if err := tr.Shed(tt.shed); err != nil {
				t.Fatal(err)
			}
			lever(t, tr, child, tt.lever)
			const rounds = 3
			for range rounds {
				child.Send("")
				launched(child)
			}
			threads := map[uint32][]events.Call{}
			for _, c := range drain(t, tr) {
				if c.Flags&(events.CallNested|events.CallUnmeasured) == 0 {
					threads[c.TID] = append(threads[c.TID], c)
				}
			}
			if len(threads) != 4 {
				t.Fatalf("%d threads, want 4", len(threads))
			}
			for tid, calls := range threads {
				slices.SortFunc(calls, func(a, b events.Call) int { return cmp.Compare(a.Start, b.Start) })
				if wrong := wrongGraphs(calls); wrong != nil {
					t.Error(wrong)
				}
				var launches []uint16
				for i := range calls {
					c := &calls[i]
					if i > 0 && c.Gap != c.Start-calls[i-1].End() {
						t.Errorf("thread %d, call %d: a gap of %d ns, %d after the last with a record", tid, i, c.Gap, c.Start-calls[i-1].End())
					}
					if c.Op.String() == "cudaStreamSynchronize" {
						launches = append(launches, c.Launches)
					} else if c.Launches != 0 {
						t.Errorf("a launch says %d launches", c.Launches)
					}
				}
				// See testdata/lever.c: two launches, each followed by ten more, a synchronization.
				want := append([]uint16{2}, slices.Repeat([]uint16{10}, 10*rounds-1)...)
				if !slices.Equal(launches, want) {
					t.Errorf("thread %d: launches %v, want %v", tid, launches, want)
				}
			}
		})
	}
}
