package otlp

import (
	"time"

	collectorpb "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/slim/otlp/metrics/v1"

	"ingero/internal/metric"
)

// upDown are the gauges that the semantic conventions define as up-down counters.
var upDown = map[string]bool{"hw.gpu.memory.usage": true, "hw.gpu.memory.limit": true}

// The exporter's own metrics.
const (
	sentName = "ingero.otlp.item.sent"
	lostName = "ingero.otlp.item.lost"
)

// Publish takes a tick's metrics, and sends them at the interval. It may run on another goroutine
// than the other methods, but not concurrently with itself.
func (x *Exporter) Publish(s *metric.Snapshot) {
	to := x.senders[Metrics]
	if to == nil {
		return
	}
	x.latest.Store(s)
	if !x.metered.IsZero() && s.Time.Sub(x.metered) < x.Interval-time.Second/2 {
		return
	}
	x.metered = s.Time
	to.enqueue(x.metrics(s))
}

// metrics makes a load of a snapshot.
func (x *Exporter) metrics(s *metric.Snapshot) load {
	all := make([]*metricspb.Metric, 0, len(s.Families)+2)
	for i := range s.Families {
		all = append(all, family(&s.Families[i], s))
	}
	return x.metricLoad(append(all, x.own(s)...))
}

// metricLoad makes a load of metrics. Its halves have half of the metrics, or of the only one's points.
func (x *Exporter) metricLoad(list []*metricspb.Metric) load {
	m := &collectorpb.ExportMetricsServiceRequest{ResourceMetrics: []*metricspb.ResourceMetrics{{
		Resource: agentResource(&x.Options), ScopeMetrics: []*metricspb.ScopeMetrics{{Scope: scope(x.Version), Metrics: list}}}}}
	points := 0
	for _, one := range list {
		points += len(one.GetSum().GetDataPoints()) + len(one.GetGauge().GetDataPoints()) + len(one.GetExponentialHistogram().GetDataPoints())
	}
	return ready{m, points, sizeOf(m), func() []load {
		if len(list) == 1 {
			return x.pointHalves(list[0])
		}
		return inHalves(list, x.metricLoad)
	}}
}

// pointHalves returns the loads of the halves of a metric's points.
func (x *Exporter) pointHalves(m *metricspb.Metric) []load {
	with := func(half *metricspb.Metric) load {
		half.Name, half.Description, half.Unit = m.Name, m.Description, m.Unit
		return x.metricLoad([]*metricspb.Metric{half})
	}
	switch d := m.Data.(type) {
	case *metricspb.Metric_Sum:
		return inHalves(d.Sum.DataPoints, func(half []*metricspb.NumberDataPoint) load {
			return with(&metricspb.Metric{Data: &metricspb.Metric_Sum{Sum: &metricspb.Sum{
				AggregationTemporality: d.Sum.AggregationTemporality, IsMonotonic: d.Sum.IsMonotonic, DataPoints: half}}})
		})
	case *metricspb.Metric_Gauge:
		return inHalves(d.Gauge.DataPoints, func(half []*metricspb.NumberDataPoint) load {
			return with(&metricspb.Metric{Data: &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{DataPoints: half}}})
		})
	case *metricspb.Metric_ExponentialHistogram:
		return inHalves(d.ExponentialHistogram.DataPoints, func(half []*metricspb.ExponentialHistogramDataPoint) load {
			return with(&metricspb.Metric{Data: &metricspb.Metric_ExponentialHistogram{ExponentialHistogram: &metricspb.ExponentialHistogram{
				AggregationTemporality: d.ExponentialHistogram.AggregationTemporality, DataPoints: half}}})
		})
	}
	return nil
}

// family returns a metric. All sums start at the session's start.
func family(f *metric.Family, s *metric.Snapshot) *metricspb.Metric {
	m := &metricspb.Metric{Name: f.Name, Description: f.Help, Unit: f.Unit}
	switch {
	case f.Kind == metric.Histogram:
		m.Data = &metricspb.Metric_ExponentialHistogram{ExponentialHistogram: histogram(f, s)}
	case f.Kind == metric.Counter || upDown[f.Name]:
		m.Data = &metricspb.Metric_Sum{Sum: &metricspb.Sum{AggregationTemporality: metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE,
			IsMonotonic: f.Kind == metric.Counter, DataPoints: numbers(f, s)}}
	default:
		m.Data = &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{DataPoints: numbers(f, s)}}
	}
	return m
}

