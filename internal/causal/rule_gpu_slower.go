package causal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ingero/internal/govern"
	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

var gpuSlower = Rule{
	Name: "gpu-slower", Sees: govern.LaunchCounts, Needs: NeedCalls, Problems: []string{"7", "12"}, Share: 0.01,
	Doc:  "From some point on, the GPU took longer for the same steps, and nothing on the host explains it.",
	Find: shifts("gpu-slower"),
}

var gpuThrottled = Rule{
	Name: "gpu-throttled", Sees: govern.LaunchCounts, Needs: NeedCalls | NeedGPUs, Problems: []string{"7", "17"}, Share: 0.01,
	Doc:     "The GPU lowered its clocks because of heat, power or a fault, and took longer for the same steps.",
	Find:    shifts("gpu-throttled"),
	Instead: []string{"driver-slow"},
}

var gpuShared = Rule{
	Name: "gpu-shared", Sees: govern.LaunchCounts, Needs: NeedCalls | NeedState, Problems: []string{"18", "21"}, Share: 0.01,
	Doc:  "Another process used the same GPU, and the same steps took longer.",
	Find: shifts("gpu-shared"),
}

// A shift lasts, begins sharply, and its growth reaches the steps' length.
const (
	shiftBin   = 250 * time.Millisecond
	shiftBins  = 3    // minimum duration
	shiftKnown = 4    // bins before the shift that define normal, at least
	shiftBase  = 40   // and at most
	shiftBy    = 0.12 // of the usual GPU time of a step
	shiftLeast = 100_000
	shiftEdge  = 0.6 // of the growth comes within two bins
	shiftReach = 0.5 // of the growth is also in the steps' length
)

// shift is a time in which the GPU took longer for a process's steps than before.
type shift struct {
	pid, tid       uint32
	op             events.Op
	from, to, lost int64
	spread         bins // of lost
	steps, slow    float64
	before, during int64 // ns: GPU time of a step
	unsure         float64
	ranks          bool // steps contain collectives
	cause          string
	reason         string
	neighbours     []neighbour
	instead        []string // as in Finding
}

// bin is a stretch of time with the medians of its steps.
type bin struct {
	from, to         int64
	gpu, length      int64
	launches, weight float64
	unsure           bool // launches was not counted
}

// shifts returns a Find of the shifts that a rule explains.
func shifts(rule string) func(*Window) []Finding {
	return func(w *Window) (out []Finding) {
		if !w.shifted {
			w.shifts, w.shifted = w.findShifts(), true
		}
		for i := range w.shifts {
			if s := &w.shifts[i]; s.cause == rule {
				s.addCopies(w)
				out = append(out, s.finding(w))
			}
		}
		return out
	}
}

// addCopies adds the slow copies in the time of a shift. A copy to pageable memory waits until the GPU
// has done what was launched before, even if its name says that it is asynchronous.
func (s *shift) addCopies(w *Window) {
	var rest []*Finding
	slack := max(1e9, 3*s.during) // the last steps may be too few to be a part of the shift
	for _, x := range w.foundBy(callSlow.Name) {
		if x.PID != s.pid || classOf(x.Op) != events.ClassMemcpy || x.From < s.from-slack || x.To > s.to+slack {
			rest = append(rest, x)
			continue
		}
		if x.TID == s.tid { // another thread waited at the same time
			for _, l := range x.spread {
				s.spread.put(l)
			}
			s.lost, s.steps = s.lost+x.Lost, max(s.steps, float64(x.Steps))
			s.slow = min(s.slow+float64(x.Slow), s.steps)
		}
		s.instead = append(append(s.instead, x.id), x.instead...)
	}
	w.found[ruleNamed(callSlow.Name)] = rest
}

// findShifts finds the shifts of every process, and explains them.
func (w *Window) findShifts() (out []shift) {
	for _, b := range w.Histories() {
		tid, steps := w.steps(b.PID)
		list := shiftsOf(steps, b.Ended)
		for i := range list {
			s := &list[i]
			s.pid, s.tid = b.PID, tid
			out = append(out, *s)
		}
	}
	for i := range out {
		w.explain(&out[i])
	}
	return out
}

// explain sets the cause of a shift.
func (w *Window) explain(s *shift) {
	device := w.deviceOf(s.pid)
	why, clock := w.throttled(device, s.from, s.to)
	s.neighbours = w.neighbours(s.pid, device, s.from, s.to)
	switch {
	case w.waitsForRanks(s): // reported by the rules about ranks
	case w.moves(s.pid, s.from, s.to): // it has more work
	case len(why) > 0:
		s.cause, s.reason = "gpu-throttled", strings.Join(why, ", ")
		if clock != "" {
			s.reason += "; " + clock
		}
	case len(s.neighbours) > 0:
		s.cause = "gpu-shared"
	case w.launchesMore(s):
	default:
		s.cause = "gpu-slower"
	}
}

