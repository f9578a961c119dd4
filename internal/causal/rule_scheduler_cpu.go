package causal

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"ingero/internal/govern"
	"ingero/internal/tick"
)

// Before it launches the graph of a step for tokens, a healthy server in the lab, with 1 to 48
// requests at a time, computes for 0.13 to 0.27 ms in the median and 0.5 ms in the 99th percentile,
// while the GPU takes 2 ms. That is 8 to 17 % of the steps' time.
const (
	usualLead   = 0.25       // quantile of the steps: the usual time on a CPU before the launch
	longLead    = 2          // a step is slow from this multiple of the usual time on,
	leadShare   = 1.0 / 6    // if the time beyond the usual one is at least this share of its work
	alwaysShare = 1.0 / 3    // of a step's work: slow, even if it is usual
	healthyLead = 0.10       // of the GPU's time: the most that is usual then
	gpuDone     = int64(5e4) // ns: a shorter wait for the GPU does not show when the GPU was done
	fewestPairs = 20         // of steps, to tell what the GPU hid
	nearby      = int64(1e9) // ns: between two steps of a pair
)

var schedulerCPU = Rule{
	Name: "scheduler-cpu", Sees: govern.LaunchTimes | govern.EachLaunch, Rests: govern.LaunchCounts, Needs: NeedCalls, Share: 0.02,
	Doc:  "The engine of an inference server computed on a CPU before it launched a step for tokens, while the GPU had nothing to do.",
	Find: eachServer((*Window).scheduled),
}

// scheduled adds up the time on a CPU before the launch in steps for tokens, beyond the usual one.
func (w *Window) scheduled(s *Server, steps []step) (x Finding, ok bool) {
	var tokens []*step
	for i := range steps {
		if p := &steps[i]; p.tokens() && !p.unseen {
			tokens = append(tokens, p)
		}
	}
	if len(tokens) < fewTokenSteps {
		return x, false
	}
	var leads, gpus, works []weighted
	for _, p := range tokens {
		leads, gpus, works = append(leads, weighted{p.lead, p.weight}), append(gpus, weighted{p.gpu, p.weight}), append(works, weighted{p.work(), p.weight})
	}
	normal := quantile(leads, usualLead)
	x.Baseline = "a usual step for tokens computes for " + span(normal)
	if float64(normal) > alwaysShare*float64(quantile(works, 0.5)) {
		normal = int64(healthyLead * float64(quantile(gpus, 0.5)))
		x.Baseline = "a tenth of the time of the GPU, " + span(normal) + " a step, since every step computes for long"
	}
	hidden, least, most := hiddenByGPU(tokens)
	times, all, delayed, slow := s.times(), 0.0, 0.0, 0.0
	var at longest
	for _, p := range tokens {
		more := p.lead - normal
		if p.lead < longLead*normal || float64(more) < leadShare*float64(p.work()) {
			continue
		}
		lost := float64(more) * (1 - hidden)
		lo, hi := float64(more)*(1-most), float64(more)*(1-least)
		if p.gpu < gpuDone && p.waited < gpuDone { // the GPU may have worked until shortly before
			lost, lo = lost/2, 0
		}
		x.charge(p, int64(lo), int64(lost), int64(hi))
		slow += p.weight
		x.Slow = int(slow + 0.5)
		at.see(p.lead, p.codeAt)
		all += p.weight * float64(p.lead)
		delayed += p.weight * lost * times.running(p)
	}
	if x.Slow == 0 {
		return x, false
	}
	x.Culprits = []tick.Culprit{{What: fmt.Sprintf("%s on a CPU before the launch of each of %d steps, for which requests waited %s in all",
		span(int64(all/slow)), x.Slow, span(int64(delayed))), Stack: at.stack, Lost: time.Duration(x.Lost)}}
	return x, true
}

// hiddenByGPU returns the share of the time on a CPU during which the GPU still had work: an engine
// can launch a step before it waits for the one before it. Then a longer computation makes the wait
// for the GPU shorter. Neighbors are compared, since they compute about the same requests; the median
// of the pairs with the larger differences counts, and the share is in [least, most].
func hiddenByGPU(tokens []*step) (share, least, most float64) {
	slices.SortFunc(tokens, func(a, b *step) int { return cmp.Compare(a.from, b.from) })
	type pair struct{ lead, gpu int64 } // differences, ns
	var pairs []pair
	for i := 1; i < len(tokens); i++ {
		a, b := tokens[i-1], tokens[i]
		x := pair{b.lead - a.lead, b.gpu - a.gpu}
		if x.lead < 0 {
			x = pair{-x.lead, -x.gpu}
		}
		if x.lead > 0 && b.from-a.from <= nearby {
			pairs = append(pairs, x)
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Compare(a.lead, b.lead) })
	var shares []float64
	for _, x := range pairs[len(pairs)/2:] {
		shares = append(shares, float64(-x.gpu)/float64(x.lead))
	}
	if len(shares) < fewestPairs {
		return 0, 0, 1
	}
	slices.Sort(shares)
	middle, margin := len(shares)/2, int(math.Sqrt(float64(len(shares))))
	at := func(i int) float64 { return min(max(shares[i], 0), 1) }
	return at(middle), at(middle - margin), at(middle + margin)
}
