package inference

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"ingero/internal/tick"
)

// state is what a server has counted since it was started, by name of the one set.
type state struct {
	numbers   map[string]float64
	durations map[string]histogram
}

// histogram is a histogram of durations in seconds.
type histogram struct {
	count  uint64
	sum    float64
	bounds []bound // ascending; the last one may be infinite
}

// bound is the upper bound of a bucket, and how many durations it and all lower buckets have.
type bound struct {
	upTo  float64
	below uint64
}

// maxBounds bounds the buckets of a histogram.
const maxBounds = 64

// state returns a server's state from its metrics. It skips values that cannot be right.
func (s *server) state(families map[string]*dto.MetricFamily) *state {
	out := &state{map[string]float64{}, map[string]histogram{}}
	for i := range tick.InferenceNumbers {
		f := &tick.InferenceNumbers[i]
		for _, n := range s.names[f.Name] {
			if v, ok := n.number(families, f.Name == "kv_cache"); ok {
				out.numbers[f.Name] = v
				break
			}
		}
	}
	for i := range tick.InferenceDurations {
		f := &tick.InferenceDurations[i]
		for _, n := range s.names[f.Name] {
			if h, ok := n.histogram(families); ok {
				out.durations[f.Name] = h
				break
			}
		}
	}
	return out
}

// series returns the series of a metric that count. The ranks of a tensor or pipeline parallel group
// report the same requests: of these, the first rank's count. A gauge with a series for each priority
// has a series with their sum, whose priority is empty: the sum counts.
func (n *name) series(families map[string]*dto.MetricFamily) (out []*dto.Metric) {
	at := map[string]int{} // in out, by group
	for _, m := range families[n.metric].GetMetric() {
		group, selected := n.groupOf(m)
		i, known := at[group]
		switch {
		case !selected:
		case !known:
			at[group] = len(out)
			out = append(out, m)
		case rankOf(m) < rankOf(out[i]):
			out[i] = m
		}
	}
	return out
}

// groupOf returns the labels that series of the same requests share, and whether the series counts.
func (n *name) groupOf(m *dto.Metric) (group string, selected bool) {
	var b strings.Builder
	selected = n.label == ""
	for _, l := range m.GetLabel() {
		selected = selected || l.GetName() == n.label && l.GetValue() == n.value
		switch name := l.GetName(); {
		case name == "tp_rank" || name == "pp_rank" || name == "moe_ep_rank": // the last differs between tensor ranks
		case name == "priority" && m.Gauge != nil:
		default:
			fmt.Fprintf(&b, "%q=%q,", name, l.GetValue())
		}
	}
	return b.String(), selected
}

// rankOf returns a number that orders the series of a group. Series of one priority come last.
func rankOf(m *dto.Metric) (rank int) {
	for _, l := range m.GetLabel() {
		n, _ := strconv.Atoi(l.GetValue()) // 0 if it is no number
		n = min(n, 1<<20-1)
		switch l.GetName() {
		case "priority":
			if l.GetValue() != "" {
				rank += 1 << 41
			}
		case "pp_rank":
			rank += n << 20
		case "tp_rank":
			rank += n
		}
	}
	return rank
}

// number returns the sum over a metric's series, or their highest value if it is a share.
func (n *name) number(families map[string]*dto.MetricFamily, share bool) (total float64, known bool) {
	for _, m := range n.series(families) {
		v := valueOf(m)
		switch {
		case math.IsNaN(v) || math.IsInf(v, 0) || v < 0:
			continue
		case share:
			total = max(total, min(v, 1))
		default:
			total += v
		}
		known = true
	}
	return total, known && !math.IsInf(total, 0)
}

// valueOf returns the value of a series; the sum of a histogram or summary.
func valueOf(m *dto.Metric) float64 {
	switch {
	case m.Gauge != nil:
		return m.GetGauge().GetValue()
	case m.Counter != nil:
		return m.GetCounter().GetValue()
	case m.Untyped != nil:
		return m.GetUntyped().GetValue()
	case m.Histogram != nil:
		return m.GetHistogram().GetSampleSum()
	case m.Summary != nil:
		return m.GetSummary().GetSampleSum()
	}
	return math.NaN()
}

