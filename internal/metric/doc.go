// Package metric makes metrics of a session's ticks: one table says what there is of them,
// with names, units, labels and how many series each has at most, and a [Meter] adds up
// what the ticks bring. It opens nothing and knows no format. Prometheus and OTLP render
// what it has, and docs/reference/metrics.md is its table.
package metric
