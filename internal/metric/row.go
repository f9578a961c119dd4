package metric

import "strings"

// ID is a metric: its index in [Rows].
type ID uint8

// Kind is the kind of a metric.
type Kind uint8

// The kinds.
const (
	Gauge     Kind = iota + 1 // current value
	Counter                   // since the session's start; never falls while its series lasts
	Histogram                 // a distribution, since the session's start
)

var kindNames = [...]string{"", "gauge", "counter", "histogram"}

// String returns the lower-case name.
func (k Kind) String() string { return kindNames[k] }

// Row defines a metric.
type Row struct {
	Name string // OpenTelemetry's name
	Kind Kind
	// Unit is in UCUM: "s", "By", "1" for a ratio, "{call}" for a number of calls, "" for no unit.
	Unit   string
	Help   string // one line, a full sentence
	Labels []string
	Most   int    // maximum number of series; of a histogram the distributions
	Use    string // an example in PromQL
}

// unitNames are the units in Prometheus names.
var unitNames = map[string]string{"s": "seconds", "By": "bytes", "Cel": "celsius", "W": "watts", "Hz": "hertz", "By/s": "bytes_per_second"}

// Prometheus returns the metric's name in Prometheus, by OpenTelemetry's rules: dots become
// underscores, the unit is included, and counters end in _total.
func (r *Row) Prometheus() string {
	name := strings.ReplaceAll(r.Name, ".", "_")
	unit := unitNames[r.Unit]
	if r.Unit == "1" && r.Kind == Gauge {
		unit = "ratio"
	}
	if unit != "" && !strings.HasSuffix(name, "_"+unit) {
		name += "_" + unit
	}
	if r.Kind == Counter {
		name += "_total"
	}
	return name
}

// Label returns a label's name in Prometheus.
func Label(name string) string { return strings.ReplaceAll(name, ".", "_") }