// histogram returns the sum over the series of a histogram.
func (n *name) histogram(families map[string]*dto.MetricFamily) (total histogram, known bool) {
	at := map[float64]uint64{}
	for _, m := range n.series(families) {
		h, ok := histogramOf(m)
		if !ok {
			continue
		}
		known = true
		total.count += h.count
		total.sum += h.sum
		for _, b := range h.bounds {
			if at[b.upTo] += b.below; len(at) > maxBounds {
				return histogram{}, false
			}
		}
	}
	for upTo, below := range at {
		total.bounds = append(total.bounds, bound{upTo, below})
	}
	slices.SortFunc(total.bounds, func(a, b bound) int { return cmp.Compare(a.upTo, b.upTo) })
	return total, known && total.valid()
}

// histogramOf returns a series' histogram, if it is valid. A summary has no buckets.
func histogramOf(m *dto.Metric) (h histogram, ok bool) {
	switch {
	case m.Histogram != nil:
		x := m.GetHistogram()
		h.count, h.sum = x.GetSampleCount(), x.GetSampleSum()
		for _, b := range x.GetBucket() {
			h.bounds = append(h.bounds, bound{b.GetUpperBound(), b.GetCumulativeCount()})
		}
	case m.Summary != nil:
		h.count, h.sum = m.GetSummary().GetSampleCount(), m.GetSummary().GetSampleSum()
	default:
		return h, false
	}
	return h, h.valid()
}

// maxCount bounds counts, so that sums of counts cannot overflow.
const maxCount = 1 << 53

// valid reports whether a histogram can be right: ascending bounds, growing counts, and all durations
// in an infinite bucket.
func (h *histogram) valid() bool {
	if math.IsNaN(h.sum) || math.IsInf(h.sum, 0) || h.sum < 0 || h.count > maxCount {
		return false
	}
	last := bound{}
	for i, b := range h.bounds {
		if math.IsNaN(b.upTo) || b.upTo < last.upTo || i > 0 && b.upTo == last.upTo || b.below < last.below || b.below > h.count ||
			math.IsInf(b.upTo, 1) && b.below != h.count {
			return false
		}
		last = b
	}
	return true
}

// restarted reports whether the server has started to count anew since its state was last: a count fell.
func (s *state) restarted(last *state) bool {
	for i := range tick.InferenceNumbers {
		f := &tick.InferenceNumbers[i]
		if v, ok := s.numbers[f.Name]; ok && f.Counter && v < last.numbers[f.Name] {
			return true
		}
	}
	for name, h := range s.durations {
		if h.count < last.durations[name].count {
			return true
		}
	}
	return false
}

// fill fills a read from the server's state, and from its state at the last read; nil: there was
// none. A counter that fell has no growth: the server has started to count anew.
func (s *state) fill(x *tick.Inference, last *state) {
	for i := range tick.InferenceNumbers {
		f := &tick.InferenceNumbers[i]
		v, ok := s.numbers[f.Name]
		if ok && f.Counter {
			var before float64
			if ok = last != nil; ok {
				before, ok = last.numbers[f.Name]
			}
			v, ok = v-before, ok && v >= before
		}
		if ok {
			*f.Value(x) = &v
		}
	}
	if last == nil {
		return
	}
	for i := range tick.InferenceDurations {
		f := &tick.InferenceDurations[i]
		now, ok := s.durations[f.Name]
		if before, had := last.durations[f.Name]; ok && had {
			*f.Value(x) = now.since(&before)
		}
	}
}

// since returns the growth of a histogram, nil if it is unknown.
func (h *histogram) since(last *histogram) *tick.Durations {
	if h.count < last.count || h.sum < last.sum || len(h.bounds) != len(last.bounds) {
		return nil
	}
	d := &tick.Durations{Count: h.count - last.count, Sum: h.sum - last.sum}
	var below bound // of the growth
	for i, b := range h.bounds {
		was := last.bounds[i]
		if b.upTo != was.upTo || b.below < was.below || b.below-was.below < below.below || b.below-was.below > d.Count {
			return nil
		}
		if n := b.below - was.below - below.below; n > 0 {
			x := tick.DurationBucket{Over: below.upTo, Count: n}
			if !math.IsInf(b.upTo, 0) {
				x.UpTo = b.upTo
			}
			d.Buckets = append(d.Buckets, x)
		}
		below = bound{b.upTo, b.below - was.below}
	}
	if n := d.Count - below.below; n > 0 && len(h.bounds) > 0 { // the endpoint leaves out the last bucket
		d.Buckets = append(d.Buckets, tick.DurationBucket{Over: below.upTo, Count: n})
	}
	return d
}