// moves reports whether a process copied more per launch in [from, to] than at other times.
func (w *Window) moves(pid uint32, from, to int64) bool {
	b := w.History(pid)
	if b == nil {
		return false
	}
	var during, other struct{ bytes, launches float64 }
	for i := 1; i < len(b.Seconds); i++ {
		s := &b.Seconds[i]
		sum := &other
		switch inside := min(s.To, to) - max(s.From, from); {
		case w.unseen(pid, b.Seconds[i-1].From, s.To)&(govern.QuickTimes|govern.LaunchCounts) != 0: // incomplete counts
			continue
		case inside*2 > s.To-s.From:
			sum = &during
		case inside > 0:
			continue
		}
		sum.bytes += float64(copied(s) - min(copied(&b.Seconds[i-1]), copied(s)))
		sum.launches += float64(launchesIn(s))
	}
	const page = 4096
	return other.launches > 0 && during.launches > 0 && during.bytes/during.launches > 1.25*other.bytes/other.launches+page
}

// copied returns the bytes that a process had copied by the end of a second.
func copied(s *Second) (bytes uint64) {
	for i := range s.Copies {
		bytes += s.Copies[i].Bytes
	}
	return bytes
}

// finding returns the finding of a shift.
func (s *shift) finding(w *Window) Finding {
	slack := int64(s.unsure*float64(s.lost)) + s.lost/20
	x := Finding{
		PID: s.pid, TID: s.tid, Op: s.op, From: s.from, To: s.to, Lost: s.lost, spread: s.spread, instead: s.instead, Min: s.lost - slack, Max: s.lost + slack,
		Steps: int(s.steps + 0.5), Slow: int(s.slow + 0.5), Confidence: 0.9 - min(s.unsure, 0.5),
		Baseline: fmt.Sprintf("earlier steps; the GPU took %s for each", span(s.before)),
		Timeline: []tick.Moment{moment(s.from, "GPU", "from here on, the GPU takes %s for a step; before: %s", span(s.during), span(s.before))},
	}
	if s.to < w.Now()-int64(2*time.Second) {
		x.Timeline = append(x.Timeline, moment(s.to, "GPU", "from here on, the GPU takes as long as before"))
	}
	who := tick.Culprit{What: "GPU", Lost: time.Duration(s.lost)}
	if d := w.deviceOf(s.pid); d != "" {
		who.What = "GPU " + d
	}
	switch s.cause {
	case "gpu-throttled":
		who.What += " (" + s.reason + ")"
	case "gpu-shared":
		x.Culprits = s.culprits(w, who.What)
		return x
	case "gpu-slower":
		if s.ranks && w.hasUntracedRanks(s.pid) {
			who.What += ", or a rank that is not traced, for which its collectives waited"
			x.Confidence = min(x.Confidence, 0.5)
		}
		who.GPU, who.Sharers = w.sharers(s.pid, s.from)
	}
	x.Culprits = []tick.Culprit{who}
	return x
}

// culprits returns the other processes on the GPU, each with its share of the loss.
func (s *shift) culprits(w *Window, device string) (out []tick.Culprit) {
	var all float64
	for _, n := range s.neighbours {
		all += n.launches
	}
	for _, n := range s.neighbours {
		name := w.called(n.PID)
		out = append(out, tick.Culprit{
			Thread: events.Thread{PID: n.PID, TID: n.PID, Name: name}, What: fmt.Sprintf("%.0f launches a second on %s", n.launches, device),
			Lost: time.Duration(float64(s.lost) * n.launches / all),
		})
		if len(out) == maxCulprits {
			break
		}
	}
	return out
}

// shiftsOf finds the shifts in a thread's steps of the most frequent kind.
func shiftsOf(steps []step, ended int64) []shift {
	all := make([]*step, 0, len(steps))
	for i := range steps {
		if x := &steps[i]; !x.period && (ended == 0 || x.to() < ended) {
			all = append(all, x)
		}
	}
	lists := comparableSteps(all)
	if len(lists) == 0 {
		return nil
	}
	out := shiftsIn(lists[0])
	for i := range out {
		for _, other := range lists[1:] {
			out[i].join(other, out[:i])
		}
	}
	return out
}

// shiftsIn finds the shifts in comparable steps, which are in time order.
func shiftsIn(list []*step) []shift {
	bins := carried(binsOf(list))
	var out []shift
	var base []bin
	for i := 0; i < len(bins); {
		n := run(bins[i:], base)
		if n < shiftBins || !sharp(bins, i, base) || !sure(bins[i:i+n], base) {
			if n > 0 && len(base) >= shiftKnown && n < shiftBins && i+n == len(bins) {
				break // may be the beginning of a shift
			}
			base = append(base, bins[i])
			if len(base) > shiftBase {
				base = base[1:]
			}
			i++
			continue
		}
		out = append(out, shiftIn(list, base, bins[i].from, bins[i+n-1].to))
		i += n
	}
	return out
}

