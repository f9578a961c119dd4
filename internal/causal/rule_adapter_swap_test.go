package causal

import (
	"strings"
	"testing"
	"time"

	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Large copies to the GPU cost what their steps take beyond steps without copies.
func TestAdapterSwap(t *testing.T) {
	const megabyte = 21 // bits
	for name, tt := range map[string]struct {
		marks ledger.Marks
		size  uint8
		each  int // number of steps for one with copies
		alone bool
		lost  time.Duration
		text  string
	}{
		"adapters":            {marks: ledger.MarkToGPU, size: megabyte + 6, each: 4, lost: 500 * 10 * time.Millisecond, text: " copies of 64 MiB or more before "},
		"KV blocks":           {marks: ledger.MarkToGPU | ledger.MarkFromGPU, size: megabyte + 6, each: 4, lost: 500 * 10 * time.Millisecond, text: tick.SwappedKV},
		"from the GPU only":   {marks: ledger.MarkFromGPU, size: megabyte + 6, each: 4},
		"input IDs":           {size: 10, each: 4},
		"a model is replaced": {marks: ledger.MarkToGPU | ledger.MarkAlloc | ledger.MarkFree, size: megabyte + 6, each: 4},
		"nobody waits":        {marks: ledger.MarkToGPU, size: megabyte + 6, each: 4, alone: true},
		"copies too small for the time": {marks: ledger.MarkToGPU, size: megabyte, each: 4,
			lost: 500 * 2 * (20*time.Microsecond + (1<<megabyte)/2*time.Nanosecond), text: " copies of 1 MiB or more before "},
	} {
		t.Run(name, func(t *testing.T) {
			op, _ := events.OpByName("cudaMemcpyAsync")
			s := newServed()
			running := 8
			if tt.alone {
				running = 0
			}
			s.serveTokens(20, running, func(_, n int, x *ledger.Step) {
				s.computes(x, 200*time.Microsecond)
				if n%tt.each == 0 {
					x.Marks |= tt.marks
					x.Ops = []ledger.OpTime{{Op: op, Size: tt.size, Count: 2, Seen: 2, NS: 20_000, Own: 20_000}}
					x.Parts.GPUWait += int64(10 * time.Millisecond)
				}
			})
			if tt.alone { // requests come later, so the server is known
				s.request("10.0.0.5", s.at-int64(time.Millisecond), s.at, s.at, 400)
			}
			got := s.chains("adapter-swap")
			if tt.lost == 0 {
				if len(got) != 0 {
					t.Errorf("%+v", got)
				}
				return
			}
			if len(got) != 1 || got[0].Lost < tt.lost*96/100 || got[0].Lost > tt.lost*104/100 {
				t.Fatalf("%+v", got)
			}
			what := got[0].Culprits[0].What
			if kv := tt.marks&ledger.MarkFromGPU != 0; !strings.Contains(what, tt.text) || strings.HasPrefix(what, tick.SwappedKV) != kv {
				t.Errorf("got %q, want %q", what, tt.text)
			}
		})
	}
}
