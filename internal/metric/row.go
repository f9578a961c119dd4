package metric

import "strings"

// ID is a metric: its place in [Rows].
type ID uint8

// Kind says how the values of a metric go.
type Kind uint8

// The kinds.
const (
	Gauge     Kind = iota + 1 // as it is now
	Counter                   // since the session began; it does not fall
	Histogram                 // a distribution, since the session began
)

var kindNames = [...]string{"", "gauge", "counter", "histogram"}

// String returns the lower-case name.
func (k Kind) String() string { return kindNames[k] }

// Row is what is said of a metric.
type Row struct {
	Name string // as OpenTelemetry writes it
	Kind Kind
	// Unit is in UCUM: "s", "By", "1" for a ratio, "{call}" for a number of calls, "" for
	// what has none.
	Unit   string
	Help   string // one line, a full sentence
	Labels []string
	Most   int    // series there are at most; of a histogram the distributions
	Use    string // an example in PromQL
}

// unitNames are the units as Prometheus has them in names.
var unitNames = map[string]string{"s": "seconds", "By": "bytes", "Cel": "celsius", "W": "watts", "Hz": "hertz", "By/s": "bytes_per_second"}

// Prometheus returns the name of the metric in Prometheus, by the rules that OpenTelemetry
// has for it: dots are underscores, the unit is in it, and counters end in _total.
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

// Label returns the name of a label in Prometheus.
func Label(name string) string { return strings.ReplaceAll(name, ".", "_") }
