package causal

import (
	"fmt"
	"time"

	"ingero/internal/govern"
	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

const (
	fewestSwaps = 10 // steps with copies
	largeCopy   = 20 // bits: the smallest large copy has one more
)

var adapterSwap = Rule{
	Name: "adapter-swap", Sees: govern.QuickTimes | govern.EachQuick, Needs: NeedRequests | NeedCalls, Share: 0.02,
	Doc:     "LoRA adapters, other weights or blocks of the KV cache were copied to the GPU before steps, because not all fit.",
	Instead: []string{"copy-heavy", "copy-pageable", "call-slow"},
	Find:    eachServer((*Window).swapped),
}

// swapped adds up how much longer steps with large copies to the GPU took than steps without them,
// while requests waited.
func (w *Window) swapped(s *Server, steps []step) (x Finding, ok bool) {
	times := s.times()
	copies := func(p *step) bool {
		return p.marks&ledger.MarkToGPU != 0 && p.marks&(ledger.MarkAlloc|ledger.MarkFree|ledger.MarkCapture) == 0 && times.waiting(p) > 0
	}
	normal := w.normalSteps(steps, copies)
	var n, back, slow, delayed float64
	var size uint8
	for i := range steps {
		p := &steps[i]
		if !copies(p) {
			continue
		}
		count, most, bits := p.largeCopies()
		usual, known := normal[p.tokens()]
		lost := min(w.e.alone(p)-usual, most)
		least := lost
		if !known {
			least, lost = 0, min(lost, p.gpu)/2
		}
		x.charge(p, least, lost, min(p.busy()-usual, most))
		slow += p.weight
		x.Slow = int(slow + 0.5)
		n, size = n+p.weight*count, max(size, bits)
		if p.marks&ledger.MarkFromGPU != 0 {
			back += p.weight
		}
		delayed += p.weight * float64(max(lost, 0)) * times.waiting(p)
	}
	if slow < fewestSwaps {
		return x, false
	}
	what := fmt.Sprintf("%.0f copies of %s or more before %d steps, for which requests waited %s in all", n, bytesText(1<<(size-1)), x.Slow, span(int64(delayed)))
	if back >= slow/2 {
		what = tick.SwappedKV + what
	}
	x.Culprits = []tick.Culprit{{What: what, Lost: time.Duration(x.Lost)}}
	x.Baseline = "steps of this run without it"
	return x, true
}

// normalSteps returns the median time of steps with a graph (true) and without, apart from some.
func (w *Window) normalSteps(steps []step, without func(*step) bool) map[bool]int64 {
	out := map[bool]int64{}
	for _, graph := range []bool{true, false} {
		if v, ok := medianOf(steps, func(p *step) bool { return p.tokens() == graph && p.launches > 0 && !without(p) }, w.e.alone); ok {
			out[graph] = v
		}
	}
	return out
}

// largeCopies returns the number of a step's large copies, the most time that they take, ns, and the
// bits in the number of bytes of the largest.
func (r *record) largeCopies() (n float64, most int64, bits uint8) {
	for _, o := range r.own[:r.nown] {
		if classOf(o.op) == events.ClassMemcpy && o.size > largeCopy {
			n += float64(o.all)
			most += int64(o.all) * (copyCall + 1<<o.size/slowCopy)
			bits = max(bits, o.size)
		}
	}
	return n, most, bits
}
