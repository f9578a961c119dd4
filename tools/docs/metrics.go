package main

import (
	"fmt"
	"strings"

	"ingero/internal/metric"
)

const metricsHead = `# Metrics

<!-- Generated from internal/metric by make docs. -->

For people who write queries and alerts: the metrics that ` + "`ingero trace --prometheus :9090`" + ` serves
([prometheus.md](../guides/prometheus.md)) and ` + "`--otlp`" + ` sends. The first name is the OpenTelemetry name,
the second the Prometheus name. Counters and histograms begin with the trace. While a series
lasts, they never decrease.

Each metric has a limit on its number of series, shown below. Above the limit, counters, histograms and the
gauges of inference servers add new values to a series with the labels ` + "`other`" + `; other gauges and
` + "`ingero_step_duration_seconds`" + ` leave them out. ` + "`ingero_metric_overflow_total`" + ` counts these cases.
` + "`ingero_metric_series`" + ` and ` + "`ingero_metric_series_limit`" + ` show how near a metric is to its limit. At the
limit, a model, server, culprit or rank without a new value for 30 minutes is evicted for a new one: its series
ends. If it comes back later, its new series begins at zero. A process that has ended keeps its series for five
minutes. In Prometheus, each histogram series of this table is %d series, or one series with native histograms.

`

// metrics renders the table of metrics.
func metrics() string {
	var b strings.Builder
	fmt.Fprintf(&b, metricsHead, len(metric.Bounds)+3)
	b.WriteString("| OpenTelemetry | Prometheus | type | unit | labels | series limit |\n|---|---|---|---|---|---|\n")
	for i := range metric.Rows {
		r := &metric.Rows[i]
		labels := ""
		if len(r.Labels) > 0 {
			labels = "`" + strings.Join(r.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | [`%s`](#%s) | %s | %s | %s | %d |\n", r.Name, r.Prometheus(), r.Prometheus(), r.Kind, r.Unit, labels, r.Most)
	}
	b.WriteString("\nIn Prometheus, a dot in a label is an underscore.\n")
	for i := range metric.Rows {
		r := &metric.Rows[i]
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n    %s\n", r.Prometheus(), r.Help, r.Use)
	}
	return b.String()
}
