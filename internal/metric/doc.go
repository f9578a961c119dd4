// Package metric makes metrics of a session's ticks: one table defines them, with names, units,
// labels and the maximum number of series of each, and a [Meter] sums up the ticks. It does no I/O
// and knows no format: Prometheus and OTLP render its snapshots. docs/reference/metrics.md is its
// table.
package metric
