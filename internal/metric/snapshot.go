package metric

import "time"

// Snapshot is all metrics at one time. It is immutable, and safe for concurrent use.
type Snapshot struct {
	Time    time.Time     // of the tick
	Taken   time.Time     // when it was made, by a monotonic clock
	Started time.Time     // start of counters and histograms, not after Wall(Time)
	Ahead   time.Duration // of the wall clock, as in [tick.Tick]
	// Families are the metrics that have points, by [ID].
	Families []Family
}

// Wall returns a time of the tick, or of an exemplar, by the wall clock.
func (s *Snapshot) Wall(t time.Time) time.Time { return t.Add(s.Ahead) }

// Family is a metric and its points.
type Family struct {
	*Row
	Points []Point
}

// Point is one series.
type Point struct {
	Labels []string // as in [Row.Labels]; empty: none
	Value  float64  // of gauges and counters
	Dist   *Distribution
	// Exemplars has the latest cause of lost time of the point, if any. A histogram's exemplar has
	// a duration in it as its Value.
	Exemplars []Exemplar
}

// Exemplar links a point to a chain.
type Exemplar struct {
	Chain, Rule string // Chain is an ID, for ingero explain
	Value       float64
	Time        time.Time
}

// point appends a point, unless the metric has its maximum number.
func (m *Meter) point(id ID, p Point) {
	f := &m.families[id]
	if len(f.Points) >= Rows[id].Most {
		m.over[id]++
		return
	}
	f.Points = append(f.Points, p)
}

// set appends a point of a gauge, or of a counter with the sum from the tick.
func (m *Meter) set(id ID, v float64, labels ...string) {
	m.point(id, Point{Labels: labels, Value: v})
}
