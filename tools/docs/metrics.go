package main

import (
	"fmt"
	"strings"

	"ingero/internal/metric"
)

const metricsHead = `# Metrics

<!-- Generated from internal/metric by make docs. -->

What ` + "`ingero trace --prometheus :9090`" + ` serves ([prometheus.md](../guides/prometheus.md)), and what ` + "`--otlp`" + `
sends: the first name is OpenTelemetry's, the second Prometheus's. Counters and histograms
begin with the trace, and do not fall.

How many series a metric may have is bounded, and the bound stands below. What has no room
is added to a series whose labels are ` + "`other`" + `, or left out of a gauge, and
` + "`ingero_metric_overflow_total`" + ` counts that; ` + "`ingero_metric_series`" + ` and ` + "`ingero_metric_series_limit`" + `
tell how near the bound is. A process that has ended keeps its series for five minutes.
A histogram has %d series in Prometheus for each that it counts as here, or one where native
histograms are on.

`

// metrics renders the table of metrics.
func metrics() string {
	var b strings.Builder
	fmt.Fprintf(&b, metricsHead, len(metric.Bounds)+3)
	b.WriteString("| OpenTelemetry | Prometheus | type | unit | labels | series at most |\n|---|---|---|---|---|---|\n")
	for i := range metric.Rows {
		r := &metric.Rows[i]
		labels := ""
		if len(r.Labels) > 0 {
			labels = "`" + strings.Join(r.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | [`%s`](#%s) | %s | %s | %s | %d |\n", r.Name, r.Prometheus(), r.Prometheus(), r.Kind, r.Unit, labels, r.Most)
	}
	b.WriteString("\nThe dot of a label is an underscore in Prometheus.\n")
	for i := range metric.Rows {
		r := &metric.Rows[i]
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n    %s\n", r.Prometheus(), r.Help, r.Use)
	}
	return b.String()
}
