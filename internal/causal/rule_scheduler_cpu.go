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
	leadsLoss   = 0.02       // of the time: steps for tokens lose at least as much
	nearby      = int64(1e9) // ns: between two steps of a pair, and between prompts and slow steps for tokens
	fewPrompts  = 12         // steps for prompts, to tell what is usual
)

var schedulerCPU = Rule{
	Name: "scheduler-cpu", Sees: govern.LaunchTimes | govern.EachLaunch, Rests: govern.LaunchCounts, Needs: NeedRequests | NeedCalls, Share: leadsLoss,
	Doc:  "The engine of an inference server computed on a CPU before it launched a step for tokens or prompts, while the GPU had nothing to do.",
	Find: eachServer((*Window).scheduled),
}

// tokenStep is a step for tokens. The scheduler may be the thread that launches it, or a process that
// this thread waits for.
type tokenStep struct {
	*step
	known launched
	fed   int64 // ns of the wait for the scheduler's process in which it was on a CPU
	lead  int64 // ns on a CPU before the launch, fed included
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
			tokens, after = append(tokens, tokenStep{p, known, fed, p.lead + fed}), append(after, weighted{p.cpu - p.lead, p.weight})
		default:
			unseen = append(unseen, tokenStep{p, known, times.fed(p), 0})
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

// promptSteps returns the steps that computed the last part of a prompt and have records of their launches, which
// are kernels. Without a running request, the engine may have polled for one before. It waits for the tokenizer, too, so
// what others computed counts only if the scheduler has a process of its own.
func promptSteps(steps []step, times *requestTimes, own bool) (out []tokenStep) {
	const other = ledger.MarkGraph | ledger.MarkCapture | ledger.MarkModule
	for i := range steps {
		p := &steps[i]
		if known, _ := p.launch(); known == launchSeen && p.launches > 1 && p.marks&other == 0 && times.mayBePrompt(p) && times.running(p) > 0 {
			fed := int64(0)
			if own {
				fed = times.fed(p)
			}
			out = append(out, tokenStep{p, known, fed, p.lead + fed})
		}
	}
	return out
}

// fed returns how long a thread on a CPU kept a step waiting while requests were between two tokens,
// ns: it was the scheduler, since there was work.
func (x *requestTimes) fed(p *step) int64 {
	if p.worked == 0 || x.running(p) == 0 {
		return 0
	}
	return min(p.worked, p.awaited)
}

// scheduled adds up the time on a CPU before the launch in steps for tokens, beyond the usual one. If these
// are slow, steps for prompts count, too: the scheduler chooses the requests of each.
func (w *Window) scheduled(s *Server, steps []step) (x Finding, ok bool) {
	times := s.times()
	tokens, unseen := tokenSteps(steps, &times)
	if tokens == nil {
		return x, false
	}
	var works []weighted
	for i := range tokens {
		works = append(works, weighted{tokens[i].work(), tokens[i].weight})
	}
	sum := leads{times: &times, normal: usualOf(tokens)}
	x.Baseline = "a usual step for tokens computes for " + span(sum.normal)
	always := float64(sum.normal) > alwaysShare*float64(quantile(works, 0.5))
	if always {
		sum.normal = healthyLeadOf(tokens)
		x.Baseline = "a tenth of the time of the GPU, " + span(sum.normal) + " a step, since every step computes for long"
	}
	sum.hidden, sum.least, sum.most = hiddenByGPU(tokens)
	for _, list := range [...][]tokenStep{tokens, unseen} {
		for i := range list {
			sum.add(&x, &list[i])
		}
	}
	if sum.slow == 0 {
		return x, false
	}
	own := sum.fed > sum.all/2 // the scheduler has a process of its own
	prompts := promptSteps(steps, &times, own)
	if known := w.known(w.e.series[s.Engine].pid); len(prompts) >= fewPrompts && float64(x.Lost) >= leadsLoss*float64(known) && !w.stallsWithin(s, &x) {
		from, to, at := x.From-nearby, x.To+nearby, sum.at
		if sum.normal = usualOf(prompts); always {
			sum.normal = min(sum.normal, healthyLeadOf(prompts))
		}
		for i := range prompts {
			if p := &prompts[i]; p.from >= from && p.to() <= to {
				sum.add(&x, p)
			}
		}
		if at.stack != 0 { // steps for tokens tell where the scheduler computes
			sum.at = at
		}
	}
	x.Slow = int(sum.slow + 0.5)
	x.Culprits = []tick.Culprit{{What: fmt.Sprintf("%s on a CPU before the launch of each of %d steps, for which requests waited %s in all",
		span(int64(sum.all/sum.slow)), x.Slow, span(int64(sum.delayed))), Stack: sum.at.stack, Lost: time.Duration(x.Lost)}}
	if own {
		c := &x.Culprits[0]
		c.Thread = w.feeder(w.e.series[s.Engine].pid, func(*events.Thread) bool { return true })
		c.Root, c.Stack = tick.Root{Did: tick.ActivityCompute}, 0
	}
	return x, true
}

// leads adds up the time on a CPU before launches, beyond the usual one.
type leads struct {
	times               *requestTimes
	normal              int64   // ns: the usual time of a step
	hidden, least, most float64 // share that the GPU hid: see hiddenByGPU
	slow                float64 // steps
	all, fed, delayed   float64 // ns: of slow steps; of the scheduler's process; of waiting requests
	at                  longest
}

// add adds a step to a finding, if it is slow.
func (l *leads) add(x *Finding, p *tokenStep) {
	more := p.lead - l.normal
	if p.lead < longLead*l.normal || float64(more) < leadShare*float64(p.work()) {
		return
	}
	lost := float64(more) * (1 - l.hidden)
	lo, hi := float64(more)*(1-l.most), float64(more)*(1-l.least)
	switch {
	case p.known == launchUnknown:
		if l.times.running(p.step) > 0 {
			x.unknown += p.weight * hi
		}
		return
	case p.known == launchCounted:
		lo = 0
	case p.gpu < gpuDone && p.waited < gpuDone: // the GPU may have worked until shortly before
		lost, lo = lost/2, 0
	}
	x.charge(p.step, int64(lo), int64(lost), int64(hi))
	l.slow += p.weight
	l.at.see(p.lead, p.codeAt)
	l.all += p.weight * float64(p.lead)
	l.fed += p.weight * float64(p.fed)
	l.delayed += p.weight * lost * l.times.running(p.step)
}

// stallsWithin reports whether prefill-stall has steps for prompts in the time of a finding: all of their time.
func (w *Window) stallsWithin(s *Server, x *Finding) bool {
	return slices.ContainsFunc(w.foundBy(prefillStall.Name), func(o *Finding) bool { return o.TID == s.Engine && o.From < x.To && x.From < o.To })
}

// healthyLeadOf returns the most that is usual before the launch of steps that all compute for long, ns.
func healthyLeadOf(list []tokenStep) int64 {
	var gpus []weighted
	for i := range list {
		gpus = append(gpus, weighted{list[i].gpu, list[i].weight})
	}
	return int64(healthyLead * float64(quantile(gpus, 0.5)))
}

// usualOf returns the usual time on a CPU before the launch of some steps, ns.
func usualOf(list []tokenStep) int64 {
	all := make([]weighted, 0, len(list))
	for i := range list {
		all = append(all, weighted{list[i].lead, list[i].weight})
	}
	return quantile(all, usualLead)
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
