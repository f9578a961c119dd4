// Package prom serves metrics to Prometheus: as text, as OpenMetrics, and as protobuf with both
// native and classic histograms, by content negotiation. It also has health and readiness
// endpoints. Scrapes get the last tick's metrics. Hanging clients are disconnected, and nothing
// waits for them. Commands that trace start it.
package prom
