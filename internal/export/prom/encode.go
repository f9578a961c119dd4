package prom

import (
	"cmp"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"ingero/internal/metric"
)

// families renders a snapshot, ordered by name and labels.
func families(s *metric.Snapshot) []*dto.MetricFamily {
	started := timestamppb.New(s.Started)
	out := make([]*dto.MetricFamily, 0, len(s.Families))
	for i := range s.Families {
		out = append(out, family(&s.Families[i], s, started))
	}
	slices.SortFunc(out, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
	return out
}

var types = map[metric.Kind]*dto.MetricType{
	metric.Gauge:     dto.MetricType_GAUGE.Enum(),
	metric.Counter:   dto.MetricType_COUNTER.Enum(),
	metric.Histogram: dto.MetricType_HISTOGRAM.Enum(),
}

func family(f *metric.Family, s *metric.Snapshot, started *timestamppb.Timestamp) *dto.MetricFamily {
	points := slices.Clone(f.Points)
	slices.SortFunc(points, func(a, b metric.Point) int { return slices.Compare(a.Labels, b.Labels) })
	names := make([]*string, len(f.Labels))
	order := make([]int, len(f.Labels)) // labels sorted by name
	for i, name := range f.Labels {
		names[i], order[i] = proto.String(metric.Label(name)), i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(*names[a], *names[b]) })
	out := &dto.MetricFamily{Name: proto.String(f.Prometheus()), Help: &f.Help, Type: types[f.Kind], Metric: make([]*dto.Metric, 0, len(points))}
	for i := range points {
		p := &points[i]
		m := &dto.Metric{Label: make([]*dto.LabelPair, 0, len(p.Labels))}
		for _, at := range order[:len(p.Labels)] {
			m.Label = append(m.Label, &dto.LabelPair{Name: names[at], Value: &p.Labels[at]})
		}
		switch f.Kind {
		case metric.Gauge:
			m.Gauge = &dto.Gauge{Value: &p.Value}
		case metric.Counter:
			m.Counter = &dto.Counter{Value: &p.Value, CreatedTimestamp: started}
			if n := len(p.Exemplars); n > 0 {
				m.Counter.Exemplar = link(&p.Exemplars[n-1], s)
			}
		case metric.Histogram:
			m.Histogram = histogram(p, s, started)
		}
		out.Metric = append(out.Metric, m)
	}
	return out
}

// histogram renders a distribution as a classic and as a native histogram.
func histogram(p *metric.Point, s *metric.Snapshot, started *timestamppb.Timestamp) *dto.Histogram {
	h := &dto.Histogram{
		SampleCount: proto.Uint64(p.Dist.Count()), SampleSum: proto.Float64(p.Dist.Sum()), CreatedTimestamp: started,
		Bucket: make([]*dto.Bucket, len(metric.Bounds)),
	}
	for i, n := range p.Dist.Classic() {
		h.Bucket[i] = &dto.Bucket{UpperBound: &metric.Bounds[i], CumulativeCount: &n}
	}
	native(h, p.Dist.Exponential())
	for i := range p.Exemplars {
		e := link(&p.Exemplars[i], s)
		h.Exemplars = append(h.Exemplars, e)
		at, _ := slices.BinarySearch(metric.Bounds[:], e.GetValue())
		if at < len(h.Bucket) {
			h.Bucket[at].Exemplar = e
		}
	}
	slices.SortFunc(h.Exemplars, func(a, b *dto.Exemplar) int { return a.GetTimestamp().AsTime().Compare(b.GetTimestamp().AsTime()) })
	return h
}

// zeroWidth is the width of the zero bucket, as in client libraries: 2^-128.
const zeroWidth = 2.938735877055719e-39

// mostGap is the largest run of empty buckets that is cheaper than a new span.
const mostGap = 2

// native fills in a native histogram's buckets: spans, and each bucket as the difference from the
// previous one.
func native(h *dto.Histogram, e *metric.Exponential) {
	h.Schema, h.ZeroThreshold, h.ZeroCount = &e.Scale, proto.Float64(zeroWidth), &e.Zero
	var span *dto.BucketSpan
	before, end := int64(0), int32(0)
	put := func(n uint64) {
		*span.Length++
		h.PositiveDelta = append(h.PositiveDelta, int64(n)-before)
		before = int64(n)
		end++
	}
	for i, n := range e.Counts {
		at := e.First + int32(i)
		switch {
		case n == 0:
			continue
		case span == nil || at-end > mostGap:
			span = &dto.BucketSpan{Offset: proto.Int32(at - end), Length: proto.Uint32(0)}
			h.PositiveSpan = append(h.PositiveSpan, span)
			end = at
		}
		for end < at {
			put(0)
		}
		put(n)
	}
}

// link renders an exemplar: a chain, for ingero explain.
func link(e *metric.Exemplar, s *metric.Snapshot) *dto.Exemplar {
	at := s.Wall(e.Time)
	if e.Time.IsZero() {
		at = time.Unix(0, 0)
	}
	return &dto.Exemplar{
		Label:     []*dto.LabelPair{{Name: proto.String("chain"), Value: &e.Chain}, {Name: proto.String("rule"), Value: &e.Rule}},
		Value:     &e.Value,
		Timestamp: timestamppb.New(at),
	}
}
