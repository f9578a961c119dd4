// Package prom serves metrics to Prometheus: as text, as OpenMetrics, and as protobuf with
// native histograms beside classic ones, whichever is asked for. Beside them it tells
// whether the trace is alive and ready. Whoever asks gets what the last tick brought; a
// reader that hangs is let go, and nobody waits for it. It is started by commands that
// trace.
package prom
