package otlp

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/url"
	"time"
)

// Signal is a kind of telemetry.
type Signal uint8

// The signals.
const (
	Metrics Signal = iota
	Traces
	Logs
	Signals
)

// signalRow holds the differences between signals.
type signalRow struct {
	name string // for messages
	env  string // in names of variables
	path string // of HTTP, below the endpoint
	rpc  string // of gRPC
}

var signalRows = [Signals]signalRow{
	Metrics: {"metrics", "METRICS", "v1/metrics", "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"},
	Traces:  {"traces", "TRACES", "v1/traces", "/opentelemetry.proto.collector.trace.v1.TraceService/Export"},
	Logs:    {"logs", "LOGS", "v1/logs", "/opentelemetry.proto.collector.logs.v1.LogsService/Export"},
}

// String returns "metrics", "traces" or "logs".
func (s Signal) String() string { return signalRows[s].name }

// Protocol is the protocol of a receiver.
type Protocol string

// The protocols, as OTEL_EXPORTER_OTLP_PROTOCOL names them.
const (
	HTTPProtobuf Protocol = "http/protobuf"
	HTTPJSON     Protocol = "http/json"
	GRPC         Protocol = "grpc"
)

// Spans selects the calls that become spans.
type Spans string

// The choices.
const (
	SpansAll     Spans = "all"
	SpansNotable Spans = "notable" // slow, failed or sampled
	SpansOff     Spans = "off"     // no spans of chains either
)

// Target is a signal's receiver.
type Target struct {
	URL      *url.URL // of requests; nil: the signal is off
	Protocol Protocol
	Header   http.Header
	Gzip     bool
	Timeout  time.Duration // of one request
	TLS      *tls.Config   // nil: the machine's certificates
}

// Clear reports whether headers, which may be secret, go over a network unencrypted.
func (t *Target) Clear() bool {
	return t.URL != nil && t.URL.Scheme == "http" && len(t.Header) > 0 && !loopback(t.URL.Hostname())
}

// Attr is an attribute.
type Attr struct{ Key, Value string }

// Clock is an exporter's clock.
type Clock interface {
	Now() time.Time
	// After delivers once after d.
	After(d time.Duration) <-chan time.Time
}

type realClock struct{}

func (realClock) Now() time.Time                         { return time.Now() }
func (realClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// Options select what is sent where. At least one signal needs a target.
type Options struct {
	Targets  [Signals]Target
	Spans    Spans         // empty: notable
	Interval time.Duration // between metrics; 0: 10 s
	Node     string        // name of this machine
	Version  string        // of ingero
	Resource []Attr        // more attributes of everything sent; they override the exporter's own
	Log      *slog.Logger  // nil: none
	Clock    Clock         // nil: the machine's
	// QueueBytes bounds the memory of each signal's queue, unless it holds a single larger load; 0: 8 MiB.
	QueueBytes int
	// Flush bounds the wait for the rest at the session's end; 0: 5 s.
	Flush time.Duration
}

func (o *Options) complete() {
	if o.Spans == "" {
		o.Spans = SpansNotable
	}
	if o.Spans == SpansOff {
		o.Targets[Traces].URL = nil
	}
	if o.Interval == 0 {
		o.Interval = 10 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = realClock{}
	}
	if o.QueueBytes == 0 {
		o.QueueBytes = 8 << 20
	}
	if o.Flush == 0 {
		o.Flush = 5 * time.Second
	}
}