// binsOf divides steps, which are in time order, into bins of at least three steps each.
func binsOf(list []*step) (out []bin) {
	const fewest = 3
	for i := 0; i < len(list); {
		j := i + 1
		for j < len(list) && (j < i+fewest || list[j].from-list[i].from < int64(shiftBin)) {
			j++
		}
		if j-i >= fewest {
			out = append(out, binOf(list[i:j]))
		}
		i = j
	}
	return out
}

func binOf(list []*step) bin {
	b := bin{from: list[0].from, to: list[len(list)-1].to()}
	of := func(f func(*step) int64) int64 {
		v := make([]weighted, 0, len(list))
		for _, x := range list {
			v = append(v, weighted{f(x), x.weight})
		}
		return quantile(v, 0.5)
	}
	b.gpu = of(func(x *step) int64 { return x.gpu })
	b.length = of(func(x *step) int64 { return x.length - x.lost })
	b.launches, b.unsure = float64(of(func(x *step) int64 { return int64(x.launches) })), slices.ContainsFunc(list, func(x *step) bool { return x.shed&uncounted != 0 })
	for _, x := range list {
		b.weight += x.weight
	}
	return b
}

// level returns the median of some bins and the spread around it.
func level(base []bin, f func(*bin) int64) (middle, off int64) {
	v := make([]weighted, 0, len(base))
	for i := range base {
		v = append(v, weighted{f(&base[i]), 1})
	}
	middle = quantile(v, 0.5)
	for i := range v {
		v[i].v = max(v[i].v-middle, middle-v[i].v)
	}
	return middle, quantile(v, 0.8)
}

func gpuOf(b *bin) int64    { return b.gpu }
func lengthOf(b *bin) int64 { return b.length }

// run returns how many bins, from the first on, belong to a shift.
func run(bins, base []bin) (n int) {
	if len(base) < shiftKnown {
		return 0
	}
	gpu, off := level(base, gpuOf)
	length, _ := level(base, lengthOf)
	launches := base[len(base)-1].launches
	for n < len(bins) {
		b := &bins[n]
		more := b.gpu - gpu
		if more < max(int64(shiftBy*float64(gpu)), 4*off, shiftLeast) || float64(b.length-length) < shiftReach*float64(more) || !b.unsure && b.launches > 1.1*launches+1 {
			break
		}
		n++
	}
	return n
}

// sharp reports whether most of a shift's growth comes with its first two bins. Slow growth is a
// warm-up, or input that gets longer.
func sharp(bins []bin, i int, base []bin) bool {
	if i == 0 || len(base) < shiftKnown {
		return false
	}
	gpu, _ := level(base, gpuOf)
	n := run(bins[i:], base)
	all, _ := level(bins[i:i+n], gpuOf)
	return float64(bins[min(i+1, len(bins)-1)].gpu-bins[i-1].gpu) >= shiftEdge*float64(all-gpu)
}

// shiftIn adds up the loss of a shift's steps. A bin may begin or end within the shift: steps
// around it that are as long count too.
func shiftIn(list []*step, base []bin, from, to int64) shift {
	gpu, off := level(base, gpuOf)
	length, _ := level(base, lengthOf)
	var grown []weighted
	for _, x := range list {
		if x.from >= from && x.to() <= to {
			grown = append(grown, weighted{x.gpu, x.weight})
		}
	}
	s := shift{before: gpu, during: quantile(grown, 0.5), from: to, to: from}
	for _, x := range list {
		s.steps += x.weight
		more := min(x.gpu-gpu, x.length-x.lost-length)
		if x.to() < from-int64(2*shiftBin) || x.from > to+int64(2*shiftBin) || more < (s.during-gpu)/2 {
			continue
		}
		s.op, s.from, s.to = x.op, min(s.from, x.from), max(s.to, x.to())
		s.ranks = s.ranks || x.marks&ledger.MarkCollective != 0
		s.spread.add(x.from, x.to(), x.weight*float64(more))
		s.slow += x.weight
	}
	s.lost, s.unsure = s.spread.sum(), min(float64(off)/float64(max(s.during-s.before, 1)), 0.5)
	return s
}

// carried copies launches from the previous bin into bins without counts; -1: no previous bin.
func carried(bins []bin) []bin {
	last := -1.0
	for i := range bins {
		if bins[i].unsure {
			bins[i].launches = last
		}
		last = bins[i].launches
	}
	return bins
}

// sure reports whether the steps of a shift are known to have no more launches than before.
func sure(shift, base []bin) bool {
	return base[len(base)-1].launches >= 0 && slices.ContainsFunc(shift, func(b bin) bool { return !b.unsure })
}