// labels returns a point's attributes, without empty ones.
func labels(f *metric.Family, p *metric.Point) []*commonpb.KeyValue {
	var a attrs
	for i, value := range p.Labels {
		a.text(f.Labels[i], value)
	}
	return a.take()
}

func numbers(f *metric.Family, s *metric.Snapshot) []*metricspb.NumberDataPoint {
	out := make([]*metricspb.NumberDataPoint, len(f.Points))
	for i := range f.Points {
		p := &f.Points[i]
		out[i] = &metricspb.NumberDataPoint{Attributes: labels(f, p), TimeUnixNano: uint64(s.Wall(s.Time).UnixNano()),
			Value: &metricspb.NumberDataPoint_AsDouble{AsDouble: p.Value}}
		if f.Kind != metric.Gauge {
			out[i].StartTimeUnixNano = uint64(s.Started.UnixNano())
			out[i].Exemplars = exemplars(p, s)
		}
	}
	return out
}

func histogram(f *metric.Family, s *metric.Snapshot) *metricspb.ExponentialHistogram {
	out := &metricspb.ExponentialHistogram{AggregationTemporality: metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE}
	for i := range f.Points {
		p := &f.Points[i]
		e := p.Dist.Exponential()
		sum, least, most := p.Dist.Sum(), p.Dist.Min(), p.Dist.Max()
		d := &metricspb.ExponentialHistogramDataPoint{Attributes: labels(f, p), TimeUnixNano: uint64(s.Wall(s.Time).UnixNano()),
			StartTimeUnixNano: uint64(s.Started.UnixNano()), Count: p.Dist.Count(), Sum: &sum, Scale: e.Scale, ZeroCount: e.Zero, Exemplars: exemplars(p, s)}
		if d.Count > 0 {
			d.Min, d.Max = &least, &most
		}
		if len(e.Counts) > 0 { // OpenTelemetry's numbers are one less
			d.Positive = &metricspb.ExponentialHistogramDataPoint_Buckets{Offset: e.First - 1, BucketCounts: e.Counts}
		}
		out.DataPoints = append(out.DataPoints, d)
	}
	return out
}

// exemplars link a point to chains.
func exemplars(p *metric.Point, s *metric.Snapshot) (out []*metricspb.Exemplar) {
	for _, e := range p.Exemplars {
		var a attrs
		a.text("ingero.chain.id", e.Chain)
		a.text("ingero.chain.rule", e.Rule)
		out = append(out, &metricspb.Exemplar{FilteredAttributes: a.take(), TimeUnixNano: uint64(s.Wall(e.Time).UnixNano()),
			Value: &metricspb.Exemplar_AsDouble{AsDouble: e.Value}})
	}
	return out
}

// own returns the exporter's metrics: the state of its items.
func (x *Exporter) own(s *metric.Snapshot) []*metricspb.Metric {
	sum := func(name, help string) (*metricspb.Metric, *metricspb.Sum) {
		data := &metricspb.Sum{AggregationTemporality: metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE, IsMonotonic: true}
		return &metricspb.Metric{Name: name, Unit: "{item}", Description: help, Data: &metricspb.Metric_Sum{Sum: data}}, data
	}
	point := func(to *metricspb.Sum, n uint64, a *attrs) {
		to.DataPoints = append(to.DataPoints, &metricspb.NumberDataPoint{Attributes: a.take(), TimeUnixNano: uint64(s.Wall(s.Time).UnixNano()),
			StartTimeUnixNano: uint64(s.Started.UnixNano()), Value: &metricspb.NumberDataPoint_AsInt{AsInt: int64(n)}})
	}
	sent, sentData := sum(sentName, "Spans, data points and log records that the receiver accepted.")
	lost, lostData := sum(lostName, "Spans, data points and log records that were not delivered, by reason.")
	for _, t := range x.State() {
		var a attrs
		a.text("signal", t.Signal.String())
		point(sentData, t.Items, &a)
		for why, n := range t.Lost {
			a.text("signal", t.Signal.String())
			a.text("reason", why)
			point(lostData, n, &a)
		}
	}
	if len(lostData.DataPoints) == 0 {
		return []*metricspb.Metric{sent}
	}
	return []*metricspb.Metric{sent, lost}
}
