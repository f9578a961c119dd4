package causal

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"ingero/internal/govern"
	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
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
	Name: "scheduler-cpu", Sees: govern.LaunchTimes | govern.EachLaunch, Rests: govern.LaunchCounts, Needs: NeedRequests | NeedCalls, Share: 0.02,
	Doc:  "The engine of an inference server computed on a CPU before it launched a step for tokens, while the GPU had nothing to do.",
	Find: eachServer((*Window).scheduled),
}

// tokenStep is a step for tokens. The scheduler may be the thread that launches it, or a process that
// this thread waits for.
type tokenStep struct {
	*step
	fed  int64 // ns of the wait for the scheduler's process in which it was on a CPU
	lead int64 // ns on a CPU before the launch, fed included
}

// launched is how much is known about the launch of a step for tokens.
type launched uint8

const (
	launchSeen    launched = iota
	launchCounted          // a graph was launched, when is unknown
	launchUnknown          // a graph may have been launched
)

// work returns how long a step was on a CPU or waited for the GPU, ns.
func (p *tokenStep) work() int64 { return p.step.work() + p.fed }

// launch returns what is known about the launch of a step. ok is false if it computed no tokens.
func (x *step) launch() (known launched, ok bool) {
	switch {
	case x.graphsUnknown:
		return launchUnknown, x.marks&ledger.MarkCapture == 0
	case x.unseen:
		return launchCounted, x.tokens()
	}
	return launchSeen, x.tokens()
}

// tokenSteps returns the steps for tokens: those that have records of their launches, none if they are
// few, and the others. In these, the time on a CPU after the launch is taken as usual.
func tokenSteps(steps []step, times *requestTimes) (tokens, unseen []tokenStep) {
	var after []weighted
	for i := range steps {
		p := &steps[i]
		switch known, ok := p.launch(); {
		case !ok:
		case known == launchSeen:
			fed := times.fed(p)
			tokens, after = append(tokens, tokenStep{p, fed, p.lead + fed}), append(after, weighted{p.cpu - p.lead, p.weight})
		default:
			unseen = append(unseen, tokenStep{p, times.fed(p), 0})
		}
	}
	if len(tokens) < fewTokenSteps {
		return nil, nil
	}
	usual := quantile(after, 0.5)
	for i := range unseen {
		p := &unseen[i]
		p.lead = max(p.cpu-usual, 0) + p.fed
	}
	return tokens, unseen
}

// fed returns how long a thread on a CPU kept a step waiting while requests were between two tokens,
// ns: it was the scheduler, since there was work.
func (x *requestTimes) fed(p *step) int64 {
	if p.worked == 0 || x.running(p) == 0 {
		return 0
	}
	return min(p.worked, p.awaited)
}

// scheduled adds up the time on a CPU before the launch in steps for tokens, beyond the usual one.
func (w *Window) scheduled(s *Server, steps []step) (x Finding, ok bool) {
	times := s.times()
	tokens, unseen := tokenSteps(steps, &times)
	if tokens == nil {
		return x, false
	}
	var leads, gpus, works []weighted
	for i := range tokens {
		p := &tokens[i]
		leads, gpus, works = append(leads, weighted{p.lead, p.weight}), append(gpus, weighted{p.gpu, p.weight}), append(works, weighted{p.work(), p.weight})
	}
	normal := quantile(leads, usualLead)
	x.Baseline = "a usual step for tokens computes for " + span(normal)
	if float64(normal) > alwaysShare*float64(quantile(works, 0.5)) {
		normal = int64(healthyLead * float64(quantile(gpus, 0.5)))
		x.Baseline = "a tenth of the time of the GPU, " + span(normal) + " a step, since every step computes for long"
	}
	hidden, least, most := hiddenByGPU(tokens)
	var all, fed, delayed, slow float64
	var at longest
	tokens = append(tokens, unseen...)
	for i := range tokens {
		p := &tokens[i]
		more := p.lead - normal
		if p.lead < longLead*normal || float64(more) < leadShare*float64(p.work()) {
			continue
		}
		lost := float64(more) * (1 - hidden)
		lo, hi := float64(more)*(1-most), float64(more)*(1-least)
		switch known, _ := p.launch(); {
		case known == launchUnknown:
			if times.running(p.step) > 0 {
				x.unknown += p.weight * hi
			}
			continue
		case known == launchCounted:
			lo = 0
		case p.gpu < gpuDone && p.waited < gpuDone: // the GPU may have worked until shortly before
			lost, lo = lost/2, 0
		}
		x.charge(p.step, int64(lo), int64(lost), int64(hi))
		slow += p.weight
		x.Slow = int(slow + 0.5)
		at.see(p.lead, p.codeAt)
		all += p.weight * float64(p.lead)
		fed += p.weight * float64(p.fed)
		delayed += p.weight * lost * times.running(p.step)
	}
	if x.Slow == 0 {
		return x, false
	}
	x.Culprits = []tick.Culprit{{What: fmt.Sprintf("%s on a CPU before the launch of each of %d steps, for which requests waited %s in all",
		span(int64(all/slow)), x.Slow, span(int64(delayed))), Stack: at.stack, Lost: time.Duration(x.Lost)}}
	if fed > all/2 {
		c := &x.Culprits[0]
		c.Thread = w.feeder(w.e.series[s.Engine].pid, func(*events.Thread) bool { return true })
		c.Root, c.Stack = tick.Root{Did: tick.ActivityCompute}, 0
	}
	return x, true
}

// hiddenByGPU returns the share of the time on a CPU during which the GPU still had work: an engine
// can launch a step before it waits for the one before it. Then a longer computation makes the wait
// for the GPU shorter. Neighbors are compared, since they compute about the same requests; the median
// of the pairs with the larger differences counts, and the share is in [least, most].
func hiddenByGPU(tokens []tokenStep) (share, least, most float64) {
	slices.SortFunc(tokens, func(a, b tokenStep) int { return cmp.Compare(a.from, b.from) })
	type pair struct{ lead, gpu int64 } // differences, ns
	var pairs []pair
	for i := 1; i < len(tokens); i++ {
		a, b := &tokens[i-1], &tokens[i]
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
